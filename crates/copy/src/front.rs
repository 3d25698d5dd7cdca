//! The front door: a copy in a few lines, by what most programs want of it.
//!
//! [`Copy`] describes it, [`Copy::build`] checks that the wishes go together, [`Prepared::run`] does it. Whatever else a
//! [`Plan`] can say is set by [`Copy::with`].

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use haul_io::control::Cancel;
use haul_io::pace::Pace;
use parking_lot::Mutex;

use crate::error::Error;
use crate::events::{Confirm, Event, Observer, Question};
use crate::meta::XattrRules;
use crate::plan::{
    Backup, Dereference, Destination, Durable, LinkMode, ModeRule, Overwrite, Plan, Preserve, Reflink, SmartCopy,
    Verify, Wish,
};
use crate::publish::Partials;
use crate::run::{Session, Summary, run};

/// So many errors of a run are kept in [`Failed`]; the observer hears of all.
const ERRORS_KEPT: usize = 100;

/// A copy that is being described.
///
/// ```
/// use haul_copy::{Context, Copy};
///
/// # let dir = haul_testbed::temp_dir();
/// # let (from, to) = (dir.path().join("from"), dir.path().join("to"));
/// # std::fs::write(&from, "text")?;
/// let copy = Copy::new(&from, &to).build()?;
/// let summary = copy.run(&Context::default())?;
/// assert_eq!(summary.stats.regular, 1);
/// # assert_eq!(std::fs::read(to)?, b"text");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Copy {
    plan: Plan,
}

impl Copy {
    /// A copy of one source, which gets exactly this name: a file is not copied into a directory that stands there, and a
    /// directory is merged into one. Symbolic links are copied as such.
    pub fn new(source: impl AsRef<Path>, dest: impl AsRef<Path>) -> Copy {
        Copy::of(vec![source.as_ref().into()], Destination::Exactly(dest.as_ref().into()))
    }

    /// Copies of several sources, each under its own name in a directory that exists.
    pub fn into_directory<S: AsRef<Path>>(sources: impl IntoIterator<Item = S>, directory: impl AsRef<Path>) -> Copy {
        let sources = sources.into_iter().map(|source| OsString::from(source.as_ref())).collect();
        Copy::of(sources, Destination::Directory(directory.as_ref().into()))
    }

    fn of(sources: Vec<OsString>, destination: Destination) -> Copy {
        Copy { plan: Plan { sources, destination, dereference: Dereference::Never, ..Plan::default() } }
    }

    /// Directories are copied with everything below them. Without this they are an error.
    pub fn recursive(self, recursive: bool) -> Copy {
        self.with(|plan| plan.recursive = recursive)
    }

    /// Everything that a copy can keep, of whole trees: as `haul -a`. Extended attributes and SELinux contexts are kept where
    /// the destination has them.
    pub fn archive(self) -> Copy {
        self.recursive(true).preserve(Preserve {
            mode: ModeRule::Keep,
            ownership: true,
            timestamps: true,
            links: true,
            context: Wish::Try,
            xattr: Wish::Try,
            quiet: true,
            ..Preserve::default()
        })
    }

    /// Which attributes are kept; by default the mode, less the umask.
    pub fn preserve(self, preserve: Preserve) -> Copy {
        self.with(|plan| plan.preserve = preserve)
    }

    /// Which symbolic links of the source are followed; by default none.
    pub fn follow(self, dereference: Dereference) -> Copy {
        self.with(|plan| plan.dereference = dereference)
    }

    /// What happens to files that exist at the destination; by default they are replaced.
    pub fn overwrite(self, overwrite: Overwrite) -> Copy {
        self.with(|plan| plan.overwrite = overwrite)
    }

    /// When extents are shared instead of copied; by default wherever the filesystem can.
    pub fn reflink(self, reflink: Reflink) -> Copy {
        self.with(|plan| plan.data.reflink = reflink)
    }

    /// When the copy is on its device; by default whenever the kernel writes it.
    pub fn durable(self, durable: Durable) -> Copy {
        self.with(|plan| plan.durable = durable)
    }

    /// Whether each file is read again and compared with its source; by default not.
    pub fn verify(self, verify: Verify) -> Copy {
        self.with(|plan| plan.verify = verify)
    }

    /// Every name at the destination stands for the old file or for the whole new one, at any moment.
    pub fn atomic(self, atomic: bool) -> Copy {
        self.with(|plan| plan.atomic = atomic)
    }

    /// Finished files are noted in a journal at the destination. The same copy, run again, goes on there.
    pub fn resume(self, resume: bool) -> Copy {
        self.with(|plan| plan.resume = resume)
    }

    /// So many files at the same time; by default as many as make the copy faster.
    pub fn jobs(self, jobs: usize) -> Copy {
        self.with(|plan| plan.jobs = Some(jobs))
    }

    /// Sets whatever else a plan has.
    pub fn with(mut self, set: impl FnOnce(&mut Plan)) -> Copy {
        set(&mut self.plan);
        self
    }

    /// Checks that all of it goes together. Nothing is looked at.
    ///
    /// # Errors
    /// The first [`Conflict`].
    pub fn build(self) -> Result<Prepared, Conflict> {
        let plan = &self.plan;
        let resume = plan.resume;
        let conflicts = [
            (plan.sources.is_empty(), Conflict::NoSource),
            (plan.jobs == Some(0), Conflict::NoJobs),
            (plan.ambiguous_destination().is_some(), Conflict::AmbiguousDestination),
            (resume && plan.backup != Backup::None, Conflict::ResumeWithBackup),
            (resume && plan.link != LinkMode::Copy, Conflict::ResumeWithLinks),
            (resume && plan.overwrite == Overwrite::Refuse, Conflict::ResumeWithRefusal),
            (plan.reads_again() && plan.smart != SmartCopy::Off, Conflict::VerifyWithSmart),
        ];
        match conflicts.into_iter().find(|(found, _)| *found) {
            Some((_, conflict)) => Err(conflict),
            None => Ok(Prepared { plan: self.plan }),
        }
    }
}

/// Two wishes that do not go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Conflict {
    /// There is nothing to copy.
    NoSource,
    /// No file may be copied at a time.
    NoJobs,
    /// A copy that may be run again must say what its destination is: [`Plan::ambiguous_destination`].
    AmbiguousDestination,
    /// The backup of the first run would be lost.
    ResumeWithBackup,
    /// Links copy nothing that could be gone on with.
    ResumeWithLinks,
    /// What the first run made is there, and would be refused.
    ResumeWithRefusal,
    /// What is left out of a disk image cannot be compared.
    VerifyWithSmart,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Conflict::NoSource => "there is no source",
            Conflict::NoJobs => "not even one file may be copied at a time",
            Conflict::AmbiguousDestination => "the destination could be the copy, or the directory that it goes into",
            Conflict::ResumeWithBackup => "a copy that is resumed would lose the backups of its first run",
            Conflict::ResumeWithLinks => "links to the source cannot be resumed",
            Conflict::ResumeWithRefusal => "a copy that is resumed meets what its first run made",
            Conflict::VerifyWithSmart => "a disk image without its free space is not equal to its source",
        })
    }
}

impl std::error::Error for Conflict {}

/// A copy whose wishes go together. It can be run any number of times.
#[derive(Debug, Clone)]
pub struct Prepared {
    plan: Plan,
}

impl Prepared {
    /// What will be done.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Copies. What goes wrong with one file is reported, and the others are still copied.
    ///
    /// # Errors
    /// If something was not copied as wished, or the run was cancelled.
    pub fn run(&self, context: &Context<'_>) -> Result<Summary, Failed> {
        let errors = Errors { next: context.observer, kept: Mutex::default() };
        let session = Session {
            observer: &errors,
            confirm: context.confirm,
            cancel: context.cancel.clone(),
            pace: context.pace.clone(),
            partials: Partials::default(),
            xattr_rules: XattrRules::default(),
            skip_files: Vec::new(),
        };
        let summary = run(&self.plan, &session);
        match summary.failed || summary.cancelled {
            true => Err(Failed { summary: Box::new(summary), errors: errors.kept.into_inner() }),
            false => Ok(summary),
        }
    }
}

/// Who follows a copy, stops it, and slows it down; by default nobody.
///
/// ```
/// use haul_copy::events::{Event, Observer};
/// use haul_copy::Context;
///
/// struct Log;
///
/// impl Observer for Log {
///     fn event(&self, event: &Event<'_>) {
///         if let Event::Copying { dest, .. } = event {
///             println!("{}", dest.display());
///         }
///     }
/// }
///
/// let context = Context { observer: &Log, ..Context::default() };
/// # drop(context);
/// ```
pub struct Context<'a> {
    /// Hears everything, from the threads that do the work.
    pub observer: &'a dyn Observer,
    /// Is asked before a file is overwritten, with [`Overwrite::Ask`]. By default it is not.
    pub confirm: &'a dyn Confirm,
    /// Stops the copy.
    pub cancel: Cancel,
    /// How fast it may go.
    pub pace: Pace,
}

/// Hears nothing and agrees to nothing.
struct Nobody;

impl Observer for Nobody {
    fn event(&self, _: &Event<'_>) {}

    fn in_order(&self) -> bool {
        false
    }
}

impl Confirm for Nobody {
    fn overwrite(&self, _: &Question<'_>) -> bool {
        false
    }
}

impl Default for Context<'_> {
    fn default() -> Self {
        Context { observer: &Nobody, confirm: &Nobody, cancel: Cancel::default(), pace: Pace::default() }
    }
}

impl Context<'_> {
    /// Stops a copy from another thread, also one that waits for its turn.
    pub fn cancel(&self) {
        self.cancel.cancel();
        self.pace.wake();
    }
}

/// A copy that is not all that was wished.
#[derive(Debug)]
pub struct Failed {
    /// What was done all the same.
    pub summary: Box<Summary>,
    /// The first errors, at most 100.
    pub errors: Vec<Error>,
}

impl Failed {
    /// Overwritten files that are neither the old nor the new ones.
    #[must_use]
    pub fn damaged(&self) -> &[PathBuf] {
        &self.summary.damaged
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errors.as_slice() {
            [] if self.summary.cancelled => f.write_str("the copy was cancelled"),
            [] => f.write_str("not everything was copied as wished"),
            [error] => write!(f, "{error}"),
            [error, ..] => write!(f, "{error} (the first of {} errors)", self.summary.stats.errors),
        }
    }
}

impl std::error::Error for Failed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.errors.first().map(|error| error as _)
    }
}

/// Keeps errors, and passes everything on.
struct Errors<'a> {
    next: &'a dyn Observer,
    kept: Mutex<Vec<Error>>,
}

impl Observer for Errors<'_> {
    fn event(&self, event: &Event<'_>) {
        if let Event::Problem(error) = event {
            let mut kept = self.kept.lock();
            if kept.len() < ERRORS_KEPT {
                kept.push(Error::clone(error));
            }
        }
        self.next.event(event);
    }

    fn in_order(&self) -> bool {
        self.next.in_order()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use haul_testbed::temp_dir;

    use super::*;

    #[test]
    fn wishes_that_do_not_go_together_are_refused() {
        let copy = || Copy::new("a", "b");
        let refused = |copy: Copy| copy.build().map(|_| ()).unwrap_err();
        assert_eq!(refused(Copy::into_directory([""; 0], "b")), Conflict::NoSource);
        assert_eq!(refused(copy().jobs(0)), Conflict::NoJobs);
        let resumed = || copy().resume(true);
        assert_eq!(refused(resumed().with(|plan| plan.backup = Backup::Simple)), Conflict::ResumeWithBackup);
        assert_eq!(refused(resumed().with(|plan| plan.link = LinkMode::Hard)), Conflict::ResumeWithLinks);
        assert_eq!(refused(resumed().overwrite(Overwrite::Refuse)), Conflict::ResumeWithRefusal);
        let guess = |plan: &mut Plan| plan.destination = Destination::Guess("b".into());
        assert_eq!(refused(resumed().with(guess)), Conflict::AmbiguousDestination);
        let smart = |plan: &mut Plan| plan.smart = SmartCopy::Auto;
        assert_eq!(refused(copy().verify(Verify::Read).with(smart)), Conflict::VerifyWithSmart);
        assert!(resumed().verify(Verify::Read).build().is_ok());
    }

    #[test]
    fn a_tree_is_copied_with_its_links_and_modes() {
        let dir = temp_dir();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("from/inner")).unwrap();
        fs::write(at("from/inner/file"), "text").unwrap();
        fs::set_permissions(at("from/inner/file"), PermissionsExt::from_mode(0o640)).unwrap();
        symlink("file", at("from/inner/link")).unwrap();
        let copy = Copy::new(at("from"), at("to")).archive().build().unwrap();
        let summary = copy.run(&Context::default()).unwrap();
        assert_eq!((summary.stats.regular, summary.stats.directories), (1, 2));
        assert_eq!(fs::read(at("to/inner/file")).unwrap(), b"text");
        assert_eq!(fs::metadata(at("to/inner/file")).unwrap().permissions().mode() & 0o7777, 0o640);
        assert_eq!(fs::read_link(at("to/inner/link")).unwrap(), Path::new("file"));
    }

    #[test]
    fn the_other_files_are_copied_and_the_error_says_which_one_was_not() {
        let dir = temp_dir();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("there"), "text").unwrap();
        fs::create_dir(at("into")).unwrap();
        let copy = Copy::into_directory([at("missing"), at("there")], at("into")).build().unwrap();
        let failed = copy.run(&Context::default()).unwrap_err();
        assert_eq!(fs::read(at("into/there")).unwrap(), b"text");
        let [error] = failed.errors.as_slice() else { panic!("{failed:?}") };
        assert_eq!(error.path, at("missing"));
        assert!(failed.to_string().contains("missing"), "{failed}");
        assert!(std::error::Error::source(&failed).is_some());
    }

    #[test]
    fn a_cancelled_copy_says_so() {
        let dir = temp_dir();
        fs::write(dir.path().join("from"), "text").unwrap();
        let context = Context::default();
        context.cancel();
        let copy = Copy::new(dir.path().join("from"), dir.path().join("to")).build().unwrap();
        let failed = copy.run(&context).unwrap_err();
        assert_eq!(failed.to_string(), "the copy was cancelled");
        assert!(!dir.path().join("to").exists());
    }

    #[test]
    fn nothing_is_overwritten_unless_somebody_agrees() {
        let dir = temp_dir();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("from"), "new").unwrap();
        fs::write(at("to"), "old").unwrap();
        let copy = Copy::new(at("from"), at("to")).overwrite(Overwrite::Ask).build().unwrap();
        assert!(copy.run(&Context::default()).is_err());
        assert_eq!(fs::read(at("to")).unwrap(), b"old");
    }
}
