//! The NFS server of a machine.

use std::fs;

use crate::tool;

/// How a directory is exported.
pub const OPTIONS: &str = "rw,no_root_squash,no_subtree_check,insecure";

/// Starts a server for what this table says (exports(5)).
pub fn start(exports: &str) -> Result<(), String> {
    for module in ["nfsd", "nfs"] {
        tool::run(&format!("modprobe {module}"))?;
    }
    let mounts = [("nfsd", "/proc/fs/nfsd"), ("rpc_pipefs", "/var/lib/nfs/rpc_pipefs")];
    for (kind, at) in mounts {
        if tool::run(&format!("mountpoint -q {at}")).is_err() {
            tool::run(&format!("mount -t {kind} {kind} {at}"))?;
        }
    }
    // After a restart clients have so long to say what they hold. The default is 90 s.
    for time in ["nfsv4leasetime", "nfsv4gracetime"] {
        fs::write(format!("/proc/fs/nfsd/{time}"), "10").map_err(|error| format!("{time}: {error}"))?;
    }
    fs::write("/etc/exports", exports).map_err(|error| error.to_string())?;
    tool::run("exportfs -ra")?;
    if tool::run("pidof rpc.mountd").is_err() {
        tool::run("nfsdcld")?;
        tool::run("rpc.mountd --no-nfs-version 3 --no-udp")?;
    }
    serve(8)
}

/// How many threads the server has; none ends it.
pub fn serve(threads: u32) -> Result<(), String> {
    tool::run(&format!("rpc.nfsd --no-udp --no-nfs-version 3 --nfs-version 4.2 {threads}"))?;
    let now = fs::read_to_string("/proc/fs/nfsd/threads").map_err(|error| error.to_string())?;
    if now.trim() == threads.to_string() { Ok(()) } else { Err(format!("the server has {} threads", now.trim())) }
}
