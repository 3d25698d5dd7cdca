use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use haul_io::verify::Blocks;
use haul_sys::inode::Inode;

use super::*;
use crate::context::test_support::{Bench, Ran};
use crate::finish::moved;
use crate::plan::{Durable, Plan, Preserve};

/// A run in which names wait, and files of one filesystem are synced as a whole.
fn bench() -> Bench {
    let bench = Bench::new(Plan { durable: Durable::File, ..Plan::default() });
    bench.writes_to_filesystem(true);
    bench
}

/// A whole file under a temporary name, for this one.
fn ready(bench: &Bench, last: &str, contents: &str) -> Ready {
    let name = bench.services.names.another();
    let path = bench.dest_path(name.to_str().unwrap());
    fs::write(&path, contents).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    Ready {
        id: Inode::of(file.as_fd()).unwrap().id,
        file: file.into(),
        size: contents.len() as u64,
        checked: Checked::default(),
        parent: ParentDirectory::of(bench.to(last), None).unwrap(),
        name,
        last: last.into(),
        replaces: bench.to(last).inode().is_ok(),
        stands: None,
        source: None,
    }
}

/// Lets these files wait for their names, and gives them these.
fn name_all(bench: &Bench, all: impl IntoIterator<Item = Ready>) -> Ran<()> {
    bench.run(|worker| {
        all.into_iter().for_each(|ready| wait_for_device(worker, ready));
        give_names(worker);
    })
}

fn cannot_sync(name: &str, errno: Errno) -> String {
    format!(r#"error: failed to write "{name}" to its device: {errno}"#)
}

#[test]
fn a_queued_file_gets_its_name_after_its_sync() {
    let bench = bench().dest("b", "old");
    name_all(&bench, [ready(&bench, "b", "new")]).says(&[]);
    assert_eq!(bench.tree(), ["b: new"]);
    assert_eq!(bench.kernel.synced(), ["a file, with [(temporary): new, b: old]"]);
}

#[test]
fn many_files_get_their_names_after_one_sync() {
    let bench = bench();
    name_all(&bench, ["a", "b", "c"].map(|name| ready(&bench, name, "new"))).says(&[]);
    assert_eq!(bench.tree(), ["a: new", "b: new", "c: new"]);
    let all = ["(temporary): new"; 3].join(", ");
    assert_eq!(bench.kernel.synced(), [format!("a filesystem, with [{all}]")]);
}

#[test]
fn files_are_synced_one_by_one_where_filesystems_are_not() {
    let bench = bench();
    bench.writes_to_filesystem(false);
    name_all(&bench, ["a", "b", "c"].map(|name| ready(&bench, name, "new"))).says(&[]);
    assert_eq!(bench.kernel.synced().len(), 3);
    assert!(bench.kernel.synced().iter().all(|line| line.starts_with("a file, ")));
}

#[test]
fn a_file_whose_sync_fails_is_removed_and_reported_once() {
    let mut bench = bench().dest("b", "old");
    bench.kernel.sync = Some(Errno::IO);
    name_all(&bench, [ready(&bench, "b", "new")]).says(&[&cannot_sync("b", Errno::IO)]);
    assert_eq!(bench.tree(), ["b: old"]);
    assert_eq!(bench.kernel.synced().len(), 1, "a second sync would say that all is well");
}

#[test]
fn a_source_of_a_move_does_not_stay_for_what_others_have_waited_for() {
    let mut bench = bench().source("a", "");
    (bench.plan.moves, bench.kernel.sync) = (true, Some(Errno::IO));
    let (inode, root) = (bench.from("a").inode().unwrap(), bench.root());
    let mut waiting = Some(ready(&bench, "b", "new"));
    let stays = |worker: &mut Worker<'_>, waiting: Option<Ready>, fails: bool| {
        moved::let_stay_if_it_fails(worker, (inode, Some(&root)), |worker| {
            waiting.into_iter().for_each(|ready| wait_for_device(worker, ready));
            give_names(worker);
            if fails {
                worker.report.problem(Error::new(What::CannotOpen, "a"));
            }
        });
        worker.cx.services.stays.has((&inode).into())
    };
    let ran = bench.run(|worker| [stays(worker, waiting.take(), false), stays(worker, None, true)]);
    assert_eq!((ran.value, ran.stats.errors), ([Ok(false), Ok(true)], 2));
}

#[test]
fn no_file_gets_its_name_after_a_failed_sync() {
    let mut bench = bench();
    bench.kernel.sync_filesystem = Some(Errno::IO);
    let ran = name_all(&bench, ["a", "b", "c"].map(|name| ready(&bench, name, "new")));
    ran.says(&["a", "b", "c"].map(|name| cannot_sync(name, Errno::IO)).each_ref().map(String::as_str));
    assert!(bench.tree().is_empty());
    assert_eq!(bench.kernel.synced().len(), 1);
}

#[test]
fn files_are_asked_for_errors_after_a_sync() {
    let mut bench = bench();
    bench.kernel.write_back = Some(Errno::NOSPC);
    let ran = name_all(&bench, ["a", "b", "c"].map(|name| ready(&bench, name, "new")));
    ran.says(&["a", "b", "c"].map(|name| cannot_sync(name, Errno::NOSPC)).each_ref().map(String::as_str));
    assert!(bench.tree().is_empty());
}

#[test]
fn files_that_cannot_be_asked_for_errors_are_synced() {
    let mut bench = bench();
    bench.kernel.write_back = Some(Errno::NOSYS);
    name_all(&bench, ["a", "b", "c"].map(|name| ready(&bench, name, "new"))).says(&[]);
    assert_eq!(bench.tree(), ["a: new", "b: new", "c: new"]);
    assert_eq!(bench.kernel.synced().len(), 1 + 3);
}

#[test]
fn a_file_that_waits_goes_when_the_process_ends() {
    let bench = bench();
    bench.run(|worker| wait_for_device(worker, ready(&bench, "b", "new"))).says(&[]);
    assert_eq!(bench.partials.removed(), []);
    assert!(bench.tree().is_empty());
}

#[test]
fn a_named_file_stays_when_the_process_ends() {
    let bench = bench();
    name_all(&bench, [ready(&bench, "b", "new")]).says(&[]);
    assert_eq!(bench.partials.removed(), []);
    assert_eq!(bench.tree(), ["b: new"]);
}

#[test]
fn a_file_that_has_its_name_is_closed() {
    let bench = bench();
    name_all(&bench, [ready(&bench, "b", "new")]).says(&[]);
    let is_b = |entry: fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|path| path == bench.dest_path("b"));
    assert!(!fs::read_dir("/proc/self/fd").unwrap().flatten().any(is_b));
}

#[test]
fn a_full_queue_is_emptied_at_once() {
    let bench = bench();
    let large = Ready { size: 1 << 30, ..ready(&bench, "b", "new") };
    bench.run(|worker| wait_for_device(worker, large)).says(&[]);
    assert_eq!(bench.tree(), ["b: new"]);
}

#[test]
fn who_comes_to_a_waiting_name_finds_it() {
    let bench = bench();
    let ran = bench.run(|worker| {
        wait_for_device(worker, ready(&bench, "b", "new"));
        give_names_if_one_is(worker, bench.to("c"));
        let before = bench.tree();
        give_names_if_one_is(worker, bench.to("b"));
        before
    });
    assert_eq!(ran.value, ["(temporary): new"]);
    assert_eq!(bench.tree(), ["b: new"]);
}

#[test]
fn a_digest_is_reported_of_files_that_have_their_names() {
    let mut bench = bench();
    let checked = || Checked { digest: Some("abc".into()), ..Checked::default() };
    name_all(&bench, [Ready { checked: checked(), ..ready(&bench, "a", "new") }]).says(&["digest of a: abc"]);
    bench.kernel.sync = Some(Errno::IO);
    let failed = name_all(&bench, [Ready { checked: checked(), ..ready(&bench, "b", "new") }]);
    failed.says(&[&cannot_sync("b", Errno::IO)]);
}

/// A file is queued, and behind it a link to it, as `c`.
fn name_file_and_link(bench: &Bench) -> Ran<()> {
    let bench_of = bench.subject("a", "c");
    bench.run(|worker| {
        let ready = ready(bench, "b", "new");
        let made = Made { dir: bench.root(), name: "b".into(), id: Some(ready.id) };
        wait_for_device(worker, ready);
        link_later(worker, &made, &bench_of, false).unwrap();
        give_names(worker);
    })
}

#[test]
fn a_link_behind_its_file_becomes_its_other_name() {
    let bench = bench().source("a", "new");
    let ran = name_file_and_link(&bench);
    ran.says(&[]);
    assert_eq!((bench.tree(), ran.stats.hard_links), (vec!["b: new".into(), "c: new".into()], 1));
    assert_eq!(bench.to("b").inode().unwrap().id, bench.to("c").inode().unwrap().id);
}

#[test]
fn a_link_behind_a_removed_file_is_an_error() {
    let mut bench = bench().source("a", "new");
    bench.kernel.sync = Some(Errno::IO);
    let ran = name_file_and_link(&bench);
    let link = format!(r#"error: cannot create hard link "c" to "dest/b": {}"#, Errno::NOENT);
    ran.says(&[&cannot_sync("b", Errno::IO), &link]);
    assert!(bench.tree().is_empty());
}

#[test]
fn a_directory_gets_its_times_after_the_names_in_it() {
    let mut bench = bench();
    bench.plan.preserve = Preserve { timestamps: true, ..Preserve::default() };
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    File::open(bench.source_path("")).unwrap().set_modified(long_ago).unwrap();
    let ran = bench.run(|worker| {
        wait_for_device(worker, ready(&bench, "b", "new"));
        directory_is_full(worker, bench.full_directory());
        let before = bench.tree();
        give_names(worker);
        before
    });
    ran.says(&[]);
    assert_eq!((ran.value, bench.tree()), (vec!["(temporary): new".into()], vec!["b: new".into()]));
    assert_eq!(fs::metadata(bench.dest_path("")).unwrap().mtime(), 1000);
}

/// Publishes the file `t` as `b`.
fn publish_as_b(bench: &Bench, replaces: bool) -> Ran<bool> {
    bench.run(|worker| publish(&mut worker.report, bench.to("t"), OsStr::new("b"), (replaces, None)))
}

#[test]
fn a_published_file_takes_the_place_of_the_old_one() {
    let bench = Bench::new(Plan::default()).dest("t", "new").dest("b", "old");
    let ran = publish_as_b(&bench, true);
    ran.says(&[]);
    assert_eq!((ran.value, bench.tree()), (true, vec!["b: new".into()]));
}

/// What stands at `b` and may be replaced.
fn stands(bench: &Bench, has_backup: bool) -> Replaceable {
    Replaceable { inode: bench.to("b").inode().unwrap(), has_backup }
}

const REPLACED: &str = r#"error: skipping file "b", as it was replaced while being copied"#;

#[test]
fn what_came_after_the_backup_or_is_newer_is_not_replaced() {
    for waits in [false, true] {
        for has_backup in [false, true] {
            let bench = bench().dest("b", "old").dest("c", "theirs");
            let stands = stands(&bench, has_backup);
            let ready = ready(&bench, "b", "new");
            fs::rename(bench.dest_path("c"), bench.dest_path("b")).unwrap();
            match waits {
                true => name_all(&bench, [Ready { stands: Some(stands.into()), ..ready }]).says(&[REPLACED]),
                false => bench
                    .run(|worker| {
                        let path = ready.path();
                        let (spot, last) = (ready.spot(&path), OsStr::new("b"));
                        assert!(!publish(&mut worker.report, spot, last, (true, Some(&stands))));
                    })
                    .says(&[REPLACED]),
            }
            assert_eq!(bench.tree(), ["b: theirs"], "{waits} {has_backup}");
        }
    }
}

#[test]
fn what_was_seen_is_replaced_also_where_it_has_gone() {
    for is_gone in [false, true] {
        for has_backup in [false, true] {
            let bench = bench().dest("b", "old");
            let stands = Some(stands(&bench, has_backup).into());
            let ready = Ready { stands, ..ready(&bench, "b", "new") };
            if is_gone {
                fs::remove_file(bench.dest_path("b")).unwrap();
            }
            name_all(&bench, [ready]).says(&[]);
            assert_eq!(bench.tree(), ["b: new"], "{is_gone} {has_backup}");
        }
    }
}

#[test]
fn what_was_written_to_is_replaced_only_if_it_has_a_backup() {
    for has_backup in [false, true] {
        let bench = bench().dest("b", "old");
        let stands = Some(stands(&bench, has_backup).into());
        let ready = Ready { stands, ..ready(&bench, "b", "new") };
        fs::write(bench.dest_path("b"), "longer").unwrap();
        let ran = name_all(&bench, [ready]);
        assert_eq!(ran.heard.len(), usize::from(!has_backup), "{ran:?}");
        assert_eq!(bench.tree(), [if has_backup { "b: new" } else { "b: longer" }]);
    }
}

#[test]
fn a_file_that_came_to_exist_is_not_replaced() {
    let bench = Bench::new(Plan::default()).dest("t", "new").dest("b", "theirs");
    let ran = publish_as_b(&bench, false);
    ran.says(&[&format!(r#"error: cannot create regular file "t": {}"#, Errno::EXIST)]);
    assert_eq!((ran.value, bench.tree()), (false, vec!["b: theirs".into()]));
}

#[test]
fn a_dangling_link_is_not_replaced() {
    let bench = Bench::new(Plan::default()).dest("t", "new").link("b", "nowhere");
    let ran = publish_as_b(&bench, false);
    ran.says(&[r#"error: not writing through dangling symlink "t""#]);
    assert_eq!((ran.value, bench.tree()), (false, vec!["b -> nowhere".into()]));
}

#[test]
fn a_file_that_cannot_be_published_is_removed() {
    let bench = Bench::new(Plan::default()).dest("t", "new");
    fs::create_dir(bench.dest_path("b")).unwrap();
    let ran = publish_as_b(&bench, true);
    ran.says(&[&format!(r#"error: cannot put the new "t" in its place: {}"#, Errno::ISDIR)]);
    assert_eq!((ran.value, bench.tree()), (false, vec!["b/".into()]));
}

/// A file whose source had three bytes with this fingerprint.
fn to_be_compared(bench: &Bench) -> Ready {
    let blocks = Some(Blocks { size: 1 << 20, hashes: vec![1], total: 3 });
    Ready { checked: Checked { blocks, ..Checked::default() }, ..ready(bench, "b", "new") }
}

#[test]
fn a_file_that_differs_on_its_device_is_set_aside() {
    let bench = bench().dest("b", "old");
    let ran = name_all(&bench, [to_be_compared(&bench)]);
    if ran.heard.iter().any(|line| line.contains("cannot verify")) {
        return haul_testbed::skip("temporary files have no device here");
    }
    assert_eq!(ran.heard.len(), 1);
    assert!(ran.heard[0].starts_with(r#"error: the copy "b" differs from its source"#), "{:?}", ran.heard);
    assert_eq!(bench.tree(), ["b.haul-mismatch: new", "b: old"]);
}

#[test]
fn a_file_that_cannot_be_read_back_is_removed() {
    let mut bench = bench().dest("b", "old");
    bench.kernel.reopen_to_read = Some(Errno::IO);
    let ran = name_all(&bench, [to_be_compared(&bench)]);
    if ran.heard.iter().any(|line| line.contains("cannot verify")) {
        return haul_testbed::skip("temporary files have no device here");
    }
    ran.says(&[&format!(r#"error: error reading back "b" to verify it: {}"#, Errno::IO)]);
    assert_eq!(bench.tree(), ["b: old"]);
}

fn not_durable() -> String {
    format!(r#"error: cannot write everything on the filesystem of "dest" to its device: {}"#, Errno::IO)
}

#[test]
fn a_failed_sync_at_the_end_is_reported() {
    let mut bench = Bench::new(Plan { durable: Durable::Flush, ..Plan::default() });
    bench.writes_to_filesystem(true);
    bench.kernel.sync_filesystem = Some(Errno::IO);
    bench.run(sync_everything).says(&[&not_durable()]);
}

#[test]
fn a_failed_background_sync_is_reported_at_the_end() {
    let bench = Bench::new(Plan { durable: Durable::Flush, ..Plan::default() });
    let device = bench.writes_to_filesystem(true);
    bench.services.background_sync.begin(device, || Err(Errno::IO));
    bench.run(sync_everything).says(&[&not_durable()]);
    assert_eq!(bench.kernel.synced().len(), 1, "it has not heard of the error");
}

#[test]
fn the_directory_is_synced_where_filesystems_are_not() {
    let bench = Bench::new(Plan { durable: Durable::Flush, ..Plan::default() });
    bench.writes_to_filesystem(false);
    bench.run(sync_everything).says(&[]);
    assert_eq!(bench.kernel.synced(), ["a filesystem, with []", "a file, with []"]);
}

#[test]
fn a_cancelled_run_does_not_wait_for_devices() {
    let bench = Bench::new(Plan { durable: Durable::Flush, ..Plan::default() });
    bench.writes_to_filesystem(true);
    bench.cancel.cancel();
    bench.run(sync_everything).says(&[]);
    assert!(bench.kernel.synced().is_empty());
}
