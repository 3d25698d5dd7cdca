//! The power is cut soon after the end of a copy that was asked to be no more durable than others are.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;

use haul_sys::page_cache::wait_for_write_back;
use haul_testbed::power::{self, Template};
use haul_testbed::{Bed, Command, Fs, create_painted, first_difference};

/// Enough for its space to be allocated before it is written, where that is done.
const SIZE: u64 = 8 << 20;

/// A file that is written over the old one in one go.
const SMALL: u64 = 20 << 10;

/// Copies to `name` on a new filesystem, has the journal committed and not the data, and cuts. What is found there then.
///
/// Both filesystems begin to write a truncated file back when it is closed, and haul begins that of one that it overwrites. What
/// was begun is waited for: ext4 commits the size as it hands an extent to the device, and that would be its doing and not the
/// copy's.
fn left_of(source: &Path, name: &str, kind: Fs, bed: &Bed) -> Option<(u64, Option<u64>)> {
    let template = Template::new(bed, kind, 96 << 20, |root| {
        fs::write(root.join("old"), "older").unwrap();
        fs::write(root.join("small"), [b'o'; SMALL as usize]).unwrap();
    })?;
    let image = template.image("soon");
    let mounted = image.mount(bed);
    let dest = mounted.path().join(name);
    // The first file would try to share its extents, for which it is emptied.
    let options = ["-p", "--reflink=never"];
    let status = Command::new(env!("CARGO_BIN_EXE_haul")).args(options).args([source, &dest]).status().unwrap();
    assert!(status.success());
    wait_for_write_back(File::open(&dest).unwrap().as_fd()).unwrap();
    File::create(mounted.path().join("neighbour")).unwrap().sync_all().unwrap();
    power::cut(mounted.path());
    mounted.unmount();
    let mounted = image.mount(bed);
    let dest = mounted.path().join(name);
    let found = fs::metadata(&dest).map_or(0, |copy| copy.len());
    let difference = if found > 0 { first_difference(source, &dest) } else { Some(0) };
    mounted.unmount();
    Some((found, difference))
}

#[test]
fn a_copy_whose_data_is_not_on_the_device_yet_does_not_look_whole_after_a_power_cut() {
    let Some(bed) = Bed::new() else { return };
    let Some(room) = bed.mount(Fs::Tmpfs) else { return };
    let source = room.join("source");
    create_painted(&source, SIZE);
    for kind in [Fs::Ext4, Fs::Xfs] {
        for name in ["new", "old"] {
            let Some((size, difference)) = left_of(&source, name, kind, &bed) else { continue };
            assert!(size != SIZE || difference.is_none(), "{name} on {}: {difference:?}", kind.name());
        }
    }
}

#[test]
fn a_small_file_that_was_overwritten_is_whole_soon_after() {
    let Some(bed) = Bed::new() else { return };
    let Some(room) = bed.mount(Fs::Tmpfs) else { return };
    let source = room.join("source");
    create_painted(&source, SMALL);
    for kind in [Fs::Ext4, Fs::Xfs] {
        // It has the size and the time of its source, so that nobody would copy it again.
        let Some(found) = left_of(&source, "small", kind, &bed) else { continue };
        assert_eq!(found, (SMALL, None), "on {}", kind.name());
    }
}
