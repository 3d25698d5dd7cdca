//! An option as it was given: what its effect reads the argument from. Where that is a word: abbreviations, and the messages
//! about wrong ones, as GNU's programs have them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::complaint::{Complaint, fatal, misuse};
use crate::quote::Quoter;
use crate::size::parse_size;
use crate::values::{Choice, Origin, Values};

/// An option as it was given, with what messages about its argument need.
#[derive(Debug, Clone, Copy)]
pub struct Given<'a> {
    /// The long name, without dashes.
    pub option: &'static str,
    /// What the argument may be.
    pub values: Values,
    /// The argument, if there is one.
    pub value: Option<&'a OsStr>,
    /// How the argument is quoted.
    pub quoter: &'a Quoter,
    /// Whether messages list words that cp does not know.
    pub own_words: bool,
}

impl Given<'_> {
    /// The argument as it is; empty if there is none.
    pub fn text(&self) -> &OsStr {
        self.value.unwrap_or_default()
    }

    /// The argument as it is.
    pub(crate) fn owned(&self) -> Option<OsString> {
        self.value.map(OsStr::to_owned)
    }

    /// The argument as a path.
    pub fn path(&self) -> Option<PathBuf> {
        self.value.map(PathBuf::from)
    }

    /// Which of the option's words the argument is, `without` if there is none.
    ///
    /// # Errors
    /// It is none of them, or an abbreviation of several.
    pub(crate) fn word_or(&self, without: &'static str) -> Result<&'static str, Complaint> {
        self.value.map_or(Ok(without), |word| self.word(word))
    }

    /// Which of the option's words a list of them has.
    ///
    /// # Errors
    /// The first that is none of them, or an abbreviation of several.
    pub fn words(&self) -> Result<Vec<&'static str>, Complaint> {
        self.text().as_bytes().split(|byte| *byte == b',').map(|word| self.word(OsStr::from_bytes(word))).collect()
    }

    fn word(&self, word: &OsStr) -> Result<&'static str, Complaint> {
        let context = format!("--{}", self.option);
        let choice = choose(&context, word, self.values.choices(), self.quoter, self.own_words);
        choice.map(|choice| choice.name).map_err(misuse)
    }

    /// A number from 1 to `most`, perhaps with a unit.
    ///
    /// # Errors
    /// It is none, or out of this range, which the message names.
    pub fn number(&self, most: u64) -> Result<usize, Complaint> {
        let number = parse_size(self.text().as_bytes()).filter(|number| (1..=most).contains(number));
        let number = number.and_then(|number| usize::try_from(number).ok());
        let most = || if most.is_multiple_of(1 << 30) { format!("{}G", most >> 30) } else { most.to_string() };
        number.ok_or_else(|| self.invalid(&format!(": a number from 1 to {} is wanted", most())))
    }

    /// What `parse` makes of the argument.
    ///
    /// # Errors
    /// It makes nothing of it.
    pub(crate) fn parsed<T>(&self, parse: fn(&[u8]) -> Option<T>) -> Result<T, Complaint> {
        parse(self.text().as_bytes()).ok_or_else(|| self.invalid(""))
    }

    /// The argument is none that the option takes; `why` ends the message.
    pub(crate) fn invalid(&self, why: &str) -> Complaint {
        fatal([b"invalid ", &self.argument()[..], why.as_bytes()].concat())
    }

    fn argument(&self) -> Vec<u8> {
        let quoted = self.quoter.always(self.text().as_bytes());
        [format!("--{} argument ", self.option).as_bytes(), &quoted].concat()
    }
}

/// The choice that a word means.
///
/// Choices of haul must be written in full, so that they make no abbreviation of cp's ambiguous; the message lists
/// them only `with_own`.
///
/// # Errors
/// The message, which ends with the list of the choices. `context` is the option, or what else the word is for.
pub(crate) fn choose(
    context: &str,
    word: &OsStr,
    choices: &'static [Choice],
    quoter: &Quoter,
    with_own: bool,
) -> Result<&'static Choice, Vec<u8>> {
    let word = word.as_bytes();
    let names = |choice: &'static Choice| std::iter::once(choice.name).chain(choice.synonym);
    let exact = choices.iter().find(|choice| names(choice).any(|name| name.as_bytes() == word));
    if let Some(choice) = exact {
        return Ok(choice);
    }
    let all_own = choices.iter().all(|choice| choice.origin == Origin::Haul);
    let mut abbreviated = choices
        .iter()
        .filter(|choice| all_own || choice.origin != Origin::Haul)
        .filter(|choice| names(choice).any(|name| name.as_bytes().starts_with(word)));
    let problem = match (abbreviated.next(), abbreviated.next()) {
        (Some(choice), None) => return Ok(choice),
        (None, _) => "invalid",
        (Some(_), Some(_)) => "ambiguous",
    };
    let mut message = format!("{problem} argument ").into_bytes();
    message.extend(quoter.text(word));
    message.extend(b" for ");
    message.extend(quoter.text(context.as_bytes()));
    message.extend(b"\nValid arguments are:");
    for choice in choices.iter().filter(|choice| all_own || with_own || choice.origin != Origin::Haul) {
        let words: Vec<Vec<u8>> = names(choice).map(|name| quoter.text(name.as_bytes())).collect();
        message.extend(b"\n  - ");
        message.extend(words.join(&b", "[..]));
    }
    Err(message)
}
