//! Reads a command line as getopt_long(3) of glibc does, down to the words of its messages.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::flags::{Argument, CP_ORDER, Flag, Table};
use crate::nearest::nearest;
use crate::values::Origin;

/// An option as it was found on the command line.
pub struct Found<D: 'static> {
    /// Which one.
    pub flag: &'static Flag<D>,
    /// Its argument.
    pub value: Option<OsString>,
}

/// Takes a command line apart, option by option.
pub struct Parser<D: 'static> {
    rest: VecDeque<OsString>,
    /// Letters behind one dash that are still to be read.
    letters: VecDeque<u8>,
    operands: Vec<OsString>,
    /// POSIXLY_CORRECT: the first operand ends the options.
    posix: bool,
    /// Letters that cp does not have are no options, and messages are cp's to the last word.
    as_cp: bool,
    table: &'static Table<D>,
}

impl<D> Parser<D> {
    /// A parser for the arguments after the name of a program with these options.
    pub fn new(arguments: impl IntoIterator<Item = OsString>, posix: bool, table: &'static Table<D>) -> Parser<D> {
        let rest = arguments.into_iter().collect();
        Parser { rest, letters: VecDeque::new(), operands: Vec::new(), posix, as_cp: false, table }
    }

    /// The same for who takes the letters of cp alone, and has its messages: a script may count on both.
    #[must_use]
    pub(crate) fn for_cp(self, as_cp: bool) -> Parser<D> {
        Parser { as_cp, ..self }
    }

    /// The next option. `None` after the last one: then [`Parser::into_operands`] has the rest.
    ///
    /// # Errors
    /// The message, without the program's name.
    pub fn next_option(&mut self) -> Result<Option<Found<D>>, Vec<u8>> {
        loop {
            if let Some(letter) = self.letters.pop_front() {
                return self.short(letter).map(Some);
            }
            let Some(argument) = self.rest.pop_front() else { return Ok(None) };
            match argument.as_bytes() {
                b"--" => {
                    self.operands.extend(self.rest.drain(..));
                    return Ok(None);
                }
                [b'-', b'-', long @ ..] => return self.long(long).map(Some),
                [b'-', letters @ ..] if !letters.is_empty() => self.letters.extend(letters),
                _ => {
                    self.operands.push(argument);
                    if self.posix {
                        self.operands.extend(self.rest.drain(..));
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// What is not an option.
    pub fn into_operands(self) -> Vec<OsString> {
        self.operands
    }

    fn short(&mut self, letter: u8) -> Result<Found<D>, Vec<u8>> {
        let complain = |text: &str| [text.as_bytes(), b" -- '", &[letter], b"'"].concat();
        let may_be = |flag: &&Flag<D>| !self.as_cp || flag.origin != Origin::Haul;
        let known = self.table.iter().filter(may_be).find(|flag| flag.short.bytes().any(|own| own == letter));
        let flag = known.ok_or_else(|| complain("invalid option"))?;
        let Argument::Required(_) = flag.argument else { return Ok(Found { flag, value: None }) };
        let value = if self.letters.is_empty() {
            self.rest.pop_front().ok_or_else(|| complain("option requires an argument"))?
        } else {
            OsString::from_vec(self.letters.drain(..).collect())
        };
        Ok(Found { flag, value: Some(value) })
    }

    fn long(&mut self, text: &[u8]) -> Result<Found<D>, Vec<u8>> {
        let (name, value) = match text.iter().position(|byte| *byte == b'=') {
            Some(at) => (&text[..at], Some(OsStr::from_bytes(&text[at + 1..]).to_owned())),
            None => (text, None),
        };
        let (full, flag) = match candidates(self.table, name).as_slice() {
            [] => return Err(self.unrecognized(text, name)),
            [one] => *one,
            several => return Err(ambiguous(text, several)),
        };
        // cp names the old one.
        let full = if flag.origin == Origin::Cp { full } else { flag.long };
        let complain = |what: &str| format!("option '--{full}' {what}").into_bytes();
        let value = match (flag.argument, value) {
            (Argument::None, Some(_)) => return Err(complain("doesn't allow an argument")),
            (Argument::Required(_), None) => {
                Some(self.rest.pop_front().ok_or_else(|| complain("requires an argument"))?)
            }
            (_, value) => value,
        };
        Ok(Found { flag, value })
    }

    fn unrecognized(&self, text: &[u8], name: &[u8]) -> Vec<u8> {
        let long = self.table.iter().map(|flag| flag.long).filter(|long| !long.is_empty());
        let meant = nearest(name, long).filter(|_| !self.as_cp);
        let question = meant.map_or_else(String::new, |meant| format!("; did you mean '--{meant}'?"));
        [b"unrecognized option '--", text, b"'", question.as_bytes()].concat()
    }
}

fn ambiguous<D>(text: &[u8], possibilities: &[(&str, &Flag<D>)]) -> Vec<u8> {
    let mut message = [b"option '--", text, b"' is ambiguous; possibilities:"].concat();
    for (name, _) in possibilities {
        message.extend_from_slice(format!(" '--{name}'").as_bytes());
    }
    message
}

/// The options that a name or an abbreviation may mean: of the oldest generation that knows it. Old names come last.
fn candidates<D>(table: &'static Table<D>, name: &[u8]) -> Vec<(&'static str, &'static Flag<D>)> {
    let of = |origin| table.iter().filter(move |flag| flag.origin == origin && !flag.long.is_empty());
    let known = |long| of(Origin::Cp).find(|flag| [flag.long, flag.former].contains(&long)).map(|flag| (long, flag));
    let cp = CP_ORDER.into_iter().filter_map(known).collect::<Vec<_>>();
    let named = |origin| of(origin).map(|flag| (flag.long, flag)).collect::<Vec<_>>();
    let former = of(Origin::Haul).filter(|flag| !flag.former.is_empty()).map(|flag| (flag.former, flag)).collect();
    let generations = [cp, named(Origin::LaterCp), named(Origin::Haul), former];
    let exact = generations.iter().flatten().find(|(long, _)| long.as_bytes() == name);
    if let Some(found) = exact {
        return vec![*found];
    }
    for generation in &generations {
        let mut matches = generation.iter().filter(|(long, _)| long.as_bytes().starts_with(name)).copied();
        let Some(first) = matches.next() else { continue };
        // Another name of the first match makes nothing ambiguous, and is not listed.
        return std::iter::once(first).chain(matches.filter(|(_, flag)| flag.long != first.1.long)).collect();
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::FLAGS;

    type Options = Vec<(&'static str, Option<String>)>;

    /// Options by their long names, operands and the message, if there was one.
    fn parse(arguments: &[&str], posix: bool) -> (Options, Vec<String>, Option<String>) {
        let mut parser = Parser::new(arguments.iter().map(OsString::from), posix, &FLAGS);
        let text = |value: OsString| value.into_string().expect("the tests pass UTF-8");
        let mut found = Vec::new();
        let error = loop {
            match parser.next_option() {
                Ok(Some(option)) => found.push((option.flag.long, option.value.map(text))),
                Ok(None) => break None,
                Err(message) => break Some(String::from_utf8_lossy(&message).into_owned()),
            }
        };
        (found, parser.into_operands().into_iter().map(text).collect(), error)
    }

    #[test]
    fn options_may_stand_after_operands_unless_posix_is_asked_for() {
        let (found, operands, _) = parse(&["a", "-v", "b", "--", "-x"], false);
        assert_eq!((found, operands), (vec![("verbose", None)], vec!["a".into(), "b".into(), "-x".into()]));
        let (found, operands, _) = parse(&["-f", "a", "-v", "b"], true);
        assert_eq!((found, operands), (vec![("force", None)], vec!["a".into(), "-v".into(), "b".into()]));
    }

    #[test]
    fn letters_are_bundled_and_the_rest_is_an_argument() {
        let (found, ..) = parse(&["-abtDIR", "-t", "-v", "-S", "x"], false);
        let directory = |name: &str| ("target-directory", Some(name.to_owned()));
        let suffix = ("suffix", Some("x".to_owned()));
        assert_eq!(found, [("archive", None), ("backup", None), directory("DIR"), directory("-v"), suffix]);
    }

    #[test]
    fn a_new_option_takes_no_abbreviation_from_an_older_one() {
        for (short, long) in [
            ("--d", "dereference"),
            ("--de", "dereference"),
            ("--deb", "debug"),
            ("--k", "keep-directory-symlink"),
            ("--b", "backup"),
            ("--bu=1", "buffer-size"),
            ("--pa", "parents"),
            ("--path", "parents"),
            ("--prog", "progress"),
            ("--sta", "stats"),
            ("--exp", "explain"),
            ("--li", "link"),
            ("--list=x", "list"),
        ] {
            assert_eq!(parse(&[short], false).0.first().map(|found| found.0), Some(long), "{short}");
        }
        assert_eq!(parse(&["--sp=auto"], false).0, [("sparse", Some("auto".to_owned()))]);
    }

    #[test]
    fn old_names_and_their_abbreviations_mean_the_renamed_options() {
        for (old, long) in [
            ("--manifest=x", "digests"),
            ("--manifest-out=x", "list-out"),
            ("--manifest-o=x", "list-out"),
            ("--from-manifest=x", "list"),
            ("--from-=x", "list"),
        ] {
            let (found, _, error) = parse(&[old], false);
            assert_eq!(found, [(long, Some("x".to_owned()))], "{old}: {error:?}");
        }
        let message = "option '--list-out' requires an argument";
        assert_eq!(parse(&["--manifest-out"], false).2.as_deref(), Some(message));
    }

    #[test]
    fn an_unknown_option_suggests_the_nearest_one_but_not_as_cp() {
        for (written, question) in [
            ("--exlude=x", "; did you mean '--exclude'?"),
            ("--recrusive", "; did you mean '--recursive'?"),
            ("--durabel", "; did you mean '--durable'?"),
            ("--bogus", ""),
        ] {
            let message = format!("unrecognized option '{written}'");
            assert_eq!(parse(&[written], false).2, Some(message.clone() + question));
            let mut parser = Parser::new([OsString::from(written)], false, &FLAGS).for_cp(true);
            assert_eq!(parser.next_option().err(), Some(message.into_bytes()));
        }
    }

    #[test]
    fn an_abbreviation_of_several_own_options_is_ambiguous() {
        let message = "option '--e' is ambiguous; possibilities: '--exclude' '--exclude-from' '--exclude-caches' '--engine' '--explain'";
        assert_eq!(parse(&["--e"], false).2.as_deref(), Some(message));
    }
}
