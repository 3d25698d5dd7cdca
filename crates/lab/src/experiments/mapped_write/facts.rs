//! What is known of a place before anything is measured: whether pages under write-back must stay stable there, and when the
//! kernel writes back.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use haul_measure::device::chosen;
use haul_measure::storage::Storage;
use haul_measure::words;
use haul_sys::rustix::fs::{major, minor};
use haul_sys::rustix::param::page_size;

use super::watch::sees_stacks;

/// What a filesystem does when a page under write-back is stored to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    pub kernel: String,
    pub filesystem: String,
    pub rule: Rule,
    pub stable_pages: Option<bool>,
    /// Everything, for people: a name, a value, and where it is from or what it means.
    pub rows: Vec<(String, String, String)>,
}

impl Facts {
    pub fn of(place: &Path) -> Result<Facts, String> {
        let storage = Storage::of(place)?;
        let device = fs::metadata(place).map_err(words::cannot("look at", place))?.dev();
        let (filesystem, options) = (storage.filesystem.clone(), &storage.mount_options);
        let block = storage.device.as_ref();
        let mut facts = Facts {
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or_default(),
            rule: Rule::of(&filesystem, options),
            filesystem,
            stable_pages: block.and_then(|block| block.stable_pages),
            rows: Vec::new(),
        };
        facts.row("kernel", &facts.kernel.clone(), "its release");
        facts.row("filesystem", &facts.filesystem.clone(), facts.rule.says());
        facts.row("mounted", &storage.source, options);
        let of_device = block.map(|block| format!("by the queue of {}, or its backing device", block.name));
        let of_device = of_device.unwrap_or_default();
        match facts.stable_pages {
            Some(true) => facts.row("stable pages", "demanded", &of_device),
            Some(false) => facts.row("stable pages", "not demanded", &of_device),
            None => facts.row("stable pages", "unknown", "there is no device that could demand them"),
        }
        facts.backing(&format!("{}:{}", major(device), minor(device)));
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
        if let Some(huge) = read("/sys/kernel/mm/transparent_hugepage/enabled") {
            let meaning = "for memory without a file; files have large folios where they can";
            self.row("transparent huge pages", chosen(&huge), meaning);
        }
        let seen = if sees_stacks() { "can be seen" } else { "cannot be seen" };
        let meaning = "they say what a thread waits for; without root only one function is seen";
        self.row("stacks of the kernel", seen, meaning);
    }
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(Facts::of(Path::new("/nowhere/at/all")).is_err());
    }
}
