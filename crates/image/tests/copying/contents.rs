//! What a copy holds, whatever the image, the map and the options are.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use haul_guest::ExtentSet;
use haul_image::{Disk, Event, Mode, Options, Smart, Source};
use haul_io::engine::wrap::Unruly;
use haul_io::options::CacheUse;
use haul_io::pace::{Limit, Pace};
use haul_sys::Errno;
use haul_sys::kernel::{Fd, Kernel, Linux};
use haul_sys::page_cache;
use haul_testbed::guest::Noise;
use haul_testbed::{Bed, Fs, allocated, temp_dir};

use crate::harness::{Image, Run, assert_holds, check_numbers, md5_of, random_set, trimmed};

/// Options at random; the tests that are for one of them set it themselves.
fn random_options(noise: &mut Noise) -> Options {
    let sizes = [1 + noise.below(9000), 4096, 8192, 1 << 16, 128 << 10, 1 << 20];
    Options {
        sparse: noise.below(3) > 0,
        smart: Smart::Snapshot,
        md5: noise.below(2) == 0,
        buffer_size: sizes[noise.below(sizes.len() as u64) as usize] as usize,
        direct: noise.below(3) == 0,
        cache: [CacheUse::Auto, CacheUse::Keep, CacheUse::Drop][noise.below(3) as usize],
        zero_scan: noise.below(4) > 0,
        queued: noise.below(4) == 0,
        fail_if_written: false,
        mode: Mode::Copy,
    }
}

fn random_size(noise: &mut Noise) -> u64 {
    match noise.below(6) {
        0 => noise.below(3),
        1 => noise.below(9000),
        2 => noise.below(64) * 4096,
        _ => noise.below(900_000),
    }
}

/// Copies random images in random ways in this directory.
fn hunt(dir: &Path, rounds: u64, seed: u64, kernel: impl Fn(u64) -> Arc<dyn Kernel>) {
    for round in 0..rounds {
        let mut noise = Noise::new(seed + round);
        let (size, longest) = (random_size(&mut noise), 1 << (6 + noise.below(12)));
        let image = Image::new(dir.join("image"), size, longest, &mut noise);
        let free = random_set(size, 1 << (6 + noise.below(14)), &mut noise);
        let mut options = random_options(&mut noise);
        // Byte by byte takes too long for large ones.
        options.buffer_size = options.buffer_size.max(size as usize / 2000);
        let dest = dir.join("copy");
        if noise.below(2) == 0 {
            fs::write(&dest, noise.bytes(noise.clone_below(1 << 20) as usize)).unwrap();
        }
        let what = format!("seed {seed} round {round}: {size} bytes, {options:?}");
        let run = Run { options, free, kernel: kernel(seed + round), ..Run::default() };
        let report = run.copy(&image.path, &dest).unwrap_or_else(|failure| panic!("{what}: {failure:?}"));
        let expected = image.without(&run.free);
        assert_holds(&dest, &expected, &what);
        check_numbers(&report, &options, &what);
        assert_eq!(report.md5, options.md5.then(|| md5_of(&expected)), "{what}");
        assert_eq!(report.stats.free, trimmed(&run.free, size).bytes(), "{what}");
        if options.sparse && options.zero_scan && options.buffer_size.is_multiple_of(4096) {
            let full = expected.chunks(4096).filter(|block| block.iter().any(|byte| *byte != 0));
            assert_eq!(report.stats.copied, full.map(|block| block.len() as u64).sum::<u64>(), "{what}");
        }
        assert!(report.doubt.is_none() && !report.source_written, "{what}");
        if noise.below(2) == 0 {
            fs::remove_file(&dest).unwrap();
        }
    }
}

/// A number that does not disturb the borrow of the noise that uses it.
trait CloneBelow {
    fn clone_below(&self, limit: u64) -> u64;
}

impl CloneBelow for Noise {
    fn clone_below(&self, limit: u64) -> u64 {
        Noise::new(limit).below(limit)
    }
}

#[test]
fn every_used_byte_is_there_and_every_free_one_is_zero() {
    let dir = temp_dir();
    hunt(dir.path(), 300, 1, |_| Arc::new(Linux));
}

#[test]
fn short_counts_and_interruptions_change_nothing() {
    let dir = temp_dir();
    hunt(dir.path(), 80, 10_000, |seed| Arc::new(Unruly::new(seed, 5000)));
}

#[test]
fn it_works_on_every_filesystem_and_takes_no_more_space_than_it_writes() {
    let Some(bed) = Bed::new() else { return };
    for kind in Fs::ALL {
        let Some(dir) = bed.mount(kind) else { continue };
        hunt(&dir, 40, 20_000, |_| Arc::new(Linux));
        let mut noise = Noise::new(5);
        let image = Image::new(dir.join("image"), 24 << 20, 1 << 20, &mut noise);
        let free = random_set(24 << 20, 4 << 20, &mut noise);
        for direct in [false, true] {
            let dest = dir.join(format!("copy-{direct}"));
            let run = Run { free: free.clone(), ..Run::default() };
            let run = Run { options: Options { direct, ..run.options }, ..run };
            let report = run.copy(&image.path, &dest).unwrap();
            assert_holds(&dest, &image.without(&run.free), kind.name());
            let (took, wrote) = (allocated(&dest), report.stats.copied);
            assert!(took <= wrote + wrote / 50 + (64 << 10), "{}: {took} bytes for {wrote}", kind.name());
        }
    }
}

/// Copies large images to the device, some of which the page cache has, while somebody reads what is there of the copy.
fn hunt_on_the_device(dir: &Path, rounds: u64, seed: u64, kernel: impl Fn(u64) -> Arc<dyn Kernel>) -> u64 {
    let mut direct = 0;
    for round in 0..rounds {
        let mut noise = Noise::new(seed + round);
        let (size, longest) = ((4 << 20) + noise.below(28 << 20), 1 << (12 + noise.below(13)));
        let image = Image::new(dir.join("image"), size, longest, &mut noise);
        let free = random_set(size, 1 << (12 + noise.below(12)), &mut noise);
        let file = File::open(&image.path).unwrap();
        if noise.below(2) == 0 {
            file.sync_all().unwrap();
            page_cache::forget(file.as_fd(), 0, size / (1 + noise.below(2))).unwrap();
        }
        let dest = dir.join("copy");
        if noise.below(2) == 0 {
            fs::write(&dest, noise.bytes(5 << 20)).unwrap();
        }
        let (sparse, zero_scan) = (noise.below(3) > 0, noise.below(3) > 0);
        let options = Options { sparse, zero_scan, cache: CacheUse::Drop, ..Run::default().options };
        let what = format!("seed {seed} round {round}: {size} bytes, {options:?}");
        let run = Run { options, free, kernel: kernel(seed + round), ..Run::default() };
        let over = AtomicBool::new(false);
        let report = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    fs::read(&dest).ok();
                }
            });
            let report = run.copy(&image.path, &dest);
            over.store(true, Ordering::Relaxed);
            report.unwrap_or_else(|failure| panic!("{what}: {failure:?}"))
        });
        direct += u64::from(report.to_device);
        assert_holds(&dest, &image.without(&run.free), &what);
        // As the device has it, and not only the page cache.
        let copy = File::open(&dest).unwrap();
        copy.sync_all().unwrap();
        page_cache::forget(copy.as_fd(), 0, size).unwrap();
        assert_holds(&dest, &image.without(&run.free), &what);
        check_numbers(&report, &options, &what);
        if noise.below(2) == 0 {
            fs::remove_file(&dest).unwrap();
        }
    }
    direct
}

#[test]
fn what_goes_to_the_device_is_the_same_on_every_filesystem_whoever_reads_it_meanwhile() {
    let Some(bed) = Bed::new() else { return };
    for kind in Fs::ALL {
        let Some(dir) = bed.mount(kind) else { continue };
        let direct = hunt_on_the_device(&dir, 12, 40_000, |_| Arc::new(Linux));
        if matches!(kind, Fs::Ext4 | Fs::Xfs) {
            assert_eq!(direct, 12, "{}", kind.name());
        }
        hunt_on_the_device(&dir, 3, 41_000, |seed| Arc::new(Unruly::new(seed, 3 << 20)));
        hunt_on_the_device(&dir, 3, 42_000, |_| Arc::new(Fickle::default()));
    }
}

/// Takes some direct writes and refuses the others as not aligned enough.
#[derive(Debug, Default)]
struct Fickle(AtomicUsize);

impl Kernel for Fickle {
    fn pwrite(&self, fd: Fd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        let direct = Linux.is_direct(fd)?;
        if direct && self.0.fetch_add(1, Ordering::Relaxed) % 3 == 2 {
            return Err(Errno::INVAL);
        }
        Linux.pwrite(fd, bytes, offset)
    }
}

/// Remembers up to where everything was written, in order.
#[derive(Debug, Default)]
struct Ends(Mutex<Vec<u64>>);

impl Kernel for Ends {
    fn pwrite(&self, fd: Fd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        let done = Linux.pwrite(fd, bytes, offset)?;
        self.0.lock().unwrap().push(offset + done as u64);
        Ok(done)
    }
}

#[test]
fn a_copy_has_its_size_only_when_everything_else_is_written() {
    let dir = temp_dir();
    for (round, cache) in [CacheUse::Keep, CacheUse::Drop].into_iter().cycle().take(8).enumerate() {
        let size = (24 << 20) + [0, 4096, 777][round % 3];
        let image = Image::new(dir.path().join("image"), size, 24 << 20, &mut Noise::new(round as u64));
        let mut bytes = image.bytes.clone();
        *bytes.last_mut().unwrap() = 1;
        fs::write(&image.path, &bytes).unwrap();
        let ends = Arc::new(Ends::default());
        let sparse = round % 4 < 2;
        let options = Options { cache, sparse, ..Run::default().options };
        let run = Run { kernel: Arc::clone(&ends) as Arc<dyn Kernel>, options, ..Run::default() };
        run.copy(&image.path, &dir.path().join("copy")).unwrap();
        assert_holds(&dir.path().join("copy"), &bytes, "the copy");
        let ends = ends.0.lock().unwrap();
        assert_eq!(ends.iter().position(|end| *end == size), Some(ends.len() - 1), "{options:?}");
    }
}

#[test]
fn an_existing_file_stays_the_same_inode_and_keeps_nothing_of_its_old_contents() {
    let dir = temp_dir();
    let (dest, link) = (dir.path().join("copy"), dir.path().join("link"));
    let image = Image::new(dir.path().join("image"), 300_000, 50_000, &mut Noise::new(3));
    fs::write(&dest, Noise::new(4).bytes(2_000_000)).unwrap();
    std::os::unix::fs::symlink(&dest, &link).unwrap();
    let before = fs::metadata(&dest).unwrap().ino();
    let run = Run { free: ExtentSet::of(8192..200_000), ..Run::default() };
    run.copy(&image.path, &link).unwrap();
    assert_eq!(fs::metadata(&dest).unwrap().ino(), before);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_holds(&dest, &image.without(&run.free), "through the link");
}

#[test]
fn a_copy_says_that_it_begins_before_it_makes_anything() {
    let dir = temp_dir();
    let (dest, heard) = (dir.path().join("copy"), Mutex::new(Vec::new()));
    let image = Image::new(dir.path().join("image"), 5000, 5000, &mut Noise::new(3));
    let run = Run {
        free: ExtentSet::of(0..4096),
        attack: Box::new(|event, _| {
            heard.lock().unwrap().push(match event {
                Event::Begun(stats) => (Some((stats.total, stats.processed())), dest.exists()),
                _ => (None, dest.exists()),
            });
        }),
        ..Run::default()
    };
    run.copy(&image.path, &dest).unwrap();
    drop(run);
    // Then the map is there, and data begins to move.
    assert_eq!(heard.into_inner().unwrap(), [(Some((5000, 0)), false), (None, true), (None, true)]);
}

#[test]
fn a_new_file_is_not_more_readable_than_the_image() {
    let dir = temp_dir();
    let image = Image::new(dir.path().join("image"), 5000, 5000, &mut Noise::new(3));
    fs::set_permissions(&image.path, fs::Permissions::from_mode(0o600)).unwrap();
    Run::default().copy(&image.path, &dir.path().join("copy")).unwrap();
    assert_eq!(fs::metadata(dir.path().join("copy")).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn without_smart_read_every_byte_is_read() {
    let dir = temp_dir();
    let image = Image::new(dir.path().join("image"), 400_000, 50_000, &mut Noise::new(8));
    let run = Run { free: ExtentSet::of(0..400_000), ..Run::default() };
    let run = Run { options: Options { smart: Smart::Off, ..run.options }, ..run };
    let report = run.copy(&image.path, &dir.path().join("copy")).unwrap();
    assert_eq!((report.stats.read, report.stats.read_skipped, report.map), (400_000, 0, None));
    assert_holds(&dir.path().join("copy"), &image.bytes, "without smart read");
}

#[test]
fn a_limit_counts_the_zeros_that_are_written_and_no_others() {
    let dir = temp_dir();
    let image = Image::new(dir.path().join("image"), 40 << 20, 1 << 20, &mut Noise::new(9));
    for (sparse, md5) in [(false, false), (false, true), (true, false), (true, true)] {
        // Nobody waits with it.
        let pace = Pace::new(Limit { bytes: Some(u64::MAX / 2), operations: None });
        let run = Run { free: ExtentSet::of(4 << 20..36 << 20), pace: Some(pace), ..Run::default() };
        let run = Run { options: Options { sparse, md5, ..run.options }, ..run };
        let report = run.copy(&image.path, &dir.path().join("copy")).unwrap();
        assert_holds(&dir.path().join("copy"), &image.without(&run.free), "with a limit");
        let counted = run.pace.as_ref().map(|pace| pace.done().bytes);
        assert_eq!(counted, Some(if sparse { report.stats.read } else { 40 << 20 }), "sparse: {sparse}, md5: {md5}");
        fs::remove_file(dir.path().join("copy")).unwrap();
    }
}

#[test]
fn a_virtual_disk_is_copied_without_what_its_container_does_not_store() {
    let dir = temp_dir();
    let mut noise = Noise::new(12);
    fs::write(dir.path().join("container"), noise.bytes(1000)).unwrap();
    let mut disk = noise.bytes(100_000);
    disk[20_000..60_000].fill(0);
    let zeros = ExtentSet::of(20_000..60_000);
    let source = Source::open(&Linux, &dir.path().join("container")).unwrap();
    let source = source.with_disk(Disk {
        image: Arc::new(disk.clone()),
        zeros,
        holes: ExtentSet::new(),
        holds: Box::new(|| Ok(true)),
    });
    let run = Run { free: ExtentSet::of(61_440..81_920), ..Run::default() };
    let run = Run { options: Options { md5: true, ..run.options }, ..run };
    let report = run.copy_source(&source, &dir.path().join("copy")).unwrap();
    disk[61_440..81_920].fill(0);
    assert_holds(&dir.path().join("copy"), &disk, "the disk");
    assert_eq!(report.md5, Some(md5_of(&disk)));
    assert_eq!((report.stats.total, report.stats.free), (100_000, 20_480));
    // Whole granules of both, 36864 of the hole.
    assert_eq!(report.stats.read_skipped, 20_480 + 36_864);
}

#[test]
fn measuring_one_side_reads_or_writes_as_much_as_a_copy() {
    let dir = temp_dir();
    let image = Image::new(dir.path().join("image"), 3_000_000, 300_000, &mut Noise::new(9));
    let dest = |name: &str| dir.path().join(name);
    let run = |mode, md5| {
        let run = Run { free: random_set(3_000_000, 1 << 20, &mut Noise::new(2)), ..Run::default() };
        let run = Run { options: Options { mode, md5, ..run.options }, ..run };
        let report = run.copy(&image.path, &dest(&format!("{mode:?}"))).unwrap();
        check_numbers(&report, &run.options, &format!("{mode:?}"));
        report
    };
    let both = run(Mode::Copy, true);
    let reading = run(Mode::ReadOnly, true);
    let writing = run(Mode::WriteOnly, false);
    let without_times = |mut stats: haul_image::Stats| {
        stats.elapsed = std::time::Duration::ZERO;
        stats.times = haul_image::Times::default();
        stats
    };
    assert_eq!(without_times(reading.stats), without_times(both.stats));
    assert_eq!(reading.md5, both.md5);
    assert!(!dest("ReadOnly").exists());
    // What is zero in the data is not known without reading it.
    assert_eq!(writing.stats.read_skipped, both.stats.read_skipped);
    assert_eq!(writing.stats.copied, both.stats.read);
    assert_eq!(fs::metadata(dest("WriteOnly")).unwrap().len(), 3_000_000);
}
