//! A server of NFS 4.2 that has copied, and cannot say so: its call back gets lost with the connection.

use std::fs;
use std::path::Path;

use haul_testbed::guest::Noise;

use super::nfs;
use crate::haul;
use crate::lab::{Found, Lab, Outcome};
use crate::{tool, tree};

/// Files and their sizes, copied one after the other; of the first one nobody hears again, and it takes its time.
const FILES: [(&str, usize); 2] = [("first", 192 << 20), ("second", 8 << 20)];

/// Plays it.
pub fn run(lab: &mut Lab) -> Result<(), String> {
    let shared = nfs::served(lab, "ext4")?;
    fs::create_dir(shared.join("source")).map_err(|error| format!("a directory: {error}"))?;
    for ((name, size), seed) in FILES.into_iter().zip(1..) {
        let path = shared.join("source").join(name);
        fs::write(&path, Noise::new(seed).bytes(size)).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    lab.check("COPY whose call back gets lost", || lost(shared));
    Ok(())
}

fn lost(shared: &Path) -> Outcome {
    tree::forget_cache()?;
    tool::run("modprobe tcp_diag")?;
    let asked = || nfs::calls(shared).map(|calls| nfs::count(&calls, "COPY"));
    let before = asked()?;
    let copy = haul::start(&format!("-rT --jobs=1 {0}/source {0}/copy", shared.display()))?;
    tool::until("the server is asked to copy", || asked().is_ok_and(|now| now > before))?;
    // The server has copied when its disk has all of it.
    tool::run("dmsetup suspend --nolockfs --noflush exported")?;
    let closed = tool::run("ss -K -t state established sport = :2049");
    tool::run("dmsetup resume --noudevrules --noudevsync exported")?;
    let run = copy.finish()?;
    closed?;
    if run.failed() || !run.said.is_empty() {
        return Err(run.report().into());
    }
    tree::forget_cache()?;
    for (name, _) in FILES {
        tool::run(&format!("cmp {0}/source/{name} {0}/copy/{name}", nfs::EXPORTED))?;
    }
    match run.bytes("written") {
        0 => Err(format!("the server has answered: {}", run.report()).into()),
        _ => Ok(Found::new(&run, "went on without the server's answer, equal")),
    }
}
