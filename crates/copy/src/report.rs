//! What a run says while it goes: who follows and stops it, and what one thread reports to them.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_io::control::{Cancel, Control, Progress};
use haul_io::engine::ByteSource;
use haul_io::moved::Moved;
use haul_io::pace::Pace;
use haul_sys::Errno;
use haul_sys::inode::{FileId, Inode};

use crate::error::{Error, ErrorKind, What};
use crate::events::{Confirm, Event, Observer};
use crate::meta;
use crate::publish::Partials;
use crate::stats::Stats;

/// What a run needs besides the plan.
#[derive(Clone)]
pub struct Session<'a> {
    /// Hears everything.
    pub observer: &'a dyn Observer,
    /// Is asked before a file is overwritten (`-i`).
    pub confirm: &'a dyn Confirm,
    /// Stops the run. Whoever cancels a run that may be waiting for its [`Pace`] wakes that, too.
    pub cancel: Cancel,
    /// How fast it may go.
    pub pace: Pace,
    /// Destinations that are being written, for a front end that must exit while the run is stuck in the kernel.
    pub partials: Partials,
    /// Which extended attributes are not copied: `/etc/xattr.conf`, or the built-in rules.
    pub xattr_rules: meta::XattrRules,
    /// Files in the sources that are not copied: those that the caller writes there itself.
    pub skip_files: Vec<FileId>,
    /// Other processes that read the same sources, if there are any.
    pub shared_reads: Option<&'a dyn SharedReads>,
}

/// Processes that copy the same sources, each to a destination of its own, and read each byte of them only once.
pub trait SharedReads: Sync {
    /// What they have of a file, which was opened and looked at a moment ago. `None` if this process is to read it alone.
    fn of(&self, source: &Path, inode: &Inode) -> Option<Arc<dyn ByteSource>>;
}

impl Session<'_> {
    /// What moves bytes obeys and reports to.
    pub(crate) fn control(&self) -> Control<'_> {
        Control { progress: self, cancel: &self.cancel, pace: &self.pace }
    }

    /// Tells an observer that follows the data of each file.
    pub(crate) fn tell_of_data<'e>(&self, event: impl FnOnce() -> Event<'e>) {
        if self.observer.follows_data() {
            self.observer.event(&event());
        }
    }
}

impl Progress for Session<'_> {
    fn moved(&self, more: Moved) {
        self.observer.event(&Event::Progress(more));
    }

    fn wants_all(&self) -> bool {
        self.observer.in_order()
    }
}

/// Something failed, which the observer has heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reported;

/// Reports to the observer, and counts.
pub(crate) struct Reporter<'a> {
    session: &'a Session<'a>,
    /// The first error ends the run.
    fail_fast: bool,
    /// Whether any thread has reported an error, but for one of what is deleted.
    copy_failed: &'a AtomicBool,
    /// The counters of this thread.
    pub stats: Stats,
    /// Errors of files that waited for their names, which are heard while others are copied.
    pub errors_of_waiting: u64,
    /// Attributes that could not be kept, with an error or without.
    losses: u64,
    /// Something that was asked for was not done.
    pub failed: bool,
    /// Overwritten files that are neither the old nor the new ones.
    pub damaged: Vec<PathBuf>,
}

/// Attributes that a copy must have, and has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Another attempt may keep them: there was no room, no memory, or no answer.
    ForNow,
    ForGood,
}

impl<'a> Reporter<'a> {
    pub(crate) fn new(session: &'a Session<'a>, fail_fast: bool, copy_failed: &'a AtomicBool) -> Reporter<'a> {
        let stats = Stats::default();
        Reporter {
            session,
            fail_fast,
            copy_failed,
            stats,
            errors_of_waiting: 0,
            losses: 0,
            failed: false,
            damaged: Vec::new(),
        }
    }

    /// Errors of what is being copied, not of what waited for its name; and attributes that were lost, of which not each is an
    /// error: a cause is named once.
    pub(crate) fn failures_of_copying(&self) -> u64 {
        self.stats.errors + self.losses - self.errors_of_waiting
    }

    /// Reports an error: the run will have failed. Always `false`, for use as a result.
    pub(crate) fn problem(&mut self, error: Error) -> bool {
        self.copy_failed.store(true, Ordering::Relaxed);
        self.problem_of_deletion(error)
    }

    /// The same about what `--delete` leaves there: whatever is to be copied is, or will be.
    pub(crate) fn problem_of_deletion(&mut self, error: Error) -> bool {
        self.failed = true;
        // What comes to an end because of it is no further error.
        if self.fail_fast {
            self.session.cancel.cancel();
        }
        self.stats.errors += 1;
        self.session.observer.event(&Event::Problem(Cow::Borrowed(&error)));
        false
    }

    /// The same, for use as an error.
    pub(crate) fn fail(&mut self, error: Error) -> Reported {
        self.problem(error);
        Reported
    }

    /// What a call has given; its error is reported as one about this path.
    pub(crate) fn check<T>(
        &mut self,
        result: Result<T, Errno>,
        what: What,
        path: impl AsRef<Path>,
    ) -> Result<T, Reported> {
        result.map_err(|errno| self.fail(Error::new(what, path).errno(errno)))
    }

    /// Reports something that is no failure.
    pub(crate) fn warning(&mut self, error: &Error) {
        self.stats.warnings += 1;
        self.session.observer.event(&Event::Warning(Cow::Borrowed(error)));
    }

    /// Reports anything else.
    pub(crate) fn tell(&self, event: &Event<'_>) {
        self.session.observer.event(event);
    }

    /// Reports attributes that `set` could not set for what is at this path. They fail the run only if it says that they had
    /// to be kept, as this does.
    pub(crate) fn attributes(&mut self, path: &Path, set: impl FnOnce(&mut dyn FnMut(Error)) -> bool) -> bool {
        self.attributes_or_loss(path, set).is_ok()
    }

    /// The same, and says what kind of loss it is.
    pub(crate) fn attributes_or_loss(
        &mut self,
        path: &Path,
        set: impl FnOnce(&mut dyn FnMut(Error)) -> bool,
    ) -> Result<(), Loss> {
        let mut problems = Vec::new();
        let kept = set(&mut |error| problems.push(error));
        let may_pass = problems.iter().any(|problem| {
            matches!(problem.kind(), ErrorKind::Space | ErrorKind::Device | ErrorKind::Resources | ErrorKind::Busy)
        });
        if !kept && problems.is_empty() {
            self.tell(&Event::LostAttributes(path.into()));
        }
        for error in problems {
            if kept {
                self.warning(&error);
            } else {
                self.problem(error);
            }
        }
        if !kept {
            self.failed = true;
            self.losses += 1;
            self.copy_failed.store(true, Ordering::Relaxed);
            return Err(if may_pass { Loss::ForNow } else { Loss::ForGood });
        }
        Ok(())
    }

    /// An overwritten file is neither the old nor the new one.
    pub(crate) fn damage(&mut self, path: &Path) {
        self.damaged.push(path.to_owned());
    }

    /// Adds what another thread, or another part of this run, has reported.
    pub(crate) fn add(&mut self, other: Reporter<'_>) {
        self.stats += &other.stats;
        self.failed |= other.failed;
        self.damaged.extend(other.damaged);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::context::test_support::Bench;
    use crate::events::Question;
    use crate::plan::Plan;

    #[test]
    fn what_moves_bytes_is_stopped_with_the_session() {
        let bench = Bench::new(Plan::default());
        let ran = bench.run(|worker| {
            let control = worker.cx.session.control();
            let before = control.cancel.is_cancelled();
            worker.cx.session.cancel.cancel();
            (before, control.cancel.is_cancelled())
        });
        assert_eq!(ran.value, (false, true));
    }

    /// Counts the bytes that it hears of.
    #[derive(Default)]
    struct Bytes(AtomicU64);

    impl Observer for Bytes {
        fn event(&self, event: &Event<'_>) {
            if let Event::Progress(more) = event {
                self.0.fetch_add(more.total(), Ordering::Relaxed);
            }
        }

        fn in_order(&self) -> bool {
            false
        }

        fn follows_data(&self) -> bool {
            false
        }
    }

    impl Confirm for Bytes {
        fn overwrite(&self, _: &Question<'_>) -> bool {
            true
        }
    }

    fn session(bytes: &Bytes) -> Session<'_> {
        Session {
            observer: bytes,
            confirm: bytes,
            cancel: Cancel::default(),
            pace: Pace::default(),
            partials: Partials::default(),
            xattr_rules: meta::XattrRules::default(),
            skip_files: Vec::new(),
            shared_reads: None,
        }
    }

    #[test]
    fn what_moves_bytes_reports_to_the_observer_of_the_session() {
        let bytes = Bytes::default();
        let session = session(&bytes);
        let progress = session.control().progress;
        progress.moved(Moved { written: 7, ..Moved::default() });
        assert_eq!((bytes.0.load(Ordering::Relaxed), progress.wants_all()), (7, false));
    }

    #[test]
    fn events_that_nobody_follows_are_not_made() {
        session(&Bytes::default()).tell_of_data(|| panic!("it was made"));
    }
}

#[cfg(test)]
mod reporter_tests {
    use super::*;
    use crate::context::test_support::Bench;
    use crate::error::What;
    use crate::plan::Plan;

    fn error() -> Error {
        Error::new(What::CannotOpen, "/a")
    }

    const ERROR: &str = r#"error: cannot open "/a" for reading"#;
    const WARNING: &str = r#"warning: cannot open "/a" for reading"#;

    /// Lets a reporter report. What was heard, which is counted, and whether the run has failed and is cancelled.
    fn reported(fail_fast: bool, work: impl FnOnce(&mut Reporter<'_>)) -> (Vec<String>, bool, bool) {
        let bench = Bench::new(Plan { fail_fast, ..Plan::default() });
        let ran = bench.run(|worker| work(&mut worker.report));
        (ran.heard, ran.failed, bench.cancel.is_cancelled())
    }

    #[test]
    fn an_error_is_heard_and_counted_and_fails_the_run() {
        let problem = |reporter: &mut Reporter<'_>| assert!(!reporter.problem(error()));
        assert_eq!(reported(false, problem), (vec![ERROR.into()], true, false));
    }

    #[test]
    fn the_first_error_cancels_a_run_that_is_to_fail_fast() {
        let fail = |reporter: &mut Reporter<'_>| assert_eq!(reporter.fail(error()), Reported);
        assert_eq!(reported(true, fail), (vec![ERROR.into()], true, true));
    }

    #[test]
    fn a_warning_is_heard_and_counted_and_no_failure() {
        assert_eq!(reported(true, |reporter| reporter.warning(&error())), (vec![WARNING.into()], false, false));
    }

    #[test]
    fn attributes_that_could_not_be_set_are_errors_only_where_they_had_to_be() {
        let report = |problems: usize, kept: bool| {
            reported(false, |reporter| {
                let said = reporter.attributes(Path::new("/a"), |problem| {
                    (0..problems).for_each(|_| problem(error()));
                    kept
                });
                assert_eq!(said, kept);
            })
        };
        assert_eq!(report(1, true), (vec![WARNING.into()], false, false));
        assert_eq!(report(2, false), (vec![ERROR.into(); 2], true, false));
        assert_eq!(report(0, false), (vec!["attributes of /a lost".into()], true, false), "a quiet loss is one, too");
    }
}
