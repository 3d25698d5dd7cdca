//! What is promised of lists, for lists that chance has made.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::num::NonZero;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use haul_sys::inode::{DeviceNumber, FileId, Kind, Time};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// One step in the making of a list: how far out of the last directory to go, and what comes then.
type Step = (u8, u8, u8, u64, u8);

fn name(number: usize, seed: u8) -> OsString {
    // Every byte but the two that no name has, and no name twice.
    let odd: Vec<u8> = [seed, b'\n', 0xff].into_iter().filter(|byte| !matches!(byte, b'/' | 0)).collect();
    OsString::from_vec([&odd[..], format!("{number}").as_bytes()].concat())
}

fn made(steps: &[Step]) -> FileList {
    const KINDS: [Kind; 6] =
        [Kind::Regular, Kind::Directory, Kind::Regular, Kind::SymbolicLink, Kind::Fifo, Kind::Directory];
    let mut list = FileList::default();
    let mut open: Vec<Index> = Vec::new();
    for (number, (up, kind, seed, size, link)) in steps.iter().enumerate() {
        let kind = KINDS[usize::from(*kind) % KINDS.len()];
        let size = match kind {
            // Some are much larger than all others.
            Kind::Regular if size % 7 == 0 => size % 10_000_000,
            Kind::Regular => size % 1000,
            _ => 0,
        };
        let linked = kind == Kind::Regular && link % 4 == 0;
        let id = linked.then(|| FileId::new(DeviceNumber { major: 8, minor: 1 }, u64::from(link / 4)));
        // All names of one file tell the same size.
        let size = id.map_or(size, |id| id.inode() * 1000);
        let modified = Time { seconds: i64::from(*seed) - 100, nanoseconds: u32::from(*link) };
        let changed = Time { seconds: i64::from(*up), ..modified };
        let entry = Entry { kind, size, modified, changed, id };
        for _ in 0..usize::from(*up % 3) {
            open.pop();
        }
        let at = match open.last() {
            Some(parent) => list.add(*parent, &name(number, *seed), &entry).expect("it fits"),
            None => {
                let born = Time { seconds: 5, nanoseconds: number as u32 };
                let root = (seed % 2 == 0).then_some(Root { inode: number as u64, born });
                list.add_operand(&name(number, *seed), root);
                if seed % 16 == 15 {
                    continue;
                }
                list.add_root(&entry).expect("it is the first")
            }
        };
        if kind == Kind::Directory {
            open.push(at);
        }
    }
    list
}

fn lists(most: usize) -> impl Strategy<Value = FileList> {
    vec(any::<Step>(), 0..most).prop_map(|steps| made(&steps))
}

fn saved(list: &FileList) -> Vec<u8> {
    let mut bytes = Vec::new();
    save(list, &mut bytes).expect("memory takes everything");
    bytes
}

/// The paths of all entries, with everything that is known of them.
fn contents(list: &FileList) -> Vec<(Vec<u8>, Entry)> {
    let path = |at: Index| {
        let names = list.names_to(at);
        let operand = list.operand_of(at).to_string();
        names.iter().fold(operand.into_bytes(), |path, name| [&path, &b"/"[..], name.as_bytes()].concat())
    };
    (0..list.len() as Index).map(|at| (path(at), list.entry(at))).collect()
}

/// The same list with the entries of each directory in another order.
fn shuffled(list: &FileList) -> FileList {
    fn add(from: &FileList, to: &mut FileList, children: &HashMap<Index, Vec<Index>>, at: Index, as_number: Index) {
        for child in children.get(&at).into_iter().flatten().rev() {
            let new = to.add(as_number, from.name(*child), &from.entry(*child)).expect("it was in a list");
            add(from, to, children, *child, new);
        }
    }
    let mut children: HashMap<Index, Vec<Index>> = HashMap::new();
    for at in 0..list.len() as Index {
        if let Some(parent) = list.parent(at) {
            children.entry(parent).or_default().push(at);
        }
    }
    let mut other = FileList::default();
    for (path, root, entry) in list.operands() {
        other.add_operand(path, root);
        if let Some(entry) = entry {
            let new = other.add_root(&list.entry(entry)).expect("it is the first");
            add(list, &mut other, &children, entry, new);
        }
    }
    other
}

fn count(shards: u32) -> NonZero<u32> {
    NonZero::new(shards).expect("not zero")
}

proptest! {
    #[test]
    fn what_was_saved_is_loaded(list in lists(300)) {
        let bytes = saved(&list);
        let loaded = load(&mut &bytes[..]).expect("it was saved");
        prop_assert!(loaded == list);
        prop_assert_eq!(saved(&loaded), bytes);
    }

    #[test]
    fn a_list_that_is_cut_anywhere_is_noticed(list in lists(40), at in any::<prop::sample::Index>()) {
        let bytes = saved(&list);
        let cut = &bytes[..at.index(bytes.len())];
        prop_assert!(load(&mut &*cut).is_err());
    }

    #[test]
    fn a_list_with_any_byte_changed_is_noticed(
        list in lists(40), at in any::<prop::sample::Index>(), change in 1u8..
    ) {
        let mut bytes = saved(&list);
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        prop_assert!(load(&mut &bytes[..]).is_err());
    }

    #[test]
    fn whatever_has_the_right_checksum_is_refused_or_what_would_be_written(
        list in lists(40), changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6)
    ) {
        let mut bytes = saved(&list);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let bytes = fix_checksum(&bytes);
        if let Ok(loaded) = load(&mut &bytes[..]) {
            prop_assert_eq!(saved(&loaded), bytes);
            split(&loaded, count(3));
        }
    }

    #[test]
    fn arbitrary_bytes_are_an_error_and_nothing_worse(bytes in vec(any::<u8>(), 0..400)) {
        prop_assert!(load(&mut &bytes[..]).is_err());
        let bytes = [&b"haul\0mf2"[..], &bytes].concat();
        drop(load(&mut &fix_checksum(&bytes)[..]));
    }

    #[test]
    fn sorting_changes_the_order_alone_and_makes_lists_of_one_tree_the_same(list in lists(200)) {
        let mut sorted = list.clone();
        sort(&mut sorted);
        let (mut before, mut after) = (contents(&list), contents(&sorted));
        let by_path = |list: &mut Vec<(Vec<u8>, Entry)>| list.sort_by(|a, b| a.0.cmp(&b.0));
        by_path(&mut before);
        by_path(&mut after);
        prop_assert_eq!(before, after);
        let mut other = shuffled(&list);
        sort(&mut other);
        prop_assert!(other == sorted);
        prop_assert!(load(&mut &saved(&sorted)[..]).is_ok_and(|loaded| loaded == sorted));
    }

    #[test]
    fn a_split_gives_every_entry_to_one_shard_and_the_sums_are_right(list in lists(400), shards in 1u32..40) {
        let split = split(&list, count(shards));
        let mut work = vec![Work::default(); shards as usize];
        let mut seen = HashSet::new();
        for at in 0..list.len() as Index {
            let (shard, entry) = (split.shard_of(at), list.entry(at));
            prop_assert!(shard < shards);
            work[shard as usize].entries += 1;
            if entry.kind == Kind::Regular && entry.id.is_none_or(|id| seen.insert(id)) {
                work[shard as usize].bytes += entry.size;
            }
        }
        prop_assert_eq!(&work[..], split.work());
    }

    #[test]
    fn all_names_of_a_file_are_in_one_shard(list in lists(400), shards in 1u32..40) {
        let split = split(&list, count(shards));
        let mut of_file = HashMap::new();
        for at in 0..list.len() as Index {
            if let Some(id) = list.entry(at).id {
                prop_assert_eq!(*of_file.entry(id).or_insert(split.shard_of(at)), split.shard_of(at));
            }
        }
    }

    #[test]
    fn shards_differ_by_one_unit_at_most_in_entries_and_in_bytes(list in lists(400), shards in 1u32..40) {
        let split = split(&list, count(shards));
        let largest = split.largest_unit();
        let spread = |of: fn(&Work) -> u64| {
            let all = split.work().iter().map(of);
            all.clone().max().unwrap_or(0) - all.min().unwrap_or(0)
        };
        prop_assert!(spread(|work| work.entries) <= largest.entries);
        prop_assert!(spread(|work| work.bytes) <= largest.bytes);
        // A unit is a sixteenth of a shard, or a thing that cannot be divided.
        let mut names: HashMap<FileId, u64> = HashMap::new();
        let (mut file, mut group, mut bytes) = (0, 1, 0);
        for at in 0..list.len() as Index {
            let entry = list.entry(at);
            if let Some(id) = entry.id {
                let of_file = names.entry(id).or_default();
                *of_file += 1;
                group = group.max(*of_file);
            }
            if entry.kind == Kind::Regular {
                file = file.max(entry.size);
                bytes += entry.size;
            }
        }
        let (wanted, entries) = (u64::from(shards) * 16, list.len() as u64);
        prop_assert!(largest.entries <= (entries / wanted).clamp(1, 1000).max(group));
        prop_assert!(largest.bytes <= (bytes / wanted).max(1).max(file));
    }

    #[test]
    fn a_split_depends_on_what_is_in_the_list_alone(list in lists(200), shards in 1u32..20) {
        let parts = |list: &FileList| {
            let split = split(list, count(shards));
            let mut parts: Vec<_> =
                contents(list).into_iter().map(|(path, _)| path).zip(0..).collect();
            parts.truncate(list.len());
            let mut parts: Vec<_> = parts.into_iter().map(|(path, at)| (path, split.shard_of(at))).collect();
            parts.sort();
            (parts, split.digest())
        };
        let mut sorted = list.clone();
        sort(&mut sorted);
        let expected = parts(&list);
        prop_assert_eq!(parts(&shuffled(&list)), expected.clone());
        prop_assert_eq!(parts(&sorted), expected);
    }
}

#[test]
fn a_change_of_any_time_or_size_changes_the_digest() {
    let listed = |kind, change: fn(&mut Entry)| {
        let mut list = FileList::default();
        list.add_operand(OsStr::new("tree"), None);
        let root = list.add_root(&entry(Kind::Directory)).expect("it is the first");
        let mut changed = entry(kind);
        change(&mut changed);
        list.add(root, OsStr::new("file"), &changed).expect("it fits");
        split(&list, count(2)).digest()
    };
    let changes: [fn(&mut Entry); 4] = [
        |entry| entry.size += 1,
        |entry| entry.modified.seconds += 1,
        |entry| entry.modified.nanoseconds += 1,
        |entry| entry.changed.nanoseconds += 1,
    ];
    for change in changes {
        for kind in [Kind::Regular, Kind::Directory, Kind::SymbolicLink] {
            assert_ne!(listed(kind, change), listed(kind, |_| ()), "{kind:?}");
        }
        // Whoever writes into a FIFO changes its times.
        assert_eq!(listed(Kind::Fifo, change), listed(Kind::Fifo, |_| ()));
    }
}

fn entry(kind: Kind) -> Entry {
    let time = Time { seconds: 0, nanoseconds: 0 };
    Entry { kind, size: 1, modified: time, changed: time, id: None }
}

#[test]
fn names_that_would_lead_elsewhere_are_refused() {
    let mut list = FileList::default();
    list.add_operand(OsStr::new("tree"), None);
    let root = list.add_root(&entry(Kind::Directory)).expect("it is the first");
    for name in ["", ".", "..", "a/b", "/", "a\0b"] {
        assert_eq!(list.add(root, OsStr::new(name), &entry(Kind::Regular)), Err(Misplaced::Name), "{name:?}");
    }
    assert_eq!(list.len(), 1);
}

#[test]
fn an_entry_is_only_added_to_a_directory_that_was_not_left() {
    let mut list = FileList::default();
    assert_eq!(list.add_root(&entry(Kind::Directory)), Err(Misplaced::Operand));
    list.add_operand(OsStr::new("tree"), None);
    let root = list.add_root(&entry(Kind::Directory)).expect("it is the first");
    let inner = list.add(root, OsStr::new("inner"), &entry(Kind::Directory)).expect("it fits");
    let file = list.add(root, OsStr::new("file"), &entry(Kind::Regular)).expect("it fits");
    for parent in [inner, file, file + 1] {
        assert_eq!(list.add(parent, OsStr::new("x"), &entry(Kind::Regular)), Err(Misplaced::Parent));
    }
    list.add_operand(OsStr::new("other"), None);
    assert_eq!(list.add(root, OsStr::new("x"), &entry(Kind::Regular)), Err(Misplaced::Parent));
}

#[test]
fn the_error_says_what_is_wrong_with_a_file_and_where() {
    let mut list = FileList::default();
    list.add_operand(OsStr::new("a"), None);
    list.add_root(&entry(Kind::Regular)).expect("it is the first");
    let bytes = saved(&list);
    let error = |bytes: &[u8]| load(&mut &*bytes).expect_err("it is damaged").to_string();
    assert_eq!(error(b"#!/bin/sh"), "it is not a file list of haul");
    assert_eq!(error(b"haul\0mf1"), "another version of haul has written it");
    assert_eq!(error(&bytes[..bytes.len() - 1]), format!("it is cut off at byte {}", bytes.len() - 1));
    assert_eq!(
        error(&[&bytes[..], b"x"].concat()),
        format!("it is damaged at byte {}: more than a file list", bytes.len())
    );
    let mut other = bytes.clone();
    other[12] = b'x';
    assert_eq!(error(&other), "it is damaged at byte 12: an unknown kind of record");
    let mut other = bytes;
    *other.last_mut().expect("it is not empty") ^= 1;
    assert_eq!(error(&other), "it is damaged: its checksum is wrong");
}

#[test]
fn a_large_directory_is_divided_and_small_ones_stay_whole() {
    let mut list = FileList::default();
    list.add_operand(OsStr::new("tree"), None);
    let root = list.add_root(&entry(Kind::Directory)).expect("it is the first");
    for dir in 0..400 {
        let at = list.add(root, &name(dir, b'd'), &entry(Kind::Directory)).expect("it fits");
        for file in 0..100 {
            list.add(at, &name(file, b'f'), &entry(Kind::Regular)).expect("it fits");
        }
    }
    let large = list.add(root, OsStr::new("large"), &entry(Kind::Directory)).expect("it fits");
    for file in 0..40_000 {
        list.add(large, &name(file, b'f'), &entry(Kind::Regular)).expect("it fits");
    }
    let split = split(&list, count(4));
    let shards_in = |dir: Index| -> HashSet<u32> {
        let inside = (0..list.len() as Index).filter(|at| list.parent(*at) == Some(dir));
        inside.map(|at| split.shard_of(at)).collect()
    };
    assert_eq!(shards_in(large).len(), 4);
    let dirs = (0..list.len() as Index).filter(|at| list.parent(*at) == Some(root) && *at != large);
    let divided = dirs.filter(|dir| shards_in(*dir).len() > 1).count();
    assert!(divided <= 40, "{divided} of 400 small directories are divided");
}
