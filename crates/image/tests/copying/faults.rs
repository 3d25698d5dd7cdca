//! A kernel that fails.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use haul_image::{Event, Mode, Options};
use haul_sys::Errno;
use haul_sys::kernel::{Fd, Kernel, Linux};
use haul_testbed::guest::Noise;
use haul_testbed::{Bed, Command, Fs, temp_dir};

use crate::harness::{Image, Run, check_numbers, words};

/// Reads or writes beyond a byte fail for good.
#[derive(Debug)]
struct Broken {
    read: Option<(u64, Errno)>,
    write: Option<(u64, Errno)>,
    seek: Option<Errno>,
    size: Option<Errno>,
}

const SOUND: Broken = Broken { read: None, write: None, seek: None, size: None };

fn fails(rule: Option<(u64, Errno)>, offset: u64) -> Result<(), Errno> {
    match rule {
        Some((from, errno)) if offset >= from => Err(errno),
        _ => Ok(()),
    }
}

impl Kernel for Broken {
    fn pread(&self, fd: Fd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        fails(self.read, offset).and_then(|()| Linux.pread(fd, buffer, offset))
    }

    fn pwrite(&self, fd: Fd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        fails(self.write, offset).and_then(|()| Linux.pwrite(fd, bytes, offset))
    }

    fn seek_data(&self, fd: Fd<'_>, offset: u64) -> Result<u64, Errno> {
        self.seek.map_or_else(|| Linux.seek_data(fd, offset), Err)
    }

    fn set_size(&self, fd: Fd<'_>, size: u64) -> Result<(), Errno> {
        self.size.map_or_else(|| Linux.set_size(fd, size), Err)
    }
}

#[test]
fn a_failure_is_final_named_and_leaves_no_new_file() {
    let cases = [
        (Broken { read: Some((200_000, Errno::IO)), ..SOUND }, "error reading \"", "image\": Input/output error"),
        (Broken { read: Some((0, Errno::NOMEM)), ..SOUND }, "error reading \"", "image\": Cannot allocate"),
        (Broken { write: Some((200_000, Errno::NOSPC)), ..SOUND }, "error writing \"", "copy\": No space left"),
        (Broken { write: Some((0, Errno::DQUOT)), ..SOUND }, "error writing \"", "copy\": "),
        (Broken { write: Some((100_000, Errno::IO)), ..SOUND }, "error writing \"", "copy\": Input/output error"),
        (Broken { seek: Some(Errno::IO), ..SOUND }, "error reading \"", "image\": Input/output error"),
        (Broken { size: Some(Errno::FBIG), ..SOUND }, "failed to ", "copy\": File too large"),
    ];
    for (broken, begin, end) in cases {
        for existing in [false, true] {
            let dir = temp_dir();
            let dest = dir.path().join("copy");
            let image = Image::new(dir.path().join("image"), 1_000_000, 9000, &mut Noise::new(31));
            if existing {
                fs::write(&dest, "old").unwrap();
            }
            let Broken { read, write, seek, size } = broken;
            let run = Run { kernel: Arc::new(Broken { read, write, seek, size }), ..Run::default() };
            let failure = run.copy(&image.path, &dest).unwrap_err();
            let said = words(&failure);
            assert!(said.starts_with(begin) && said.contains(end), "{said}");
            assert_eq!(dest.exists(), existing, "{said}");
            assert_eq!(failure.damaged, existing.then_some(dest), "{said}");
        }
    }
}

#[test]
fn a_full_filesystem_is_named_and_has_its_space_back() {
    let Some(bed) = Bed::new() else { return };
    for kind in Fs::ALL {
        let Some(dir) = bed.small(kind, 24 << 20) else { continue };
        let place = temp_dir();
        let image = Image::new(place.path().join("image"), 48 << 20, 4 << 20, &mut Noise::new(7));
        fill_up(&dir);
        let run = Run::default();
        let failure = run.copy(&image.path, &dir.join("copy")).unwrap_err();
        let said = words(&failure);
        assert!(said.starts_with("error writing") && said.ends_with("(os error 28)"), "{}: {said}", kind.name());
        assert!(!dir.join("copy").exists(), "{}", kind.name());
    }
}

/// Leaves room for about 4 MiB.
fn fill_up(dir: &Path) {
    let fillers = (0..).map(|number| dir.join(format!("filler-{number}")));
    let made = fillers.take_while(|path| {
        let filled = Command::new("fallocate").args(["-l", "4M"]).arg(path).stderr(Stdio::null()).status().unwrap();
        filled.success()
    });
    let made: Vec<_> = made.collect();
    for path in made.iter().rev().take(1) {
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_direct_side_that_is_not_to_be_had_is_reported_and_copied_through_the_page_cache() {
    #[derive(Debug)]
    struct Indirect;
    impl Kernel for Indirect {
        fn reopen_direct(&self, _: Fd<'_>) -> Result<std::os::fd::OwnedFd, Errno> {
            Err(Errno::INVAL)
        }
    }
    let dir = temp_dir();
    let image = Image::new(dir.path().join("image"), 100_001, 9000, &mut Noise::new(31));
    let paths = std::sync::Mutex::new(Vec::new());
    let run = Run {
        kernel: Arc::new(Indirect),
        attack: Box::new(|event, _| {
            if let haul_image::Event::NotDirect(path) = event {
                paths.lock().unwrap().push(path.to_path_buf());
            }
        }),
        ..Run::default()
    };
    let run = Run { options: Options { direct: true, mode: Mode::Copy, ..run.options }, ..run };
    run.copy(&image.path, &dir.path().join("copy")).unwrap();
    crate::harness::assert_holds(&dir.path().join("copy"), &image.bytes, "indirect");
    assert_eq!(*paths.lock().unwrap(), [image.path, dir.path().join("copy")]);
}

#[test]
fn workers_count_the_time_of_every_call_that_moves_bytes() {
    const LEAST: Duration = Duration::from_millis(3);

    /// Slow in all calls of more than the byte that looks for the end.
    #[derive(Debug, Default)]
    struct Slow {
        reads: AtomicU32,
        writes: AtomicU32,
    }

    impl Kernel for Slow {
        fn pread(&self, fd: Fd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
            if buffer.len() > 1 {
                self.reads.fetch_add(1, Ordering::SeqCst);
                thread::sleep(LEAST);
            }
            Linux.pread(fd, buffer, offset)
        }

        fn pwrite(&self, fd: Fd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
            self.writes.fetch_add(1, Ordering::SeqCst);
            thread::sleep(LEAST);
            Linux.pwrite(fd, bytes, offset)
        }
    }

    let dir = temp_dir();
    let image = Image::new(dir.path().join("image"), 1_000_000, 9000, &mut Noise::new(9));
    let kernel = Arc::new(Slow::default());
    let run = Run { kernel: kernel.clone(), ..Run::default() };
    let report = run.copy(&image.path, &dir.path().join("copy")).unwrap();
    check_numbers(&report, &run.options, "slow");
    let times = &report.stats.times;
    let (reads, writes) = (kernel.reads.load(Ordering::SeqCst), kernel.writes.load(Ordering::SeqCst));
    assert!(reads > 7 && times.read >= LEAST * reads, "{reads} {times:?}");
    assert!(writes > 7 && times.write >= LEAST * writes, "{writes} {times:?}");
    let (read, write) = report.stats.shares().unwrap();
    assert!(read > 0.0 && write > 0.0 && read + write <= 1.0, "{read} {write}");
}

#[test]
fn reports_go_on_while_maps_are_read() {
    /// Slow to begin.
    #[derive(Debug, Default)]
    struct Slow(AtomicBool);

    impl Kernel for Slow {
        fn pread(&self, fd: Fd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
            if !self.0.swap(true, Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1100));
            }
            Linux.pread(fd, buffer, offset)
        }
    }

    let dir = temp_dir();
    let image = Image::new(dir.path().join("image"), 100_000, 9000, &mut Noise::new(9));
    let (seconds, mapped) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let run = Run {
        witnessed: vec![(0, 4096)],
        kernel: Arc::new(Slow::default()),
        attack: Box::new(|event, _| match event {
            Event::Second(_) => drop(seconds.fetch_add(1, Ordering::SeqCst)),
            Event::Mapped(_) => mapped.store(seconds.load(Ordering::SeqCst), Ordering::SeqCst),
            _ => {}
        }),
        ..Run::default()
    };
    run.copy(&image.path, &dir.path().join("copy")).unwrap();
    assert!(mapped.load(Ordering::SeqCst) >= 1);
}
