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
use crate::filter::{BadPattern, Choice, Filter, Rule};
use crate::meta::XattrRules;
use crate::plan::{
    Backup, Delete, Dereference, Destination, Durable, LinkMode, ModeRule, Overwrite, Plan, Preserve, Reflink,
    SmartCopy, Verify, Wish,
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
    choice: Choice,
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
        let plan = Plan { sources, destination, dereference: Dereference::Never, ..Plan::default() };
        Copy { plan, choice: Choice::default() }
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

    /// Leaves out what a pattern of gitignore(5) matches below a source. Of all patterns, in the order of the calls, the first one
    /// that matches an entry decides; what none matches is copied.
    ///
    /// ```
    /// use haul_copy::{Context, Copy};
    ///
    /// # let dir = haul_testbed::temp_dir();
    /// # let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    /// # std::fs::create_dir(&from)?;
    /// # for name in ["a.o", "keep.o", "a.c"] { std::fs::write(from.join(name), name)?; }
    /// let copy = Copy::new(&from, &to).archive().include("/keep.o").exclude("*.o").build()?;
    /// let summary = copy.run(&Context::default())?;
    /// assert_eq!((summary.stats.regular, summary.stats.excluded), (2, 1));
    /// # assert!(to.join("keep.o").exists() && to.join("a.c").exists() && !to.join("a.o").exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn exclude(self, pattern: impl Into<OsString>) -> Copy {
        self.choose(|choice| choice.rules.push(Rule::exclude(pattern)))
    }

    /// Copies what a pattern matches, whatever a later [`Copy::exclude`] says.
    pub fn include(self, pattern: impl Into<OsString>) -> Copy {
        self.choose(|choice| choice.rules.push(Rule::include(pattern)))
    }

    /// Sets whatever else there is to choose: sizes, ages, caches, rules from a file.
    pub fn choose(mut self, set: impl FnOnce(&mut Choice)) -> Copy {
        set(&mut self.choice);
        self
    }

    /// Sources are moved, with everything that a copy can keep: renamed where the filesystem can; else copied, brought to the
    /// device, compared with their copies, and removed.
    ///
    /// ```
    /// use haul_copy::{Context, Copy};
    ///
    /// # let dir = haul_testbed::temp_dir();
    /// # let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    /// # std::fs::create_dir(&from)?;
    /// # std::fs::write(from.join("file"), "text")?;
    /// let summary = Copy::new(&from, &to).move_sources().build()?.run(&Context::default())?;
    /// assert_eq!(summary.stats.renamed, 1);
    /// # assert!(!from.exists());
    /// # assert_eq!(std::fs::read(to.join("file"))?, b"text");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn move_sources(self) -> Copy {
        self.archive().with(|plan| {
            plan.moves = true;
            // What would be lost without a word stays.
            (plan.preserve.xattr, plan.preserve.quiet) = (Wish::Require, false);
        })
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

    /// Removes from directories of the destination what their sources do not have.
    pub fn delete(self, delete: Delete) -> Copy {
        self.with(|plan| plan.delete = Some(delete))
    }

    /// Nothing is written; the observer hears what would be done, and of the errors that can be foreseen. What is counted is what
    /// would be made, with no bytes moved.
    ///
    /// ```
    /// use std::sync::Mutex;
    ///
    /// use haul_copy::events::{Action, Event, Observer};
    /// use haul_copy::{Context, Copy};
    ///
    /// #[derive(Default)]
    /// struct Actions(Mutex<Vec<Action>>);
    ///
    /// impl Observer for Actions {
    ///     fn event(&self, event: &Event<'_>) {
    ///         if let Event::Planned(planned) = event {
    ///             self.0.lock().unwrap().push(planned.action);
    ///         }
    ///     }
    /// }
    ///
    /// # let dir = haul_testbed::temp_dir();
    /// # let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    /// # std::fs::create_dir(&from)?;
    /// # std::fs::write(from.join("file"), "text")?;
    /// let actions = Actions::default();
    /// let copy = Copy::new(&from, &to).archive().dry_run(true).build()?;
    /// copy.run(&Context { observer: &actions, ..Context::default() })?;
    /// assert_eq!(*actions.0.lock().unwrap(), [Action::MakeDirectory, Action::Copy]);
    /// # assert!(!to.exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dry_run(self, dry_run: bool) -> Copy {
        self.with(|plan| plan.dry_run = dry_run)
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
    pub fn build(mut self) -> Result<Prepared, Conflict> {
        if self.choice != Choice::default() {
            self.plan.filter = Filter::new(self.choice).map_err(Conflict::Pattern)?;
        }
        let plan = &self.plan;
        let resume = plan.resume;
        let dry = plan.against_dry_run().filter(|_| plan.dry_run);
        let conflicts = [
            (plan.sources.is_empty(), Conflict::NoSource),
            (plan.jobs == Some(0), Conflict::NoJobs),
            (plan.ambiguous_destination().is_some(), Conflict::AmbiguousDestination),
            (resume && plan.backup != Backup::None, Conflict::ResumeWithBackup),
            (resume && plan.link != LinkMode::Copy, Conflict::ResumeWithLinks),
            (resume && plan.overwrite == Overwrite::Refuse, Conflict::ResumeWithRefusal),
            (plan.against_deletion().is_some(), Conflict::Deletion(plan.against_deletion().unwrap_or_default())),
            (plan.reads_again() && plan.smart != SmartCopy::Off, Conflict::VerifyWithSmart),
            (dry.is_some(), Conflict::DryRun(dry.unwrap_or_default())),
        ];
        let moving = plan.against_moving().filter(|_| plan.moves).map(Conflict::Move);
        match conflicts.into_iter().find(|(found, _)| *found).map(|(_, conflict)| conflict).or(moving) {
            Some(conflict) => Err(conflict),
            None => Ok(Prepared { plan: self.plan }),
        }
    }
}

/// Two wishes that do not go together, or one that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Conflict {
    /// A pattern says nothing.
    Pattern(BadPattern),
    /// There is nothing to copy.
    NoSource,
    /// No file may be copied at a time.
    NoJobs,
    /// A copy that may be run again must say what its destination is: [`Plan::ambiguous_if`].
    AmbiguousDestination,
    /// The backup of the first run would be lost.
    ResumeWithBackup,
    /// Links copy nothing that could be gone on with.
    ResumeWithLinks,
    /// What the first run made is there, and would be refused.
    ResumeWithRefusal,
    /// What the source does not have cannot be removed beside this: [`Plan::against_deletion`].
    Deletion(&'static str),
    /// What is left out of a disk image cannot be compared.
    VerifyWithSmart,
    /// Sources cannot be moved with this option of the command: [`Plan::against_moving`].
    Move(&'static str),
    /// A dry run cannot foresee this: [`Plan::against_dry_run`].
    DryRun(&'static str),
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Conflict::Pattern(bad) => return bad.fmt(f),
            Conflict::Deletion(what) => {
                return write!(f, "what the source does not have cannot be removed with {what}");
            }
            Conflict::Move(what) => return write!(f, "moving does not go with {what}"),
            Conflict::NoSource => "there is no source",
            Conflict::NoJobs => "not even one file may be copied at a time",
            Conflict::AmbiguousDestination => "the destination could be the copy, or the directory that it goes into",
            Conflict::ResumeWithBackup => "a copy that is resumed would lose the backups of its first run",
            Conflict::ResumeWithLinks => "links to the source cannot be resumed",
            Conflict::ResumeWithRefusal => "a copy that is resumed meets what its first run made",
            Conflict::DryRun(what) => return write!(f, "a dry run does not go with {what}"),
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
            shared_reads: None,
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

    fn follows_data(&self) -> bool {
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

    fn follows_data(&self) -> bool {
        self.next.follows_data()
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
        let Conflict::Pattern(bad) = refused(copy().exclude("a").include("[")) else { panic!("it is no pattern") };
        assert_eq!(bad.pattern, "[");
        let guess = |plan: &mut Plan| plan.destination = Destination::Guess("b".into());
        assert_eq!(refused(resumed().with(guess)), Conflict::AmbiguousDestination);
        let deleting = || copy().delete(Delete::default());
        assert!(matches!(refused(deleting()), Conflict::Deletion(why) if why.contains("-r")));
        let deleting = || deleting().archive();
        assert_eq!(refused(deleting().with(guess)), Conflict::AmbiguousDestination);
        assert!(matches!(refused(deleting().overwrite(Overwrite::Ask)), Conflict::Deletion("-i")));
        assert!(deleting().build().is_ok());
        let smart = |plan: &mut Plan| plan.smart = SmartCopy::Auto;
        assert_eq!(refused(copy().verify(Verify::Read).with(smart)), Conflict::VerifyWithSmart);
        assert!(resumed().verify(Verify::Read).build().is_ok());
        let moved = || copy().move_sources();
        assert!(matches!(refused(moved().follow(Dereference::Always)), Conflict::Move(_)));
        assert!(matches!(refused(moved().resume(true)), Conflict::Move(_)));
        assert!(moved().durable(Durable::File).build().is_ok());
        let shard = |plan: &mut Plan| plan.shard = crate::list::Shard::new(1, 2);
        assert!(
            matches!(refused(copy().with(shard).dry_run(true)), Conflict::DryRun(what) if what.starts_with("--shard"))
        );
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
