//! Whether a copy is over in a moment, so that nobody has to watch it, nor to look for what makes large ones faster.

use std::ffi::OsStr;
use std::path::Path;

use haul_copy::plan::{Destination, Durable, Overwrite, Plan, SmartCopy, Verify};
use haul_frontend::show::{Show, When};
use haul_io::strategy::SMALL;
use haul_sys::Errno;
use haul_sys::filesystem::FilesystemType;
use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::{CWD, statfs};

/// Filesystems on disks and in memory, by their numbers of statfs(2). A small file waits there for the disk, and a thread beside the
/// copy could not end that. It waits for somebody else where an open breaks a lease (fcntl(2), F_SETLEASE), for the seconds of
/// /proc/sys/fs/lease-break-time at most, or asks who watches opens (fanotify(7)): nothing is incomplete then, and signals end
/// the first. What waits for a filesystem that is frozen no signal ends, with a thread or without.
const OF_DISKS: [FilesystemType; 5] =
    [FilesystemType::EXT, FilesystemType::XFS, FilesystemType::BTRFS, FilesystemType::F2FS, FilesystemType::TMPFS];

/// Whether one small file is copied from a disk to a disk, nothing is asked or shown, and nothing waits for the device. What is
/// there is looked at; if it is changed meanwhile, the copy is as right as any.
pub(crate) fn is_brief(plan: &Plan, show: Show) -> bool {
    let [source] = plan.sources.as_slice() else { return false };
    let shown = show.verbose || show.debug || show.explain || show.json;
    let shown = shown || show.stats.is_some() || show.progress == When::Always;
    let asked = plan.recursive || plan.parents || plan.resume || plan.list.is_some() || plan.shard.is_some();
    let waits = plan.durable != Durable::None || plan.verify != Verify::Off || plan.overwrite == Overwrite::Ask;
    let reads_more = plan.checksum.is_some() || plan.smart != SmartCopy::Off;
    !(shown || asked || waits || reads_more) && is_small_and_on_disk(source) && goes_to_disk(source, &plan.destination)
}

fn is_small_and_on_disk(source: &OsStr) -> bool {
    Inode::at_following(CWD, source).is_ok_and(|found| found.kind == Kind::Regular && found.size < SMALL)
        && is_on_disk(source)
}

/// Whether a new file, or a regular one, on a disk becomes the copy.
fn goes_to_disk(source: &OsStr, destination: &Destination) -> bool {
    let (Destination::Guess(path) | Destination::Directory(path) | Destination::Exactly(path)) = destination;
    let kind = |path: &Path| Inode::at_following(CWD, path.as_os_str()).map(|found| found.kind);
    let mut path = Path::new(path).to_owned();
    let mut found = kind(&path);
    if found == Ok(Kind::Directory) {
        let Some(name) = Path::new(source).file_name() else { return false };
        path.push(name);
        found = kind(&path);
    }
    match (found, path.parent()) {
        (Ok(Kind::Regular), _) => is_on_disk(path.as_os_str()),
        (Err(Errno::NOENT), Some(holder)) if holder.as_os_str().is_empty() => is_on_disk(OsStr::new(".")),
        (Err(Errno::NOENT), Some(holder)) => is_on_disk(holder.as_os_str()),
        _ => false,
    }
}

fn is_on_disk(path: &OsStr) -> bool {
    statfs(path).is_ok_and(|found| OF_DISKS.contains(&FilesystemType::from(&found)))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    use haul_testbed::{skip, temp_dir};

    use super::*;

    #[test]
    fn only_one_small_file_between_disks_is_brief() {
        let dir = temp_dir();
        let at = |name: &str| dir.path().join(name);
        if !is_on_disk(dir.path().as_os_str()) {
            return skip("the directory for temporary files is on no disk");
        }
        fs::write(at("small"), "text").expect("a file");
        File::create(at("large")).and_then(|file| file.set_len(SMALL)).expect("a file");
        fs::create_dir_all(at("dir/taken/small")).expect("a directory");
        symlink("/proc/self/status", at("elsewhere")).expect("a link");
        let plan = |sources: &[&str], dest: &str| Plan {
            sources: sources.iter().map(|name| at(name).into()).collect(),
            destination: Destination::Guess(at(dest).into()),
            ..Plan::default()
        };
        let brief = |plan: Plan| is_brief(&plan, Show::default());
        for (source, dest, expected) in [
            ("small", "new", true),
            ("small", "dir", true),
            ("small", "large", true),
            ("large", "new", false),
            ("missing", "new", false),
            ("dir", "new", false),
            ("elsewhere", "new", false),
            ("small", "elsewhere", false),
            ("small", "dir/taken", false),
            ("small", "missing/new", false),
        ] {
            assert_eq!(brief(plan(&[source], dest)), expected, "{source} to {dest}");
        }
        assert!(!brief(plan(&["small", "small"], "dir")));
        assert!(!brief(Plan { overwrite: Overwrite::Ask, ..plan(&["small"], "new") }));
        assert!(!brief(Plan { durable: Durable::File, ..plan(&["small"], "new") }));
        assert!(!is_brief(&plan(&["small"], "new"), Show { verbose: true, ..Show::default() }));
    }
}
