//! Whole runs with the asynchronous engines.

mod support;

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use haul_copy::events::Event;
use haul_copy::plan::{DataOptions, Destination, EngineChoice, EngineName, Plan};
use haul_copy::run::Cancel;
use haul_io::engine::Needs;
use haul_io::moved::Refusal;
use haul_sys::Errno;
use haul_sys::for_tests::{IO_URING_SETUP, forbid};
use haul_testbed::{Bed, Fs, assert_same_contents, create_painted, temp_dir};
use support::copy;

const MIB: u64 = 1 << 20;

fn queued() -> impl Iterator<Item = EngineName> {
    EngineName::ALL.into_iter().filter(|name| name.caps().queued)
}

fn forced(name: EngineName, source: &Path, dest: &Path) -> Plan {
    Plan {
        sources: vec![source.into()],
        destination: Destination::Exactly(dest.into()),
        data: DataOptions { engine: EngineChoice::Only(name), ..DataOptions::default() },
        ..Plan::default()
    }
}

#[test]
fn where_a_container_forbids_io_uring_the_copy_goes_on_without() {
    let dir = temp_dir();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    create_painted(&a, 5 * MIB + 3);
    // The filter belongs to this thread, which is this test's alone.
    forbid(IO_URING_SETUP).unwrap();
    let tried = Mutex::new(Vec::new());
    let (summary, problems) = copy(&forced(EngineName::IoUring, &a, &b), &Cancel::default(), |event| {
        if let Event::DataDone(report) = event {
            tried.lock().unwrap().extend(report.tried.iter().map(|tried| (tried.engine, tried.refused)));
        }
    });
    assert!(!summary.failed, "{problems:?}");
    assert_same_contents(&a, &b);
    let expected = [(EngineName::IoUring, Some(Refusal::Unsupported(Errno::PERM))), (EngineName::ReadWrite, None)];
    assert_eq!(*tried.lock().unwrap(), expected);
}

#[test]
fn a_forced_engine_copies_the_whole_file_alone_and_every_kind_of_file_right() {
    let Some(bed) = Bed::new() else { return };
    for fs in Fs::ALL {
        let Some(dir) = bed.mount(fs) else { continue };
        let (a, b) = (dir.join("a"), dir.join("b"));
        create_painted(&a, 9 * MIB + 3);
        for name in queued() {
            let (summary, problems) = copy(&forced(name, &a, &b), &Cancel::default(), |_| {});
            assert!(!summary.failed, "{problems:?}");
            assert_same_contents(&a, &b);
            let alone = name.caps().needs != Needs::Direct || matches!(fs, Fs::Ext4 | Fs::Xfs);
            let moved = summary.stats.engines.get(&name).map_or(0, |stats| stats.moved.written);
            assert_eq!(moved, if alone { 9 * MIB + 3 } else { 0 }, "{name} on {}", fs.name());
            fs::remove_file(&b).unwrap();
        }
        fs::remove_file(&a).unwrap();
    }
}

#[test]
fn a_cancelled_run_stops_between_two_jobs_and_leaves_nothing() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = bed.mount(Fs::Ext4) else { return };
    let (a, b) = (dir.join("a"), dir.join("b"));
    create_painted(&a, 300 * MIB);
    for name in queued() {
        let cancel = Cancel::default();
        let (summary, problems) = copy(&forced(name, &a, &b), &cancel, |event| {
            if matches!(event, Event::Progress(_)) {
                cancel.cancel();
            }
        });
        assert!(summary.cancelled, "{name}: {problems:?}");
        assert!(summary.stats.moved.total() < 300 * MIB, "{name}: {:?}", summary.stats.moved);
        assert!(!b.exists(), "{name}");
    }
}
