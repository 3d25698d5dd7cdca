//! From the command line to a plan: what each option means, alone and with the others.

mod destination;
mod overwrite;
mod safety;
pub(crate) mod shards;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use haul_copy::plan::{
    Backup, ContextRule, Dereference, Destination, EngineChoice, IfChanged, LinkMode, ModeRule, Plan, Reflink,
    SmartCopy, Sparse, Wish,
};

use crate::argmatch::choose;
use crate::environment::{Environment, Security};
use crate::flags::{self, Choice, Flag, Id};
use crate::getopt::{Found, Parser};
use crate::goes_with::{goes_with_compare, goes_with_punch};
use crate::persona::Persona;
use crate::quote::Quoter;
use crate::run_options::{Profiles, RunOptions};
use crate::show::{Show, StatsFormat, When};
use crate::size::parse_size;
use crate::throttle::{Priority, parse_limit};

/// How far `--readahead` without SIZE is ahead.
const READAHEAD: usize = 8 << 20;

/// What a command line asks for.
#[derive(Debug)]
pub enum Wanted {
    /// A copy.
    Copy(Box<Plan>, Show, RunOptions),
    /// `--compare`.
    Compare(Box<Plan>, Show),
    /// `--punch`.
    Punch(Punch),
    /// `--help`.
    Help,
    /// `--version`.
    Version,
}

/// Images whose free space is given back in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Punch {
    /// At least one.
    pub images: Vec<OsString>,
    /// No part of an image may be refused.
    pub required: bool,
    /// What is known of each part is shown.
    pub explain: bool,
}

/// Why a command line cannot be obeyed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The message, without the program's name.
    pub message: Vec<u8>,
    /// The user is told about `--help`.
    pub hint: bool,
}

fn misuse(message: impl Into<Vec<u8>>) -> Complaint {
    Complaint { message: message.into(), hint: true }
}

fn fatal(message: impl Into<Vec<u8>>) -> Complaint {
    Complaint { message: message.into(), hint: false }
}

/// Reads a command line (without the program's name). `warn` gets messages that stop nothing.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    persona: Persona,
    environment: &Environment,
    quoter: &Quoter,
    warn: &mut dyn FnMut(&[u8]),
) -> Result<Wanted, Complaint> {
    let mut parser = Parser::new(arguments, environment.posixly_correct);
    let mut draft = Draft::new(persona, environment, quoter, warn);
    while let Some(found) = parser.next_option().map_err(misuse)? {
        match found.flag.id {
            Id::Help => return Ok(Wanted::Help),
            Id::Version => return Ok(Wanted::Version),
            _ => {
                draft.besides_punch |= !goes_with_punch(found.flag.id);
                draft.besides_compare |= !goes_with_compare(found.flag.id);
                draft.apply(found)?;
            }
        }
    }
    if draft.punch {
        return draft.punch(parser.into_operands());
    }
    draft.settle()?;
    draft.operands(parser.into_operands())?;
    if draft.compare {
        return draft.comparison();
    }
    draft.settle_destination()?;
    Ok(Wanted::Copy(Box::new(draft.plan), draft.show, draft.run))
}

/// A plan while the options are read. What depends on several options, whatever their order, waits in fields of its own.
struct Draft<'a> {
    plan: Plan,
    show: Show,
    run: RunOptions,
    persona: Persona,
    environment: &'a Environment,
    quoter: &'a Quoter,
    warn: &'a mut dyn FnMut(&[u8]),
    security: Option<Security>,
    backups: bool,
    backup_control: Option<OsString>,
    backup_suffix: Option<OsString>,
    dereference: Option<Dereference>,
    hard_links: bool,
    symbolic_links: bool,
    existing: overwrite::Existing,
    keep_context: bool,
    require_context: bool,
    keep_xattr: bool,
    require_xattr: bool,
    target_directory: Option<OsString>,
    no_target_directory: bool,
    punch: bool,
    /// An option that has no meaning with it.
    besides_punch: bool,
    compare: bool,
    /// An option that has no meaning with that.
    besides_compare: bool,
}

impl<'a> Draft<'a> {
    fn new(
        persona: Persona,
        environment: &'a Environment,
        quoter: &'a Quoter,
        warn: &'a mut dyn FnMut(&[u8]),
    ) -> Draft<'a> {
        let progress = if persona == Persona::Cp { When::Never } else { When::Auto };
        Draft {
            plan: Plan {
                write_through_dangling_link: environment.posixly_correct,
                if_changed: if persona == Persona::Cp { IfChanged::Ignore } else { IfChanged::Warn },
                ..Plan::default()
            },
            show: Show { verbose: false, debug: false, explain: false, progress, stats: None },
            run: RunOptions::default(),
            persona,
            environment,
            quoter,
            warn,
            security: None,
            backups: false,
            backup_control: None,
            backup_suffix: environment.backup_suffix.clone(),
            dereference: None,
            hard_links: false,
            symbolic_links: false,
            existing: overwrite::Existing::default(),
            keep_context: false,
            require_context: false,
            keep_xattr: false,
            require_xattr: false,
            target_directory: None,
            no_target_directory: false,
            punch: false,
            besides_punch: false,
            compare: false,
            besides_compare: false,
        }
    }

    fn security(&mut self) -> Security {
        *self.security.get_or_insert_with(self.environment.security)
    }

    fn has_selinux(&mut self) -> bool {
        self.security() == Security::Selinux
    }

    fn apply(&mut self, Found { flag, value }: Found) -> Result<(), Complaint> {
        let value = value.as_deref();
        let plan = &mut self.plan;
        match flag.id {
            Id::Archive => self.archive(),
            Id::AttributesOnly => plan.attributes_only = true,
            Id::Backup => {
                self.backups = true;
                self.backup_control = value.map(OsStr::to_owned).or(self.backup_control.take());
            }
            Id::Suffix => {
                self.backups = true;
                self.backup_suffix = value.map(OsStr::to_owned);
            }
            Id::CopyContents => plan.copy_contents = true,
            Id::NoDereferenceKeepLinks => {
                plan.preserve.links = true;
                self.dereference = Some(Dereference::Never);
            }
            Id::Dereference => self.dereference = Some(Dereference::Always),
            Id::DereferenceOperands => self.dereference = Some(Dereference::Operands),
            Id::NoDereference => self.dereference = Some(Dereference::Never),
            Id::Force => plan.force = true,
            Id::Interactive | Id::NoClobber | Id::Update => self.overwriting(flag, value)?,
            Id::Link => self.hard_links = true,
            Id::SymbolicLink => self.symbolic_links = true,
            Id::KeepDirectorySymlink => plan.keep_directory_symlink = true,
            Id::OneFileSystem => plan.one_file_system = true,
            Id::Parents => plan.parents = true,
            Id::Recursive => plan.recursive = true,
            Id::RemoveDestination => plan.remove_destination = true,
            Id::StripTrailingSlashes => plan.strip_trailing_slashes = true,
            Id::Preserve => self.preserve(flag, value)?,
            Id::NoPreserve => self.attributes(flag, value.unwrap_or_default(), false)?,
            Id::Context => self.context(value),
            Id::Reflink | Id::Sparse | Id::Engine | Id::BufferSize | Id::Readahead | Id::Jobs => {
                self.data(flag, value)?
            }
            Id::Limit | Id::Priority => self.throttling(flag, value.unwrap_or_default())?,
            Id::Yield => self.run.throttling.yields = true,
            Id::Control => self.run.throttling.control = value.map(PathBuf::from),
            Id::Profile => self.run.profiles = Profiles::of_argument(value.unwrap_or_default()),
            Id::Smart => self.smart(flag, value)?,
            Id::Snapshot => plan.snapshot = true,
            Id::Punch => self.punch = true,
            Id::Compare => self.compare = true,
            Id::Cache | Id::Preallocate => self.memory_and_space(flag, value)?,
            Id::ManifestOut | Id::FromManifest | Id::Shard | Id::Job => self.parts(flag, value.unwrap_or_default())?,
            Id::Atomic | Id::Durable | Id::IfChanged | Id::Resume => self.safety(flag, value)?,
            Id::Verify | Id::Checksum | Id::Manifest => self.safety(flag, value)?,
            Id::TargetDirectory if self.target_directory.is_some() => {
                return Err(fatal("multiple target directories specified"));
            }
            Id::TargetDirectory => self.target_directory = value.map(OsStr::to_owned),
            Id::NoTargetDirectory => self.no_target_directory = true,
            Id::Verbose => self.show.verbose = true,
            Id::Debug => (self.show.debug, self.show.verbose) = (true, true),
            Id::Explain => self.show.explain = true,
            Id::FailFast => plan.fail_fast = true,
            Id::KeepGoing => plan.fail_fast = false,
            Id::Progress | Id::Stats => self.showing(flag, value)?,
            // These end the reading before.
            Id::Help | Id::Version => {}
            // Options of smartcp, which are not in the table that is read here.
            Id::DirectIo | Id::Format | Id::Container | Id::PageFiles | Id::Md5 | Id::ReadOnly => {}
            Id::StatsOutput | Id::UseSmartRead | Id::WriteOnly | Id::ZeroScan => {}
        }
        Ok(())
    }

    /// The choice that an argument means, for options that take one word.
    fn choice(&self, flag: &Flag, word: &OsStr) -> Result<&'static str, Complaint> {
        self.choose(&format!("--{}", flag.long), word, flag.values.choices())
    }

    fn choose(&self, context: &str, word: &OsStr, choices: &'static [Choice]) -> Result<&'static str, Complaint> {
        let with_own = self.persona == Persona::Haul;
        choose(context, word, choices, self.quoter, with_own).map(|choice| choice.name).map_err(misuse)
    }

    fn archive(&mut self) {
        self.dereference = Some(Dereference::Never);
        self.plan.recursive = true;
        self.plan.preserve.links = true;
        self.plan.preserve.quiet = true;
        self.keep_mode_owner_and_times();
        self.keep_context |= self.has_selinux();
        self.keep_xattr = true;
    }

    fn keep_mode_owner_and_times(&mut self) {
        let preserve = &mut self.plan.preserve;
        preserve.mode = ModeRule::Keep;
        preserve.ownership = true;
        preserve.timestamps = true;
        preserve.required = true;
    }

    fn preserve(&mut self, flag: &Flag, list: Option<&OsStr>) -> Result<(), Complaint> {
        match list {
            None => self.keep_mode_owner_and_times(),
            Some(list) => {
                self.attributes(flag, list, true)?;
                self.plan.preserve.required = true;
            }
        }
        Ok(())
    }

    /// The list of `--preserve` (`keep`) or `--no-preserve`.
    fn attributes(&mut self, flag: &Flag, list: &OsStr, keep: bool) -> Result<(), Complaint> {
        for word in list.as_bytes().split(|byte| *byte == b',') {
            let name = self.choice(flag, OsStr::from_bytes(word))?;
            let preserve = &mut self.plan.preserve;
            let mode = if keep { ModeRule::Keep } else { ModeRule::Discard };
            match name {
                "mode" => preserve.mode = mode,
                "timestamps" => preserve.timestamps = keep,
                "ownership" => preserve.ownership = keep,
                "links" => preserve.links = keep,
                "context" => (self.keep_context, self.require_context) = (keep, keep),
                "xattr" => (self.keep_xattr, self.require_xattr) = (keep, keep),
                "flags" => preserve.flags = keep,
                "project" => preserve.project = keep,
                _ => {
                    preserve.mode = mode;
                    preserve.timestamps = keep;
                    preserve.ownership = keep;
                    preserve.links = keep;
                    self.keep_xattr = keep;
                    if self.has_selinux() {
                        self.keep_context = keep;
                    }
                }
            }
        }
        Ok(())
    }

    fn context(&mut self, context: Option<&OsStr>) {
        match (context, self.security()) {
            (Some(context), Security::Selinux | Security::Smack) => {
                self.plan.context = ContextRule::Fixed(context.to_owned());
            }
            (Some(_), Security::None) => {
                (self.warn)(b"warning: ignoring --context; it requires an SELinux-enabled kernel");
            }
            (None, Security::Selinux) => self.plan.context = ContextRule::OfDestination,
            (None, _) => {}
        }
    }

    fn data(&mut self, flag: &Flag, value: Option<&OsStr>) -> Result<(), Complaint> {
        let word = value.unwrap_or(OsStr::new("always"));
        match flag.id {
            Id::Reflink => {
                self.plan.reflink = match self.choice(flag, word)? {
                    "always" => Reflink::Always,
                    "never" => Reflink::Never,
                    _ => Reflink::Auto,
                };
            }
            Id::Sparse => {
                self.plan.sparse = match self.choice(flag, word)? {
                    "always" => Sparse::Always,
                    "never" => Sparse::Never,
                    _ => Sparse::Auto,
                };
            }
            Id::Engine => {
                let name = self.choice(flag, word)?;
                self.plan.engine = name.parse().unwrap_or(EngineChoice::Auto);
            }
            Id::Readahead => {
                let size = value.map_or(Ok(READAHEAD), |word| self.number(flag, word, 1 << 30))?;
                self.plan.readahead = Some(size as u64);
            }
            Id::BufferSize => self.plan.buffer_size = Some(self.number(flag, word, 1 << 30)?),
            _ => self.plan.jobs = Some(self.number(flag, word, 65536)?),
        }
        Ok(())
    }

    fn smart(&mut self, flag: &Flag, value: Option<&OsStr>) -> Result<(), Complaint> {
        self.plan.smart = match self.choice(flag, value.unwrap_or(OsStr::new("auto")))? {
            "auto" => SmartCopy::Auto,
            "require" => SmartCopy::Require,
            _ => SmartCopy::Off,
        };
        Ok(())
    }

    /// A number from 1 to `most`.
    fn number(&self, flag: &Flag, word: &OsStr, most: u64) -> Result<usize, Complaint> {
        let quoted = self.quoter.always(word.as_bytes());
        let about = |before: &str, after: &str| {
            let argument = format!("{before}--{} argument ", flag.long).into_bytes();
            fatal([argument, quoted.clone(), after.as_bytes().to_vec()].concat())
        };
        match parse_size(word.as_bytes()) {
            Some(0) | None => Err(about("invalid ", "")),
            Some(number) if number > most => Err(about("", " too large")),
            Some(number) => usize::try_from(number).map_err(|_| about("", " too large")),
        }
    }

    fn throttling(&mut self, flag: &Flag, word: &OsStr) -> Result<(), Complaint> {
        let understood = match flag.id {
            Id::Limit => parse_limit(word.as_bytes()).map(|limit| self.run.throttling.limit = limit),
            _ => word.to_str().and_then(Priority::parse).map(|priority| self.run.throttling.priority = Some(priority)),
        };
        understood.ok_or_else(|| {
            let argument = format!("invalid --{} argument ", flag.long).into_bytes();
            fatal([argument, self.quoter.always(word.as_bytes())].concat())
        })
    }

    fn showing(&mut self, flag: &Flag, value: Option<&OsStr>) -> Result<(), Complaint> {
        let choice = value.map(|word| self.choice(flag, word)).transpose()?;
        match (flag.id, choice) {
            (Id::Progress, Some("always")) => self.show.progress = When::Always,
            (Id::Progress, Some("never")) => self.show.progress = When::Never,
            (Id::Progress, _) => self.show.progress = When::Auto,
            (_, Some("json")) => self.show.stats = Some(StatsFormat::Json),
            _ => self.show.stats = Some(StatsFormat::Text),
        }
        Ok(())
    }

    fn punch(self, images: Vec<OsString>) -> Result<Wanted, Complaint> {
        match self.plan.smart {
            SmartCopy::Off => return Err(misuse("--punch has a meaning only with --smart")),
            _ if self.besides_punch => {
                return Err(misuse("only --smart, --explain and --verbose can be combined with --punch"));
            }
            _ if images.is_empty() => return Err(misuse("missing file operand")),
            _ => {}
        }
        let required = self.plan.smart == SmartCopy::Require;
        Ok(Wanted::Punch(Punch { images, required, explain: self.show.explain }))
    }

    fn comparison(self) -> Result<Wanted, Complaint> {
        if self.besides_compare {
            return Err(misuse("an option that cannot be combined with --compare was given"));
        }
        Ok(Wanted::Compare(Box::new(self.plan), self.show))
    }

    /// Settles what the options mean together, in the order of GNU's checks.
    fn settle(&mut self) -> Result<(), Complaint> {
        if self.hard_links && self.symbolic_links {
            return Err(misuse("cannot make both hard and symbolic links"));
        }
        self.settle_overwriting()?;
        if self.plan.reflink == Reflink::Always && self.plan.sparse != Sparse::Auto {
            return Err(misuse("--reflink can be used only with --sparse=auto"));
        }
        if self.plan.sparse == Sparse::Never {
            // Shared extents may have holes.
            self.plan.reflink = Reflink::Never;
        }
        if self.plan.reflink == Reflink::Always && self.plan.smart != SmartCopy::Off {
            return Err(misuse("cannot combine --reflink=always and --smart"));
        }
        if self.plan.snapshot && self.plan.smart == SmartCopy::Off {
            return Err(misuse("--snapshot has a meaning only with --smart"));
        }
        self.plan.backup = self.backup()?;
        if let Some(suffix) = self.backup_suffix.take().filter(|suffix| is_suffix(suffix.as_bytes())) {
            self.plan.backup_suffix = suffix;
        }
        self.plan.link = match (self.hard_links, self.symbolic_links) {
            (true, _) => LinkMode::Hard,
            (_, true) => LinkMode::Symbolic,
            _ => LinkMode::Copy,
        };
        self.plan.dereference = self.dereference.unwrap_or(if self.plan.recursive && !self.hard_links {
            Dereference::Never
        } else {
            Dereference::Always
        });
        self.settle_safety()?;
        self.settle_parts()?;
        self.labels()
    }

    fn backup(&self) -> Result<Backup, Complaint> {
        if !self.backups {
            return Ok(Backup::None);
        }
        let given = |word: &Option<OsString>| word.clone().filter(|word| !word.is_empty());
        let word = match (given(&self.backup_control), given(&self.environment.version_control)) {
            (Some(word), _) => self.choose("backup type", &word, flags::BACKUPS)?,
            (None, Some(word)) => self.choose("$VERSION_CONTROL", &word, flags::BACKUPS)?,
            (None, None) => "existing",
        };
        Ok(match word {
            "none" => Backup::None,
            "simple" => Backup::Simple,
            "numbered" => Backup::Numbered,
            _ => Backup::Existing,
        })
    }

    /// Extended attributes and security contexts: what is wished for, and whether it can be had.
    fn labels(&mut self) -> Result<(), Complaint> {
        let sets_context = self.plan.context != ContextRule::Default;
        if sets_context && !self.require_context {
            self.keep_context = false;
        }
        if sets_context && self.keep_context {
            return Err(fatal("cannot set target context and preserve it"));
        }
        if self.require_context && !self.has_selinux() {
            return Err(fatal("cannot preserve security context without an SELinux-enabled kernel"));
        }
        let wish = |keep, require| match (keep, require) {
            (false, _) => Wish::No,
            (true, false) => Wish::Try,
            (true, true) => Wish::Require,
        };
        self.plan.preserve.context = wish(self.keep_context, self.require_context);
        self.plan.preserve.xattr = wish(self.keep_xattr, self.require_xattr);
        Ok(())
    }

    fn operands(&mut self, mut operands: Vec<OsString>) -> Result<(), Complaint> {
        let quoted = |operand: &OsStr| self.quoter.always(operand.as_bytes());
        let about = |text: &str, operand: &OsStr| misuse([text.as_bytes(), b" ", &quoted(operand)].concat());
        match operands.as_slice() {
            [] => return Err(misuse("missing file operand")),
            [only] if self.target_directory.is_none() => {
                return Err(about("missing destination file operand after", only));
            }
            _ if self.no_target_directory && self.target_directory.is_some() => {
                return Err(fatal("cannot combine --target-directory (-t) and --no-target-directory (-T)"));
            }
            [_, _, extra, ..] if self.no_target_directory => return Err(about("extra operand", extra)),
            _ => {}
        }
        self.plan.destination = match self.target_directory.take() {
            Some(directory) => Destination::Directory(directory),
            None => {
                // There are two operands at least, else the complaint above.
                let last = operands.pop().unwrap_or_default();
                if self.no_target_directory { Destination::Exactly(last) } else { Destination::Guess(last) }
            }
        };
        self.plan.sources = operands;
        Ok(())
    }
}

/// Whether a backup suffix names no directory: then it is heeded. Slashes at its end do no harm.
fn is_suffix(suffix: &[u8]) -> bool {
    let end = suffix.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    end > 0 && !suffix[..end].contains(&b'/')
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
