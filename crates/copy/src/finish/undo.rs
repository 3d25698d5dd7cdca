//! The one place that undoes: what becomes of a copy that failed, and of what stood at its name before.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};

use haul_io::verify::Mismatch;
use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};

use crate::context::RunContext;
use crate::error::{Error, What};
use crate::events::Event;
use crate::report::Reporter;
use crate::walk::{Spot, renamed};
use crate::work::entry::{DestState, Unfinished};
use crate::work::file_data::Broken;

/// Names for copies that are not like their sources are tried up to this number.
const MOST_MARKED: u32 = 1000;

/// Nothing happens to what stands there; a new file is removed.
pub(crate) fn refuse(
    cx: RunContext<'_>,
    report: &mut Reporter<'_>,
    place: Spot<'_>,
    (dest, inode): (&OwnedFd, &Inode),
    (created, unfinished): (bool, &Unfinished),
    error: Error,
) {
    if created {
        let inode = Inode::of(dest.as_fd()).unwrap_or(*inode);
        give_up(cx, report, place, &inode, (created, unfinished), Broken { error: Some(error) });
        cx.session.partials.done();
    } else {
        report.problem(error);
    }
}

/// A destination that cannot be looked at: a new one must not stay behind empty.
pub(crate) fn give_up_unseen(
    cx: RunContext<'_>,
    report: &mut Reporter<'_>,
    place: Spot<'_>,
    dest: &OwnedFd,
    (created, unfinished): (bool, &Unfinished),
    error: Error,
) {
    match Inode::of(dest.as_fd()) {
        Ok(inode) if created => {
            give_up(cx, report, place, &inode, (created, unfinished), Broken { error: Some(error) });
        }
        _ => {
            report.problem(error);
            if created {
                report.damage(place.path);
            }
        }
    }
}

/// The data could not be moved whole: a new file is removed, an overwritten one is named as damaged.
pub(crate) fn give_up(
    cx: RunContext<'_>,
    report: &mut Reporter<'_>,
    dest: Spot<'_>,
    inode: &Inode,
    (created, unfinished): (bool, &Unfinished),
    broken: Broken,
) {
    if let Some(error) = broken.error {
        report.problem(error);
    } else {
        report.failed = true;
    }
    if created && inode.kind == Kind::Regular {
        if !cx.plan.remove_partial || unfinished.left {
            return;
        }
        let removed = match dest.inode() {
            Ok(now) if now.is_same_file_as(inode) => dest.unlink(),
            // Made through a link, or moved: the name is not the file's.
            Ok(_) | Err(Errno::NOENT) => return report.damage(dest.path),
            Err(errno) => Err(errno),
        };
        if let Err(errno) = removed {
            report.problem(Error::new(What::CannotRemovePartial, dest.path).errno(errno));
        }
    } else if inode.kind == Kind::Regular {
        report.damage(dest.path);
    }
}

/// Removes a whole file that cannot get its name. Always `false`.
pub(crate) fn withdraw(report: &mut Reporter<'_>, spot: Spot<'_>, error: Error) -> bool {
    report.problem(error);
    if let Err(errno) = spot.unlink() {
        report.problem(Error::new(What::CannotRemovePartial, spot.path).errno(errno));
    }
    false
}

/// Gives a copy that is not like its source a name that says so. Always `false`.
pub(crate) fn set_aside(report: &mut Reporter<'_>, spot: Spot<'_>, last: &OsStr, mismatch: Mismatch) -> bool {
    let error = Error::new(What::Mismatch, spot.path).detail(mismatch.describe());
    match marked(spot, last) {
        Ok(name) => report.problem(error.and(renamed(spot.path, &name))),
        // It stays where it is, under the temporary name.
        Err(_) => report.problem(error.and(renamed(spot.path, spot.name))),
    }
}

/// Undoes a backup after a failure. What was removed cannot be put back, which is reported.
pub(crate) fn put_back(report: &mut Reporter<'_>, state: &DestState, dest: Spot<'_>) {
    if state.removed && dest.inode().is_err_and(|errno| errno == Errno::NOENT) {
        report.warning(&Error::new(What::Lost, dest.path));
    }
    let Some(name) = &state.backup else { return };
    let path = renamed(dest.path, name);
    let backup = dest.beside(name, &path);
    let put_back = backup.rename_to(dest.name);
    if state.backup_is_link && put_back.is_ok() {
        // A rename from one name of a file to another does nothing: the old file has never lost its own.
        backup.unlink().ok();
    }
    match put_back {
        Ok(()) => report.tell(&Event::UnBackedUp { backup: path.into(), dest: dest.path.into() }),
        Err(errno) => {
            report.problem(Error::new(What::CannotUnBackup, dest.path).errno(errno));
        }
    }
}

fn marked(spot: Spot<'_>, last: &OsStr) -> Result<OsString, Errno> {
    for number in 1..=MOST_MARKED {
        let mut name = last.to_owned();
        name.push(if number == 1 { ".haul-mismatch".to_owned() } else { format!(".haul-mismatch-{number}") });
        match crate::publish::replace::rename_to_free(spot, &name) {
            Ok(()) => return Ok(name),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::EXIST)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::context::test_support::{Bench, Ran};
    use crate::plan::Plan;

    /// What is reported of a copy that failed.
    const REASON: &str = r#"error: error writing "b""#;

    fn reason() -> Error {
        Error::new(What::Writing, "b")
    }

    /// Gives the copy `b` up, which is this file.
    fn give_up_b(bench: &Bench, inode: &Inode, (created, left): (bool, bool)) -> Ran<()> {
        bench.run(|cx, worker| {
            let unfinished = Unfinished { left, ..Unfinished::default() };
            let broken = Broken { error: Some(reason()) };
            give_up(cx, &mut worker.report, bench.to("b"), inode, (created, &unfinished), broken);
        })
    }

    fn half() -> (Bench, Inode) {
        let bench = Bench::new(Plan::default()).dest("b", "half");
        let inode = bench.to("b").inode().unwrap();
        (bench, inode)
    }

    #[test]
    fn a_new_file_that_is_not_whole_is_removed() {
        let (bench, inode) = half();
        let ran = give_up_b(&bench, &inode, (true, false));
        ran.says(&[REASON]);
        assert_eq!((bench.tree(), ran.damaged), (vec![], vec![]));
    }

    #[test]
    fn an_overwritten_file_stays_and_is_named_as_damaged() {
        let (bench, inode) = half();
        let ran = give_up_b(&bench, &inode, (false, false));
        ran.says(&[REASON]);
        assert_eq!((bench.tree(), ran.damaged), (vec!["b: half".into()], vec![PathBuf::from("b")]));
    }

    #[test]
    fn a_new_file_stays_where_that_is_wanted() {
        let (mut bench, inode) = half();
        let for_next_run = give_up_b(&bench, &inode, (true, true));
        bench.plan.remove_partial = false;
        let as_planned = give_up_b(&bench, &inode, (true, false));
        for ran in [for_next_run, as_planned] {
            ran.says(&[REASON]);
            assert!(ran.damaged.is_empty());
        }
        assert_eq!(bench.tree(), ["b: half"]);
    }

    #[test]
    fn a_file_that_was_moved_meanwhile_is_not_removed() {
        let (bench, inode) = half();
        fs::rename(bench.dest_path("b"), bench.dest_path("c")).unwrap();
        let gone = give_up_b(&bench, &inode, (true, false));
        fs::write(bench.dest_path("b"), "theirs").unwrap();
        let replaced = give_up_b(&bench, &inode, (true, false));
        for ran in [gone, replaced] {
            ran.says(&[REASON]);
            assert_eq!(ran.damaged, [PathBuf::from("b")]);
        }
        assert_eq!(bench.tree(), ["b: theirs", "c: half"]);
    }

    #[test]
    fn a_fifo_is_neither_removed_nor_damaged() {
        let bench = Bench::new(Plan::default());
        bench.make_fifo("b");
        let inode = bench.to("b").inode().unwrap();
        for created in [true, false] {
            let ran = give_up_b(&bench, &inode, (created, false));
            ran.says(&[REASON]);
            assert!(ran.damaged.is_empty());
        }
        assert_eq!(bench.tree().len(), 1);
    }

    #[test]
    fn a_cancelled_copy_fails_without_a_word() {
        let (bench, inode) = half();
        let ran = bench.run(|cx, worker| {
            let broken = Broken { error: None };
            give_up(cx, &mut worker.report, bench.to("b"), &inode, (true, &Unfinished::default()), broken);
        });
        assert!(ran.failed && ran.heard.is_empty());
        assert!(bench.tree().is_empty());
    }

    #[test]
    fn a_new_file_that_cannot_be_removed_is_reported() {
        let (bench, inode) = half();
        let ran = bench.run(|cx, worker| {
            let dest = Spot::unreachable(Errno::STALE, OsStr::new("b"), "b".as_ref());
            let broken = Broken { error: None };
            give_up(cx, &mut worker.report, dest, &inode, (true, &Unfinished::default()), broken);
        });
        ran.says(&[&format!(r#"error: cannot remove the incomplete "b": {}"#, Errno::STALE)]);
    }

    #[test]
    fn a_refused_copy_leaves_an_existing_file_as_it_is() {
        let (bench, inode) = half();
        let fd = bench.to("b").open_path().unwrap();
        let refuse = |created: bool| {
            bench.run(|cx, worker| {
                let unfinished = Unfinished::default();
                refuse(cx, &mut worker.report, bench.to("b"), (&fd, &inode), (created, &unfinished), reason());
            })
        };
        let ran = refuse(false);
        ran.says(&[REASON]);
        assert_eq!((bench.tree(), ran.damaged), (vec!["b: half".into()], vec![]));
        let ran = refuse(true);
        ran.says(&[REASON]);
        assert_eq!((bench.tree(), ran.damaged), (vec![], vec![]));
    }

    #[test]
    fn a_new_file_that_was_not_looked_at_is_removed() {
        let (bench, _) = half();
        let fd = bench.to("b").open_path().unwrap();
        for (created, left) in [(false, vec!["b: half".to_owned()]), (true, vec![])] {
            let ran = bench.run(|cx, worker| {
                let unfinished = Unfinished::default();
                give_up_unseen(cx, &mut worker.report, bench.to("b"), &fd, (created, &unfinished), reason());
            });
            ran.says(&[REASON]);
            assert_eq!((bench.tree(), ran.damaged), (left, vec![]));
        }
    }

    #[test]
    fn a_whole_file_that_cannot_get_its_name_is_removed() {
        let (bench, _) = half();
        bench.run(|_, worker| assert!(!withdraw(&mut worker.report, bench.to("b"), reason()))).says(&[REASON]);
        assert!(bench.tree().is_empty());
        let again = bench.run(|_, worker| withdraw(&mut worker.report, bench.to("b"), reason()));
        again.says(&[REASON, &format!(r#"error: cannot remove the incomplete "b": {}"#, Errno::NOENT)]);
    }

    #[test]
    fn a_mismatch_is_set_aside_under_a_free_name() {
        let bench =
            Bench::new(Plan::default()).dest("b", "old").dest("b.haul-mismatch", "of yesterday").dest("t", "new");
        let mismatch = Mismatch { offset: 7, source: 1, dest: 2 };
        let ran = bench.run(|_, worker| set_aside(&mut worker.report, bench.to("t"), OsStr::new("b"), mismatch));
        assert!(!ran.value);
        let where_it_differs = mismatch.describe();
        ran.says(&[&format!(
            r#"error: the copy "t" differs from its source {where_it_differs}; it is kept as "b.haul-mismatch-2""#
        )]);
        assert_eq!(bench.tree(), ["b.haul-mismatch-2: new", "b.haul-mismatch: of yesterday", "b: old"]);
    }

    #[test]
    fn a_mismatch_without_a_possible_name_stays_where_it_is() {
        let bench = Bench::new(Plan::default()).dest("t", "new");
        let mismatch = Mismatch { offset: 7, source: 1, dest: 2 };
        let last = "x".repeat(250);
        let ran = bench.run(|_, worker| set_aside(&mut worker.report, bench.to("t"), OsStr::new(&last), mismatch));
        assert!(ran.heard[0].ends_with(r#"it is kept as "t""#), "{:?}", ran.heard);
        assert_eq!(bench.tree(), ["t: new"]);
    }

    #[test]
    fn a_backup_is_put_back() {
        let bench = Bench::new(Plan::default()).dest("b~", "old");
        let state = DestState { backup: Some("b~".into()), ..DestState::default() };
        bench.run(|_, worker| put_back(&mut worker.report, &state, bench.to("b"))).says(&["b~ is b again"]);
        assert_eq!(bench.tree(), ["b: old"]);
    }

    #[test]
    fn a_backup_that_is_a_second_name_goes() {
        let bench = Bench::new(Plan::default()).dest("b", "old");
        fs::hard_link(bench.dest_path("b"), bench.dest_path("b~")).unwrap();
        let state = DestState { backup: Some("b~".into()), backup_is_link: true, ..DestState::default() };
        bench.run(|_, worker| put_back(&mut worker.report, &state, bench.to("b"))).says(&["b~ is b again"]);
        assert_eq!(bench.tree(), ["b: old"]);
    }

    #[test]
    fn a_backup_that_cannot_be_put_back_is_reported() {
        let bench = Bench::new(Plan::default());
        let state = DestState { backup: Some("b~".into()), ..DestState::default() };
        let ran = bench.run(|_, worker| put_back(&mut worker.report, &state, bench.to("b")));
        ran.says(&[&format!(r#"error: cannot un-backup "b": {}"#, Errno::NOENT)]);
    }

    #[test]
    fn a_loss_is_warned_of_where_nothing_came_instead() {
        let state = DestState { removed: true, ..DestState::default() };
        let bench = Bench::new(Plan::default());
        let ran = bench.run(|_, worker| put_back(&mut worker.report, &state, bench.to("b")));
        ran.says(&[r#"warning: the old "b" was removed and could not be replaced"#]);
        let bench = bench.dest("b", "half");
        bench.run(|_, worker| put_back(&mut worker.report, &state, bench.to("b"))).says(&[]);
    }
}
