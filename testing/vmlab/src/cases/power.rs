//! The power of a device is cut, as dm-log-writes has recorded it: at each flush, with any part of what came after it.

use std::fs::{self, File};
use std::path::Path;

use haul_testbed::guest::Noise;
use haul_testbed::writes::WriteLog;

use super::faults::judge;
use crate::haul;
use crate::lab::{Found, Lab};
use crate::tool;
use crate::tree::{self, ALL};

const IMAGE: &str = "/tmp/image";
const CUT: &str = "/tmp/cut";

/// How many cuts of each filesystem.
const CUTS: usize = 12;

/// Plays it.
pub fn run(lab: &mut Lab) -> Result<(), String> {
    let source = lab.mounted("ext4", "source", 256)?.join("tree");
    tree::plant(&source, ALL)?;
    tool::run("modprobe dm-log-writes")?;
    tool::run("modprobe loop")?;
    for kind in ["ext4", "xfs"] {
        let disk = lab.disk(&format!("disk-{kind}"), 320)?;
        let log = lab.disk(&format!("log-{kind}"), 320)?;
        disk.format(kind)?;
        tool::run(&format!("cp --sparse=always {} {IMAGE}", disk.path().display()))?;
        let table = format!("0 {} log-writes {} {}\n", disk.sectors, disk.path().display(), log.path().display());
        let logged = lab.device(&format!("logged-{kind}"), disk.sectors, &table)?;
        let at = logged.mount(kind)?;
        let run = haul::right(&format!("-a --durable=file -T {} {}/tree", source.display(), at.display()))?;
        tool::run(&format!("dmsetup message {} 0 mark copied", logged.name))?;
        tool::run(&format!("umount {}", at.display()))?;
        tool::run(&format!("dmsetup remove --noudevsync {}", logged.name))?;
        lab.check(&format!("{kind}: power cuts of --durable=file"), || {
            let log = WriteLog::open_finished(&log.path())?;
            let outcome = cuts(kind, &source, &log)?;
            Ok(Found::new(&run, outcome))
        });
        for file in [IMAGE, CUT] {
            tool::run(&format!("rm -f {file}"))?;
        }
    }
    Ok(())
}

fn cuts(kind: &str, source: &Path, log: &WriteLog) -> Result<String, String> {
    use haul_testbed::writes::Kind;
    let flushes = log.flushes();
    let mark = log.entries().iter().position(|entry| entry.kind == Kind::Mark).ok_or("the remark is not in the log")?;
    let image = File::options().write(true).open(IMAGE).map_err(|error| error.to_string())?;
    let (mut noise, mut done, mut whole, mut absent, mut complete) = (Noise::new(1), 0, 0, 0, 0);
    let count = CUTS.min(flushes.len());
    for cut in 0..count {
        let flush = flushes.len() * (cut + 1) / count - 1;
        let certain = flushes[flush] + 1;
        (done..certain).for_each(|request| log.apply(request, &image));
        done = certain;
        let next = flushes.get(flush + 1).copied().unwrap_or(log.entries().len());
        tool::run(&format!("cp --sparse=always {IMAGE} {CUT}"))?;
        let file = File::options().write(true).open(CUT).map_err(|error| error.to_string())?;
        log.apply_some(certain..next, &file, &mut noise);
        drop(file);
        let at = Path::new("/tmp/guest/cut");
        fs::create_dir_all(at).map_err(|error| error.to_string())?;
        let about = format!("{kind}, cut after flush {flush} of {}", flushes.len());
        tool::run(&format!("mount -t {kind} -o loop {CUT} {}", at.display()))
            .map_err(|why| format!("{about}: {why}"))?;
        let judged = judge(source, &at.join("tree"), "").map_err(|why| format!("{about}: {why}"));
        tool::run(&format!("umount {}", at.display()))?;
        let (files, missing) = judged?;
        if certain > mark {
            complete += 1;
            if missing > 0 {
                return Err(format!("{about}, after haul had ended: {missing} files are gone"));
            }
        }
        whole += files;
        absent += missing;
    }
    let requests = log.entries().len();
    Ok(format!(
        "{count} cuts at {} flushes in {requests} requests, {complete} after the end: {whole} files whole, {absent} \
         absent before the end, none torn",
        flushes.len()
    ))
}
