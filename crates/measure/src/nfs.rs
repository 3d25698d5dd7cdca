//! What this machine's NFS client counts of a mount.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use haul_sys::mountinfo::unescaped;

use crate::mounts::Mount;

/// What is counted: operations, and the bytes of all requests and answers.
pub const COUNTERS: [&str; 7] = ["COPY", "CLONE", "READ", "WRITE", "other", "sent", "received"];

/// By [`COUNTERS`], since it was mounted, whoever asked for it; `None` where the directory is not on NFS.
pub fn counters(directory: &Path) -> Option<BTreeMap<&'static str, f64>> {
    let mount = Mount::of(&directory.canonicalize().ok()?, "")?;
    parse(&fs::read_to_string("/proc/self/mountstats").ok()?, &mount.point)
}

fn parse(table: &str, point: &Path) -> Option<BTreeMap<&'static str, f64>> {
    let is_it = |part: &&str| part.split(' ').nth(3).is_some_and(|at| Path::new(&unescaped(at.as_bytes())) == point);
    // The last one that was mounted there hides the others.
    let operations = table.split("device ").filter(is_it).last()?.split_once("per-op statistics")?.1;
    let mut counters = BTreeMap::from(COUNTERS.map(|name| (name, 0.0)));
    for (name, numbers) in operations.lines().filter_map(|line| line.trim().split_once(": ")) {
        // Operations, transmissions, timeouts, bytes sent, bytes received, and times.
        let numbers: Vec<f64> = numbers.split(' ').map_while(|number| number.parse().ok()).collect();
        let [operations, _, _, sent, received, ..] = numbers[..] else { continue };
        let name = COUNTERS[..4].iter().find(|known| **known == name).unwrap_or(&"other");
        for (name, more) in [(*name, operations), ("sent", sent), ("received", received)] {
            *counters.entry(name).or_default() += more;
        }
    }
    Some(counters)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
device /dev/vda mounted on / with fstype ext4
device localhost:/ mounted on /mnt/a\\040b with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,rsize=262144
\tage:\t17
\tbytes:\t1 2 3 4 5 6 7 8
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\txprt:\ttcp 0 0 1 0 17 39 39 0 39 0 2 0 0
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 0 0 0
\t        READ: 8 8 0 1600 1049600 0 12 13 0
\t       WRITE: 4 4 0 1049400 704 0 20 21 0
\t     GETATTR: 3 3 0 600 720 0 0 0 0
\t        COPY: 2 2 0 500 300 1 2 3 0
device server:/ mounted on /other with fstype nfs4 statvers=1.1
\tper-op statistics
\t        COPY: 9 9 0 9 9 0 0 0 0
";

    #[test]
    fn operations_and_bytes_are_those_of_the_mount() {
        let found = parse(TABLE, Path::new("/mnt/a b")).unwrap();
        assert_eq!(COUNTERS.map(|name| found[name]), [2.0, 0.0, 8.0, 4.0, 4.0, 1_052_144.0, 1_051_348.0]);
    }

    #[test]
    fn what_is_not_on_nfs_has_no_counters() {
        assert_eq!(parse(TABLE, Path::new("/")), None);
        assert_eq!(parse(TABLE, Path::new("/mnt")), None);
    }
}
