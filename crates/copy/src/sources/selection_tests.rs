use std::ffi::OsStr;
use std::fs;
use std::sync::Mutex;

use haul_io::control::Cancel;
use haul_io::pace::Pace;
use haul_sys::inode::Time;

use super::*;
use crate::context::test_support::Bench;
use crate::events::{Confirm, Observer, Question};
use crate::filter::{Choice, Filter, Rule};
use crate::list::{Entry, Root};
use crate::meta::XattrRules;
use crate::plan::{Dereference, Destination, Overwrite, Preserve};
use crate::publish::Partials;

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Observer for Heard {
    fn event(&self, event: &Event<'_>) {
        if let Event::Problem(error) | Event::Warning(error) = event {
            self.0.lock().unwrap().push(error.to_string());
        }
    }
}

struct Nobody;

impl Confirm for Nobody {
    fn overwrite(&self, _: &Question<'_>) -> bool {
        panic!("nothing is asked")
    }
}

/// What is selected, or how many errors there are; and what is said.
fn prepared(bench: &Bench, first: bool) -> (Result<Option<Selection>, u64>, Vec<String>) {
    let heard = Heard::default();
    let session = Session {
        observer: &heard,
        confirm: &Nobody,
        cancel: Cancel::default(),
        pace: Pace::default(),
        partials: Partials::default(),
        xattr_rules: XattrRules::default(),
        skip_files: Vec::new(),
        shared_reads: None,
    };
    let selection = prepare(&bench.plan, &session, first);
    let whole = format!("{}/", bench.path().display());
    let said = heard.0.into_inner().unwrap().iter().map(|line| line.replace(&whole, "")).collect();
    (selection, said)
}

/// Nothing is selected, for this reason.
#[track_caller]
fn refused(bench: &Bench, why: &str) {
    let (selection, said) = prepared(bench, true);
    assert_eq!((selection.err(), said), (Some(1), vec![why.to_owned()]));
}

/// A tree: `dir` with `a` and `sub/b`, and `dest` for it to be copied into.
fn bench() -> Bench {
    let mut bench =
        Bench::new(Plan { recursive: true, dereference: Dereference::Never, ..Plan::default() }).source("file", "");
    fs::create_dir_all(bench.source_path("dir/sub")).unwrap();
    fs::write(bench.source_path("dir/a"), "").unwrap();
    fs::write(bench.source_path("dir/sub/b"), "").unwrap();
    bench.plan.sources = vec![bench.source_path("dir").into()];
    bench.plan.destination = Destination::Directory(bench.dest_path("").into());
    bench
}

fn entry(kind: Kind) -> Entry {
    let never = Time { seconds: 0, nanoseconds: 0 };
    Entry { kind, size: 0, modified: never, changed: never, id: None }
}

/// A list of one operand, of this kind.
fn list_of(path: &OsStr, root: Option<Root>, kind: Option<Kind>) -> Arc<FileList> {
    let mut list = FileList::default();
    list.add_operand(path, root);
    if let Some(kind) = kind {
        list.add_root(&entry(kind)).unwrap();
    }
    Arc::new(list)
}

/// A directory with a file and a directory with two.
fn tree() -> Arc<FileList> {
    let mut list = FileList::default();
    list.add_operand("dir".as_ref(), None);
    let root = list.add_root(&entry(Kind::Directory)).unwrap();
    list.add(root, "a".as_ref(), &entry(Kind::Regular)).unwrap();
    let sub = list.add(root, "sub".as_ref(), &entry(Kind::Directory)).unwrap();
    for name in ["b", "c"] {
        list.add(sub, name.as_ref(), &entry(Kind::Fifo)).unwrap();
    }
    Arc::new(list)
}

/// The names in a directory of the list in which there is something to do.
fn names_in(selection: &Selection, directory: Index) -> Vec<String> {
    let first = selection.first[directory as usize];
    let (names, next) = selection.beside(first, usize::MAX);
    assert_eq!(next, None);
    names.iter().map(|listed| listed.name.to_str().unwrap().to_owned()).collect()
}

#[test]
fn without_list_and_shards_everything_is_wanted() {
    let (selection, said) = prepared(&bench(), true);
    assert!(matches!(selection, Ok(None)) && said.is_empty());
}

#[test]
fn everything_in_a_list_is_selected() {
    let selection = Selection::new(tree(), None);
    assert_eq!(
        (names_in(&selection, 0), names_in(&selection, 2)),
        (vec!["a".into(), "sub".into()], vec!["b".into(), "c".into()])
    );
    assert_eq!(selection.roots, [Some(0)]);
}

#[test]
fn shards_select_each_entry_once_and_the_way_there() {
    let count = 3;
    let list = tree();
    let split = || crate::list::split(&list, count.try_into().unwrap());
    let shards: Vec<_> = (1..=count)
        .map(|number| Selection::new(Arc::clone(&list), Some((Shard::new(number, count).unwrap(), split()))))
        .collect();
    for (directory, at, name) in [(0, 1, "a"), (2, 3, "b"), (2, 4, "c")] {
        let owners: Vec<u32> = (0..count)
            .filter(|shard| names_in(&shards[*shard as usize], directory).contains(&name.to_owned()))
            .collect();
        assert_eq!(owners, [split().shard_of(at)], "{name}");
    }
    for shard in &shards {
        // Who has something to do below gets there.
        let below = !names_in(shard, 2).is_empty();
        assert!(!below || names_in(shard, 0).contains(&"sub".to_owned()));
        assert!(!below || shard.roots == [Some(0)]);
    }
}

#[test]
fn names_come_in_batches_with_their_kinds() {
    let selection = Selection::new(tree(), None);
    let (first, next) = selection.beside(1, 1);
    assert_eq!(
        (first[0].name.to_str(), first[0].kind, first[0].entry),
        (Some("a"), Some(FileType::RegularFile), Some(1))
    );
    let (second, end) = selection.beside(next.unwrap(), 1);
    assert_eq!((second[0].name.to_str(), second[0].kind, end), (Some("sub"), Some(FileType::Directory), None));
}

#[test]
fn options_that_go_against_lists_are_refused() {
    let mut bench = bench();
    bench.plan.shard = Shard::new(1, 2);
    bench.plan.overwrite = Overwrite::Ask;
    refused(&bench, "file lists and shards do not go with -i");
}

#[test]
fn only_the_first_process_says_what_is_wrong() {
    let mut bench = bench();
    bench.plan.shard = Shard::new(1, 2);
    bench.plan.overwrite = Overwrite::Ask;
    let (selection, said) = prepared(&bench, false);
    assert_eq!((selection.err(), said), (Some(1), vec![]));
}

#[test]
fn a_list_of_other_sources_is_refused() {
    let mut bench = bench();
    let operand = bench.plan.sources[0].clone();
    let fits = r#"the file list does not fit "source/dir": "#;
    bench.plan.list = Some(Arc::default());
    refused(&bench, &format!("{fits}it is of 0 sources, and 1 are given; nothing was copied"));
    bench.plan.list = Some(list_of("other".as_ref(), None, Some(Kind::Directory)));
    refused(&bench, &format!(r#"{fits}there it is "other"; nothing was copied"#));
    bench.plan.list = Some(list_of(&operand, None, Some(Kind::Fifo)));
    refused(&bench, &format!("{fits}there it is a FIFO; nothing was copied"));
    bench.plan.list = Some(list_of(&operand, None, None));
    let why = "it has nothing of it, since it could not be looked at when the list was made";
    refused(&bench, &format!("{fits}{why}; nothing was copied"));
}

#[test]
fn a_list_of_the_same_directory_under_another_path_fits() {
    let mut bench = bench();
    let inode = operand_inode(Operand::open(&bench.plan.sources[0]).spot(), &bench.plan).unwrap();
    let Some(root) = root_of(&inode) else { return haul_testbed::skip("births of directories") };
    bench.plan.list = Some(list_of("other".as_ref(), Some(root), Some(Kind::Directory)));
    let (selection, said) = prepared(&bench, true);
    assert!(selection.is_ok_and(|selection| selection.is_some()), "{said:?}");
    let another = Root { inode: root.inode + 1, ..root };
    bench.plan.list = Some(list_of("other".as_ref(), Some(another), Some(Kind::Directory)));
    let fits = r#"the file list does not fit "source/dir": "#;
    refused(&bench, &format!("{fits}it was made of another file or directory; nothing was copied"));
}

#[test]
fn a_source_that_cannot_be_looked_at_is_refused() {
    let mut bench = bench();
    bench.plan.sources = vec![bench.source_path("missing").into()];
    bench.plan.list = Some(list_of("missing".as_ref(), None, Some(Kind::Regular)));
    refused(&bench, &format!(r#"cannot stat "source/missing": {}"#, haul_sys::Errno::NOENT));
}

#[test]
fn shards_without_list_walk_the_sources() {
    let mut bench = bench();
    bench.plan.shard = Shard::new(1, 1);
    let (selection, said) = prepared(&bench, true);
    let selection = selection.unwrap().unwrap();
    assert_eq!((selection.list.len(), said), (4, vec![]));
    assert_eq!(selection.shards.as_ref().unwrap().0, Shard::new(1, 1).unwrap());
}

#[test]
fn totals_are_of_what_the_list_leaves_to_this_shard() {
    let time = Time { seconds: 1, nanoseconds: 0 };
    let entry = |kind, id| Entry { kind, size: 10, modified: time, changed: time, id };
    let mut list = FileList::default();
    list.add_operand("a".as_ref(), None);
    let root = list.add_root(&entry(Kind::Directory, None)).unwrap();
    let id = Some(Inode::just_made(DeviceNumber { major: 0, minor: 0 }).id);
    for (name, kind, id) in
        [("a", Kind::Regular, id), ("b", Kind::Regular, id), ("c", Kind::Regular, None), ("d", Kind::Fifo, None)]
    {
        list.add(root, name.as_ref(), &entry(kind, id)).unwrap();
    }
    let list = Arc::new(list);
    let of = |shard: Option<Shard>, plan: &Plan| {
        let shards = shard.map(|shard| (shard, crate::list::split(&list, shard.count())));
        Selection::new(Arc::clone(&list), shards).totals(plan)
    };
    let linked = Plan { preserve: Preserve { links: true, ..Preserve::default() }, ..Plan::default() };
    assert_eq!((of(None, &Plan::default()), of(None, &linked)), ((5, 30), (5, 20)));
    assert_eq!(of(None, &Plan { link: LinkMode::Hard, ..Plan::default() }), (5, 0));
    let [one, two] = [1, 2].map(|number| of(Shard::new(number, 2), &linked));
    // Both make the directory.
    assert!(one.0 > 1 && two.0 > 1 && (one.0 + two.0, one.1 + two.1) == (6, 20), "{one:?} {two:?}");
}

#[test]
fn a_shard_is_not_copied_into_its_source() {
    let mut bench = bench();
    bench.plan.shard = Shard::new(1, 2);
    bench.plan.destination = Destination::Directory(bench.source_path("dir/sub").into());
    refused(&bench, r#"cannot copy a directory, "source/dir", into itself, "source/dir/sub""#);
    // Also what is not there yet.
    bench.plan.destination = Destination::Exactly(bench.source_path("dir/new").into());
    refused(&bench, r#"cannot copy a directory, "source/dir", into itself, "source/dir/new""#);
}

#[test]
fn shards_have_no_two_sources_of_one_name() {
    let mut bench = bench();
    bench.plan.shard = Shard::new(1, 2);
    let [dir, file] = ["dir", "file"].map(|name| bench.source_path(name).into());
    bench.plan.sources = vec![dir, file, bench.path().join("elsewhere/dir/").into()];
    refused(&bench, "file lists and shards do not go with two sources of one name, whose order would decide");
    bench.plan.sources[2] = bench.path().join("elsewhere/.").into();
    let why = "a source of no name of its own beside others, whose order would decide";
    refused(&bench, &format!("file lists and shards do not go with {why}"));
}

#[test]
fn a_filter_leaves_the_rest_of_a_list_as_it_is() {
    let entry = |kind, size| {
        let time = Time { seconds: 1, nanoseconds: 0 };
        Entry { kind, size, modified: time, changed: time, id: None }
    };
    let (file, dir) = (entry(Kind::Regular, 1), entry(Kind::Directory, 0));
    let of = |without: bool| {
        let mut list = FileList::default();
        list.add_operand("a".as_ref(), None);
        let root = list.add_root(&dir).unwrap();
        let mut add = |parent: Index, name: &str, entry: &Entry| list.add(parent, name.as_ref(), entry).unwrap();
        if !without {
            add(root, "x.o", &file);
            let out = add(root, "out", &dir);
            add(out, "kept.c", &file);
        }
        let inner = add(root, "inner", &dir);
        if !without {
            add(inner, "large", &entry(Kind::Regular, 9));
        }
        add(inner, "y.c", &file);
        list.add_operand("gone".as_ref(), None);
        list.add_operand("b.o".as_ref(), None);
        list.add_root(&file).unwrap();
        list.add_operand("gone too".as_ref(), None);
        list
    };
    let rules = ["*.o", "/out/"].map(Rule::exclude).into();
    let filter = Filter::new(Choice { rules, max_size: Some(8), ..Choice::default() }).unwrap();
    let mut filtered = Stats::default();
    let left = chosen(&of(false), &Plan { filter, ..Plan::default() }, &mut filtered);
    assert!(left == of(true), "{left:?}");
    assert_eq!((filtered.excluded, filtered.rule_hits), (3, vec![1, 1]));
}
