use std::fs;
use std::os::unix::fs::symlink;
use std::thread;

use haul_cluster::ToDo;
use haul_cluster::test_support::{Wires, group};

use super::*;
use crate::context::test_support::Bench;
use crate::links::LinkTable;
use crate::peers::PeerGroup;
use crate::plan::{Dereference, Plan, Preserve};
use crate::tree::test_support::{among, at, break_links, entered, level_in, make_dir, plan, top_level};
use crate::work::entry::Level;

/// A source, `a`, with another name, `other`. Hard links stay hard links.
fn two_names() -> Bench {
    let bench = Bench::new(Plan { preserve: Preserve { links: true, ..plan().preserve }, ..plan() }).source("a", "new");
    fs::hard_link(bench.source_path("a"), bench.source_path("other")).unwrap();
    bench
}

/// What is known of earlier copies of this operand, in a word; with the path of the copy if there is one.
fn asked(bench: &Bench, source: &str, dest: &str) -> String {
    let (subject, root) = (bench.subject(source, dest), bench.root());
    let ran = bench.run(|worker| earlier_copy(worker, &at(&top_level(&root), subject)));
    assert_eq!(ran.failed, matches!(ran.value, Earlier::Unknown), "{:?}", ran.heard);
    word(&ran.value)
}

fn word(earlier: &Earlier) -> String {
    match earlier {
        Earlier::Nothing => "nothing".into(),
        Earlier::Claimed => "claimed".into(),
        Earlier::Made(made) => made.path().display().to_string(),
        Earlier::Unknown => "unknown".into(),
    }
}

/// What was claimed for this source is said to be this file.
fn complete(bench: &Bench, source: &str, dest: &str, made: Option<FileId>) {
    let subject = bench.subject(source, dest);
    bench.run(|worker| complete_claim(worker, &subject, made)).says(&[]);
}

fn made_for(bench: &Bench, source: &str) -> Option<Made> {
    bench.services.links.get((&bench.from(source).inode().unwrap()).into()).unwrap()
}

#[test]
fn the_second_name_finds_the_copy_of_the_first() {
    let bench = two_names().dest("b", "copy");
    assert_eq!(asked(&bench, "a", "b"), "claimed");
    complete(&bench, "a", "b", None);
    assert_eq!(asked(&bench, "other", "c"), "dest/b");
    assert_eq!(made_for(&bench, "a").unwrap().id, Some(bench.to("b").inode().unwrap().id));
}

#[test]
fn a_file_of_one_name_needs_no_claim() {
    let bench = two_names().source("single", "new");
    assert_eq!(asked(&bench, "single", "b"), "nothing");
    assert!(made_for(&bench, "single").is_none());
}

#[test]
fn links_that_nobody_keeps_need_no_claim() {
    let mut bench = two_names();
    bench.plan.preserve.links = false;
    assert_eq!(asked(&bench, "a", "b"), "nothing");
    bench.plan.preserve.links = true;
    bench.plan.link = LinkMode::Hard;
    assert_eq!(asked(&bench, "a", "b"), "nothing");
}

#[test]
fn where_links_are_followed_a_single_name_is_claimed() {
    let bench = two_names().source("single", "new");
    let (root, subject) = (bench.root(), bench.subject("single", "b"));
    let subject = Subject { dereference: Dereference::Always, ..subject };
    let ran = bench.run(|worker| earlier_copy(worker, &at(&top_level(&root), subject)));
    assert_eq!(word(&ran.value), "claimed");
}

#[test]
fn what_went_away_at_once_is_claimed_again() {
    let bench = two_names();
    assert_eq!(asked(&bench, "a", "b"), "claimed");
    complete(&bench, "a", "b", None);
    assert_eq!(asked(&bench, "other", "c"), "claimed");
}

#[test]
fn what_is_known_of_a_copy_is_not_looked_up() {
    let bench = two_names().dest("b", "under its last name").dest("temporary", "copy");
    let id = bench.to("temporary").inode().unwrap().id;
    assert_eq!(asked(&bench, "a", "b"), "claimed");
    complete(&bench, "a", "b", Some(id));
    assert_eq!(made_for(&bench, "a").unwrap().id, Some(id));
}

#[test]
fn what_was_written_through_a_link_is_remembered_as_that() {
    let bench = two_names().dest("far", "copy").link("b", "far");
    let (subject, state) = (bench.subject("a", "b"), bench.state("b"));
    let far = bench.to("far").inode().unwrap().id;
    assert_eq!(asked(&bench, "a", "b"), "claimed");
    bench.run(|worker| complete_claim_of(worker, &subject, &state, Some(far))).says(&[]);
    assert_eq!(made_for(&bench, "a").unwrap().id, Some(bench.to("b").inode().unwrap().id));
}

#[test]
fn a_followed_name_is_completed_by_what_it_leads_to() {
    let bench = two_names().dest("far", "copy");
    symlink("far", bench.dest_path("b")).unwrap();
    assert_eq!(asked(&bench, "a", "b"), "claimed");
    let subject = Subject { dereference: Dereference::Always, ..bench.subject("a", "b") };
    bench.run(|worker| complete_claim(worker, &subject, None)).says(&[]);
    assert_eq!(made_for(&bench, "a").unwrap().id, Some(bench.to("far").inode().unwrap().id));
}

/// What becomes of a source that the other process has made, and of which it knows this now.
fn made_elsewhere(bench: &Bench, links: &LinkTable) -> String {
    struct End<'a>(&'a Wires);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.end();
        }
    }
    let listen = |peers: &PeerGroup<'_>, links: &LinkTable| {
        while let Some((from, message)) = peers.transport.receive() {
            if let ToDo::Where { from, token, key } = peers.take(from, &message) {
                peers.say_where(links, from, token, &key);
            }
        }
    };
    let wires = Wires::new(2);
    let ends = [0, 1].map(|rank| wires.end_of(rank));
    let [own, other] = [group(&ends[0]), group(&ends[1])];
    let inode = bench.from("a").inode().unwrap();
    for peers in [&own, &other] {
        peers.set_room(Some(fs::File::open(bench.dest_path("")).unwrap().into()));
        peers.name_of(inode.id.device(), Some("/data".as_ref()));
    }
    let (subject, root) = (bench.subject("a", "b"), bench.root());
    thread::scope(|scope| {
        scope.spawn(|| listen(&own, &bench.services.links));
        scope.spawn(|| listen(&other, links));
        // Also if it panics: the listeners must not wait for ever.
        let _end = End(&wires);
        let key = other.key_of((&inode).into());
        assert_eq!(other.claim(key), LinkOwner::You);
        other.settle(key, true);
        let ran = among(bench, &own, |walker| earlier_copy(&mut walker.worker, &at(&top_level(&root), subject)));
        assert_eq!(ran.failed, matches!(ran.value, Earlier::Unknown), "{:?}", ran.heard);
        word(&ran.value)
    })
}

#[test]
fn where_another_process_has_a_file_that_takes_no_more_names_one_is_made_here() {
    let bench = two_names().dest("full", "copy");
    let links = LinkTable::default();
    let source = Source::from(&bench.from("a").inode().unwrap());
    let claim = |name| links.claim(source, || made_at(&bench.root(), bench.to(name))).unwrap();
    let full = bench.to("full").inode().unwrap().id;
    assert!(matches!(claim("full"), Claim::First));
    links.complete(source, full).unwrap();
    links.forget_if(source, Some(full)).unwrap();
    assert!(matches!(claim("next"), Claim::First));
    assert_eq!(made_elsewhere(&bench, &links), "claimed");
    bench.services.links.complete(source, full).unwrap();
    assert_eq!(asked(&bench, "other", "c"), "dest/b", "the next name is linked to what is made here");
}

#[test]
fn a_directory_named_twice_is_known_the_second_time() {
    let bench = Bench::new(plan());
    make_dir(bench.source_path("dir"), 0o755);
    assert_eq!(asked(&bench, "dir", "b"), "nothing");
    assert_eq!(asked(&bench, "dir", "c"), "dest/b");
}

#[test]
fn a_directory_met_on_the_way_is_not_remembered() {
    let bench = Bench::new(plan());
    make_dir(bench.source_path("dir"), 0o755);
    let ancestors = [entered(&bench)];
    for _ in 0..2 {
        let subject = bench.subject("dir", "b");
        let ran = bench.run(|worker| earlier_copy(worker, &at(&level_in(&ancestors), subject)));
        assert_eq!(word(&ran.value), "nothing");
    }
}

#[test]
fn a_directory_that_cannot_be_opened_claims_nothing() {
    let bench = two_names();
    let (subject, root) = (bench.subject("a", "b"), bench.root());
    let level = Level { dir: None, ..top_level(&root) };
    let ran = bench.run(|worker| earlier_copy(worker, &at(&level, subject)));
    assert_eq!(word(&ran.value), "nothing");
}

#[test]
fn a_table_that_fails_is_reported_for_each_source() {
    let mut bench = two_names();
    make_dir(bench.source_path("dir"), 0o755);
    break_links(&mut bench);
    for source in ["a", "other", "dir"] {
        assert_eq!(asked(&bench, source, "b"), "unknown", "{source}");
    }
}
