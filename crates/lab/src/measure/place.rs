//! What is measured on: the machine and the places.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use haul_measure::words;
use haul_measure::words::quoted;
use haul_sys::rustix::fs::{major, minor, statvfs};

use super::{device, memory};
use crate::results::{Environment, Place};

/// The machine, without places and competitors yet.
pub fn machine() -> Environment {
    let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).ok();
    let cpu = read("/proc/cpuinfo").unwrap_or_default();
    // ARM has no model name.
    let field = |name: &str| {
        let line = cpu.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim_start_matches([' ', '\t', ':']).to_owned())
    };
    let processor = field("model name").or_else(|| field("Model")).or_else(|| field("CPU implementer"));
    Environment {
        kernel: read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned()),
        processor: processor.unwrap_or_else(|| "unknown".to_owned()),
        cores: haul_copy::facts::cores(),
        memory: memory::figure("MemTotal:").unwrap_or(0),
        virtual_machine: hypervisor(&cpu),
        places: BTreeMap::new(),
        competitors: BTreeMap::new(),
        manners: Vec::new(),
    }
}

/// Whose machine this is, if it is no real one.
fn hypervisor(cpu: &str) -> Option<String> {
    let flags = cpu.lines().find(|line| line.starts_with("flags"))?;
    if !flags.split_whitespace().any(|flag| flag == "hypervisor") {
        return None;
    }
    let vendor = fs::read_to_string("/sys/class/dmi/id/sys_vendor").unwrap_or_default();
    let vendor = vendor.trim();
    Some(if vendor.is_empty() { "yes" } else { vendor }.to_owned())
}

/// What of a mounted filesystem /proc/self/mountinfo tells.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    device: String,
    point: PathBuf,
    filesystem: String,
    source: String,
    options: String,
}

/// One line of /proc/self/mountinfo.
fn parse_mount(line: &str) -> Option<Mount> {
    let (front, back) = line.split_once(" - ")?;
    let mut front = front.split(' ');
    let device = front.nth(2)?.to_owned();
    let point = front.nth(1)?;
    let own = front.next()?;
    let mut back = back.split(' ');
    let (filesystem, source, whole) = (back.next()?, back.next()?, back.next().unwrap_or_default());
    let mut options: Vec<&str> = Vec::new();
    for option in own.split(',').chain(whole.split(',')) {
        if !option.is_empty() && !options.contains(&option) {
            options.push(option);
        }
    }
    Some(Mount {
        device,
        point: PathBuf::from(unescaped(point)),
        filesystem: filesystem.to_owned(),
        source: unescaped(source),
        options: options.join(","),
    })
}

/// Blanks and the like are octal there.
fn unescaped(text: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// The mount that a path is on: of those with its device number the one that is mounted deepest above it.
fn mount_of(path: &Path, device: &str, table: &str) -> Option<Mount> {
    let mounts: Vec<Mount> = table.lines().filter_map(parse_mount).collect();
    let above = |mount: &&Mount| path.starts_with(&mount.point);
    let depth = |mount: &&Mount| mount.point.components().count();
    let same = mounts.iter().filter(above).filter(|mount| mount.device == device).max_by_key(depth);
    // The device numbers of btrfs's files are others than those of its mounts. Later mounts hide earlier ones.
    same.or_else(|| mounts.iter().filter(above).max_by_key(depth)).cloned()
}

/// A mount below this path, if there is one.
pub fn mounted_below(path: &Path) -> Option<PathBuf> {
    // Mounts may be a thread's own.
    let table = fs::read_to_string("/proc/thread-self/mountinfo").ok()?;
    let real = path.canonicalize().ok()?;
    table.lines().filter_map(parse_mount).map(|mount| mount.point).find(|point| point.starts_with(&real))
}

/// A place, and the folder of its device in /sys.
///
/// # Errors
/// When the directory cannot be looked at.
pub fn describe(directory: &Path) -> Result<(Place, Option<PathBuf>), String> {
    let failed = |error: std::io::Error| format!("cannot look at {}: {}", quoted(directory), words::of(&error));
    let real = directory.canonicalize().map_err(failed)?;
    let number = fs::metadata(&real).map_err(failed)?.dev();
    let space = statvfs(&real).map_err(|errno| failed(errno.into()))?;
    let (major, minor) = (major(number), minor(number));
    let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap_or_default();
    let mount = mount_of(&real, &format!("{major}:{minor}"), &table);
    let source = mount.as_ref().map_or("", |mount| &mount.source);
    let folder = device::below(major, minor, source);
    let told =
        |of: fn(&Mount) -> &String| mount.as_ref().map_or_else(|| "unknown".to_owned(), |mount| of(mount).clone());
    let place = Place {
        directory: real.to_string_lossy().into_owned(),
        filesystem: told(|mount| &mount.filesystem),
        source: told(|mount| &mount.source),
        mount_options: told(|mount| &mount.options),
        device: folder.as_deref().map(device::describe),
        free: space.f_bavail.saturating_mul(space.f_frsize),
    };
    Ok((place, folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
30 22 0:25 / /tmp rw,nosuid - tmpfs tmpfs rw,size=1g
31 22 7:1 / /mnt/a\\040b rw,relatime - xfs /dev/loop1 rw,attr2
";

    #[test]
    fn a_path_is_on_the_deepest_mount_above_it() {
        let of = |path: &str, device: &str| mount_of(Path::new(path), device, TABLE).unwrap();
        assert_eq!(of("/home/x", "254:0").filesystem, "ext4");
        assert_eq!(of("/home/x", "254:0").options, "rw,relatime,discard");
        assert_eq!(of("/tmp/x", "0:25").filesystem, "tmpfs");
        assert_eq!(of("/mnt/a b/c", "7:1").source, "/dev/loop1");
        // A device number that no mount has.
        assert_eq!(of("/mnt/a b/c", "0:99").filesystem, "xfs");
    }

    #[test]
    fn the_place_of_a_directory_has_a_filesystem_and_room() {
        let (place, _) = describe(&std::env::temp_dir()).unwrap();
        assert!(place.free > 0 && place.filesystem != "unknown", "{place:?}");
        assert!(describe(Path::new("/no/such/place")).unwrap_err().contains("No such file"));
    }
}
