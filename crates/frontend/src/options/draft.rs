//! What the effects of haul's options change: a plan while the options are read.

use std::ffi::OsString;

use haul_copy::plan::{Dereference, IfChanged, Overwrite, Plan, Wish};

use crate::environment::{Environment, Security};
use crate::flags::{self, Information, Mode};
use crate::persona::Persona;
use crate::run_options::RunOptions;
use crate::show::{Show, When};

/// An option of haul.
pub type Flag = flags::Flag<Draft>;

/// What is known so far. What depends on several options, whatever their order, waits in fields of its own.
pub struct Draft {
    /// What the options say of the copy.
    pub plan: Plan,
    /// What the user wants to see.
    pub show: Show,
    /// What else the command does.
    pub run: RunOptions,
    /// What options depend on besides each other.
    pub environment: Environment,
    /// Messages that stop nothing.
    pub warnings: Vec<Vec<u8>>,
    /// Is printed instead of anything being done.
    pub information: Option<Information>,
    /// Modes that were asked for.
    pub modes: Vec<Mode>,
    /// Modes in which an option has no meaning that was given.
    pub against: Vec<Mode>,
    /// `--backup`, or an option that implies it.
    pub backups: bool,
    /// Which kind of backup `--backup` names.
    pub backup_control: Option<OsString>,
    /// `--suffix`, or what the environment says.
    pub backup_suffix: Option<OsString>,
    /// The last word on symbolic links.
    pub dereference: Option<Dereference>,
    /// `--link`.
    pub hard_links: bool,
    /// `--symbolic-link`.
    pub symbolic_links: bool,
    /// `-i`, `-n` and `--update`.
    pub existing: Existing,
    /// The security context.
    pub context: Keep,
    /// Extended attributes.
    pub xattr: Keep,
    /// `-t`.
    pub target_directory: Option<OsString>,
    /// `-T`.
    pub no_target_directory: bool,
    security: Option<Security>,
}

impl Draft {
    /// Before any option was read.
    pub fn new(persona: Persona, environment: &Environment) -> Draft {
        let progress = if persona == Persona::Cp { When::Never } else { When::Auto };
        Draft {
            plan: Plan {
                write_through_dangling_link: environment.posixly_correct,
                if_changed: if persona == Persona::Cp { IfChanged::Ignore } else { IfChanged::Warn },
                ..Plan::default()
            },
            show: Show { verbose: false, debug: false, explain: false, progress, stats: None },
            run: RunOptions::default(),
            environment: environment.clone(),
            warnings: Vec::new(),
            information: None,
            modes: Vec::new(),
            against: Vec::new(),
            backups: false,
            backup_control: None,
            backup_suffix: environment.backup_suffix.clone(),
            dereference: None,
            hard_links: false,
            symbolic_links: false,
            existing: Existing::default(),
            context: Keep::default(),
            xattr: Keep::default(),
            target_directory: None,
            no_target_directory: false,
            security: None,
        }
    }

    /// The security module of this machine.
    pub(crate) fn security(&mut self) -> Security {
        *self.security.get_or_insert_with(self.environment.security)
    }

    /// Whether that is SELinux.
    pub(crate) fn has_selinux(&mut self) -> bool {
        self.security() == Security::Selinux
    }
}

/// Whether an attribute is kept.
#[derive(Debug, Clone, Copy, Default)]
pub struct Keep {
    /// It is, if it can be.
    pub asked: bool,
    /// It was asked for by name, so that it is an error if it cannot be.
    pub required: bool,
}

impl Keep {
    /// It was named by `--preserve`, or by `--no-preserve`.
    pub fn named(keep: bool) -> Keep {
        Keep { asked: keep, required: keep }
    }

    /// What the plan says of it.
    pub(crate) fn wish(self) -> Wish {
        match (self.asked, self.required) {
            (false, _) => Wish::No,
            (true, false) => Wish::Try,
            (true, true) => Wish::Require,
        }
    }
}

/// What happens to existing files. `-i` and `-n` override each other, `--update` overrides itself, and neither touches the
/// other: so a file that `--update=none` protects stays protected whatever stands around it.
#[derive(Debug, Default)]
pub struct Existing {
    /// The last one of `-i` and `-n`.
    pub clobber: Option<Clobber>,
    /// The last `--update`.
    pub update: Update,
}

/// `-i` or `-n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clobber {
    /// `-i`.
    Ask,
    /// `-n`.
    Never,
}

/// Which existing files `--update` lets be replaced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Update {
    /// All.
    #[default]
    All,
    /// None.
    None,
    /// None, and each is an error.
    NoneFail,
    /// Those that are older than their source.
    Older,
}

impl Existing {
    /// What is done to an existing file, and whether only to one that is older than its source.
    pub fn settled(&self) -> (Overwrite, bool) {
        let update = if self.clobber == Some(Clobber::Never) { Update::None } else { self.update };
        match (update, self.clobber) {
            (Update::None, _) => (Overwrite::Skip, false),
            (Update::NoneFail, _) => (Overwrite::Refuse, false),
            (_, Some(Clobber::Ask)) => (Overwrite::Ask, update == Update::Older),
            _ => (Overwrite::Replace, update == Update::Older),
        }
    }
}
