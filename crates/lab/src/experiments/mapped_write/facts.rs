//! What is known of a place before anything is measured: whether pages under write-back must stay stable there, and when the
//! kernel writes back.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use haul_measure::words;
use haul_sys::rustix::fs::{major, minor};
use haul_sys::rustix::param::page_size;
use serde::{Deserialize, Serialize};

use super::watch::sees_stacks;

/// What a filesystem does when a page under write-back is stored to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Its files are in memory alone: there is no write-back.
    NoDevice,
    /// It waits until the page is written, whatever the device is like.
    Always,
    /// It waits if the device demands stable pages.
    Device,
    /// This program does not know.
    #[default]
    Unknown,
}

impl Rule {
    /// That of a type of filesystem, as the kernel names it, mounted with these options.
    fn of(kind: &str, options: &str) -> Rule {
        match kind {
            "tmpfs" | "ramfs" | "devtmpfs" | "hugetlbfs" => Rule::NoDevice,
            // Checksums, or a server, are given what a page has at one moment.
            "btrfs" | "bcachefs" | "fuseblk" | "nfs" | "nfs4" | "cifs" | "smb3" | "ceph" | "9p" | "virtiofs" => {
                Rule::Always
            }
            kind if kind == "fuse" || kind.starts_with("fuse.") => Rule::Always,
            // The journal gets the contents of pages as well.
            "ext3" | "ext4" if options.split(',').any(|option| option == "data=journal") => Rule::Always,
            "ext2" | "ext3" | "ext4" | "xfs" | "f2fs" | "vfat" | "exfat" | "gfs2" | "jfs" | "nilfs2" => Rule::Device,
            _ => Rule::Unknown,
        }
    }

    fn says(self) -> &'static str {
        match self {
            Rule::NoDevice => "files are in memory alone, nothing is written back",
            Rule::Always => "a store to a page under write-back waits, whatever the device",
            Rule::Device => "a store to a page under write-back waits if the device demands it",
            Rule::Unknown => "what it does with pages under write-back is not known",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    pub kernel: String,
    pub filesystem: String,
    pub source: String,
    pub rule: Rule,
    /// Name of the block device, if there is one.
    pub device: Option<String>,
    pub stable_pages: Option<bool>,
    /// Everything, for people: a name, a value, and where it is from or what it means.
    pub rows: Vec<(String, String, String)>,
}

impl Facts {
    pub fn of(place: &Path) -> std::io::Result<Facts> {
        let device = fs::metadata(place)?.dev();
        let mount = Mount::of(&fs::canonicalize(place)?, &read("/proc/thread-self/mountinfo").unwrap_or_default());
        let mount = mount.unwrap_or_default();
        let number = format!("{}:{}", major(device), minor(device));
        let block = block_device(&number, &mount.source);
        let stable = stable_pages(block.as_deref(), &number);
        let mut facts = Facts {
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or_default(),
            rule: Rule::of(&mount.kind, &mount.options),
            filesystem: mount.kind,
            source: mount.source,
            device: block.as_ref().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned())),
            stable_pages: stable.as_ref().map(|(stable, _)| *stable),
            rows: Vec::new(),
        };
        facts.row("kernel", &facts.kernel.clone(), "its release");
        facts.row("filesystem", &facts.filesystem.clone(), facts.rule.says());
        facts.row("mounted", &facts.source.clone(), &mount.options);
        match &stable {
            Some((true, from)) => facts.row("stable pages", "demanded", from),
            Some((false, from)) => facts.row("stable pages", "not demanded", from),
            None => facts.row("stable pages", "unknown", "there is no device that could demand them"),
        }
        facts.backing(&number);
        facts.memory();
        Ok(facts)
    }

    fn row(&mut self, name: &str, value: &str, meaning: &str) {
        self.rows.push((name.to_owned(), value.to_owned(), meaning.to_owned()));
    }

    /// What the kernel allows what is behind the filesystem.
    fn backing(&mut self, number: &str) {
        let of = |name: &str| read(format!("/sys/class/bdi/{number}/{name}"));
        if let Some(strict) = of("strict_limit") {
            let meaning = "1: its writers are held back by its own share of dirty memory, however much is free";
            self.row("strict limit", &strict, meaning);
        }
        if let Some(ratio) = of("max_ratio") {
            self.row("largest share", &format!("{ratio} %"), "of all dirty memory that this device may have");
        }
    }

    /// When the kernel writes back, and what else is worth knowing of its memory.
    fn memory(&mut self) {
        for (name, unit, meaning) in [
            ("dirty_background_ratio", " %", "of the available memory: from then on the kernel writes back by itself"),
            ("dirty_background_bytes", "", "the same in bytes, if it is not 0"),
            ("dirty_ratio", " %", "of the available memory: half way to it writers are made to rest"),
            ("dirty_bytes", "", "the same in bytes, if it is not 0"),
            ("dirty_expire_centisecs", "", "hundredths of a second after which a page is written back at any rate"),
            ("dirty_writeback_centisecs", "", "hundredths of a second between two looks for such pages"),
        ] {
            if let Some(value) = read(format!("/proc/sys/vm/{name}")) {
                self.row(name, &format!("{value}{unit}"), meaning);
            }
        }
        let vmstat = read("/proc/vmstat").unwrap_or_default();
        for (name, meaning) in [
            ("nr_dirty_background_threshold", "dirty memory from which on the kernel writes back now"),
            ("nr_dirty_threshold", "dirty memory that writers may not exceed now"),
        ] {
            let line = vmstat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
            if let Some(pages) = line {
                self.row(name, &words::bytes(pages * page_size() as u64), meaning);
            }
        }
        if let Some(chosen) = read("/sys/kernel/mm/transparent_hugepage/enabled").as_deref().and_then(chosen) {
            self.row(
                "transparent huge pages",
                chosen,
                "for memory without a file; files have large folios where they can",
            );
        }
        let root = if sees_stacks() { "can be seen" } else { "cannot be seen" };
        self.row(
            "stacks of the kernel",
            root,
            "they say what a thread waits for; without root only one function is seen",
        );
    }
}

#[derive(Debug, Default, PartialEq)]
struct Mount {
    kind: String,
    source: String,
    options: String,
}

impl Mount {
    /// The one that has a path, by the lines of `/proc/thread-self/mountinfo`.
    fn of(path: &Path, mounts: &str) -> Option<Mount> {
        let mut best: Option<(usize, Mount)> = None;
        for line in mounts.lines() {
            let Some((left, right)) = line.split_once(" - ") else { continue };
            let (left, right): (Vec<&str>, Vec<&str>) = (left.split(' ').collect(), right.split(' ').collect());
            let ([_, _, _, _, point, own, ..], [kind, source, options, ..]) = (&left[..], &right[..]) else { continue };
            let point = PathBuf::from(unescaped(point));
            let depth = point.components().count();
            // Of several on one directory, the last one is on top.
            if path.starts_with(&point) && best.as_ref().is_none_or(|(deepest, _)| depth >= *deepest) {
                let options = format!("{own},{options}");
                best = Some((depth, Mount { kind: (*kind).to_owned(), source: unescaped(source), options }));
            }
        }
        best.map(|(_, mount)| mount)
    }
}

/// Blanks and the like are octal there.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut whole = parts.next().unwrap_or("").to_owned();
    for part in parts {
        match (part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()), part.get(3..)) {
            (Some(byte), Some(rest)) => {
                whole.push(char::from(byte));
                whole.push_str(rest);
            }
            _ => whole.push_str(part),
        }
    }
    whole
}

/// The directory in `/sys` of the device of a filesystem: by its number, or by what is mounted, since some (btrfs) have
/// numbers of their own.
fn block_device(number: &str, source: &str) -> Option<PathBuf> {
    let by_number = fs::canonicalize(format!("/sys/dev/block/{number}")).ok();
    by_number.or_else(|| {
        let node = fs::canonicalize(Some(source).filter(|source| source.starts_with("/dev/"))?).ok()?;
        fs::canonicalize(Path::new("/sys/class/block").join(node.file_name()?)).ok()
    })
}

/// Whether a device demands stable pages, and where that is said.
fn stable_pages(block: Option<&Path>, number: &str) -> Option<(bool, String)> {
    // A partition has the queue of its disk.
    let queue = block.and_then(|block| {
        let queues = [block.join("queue/stable_writes"), block.parent()?.join("queue/stable_writes")];
        queues.into_iter().find_map(|path| Some((read(&path)? == "1", path.display().to_string())))
    });
    // Where it stood before Linux 5.10, which is always 0 since then.
    queue.or_else(|| {
        let path = format!("/sys/class/bdi/{number}/stable_pages_required");
        block?;
        Some((read(&path)? == "1", path))
    })
}

/// What stands in brackets.
fn chosen(text: &str) -> Option<&str> {
    text.split_once('[')?.1.split_once(']').map(|(chosen, _)| chosen)
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
21 1 254:0 / / rw,relatime - ext4 /dev/root rw,discard
30 21 0:31 / /tmp rw shared:3 - tmpfs tmpfs rw,size=1g
31 30 0:40 /sub /tmp/a\\040b rw - btrfs /dev/loop3 rw,compress=zstd
32 31 7:1 / /tmp/a\\040b rw - ext4 /dev/loop1 rw,data=journal
";

    #[test]
    fn the_mount_of_a_path_is_the_deepest_and_the_last() {
        let of = |path: &str| Mount::of(Path::new(path), MOUNTS).unwrap();
        assert_eq!(of("/tmpfile").source, "/dev/root");
        assert_eq!(of("/tmp/x").kind, "tmpfs");
        let mount = of("/tmp/a b/c");
        assert_eq!((mount.source.as_str(), Rule::of(&mount.kind, &mount.options)), ("/dev/loop1", Rule::Always));
        assert_eq!(Mount::of(Path::new("/"), ""), None);
    }

    #[test]
    fn the_rules_of_filesystems_are_told_apart() {
        for (kind, options, expected) in [
            ("tmpfs", "rw", Rule::NoDevice),
            ("ext4", "rw,data=ordered", Rule::Device),
            ("ext4", "rw,data=journal", Rule::Always),
            ("btrfs", "rw", Rule::Always),
            ("fuse.sshfs", "rw", Rule::Always),
            ("fusectl", "rw", Rule::Unknown),
            ("xfs", "rw", Rule::Device),
        ] {
            assert_eq!(Rule::of(kind, options), expected, "{kind} {options}");
        }
    }

    #[test]
    fn there_are_facts_of_every_place() {
        let facts = Facts::of(&std::env::temp_dir()).unwrap();
        assert!(!facts.kernel.is_empty() && !facts.filesystem.is_empty(), "{facts:?}");
        assert!(facts.rows.iter().any(|(name, ..)| name == "stable pages"));
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert!(Facts::of(Path::new("/nowhere/at/all")).is_err());
    }
}
