//! `haul-lab map`.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::answer::{Answer, Complaint, usage};
use crate::map::terminal::{self, Screen};
use crate::map::{self, Request};

pub fn run(words: Vec<OsString>) -> Result<Answer, Complaint> {
    let request = parse(words).map_err(usage)?;
    let text = map::run(&request, Screen::here(), &mut |warning| eprintln!("haul-lab: warning: {warning}"))?;
    Ok(Answer::done(text))
}

fn parse(words: Vec<OsString>) -> Result<Request, lexopt::Error> {
    use lexopt::prelude::*;
    let mut parser = lexopt::Parser::from_args(words);
    let mut image = None;
    let mut request = Request::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Value(path) if image.is_none() => image = Some(PathBuf::from(path)),
            Long("json") => request.json = true,
            Long("scan") => request.scan = true,
            Long("snapshot") => request.snapshot = true,
            Long("svg") => request.svg = Some(parser.value()?.into()),
            Long("width") => request.width = Some(width(&mut parser, 1..=terminal::WIDEST)?),
            other => return Err(other.unexpected()),
        }
    }
    let image = image.ok_or("missing operand: the image")?;
    Ok(Request { image, ..request })
}

/// A number of columns within bounds.
pub fn width(parser: &mut lexopt::Parser, most: RangeInclusive<usize>) -> Result<usize, lexopt::Error> {
    let value = parser.value()?;
    let width = value.to_str().and_then(|text| text.parse().ok()).filter(|width| most.contains(width));
    width.ok_or_else(|| format!("invalid argument {value:?} for '--width'").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Request, String> {
        parse(words.iter().map(OsString::from).collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn options_may_stand_anywhere() {
        let wanted =
            Request { image: "a.img".into(), svg: Some("b".into()), width: Some(7), scan: true, ..Request::default() };
        assert_eq!(parsed(&["--scan", "--svg=b", "a.img", "--width", "7"]), Ok(wanted));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (words, expected) in [
            (&[][..], "missing operand: the image"),
            (&["a", "b"], "unexpected argument \"b\""),
            (&["--width=0", "a"], "invalid argument \"0\" for '--width'"),
            (&["--widht=1", "a"], "invalid option '--widht'"),
        ] {
            assert_eq!(parsed(words), Err(expected.to_owned()));
        }
    }
}
