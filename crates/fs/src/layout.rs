//! The layout of a file on Lustre: over how many object storage targets its bytes are striped.
//!
//! A file gets its objects when it is first opened for writing, with the layout of its directory, and keeps that layout until
//! somebody migrates it. Another one must be asked for in between: the file is made with [`WITHOUT_OBJECTS`], and its attribute
//! `lustre.lov` is set before the first write. liblustreapi does the same. The structures are those of `lustre_user.h`, in
//! the byte order of the machine.

use std::os::fd::BorrowedFd;

use haul_sys::object::Object;
use haul_sys::rustix::fs::OFlags;
use haul_sys::rustix::io::Errno;

const NAME: &std::ffi::CStr = c"lustre.lov";
/// LOV_USER_MAGIC_V1 and LOV_USER_MAGIC_V3: without a pool, and with one.
const MAGIC: [u32; 2] = [0x0bd1_0bd0, 0x0bd3_0bd0];
/// LOV_USER_MAGIC_COMP_V1: several layouts, each for a range of the file.
const COMPOSITE: u32 = 0x0bd6_0bd0;
/// LOV_PATTERN_RAID0, and the same with LOV_PATTERN_OVERSTRIPING.
const STRIPED: u32 = 1;
const OVERSTRIPED: u32 = 0x201;
/// Bytes for the name of a pool: LOV_MAXPOOLNAME and a zero.
const POOL: usize = 16;

/// What a new file on Lustre is opened with to have no objects yet: O_LOV_DELAY_CREATE, of which
/// [`Spot::open`](crate::walk::Spot::open) has the other part, O_NOCTTY. Other filesystems do not care.
pub const WITHOUT_OBJECTS: OFlags = OFlags::ASYNC;

/// The layout of a file, as `lustre.lov` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout(Vec<u8>);

impl Default for Layout {
    /// That of the filesystem.
    fn default() -> Layout {
        Layout::striped(0, 0, "")
    }
}

impl Layout {
    /// Stripes on so many targets, of so many bytes. 0 is the default of each, [`u16::MAX`] all targets. The name of the pool has
    /// at most 15 bytes (more are cut off); without one any target may be used. Lustre chooses the first one.
    pub fn striped(count: u16, size: u32, pool: &str) -> Layout {
        let mut value = Vec::with_capacity(32 + POOL);
        value.extend(MAGIC[usize::from(!pool.is_empty())].to_ne_bytes());
        value.extend(STRIPED.to_ne_bytes());
        // Which object it is: that is for Lustre to say.
        value.extend([0; 16]);
        value.extend(size.to_ne_bytes());
        value.extend(count.to_ne_bytes());
        value.extend(u16::MAX.to_ne_bytes());
        if !pool.is_empty() {
            let mut name = [0; POOL];
            pool.bytes().take(POOL - 1).zip(&mut name).for_each(|(byte, place)| *place = byte);
            value.extend(name);
        }
        Layout(value)
    }

    /// The layout of a file. What Lustre gives also names the objects of that file; it does not look at them where the layout
    /// is set for another one.
    ///
    /// # Errors
    /// As fgetxattr(2): EOPNOTSUPP where the filesystem is not Lustre, ENODATA of a file without objects.
    pub fn of(file: BorrowedFd<'_>) -> Result<Layout, Errno> {
        let mut value = Vec::new();
        Object { fd: file, path_only: false }.get_xattr(NAME, &mut value)?;
        if value.is_empty() { Err(Errno::NODATA) } else { Ok(Layout(value)) }
    }

    /// Whether a new file can have it as it is: stripes, or a composite layout with one mirror and nothing to be done about it. Not
    /// that of a file which is released or elsewhere.
    pub fn is_for_new_files(&self) -> bool {
        let two = |at: usize| self.0.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
        let four = |at: usize| self.0.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
        match four(0) {
            Some(magic) if MAGIC.contains(&magic) => matches!(four(4), Some(STRIPED | OVERSTRIPED)),
            // lcm_flags, and lcm_mirror_count, which is one less than there are.
            Some(COMPOSITE) => (two(12), two(16)) == (Some(0), Some(0)),
            _ => false,
        }
    }

    /// Gives it to a file that was made [without objects](WITHOUT_OBJECTS). One that has objects keeps its own.
    ///
    /// # Errors
    /// As fsetxattr(2). A file that has no layout then cannot be written to; with the [default](Layout::default) it can.
    pub fn set(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        Object { fd: file, path_only: false }.set_xattr(NAME, &self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn a_layout_is_what_lustre_reads() {
        let plain = Layout::striped(4, 1 << 20, "");
        let wanted = b"\xd0\x0b\xd1\x0b\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\0\x04\0\xff\xff";
        assert_eq!(plain.0, wanted);
        let Layout(pooled) = Layout::striped(u16::MAX, 0, "flash");
        assert_eq!((pooled.len(), &pooled[..4]), (48, &b"\xd0\x0b\xd3\x0b"[..]));
        assert_eq!(&pooled[24..], b"\0\0\0\0\xff\xff\xff\xffflash\0\0\0\0\0\0\0\0\0\0\0");
        let Layout(long) = Layout::striped(1, 0, "a_pool_with_a_long_name");
        assert_eq!(&long[32..], b"a_pool_with_a_l\0");
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn what_is_mirrored_released_or_foreign_is_not_for_new_files() {
        let plain = Layout::striped(2, 1 << 20, "");
        let with = |changes: &[(usize, u8)]| {
            let mut value = plain.0.clone();
            changes.iter().for_each(|(at, byte)| value[*at] = *byte);
            Layout(value).is_for_new_files()
        };
        let composite = |changes: &[(usize, u8)]| {
            let zeros: Vec<(usize, u8)> = (4..20).map(|at| (at, 0)).collect();
            with(&[&[(2, 0xd6)], &zeros[..], changes].concat())
        };
        assert!(with(&[]) && with(&[(5, 2)]) && Layout::striped(2, 0, "pool").is_for_new_files());
        assert!(!with(&[(7, 0x80)]), "LOV_PATTERN_F_RELEASED");
        assert!(!with(&[(2, 0xd7)]), "LOV_USER_MAGIC_FOREIGN");
        assert!(composite(&[]) && !composite(&[(16, 1)]) && !composite(&[(12, 2)]));
        assert!(!Layout(vec![0xd0, 0x0b]).is_for_new_files() && !Layout(Vec::new()).is_for_new_files());
    }

    #[test]
    fn other_filesystems_have_no_layouts() {
        let dir = haul_testbed::temp_dir();
        let file = std::fs::File::create(dir.path().join("a")).unwrap();
        assert!(Layout::of(file.as_fd()).is_err() && Layout::default().set(file.as_fd()).is_err());
    }
}
