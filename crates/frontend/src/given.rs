//! An option as it was given: what its effect reads the argument from.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::argmatch::choose;
use crate::complaint::{Complaint, fatal, misuse};
use crate::quote::Quoter;
use crate::size::parse_size;
use crate::values::Values;

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
    /// It is none, or too large.
    pub fn number(&self, most: u64) -> Result<usize, Complaint> {
        let number = parse_size(self.text().as_bytes()).filter(|number| *number > 0);
        let number = number.ok_or_else(|| self.invalid(""))?;
        let number = Some(number).filter(|number| *number <= most).and_then(|number| usize::try_from(number).ok());
        number.ok_or_else(|| fatal([&self.argument()[..], b" too large"].concat()))
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
