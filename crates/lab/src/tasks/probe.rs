//! `haul-lab probe`.

use std::ffi::OsString;
use std::path::PathBuf;

use haul_measure::own::Own;
use haul_measure::words;

use super::answer::{Answer, Complaint, usage};
use crate::experiments::probe;
use crate::map::terminal::Screen;
use crate::{report, signals};

pub fn run(arguments: Vec<OsString>) -> Result<Answer, Complaint> {
    let (directory, json) = parse(arguments).map_err(usage)?;
    let stop = signals::stop().map_err(|error| words::of(&error))?;
    let results = match probe::results(&Own::running()?, &stop, &directory) {
        Err(_) if stop.is_stopped() => return Err(Complaint::Stopped),
        results => results?,
    };
    if json {
        let text = serde_json::to_string_pretty(&results).map_err(|error| error.to_string())?;
        return Ok(Answer::done(text + "\n"));
    }
    let page = report::page(&results);
    // Its own tables alone: nothing was measured.
    let page = report::Page { environment: Vec::new(), not_measured: Vec::new(), ..page };
    Ok(Answer::done(report::terminal::page(&page, Screen::here().columns)))
}

fn parse(words: Vec<OsString>) -> Result<(PathBuf, bool), lexopt::Error> {
    use lexopt::prelude::*;
    let mut parser = lexopt::Parser::from_args(words);
    let (mut directory, mut json) = (None, false);
    while let Some(argument) = parser.next()? {
        match argument {
            Value(path) if directory.is_none() => directory = Some(PathBuf::from(path)),
            Long("json") => json = true,
            other => return Err(other.unexpected()),
        }
    }
    Ok((directory.ok_or("missing operand: the directory to look at")?, json))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_needed_and_only_one() {
        let parsed =
            |words: &[&str]| parse(words.iter().map(OsString::from).collect()).map_err(|error| error.to_string());
        assert_eq!(parsed(&["--json", "x"]), Ok(("x".into(), true)));
        assert_eq!(parsed(&[]), Err("missing operand: the directory to look at".to_owned()));
        assert!(parsed(&["a", "b"]).is_err() && parsed(&["a", "--jason"]).is_err());
    }
}
