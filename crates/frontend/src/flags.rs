//! What an option is, in one value: its names, its argument, what the documentation says of it, and what it does.
//!
//! A command declares its options as [`Flag`]s over a draft of its own, which their effects change. Its parser, `--help`, its
//! man page and the completions of the shells all read the table of these values, and nothing else knows of single options.

use std::collections::HashSet;
use std::ffi::OsStr;

use crate::complaint::Complaint;
use crate::given::Given;
use crate::quote::Quoter;
use crate::values::{Origin, Values};

/// Whether an option takes an argument, and what that is called in the documentation.
///
/// As in GNU cp, the short form takes one only where it is required: `-b` is `--backup` without CONTROL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// It takes none.
    None,
    /// `--option=ARG`, `--option ARG`, `-oARG` or `-o ARG`.
    Required(&'static str),
    /// `--option` or `--option=ARG`.
    Optional(&'static str),
}

/// The headings of `--help` and the man page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// What is copied.
    Source,
    /// Where to, and what happens to what is there.
    Destination,
    /// What the copies keep of the originals.
    Attributes,
    /// How bytes are moved.
    Data,
    /// Integrity and durability.
    Safety,
    /// What the user sees.
    Output,
}

impl Category {
    /// In the order of the documentation.
    pub const ALL: [Category; 6] = [
        Category::Source,
        Category::Destination,
        Category::Attributes,
        Category::Data,
        Category::Safety,
        Category::Output,
    ];

    /// The heading.
    pub fn title(self) -> &'static str {
        match self {
            Category::Source => "What to copy",
            Category::Destination => "Where to, and what happens to existing files",
            Category::Attributes => "What the copies keep",
            Category::Data => "How bytes are moved",
            Category::Safety => "Integrity and durability",
            Category::Output => "What is shown",
        }
    }
}

/// What a command does instead of copying, if an option asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `--compare`.
    Compare,
    /// `--punch`.
    Punch,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 2] = [Mode::Compare, Mode::Punch];
}

/// What a command prints before it ends, if an option asks for it: options after that one are not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Information {
    /// `--help`.
    Help,
    /// `--version`.
    Version,
}

/// What an option does to the draft `D` of its command, when it is met on the command line.
pub enum Effect<D: 'static> {
    /// Of an option without an argument.
    Switch(fn(&mut D)),
    /// Of one that takes one of its words; where none is given, this one is meant.
    Word(&'static str, fn(&mut D, &'static str)),
    /// Of any other.
    Value(fn(&mut D, &Given<'_>) -> Result<(), Complaint>),
    /// Nothing: the command prints this and ends.
    Print(Information),
}

/// One option of a command with a draft `D`.
pub struct Flag<D: 'static> {
    /// Letters after one dash; the first is the one in the documentation.
    pub short: &'static str,
    /// Name after two dashes; empty if it has none.
    pub long: &'static str,
    /// An old name, which still works and no documentation mentions; empty if there is none.
    pub former: &'static str,
    /// Whether it takes an argument.
    pub argument: Argument,
    /// What the argument may be.
    pub values: Values,
    /// The option beside which the man page explains the words, if that is another one.
    pub words_at: Option<&'static str>,
    /// Since when cp has it.
    pub origin: Origin,
    /// Its heading in the documentation.
    pub category: Category,
    /// One line for `--help` and completions.
    pub help: &'static str,
    /// Sentences for the man page.
    pub details: &'static str,
    /// What it does.
    pub effect: Effect<D>,
    /// In which modes it has a meaning, besides copying.
    pub modes: &'static [Mode],
}

impl<D> Flag<D> {
    /// An option of cp, without names, argument or effect, which `..` takes the rest from.
    pub(crate) const fn cp(category: Category) -> Flag<D> {
        Flag {
            short: "",
            long: "",
            former: "",
            argument: Argument::None,
            values: Values::Any,
            words_at: None,
            origin: Origin::Cp,
            category,
            help: "",
            details: "",
            effect: Effect::Switch(|_| {}),
            modes: &[],
        }
    }

    /// The same for an option of haul.
    pub const fn own(category: Category) -> Flag<D> {
        Flag { origin: Origin::Haul, ..Flag::cp(category) }
    }

    /// Changes the draft. `own_words`: messages list words that cp does not know.
    ///
    /// # Errors
    /// What is wrong with the argument.
    pub fn apply(
        &self,
        draft: &mut D,
        value: Option<&OsStr>,
        quoter: &Quoter,
        own_words: bool,
    ) -> Result<(), Complaint> {
        let given = Given { option: self.long, values: self.values, value, quoter, own_words };
        match self.effect {
            Effect::Switch(set) => set(draft),
            Effect::Word(without, set) => set(draft, given.word_or(without)?),
            Effect::Value(set) => set(draft, &given)?,
            Effect::Print(_) => {}
        }
        Ok(())
    }
}

/// All options of a command, in groups.
pub struct Table<D: 'static>(pub &'static [&'static [Flag<D>]]);

impl<D> Table<D> {
    /// In the order of the documentation within their categories.
    pub fn iter(&self) -> impl Iterator<Item = &'static Flag<D>> {
        self.0.iter().copied().flatten()
    }
}

/// The long names of GNU cp 9.1 in the order in which its messages list them, `path`, the old name of `parents`, included.
pub const CP_ORDER: [&str; 29] = [
    "archive",
    "attributes-only",
    "backup",
    "copy-contents",
    "dereference",
    "force",
    "interactive",
    "link",
    "no-clobber",
    "no-dereference",
    "no-preserve",
    "no-target-directory",
    "one-file-system",
    "parents",
    "path",
    "preserve",
    "recursive",
    "remove-destination",
    "sparse",
    "reflink",
    "strip-trailing-slashes",
    "suffix",
    "symbolic-link",
    "target-directory",
    "update",
    "verbose",
    "context",
    "help",
    "version",
];

/// What must hold of every table of options, for the tests of a command.
///
/// # Panics
/// When it does not hold.
pub fn check<D>(table: &Table<D>) {
    let mut seen = HashSet::new();
    for flag in table.iter() {
        let name = format!("-{} --{}", flag.short, flag.long);
        assert!(!(flag.short.is_empty() && flag.long.is_empty()));
        for long in [flag.long, flag.former] {
            assert!(long.is_empty() || seen.insert(format!("--{long}")), "--{long} of {name} is taken twice");
        }
        assert!(flag.short.chars().all(|letter| seen.insert(format!("-{letter}"))), "{name} is taken twice");
        assert!(flag.words_at.is_none_or(|other| table.iter().any(|flag| flag.long == other)), "{name}");
        let fits = match flag.effect {
            Effect::Switch(_) | Effect::Print(_) => flag.argument == Argument::None,
            Effect::Word(without, _) => {
                let known = flag.values.choices().iter().any(|choice| choice.name == without);
                known && matches!(flag.values, Values::One(_)) && flag.argument != Argument::None
            }
            Effect::Value(_) => flag.argument != Argument::None,
        };
        assert!(fits, "the effect of {name} is not that of an option with such an argument");
    }
}
