//! What is mounted: the lines of /proc/PID/mountinfo (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::inode::DeviceNumber;

/// A mount. Names and paths are those that the kernel knows, without the octal escapes of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The number that `mnt_id` of /proc/PID/fdinfo has.
    pub id: u64,
    /// The device number of the filesystem inside the kernel; on btrfs it is not that of stat(2).
    pub device: DeviceNumber,
    /// The directory of the filesystem that is mounted; `/` but for subvolumes and bind mounts.
    pub root: PathBuf,
    /// Where.
    pub point: PathBuf,
    /// Options of the mount, with commas between them.
    pub options: String,
    /// Type of the filesystem.
    pub filesystem: String,
    /// What is mounted.
    pub source: OsString,
    /// Options of the filesystem, with commas between them.
    pub filesystem_options: String,
}

/// The mounts of a table, in the order of the mounting. Lines that are none are left out.
pub fn mounts(table: &[u8]) -> impl Iterator<Item = Mount> + '_ {
    table.split(|byte| *byte == b'\n').filter_map(Mount::of)
}

impl Mount {
    fn of(line: &[u8]) -> Option<Mount> {
        let mut fields = line.split(|byte| *byte == b' ');
        let id = text(fields.next()?).parse().ok()?;
        let (major, minor) = std::str::from_utf8(fields.nth(1)?).ok()?.split_once(':')?;
        let device = DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? };
        let (root, point, options) = (unescaped(fields.next()?), unescaped(fields.next()?), text(fields.next()?));
        // There may be any number of optional fields before the dash.
        fields.find(|field| *field == b"-")?;
        let (filesystem, source) = (text(fields.next()?), unescaped(fields.next()?));
        let filesystem_options = text(fields.next().unwrap_or_default());
        Some(Mount {
            id,
            device,
            root: root.into(),
            point: point.into(),
            options,
            filesystem,
            source,
            filesystem_options,
        })
    }
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field).into_owned()
}

/// Undoes the octal escapes of space, tab, line feed and backslash. Other backslashes stay.
pub fn unescaped(field: &[u8]) -> OsString {
    let mut name = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| *byte == b'\\').and_then(octal);
        name.push(code.unwrap_or(*byte));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(name)
}

/// The byte that three octal digits stand for.
fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_line_has_its_fields_with_and_without_optional_ones() {
        let table = b"31 22 7:1 /sub /mnt/a\\040b rw,relatime shared:1 master:2 - xfs /dev/loop1 rw,attr2\n\
            half a line\n33 21 0:20 / /proc rw - proc proc rw\n";
        let found: Vec<Mount> = mounts(table).collect();
        let [disk, proc] = &found[..] else { panic!("{found:?}") };
        assert_eq!((disk.id, disk.device), (31, DeviceNumber { major: 7, minor: 1 }));
        assert_eq!((&*disk.root, &*disk.point), (Path::new("/sub"), Path::new("/mnt/a b")));
        assert_eq!((&*disk.filesystem, disk.source.to_str()), ("xfs", Some("/dev/loop1")));
        assert_eq!((&*disk.options, &*disk.filesystem_options), ("rw,relatime", "rw,attr2"));
        assert_eq!((proc.id, &*proc.point), (33, Path::new("/proc")));
    }

    #[test]
    fn escapes_are_undone_and_other_backslashes_stay() {
        let undone = |text: &str| unescaped(text.as_bytes()).into_string().unwrap();
        assert_eq!(
            ["a\\040b", "\\134", "a\\", "a\\9\u{e9}", "\\12"].map(undone),
            ["a b", "\\", "a\\", "a\\9\u{e9}", "\\12"]
        );
        assert_eq!(unescaped(b"\\040\xff").into_vec(), b" \xff", "names need not be UTF-8");
    }
}
