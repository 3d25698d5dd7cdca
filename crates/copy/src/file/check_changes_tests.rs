use haul_io::verify::Checked;
use haul_sys::inode::Time;

use super::*;
use crate::context::test_support::{Bench, Ran, file_data};
use crate::plan::{Checksum, Plan};

fn inode(bench: &Bench) -> Inode {
    bench.from("a").inode().unwrap()
}

fn earlier(time: Time) -> Time {
    Time { seconds: time.seconds - 1, ..time }
}

#[test]
fn every_change_that_stat_shows_counts() {
    let bench = Bench::new(Plan::default()).source("a", "new").source("other", "new");
    let now = inode(&bench);
    let other = bench.from("other").inode().unwrap();
    assert!(is_unchanged(&now, &now));
    for before in [
        Inode { size: 4, ..now },
        Inode { modified: earlier(now.modified), ..now },
        Inode { changed: earlier(now.changed), ..now },
        Inode { id: other.id, ..now },
    ] {
        assert!(!is_unchanged(&before, &now), "{before:?}");
    }
    let read = Inode { accessed: earlier(now.accessed), permissions: 0, ..now };
    assert!(is_unchanged(&read, &now), "what was read or has another mode has the same contents");
}

/// Looks at `a` after it was copied, when it had been `seen` before. Whether it had changed.
fn settle(bench: &Bench, seen: Inode, moved: Moved) -> Ran<bool> {
    let sides = [bench.from("a"), bench.from("a")].map(|spot| spot.open_path().unwrap());
    bench.run(|worker| {
        let job = file_data(sides, [&seen, &seen]);
        worker.report.stats.moved = moved;
        let before = Moved::default();
        settle_changes(worker, &job, &mut { seen }, before, Ok(Checked::default())).is_err()
    })
}

fn failing() -> Bench {
    Bench::new(Plan { if_changed: IfChanged::Fail, ..Plan::default() })
}

#[test]
fn a_source_that_was_changed_has_no_digest_but_by_a_comparison_with_its_copy() {
    for (if_changed, verify, kept) in [
        (IfChanged::Warn, Verify::Off, false),
        (IfChanged::Ignore, Verify::Off, false),
        (IfChanged::Warn, Verify::Read, true),
        (IfChanged::Ignore, Verify::Read, true),
    ] {
        let checksum = Some(Checksum::Sha256);
        let bench = Bench::new(Plan { if_changed, verify, checksum, ..Plan::default() }).source("a", "new");
        let now = inode(&bench);
        let before = Inode { changed: earlier(now.changed), ..now };
        for (seen, kept) in [(now, true), (before, kept)] {
            let sides = [bench.from("a"), bench.from("a")].map(|spot| spot.open_path().unwrap());
            let ran = bench.run(|worker| {
                let job = file_data(sides, [&seen, &seen]);
                let read = Ok(Checked { digest: Some("12".into()), ..Checked::default() });
                let settled = settle_changes(worker, &job, &mut { seen }, Moved::default(), read);
                settled.ok().and_then(Result::ok).and_then(|checked| checked.digest)
            });
            assert_eq!(ran.value.is_some(), kept, "{if_changed:?} {verify:?}");
        }
    }
}

#[test]
fn an_empty_copy_is_not_looked_at_again() {
    let bench = failing().source("a", "");
    let seen = Inode { changed: earlier(inode(&bench).changed), ..inode(&bench) };
    assert!(!settle(&bench, seen, Moved::default()).value);
    assert!(settle(&bench, seen, Moved { written: 1, ..Moved::default() }).value, "it was not empty any more");
}

#[test]
fn only_regular_sources_are_looked_at_again() {
    let bench = failing().source("a", "new");
    let seen = Inode { changed: earlier(inode(&bench).changed), ..inode(&bench) };
    assert!(settle(&bench, seen, Moved::default()).value);
    assert!(!settle(&bench, Inode { kind: Kind::Fifo, ..seen }, Moved::default()).value);
}
