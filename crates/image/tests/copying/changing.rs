//! An image that changes while it is copied.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use haul_fs::error::What;
use haul_guest::ExtentSet;
use haul_image::{Disk, Doubt, Event, InUse, Look, Mode, Options, Smart, Source, System};
use haul_sys::in_use::lock_byte;
use haul_sys::inode::{DeviceNumber, Inode, Kind};
use haul_sys::kernel::Linux;
use haul_testbed::guest::Noise;
use haul_testbed::temp_dir;

use crate::harness::{Image, Run, assert_holds, check_numbers, md5_of, words};

#[test]
fn when_the_map_changes_everything_that_was_skipped_is_copied() {
    for (sparse, md5, direct) in [(true, true, false), (true, false, true), (false, true, false), (false, false, true)]
    {
        let dir = temp_dir();
        let (path, dest) = (dir.path().join("image"), dir.path().join("copy"));
        let mut image = Image::new(path.clone(), 777_777, 60_000, &mut Noise::new(21));
        let change = |event: &Event<'_>, _: &Run<'_>| {
            if let Event::Started(_) = event {
                File::options().write(true).open(&path).unwrap().write_all_at(b"changed", 5000).unwrap();
            }
        };
        let run = Run {
            free: ExtentSet::from_ranges([10_000..300_000, 400_001..600_000, 700_000..777_777]),
            witnessed: vec![(4096, 4096)],
            attack: Box::new(change),
            ..Run::default()
        };
        let run = Run { options: Options { sparse, md5, direct, ..run.options }, ..run };
        let report = run.copy(&path, &dest).unwrap();
        image.bytes[5000..5007].copy_from_slice(b"changed");
        let what = format!("sparse {sparse}");
        assert!(report.doubt == Some(Doubt::Map) && report.source_written, "{what}");
        assert_holds(&dest, &image.bytes, &what);
        assert_eq!(report.md5, md5.then(|| md5_of(&image.bytes)), "{what}");
        check_numbers(&report, &run.options, &what);
    }
}

#[test]
fn a_system_that_sleeps_in_a_swap_file_brings_back_everything_that_was_skipped() {
    for (md5, direct, buffer_size) in
        [(false, false, 128 << 10), (true, false, 1000), (false, true, 4096), (true, true, 1)]
    {
        let dir = temp_dir();
        let (path, dest) = (dir.path().join("image"), dir.path().join("copy"));
        let mut image = Image::new(path.clone(), 300_000, 60_000, &mut Noise::new(23));
        // The first page of a swap file that begins at an odd sector, as on old partitions.
        let end = 63 * 512 + 4096 - 10;
        image.bytes[end..end + 10].copy_from_slice(b"S1SUSPEND\0");
        fs::write(&path, &image.bytes).unwrap();
        let run = Run { free: ExtentSet::from_ranges([100_000..200_000, 250_000..300_000]), ..Run::default() };
        let run = Run { options: Options { md5, direct, buffer_size, ..run.options }, ..run };
        let report = run.copy(&path, &dest).unwrap();
        let what = format!("md5 {md5}, direct {direct}, buffers of {buffer_size}");
        assert_eq!(report.doubt, Some(Doubt::Asleep), "{what}");
        assert_eq!(report.md5, md5.then(|| md5_of(&image.bytes)), "{what}");
        assert_holds(&dest, &image.bytes, &what);
        check_numbers(&report, &run.options, &what);
    }
}

#[test]
fn whoever_writes_anywhere_brings_back_everything_that_was_skipped() {
    for (sparse, smart) in [(true, Smart::Snapshot), (false, Smart::Snapshot), (true, Smart::Auto)] {
        let dir = temp_dir();
        let (path, dest) = (dir.path().join("image"), dir.path().join("copy"));
        let mut image = Image::new(path.clone(), 100_000, 60_000, &mut Noise::new(21));
        // Where the copy has not been yet, where the map does not rest on it, and where it says that nobody is.
        let change = |event: &Event<'_>, _: &Run<'_>| {
            if let Event::Started(_) = event {
                let file = File::options().write(true).open(&path).unwrap();
                for at in [90_000, 30_000] {
                    file.write_all_at(b"changed", at).unwrap();
                }
            }
        };
        let run = Run {
            free: ExtentSet::of(16_384..65_536),
            witnessed: vec![(0, 4096)],
            attack: Box::new(change),
            ..Run::default()
        };
        let run = Run { options: Options { sparse, smart, md5: true, ..run.options }, ..run };
        // Another test may be starting a program that holds our descriptors for a moment.
        let reports = std::iter::repeat_with(|| run.copy(&path, &dest).unwrap());
        let report = reports.take(1000).find(|report| report.in_use.is_none()).unwrap();
        for at in [90_000, 30_000] {
            image.bytes[at..at + 7].copy_from_slice(b"changed");
        }
        let what = format!("sparse {sparse} {smart:?}");
        assert_eq!((report.doubt.as_ref(), report.source_written), (Some(&Doubt::Written), true), "{what}");
        assert_eq!((report.stats.free, report.md5), (0, Some(md5_of(&image.bytes))), "{what}");
        assert_holds(&dest, &image.bytes, &what);
        check_numbers(&report, &run.options, &what);
    }
}

#[test]
fn a_writer_who_sets_the_time_back_is_noticed() {
    let dir = temp_dir();
    let path = dir.path().join("image");
    let image = Image::new(path.clone(), 100_000, 60_000, &mut Noise::new(21));
    let change = |event: &Event<'_>, _: &Run<'_>| {
        if let Event::Started(_) = event {
            let file = File::options().write(true).open(&path).unwrap();
            let before = file.metadata().unwrap().modified().unwrap();
            file.write_all_at(&image.bytes[30_000..30_001], 30_000).unwrap();
            file.set_modified(before).unwrap();
        }
    };
    let run = Run { free: ExtentSet::of(16_384..65_536), attack: Box::new(change), ..Run::default() };
    let report = run.copy(&path, &dir.path().join("copy")).unwrap();
    assert_eq!((report.doubt, report.stats.free), (Some(Doubt::Written), 0));
    assert_holds(&dir.path().join("copy"), &image.bytes, "set back");
}

#[test]
fn an_image_that_comes_into_use_is_copied_whole_unless_it_is_a_snapshot() {
    for (smart, free) in [(Smart::Auto, 0), (Smart::Snapshot, 49_152)] {
        let dir = temp_dir();
        let path = dir.path().join("image");
        let image = Image::new(path.clone(), 100_000, 60_000, &mut Noise::new(21));
        let machine = std::sync::Mutex::new(None);
        let start = |event: &Event<'_>, _: &Run<'_>| {
            if let Event::Started(_) = event {
                let file = File::open(&path).unwrap();
                lock_byte(file.as_fd(), 100).unwrap();
                *machine.lock().unwrap() = Some(file);
            }
        };
        let run = Run { free: ExtentSet::of(16_384..65_536), attack: Box::new(start), ..Run::default() };
        let run = Run { options: Options { smart, ..run.options }, ..run };
        let copies = std::iter::repeat_with(|| {
            *machine.lock().unwrap() = None;
            run.copy(&path, &dir.path().join("copy")).unwrap()
        });
        let report = copies.take(1000).find(|report| report.in_use.is_none()).unwrap();
        let expected = (smart == Smart::Auto).then_some(Doubt::InUse(InUse::Qemu));
        assert_eq!((report.doubt, report.stats.free), (expected, free));
        let expected = if free == 0 { image.bytes.clone() } else { image.without(&run.free) };
        assert_holds(&dir.path().join("copy"), &expected, "in use");
    }
}

#[test]
fn a_device_that_is_written_to_is_noticed_by_what_it_counts() {
    let dir = temp_dir();
    let (path, counters) = (dir.path().join("image"), dir.path().join("sys/dev/block/7:99/stat"));
    let _image = Image::new(path.clone(), 100_000, 60_000, &mut Noise::new(21));
    fs::create_dir_all(counters.parent().unwrap()).unwrap();
    let system = System { sys: dir.path().join("sys"), ..System::default() };
    let mut inode = Inode::of(File::open(&path).unwrap().as_fd()).unwrap();
    (inode.kind, inode.node) = (Kind::BlockDevice, DeviceNumber { major: 7, minor: 99 });
    let look = |counted: &str| {
        fs::write(&counters, counted).unwrap();
        Look::of(&inode, &system)
    };
    let first = look("11 0 100 9 7 0 56 5 0 8 14\n");
    assert_eq!(first, look("99 9 999 9 7 9 56 9 9 9 99\n"));
    for written in ["11 0 100 9 8 0 56 5 0 8 14", "11 0 100 9 7 0 64 5 0 8 14", "11 0 1 9 7 0 56 5 0 8 14 1 0 8 0 0 0"]
    {
        assert_ne!(first, look(written), "{written}");
    }
}

#[test]
fn a_change_before_a_reading_run_ends_is_noticed_too() {
    let dir = temp_dir();
    let path = dir.path().join("image");
    let _image = Image::new(path.clone(), 100_000, 60_000, &mut Noise::new(21));
    let change = |event: &Event<'_>, _: &Run<'_>| {
        if let Event::Started(_) = event {
            File::options().write(true).open(&path).unwrap().write_all_at(b"changed", 100).unwrap();
        }
    };
    let run = Run {
        free: ExtentSet::of(16_384..65_536),
        witnessed: vec![(0, 4096)],
        attack: Box::new(change),
        ..Run::default()
    };
    let run = Run { options: Options { mode: Mode::ReadOnly, md5: true, ..run.options }, ..run };
    let report = run.copy(&path, &dir.path().join("copy")).unwrap();
    assert_eq!((report.doubt.as_ref(), report.md5, report.stats.free), (Some(&Doubt::Map), None, 0));
    check_numbers(&report, &run.options, "reading");
}

#[test]
fn an_image_that_changes_its_size_is_an_error() {
    for (size, existing) in [(50_000, false), (50_000, true), (150_000, false), (150_000, true)] {
        let dir = temp_dir();
        let (path, dest) = (dir.path().join("image"), dir.path().join("copy"));
        let _image = Image::new(path.clone(), 100_000, 60_000, &mut Noise::new(22));
        if existing {
            fs::write(&dest, "old").unwrap();
        }
        let resize = |event: &Event<'_>, _: &Run<'_>| {
            if let Event::Started(_) = event {
                File::options().write(true).open(&path).unwrap().set_len(size).unwrap();
            }
        };
        let run = Run { attack: Box::new(resize), ..Run::default() };
        let failure = run.copy(&path, &dest).unwrap_err();
        assert_eq!(failure.error.as_ref().map(|error| error.what), Some(What::SourceResized), "{}", words(&failure));
        assert_eq!(failure.damaged, existing.then(|| dest.clone()));
        assert_eq!(dest.exists(), existing);
    }
}

#[test]
fn a_container_whose_tables_change_is_an_error() {
    let dir = temp_dir();
    fs::write(dir.path().join("container"), "tables").unwrap();
    let source = Source::open(&Linux, &dir.path().join("container")).unwrap();
    let image = Arc::new(Noise::new(3).bytes(10_000));
    let source = source.with_disk(Disk {
        image,
        zeros: ExtentSet::new(),
        holes: ExtentSet::new(),
        holds: Box::new(|| Ok(false)),
    });
    let failure = Run::default().copy_source(&source, &dir.path().join("copy")).unwrap_err();
    assert_eq!(failure.error.map(|error| error.what), Some(What::SourceChanged));
    assert!(!dir.path().join("copy").exists());
}

#[test]
fn a_copy_that_is_stopped_leaves_no_new_file_and_names_an_old_one() {
    for existing in [false, true] {
        let dir = temp_dir();
        let (path, dest) = (dir.path().join("image"), dir.path().join("copy"));
        let _image = Image::new(path.clone(), 3_000_000, 60_000, &mut Noise::new(22));
        if existing {
            fs::write(&dest, "old").unwrap();
        }
        let stop = |event: &Event<'_>, run: &Run<'_>| {
            if let Event::Started(_) = event {
                run.stop.store(true, std::sync::atomic::Ordering::SeqCst);
            }
        };
        let run = Run { attack: Box::new(stop), ..Run::default() };
        let failure = run.copy(&path, &dest).unwrap_err();
        assert_eq!((failure.error, failure.damaged), (None, existing.then(|| dest.clone())));
        assert_eq!(dest.exists(), existing);
        if existing {
            assert_ne!(fs::metadata(&dest).unwrap().len(), 3_000_000, "it does not look whole");
        }
    }
}

#[test]
fn a_copy_that_is_stopped_before_it_begins_leaves_an_old_file_as_it_was() {
    let dir = temp_dir();
    let (path, dest) = (dir.path().join("image"), dir.path().join("copy"));
    let _image = Image::new(path.clone(), 30_000, 6000, &mut Noise::new(22));
    fs::write(&dest, "old").unwrap();
    let stop = |event: &Event<'_>, run: &Run<'_>| {
        if let Event::Mapped(_) = event {
            run.stop.store(true, std::sync::atomic::Ordering::SeqCst);
        }
    };
    let run = Run { attack: Box::new(stop), ..Run::default() };
    let failure = run.copy(&path, &dest).unwrap_err();
    assert_eq!((failure.error, failure.damaged), (None, None));
    assert_eq!(fs::read(&dest).unwrap(), b"old");
}

#[test]
fn a_file_that_holds_more_than_it_says_is_an_error() {
    let dir = temp_dir();
    let dest = dir.path().join("copy");
    let failure = Run::default().copy(Path::new("/proc/version"), &dest).unwrap_err();
    assert_eq!(failure.error.as_ref().map(|error| error.what), Some(What::SourceResized), "{}", words(&failure));
    assert!(!dest.exists());
}
