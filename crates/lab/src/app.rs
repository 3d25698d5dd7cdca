//! The command from start to end.

use std::env;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use haul_sys::process_state;

use crate::experiments::mapped_write;
use crate::map::{self, Request, terminal};
use crate::words;

const HELP: &str = "\
Usage: haul-lab map [OPTION]... IMAGE
Show what the guests of a disk image use, without copying it.

What to show:
      --json                    the report by region as one line of JSON, and no strips
      --svg=FILE                draw the strips into FILE, too
      --width=N                 columns of a strip in the terminal (default: its width, or 80)

How to look:
      --scan                    read all that is used, and tell zeros apart
      --snapshot                the image is a frozen snapshot; do not warn that it is in use

      --help                    show this help and exit
      --version                 show the version and exit

A strip shows where bytes of each kind are: used, free (proven by the guest's own allocation map), zero (with --scan),
hole (not stored in the image file), opaque (stored, and not understood). Colours need a terminal, and NO_COLOR unset.
";

/// What the user wants.
#[derive(Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A map of an image.
    Map(Request),
    /// The text of `--help`.
    Help,
    /// The text of `--version`.
    Version,
}

/// Runs the command with the arguments of this process. The status is 0, or 1 if something could not be done.
pub fn main() -> ExitCode {
    // Before anything else: a part of it must outlive its reader, to remove its files.
    if let Some(status) = mapped_write::command::main(env::args_os().skip(1)) {
        return status;
    }
    process_state::restore_sigpipe();
    let wanted = match parse(env::args_os().skip(1)) {
        Ok(wanted) => wanted,
        Err(message) => {
            complain(&message);
            eprintln!("Try 'haul-lab --help' for more information.");
            return ExitCode::FAILURE;
        }
    };
    let answer = match wanted {
        Wanted::Map(request) => map::run(&request, &Screen, &mut |warning| complain(&format!("warning: {warning}"))),
        Wanted::Help => Ok(HELP.to_owned()),
        Wanted::Version => Ok(format!("haul-lab (haul) {}\nLicense: MIT OR Apache-2.0\n", env!("CARGO_PKG_VERSION"))),
    };
    let shown = answer.and_then(|text| {
        let mut out = std::io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        written.map_err(|error| format!("write error: {}", words::of(&error)))
    });
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            complain(&message);
            ExitCode::FAILURE
        }
    }
}

fn complain(message: &str) {
    eprintln!("haul-lab: {message}");
}

/// Reads the command line.
///
/// # Errors
/// The message, without the program's name.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Wanted, String> {
    use lexopt::prelude::*;
    let mut parser = lexopt::Parser::from_args(arguments);
    let mut task = None;
    let mut image = None;
    let mut request = Request::default();
    while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
        match argument {
            Long("help") => return Ok(Wanted::Help),
            Long("version") => return Ok(Wanted::Version),
            Value(word) if task.is_none() => task = Some(word),
            Value(path) if image.is_none() => image = Some(PathBuf::from(path)),
            Long("json") => request.json = true,
            Long("scan") => request.scan = true,
            Long("snapshot") => request.snapshot = true,
            Long("svg") => request.svg = Some(PathBuf::from(parser.value().map_err(|error| error.to_string())?)),
            Long("width") => {
                let value = parser.value().map_err(|error| error.to_string())?;
                let width = value.to_str().and_then(|text| text.parse().ok());
                let width = width.filter(|width| (1..=terminal::WIDEST).contains(width));
                let width = width.ok_or_else(|| format!("invalid argument {value:?} for '--width'"))?;
                request.width = Some(width);
            }
            other => return Err(other.unexpected().to_string()),
        }
    }
    match (task, image) {
        (Some(task), Some(image)) if task == "map" => Ok(Wanted::Map(Request { image, ..request })),
        (Some(task), None) if task == "map" => Err("missing operand: the image".to_owned()),
        (Some(task), _) => Err(format!("unknown task {task:?}")),
        (None, _) => Err("missing operand: what to do".to_owned()),
    }
}

/// The terminal of this process.
struct Screen;

impl terminal::Screen for Screen {
    fn columns(&self) -> Option<usize> {
        let size = haul_sys::rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
        Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
    }

    fn has_colours(&self) -> bool {
        let wished = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        wished && env::var_os("TERM").is_none_or(|term| term != "dumb") && std::io::stdout().is_terminal()
    }

    fn is_utf8(&self) -> bool {
        haul_sys::locale::Locale::from_environment().is_some_and(|locale| locale.is_utf8())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Wanted, String> {
        parse(arguments.iter().map(OsString::from))
    }

    #[test]
    fn options_may_stand_anywhere() {
        let wanted = Wanted::Map(Request {
            image: "a.img".into(),
            svg: Some("b".into()),
            width: Some(7),
            scan: true,
            ..Request::default()
        });
        assert_eq!(parsed(&["--scan", "map", "--svg=b", "a.img", "--width", "7"]), Ok(wanted));
        assert_eq!(parsed(&["map", "--help"]), Ok(Wanted::Help));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (arguments, expected) in [
            (&["map"][..], "missing operand: the image"),
            (&[], "missing operand: what to do"),
            (&["probe", "x"], "unknown task \"probe\""),
            (&["map", "a", "b"], "unexpected argument \"b\""),
            (&["map", "--width=0", "a"], "invalid argument \"0\" for '--width'"),
            (&["map", "--widht=1", "a"], "invalid option '--widht'"),
        ] {
            assert_eq!(parsed(arguments), Err(expected.to_owned()));
        }
    }
}
