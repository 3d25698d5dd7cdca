//! Large files through the whole run: what is chosen, what stays in the page cache, and that nothing is left over.
#![allow(missing_docs)]

mod support;

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use haul_copy::events::Event;
use haul_copy::plan::{CacheUse, DataOptions, Destination, EngineChoice, EngineName, Plan, Preallocate};
use haul_copy::run::Cancel;
use haul_sys::page_cache;
use haul_testbed::{Bed, Command, Fs, allocated, assert_same_contents, create_painted, paint, painted, skip, temp_dir};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn plan(from: &Path, to: &Path) -> Plan {
    Plan { sources: vec![from.into()], destination: Destination::Exactly(to.into()), ..Plan::default() }
}

/// Copies without any trouble; the engines that moved something.
fn copy(plan: &Plan) -> Vec<EngineName> {
    let used = Mutex::new(Vec::new());
    let (summary, problems) = support::copy(plan, &Cancel::default(), |event| {
        if let Event::DataDone(report) = event {
            let moved = report.tried.iter().filter(|tried| tried.moved.total() > 0);
            used.lock().unwrap().extend(moved.map(|tried| tried.engine));
        }
    });
    assert_eq!((summary.failed, problems), (false, vec![]));
    used.into_inner().unwrap()
}

fn cached(path: &Path, offset: u64, len: u64) -> u64 {
    page_cache::cached_pages(File::open(path).unwrap().as_fd(), offset, len).unwrap() * 4096
}

/// Nearly all of it: the kernel takes some pages from everybody when the memory of the machine is full.
fn stayed(cached: u64, of: u64) -> bool {
    cached >= of / 10 * 9
}

/// What may be left of pages that were dropped: those that somebody else has just in hand stay, a processor in its batches
/// (31 for each of several lists), a device that is busy reading ahead. An eighth of the file, and a leak is all of it.
const IN_HAND: u64 = 4 * MIB;

fn make_cold(path: &Path) {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    // A page that another processor has just in hand stays, and goes the next time.
    let is_cold = (0..1000).any(|_| {
        page_cache::forget(file.as_fd(), 0, 1 << 40).unwrap();
        cached(path, 0, 1 << 40) == 0
    });
    assert!(is_cold, "cannot make it cold");
}

fn make_warm(path: &Path, len: usize) {
    File::open(path).unwrap().read_exact(&mut vec![0; len]).unwrap();
}

#[test]
fn every_odd_size_is_copied_past_the_cache_over_longer_old_contents() {
    let Some(bed) = Bed::new() else { return };
    let dirs: Vec<_> = Fs::ALL.into_iter().filter_map(|fs| bed.mount(fs)).collect();
    let sizes = [4 * MIB, 8 * MIB, 9 * MIB + 512 * KIB].into_iter();
    let around = [0, 1, 511, 512, 513, 4095, 4096, 4097];
    for size in sizes.flat_map(|size| around.map(|more| size + more).into_iter().chain([size - 1, size - 4096])) {
        for from_dir in &dirs {
            let a = from_dir.join("a");
            create_painted(&a, size);
            for to_dir in &dirs {
                let b = to_dir.join("b");
                fs::write(&b, vec![0xee; 10 << 20]).unwrap();
                copy(&Plan { data: DataOptions { cache: CacheUse::Drop, ..plan(&a, &b).data }, ..plan(&a, &b) });
                assert_same_contents(&a, &b);
            }
            fs::remove_file(&a).unwrap();
        }
    }
}

#[test]
fn a_source_that_was_cached_stays_cached_and_a_cold_one_does_not_stay() {
    let Some(bed) = Bed::new() else { return };
    let size = 32 * MIB + 777;
    for fs in [Fs::Ext4, Fs::Xfs, Fs::Btrfs] {
        let Some(dir) = bed.mount(fs) else { continue };
        let (a, b) = (dir.join("a"), dir.join("b"));
        create_painted(&a, size);
        let choices = [
            EngineChoice::Auto,
            EngineChoice::Only(EngineName::ReadWrite),
            EngineChoice::Only(EngineName::MappedDirect),
            EngineChoice::Only(EngineName::Dontcache),
        ];
        for engine in choices {
            let context = format!("{engine:?} on {}", fs.name());
            let reflink = haul_copy::plan::Reflink::Never;
            let plan = Plan {
                data: DataOptions { cache: CacheUse::Drop, engine, reflink, ..plan(&a, &b).data },
                ..plan(&a, &b)
            };
            // On a busy machine a processor that is kept from its work may have more pages in hand than these.
            let left = (0..10).find_map(|_| {
                make_cold(&a);
                copy(&plan);
                // The tail of a direct copy goes through the page cache and is still dirty there.
                let left = [cached(&a, 0, size), cached(&b, 0, size)];
                assert_same_contents(&a, &b);
                fs::remove_file(&b).unwrap();
                left.iter().all(|left| *left <= IN_HAND).then_some(left)
            });
            assert!(left.is_some(), "a cold source, or its copy, stayed: {context}");

            make_cold(&a);
            make_warm(&a, 16 << 20);
            copy(&plan);
            assert!(stayed(cached(&a, 0, 16 * MIB), 16 * MIB), "the cached half: {context}");
            assert!(cached(&a, 24 * MIB, size) <= IN_HAND, "the cold half: {context}");
            fs::remove_file(&b).unwrap();

            make_warm(&a, size as usize);
            copy(&plan);
            assert!(stayed(cached(&a, 0, size), size), "a cached source: {context}");
            assert!(cached(&b, 0, size) <= IN_HAND, "the copy of a cached source: {context}");
            fs::remove_file(&b).unwrap();
        }
        fs::remove_file(&a).unwrap();
    }
}

#[test]
fn a_copy_to_be_kept_is_in_the_page_cache_and_the_choice_follows_the_cache() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = bed.mount(Fs::Ext4) else { return };
    let (a, b) = (dir.join("a"), dir.join("b"));
    let size = 16 * MIB;
    create_painted(&a, size);
    let with = |cache| Plan { data: DataOptions { cache, ..plan(&a, &b).data }, ..plan(&a, &b) };
    for cache in [CacheUse::Keep, CacheUse::Auto] {
        copy(&with(cache));
        assert!(stayed(cached(&b, 0, size), size), "{cache:?}");
        fs::remove_file(&b).unwrap();
    }
    assert_eq!(copy(&with(CacheUse::Drop)), [EngineName::MappedDirect]);
    make_cold(&a);
    assert_eq!(copy(&with(CacheUse::Drop)), [EngineName::Direct]);
    assert_eq!(copy(&with(CacheUse::Keep)), [EngineName::ReadWrite]);
    make_warm(&a, size as usize);
    assert_eq!(copy(&with(CacheUse::Keep)), [EngineName::CopyRange], "it replaces another copy");
    assert_same_contents(&a, &b);
    fs::remove_file(&b).unwrap();
    assert_eq!(copy(&with(CacheUse::Keep)), [EngineName::ReadWrite], "its space is allocated first");
    assert_same_contents(&a, &b);
}

/// Copies, and tells whether the destination had all its space when the first bytes had been moved.
fn has_its_space_first(a: &Path, b: &Path) -> bool {
    let size = fs::metadata(a).unwrap().len();
    let mut first = None;
    let (summary, _) = support::copy(&plan(a, b), &Cancel::default(), |event| {
        if let Event::Progress(moved) = event
            && first.is_none()
        {
            assert!(moved.total() < size / 2, "too late to tell");
            first = Some(allocated(b) >= size);
        }
    });
    assert!(!summary.failed);
    assert_same_contents(a, b);
    assert!(allocated(b) <= size.next_multiple_of(4096) + 128 * KIB);
    first.expect("something was moved")
}

#[test]
fn a_new_file_gets_its_space_on_ext4_before_it_is_written() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = bed.mount(Fs::Ext4) else { return };
    let (a, b) = (dir.join("a"), dir.join("b"));
    create_painted(&a, 128 * MIB + 5);
    assert!(has_its_space_first(&a, &b));
    assert!(!has_its_space_first(&a, &b), "ext4 takes care of one that replaces another");
}

#[test]
fn files_of_a_mebibyte_get_their_space_first_on_ext4_and_nowhere_else() {
    let Some(bed) = Bed::new() else { return };
    for fs in [Fs::Ext4, Fs::Xfs] {
        let Some(dir) = bed.mount(fs) else { continue };
        for (size, expected) in [(MIB + 5, fs == Fs::Ext4), (MIB - 1, false)] {
            let (a, b) = (dir.join("a"), dir.join("b"));
            create_painted(&a, size);
            let mut reasons = Vec::new();
            let (summary, _) = support::copy(&plan(&a, &b), &Cancel::default(), |event| {
                if let Event::DataDone(report) = event {
                    reasons.extend_from_slice(&report.reasons);
                }
            });
            assert!(!summary.failed);
            assert_same_contents(&a, &b);
            let first = reasons.iter().any(|reason| reason.contains("allocated first, so that ext4"));
            assert_eq!(first, expected, "{size} bytes on {}: {reasons:?}", fs.name());
            fs::remove_file(&a).unwrap();
            fs::remove_file(&b).unwrap();
        }
    }
}

#[test]
fn a_source_that_shrinks_leaves_neither_surplus_size_nor_surplus_blocks() {
    let Some(bed) = Bed::new() else { return };
    for fs in Fs::ALL {
        let Some(dir) = bed.mount(fs) else { continue };
        let (a, b) = (dir.join("a"), dir.join("b"));
        for engine in [EngineName::ReadWrite, EngineName::Direct, EngineName::MappedDirect, EngineName::CopyRange] {
            for left in [0, MIB + 1, 17 * MIB] {
                create_painted(&a, 32 * MIB);
                let always = Preallocate::Always;
                let plan = Plan {
                    data: DataOptions { engine: EngineChoice::Only(engine), preallocate: always, ..plan(&a, &b).data },
                    ..plan(&a, &b)
                };
                let (summary, problems) = support::copy(&plan, &Cancel::default(), |event| {
                    if let Event::DataStarted { .. } = event {
                        OpenOptions::new().write(true).open(&a).unwrap().set_len(left).unwrap();
                    }
                });
                let context = format!("{engine} on {} to {left}: {problems:?}", fs.name());
                assert!(!summary.failed, "{context}");
                assert_same_contents(&a, &b);
                assert!(allocated(&b) <= left.next_multiple_of(4096) + 128 * KIB, "{} {context}", allocated(&b));
                fs::remove_file(&a).unwrap();
                fs::remove_file(&b).unwrap();
            }
        }
    }
}

#[test]
fn a_source_that_grows_is_copied_with_its_growth() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = bed.mount(Fs::Ext4) else { return };
    let (a, b) = (dir.join("a"), dir.join("b"));
    for cache in [CacheUse::Keep, CacheUse::Drop] {
        create_painted(&a, 16 * MIB + 5);
        let plan = Plan { data: DataOptions { cache, ..plan(&a, &b).data }, ..plan(&a, &b) };
        let (summary, _) = support::copy(&plan, &Cancel::default(), |event| {
            if let Event::DataStarted { .. } = event {
                paint(&OpenOptions::new().write(true).open(&a).unwrap(), 16 * MIB + 5, 3 * MIB);
            }
        });
        assert!(!summary.failed);
        assert_same_contents(&a, &b);
        fs::remove_file(&a).unwrap();
        fs::remove_file(&b).unwrap();
    }
}

#[test]
fn a_cancelled_copy_that_is_kept_ends_where_its_bytes_end() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = bed.mount(Fs::Ext4) else { return };
    let (a, b) = (dir.join("a"), dir.join("b"));
    create_painted(&a, 256 * MIB);
    let cancel = Cancel::default();
    let plan = Plan {
        remove_partial: false,
        data: DataOptions { cache: CacheUse::Drop, ..plan(&a, &b).data },
        ..plan(&a, &b)
    };
    let (summary, _) = support::copy(&plan, &cancel, |event| {
        if let Event::Progress(_) = event {
            cancel.cancel();
        }
    });
    assert!(summary.cancelled);
    let len = fs::metadata(&b).unwrap().len();
    assert_eq!(len, summary.stats.moved.total(), "what is counted is there, and nothing else");
    assert!(0 < len && len < 256 * MIB, "{len}");
    assert!(fs::read(&b).unwrap() == painted(len as usize));
}

#[test]
fn a_large_copy_does_not_look_whole_before_its_end() {
    let Some(bed) = Bed::new() else { return };
    let size = 128 * MIB;
    for fs in [Fs::Ext4, Fs::Xfs, Fs::Btrfs] {
        let Some(dir) = bed.mount(fs) else { continue };
        let (a, b) = (dir.join("a"), dir.join("b"));
        create_painted(&a, size);
        for cold in [false, true] {
            if cold {
                make_cold(&a);
            }
            let reflink = haul_copy::plan::Reflink::Never;
            let plan = Plan {
                data: DataOptions {
                    cache: CacheUse::Drop,
                    preallocate: Preallocate::Always,
                    reflink,
                    ..plan(&a, &b).data
                },
                ..plan(&a, &b)
            };
            let moved = Mutex::new(0);
            let (summary, problems) = support::copy(&plan, &Cancel::default(), |event| {
                if let Event::Progress(more) = event {
                    let mut moved = moved.lock().unwrap();
                    *moved += more.total();
                    let now = fs::metadata(&b).unwrap().len();
                    assert!(*moved == size || now < size, "{moved} bytes, cold {cold}, on {}", fs.name());
                    assert!(allocated(&b) >= size - MIB, "the space is there on {}", fs.name());
                }
            });
            assert_eq!((summary.failed, problems), (false, vec![]));
            assert_eq!(moved.into_inner().unwrap(), size);
            assert_same_contents(&a, &b);
            fs::remove_file(&b).unwrap();
        }
        fs::remove_file(&a).unwrap();
    }
}

#[test]
fn a_full_filesystem_is_met_by_the_write_and_not_by_the_preallocation() {
    let Some(bed) = Bed::new() else { return };
    let source_dir = temp_dir();
    let a = source_dir.path().join("a");
    create_painted(&a, 16 * MIB);
    for fs in [Fs::Ext4, Fs::Tmpfs] {
        let Some(dir) = bed.small(fs, 12 * MIB) else { continue };
        let b = dir.join("b");
        let plan = Plan {
            remove_partial: false,
            data: DataOptions { preallocate: Preallocate::Always, ..plan(&a, &b).data },
            ..plan(&a, &b)
        };
        let (summary, problems) = support::copy(&plan, &Cancel::default(), |_| {});
        assert!(summary.failed && problems.iter().any(|text| text.contains("No space left")), "{problems:?}");
        let len = fs::metadata(&b).unwrap().len();
        assert!(len >= MIB && fs::read(&b).unwrap() == painted(len as usize), "{len}");
    }
}

/// A loop device, let go of in the end.
struct Loop(PathBuf);

impl Loop {
    fn new(image: &Path) -> Option<Loop> {
        let done = Command::new("losetup").args(["--find", "--show"]).arg(image).output();
        match done {
            Ok(done) if done.status.success() => {
                let device = PathBuf::from(String::from_utf8(done.stdout).unwrap().trim());
                // It will be written to.
                assert!(device.to_str().unwrap().starts_with("/dev/loop"), "{device:?}");
                Some(Loop(device))
            }
            other => {
                skip(format!("no loop device: {other:?}"));
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if let Err(error) = Command::new("losetup").arg("--detach").arg(&self.0).status() {
            eprintln!("cannot detach {}: {error}", self.0.display());
        }
    }
}

#[test]
fn a_block_device_gets_the_bytes_of_the_file_and_keeps_what_is_behind_them() {
    let dir = temp_dir();
    let (a, image) = (dir.path().join("a"), dir.path().join("image"));
    File::create_new(&image).unwrap().set_len(64 * MIB).unwrap();
    let Some(device) = Loop::new(&image) else { return };
    for size in [100_001, 5 * MIB + 777, 33 * MIB + 511] {
        create_painted(&a, size);
        for (cache, engine) in [
            (CacheUse::Auto, EngineChoice::Auto),
            (CacheUse::Drop, EngineChoice::Auto),
            (CacheUse::Keep, EngineChoice::Auto),
            (CacheUse::Auto, EngineChoice::Only(EngineName::Direct)),
            (CacheUse::Auto, EngineChoice::Only(EngineName::MappedDirect)),
        ] {
            // The device is no file that could be replaced: it is written into.
            fs::write(&device.0, vec![0xee; 64 << 20]).unwrap();
            copy(&Plan {
                data: DataOptions { cache, engine, preallocate: Preallocate::Always, ..plan(&a, &device.0).data },
                ..plan(&a, &device.0)
            });
            let found = fs::read(&device.0).unwrap();
            assert_eq!(found.len(), 64 << 20);
            assert!(found[..size as usize] == painted(size as usize), "{size} {cache:?} {engine:?}");
            assert!(found[size as usize..].iter().all(|byte| *byte == 0xee), "{size} {cache:?} {engine:?}");
        }
        fs::remove_file(&a).unwrap();
    }
}

#[test]
fn a_dense_file_beyond_two_gibibytes_goes_to_the_device_whole() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = bed.mount(Fs::Ext4) else { return };
    let (a, b) = (dir.join("a"), dir.join("b"));
    create_painted(&a, (2 << 30) + 4097);
    let used = copy(&plan(&a, &b));
    assert!(used == [EngineName::MappedDirect] || used == [EngineName::Direct], "{used:?}");
    assert_same_contents(&a, &b);
}
