//! What is copied, and how it is made, in a process of its own.

use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use haul_sys::rustix::fs::{XattrFlags, setxattr};
use serde::{Deserialize, Serialize};

use super::super::options::Options;
use crate::shell::{self, Result};

/// Files in one directory of a nested tree.
const IN_ONE: u64 = 100;
/// Random bytes from which small files are cut.
const POOL: usize = 4 << 20;
const EXTENT: u64 = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// A nested tree of so many files of 1 to 16 KiB, 100 in a directory.
    Tree { files: u64 },
    /// The same with owners, modes, times, ACLs, extended attributes, symbolic and hard links.
    Decorated { files: u64 },
    /// A nested tree of so many empty files.
    Empty { files: u64 },
    /// So many files of 1 to 16 KiB in one directory.
    Flat { files: u64 },
    /// A nested tree of so many files of so many bytes each, 100 in a directory.
    Sized { files: u64, each: u64 },
    /// So many equal files that have so many bytes together, in one directory.
    Set { files: u64, bytes: u64 },
    /// One file of incompressible data.
    File { bytes: u64 },
    /// One file of so many bytes, with so many of data in extents of 64 KiB, evenly spread.
    Sparse { bytes: u64, data: u64 },
    /// /usr of this machine; a small part of it at a small scale.
    Usr,
}

/// Files and bytes of a source, to plan the space by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub inodes: u64,
    pub bytes: u64,
}

impl Source {
    /// How much it is; `None` where only looking tells.
    pub fn extent(self) -> Option<Extent> {
        // Files of 1 to 16 KiB in whole blocks: 10.5 KiB on average.
        let small = |files: u64| Extent { inodes: files + files / 100, bytes: files * 10_752 };
        Some(match self {
            Source::Tree { files } | Source::Decorated { files } | Source::Flat { files } => small(files),
            Source::Empty { files } => Extent { inodes: files + files / 100, bytes: files * 64 },
            Source::Sized { files, each } => {
                Extent { inodes: files + files / 100, bytes: files * each.next_multiple_of(4096) }
            }
            Source::Set { files, bytes } => Extent { inodes: files + 1, bytes },
            Source::File { bytes } => Extent { inodes: 1, bytes },
            Source::Sparse { data, .. } => Extent { inodes: 1, bytes: data },
            Source::Usr => return None,
        })
    }
}

/// What of /usr is copied.
pub fn usr(options: &Options) -> &'static str {
    if options.scale >= 0.5 { "/usr" } else { "/usr/sbin" }
}

/// Makes the source at `path` in a process of its own.
pub fn make(source: Source, path: &Path) -> Result {
    let word = serde_json::to_string(&source).map_err(|error| error.to_string())?;
    shell::run(shell::own("peers-make")?.arg(word).arg(path))
}

/// The process.
pub fn process(args: &[String]) -> Result {
    let [source, path] = args else { return Err("peers-make wants a source and a path".into()) };
    let source = serde_json::from_str(source).map_err(|error| format!("peers-make knows no {source:?}: {error}"))?;
    let path = Path::new(path);
    let made = match source {
        Source::Tree { files } => tree(path, files, IN_ONE, MIXED, false),
        Source::Decorated { files } => tree(path, files, IN_ONE, MIXED, true),
        Source::Empty { files } => tree(path, files, IN_ONE, 0..=0, false),
        Source::Flat { files } => tree(path, files, u64::MAX, MIXED, false),
        Source::Sized { files, each } => tree(path, files, IN_ONE, each..=each, false),
        Source::Set { files, bytes } => fs::create_dir(path)
            .and_then(|()| (0..files).try_for_each(|file| random(&path.join(format!("f{file}")), bytes / files))),
        Source::File { bytes } => random(path, bytes),
        Source::Sparse { bytes, data } => sparse(path, bytes, data),
        Source::Usr => return Err("nothing is to be made".into()),
    };
    made.map_err(|error| format!("cannot make {}: {error}", path.display()))
}

/// Bytes of the files of most trees.
const MIXED: RangeInclusive<u64> = 1024..=16 * 1024;

/// So many files of `sizes` bytes, `in_one` in each directory; the number of a directory, digit by digit, is its path.
fn tree(root: &Path, files: u64, in_one: u64, sizes: RangeInclusive<u64>, decorated: bool) -> io::Result<()> {
    let pool = pool()?;
    // The same sizes each time.
    let mut random = fastrand::Rng::with_seed(1);
    let mut dir = root.to_owned();
    let mut dirs = Vec::new();
    for file in 0..files {
        if file % in_one == 0 {
            dir = root.to_owned();
            dir.extend((file / in_one).to_string().chars().map(|digit| format!("d{digit}")));
            fs::create_dir_all(&dir)?;
            dirs.push(dir.clone());
        }
        let path = dir.join(format!("f{file}"));
        let size = random.u64(sizes.clone());
        let start = random.u64(..POOL as u64 - sizes.end());
        let range = usize::try_from(start).unwrap_or(0)..usize::try_from(start + size).unwrap_or(0);
        fs::write(&path, &pool[range])?;
        if decorated {
            decorate(&path, file)?;
        }
    }
    if decorated {
        for (number, dir) in dirs.iter().enumerate().rev() {
            File::open(dir)?.set_modified(past(number as u64))?;
        }
    }
    Ok(())
}

/// Metadata as real trees have it: every file has its own time and one of four modes, some have an owner, an extended
/// attribute, an ACL, or another name, and there are some symbolic links.
fn decorate(path: &Path, number: u64) -> io::Result<()> {
    let beside = |prefix: &str| path.with_file_name(format!("{prefix}{number}"));
    fs::set_permissions(path, fs::Permissions::from_mode([0o644, 0o600, 0o755, 0o640][(number % 4) as usize]))?;
    match number % 50 {
        0 if shell::is_root() => chown(path, Some(1000), Some(1000))?,
        1 => setxattr(path, "user.origin", format!("number {number}").as_bytes(), XattrFlags::empty())?,
        2 => symlink(path.file_name().unwrap_or_default(), beside("s"))?,
        3 => fs::hard_link(path, beside("h"))?,
        4 => match setxattr(path, "system.posix_acl_access", &acl(), XattrFlags::empty()) {
            // A filesystem mounted without ACLs.
            Err(haul_sys::Errno::OPNOTSUPP) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        },
        _ => {}
    }
    File::open(path)?.set_modified(past(number))
}

/// An ACL in the kernel's form (version 2; tag, permissions, ID): user 1000 may read.
fn acl() -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, bits, id) in [(1_u16, 6_u16, NOBODY), (2, 4, 1000), (4, 4, NOBODY), (0x10, 4, NOBODY), (0x20, 4, NOBODY)]
    {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(bits.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn past(number: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::new(1_500_000_000 + number * 61, 123_456_789)
}

fn pool() -> io::Result<Vec<u8>> {
    let mut pool = vec![0; POOL];
    File::open("/dev/urandom")?.read_exact(&mut pool)?;
    Ok(pool)
}

fn random(path: &Path, bytes: u64) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    let copied = io::copy(&mut File::open("/dev/urandom")?.take(bytes), &mut file)?;
    if copied == bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// `data` bytes in extents of 64 KiB, spread evenly over a file of `bytes`.
fn sparse(path: &Path, bytes: u64, data: u64) -> io::Result<()> {
    let file = File::create_new(path)?;
    file.set_len(bytes)?;
    let pool = pool()?;
    let extents = (data / EXTENT).max(1);
    let step = (bytes / extents / EXTENT * EXTENT).max(EXTENT);
    for extent in 0..extents {
        let start = (extent * 4096 * 13) % (POOL as u64 - EXTENT);
        let range = usize::try_from(start).unwrap_or(0)..usize::try_from(start + EXTENT).unwrap_or(0);
        let at = extent * step;
        if at + EXTENT <= bytes {
            file.write_all_at(&pool[range], at)?;
        }
    }
    file.sync_all()
}

/// Counts what is at a path and below it, and how many bytes are allocated for it.
pub fn measure(path: &Path) -> Result<Extent> {
    let meta = path.symlink_metadata().map_err(shell::at(path))?;
    let mut extent = Extent { inodes: 1, bytes: meta.blocks() * 512 };
    if meta.is_dir() {
        for entry in shell::entries(path)? {
            let below = measure(&entry)?;
            extent.inodes += below.inodes;
            extent.bytes += below.bytes;
        }
    }
    Ok(extent)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn made(source: Source) -> (PathBuf, Extent) {
        let word = serde_json::to_string(&source).unwrap();
        let kind: String = word.chars().filter(char::is_ascii_alphanumeric).collect();
        let path = std::env::temp_dir().join(format!("haul-xtask-make-{kind}-{}", std::process::id()));
        process(&[word, path.to_string_lossy().into_owned()]).unwrap();
        let extent = measure(&path).unwrap();
        (path, extent)
    }

    #[test]
    fn a_nested_tree_has_the_files_and_the_directories() {
        let (path, extent) = made(Source::Tree { files: 1201 });
        fs::remove_dir_all(path).unwrap();
        // Directories 0 to 12 (10, 11 and 12 are in 1) and the root.
        assert_eq!(extent.inodes, 1201 + 13 + 1);
        assert!((1201 * 7 * 1024..1201 * 14 * 1024).contains(&extent.bytes), "{}", extent.bytes);
    }

    #[test]
    fn files_of_one_size_have_that_size() {
        let (path, _) = made(Source::Sized { files: 3, each: 5000 });
        let sizes: Vec<u64> = (0..3).map(|file| path.join(format!("d0/f{file}")).metadata().unwrap().len()).collect();
        fs::remove_dir_all(path).unwrap();
        assert_eq!(sizes, [5000; 3]);
    }

    #[test]
    fn a_sparse_file_has_its_data_and_its_size() {
        let (path, extent) = made(Source::Sparse { bytes: 20 << 20, data: 1 << 20 });
        let size = path.metadata().unwrap().len();
        fs::remove_file(path).unwrap();
        assert_eq!(size, 20 << 20);
        assert!((1 << 20..(1 << 20) + (64 << 10)).contains(&extent.bytes), "{}", extent.bytes);
    }

    #[test]
    fn equal_files_have_the_bytes_together() {
        let (path, extent) = made(Source::Set { files: 4, bytes: 1 << 20 });
        fs::remove_dir_all(path).unwrap();
        assert_eq!(extent.inodes, 5);
    }
}
