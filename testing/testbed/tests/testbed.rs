//! The test bed itself.
#![allow(missing_docs)]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use haul_testbed::{
    Bed, Fs, allocated, assert_same_contents, create_painted, data_extents, first_difference, painted, painted_at,
    sparse_file, temp_dir,
};

#[test]
fn every_filesystem_is_mounted_and_holds_files() {
    let Some(bed) = Bed::new() else { return };
    for fs in [Fs::Ext4, Fs::Xfs, Fs::XfsNoReflink, Fs::Btrfs, Fs::Tmpfs] {
        let Some(dir) = bed.mount(fs) else { continue };
        create_painted(dir.join("a"), 100_000);
        assert_eq!(fs::read(dir.join("a")).unwrap(), painted(100_000), "{fs:?}");
        assert_eq!(bed.mount(fs).unwrap(), dir, "{fs:?} is mounted once");
    }
}

#[test]
fn a_small_filesystem_fills_up() {
    let Some(bed) = Bed::new() else { return };
    for fs in [Fs::Ext4, Fs::Tmpfs] {
        let Some(dir) = bed.small(fs, 4 << 20) else { continue };
        let error = fs::write(dir.join("a"), vec![1; 8 << 20]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{fs:?}");
    }
}

#[test]
fn threads_started_later_see_the_mounts_and_older_ones_do_not() {
    let (ask, asked) = std::sync::mpsc::channel::<PathBuf>();
    let older = std::thread::spawn(move || asked.recv().unwrap().exists());
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = bed.mount(Fs::Tmpfs) else { return };
    std::thread::scope(|scope| {
        scope.spawn(|| fs::write(dir.join("a"), b"x").unwrap());
    });
    assert_eq!(fs::read(dir.join("a")).unwrap(), b"x");
    ask.send(dir.join("a")).unwrap();
    assert!(!older.join().unwrap());
}

#[test]
fn painted_data_depends_on_the_offset_only() {
    let whole = painted(10_000);
    for (offset, len) in [(0, 1), (1, 700), (511, 2), (512, 512), (515, 4000), (9_999, 1)] {
        assert_eq!(painted_at(offset, len), whole[offset as usize..offset as usize + len], "{offset}");
    }
    assert_ne!(whole[0..512], whole[512..1024]);
    assert_ne!(painted_at(0, 512), painted_at(251 * 512, 512), "also where the cycle is in phase");
}

#[test]
fn a_difference_is_found_where_it_is() {
    let dir = temp_dir();
    let path = |name: &str| dir.path().join(name);
    sparse_file(path("a"), 5 << 20, &[(1 << 20, 4096), (4 << 20, 1 << 20)]);
    fs::copy(path("a"), path("b")).unwrap();
    assert_same_contents(path("a"), path("b"));
    let b = File::options().write(true).open(path("b")).unwrap();
    b.write_all_at(b"!", (3 << 20) + 17).unwrap();
    assert_eq!(first_difference(path("a"), path("b")), Some((3 << 20) + 17));
    b.set_len(1 << 20).unwrap();
    assert_eq!(first_difference(path("a"), path("b")), Some(1 << 20));
}

#[test]
fn a_sparse_file_is_sparse() {
    let Some(bed) = Bed::new() else { return };
    for fs in Fs::ALL {
        let Some(dir) = bed.mount(fs) else { continue };
        let path = dir.join("a");
        sparse_file(&path, 5 << 30, &[(0, 4096), (3 << 30, 1 << 16)]);
        assert_eq!(data_extents(&File::open(&path).unwrap()), [(0, 4096), (3 << 30, 1 << 16)], "{fs:?}");
        assert!(allocated(&path) <= 1 << 17, "{fs:?}");
    }
}
