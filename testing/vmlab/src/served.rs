//! What a machine serves to others, and what these have of it.

use std::fs;
use std::path::Path;

use crate::lab::Lab;
use crate::server::{self, OPTIONS};
use crate::tool;

/// The filesystems, by their kinds. The server has them below [`SERVED`], its clients below [`SHARED`].
pub const KINDS: [&str; 2] = ["ext4", "xfs"];

/// Where the server has them.
pub const SERVED: &str = "/srv";

/// Where each client has them.
pub const SHARED: &str = "/shared";

/// Says on the server that it serves.
pub const READY: &str = "/run/serving";

const MIB: u64 = 2048;

/// Begins to serve, or goes on with what was there when this machine lost its power.
pub fn begin(lab: &mut Lab) -> Result<(), String> {
    let mut exports = format!("{SERVED} *({OPTIONS},fsid=0)\n");
    for (number, kind) in (1..).zip(KINDS) {
        let disk = lab.disk(kind, MIB)?;
        let at = Path::new(SERVED).join(kind);
        fs::create_dir_all(&at).map_err(|error| format!("{}: {error}", at.display()))?;
        let mount = format!("mount -t {kind} {} {}", disk.path().display(), at.display());
        if tool::run(&mount).is_err() {
            disk.format(kind)?;
            tool::run(&mount)?;
        }
        exports += &format!("{} *({OPTIONS},fsid={number})\n", at.display());
    }
    // The system's disk is as new each time, and a server must know its clients again, or they may not go on.
    let kept = Path::new(SERVED).join(KINDS[0]).join(".server");
    if !kept.exists() {
        tool::run(&format!("cp -a /var/lib/nfs {}", kept.display()))?;
    }
    tool::run(&format!("mount --bind {} /var/lib/nfs", kept.display()))?;
    server::start(&exports)?;
    fs::write(READY, "").map_err(|error| format!("{READY}: {error}"))
}

/// Mounts all of it, as clients do by default.
pub fn mount() -> Result<(), String> {
    tool::run("modprobe nfs")?;
    for kind in KINDS {
        let at = Path::new(SHARED).join(kind);
        fs::create_dir_all(&at).map_err(|error| format!("{}: {error}", at.display()))?;
        let line = format!("mount -t nfs4 -o vers=4.2 server:/{kind} {}", at.display());
        tool::until(&line, || tool::run(&line).is_ok())?;
    }
    fs::write(READY, "").map_err(|error| format!("{READY}: {error}"))
}
