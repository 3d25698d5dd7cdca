//! An image that changes while it is copied.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use haul_copy::error::What;
use haul_copy::smart::{Disk, Event, Mode, Options, Source};
use haul_guest::ExtentSet;
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
        assert!(report.map_changed && report.source_written, "{what}");
        assert_holds(&dest, &image.bytes, &what);
        assert_eq!(report.md5, md5.then(|| md5_of(&image.bytes)), "{what}");
        check_numbers(&report, &run.options, &what);
    }
}

#[test]
fn a_change_elsewhere_is_told_and_keeps_the_savings() {
    let dir = temp_dir();
    let path = dir.path().join("image");
    let _image = Image::new(path.clone(), 100_000, 60_000, &mut Noise::new(21));
    let change = |event: &Event<'_>, _: &Run<'_>| {
        if let Event::Started(_) = event {
            File::options().write(true).open(&path).unwrap().write_all_at(b"changed", 90_000).unwrap();
        }
    };
    let run = Run {
        free: ExtentSet::of(16_384..65_536),
        witnessed: vec![(0, 4096)],
        attack: Box::new(change),
        ..Run::default()
    };
    let report = run.copy(&path, &dir.path().join("copy")).unwrap();
    assert!(report.source_written && !report.map_changed);
    assert_eq!(report.stats.free, 49_152);
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
    assert_eq!((report.map_changed, report.md5, report.stats.free), (true, None, 0));
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
    let source = source.with_disk(Disk { image, zeros: ExtentSet::new(), holds: Box::new(|| Ok(false)) });
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
