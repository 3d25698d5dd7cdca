//! The disk below a filesystem: what it is, and what it has read and written.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Bytes of a sector in the kernel's counters, whatever the device's are.
const SECTOR: u64 = 512;

/// Finds the block device below a mounted filesystem, from its device number or, where that is made up (btrfs), from what is
/// mounted.
pub fn below(major: u32, minor: u32, source: &str) -> Option<PathBuf> {
    let by_number = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok();
    by_number.or_else(|| {
        let name = fs::canonicalize(source).ok()?;
        let name = name.strip_prefix("/dev").ok()?.to_str()?.replace('/', "!");
        fs::canonicalize(Path::new("/sys/class/block").join(name)).ok()
    })
}

/// A block device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its folder in /sys.
    #[serde(skip)]
    pub folder: PathBuf,
    /// Its name below `/sys/class/block`.
    pub name: String,
    /// Model, where the device reports it.
    pub model: Option<String>,
    /// Moving heads, as the kernel believes.
    pub rotational: Option<bool>,
    /// Pages under write-back must not change (`stable_pages_required`): who writes to them waits.
    pub stable_pages: Option<bool>,
    /// The queue's scheduler.
    pub scheduler: Option<String>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
}

impl Device {
    /// What the kernel says of a device, by its folder in /sys.
    pub fn of(folder: &Path) -> Device {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let disk = disk(folder);
        let text = |path: &str| {
            let text = fs::read_to_string(disk.join(path)).ok()?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        let flag = |path: &str| text(path).map(|text| text == "1");
        Device {
            folder: folder.to_owned(),
            name,
            model: text("device/model"),
            rotational: flag("queue/rotational"),
            // The queue says it since Linux 5.10, the backing device's folder until 6.?; whichever is there.
            stable_pages: flag("queue/stable_writes").or_else(|| flag("bdi/stable_pages_required")),
            scheduler: text("queue/scheduler").map(|all| chosen(&all).to_owned()),
            write_cache: text("queue/write_cache"),
        }
    }
}

/// A partition has its queue in the folder of its disk.
fn disk(folder: &Path) -> PathBuf {
    match folder.join("partition").exists() {
        true => folder.parent().unwrap_or(folder).to_path_buf(),
        false => folder.to_path_buf(),
    }
}

/// Of `none [mq-deadline] bfq` the one in brackets; all if there is none.
pub fn chosen(all: &str) -> &str {
    let inside = all.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(all, |(chosen, _)| chosen)
}

/// Bytes that a device has read and written since it is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Read.
    pub read: u64,
    /// Written.
    pub written: u64,
}

impl Traffic {
    /// Of the device with this folder in /sys.
    pub fn now(folder: &Path) -> Option<Traffic> {
        Traffic::parse(&fs::read_to_string(folder.join("stat")).ok()?)
    }

    fn parse(stat: &str) -> Option<Traffic> {
        let mut fields = stat.split_whitespace().map(|field| field.parse::<u64>().ok());
        // reads merged sectors ms writes merged sectors ...
        let read = fields.nth(2)??;
        let written = fields.nth(3)??;
        Some(Traffic { read: read.wrapping_mul(SECTOR), written: written.wrapping_mul(SECTOR) })
    }

    /// Since an earlier look.
    pub fn since(self, earlier: Traffic) -> Traffic {
        Traffic { read: self.read.saturating_sub(earlier.read), written: self.written.saturating_sub(earlier.written) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_are_counted_in_bytes() {
        let stat = "  100  2  3000  40  500  6  7000  80  0  90  100\n";
        assert_eq!(Traffic::parse(stat), Some(Traffic { read: 3000 * 512, written: 7000 * 512 }));
        assert_eq!(Traffic::parse("1 2"), None);
    }

    #[test]
    fn of_the_schedulers_the_one_in_use_is_reported() {
        assert_eq!(chosen("none [mq-deadline] bfq"), "mq-deadline");
        assert_eq!(chosen("none"), "none");
    }
}
