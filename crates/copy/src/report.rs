//! What a run says while it goes: who follows and stops it, and what one thread reports to them.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use haul_io::control::{Cancel, Control, Progress};
use haul_io::moved::Moved;
use haul_io::pace::Pace;
use haul_sys::Errno;
use haul_sys::inode::FileId;

use crate::error::{Error, What};
use crate::events::{Confirm, Event, Observer};
use crate::meta;
use crate::publish::Partials;
use crate::stats::Stats;

/// What a run needs besides the plan.
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
}

impl Session<'_> {
    /// What moves bytes obeys and reports to.
    pub(crate) fn control(&self) -> Control<'_> {
        Control { progress: self, cancel: &self.cancel, pace: &self.pace }
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
    /// The counters of this thread.
    pub stats: Stats,
    /// Something that was asked for was not done.
    pub failed: bool,
    /// Overwritten files that are neither the old nor the new ones.
    pub damaged: Vec<PathBuf>,
}

impl<'a> Reporter<'a> {
    /// Nothing is counted yet.
    pub(crate) fn new(session: &'a Session<'a>, fail_fast: bool) -> Reporter<'a> {
        Reporter { session, fail_fast, stats: Stats::default(), failed: false, damaged: Vec::new() }
    }

    /// Reports an error: the run will have failed. Always `false`, for use as a result.
    pub(crate) fn problem(&mut self, error: Error) -> bool {
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

    /// Reports attributes that `set` could not set. They fail the run only if it says that they had to be kept, as this does.
    pub(crate) fn attributes(&mut self, set: impl FnOnce(&mut dyn FnMut(Error)) -> bool) -> bool {
        let mut problems = Vec::new();
        let kept = set(&mut |error| problems.push(error));
        for error in problems {
            if kept {
                self.warning(&error);
            } else {
                self.problem(error);
            }
        }
        self.failed |= !kept;
        kept
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

/// What was counted and heard.
#[cfg(test)]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub errors: u64,
    pub warnings: u64,
    pub failed: bool,
    pub cancelled: bool,
    pub heard: Vec<String>,
}

/// Lets a reporter report, and gives what came of it.
#[cfg(test)]
pub(crate) fn report_of(fail_fast: bool, work: impl FnOnce(&mut Reporter<'_>)) -> Counted {
    use std::sync::Mutex;

    use haul_io::control::Cancel;
    use haul_io::pace::Pace;

    use crate::events::{Confirm, Observer, Question};
    use crate::meta::XattrRules;
    use crate::publish::Partials;

    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>);

    impl Observer for Heard {
        fn event(&self, event: &Event<'_>) {
            let text = match event {
                Event::Problem(error) => format!("error: {error}"),
                Event::Warning(error) => format!("warning: {error}"),
                _ => "event".into(),
            };
            self.0.lock().unwrap().push(text);
        }
    }

    struct Nobody;

    impl Confirm for Nobody {
        fn overwrite(&self, _: &Question<'_>) -> bool {
            panic!("nothing is asked")
        }
    }

    let heard = Heard::default();
    let session = Session {
        observer: &heard,
        confirm: &Nobody,
        cancel: Cancel::default(),
        pace: Pace::default(),
        partials: Partials::default(),
        xattr_rules: XattrRules::default(),
        skip_files: Vec::new(),
    };
    let mut reporter = Reporter::new(&session, fail_fast);
    work(&mut reporter);
    let Reporter { stats, failed, .. } = reporter;
    let (errors, warnings, cancelled) = (stats.errors, stats.warnings, session.cancel.is_cancelled());
    Counted { errors, warnings, failed, cancelled, heard: heard.0.into_inner().unwrap() }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::context::test_support::Bench;
    use crate::events::Question;
    use crate::plan::Plan;

    #[test]
    fn what_moves_bytes_is_stopped_with_the_session() {
        let bench = Bench::new(Plan::default());
        let ran = bench.run(|cx, _| {
            let control = cx.session.control();
            let before = control.cancel.is_cancelled();
            cx.session.cancel.cancel();
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
    }

    impl Confirm for Bytes {
        fn overwrite(&self, _: &Question<'_>) -> bool {
            true
        }
    }

    #[test]
    fn what_moves_bytes_reports_to_the_observer_of_the_session() {
        let bytes = Bytes::default();
        let session = Session {
            observer: &bytes,
            confirm: &bytes,
            cancel: Cancel::default(),
            pace: Pace::default(),
            partials: Partials::default(),
            xattr_rules: meta::XattrRules::default(),
            skip_files: Vec::new(),
        };
        let progress = session.control().progress;
        progress.moved(Moved { written: 7, ..Moved::default() });
        assert_eq!((bytes.0.load(Ordering::Relaxed), progress.wants_all()), (7, false));
    }
}

#[cfg(test)]
mod reporter_tests {
    use super::*;
    use crate::error::What;

    fn error() -> Error {
        Error::new(What::CannotOpen, "/a")
    }

    const SAID: &str = r#"cannot open "/a" for reading"#;

    fn counted(errors: u64, warnings: u64, failed: bool, cancelled: bool) -> Counted {
        let heard = (0..errors).map(|_| format!("error: {SAID}"));
        let heard = heard.chain((0..warnings).map(|_| format!("warning: {SAID}"))).collect();
        Counted { errors, warnings, failed, cancelled, heard }
    }

    #[test]
    fn an_error_is_heard_and_counted_and_fails_the_run() {
        let problem = |reporter: &mut Reporter<'_>| assert!(!reporter.problem(error()));
        assert_eq!(report_of(false, problem), counted(1, 0, true, false));
    }

    #[test]
    fn the_first_error_cancels_a_run_that_is_to_fail_fast() {
        let fail = |reporter: &mut Reporter<'_>| assert_eq!(reporter.fail(error()), Reported);
        assert_eq!(report_of(true, fail), counted(1, 0, true, true));
    }

    #[test]
    fn a_warning_is_heard_and_counted_and_no_failure() {
        assert_eq!(report_of(true, |reporter| reporter.warning(&error())), counted(0, 1, false, false));
    }

    #[test]
    fn attributes_that_could_not_be_set_are_errors_only_where_they_had_to_be() {
        let report = |problems: usize, kept: bool| {
            report_of(false, |reporter| {
                let said = reporter.attributes(|problem| {
                    (0..problems).for_each(|_| problem(error()));
                    kept
                });
                assert_eq!(said, kept);
            })
        };
        assert_eq!(report(1, true), counted(0, 1, false, false));
        assert_eq!(report(2, false), counted(2, 0, true, false));
        assert!(report(0, false).failed, "a quiet loss is one, too");
    }
}
