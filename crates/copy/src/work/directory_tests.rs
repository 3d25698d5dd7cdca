use std::ffi::OsString;
use std::fs;

use haul_sys::rustix::fs::FileType;
use proptest::prelude::*;

use super::*;
use crate::context::test_support::Bench;
use crate::plan::Plan;
use crate::tree::test_support::{entered, found};

fn listed(name: &str, kind: FileType) -> Listed {
    Listed { name: name.into(), kind: Some(kind), entry: None, made: None }
}

/// A directory that was made, with these names left in it.
fn frame(bench: &Bench, names: impl IntoIterator<Item = String>) -> Frame {
    let mut frame = entered(bench);
    frame.listing = Listing::of(names.into_iter().map(|name| listed(&name, FileType::RegularFile)).collect());
    frame
}

fn names(frame: &mut Frame) -> Vec<OsString> {
    frame.names().2.map(|listed| listed.name.clone()).collect()
}

proptest! {
    #[test]
    fn parts_have_all_names_once_and_in_order(count in 0usize..200) {
        let bench = Bench::new(Plan::default());
        let all: Vec<OsString> = (0..count).map(|number| number.to_string().into()).collect();
        let mut frame = frame(&bench, (0..count).map(|number| number.to_string()));
        let mut part = frame.split();
        prop_assert_eq!([names(&mut frame), names(&mut part)].concat(), all.clone());
        prop_assert!(names(&mut part).len().abs_diff(names(&mut frame).len()) <= 1);
        frame.listing.join(part.listing);
        prop_assert_eq!(names(&mut frame), all);
    }
}

#[test]
fn a_part_is_counted_with_its_directory() {
    let bench = Bench::new(Plan::default());
    let mut frame = frame(&bench, ["a".into(), "b".into()]);
    let part = frame.split();
    assert!(part.is_part && !frame.is_part && Arc::ptr_eq(&part.place, &frame.place));
    assert!(Arc::ptr_eq(part.tally.as_ref().unwrap(), frame.tally.as_ref().unwrap()));
}

#[test]
fn names_are_shared_only_of_an_open_directory() {
    let bench = Bench::new(Plan::default());
    let two = || ["a".into(), "b".into()];
    assert!(frame(&bench, two()).has_names_to_share(false));
    assert!(!Frame { finished: true, ..frame(&bench, two()) }.has_names_to_share(false));
    assert!(!Frame { sides: None, ..frame(&bench, two()) }.has_names_to_share(false));
}

#[test]
fn only_who_is_busy_shares_a_last_directory() {
    let bench = Bench::new(Plan::default());
    for (kind, busy, shared) in
        [(FileType::Directory, true, true), (FileType::Directory, false, false), (FileType::RegularFile, true, false)]
    {
        let mut frame = entered(&bench);
        frame.listing = Listing::of(vec![listed("a", kind)]);
        assert_eq!(frame.has_names_to_share(busy), shared, "{kind:?} {busy}");
    }
}

fn parked(bench: &Bench) -> Box<Parked> {
    let pool = crate::schedule::pool::Pool::<()>::new(haul_io::tuner::Tuner::fixed(1), 1);
    Box::new(Parked { frame: entered(bench), segment: None, above: None, _parking: pool.reserve_parking().unwrap() })
}

#[test]
fn a_directory_waits_for_the_last_of_its_parts() {
    let bench = Bench::new(Plan::default());
    let tally = Tally::default();
    tally.add();
    tally.add();
    assert!(tally.park(parked(&bench)).is_none() && !tally.is_done());
    assert!(tally.remove().is_none());
    assert!(tally.remove().is_some());
    assert!(tally.is_done());
}

#[test]
fn a_directory_whose_parts_are_done_does_not_wait() {
    let bench = Bench::new(Plan::default());
    let tally = Tally::default();
    tally.add();
    assert!(tally.remove().is_none());
    assert!(tally.park(parked(&bench)).is_some());
}

#[test]
fn a_directory_is_filled_only_by_who_made_it() {
    let bench = Bench::new(Plan::default());
    let [made, there] = [entered(&bench), found(&bench)];
    let dest = made.place.dest_inode.id;
    assert!(made.is_filling(dest) && !made.is_filling(made.place.source_inode.id) && !there.is_filling(dest));
}

/// Whether these two directories below the bench overlap.
fn overlaps(source: &str, dest: &str) -> bool {
    let bench = Bench::new(Plan::default());
    for dir in ["source/a/b", "dest/a"] {
        fs::create_dir_all(bench.path().join(dir)).unwrap();
    }
    let [from, to] = [source, dest].map(|dir| fs::File::open(bench.path().join(dir)).unwrap().into());
    let path = crate::walk::PathNode::root("dest".as_ref());
    overlap(&Frame { sides: Some(Arc::new(Sides::new(from, to, &path))), ..entered(&bench) })
}

#[test]
fn directories_overlap_if_one_is_in_the_other() {
    assert!(overlaps("source", "source/a/b"));
    assert!(overlaps("source/a/b", "source"));
    assert!(overlaps("source/a", "source/a"));
    assert!(!overlaps("source/a", "dest/a"));
    assert!(!overlaps("source", "dest"));
}

#[test]
fn directories_that_are_closed_may_overlap() {
    let bench = Bench::new(Plan::default());
    assert!(overlap(&Frame { sides: None, ..entered(&bench) }));
}
