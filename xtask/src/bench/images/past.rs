//! The image: an ext4 filesystem with a past.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use haul_sys::Errno;
use haul_sys::page_cache::forget;
use haul_sys::rustix::fs::{SeekFrom, seek, statvfs};

use super::record::Image;
use crate::shell::{self, Result};

const MIB: u64 = 1 << 20;

/// Parts of the image in percent: live files of noise, files of zeros, deleted files of noise. With the inode tables and
/// the journal, which are zeros too, about 23% of the image are zeros.
const PARTS: [(&str, u64); 3] = [("live", 49), ("zeros", 21), ("gone", 28)];

/// Sizes of files in turn: most are small, most bytes are in large ones.
const SIZES: &[u64] = &[16 << 10, 300 << 10, 40 << 10, 4 << 20, 100 << 10, 32 << 20];

/// Makes the image. No byte of it is a hole.
pub fn make(path: &Path, size: u64, scratch: &Path) -> Result {
    write_zeros(path, size)?;
    let mut mkfs = shell::command("mkfs.ext4");
    shell::run(mkfs.args(["-q", "-F", "-m", "0", "-E", "nodiscard,lazy_itable_init=0"]).arg(path))?;
    let mounted = Mount::new(path, &["loop"], &scratch.join("past"))?;
    let written = fill(&mounted.0, size);
    mounted.unmount()?;
    written?;
    fill_holes(path, size)?;
    shell::run(shell::command("e2fsck").args(["-fn"]).arg(path).stdout(std::process::Stdio::null()))
}

/// Writes zeros where the filesystem below keeps none: mkfs.ext4 and the loop device ask it for zeros instead of writing
/// them, and once they are out of the page cache they are holes to whoever asks.
fn fill_holes(path: &Path, size: u64) -> Result {
    let failed = shell::at(path);
    let refused = |errno: Errno| format!("{}: {errno}", path.display());
    let file = File::options().read(true).write(true).open(path).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    forget(file.as_fd(), 0, size).map_err(refused)?;
    let mut at = 0;
    while at < size {
        let hole = seek(&file, SeekFrom::Hole(at)).map_err(refused)?;
        at = match seek(&file, SeekFrom::Data(hole)) {
            Err(Errno::NXIO) => size,
            end => end.map_err(refused)?,
        };
        zeros_to(&file, hole..at).map_err(failed)?;
    }
    file.sync_all().map_err(failed)
}

fn zeros_to(file: &File, range: Range<u64>) -> std::io::Result<()> {
    let zeros = vec![0; MIB as usize];
    let mut starts = range.clone().step_by(zeros.len());
    starts.try_for_each(|at| file.write_all_at(&zeros[..(range.end - at).min(MIB) as usize], at))
}

/// Writes files in turn, so that what is deleted lies between what is kept, until there is no room.
fn fill(dir: &Path, size: u64) -> Result {
    let failed = shell::at(dir);
    for (name, _) in PARTS {
        fs::create_dir(dir.join(name)).map_err(failed)?;
    }
    let mut noise = vec![0; (32 * MIB) as usize];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut noise)).map_err(failed)?;
    let zeros = vec![0; noise.len()];
    let mut written = [0_u64; 3];
    for number in 0_usize.. {
        // Whichever is furthest behind its part.
        let Some(class) = (0..3).min_by_key(|&class| written[class] / PARTS[class].1) else { break };
        let len = SIZES[number % SIZES.len()].min(size / 64);
        let path = dir.join(PARTS[class].0).join(number.to_string());
        // Noise that is another in each file.
        noise[..8].copy_from_slice(&(number as u64 + 1).to_le_bytes());
        let bytes = if class == 1 { &zeros } else { &noise };
        match File::create(&path).and_then(|mut file| file.write_all(&bytes[..len as usize])) {
            Ok(()) => written[class] += len,
            // The last one is as long as there is room.
            Err(error) if error.kind() == ErrorKind::StorageFull => break,
            Err(error) => return Err(failed(error)),
        }
    }
    // What is deleted must have been on the disk.
    shell::run(shell::command("sync").arg("-f").arg(dir))?;
    fs::remove_dir_all(dir.join("gone")).map_err(failed)
}

/// What is in an image, as the kernel and the filesystem say it.
pub fn look_at(path: &Path, scratch: &Path) -> Result<Image> {
    let meta = fs::metadata(path).map_err(shell::at(path))?;
    let mounted = Mount::new(path, &["loop", "ro", "noload"], &scratch.join("look"))?;
    let looked = statvfs(&mounted.0).map_err(|error| error.to_string()).and_then(|fs| {
        let files = |name: &str| -> Result<u64> {
            let said = shell::output(shell::command("du").args(["-s", "--block-size=1"]).arg(mounted.0.join(name)))?;
            said.split_whitespace().next().and_then(|word| word.parse().ok()).ok_or_else(|| "du says nothing".into())
        };
        Ok((fs.f_bfree * fs.f_frsize, files("live")?, files("zeros")?))
    });
    mounted.unmount()?;
    let (free, live, zeros) = looked?;
    Ok(Image { path: path.to_owned(), size: meta.len(), allocated: meta.blocks() * 512, free, live, zeros })
}

pub fn write_zeros(path: &Path, size: u64) -> Result {
    let write = || {
        let file = File::create_new(path)?;
        zeros_to(&file, 0..size)?;
        file.sync_all()
    };
    write().map_err(shell::at(path))
}

/// A mounted image. Whoever forgets to unmount leaves that to the end of the namespace.
pub struct Mount(pub std::path::PathBuf);

impl Mount {
    /// Mounts it at a directory, which is made if need be.
    pub fn new(image: &Path, options: &[&str], at: &Path) -> Result<Mount> {
        shell::make_dir(at)?;
        let mut mount = shell::command("mount");
        shell::run(mount.args(["-o", &options.join(",")]).arg(image).arg(at))?;
        Ok(Mount(at.to_owned()))
    }

    pub fn unmount(self) -> Result {
        shell::run(shell::command("umount").arg(&self.0))?;
        fs::remove_dir(&self.0).map_err(shell::at(&self.0))
    }
}
