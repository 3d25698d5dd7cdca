use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::context::test_support::{Bench, Ran, SETTLED, settled_dir, tree};
use crate::file::regular::make_file;
use crate::journal::Record;
use crate::plan::{Checksum, Durable, Plan};

fn atomic() -> Plan {
    Plan { atomic: true, ..Plan::default() }
}

fn is_needed_for_b(bench: &Bench, identity: Identity) -> bool {
    let (subject, state) = (bench.subject("a", "b"), DestState { identity, ..bench.state("b") });
    bench.run(|worker| is_needed(worker.cx, &subject, &state)).value
}

#[test]
fn the_plan_decides_about_temporary_names() {
    let plain = Plan::default;
    for (plan, needed) in [
        (plain(), false),
        (atomic(), true),
        (Plan { durable: Durable::Flush, ..plain() }, false),
        (Plan { durable: Durable::File, ..plain() }, true),
        (Plan { verify: Verify::Read, ..plain() }, true),
        (Plan { resume: true, ..plain() }, true),
        (Plan { link: LinkMode::Hard, ..atomic() }, false),
    ] {
        let shown = format!("{plan:?}");
        let bench = Bench::new(plan).source("a", "new");
        assert_eq!(is_needed_for_b(&bench, Identity::Two), needed, "{shown}");
        assert_eq!(is_needed_for_b(&bench.dest("b", "old"), Identity::Two), needed, "{shown}");
    }
}

#[test]
fn what_is_no_regular_file_is_written_into() {
    let bench = Bench::new(atomic()).source("a", "new");
    bench.make_fifo("b");
    assert!(!is_needed_for_b(&bench, Identity::Two));
}

#[test]
fn attributes_alone_are_set_in_place() {
    let bench = Bench::new(Plan { attributes_only: true, ..atomic() }).source("a", "new");
    assert!(is_needed_for_b(&bench, Identity::Two));
    assert!(!is_needed_for_b(&bench.dest("b", "old"), Identity::Two));
}

#[test]
fn what_may_be_the_source_is_replaced_and_not_overwritten() {
    let mut bench = Bench::new(Plan::default()).source("a", "the same").dest("b", "the same");
    assert!(is_needed_for_b(&bench, Identity::Doubtful));
    assert!(!is_needed_for_b(&bench, Identity::DoubtfulAndFixed), "no other file can take its place");
    bench.plan.checksum = Some(Checksum::Blake3);
    assert!(is_needed_for_b(&bench, Identity::DoubtfulAndFixed), "there must be bytes to hash");
}

/// Copies `a` to `b`, and gives it its name.
fn make_b(bench: &Bench) -> Ran<()> {
    let mut subject = bench.subject("a", "b");
    make(bench, &mut subject)
}

fn make(bench: &Bench, subject: &mut Subject<'_>) -> Ran<()> {
    let state = bench.state("b");
    bench.run(|worker| {
        // The reports and the directory tell how it went.
        make_file(worker, subject, &state).ok();
        naming::give_names(worker);
    })
}

/// A name that leads to `sub/real` by two links.
fn with_links(plan: Plan) -> Bench {
    let bench = Bench::new(plan).source("a", "new").link("b", "sub/link");
    fs::create_dir(bench.dest_path("sub")).unwrap();
    bench.link("sub/link", "real")
}

#[test]
fn a_file_behind_links_is_replaced_in_its_own_directory() {
    let mut bench = with_links(atomic()).dest("sub/real", "old");
    bench.before_data = Some(Box::new(|path| {
        assert_eq!(tree(&path.join("dest/sub")), ["(temporary): ", "link -> real", "real: old"]);
    }));
    let ran = make_b(&bench);
    ran.says(&[]);
    assert_eq!((ran.moves, bench.tree()), (1, vec!["b -> sub/link".into(), "sub/".into()]));
    assert_eq!(tree(&bench.dest_path("sub")), ["link -> real", "real: new"]);
}

#[test]
fn a_file_behind_dangling_links_is_made_if_asked() {
    let plan = Plan { write_through_dangling_link: true, ..atomic() };
    let bench = with_links(plan);
    make_b(&bench).says(&[]);
    assert_eq!(tree(&bench.dest_path("sub")), ["link -> real", "real: new"]);
    assert_eq!(bench.tree(), ["b -> sub/link", "sub/"]);
}

#[test]
fn a_dangling_link_is_not_replaced() {
    let bench = with_links(atomic());
    make_b(&bench).says(&[r#"error: not writing through dangling symlink "b""#]);
    assert_eq!(bench.tree(), ["b -> sub/link", "sub/"]);
    assert_eq!(tree(&bench.dest_path("sub")), ["link -> real"]);
}

#[test]
fn a_loop_of_links_has_no_end() {
    let plan = Plan { write_through_dangling_link: true, ..atomic() };
    let bench = Bench::new(plan).source("a", "new").link("b", "c").link("c", "b");
    make_b(&bench).says(&[&format!(r#"error: cannot create regular file "b": {}"#, Errno::LOOP)]);
    assert_eq!(bench.tree(), ["b -> c", "c -> b"]);
}

#[test]
fn a_name_that_ends_in_a_slash_is_no_file() {
    let bench = Bench::new(atomic()).source("a", "new");
    let (mut subject, state) = (bench.subject("a", "b/"), bench.state("b/"));
    let ran = bench.run(|worker| make_file(worker, &mut subject, &state).is_err());
    ran.says(&[&format!(r#"error: cannot create regular file "b/": {}"#, Errno::NOTDIR)]);
    assert!(ran.value && bench.tree().is_empty());
}

#[test]
fn an_old_file_that_was_replaced_stays_as_it_is() {
    let bench = Bench::new(atomic()).source("a", "new").dest("b", "old").dest("c", "theirs");
    let (mut subject, state) = (bench.subject("a", "b"), bench.state("b"));
    fs::rename(bench.dest_path("c"), bench.dest_path("b")).unwrap();
    let ran = bench.run(|worker| make_file(worker, &mut subject, &state).is_err());
    ran.says(&[r#"error: skipping file "b", as it was replaced while being copied"#]);
    assert_eq!(bench.tree(), ["b: theirs"]);
}

fn settled(dir: &File) -> Spot<'_> {
    Spot::new(dir.as_fd(), SETTLED.as_ref(), Path::new("a"))
}

fn settled_contents() -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(SETTLED)).unwrap()
}

/// An earlier run has copied the first bytes of this source, to be `b`. They are not those of the source, so that one
/// sees whether they are used. Returns the path of what it has left.
fn interrupted(bench: &mut Bench, source: Fingerprint) -> std::path::PathBuf {
    bench.open_journal();
    let progress = bench.services.progress.get().unwrap();
    let number = progress.names.number();
    let name = progress.names.with_number(number);
    let path = bench.dest_path(name.to_str().unwrap());
    fs::write(&path, "left").unwrap();
    let home = Fingerprint::of_name(&Inode::of(bench.to("b").dir().unwrap()).unwrap(), OsStr::new("b"));
    let record = Record::Partial {
        source: Fingerprint::of_beginning(source, home),
        file: Fingerprint::of_file(&bench.to(name.to_str().unwrap()).inode().unwrap()),
        number,
        prefix: 4,
    };
    progress.journal.append(&[record]).unwrap();
    path
}

fn resume() -> Plan {
    Plan { resume: true, durable: Durable::File, ..Plan::default() }
}

/// Copies the settled file to `b` in the next run; how many bytes of the copy were there, and whether they are in it.
fn make_b_in_next_run(bench: &mut Bench) -> (u64, bool) {
    bench.open_journal();
    let dir = settled_dir();
    let ran = make(bench, &mut bench.subject_of(settled(&dir), "b"));
    ran.says(&[]);
    let (made, expected) = (fs::read(bench.dest_path("b")).unwrap(), settled_contents());
    assert_eq!((made.len(), &made[4..]), (expected.len(), &expected[4..]));
    (ran.stats.resumed_bytes, made.starts_with(b"left"))
}

#[test]
fn the_next_run_goes_on_with_a_beginning() {
    let (mut bench, dir) = (Bench::new(resume()), settled_dir());
    interrupted(&mut bench, Fingerprint::of_source(&settled(&dir).inode().unwrap()));
    assert_eq!(make_b_in_next_run(&mut bench), (4, true));
    assert_eq!(bench.tree().len(), 1);
}

#[test]
fn a_beginning_loses_its_special_rights() {
    let (mut bench, dir) = (Bench::new(resume()), settled_dir());
    let left = interrupted(&mut bench, Fingerprint::of_source(&settled(&dir).inode().unwrap()));
    fs::set_permissions(left, Permissions::from_mode(0o4555)).unwrap();
    assert_eq!(make_b_in_next_run(&mut bench), (4, true));
    assert_eq!(bench.to("b").inode().unwrap().permissions, 0o555);
}

#[test]
fn a_beginning_of_another_source_is_not_used() {
    let mut bench = Bench::new(resume()).source("other", "another");
    let other = Fingerprint::of_source(&bench.from("other").inode().unwrap());
    interrupted(&mut bench, other);
    assert_eq!(make_b_in_next_run(&mut bench), (0, false));
}

#[test]
fn a_beginning_that_lost_its_end_is_not_used() {
    let (mut bench, dir) = (Bench::new(resume()), settled_dir());
    let left = interrupted(&mut bench, Fingerprint::of_source(&settled(&dir).inode().unwrap()));
    File::options().write(true).open(left).unwrap().set_len(3).unwrap();
    assert_eq!(make_b_in_next_run(&mut bench), (0, false));
}

#[test]
fn a_beginning_that_is_another_file_is_not_used() {
    let (mut bench, dir) = (Bench::new(resume()), settled_dir());
    let left = interrupted(&mut bench, Fingerprint::of_source(&settled(&dir).inode().unwrap()));
    // The old one stays, so that the new one gets another number.
    fs::rename(&left, bench.dest_path("old")).unwrap();
    fs::write(left, "left").unwrap();
    assert_eq!(make_b_in_next_run(&mut bench), (0, false));
}

#[test]
fn a_beginning_with_a_second_name_is_not_used() {
    let (mut bench, dir) = (Bench::new(resume()), settled_dir());
    let left = interrupted(&mut bench, Fingerprint::of_source(&settled(&dir).inode().unwrap()));
    fs::hard_link(left, bench.dest_path("somebody's")).unwrap();
    assert_eq!(make_b_in_next_run(&mut bench), (0, false));
    assert!(bench.tree().contains(&"somebody's: left".to_owned()));
}
