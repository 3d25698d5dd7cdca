use std::fs;

use haul_sys::rustix::fs::FileType;

use super::*;
use crate::context::test_support::{Bench, Ran};
use crate::plan::{Durable, Plan, Preserve};
use crate::tree::test_support::{at, break_links, plan, top_level};

/// A source, `a`, with another name, `other`, and what was made for it, `first`.
fn linked(plan: Plan) -> Bench {
    let preserve = Preserve { links: true, ..plan.preserve };
    let bench = Bench::new(Plan { preserve, ..plan }).source("a", "new").dest("first", "copy");
    fs::hard_link(bench.source_path("a"), bench.source_path("other")).unwrap();
    let source = Source::from(&bench.from("a").inode().unwrap());
    let links = &bench.services.links;
    assert!(matches!(links.claim(source, || made_at(&bench.root(), bench.to("first"))), Ok(Claim::First)));
    links.complete(source, bench.to("first").inode().unwrap().id).unwrap();
    bench
}

fn made(bench: &Bench) -> Made {
    bench.services.links.get(Source::from(&bench.from("a").inode().unwrap())).unwrap().unwrap()
}

/// Makes `dest` another name of what was made for the source.
fn link(bench: &Bench, made: Made, dest: &str, replaces: bool) -> Ran<Instead> {
    let (subject, root) = (bench.subject("other", dest), bench.root());
    bench.run(|worker| link_to_earlier(worker, made, &at(&top_level(&root), subject), replaces))
}

fn are_one_file(bench: &Bench, names: [&str; 2]) -> bool {
    let [one, other] = names.map(|name| bench.to(name).inode().unwrap().id);
    one == other
}

#[test]
fn the_second_name_is_a_link_to_the_first_copy() {
    let bench = linked(plan());
    let ran = link(&bench, made(&bench), "b", false);
    assert!(matches!(ran.value, Instead::Done));
    ran.says(&[]);
    assert!(are_one_file(&bench, ["first", "b"]));
    assert_eq!((bench.tree(), ran.stats.hard_links), (vec!["b: copy".into(), "first: copy".into()], 1));
}

#[test]
fn a_link_takes_the_place_of_what_stands_there() {
    let bench = linked(plan()).dest("b", "old");
    let ran = link(&bench, made(&bench), "b", true);
    assert!(matches!(ran.value, Instead::Done));
    ran.says(&["removed b"]);
    assert_eq!(bench.tree(), ["b: copy", "first: copy"]);
}

#[test]
fn a_link_takes_no_place_where_nothing_was_when_it_was_looked() {
    for durable in [Durable::None, Durable::File] {
        let bench = linked(Plan { durable, ..plan() }).dest("b", "of somebody else");
        let (subject, root, made) = (bench.subject("other", "b"), bench.root(), made(&bench));
        let ran = bench.run(|worker| {
            link_to_earlier(worker, made, &at(&top_level(&root), subject), false);
            naming::give_names(worker);
        });
        ran.says(&[&format!(r#"error: cannot create hard link "b" to "dest/first": {}"#, Errno::EXIST)]);
        assert_eq!(bench.tree(), ["b: of somebody else", "first: copy"]);
    }
}

#[test]
fn a_link_that_is_there_already_is_no_error() {
    let bench = linked(plan());
    fs::hard_link(bench.dest_path("first"), bench.dest_path("b")).unwrap();
    let ran = link(&bench, made(&bench), "b", false);
    assert!(matches!(ran.value, Instead::Done));
    ran.says(&[]);
    assert_eq!(bench.tree(), ["b: copy", "first: copy"]);
}

#[test]
fn a_copy_that_was_replaced_meanwhile_gets_no_names() {
    let bench = linked(plan());
    // The old one stays, so that its number is not given to another.
    fs::rename(bench.dest_path("first"), bench.dest_path("moved")).unwrap();
    fs::write(bench.dest_path("first"), "of somebody else").unwrap();
    let ran = link(&bench, made(&bench), "b", false);
    assert!(matches!(ran.value, Instead::Failed));
    ran.says(&[&format!(r#"error: cannot create hard link "b" to "dest/first": {}"#, Errno::STALE)]);
    assert_eq!(bench.tree(), ["first: of somebody else", "moved: copy"]);
}

#[test]
fn a_name_waits_where_names_wait() {
    let bench = linked(Plan { durable: Durable::File, ..plan() });
    let (subject, root, made) = (bench.subject("other", "b"), bench.root(), made(&bench));
    let ran = bench.run(|worker| {
        let linked = link_to_earlier(worker, made, &at(&top_level(&root), subject), false);
        let before = bench.tree();
        naming::give_names(worker);
        (matches!(linked, Instead::Done), before)
    });
    assert_eq!(ran.value, (true, vec!["first: copy".to_owned()]));
    ran.says(&[]);
    assert_eq!(bench.tree(), ["b: copy", "first: copy"]);
}

#[test]
fn a_source_of_very_many_names_is_linked_at_once() {
    let bench = linked(Plan { durable: Durable::File, ..plan() });
    let (mut subject, root) = (bench.subject("other", "b"), bench.root());
    subject.inode.links = MANY;
    let ran = bench.run(|worker| link_to_earlier(worker, made(&bench), &at(&top_level(&root), subject), false));
    assert!(matches!(ran.value, Instead::Done));
    assert_eq!(bench.tree(), ["b: copy", "first: copy"]);
}

/// What comes after a copy that takes no more names.
fn after_full(bench: &Bench, full: Made) -> Ran<Result<Made, Instead>> {
    let (subject, root) = (bench.subject("other", "b"), bench.root());
    bench.run(|worker| name_of_another(worker, full, &at(&top_level(&root), subject)))
}

#[test]
fn a_name_too_many_begins_another_file_and_warns() {
    let bench = linked(plan());
    let ran = after_full(&bench, made(&bench));
    assert!(matches!(ran.value, Err(Instead::Copy { claimed: true })));
    let warning =
        r#"warning: warning: no more hard links to "dest/first" are possible; "b" is another copy of the same file"#;
    ran.says(&[warning]);
    let source = Source::from(&bench.from("a").inode().unwrap());
    let id = bench.to("first").inode().unwrap().id;
    bench.services.links.complete(source, id).unwrap();
    assert_eq!(made(&bench).name, "b", "the next names go to it");
}

#[test]
fn a_name_too_many_joins_the_file_another_thread_began() {
    let bench = linked(plan()).dest("full", "copy");
    let full = Made { name: "full".into(), id: Some(bench.to("full").inode().unwrap().id), ..made(&bench) };
    let ran = after_full(&bench, full);
    assert_eq!(ran.value.as_ref().ok().map(Made::path), Some("dest/first".into()));
    ran.says(&[]);
}

#[test]
fn a_table_that_fails_begins_no_other_file() {
    let mut bench = linked(plan());
    let full = made(&bench);
    break_links(&mut bench);
    let ran = after_full(&bench, full);
    assert!(matches!(ran.value, Err(Instead::Failed)) && ran.failed);
}

#[test]
fn a_fifo_of_two_names_stays_one() {
    let preserve = Preserve { links: true, ..plan().preserve };
    let bench = Bench::new(Plan { preserve, ..plan() });
    bench.from("a").make_node(FileType::Fifo, 0o600, haul_sys::inode::DeviceNumber { major: 0, minor: 0 }).unwrap();
    fs::hard_link(bench.source_path("a"), bench.source_path("other")).unwrap();
    bench.make_fifo("first");
    let made = Made { id: Some(bench.to("first").inode().unwrap().id), ..made_at(&bench.root(), bench.to("first")) };
    assert!(matches!(link(&bench, made, "b", false).value, Instead::Done));
    assert!(are_one_file(&bench, ["first", "b"]));
}
