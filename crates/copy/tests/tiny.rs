//! Tiny files on filesystems that share extents: read and written where that is sooner, shared otherwise.

mod support;

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use haul_copy::events::Event;
use haul_copy::plan::{Destination, Durable, EngineName, Plan};
use haul_copy::run::Cancel;
use haul_sys::page_cache;
use haul_testbed::{Bed, Fs, assert_same_contents, painted};

/// The last size in bytes that is read and written.
const TINY: [(Fs, usize); 1] = [(Fs::Xfs, 8 << 10)];

/// Copies one file to a new name beside it, and gives what moved its bytes.
fn copy(source: &Path, durable: Durable) -> Vec<EngineName> {
    let dest = source.with_extension("copy");
    let plan = Plan {
        sources: vec![source.into()],
        destination: Destination::Exactly(dest.clone().into()),
        durable,
        ..Plan::default()
    };
    let used = Mutex::new(Vec::new());
    let (summary, problems) = support::copy(&plan, &Cancel::default(), |event| {
        if let Event::DataDone(report) = event {
            let moved = report.tried.iter().filter(|tried| tried.moved.total() > 0);
            used.lock().unwrap().extend(moved.map(|tried| tried.engine));
        }
    });
    assert_eq!((summary.failed, problems), (false, vec![]));
    assert_same_contents(source, &dest);
    fs::remove_file(dest).unwrap();
    used.into_inner().unwrap()
}

/// A file of `size` bytes on its device and in the page cache.
fn file(dir: &Path, size: usize) -> PathBuf {
    let path = dir.join(format!("f{size}"));
    fs::write(&path, painted(size)).unwrap();
    File::open(&path).unwrap().sync_all().unwrap();
    fs::read(&path).unwrap();
    path
}

#[test]
fn a_cached_tiny_file_is_written_and_larger_ones_share() {
    let Some(bed) = Bed::new() else { return };
    for (kind, tiny) in TINY {
        let Some(dir) = bed.mount(kind) else { continue };
        for size in [1, tiny - 1, tiny] {
            assert_eq!(copy(&file(&dir, size), Durable::None), [EngineName::ReadWrite], "{size} bytes on {kind:?}");
        }
        assert_eq!(copy(&file(&dir, tiny + 1), Durable::None), [EngineName::Clone], "{kind:?}");
    }
}

#[test]
fn btrfs_shares_the_extents_of_a_tiny_file() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = bed.mount(Fs::Btrfs) else { return };
    for size in [1, 1 << 10, 4 << 10] {
        assert_eq!(copy(&file(&dir, size), Durable::None), [EngineName::Clone], "{size} bytes");
    }
}

#[test]
fn a_tiny_file_shares_its_extents_where_the_copy_is_to_be_durable() {
    let Some(bed) = Bed::new() else { return };
    for (kind, tiny) in TINY {
        let Some(dir) = bed.mount(kind) else { continue };
        for durable in [Durable::Flush, Durable::File] {
            assert_eq!(copy(&file(&dir, tiny), durable), [EngineName::Clone], "{durable:?} on {kind:?}");
        }
    }
}

#[test]
fn a_tiny_file_that_is_not_in_the_page_cache_is_not_read() {
    let Some(bed) = Bed::new() else { return };
    for (kind, tiny) in TINY {
        let Some(dir) = bed.mount(kind) else { continue };
        let path = file(&dir, tiny);
        let source = File::open(&path).unwrap();
        // A page that another processor has just in hand stays, and goes the next time.
        let is_cold = (0..1000).any(|_| {
            page_cache::forget(source.as_fd(), 0, 1 << 20).unwrap();
            page_cache::cached_pages(source.as_fd(), 0, 1 << 20).unwrap() == 0
        });
        assert!(is_cold, "cannot make it cold");
        assert_eq!(copy(&path, Durable::None), [EngineName::Clone], "{kind:?}");
    }
}
