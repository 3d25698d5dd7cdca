//! Freeing space in place while somebody is in the way.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haul_fs::error::{Error, What};
use haul_guest::fs::Options;
use haul_image::{Punched, System, punch};
use haul_sys::Errno;
use haul_sys::kernel::{Fd, Kernel, Linux};
use haul_sys::rustix::fs::OFlags;
use haul_testbed::guest::{has, live_through, run as command};
use haul_testbed::{Bed, Command, temp_dir};

/// An image of ext4 whose free space holds the rests of files; its bytes.
fn image(bed: &Bed, path: &Path) -> Option<Vec<u8>> {
    if !has("mkfs.ext4") {
        return None;
    }
    File::create(path).unwrap().set_len(32 << 20).unwrap();
    command(Command::new("mkfs.ext4").args(["-q", "-F", "-E", "lazy_itable_init=0"]).arg(path));
    let mounted = bed.mount_image("ext4", path, &[]);
    live_through(mounted.path(), 6 << 20, 61);
    mounted.unmount();
    Some(fs::read(path).unwrap())
}

/// Tries until no child of another test holds the image any more.
fn punch_alone(kernel: Arc<dyn Kernel>, path: &Path) -> Result<Punched, Error> {
    let is_in_the_way = |error: &Error| {
        let why = error.to_string();
        why.contains("another process has it open") || why.contains("it is in use")
    };
    let tries = std::iter::repeat_with(|| punch(&kernel, path, &System::default(), false, &|| false));
    tries.take(10_000).find(|done| !done.as_ref().is_err_and(is_in_the_way)).expect("nobody has it for so long")
}

/// What is not free is as it was; what is free is that, or zeros.
fn assert_only_free_bytes_changed(path: &Path, before: &[u8]) {
    let free = haul_guest::map::map(&before.to_vec(), &Options::default()).free;
    let after = fs::read(path).unwrap();
    assert_eq!(after.len(), before.len());
    for (number, (new, old)) in after.chunks(4096).zip(before.chunks(4096)).enumerate() {
        let at = number as u64 * 4096;
        assert!(new == old || (free.contains(at) && new.iter().all(|byte| *byte == 0)), "offset {at}");
    }
}

/// Does something in the middle of punching.
#[derive(Debug)]
struct Meddler {
    path: PathBuf,
    /// The hole, counted from one, behind which somebody opens the image to write.
    open_after: usize,
    /// The reading, counted from one, behind which a byte of the image changes.
    write_after: usize,
    holes: AtomicUsize,
    reads: AtomicUsize,
}

impl Meddler {
    fn new(path: &Path) -> Meddler {
        Meddler {
            path: path.to_owned(),
            open_after: usize::MAX,
            write_after: usize::MAX,
            holes: AtomicUsize::new(0),
            reads: AtomicUsize::new(0),
        }
    }
}

impl Kernel for Meddler {
    fn punch_hole(&self, fd: Fd<'_>, offset: u64, len: u64) -> Result<(), Errno> {
        Linux.punch_hole(fd, offset, len)?;
        if self.holes.fetch_add(1, Ordering::SeqCst) + 1 == self.open_after {
            // Waiting would take the 45 seconds that a lease may last.
            let opened = File::options()
                .write(true)
                .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
                .open(&self.path)
                .map_err(|error| error.kind());
            assert_eq!(opened.map(drop), Err(std::io::ErrorKind::WouldBlock));
        }
        Ok(())
    }

    fn pread(&self, fd: Fd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let count = Linux.pread(fd, buffer, offset)?;
        if self.reads.fetch_add(1, Ordering::SeqCst) + 1 == self.write_after {
            // As if a lease could not keep everybody out. The number of mounts, in the superblock.
            Linux.pwrite(fd, &[77], 1024 + 52)?;
        }
        Ok(count)
    }
}

#[test]
fn whoever_opens_the_image_stops_the_punching_and_finds_it_whole() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let path = dir.path().join("disk");
    let Some(before) = image(&bed, &path) else { return };
    for open_after in [1, 2, 7] {
        let meddler = Arc::new(Meddler { open_after, ..Meddler::new(&path) });
        let failure = punch_alone(Arc::clone(&meddler) as Arc<dyn Kernel>, &path).unwrap_err();
        assert_eq!(failure.what, What::StoppedPunching, "{failure}");
        assert_eq!(meddler.holes.load(Ordering::SeqCst), open_after);
        assert_only_free_bytes_changed(&path, &before);
    }
    let done = punch_alone(Arc::new(Linux), &path).unwrap();
    assert!(done.freed > 5 << 20);
    assert_only_free_bytes_changed(&path, &before);
}

#[test]
fn an_image_that_changes_while_it_is_looked_at_is_not_punched() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let path = dir.path().join("disk");
    let Some(_) = image(&bed, &path) else { return };
    let spare = dir.path().join("spare");
    fs::copy(&path, &spare).unwrap();
    let counted = Arc::new(Meddler::new(&spare));
    punch_alone(Arc::clone(&counted) as Arc<dyn Kernel>, &spare).unwrap();
    let reads = counted.reads.load(Ordering::SeqCst);
    assert!(reads > 10, "{reads}");
    let blocks = fs::metadata(&path).unwrap().blocks();
    for write_after in (1..=reads).step_by(reads / 40 + 1).chain([reads]) {
        let meddler = Arc::new(Meddler { write_after, ..Meddler::new(&path) });
        let failure = punch_alone(Arc::clone(&meddler) as Arc<dyn Kernel>, &path).unwrap_err();
        assert_eq!(failure.what, What::NotPunched, "{write_after} of {reads}: {failure}");
        assert_eq!(meddler.holes.load(Ordering::SeqCst), 0, "{write_after} of {reads}");
        assert_eq!(fs::metadata(&path).unwrap().blocks(), blocks);
    }
}
