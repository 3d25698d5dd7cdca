//! Disk images with a past: filesystems whose free space holds the rests of deleted files.
//!
//! The oracle is always the contents of the files, never a checker's exit status alone.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use crate::Command;
use crate::skip::skip;

const CHUNK: usize = 1 << 20;

/// A filesystem of an image, mounted by the kernel until this is dropped or [`Mounted::unmount`] is called.
pub struct Mounted {
    path: PathBuf,
    mounted: bool,
}

impl Mounted {
    /// Mounts an image file on a directory, through a loop device that goes with the mount.
    ///
    /// # Panics
    /// If it cannot be mounted.
    pub(crate) fn mount(at: PathBuf, kind: &str, image: &Path, options: &[&str]) -> Mounted {
        let options = ["loop"].iter().chain(options).copied().collect::<Vec<_>>().join(",");
        run(Command::new("mount").args(["-t", kind, "-o", &options]).arg(image).arg(&at));
        Mounted { path: at, mounted: true }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Unmounts it, so that everything is in the image.
    ///
    /// # Panics
    /// If it cannot be unmounted.
    pub fn unmount(mut self) {
        self.mounted = false;
        unmount(&self.path);
    }
}

/// Unmounts what is mounted here. A process that another test has just forked holds this one's open files until it executes
/// its program, which takes its time on a starved machine: so it is tried often.
///
/// # Panics
/// If it stays busy.
pub fn unmount(path: &Path) {
    for _ in 0..200 {
        if Command::new("umount").arg(path).output().is_ok_and(|done| done.status.success()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    run(Command::new("umount").arg(path));
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.mounted {
            // Best effort, after a failure of the test: the end of its namespace would do the same.
            Command::new("umount").arg("-l").arg(&self.path).status().map(drop).unwrap_or_default();
        }
    }
}

/// Runs a command and returns what it printed.
///
/// # Panics
/// If it cannot be started or fails; the message has what it printed.
pub fn run(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(done.status.success(), "{command:?}: {}\n{}{}", done.status, text(&done.stdout), text(&done.stderr));
    text(&done.stdout)
}

/// Attaches a file to a free loop device and gives the device's path. Returns when nobody else has the device open: of two
/// programs that ask for a free one at the same time, the one that came too late holds it for a moment.
///
/// # Panics
/// If there is no loop device to be had.
pub fn attach(file: &Path, options: &[&str]) -> String {
    let device = run(Command::new("losetup").args(["-f", "--show"]).args(options).arg(file)).trim().to_owned();
    while somebody_has(Path::new(&device)) {
        std::thread::yield_now();
    }
    device
}

/// Whether another process has this path open.
fn somebody_has(path: &Path) -> bool {
    let entries = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let others = entries("/proc".into()).filter(|process| process.file_name() != *std::process::id().to_string());
    others
        .flat_map(|process| entries(process.path().join("fd")))
        .any(|link| fs::read_link(link.path()).is_ok_and(|to| to == path))
}

/// Whether a program is installed; a [`skip`] if not.
#[must_use]
pub fn has(program: &str) -> bool {
    let dirs = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&dirs).chain(["/usr/sbin".into(), "/sbin".into()]).any(|dir| dir.join(program).exists());
    if !found {
        skip(format!("{program} is not installed"));
    }
    found
}

/// Random bytes that are the same for the same seed. Not a byte of them is zero, so that a block that a copy skipped
/// wrongly shows.
pub struct Noise(u64);

impl Noise {
    /// The bytes of this seed.
    pub fn new(seed: u64) -> Noise {
        Noise(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number (xorshift64*).
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit.max(1)
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend((self.number() | 0x0101_0101_0101_0101).to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

/// Gives a mounted filesystem a past and a present: first all its free space is filled with noise and freed again, then
/// files are written, and many deleted. About `kept` bytes of files stay, in `dir/keep`.
///
/// # Panics
/// If something cannot be written for another reason than a full filesystem.
pub fn live_through(dir: &Path, kept: u64, seed: u64) {
    let mut noise = Noise::new(seed);
    fill_with_noise(dir, &mut noise);
    let (keep, gone) = (dir.join("keep"), dir.join("gone"));
    fs::create_dir_all(&keep).expect("cannot make a directory");
    fs::create_dir_all(&gone).expect("cannot make a directory");
    write_noise(&keep.join("large"), kept / 2, &mut noise);
    // Small files, between which others are deleted: their free extents are many.
    let mut written = 0;
    for number in 0.. {
        if written >= kept / 2 {
            break;
        }
        let len = noise.below(100_000) + 1;
        write_noise(&keep.join(format!("small-{number}")), len, &mut noise);
        write_noise(&gone.join(format!("small-{number}")), len, &mut noise);
        written += len;
    }
    write_noise(&gone.join("large"), kept / 2, &mut noise);
    flush(dir);
    remove_all(dir, &gone);
    flush(dir);
}

/// A filesystem in user space hears of a close only after close(2) has returned, and gives what is removed before that a
/// hidden name for so long: the directory is not empty then.
fn remove_all(dir: &Path, gone: &Path) {
    let removed = (0..1000).any(|_| match fs::remove_dir_all(gone) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
            flush(dir);
            false
        }
        Err(error) => panic!("cannot delete what should be gone: {error}"),
    });
    assert!(removed, "what should be gone is still there");
}

/// Fills what is free with noise, flushes it and deletes it: whatever is free afterwards is not zero.
///
/// # Panics
/// If it cannot be written for another reason than a full filesystem.
pub fn fill_with_noise(dir: &Path, noise: &mut Noise) {
    let path = dir.join("filler");
    let file = File::create(&path).expect("cannot create the filler");
    for len in [CHUNK, 4096, 512] {
        let block = noise.bytes(len);
        loop {
            match (&file).write_all(&block) {
                Ok(()) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge) => break,
                Err(error) => panic!("cannot fill {}: {error}", dir.display()),
            }
        }
    }
    file.sync_all().expect("cannot flush the filler");
    drop(file);
    fs::remove_file(&path).expect("cannot delete the filler");
    wait_for_room(dir);
}

/// A journal gives freed blocks back only after its commit is done, which a flush does not quite wait for. Room for one directory
/// may be what another commit gave back.
fn wait_for_room(dir: &Path) {
    let (probe, deepest) = (dir.join("probe"), dir.join("probe/1/2/3/4/5/6/7"));
    let made = (0..1000).any(|_| {
        flush(dir);
        match fs::create_dir_all(&deepest) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::StorageFull => false,
            Err(error) => panic!("cannot make a directory: {error}"),
        }
    });
    assert!(made, "what was deleted is not given back");
    fs::remove_dir_all(&probe).expect("cannot delete a directory");
    flush(dir);
}

/// Writes a file of noise.
///
/// # Panics
/// If it cannot.
pub fn write_noise(path: &Path, len: u64, noise: &mut Noise) {
    let mut file = File::create(path).expect("cannot create a file");
    let mut left = usize::try_from(len).expect("too long");
    while left > 0 {
        let piece = left.min(CHUNK);
        write_patiently(&mut file, &noise.bytes(piece));
        left -= piece;
    }
}

/// Btrfs has no room for a moment while it takes an empty block group away.
fn write_patiently(file: &mut File, mut bytes: &[u8]) {
    let mut patience = 100;
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::StorageFull && patience > 0 => {
                patience -= 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => panic!("cannot write a file: {error}"),
        }
    }
}

/// Writes everything of the filesystem of `dir` to its device.
///
/// # Panics
/// If it cannot.
pub fn flush(dir: &Path) {
    run(Command::new("sync").arg("-f").arg(dir));
}

/// A digest and the size of every file below a directory, by its path there.
///
/// # Panics
/// If one cannot be read.
pub fn digests(dir: &Path) -> BTreeMap<PathBuf, (u64, u64)> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    let mut buffer = vec![0; CHUNK];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(&next).expect("cannot list") {
            let entry = entry.expect("cannot list");
            let kind = entry.file_type().expect("cannot look at an entry");
            if kind.is_dir() {
                dirs.push(entry.path());
            } else if kind.is_file() {
                let path = entry.path();
                let mut file = File::open(&path).expect("cannot open");
                let (mut hasher, mut size) = (DefaultHasher::new(), 0);
                loop {
                    match file.read(&mut buffer) {
                        Ok(0) => break,
                        Ok(count) => {
                            hasher.write(&buffer[..count]);
                            size += count as u64;
                        }
                        Err(error) => panic!("cannot read {}: {error}", path.display()),
                    }
                }
                found.insert(path.strip_prefix(dir).expect("not below").to_owned(), (hasher.finish(), size));
            }
        }
    }
    found
}

/// Copies an image without the bytes of `free` (offset and length, sorted), which become a hole. The slow and simple
/// reference of what a smart copy does.
///
/// # Panics
/// If it cannot be read or written.
pub fn copy_without(image: &Path, free: impl IntoIterator<Item = (u64, u64)>, to: &Path) {
    let (from, to) = (File::open(image).expect("cannot open"), File::create(to).expect("cannot create"));
    let size = from.metadata().expect("cannot look at the image").len();
    to.set_len(size).expect("cannot set the size");
    let mut at = 0;
    for (start, len) in free.into_iter().chain([(size, 0)]) {
        copy_range(&from, &to, at, start);
        at = start + len;
    }
}

/// Copies a range of a file; what is zeros is not written.
pub(crate) fn copy_range(from: &File, to: &File, start: u64, end: u64) {
    let mut buffer = vec![0; CHUNK];
    let mut at = start;
    while at < end {
        let piece = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
        from.read_exact_at(&mut buffer[..piece], at).expect("cannot read the image");
        if buffer[..piece].iter().any(|byte| *byte != 0) {
            to.write_all_at(&buffer[..piece], at).expect("cannot write the copy");
        }
        at += piece as u64;
    }
}

/// Runs a program with something to read; returns what it prints.
///
/// # Panics
/// If it cannot be run, or fails.
pub fn feed(command: &mut Command, input: &str) -> String {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}
