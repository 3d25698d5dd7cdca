//! The tree that is copied, and what else than haul says of its copy.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use haul_testbed::guest::Noise;

use crate::tool;

const MIB: u64 = 1 << 20;

/// Sizes around pages, buffers and what a server copies at once.
const SIZES: [usize; 9] = [0, 1, 700, 4096, 4097, 65_536, 5 << 20, 400_000, 150_001];

/// The size of the sparse file, of which three parts of 64 KiB are data.
pub const SPARSE: u64 = 24 * MIB;

/// What a filesystem keeps beyond contents, modes, times, names and links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeps {
    /// Attributes of the user.
    pub xattrs: bool,
    /// POSIX ACLs.
    pub acls: bool,
    /// FIFOs, links, owners and modes.
    pub posix: bool,
}

/// What local filesystems keep.
pub const ALL: Keeps = Keeps { xattrs: true, acls: true, posix: true };

/// What NFS 4.2 keeps: attributes of users since Linux 5.9, no POSIX ACLs.
pub const NFS: Keeps = Keeps { xattrs: true, acls: false, posix: true };

/// Makes a tree of about 10 MiB.
pub fn plant(root: &Path, keeps: Keeps) -> Result<(), String> {
    plant_all(root, keeps).map_err(|error| format!("the tree: {error}"))?;
    if keeps.acls {
        let at = root.display();
        tool::run(&format!("setfacl -m u:1234:rw,g:4321:r {at}/file-3"))?;
        tool::run(&format!("setfacl -d -m u:1234:rwx {at}/a/b"))?;
    }
    if keeps.xattrs {
        let at = root.display();
        tool::run(&format!("setfattr -n user.colour -v green {at}/a/file-4"))?;
        tool::run(&format!("setfattr -n user.shape -v round {at}/a"))?;
    }
    date(root)
}

fn plant_all(root: &Path, keeps: Keeps) -> std::io::Result<()> {
    let mut noise = Noise::new(1);
    for dir in ["a/b", "a/empty"] {
        fs::create_dir_all(root.join(dir))?;
    }
    for (number, size) in SIZES.into_iter().enumerate() {
        let file = root.join(["", "a", "a/b"][number % 3]).join(format!("file-{number}"));
        fs::write(&file, noise.bytes(size))?;
        if keeps.posix {
            fs::set_permissions(&file, PermissionsExt::from_mode(0o600 | ((number as u32 * 7) & 0o77)))?;
        }
    }
    let sparse = File::create(root.join("sparse"))?;
    sparse.set_len(SPARSE)?;
    for at in [0, 7 * MIB, 20 * MIB] {
        sparse.write_all_at(&noise.bytes(64 << 10), at)?;
    }
    if keeps.posix {
        symlink("file-0", root.join("link"))?;
        fs::hard_link(root.join("a/file-1"), root.join("a/second-name"))?;
        std::os::unix::fs::chown(root.join("file-3"), Some(1001), Some(2002))?;
        let fifo = root.join("a/fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o644.into(), 0)?;
    }
    Ok(())
}

/// Makes a random tree that NFS keeps: some directories, files of all sizes up to one of several MiB, holes, links.
pub fn grow(root: &Path, seed: u64) -> Result<(), String> {
    grow_all(root, &mut Noise::new(seed)).map_err(|error| format!("a random tree: {error}"))?;
    date(root)
}

fn grow_all(root: &Path, noise: &mut Noise) -> std::io::Result<()> {
    let mut directories = vec![root.to_owned()];
    fs::create_dir(root)?;
    for number in 0..2 + noise.below(12) {
        let parent = &directories[noise.below(directories.len() as u64) as usize];
        let directory = parent.join(format!("directory-{number}"));
        fs::create_dir(&directory)?;
        fs::set_permissions(&directory, PermissionsExt::from_mode(0o700 | noise.below(0o100) as u32))?;
        directories.push(directory);
    }
    let mut files: Vec<PathBuf> = Vec::new();
    for number in 0..20 + noise.below(100) {
        let path = directories[noise.below(directories.len() as u64) as usize].join(format!("entry-{number}"));
        match noise.below(12) {
            0 => symlink(format!("entry-{}", noise.below(100)), path)?,
            1 if !files.is_empty() => fs::hard_link(&files[noise.below(files.len() as u64) as usize], path)?,
            kind => {
                grow_file(&path, kind, noise)?;
                files.push(path);
            }
        }
    }
    // Of several chunks, so that both clients write to it.
    let size = 3 * MIB + noise.below(6 * MIB);
    fs::write(root.join("large"), noise.bytes(size as usize))
}

fn grow_file(path: &Path, kind: u64, noise: &mut Noise) -> std::io::Result<()> {
    let file = File::create(path)?;
    let size = noise.below(match kind {
        2 => 4 * MIB,
        3 => MIB,
        4 => 1,
        _ => 9000,
    });
    match kind {
        2 => {
            file.set_len(size)?;
            for _ in 0..3 {
                file.write_all_at(&noise.bytes(5000), noise.below(size))?;
            }
        }
        _ => file.write_all_at(&noise.bytes(size as usize), 0)?,
    }
    file.set_permissions(PermissionsExt::from_mode(0o400 | noise.below(0o1000) as u32))?;
    let (user, group) = (noise.below(3000) as u32, noise.below(3000) as u32);
    std::os::unix::fs::fchown(&file, Some(user), Some(group))?;
    if noise.below(6) == 0 {
        let value = noise.number().to_string();
        rustix::fs::fsetxattr(&file, c"user.colour", value.as_bytes(), rustix::fs::XattrFlags::empty())?;
    }
    Ok(())
}

/// Gives everything a time long ago, so that no copy has it by chance.
fn date(root: &Path) -> Result<(), String> {
    let listing = tool::output(&format!("find {} -depth ( -type f -o -type d )", root.display()))?;
    for (age, name) in (0..).zip(listing.lines()) {
        let time = SystemTime::UNIX_EPOCH + Duration::new(1_600_000_000 + age, 123_456_700);
        let set = File::open(name).and_then(|file| file.set_modified(time));
        set.map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

/// Compares two trees by other programs, and by haul.
pub fn same(source: &Path, copy: &Path, keeps: Keeps) -> Result<(), String> {
    let (from, to) = (source.display(), copy.display());
    tool::run(&format!("diff --recursive --no-dereference --exclude=fifo {from} {to}"))?;
    // How many names a directory has is its filesystem's affair.
    let (dir, other) =
        if keeps.posix { ("%P:%y:%m:%U:%G:%T@", "%P:%y:%m:%U:%G:%T@:%n:%s:%l") } else { ("%P:%y:%T@", "%P:%y:%T@:%s") };
    let seen = |root: &Path| {
        let root = root.display();
        let listed = tool::output(&format!("find {root} ( -type d -printf {dir}\\n ) -o -printf {other}\\n"))?;
        let mut lines: Vec<String> = listed.lines().map(str::to_owned).collect();
        lines.sort();
        Ok::<_, String>(lines)
    };
    differ("find", &seen(source)?, &seen(copy)?)?;
    if keeps.posix {
        differ("names of one file", &names_of_one_file(source)?, &names_of_one_file(copy)?)?;
    }
    let attributes = |tool: &str, root: &Path| {
        let line = format!("{tool} .");
        let text = tool::finish(&line, tool::command(&line).current_dir(root))?;
        // The order is the directory's; a record ends with an empty line.
        let mut records: Vec<String> = text.split("\n\n").map(|record| record.trim().to_owned()).collect();
        records.sort();
        Ok::<_, String>(records)
    };
    if keeps.xattrs {
        let list = "getfattr --recursive --physical --no-dereference --dump --match=^user[.]";
        differ("getfattr", &attributes(list, source)?, &attributes(list, copy)?)?;
    }
    if keeps.acls {
        let list = "getfacl --recursive --physical --numeric --access --default";
        differ("getfacl", &attributes(list, source)?, &attributes(list, copy)?)?;
    }
    Ok(())
}

/// The names that each file of several has in a tree, in one line for a file.
fn names_of_one_file(root: &Path) -> Result<Vec<String>, String> {
    let listed = tool::output(&format!("find {} -type f -links +1 -printf %i:%P\\n", root.display()))?;
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (file, name) in listed.lines().filter_map(|line| line.split_once(':')) {
        files.entry(file).or_default().push(name);
    }
    let mut lines: Vec<String> = files
        .into_values()
        .map(|mut names| {
            names.sort_unstable();
            names.join(" = ")
        })
        .collect();
    lines.sort();
    Ok(lines)
}

fn differ(what: &str, one: &[String], other: &[String]) -> Result<(), String> {
    let lost: Vec<&String> = one.iter().filter(|line| !other.contains(line)).collect();
    let new: Vec<&String> = other.iter().filter(|line| !one.contains(line)).collect();
    if lost.is_empty() && new.is_empty() { Ok(()) } else { Err(format!("{what}: {lost:?} became {new:?}")) }
}

/// haul's own opinion of the copy.
pub fn haul_agrees(source: &Path, copy: &Path) -> Result<(), String> {
    tool::run(&format!("haul --compare -r -T {} {}", source.display(), copy.display()))
}

/// How many KiB a file takes on its filesystem.
pub fn allocated(file: &Path) -> Result<u64, String> {
    fs::metadata(file).map(|meta| meta.blocks() / 2).map_err(|error| format!("{}: {error}", file.display()))
}

/// Forgets what is in the page cache, so that the next reader asks the device or the server.
pub fn forget_cache() -> Result<(), String> {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3").map_err(|error| format!("drop_caches: {error}"))
}
