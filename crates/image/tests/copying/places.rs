//! Destinations that are no plain files, and those that are refused.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

use haul_fs::error::What;
use haul_guest::ExtentSet;
use haul_image::{Mode, Options};
use haul_io::options::CacheUse;
use haul_testbed::guest::{Noise, attach, run as command};
use haul_testbed::{Bed, Command, Fs, temp_dir};

use crate::harness::{Image, Run, assert_holds, check_numbers, md5_of, random_set, words};

fn refused(run: &Run<'_>, source: &Path, dest: &Path) -> What {
    let failure = run.copy(source, dest).unwrap_err();
    assert_eq!(failure.damaged, None, "{}", words(&failure));
    failure.error.expect("it was not stopped").what
}

#[test]
fn an_image_is_not_copied_onto_itself_under_whatever_name() {
    let dir = temp_dir();
    let image = Image::new(dir.path().join("image"), 10_000, 900, &mut Noise::new(51));
    symlink("image", dir.path().join("link")).unwrap();
    fs::hard_link(&image.path, dir.path().join("hard")).unwrap();
    for name in ["image", "link", "hard"] {
        assert_eq!(refused(&Run::default(), &image.path, &dir.path().join(name)), What::SameFile);
    }
    assert_holds(&image.path, &image.bytes, "untouched");
}

#[test]
fn what_is_no_place_for_an_image_is_refused() {
    let dir = temp_dir();
    let path = |name: &str| dir.path().join(name);
    let image = Image::new(path("image"), 10_000, 900, &mut Noise::new(51));
    command(Command::new("mkfifo").arg(path("fifo")));
    symlink("nowhere", path("dangling")).unwrap();
    fs::create_dir(path("dir")).unwrap();
    let run = Run::default();
    assert_eq!(refused(&run, &image.path, &path("fifo")), What::NotAnImagePlace);
    assert_eq!(refused(&run, &image.path, &path("dir")), What::NotAnImagePlace);
    assert_eq!(refused(&run, &image.path, Path::new("/dev/null")), What::NotAnImagePlace);
    assert_eq!(refused(&run, &image.path, &path("dangling")), What::DanglingLink);
    assert_eq!(refused(&run, &image.path, &path("no/copy")), What::CannotCreateRegular);
    assert_eq!(refused(&run, &path("fifo"), &path("copy")), What::NotAnImage);
    assert_eq!(refused(&run, &path("dir"), &path("copy")), What::NotAnImage);
    assert_eq!(refused(&run, &path("missing"), &path("copy")), What::CannotStat);
    assert!(!path("copy").exists() && !path("nowhere").exists());
}

#[test]
fn test_data_never_replaces_anything() {
    let dir = temp_dir();
    let image = Image::new(dir.path().join("image"), 10_000, 900, &mut Noise::new(51));
    fs::write(dir.path().join("old"), "old").unwrap();
    let run = Run::default();
    let run = Run { options: Options { mode: Mode::WriteOnly, ..run.options }, ..run };
    assert_eq!(refused(&run, &image.path, &dir.path().join("old")), What::NotForTestData);
    assert_eq!(fs::read(dir.path().join("old")).unwrap(), b"old");
}

/// A loop device of a file of noise, detached at the end.
struct Device(String);

impl Device {
    fn new(file: &Path, size: usize) -> Device {
        fs::write(file, Noise::new(66).bytes(size)).unwrap();
        Device::over(file)
    }

    fn over(file: &Path) -> Device {
        Device::with(file, &[])
    }

    fn with(file: &Path, options: &[&str]) -> Device {
        Device(attach(file, options))
    }

    /// What it holds, past the page cache of other openings.
    fn holds(&self) -> Vec<u8> {
        fs::read(&self.0).unwrap()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // A failure shows in the list of leftovers.
        Command::new("losetup").args(["-d", &self.0]).status().map(drop).unwrap_or_default();
    }
}

#[test]
fn a_block_device_keeps_nothing_of_its_old_contents_but_what_lies_behind_the_image() {
    let Some(_bed) = Bed::new() else { return };
    for (sparse, direct) in [(true, false), (true, true), (false, false), (false, true)] {
        let dir = temp_dir();
        let device = Device::new(&dir.path().join("disk"), 2 << 20);
        let mut noise = Noise::new(52);
        // Not even a multiple of a sector.
        let image = Image::new(dir.path().join("image"), 1_500_001, 90_000, &mut noise);
        let run = Run { free: random_set(1_500_001, 400_000, &mut noise), ..Run::default() };
        let run = Run { options: Options { sparse, direct, md5: true, ..run.options }, ..run };
        let report = run.copy(&image.path, device.0.as_ref()).unwrap();
        let mut expected = image.without(&run.free);
        let what = format!("sparse {sparse} direct {direct}");
        assert_eq!(report.md5, Some(md5_of(&expected)), "{what}");
        check_numbers(&report, &run.options, &what);
        expected.extend(&Noise::new(66).bytes(2 << 20)[1_500_001..]);
        let found = device.holds();
        assert_eq!(found.iter().zip(&expected).position(|(a, b)| a != b), None, "{what}");
    }
}

#[test]
fn random_images_in_random_ways_leave_nothing_old_on_a_block_device() {
    let Some(_bed) = Bed::new() else { return };
    let dir = temp_dir();
    for sector in ["512", "4096"] {
        let file = dir.path().join(format!("disk-{sector}"));
        let old = Noise::new(66).bytes(20 << 20);
        fs::write(&file, &old).unwrap();
        let device = Device::with(&file, &["--sector-size", sector]);
        for round in 0..24 {
            let mut noise = Noise::new(900 + round);
            // Large ones are shared by several threads.
            let size = if round % 3 == 0 { noise.below(20 << 20) } else { noise.below(300_000) };
            let (longest, free) = (1 << (12 + noise.below(8)), 1 << (12 + noise.below(10)));
            let image = Image::new(dir.path().join("image"), size, longest, &mut noise);
            let free = (0..6).fold(ExtentSet::new(), |all, _| all.union(&random_set(size, free, &mut noise)));
            let options = Options {
                sparse: noise.below(3) > 0,
                direct: noise.below(3) == 0,
                cache: [CacheUse::Auto, CacheUse::Keep, CacheUse::Drop][noise.below(3) as usize],
                md5: noise.below(3) == 0,
                zero_scan: noise.below(3) > 0,
                buffer_size: [4096, 5000, 128 << 10, 1 << 20][noise.below(4) as usize],
                ..Run::default().options
            };
            let what = format!("sector {sector} round {round}: {size} bytes, {options:?}");
            let disk = File::options().write(true).open(&device.0).unwrap();
            disk.write_all_at(&old, 0).unwrap();
            // Half of them come while the old bytes are on their way to the device.
            if round % 2 == 0 {
                disk.sync_all().unwrap();
            }
            drop(disk);
            let run = Run { options, free, ..Run::default() };
            let report =
                run.copy(&image.path, device.0.as_ref()).unwrap_or_else(|failure| panic!("{what}: {failure:?}"));
            let expected = [&image.without(&run.free)[..], &old[size as usize..]].concat();
            // Zeros may have to be written up to an end that is no sector's.
            assert_eq!(report.stats.copied + report.stats.write_skipped, size, "{what}");
            let found = device.holds();
            if found != expected {
                panic!("{what}: {:?}", found.iter().zip(&expected).position(|(a, b)| a != b));
            }
        }
    }
}

#[test]
fn a_block_device_that_is_too_small_is_refused() {
    let Some(_bed) = Bed::new() else { return };
    let dir = temp_dir();
    let device = Device::new(&dir.path().join("disk"), 1 << 20);
    File::create(dir.path().join("image")).unwrap().set_len((1 << 20) + 1).unwrap();
    let what = refused(&Run::default(), &dir.path().join("image"), device.0.as_ref());
    assert_eq!(what, What::DestinationTooSmall);
    assert_eq!(device.holds(), Noise::new(66).bytes(1 << 20));
}

#[test]
fn a_device_is_not_copied_onto_itself() {
    let Some(_bed) = Bed::new() else { return };
    let dir = temp_dir();
    let device = Device::new(&dir.path().join("disk"), 1 << 20);
    let other = dir.path().join("node");
    let number = fs::read_to_string(format!("/sys/block/{}/dev", device.0.trim_start_matches("/dev/"))).unwrap();
    let (major, minor) = number.trim().split_once(':').unwrap();
    command(Command::new("mknod").arg(&other).args(["b", major, minor]));
    assert_eq!(refused(&Run::default(), device.0.as_ref(), &other), What::SameFile);
}

#[test]
fn what_a_device_cannot_write_back_is_a_failure() {
    let Some(bed) = Bed::new() else { return };
    let Some(full) = bed.small(Fs::Ext4, 24 << 20) else { return };
    let dir = temp_dir();
    let backing = full.join("backing");
    File::create(&backing).unwrap().set_len(64 << 20).unwrap();
    let device = Device::over(&backing);
    let image = dir.path().join("image");
    fs::write(&image, Noise::new(53).bytes(48 << 20)).unwrap();
    // What goes to the device directly is heard at once.
    for (cache, what) in [(CacheUse::Keep, What::Syncing), (CacheUse::Drop, What::Writing)] {
        let run = Run { options: Options { cache, ..Run::default().options }, ..Run::default() };
        let failure = run.copy(&image, device.0.as_ref()).unwrap_err();
        assert_eq!(failure.error.as_ref().map(|error| error.what), Some(what), "{}", words(&failure));
        assert_eq!(failure.damaged.as_deref(), Some(device.0.as_ref()));
    }
}

/// The partitions of a device, known to the kernel until this is dropped: they do not go with the device's file.
struct Parts<'a>(&'a Device);

impl Parts<'_> {
    fn of(device: &Device) -> Parts<'_> {
        // Also where a test that was killed left one behind.
        command(Command::new("partx").args(["-u", &device.0]));
        Parts(device)
    }
}

impl Drop for Parts<'_> {
    fn drop(&mut self) {
        // A failure shows in the next test that finds them.
        Command::new("partx").args(["-d", &self.0.0]).status().map(drop).unwrap_or_default();
    }
}

#[test]
fn a_device_is_not_overwritten_with_what_lies_on_it_or_under_it() {
    let Some(_bed) = Bed::new() else { return };
    let dir = temp_dir();
    let disk = dir.path().join("disk");
    let device = Device::new(&disk, 4 << 20);
    command(Command::new("sh").args(["-c", "echo '2048 2048 83' | sfdisk -q --no-reread -X dos $0", &device.0]));
    let parts = Parts::of(&device);
    let name = device.0.trim_start_matches("/dev/");
    let number = fs::read_to_string(format!("/sys/block/{name}/{name}p1/dev")).unwrap();
    let (major, minor) = number.trim().split_once(':').unwrap();
    let part = dir.path().join("part");
    command(Command::new("mknod").arg(&part).args(["b", major, minor]));
    let before = fs::read(&device.0).unwrap();
    for (source, dest) in [(&disk, Path::new(&device.0)), (&part, device.0.as_ref()), (&disk, &part)] {
        assert_eq!(refused(&Run::default(), source, dest), What::SharedBytes, "{source:?} {dest:?}");
    }
    assert_eq!(refused(&Run::default(), device.0.as_ref(), &part), What::SharedBytes);
    assert_eq!(refused(&Run::default(), &part, &disk), What::SharedBytes);
    assert!(device.holds() == before);
    drop(parts);
}
