//! The command `haul-model`.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;

use lexopt::prelude::{Long, Short, ValueExt};

use crate::compare::{Measured, compare, fit};
use crate::config::KEYS;
use crate::keys::{read_toml, set};
use crate::report::sweep_table;
use crate::{Config, simulate, value};

/// What the command line asks for.
#[derive(Debug, Default)]
struct Request {
    config: Config,
    sweep: Vec<u64>,
    compare: Option<OsString>,
    fit: Option<String>,
    csv: bool,
    help: bool,
}

/// Runs the command with these words, without the program's name. Gives what is to be printed.
///
/// # Errors
/// What is wrong, for people.
pub fn run(words: impl IntoIterator<Item = OsString>) -> Result<String, String> {
    let mut request = read(words)?;
    if request.help {
        return Ok(help());
    }
    if let Some(file) = &request.compare {
        let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let measured = Measured::read(&text).map_err(|why| format!("{}: {why}", file.display()))?;
        let fitted = match &request.fit {
            Some(key) => Some(fit(&mut request.config, key, &measured)?),
            None => None,
        };
        let mut shown = compare(&request.config, measured, fitted)?.table(request.csv);
        if let Some(key) = &request.fit {
            let Config { cpu_per_file, cpu_per_byte, cpu_per_directory, .. } = request.config;
            let found = match key.as_str() {
                "cpu-per-file" => cpu_per_file,
                "cpu-per-byte" => cpu_per_byte,
                _ => cpu_per_directory,
            };
            write!(shown, "\n{key} = {found:.3e}\n").expect("writing to a string");
        }
        return Ok(shown);
    }
    if request.sweep.is_empty() {
        return simulate(&request.config).map(|report| report.text());
    }
    let one = |ranks: &u64| simulate(&Config { ranks: *ranks, ..request.config.clone() });
    let reports = request.sweep.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    Ok(sweep_table(&reports, request.csv))
}

fn read(words: impl IntoIterator<Item = OsString>) -> Result<Request, String> {
    let mut parser = lexopt::Parser::from_args(words);
    let mut request = Request::default();
    let text = |parser: &mut lexopt::Parser| -> Result<String, String> {
        let value = parser.value().map_err(|error| error.to_string())?;
        value.string().map_err(|error| error.to_string())
    };
    while let Some(word) = parser.next().map_err(|error| error.to_string())? {
        match word {
            Short('h') | Long("help") => request.help = true,
            Long("csv") => request.csv = true,
            Long("sweep") => request.sweep = value::counts(&text(&mut parser)?)?,
            Long("compare") => request.compare = Some(parser.value().map_err(|error| error.to_string())?),
            Long("fit") => request.fit = Some(text(&mut parser)?),
            Long("config") => {
                let file = parser.value().map_err(|error| error.to_string())?;
                let contents = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
                read_toml(&mut request.config, &contents).map_err(|why| format!("{}: {why}", file.display()))?;
            }
            Long(name) => {
                let name = name.to_owned();
                let value = text(&mut parser)?;
                set(&mut request.config, &name, &value)?;
            }
            other => return Err(format!("{}; --help lists all options", other.unexpected())),
        }
    }
    if request.fit.is_some() && request.compare.is_none() {
        return Err("--fit needs --compare, a file of what was measured".to_owned());
    }
    Ok(request)
}

fn help() -> String {
    let mut text = "Usage: haul-model [--config=FILE] [--PARAMETER=VALUE]... [--sweep=RANKS,... | --compare=FILE]\n\
        Simulates haul-mpi on a cluster; docs/cluster.md says how.\n\n\
        \x20 --config=FILE                 parameters from a TOML file; later words overrule it\n\
        \x20 --sweep=RANKS,...             a table of runs with these numbers of ranks\n\
        \x20 --compare=FILE                predictions beside measured times, lines of RANKS,SECONDS\n\
        \x20 --fit=PARAMETER               with --compare: first change cpu-per-file (or -byte, -directory) until the\n\
        \x20                               smallest number of ranks takes as long as measured\n\
        \x20 --csv                         tables as CSV, not as Markdown\n\n\
        Parameters, with their defaults where they are numbers:\n"
        .to_owned();
    for key in KEYS {
        writeln!(text, "  {:<30}{}", format!("--{}", key.name()), key.help).expect("writing to a string");
    }
    text.push_str("\nTimes take ns, us, ms and s; sizes and rates take K, M, G and T, powers of 1024.\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &[&str]) -> Result<String, String> {
        run(words.iter().map(OsString::from))
    }

    #[test]
    fn a_run_and_a_sweep_print_their_figures() {
        let run = said(&["--files=1000", "--ranks=2"]).unwrap();
        assert!(run.contains("ranks, nodes, threads of a rank   2, 2, 1"), "{run}");
        let sweep = said(&["--files=1000", "--sweep=1,2", "--csv"]).unwrap();
        assert_eq!(sweep.lines().count(), 3, "{sweep}");
    }

    #[test]
    fn mistakes_say_what_is_wrong() {
        for (words, expected) in [
            (&["--rank=2"][..], "no parameter rank"),
            (&["--ranks=0"], "ranks is 0"),
            (&["x"], "--help"),
            (&["--fit=cpu-per-file"], "--compare"),
            (&["--compare=/nowhere/times.csv"], "/nowhere/times.csv"),
        ] {
            let why = said(words).unwrap_err();
            assert!(why.contains(expected), "{words:?}: {why}");
        }
    }
}
