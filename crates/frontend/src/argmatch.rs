//! Option arguments that are words: abbreviations, and the messages about wrong ones, as GNU's programs have them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::quote::Quoter;
use crate::values::{Choice, Origin};

/// The choice that a word means.
///
/// Choices of haul must be written in full, so that they make no abbreviation of cp's ambiguous; the message lists
/// them only `with_own`.
///
/// # Errors
/// The message, which ends with the list of the choices. `context` is the option, or what else the word is for.
pub fn choose(
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
