//! What the effects of haul's options change: a plan while the options are read.

use std::ffi::OsString;
use std::path::PathBuf;

use haul_copy::filter::Choice;
use haul_copy::plan::{DataOptions, Dereference, IfChanged, ModeRule, Overwrite, Plan, Wish, Writeback};

use crate::environment::{Environment, Security};
use crate::flags::{self, Mode};
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
    /// What the options say of the entries below the sources.
    pub choice: Choice,
    /// `--files-from`.
    pub files_from: Option<PathBuf>,
    /// `--from0`.
    pub from0: bool,
    /// `-r` itself, not an option that implies it: directories in the list of names stand for their contents.
    pub named_contents: bool,
    /// What else the command does.
    pub run: RunOptions,
    /// What options depend on besides each other.
    pub environment: Environment,
    /// Messages that stop nothing.
    pub warnings: Vec<Vec<u8>>,
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
    /// The last one of `-i` and `-n`: ask, or skip.
    pub clobber: Option<Overwrite>,
    /// `--update`, whatever it says.
    pub update_given: bool,
    /// `--mirror`.
    pub mirrors: bool,
    /// `--delete-excluded`.
    pub delete_excluded: bool,
    /// `--max-delete`.
    pub max_delete: Option<u64>,
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
        let writeback = if persona == Persona::Cp { Writeback::Kernel } else { Writeback::Auto };
        Draft {
            plan: Plan {
                write_through_dangling_link: environment.posixly_correct,
                if_changed: if persona == Persona::Cp { IfChanged::Ignore } else { IfChanged::Warn },
                data: DataOptions { writeback, ..DataOptions::default() },
                ..Plan::default()
            },
            show: Show { progress, ..Show::default() },
            choice: Choice::default(),
            files_from: None,
            from0: false,
            named_contents: false,
            run: RunOptions::default(),
            environment: environment.clone(),
            warnings: Vec::new(),
            modes: Vec::new(),
            against: Vec::new(),
            backups: false,
            backup_control: None,
            backup_suffix: environment.backup_suffix.clone(),
            dereference: None,
            hard_links: false,
            symbolic_links: false,
            clobber: None,
            update_given: false,
            mirrors: false,
            delete_excluded: false,
            max_delete: None,
            context: Keep::default(),
            xattr: Keep::default(),
            target_directory: None,
            no_target_directory: false,
            security: None,
        }
    }

    /// Whole trees with all that a copy can keep, as `-a` has it.
    pub(crate) fn archive(&mut self) {
        self.dereference = Some(Dereference::Never);
        self.plan.recursive = true;
        self.plan.preserve.links = true;
        self.plan.preserve.quiet = true;
        self.keep_mode_owner_and_times();
        self.context.asked |= self.has_selinux();
        self.xattr.asked = true;
    }

    /// As `-p` has it.
    pub(crate) fn keep_mode_owner_and_times(&mut self) {
        let preserve = &mut self.plan.preserve;
        preserve.mode = ModeRule::Keep;
        preserve.ownership = true;
        preserve.timestamps = true;
        preserve.required = true;
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
