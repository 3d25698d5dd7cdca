//! `haul --compare`: reports how a copy differs from its source.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use haul_copy::compare::{self, Board, Difference, Found, Observer, Session, Summary};
use haul_copy::error::Error;
use haul_copy::plan::Plan;
use haul_copy::run::{self, Partials};
use haul_sys::inode::{DeviceNumber, Kind, Time};

use crate::exit;
use crate::quote::Quoter;
use crate::report::Report;
use crate::session::{session, xattr_rules};
use crate::show::Show;
use crate::words;

/// Other processes that help.
#[derive(Clone, Copy)]
pub struct Helped<'a> {
    /// Where they get names from.
    pub board: &'a Board,
    /// What is said of them at the end, if the user asks for more: whole lines.
    pub shares: &'a dyn Fn(&Summary) -> String,
}

/// Does it, with other processes if there are any. Returns the exit status.
pub fn compare(report: &Report, plan: &Plan, show: Show, helped: Option<Helped<'_>>) -> u8 {
    // A signal has its default effect: nothing was written.
    let survey = || run::list(plan, &session(report, plan, Partials::default(), Vec::new())).settle(plan);
    let names = plan.names.as_ref().map(|_| survey()).transpose();
    let nothing = names.is_err();
    let (list, errors) = match names {
        Ok(found) => found.map_or((None, 0), |(list, found)| (Some(list), found.errors)),
        Err(errors) => (None, errors),
    };
    let plan = &Plan { list, ..plan.clone() };
    let rules = xattr_rules(report, plan);
    let board = helped.map(|helped| helped.board);
    let session = Session { observer: &Printer(report), rules: &rules, stop: &|| false, board };
    let mut summary = if nothing { Summary::default() } else { compare::compare(plan, &session) };
    summary.errors += errors;
    if show.verbose {
        let errors = match summary.errors {
            0 => String::new(),
            errors => format!(", {errors} errors"),
        };
        let line = format!("{} entries compared, {} differences{errors}\n", summary.entries, summary.differences);
        let shares = helped.map_or_else(String::new, |helped| (helped.shares)(&summary));
        report.screen().print((line + &shares).as_bytes());
    }
    let written = report.finish();
    exit::comparison(&summary, written)
}

struct Printer<'a>(&'a Report);

impl Observer for Printer<'_> {
    fn differs(&self, found: &Found) {
        let mut line = text(found, self.0.quoter());
        line.push(b'\n');
        self.0.screen().print(&line);
    }

    fn problem(&self, error: &Error) {
        self.0.complain(&words::message(error, self.0.quoter()));
    }
}

/// A difference in one line.
fn text(found: &Found, quoter: &Quoter) -> Vec<u8> {
    let name = |text: &OsStr| quoter.always(text.as_bytes());
    let (source, copy) = (quoter.path(&found.source), quoter.path(&found.copy));
    let both = |what: Vec<u8>| [&source[..], b" and ", &copy, b" differ: ", &what].concat();
    match &found.difference {
        Difference::OnlyInSource => [b"only in the source: ", &source[..]].concat(),
        Difference::OnlyInCopy => [b"only in the copy: ", &copy[..]].concat(),
        Difference::Kind(one, other) => both(format!("{}, {}", kind(*one), kind(*other)).into()),
        Difference::Size(one, other) => both(format!("size {one}, {other}").into()),
        Difference::Contents(at) => both(format!("contents, from byte {at} on").into()),
        Difference::Target(one, other) => both([b"link to ", &name(one)[..], b", ", &name(other)].concat()),
        Difference::Node(one, other) => both(format!("device {}, {}", number(*one), number(*other)).into()),
        Difference::Mode(one, other) => both(format!("mode {one:04o}, {other:04o}").into()),
        Difference::Owner(one, other) => both(format!("owner {}:{}, {}:{}", one.0, one.1, other.0, other.1).into()),
        Difference::Modified(one, other) => both(format!("time {}, {}", time(*one), time(*other)).into()),
        Difference::Attribute(attribute) => both([b"attribute ", &name(attribute)[..]].concat()),
        Difference::NotLinked(first) => both([b"no hard link to ", &quoter.path(first)[..]].concat()),
        Difference::Same => {
            // The same sentence as where cp refuses.
            [&source[..], b" and ", &copy, b" are the same file, which is no copy"].concat()
        }
        Difference::Linked(first) => both([b"a hard link to ", &quoter.path(first)[..]].concat()),
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Regular => "regular file",
        Kind::Directory => "directory",
        Kind::SymbolicLink => "symbolic link",
        Kind::Fifo => "FIFO",
        Kind::Socket => "socket",
        Kind::CharacterDevice => "character device",
        Kind::BlockDevice => "block device",
        Kind::Unknown => "something unknown",
    }
}

fn number(node: DeviceNumber) -> String {
    format!("{}:{}", node.major, node.minor)
}

/// Seconds since 1970.
fn time(time: Time) -> String {
    format!("{}.{:09}", time.seconds, time.nanoseconds)
}
