//! `haul-lab mapped-write` as a command of its own.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use super::{Progress, Request, measure};
use crate::results::{Body, Detail};
use crate::words;

const HELP: &str = "\
Usage: haul-lab mapped-write [OPTION]... DIR
Measure below DIR whether writing through mapped files stalls there.

      --time=SECONDS            everything together takes about so long (default: 75)
      --space=BYTES             files take so much at most (default: 2 GiB, half of what is free at most)
      --rounds=N                rounds of msync (default: 100)
      --files=N                 files that grow side by side (default: 50)
      --json                    everything that was measured, as JSON
      --help                    show this help and exit
";

/// What the user wants.
#[derive(Debug, Clone, PartialEq)]
struct Wanted {
    dir: PathBuf,
    json: bool,
    request: Request,
}

/// Runs the command, or a part of it that it has started itself, if the first argument is its name. `None`: it is not.
pub fn main(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let done = match arguments.next()?.to_str()? {
        "mapped-write" => command(arguments),
        "mapped-write-part" => super::part::main(arguments).map(|()| String::new()),
        _ => return None,
    };
    let shown = done.and_then(|text| {
        let mut out = std::io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        written.map_err(|error| format!("write error: {}", words::of(&error)))
    });
    Some(match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("haul-lab: {message}");
            ExitCode::FAILURE
        }
    })
}

fn command(arguments: impl Iterator<Item = OsString>) -> Result<String, String> {
    haul_sys::process_state::restore_sigpipe();
    let Some(Wanted { dir, json, request }) = parse(arguments)? else { return Ok(HELP.to_owned()) };
    let place = Place::new(&dir)?;
    let shows = std::io::stderr().is_terminal();
    let mut tell = |progress: Progress| {
        if shows {
            eprint!("\r{:3.0} % {}      ", progress.of_all * 100.0, progress.part);
        }
    };
    let measured = measure(&request, &place.0, &mut tell, &|| false);
    if shows {
        eprint!("\r                    \r");
    }
    let details = measured.map(|measured| measured.details());
    place.remove()?;
    let details = details?;
    match json {
        true => serde_json::to_string_pretty(&details).map(|text| text + "\n").map_err(|error| error.to_string()),
        false => Ok(told(&details)),
    }
}

fn told(details: &[Detail]) -> String {
    let verdict = details.iter().rev().find_map(|detail| match &detail.body {
        Body::Verdict { name, sentences } => Some(format!("{name}\n{}\n", sentences.join("\n"))),
        _ => None,
    });
    verdict.unwrap_or_default()
}

/// A directory of ours in that of the user.
struct Place(PathBuf);

impl Place {
    fn new(dir: &Path) -> Result<Place, String> {
        let place = dir.join(format!(".haul-lab-{}", std::process::id()));
        let made = std::fs::create_dir(&place);
        made.map_err(|error| format!("cannot make {}: {}", words::quoted(&place), words::of(&error)))?;
        Ok(Place(place))
    }

    fn remove(self) -> Result<(), String> {
        let removed = std::fs::remove_dir(&self.0);
        removed.map_err(|error| format!("cannot remove {}: {}", words::quoted(&self.0), words::of(&error)))
    }
}

/// Reads the command line; `None` asks for help.
fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Option<Wanted>, String> {
    use lexopt::prelude::*;
    let mut parser = lexopt::Parser::from_args(arguments);
    let (mut dir, mut json, mut time, mut space, mut rounds, mut files) = (None, false, None, None, None, None);
    while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
        match argument {
            Long("help") => return Ok(None),
            Long("json") => json = true,
            Long("time") => time = Some(number(&mut parser, "time")?),
            Long("space") => space = Some(number(&mut parser, "space")?),
            Long("rounds") => rounds = Some(number(&mut parser, "rounds")?),
            Long("files") => files = Some(number(&mut parser, "files")?),
            Value(path) if dir.is_none() => dir = Some(PathBuf::from(path)),
            other => return Err(other.unexpected().to_string()),
        }
    }
    let dir = dir.ok_or("missing operand: the directory")?;
    let time = time.map_or(Duration::from_secs(75), Duration::from_secs);
    let mut request = Request::within(time, space.unwrap_or(u64::MAX));
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    request.msync.rounds = rounds.map_or(request.msync.rounds, small);
    request.stall.files = files.map_or(request.stall.files, small);
    Ok(Some(Wanted { dir, json, request }))
}

/// A number of 1 or more.
fn number(parser: &mut lexopt::Parser, option: &str) -> Result<u64, String> {
    let value = parser.value().map_err(|error| error.to_string())?;
    let number = value.to_str().and_then(|text| text.parse().ok()).filter(|number| *number > 0);
    number.ok_or_else(|| format!("invalid argument {value:?} for '--{option}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_read() {
        let parsed = |arguments: &[&str]| parse(arguments.iter().map(OsString::from));
        let wanted = parsed(&["--time=12", "/x", "--json", "--rounds", "3"]).unwrap().unwrap();
        assert_eq!((wanted.dir, wanted.json, wanted.request.msync.rounds), (PathBuf::from("/x"), true, 3));
        assert_eq!(wanted.request.grid.time, Duration::from_secs(4));
        assert_eq!(parsed(&["--help"]), Ok(None));
        for (arguments, expected) in [
            (&[][..], "missing operand: the directory"),
            (&["a", "b"], "unexpected argument \"b\""),
            (&["--files=0", "a"], "invalid argument \"0\" for '--files'"),
        ] {
            assert_eq!(parsed(arguments), Err(expected.to_owned()));
        }
    }
}
