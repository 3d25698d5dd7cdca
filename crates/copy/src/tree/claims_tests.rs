use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::context::test_support::Bench;
use crate::plan::{Dereference, Plan, Preserve};
use crate::tree::test_support::{at, break_links, entered, level_in, make_dir, plan, top_level};
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
