//! `haul-lab report`: saved results, shown.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use haul_measure::words::{self, quoted};

use super::answer::{Answer, Complaint};
use super::map::width;
use crate::map::terminal::Screen;
use crate::report::{Page, baseline, csv, html, join, markdown, page, terminal};
use crate::results::{Results, replace};

#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    inputs: Vec<PathBuf>,
    html: Option<PathBuf>,
    markdown: Option<PathBuf>,
    csv: Option<PathBuf>,
    baseline: Option<PathBuf>,
    width: Option<usize>,
}

/// Shows what the words behind `haul-lab report` ask for.
pub fn run(words: Vec<OsString>) -> Result<Answer, Complaint> {
    let request = parse(words).map_err(|error| Complaint::Failed(error.to_string()))?;
    Ok(Answer::done(show(&request, Screen::here().columns)?))
}

fn parse(words: Vec<OsString>) -> Result<Request, lexopt::Error> {
    use lexopt::prelude::*;
    let mut parser = lexopt::Parser::from_args(words);
    let mut request = Request::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("html") => request.html = Some(parser.value()?.into()),
            Long("markdown") => request.markdown = Some(parser.value()?.into()),
            Long("csv") => request.csv = Some(parser.value()?.into()),
            Long("baseline") => request.baseline = Some(parser.value()?.into()),
            Long("width") => request.width = Some(width(&mut parser, terminal::NARROWEST..=terminal::WIDEST)?),
            Value(path) => request.inputs.push(path.into()),
            other => return Err(other.unexpected()),
        }
    }
    if request.inputs.is_empty() {
        return Err("missing operand: a file of results".into());
    }
    Ok(request)
}

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
        replace(path, make().as_bytes()).map_err(words::cannot("write", path))?;
    }
    match wanted().next() {
        Some(_) => Ok(String::new()),
        None => Ok(terminal::page(&page, request.width.or(columns))),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Request, String> {
        parse(arguments.iter().map(OsString::from).collect()).map_err(|error| error.to_string())
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
