//! `haul-lab report`: saved results, shown.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use haul_measure::words::{self, quoted};

use super::{Page, baseline, csv, html, join, markdown, page, terminal};
use crate::results::Results;

/// The text of `haul-lab report --help`.
pub const HELP: &str = "\
Usage: haul-lab report [OPTION]... RESULTS...
Show what was measured: results.json of one folder, or of several. Of several
files, later ones add sections or replace them. Without an option that names a
file, the report is printed.

      --html=FILE       write one page that needs nothing else: for a browser,
                        a phone, or paper
      --markdown=FILE   write Markdown
      --csv=FILE        write all figures as one long list
      --baseline=FILE   say what is faster and what is slower than in these
                        results
      --width=N         columns of what is printed (default: the terminal's, or
                        100)

      --help            show this help and exit

Files are replaced as a whole, and never the results. A page, a table and a
sentence say the same: times are medians, ratios have intervals of 95 %.
";

/// What the user wants.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Files of results.
    pub inputs: Vec<PathBuf>,
    /// Where a page goes.
    pub html: Option<PathBuf>,
    /// Where Markdown goes.
    pub markdown: Option<PathBuf>,
    /// Where CSV goes.
    pub csv: Option<PathBuf>,
    /// Results to compare with.
    pub baseline: Option<PathBuf>,
    /// Columns of what is printed.
    pub width: Option<usize>,
    /// Only [`HELP`].
    pub help: bool,
}

/// Does what the words behind `haul-lab report` ask for, and gives what is to be printed. `columns` are those of the terminal,
/// if there is one.
pub fn run(arguments: impl IntoIterator<Item = OsString>, columns: Option<usize>) -> Result<String, String> {
    let request = parse(arguments)?;
    if request.help {
        return Ok(HELP.to_owned());
    }
    show(&request, columns)
}

/// Reads the words behind `haul-lab report`.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Request, String> {
    use lexopt::prelude::*;
    let mut parser = lexopt::Parser::from_args(arguments);
    let mut request = Request::default();
    let path = |parser: &mut lexopt::Parser| parser.value().map(PathBuf::from).map_err(|error| error.to_string());
    while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
        match argument {
            Long("help") => request.help = true,
            Long("html") => request.html = Some(path(&mut parser)?),
            Long("markdown") => request.markdown = Some(path(&mut parser)?),
            Long("csv") => request.csv = Some(path(&mut parser)?),
            Long("baseline") => request.baseline = Some(path(&mut parser)?),
            Long("width") => {
                let value = parser.value().map_err(|error| error.to_string())?;
                let width = value.to_str().and_then(|text| text.parse().ok());
                let width = width.filter(|width| (terminal::NARROWEST..=terminal::WIDEST).contains(width));
                request.width = Some(width.ok_or_else(|| format!("invalid argument {value:?} for '--width'"))?);
            }
            Value(path) => request.inputs.push(PathBuf::from(path)),
            other => return Err(other.unexpected().to_string()),
        }
    }
    if request.inputs.is_empty() && !request.help {
        return Err("missing operand: a file of results".to_owned());
    }
    Ok(request)
}

/// What is printed where the user wants no files.
const WIDTH: usize = 100;

fn show(request: &Request, columns: Option<usize>) -> Result<String, String> {
    let mut files = Vec::new();
    for input in &request.inputs {
        files.push((input.display().to_string(), Results::load(input)?));
    }
    let old = request.baseline.as_deref().map(Results::load).transpose()?;
    let (results, notes) = join::join(files)?;
    let mut page = page(&results);
    page.notes.splice(0..0, notes);
    if let (Some(old), Some(path)) = (&old, &request.baseline) {
        let compared = baseline::view(old, &results)
            .ok_or_else(|| format!("{} has no case in common with these results", quoted(path)))?;
        put_first(&mut page, compared);
    }
    let outputs: [(&Option<PathBuf>, &dyn Fn() -> String); 3] = [
        (&request.html, &|| html::page(&page)),
        (&request.markdown, &|| markdown::page(&page)),
        (&request.csv, &|| csv::page(&page.views, &results)),
    ];
    let wanted = || outputs.iter().filter_map(|(path, make)| Some((path.as_deref()?, make)));
    // All of them before the first is written.
    for (path, _) in wanted() {
        refuse_input(path, request)?;
    }
    for (path, make) in wanted() {
        replace(path, make().as_bytes())
            .map_err(|error| format!("cannot write {}: {}", quoted(path), words::of(&error)))?;
    }
    match wanted().next() {
        Some(_) => Ok(String::new()),
        None => Ok(terminal::page(&page, request.width.or(columns).unwrap_or(WIDTH))),
    }
}

fn put_first(page: &mut Page, view: crate::view::View) {
    let words = view.summary.first().cloned().unwrap_or_default();
    page.summary.insert(0, (view.name.clone(), words));
    let missing = view.not_measured.iter().map(|reason| (view.title.clone(), reason.clone()));
    page.not_measured.splice(0..0, missing);
    page.views.insert(0, view);
}

/// Results are not overwritten by what is made of them, under whatever name.
fn refuse_input(output: &Path, request: &Request) -> Result<(), String> {
    let Ok(there) = fs::metadata(output) else { return Ok(()) };
    let identity = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino());
    for input in request.inputs.iter().chain(&request.baseline) {
        if fs::metadata(input).is_ok_and(|input| identity(&input) == identity(&there)) {
            return Err(format!("{} is one of the results, and is not overwritten", quoted(output)));
        }
    }
    if !there.is_file() {
        return Err(format!("{} is no regular file, and is not replaced", quoted(output)));
    }
    Ok(())
}

/// Writes a file anew: at any instant it holds the old text or the new. What is left of it is removed after a failure.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    // A link stays, and what it leads to is replaced.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = (|| {
        let mut file = File::options().write(true).create_new(true).open(&temporary)?;
        file.write_all(text)?;
        file.sync_data()?;
        fs::rename(&temporary, &path)
    })();
    if written.is_err() {
        // The first error is the one to report.
        fs::remove_file(&temporary).unwrap_or_default();
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Request, String> {
        parse(arguments.iter().map(OsString::from))
    }

    #[test]
    fn options_may_stand_anywhere_and_what_is_not_understood_is_refused() {
        let request = parsed(&["a.json", "--html", "x.html", "b.json", "--width=80"]).unwrap();
        assert_eq!(request.inputs, [PathBuf::from("a.json"), PathBuf::from("b.json")]);
        assert_eq!((request.html, request.width), (Some("x.html".into()), Some(80)));
        for (arguments, expected) in [
            (&[][..], "missing operand: a file of results"),
            (&["a", "--width=7"], "invalid argument \"7\" for '--width'"),
            (&["a", "--pdf=b"], "invalid option '--pdf'"),
        ] {
            assert_eq!(parsed(arguments), Err(expected.to_owned()));
        }
    }
}
