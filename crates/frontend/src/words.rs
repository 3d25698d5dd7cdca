//! The words of messages: what the library reports, in GNU's sentences.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_copy::error::{Error, What};
use haul_copy::events::{DataReport, HoleSearch, Question, Tried};
use haul_copy::filter::Rule;
use haul_copy::images::ImageReport;
use haul_copy::plan::{EngineName, Reflink};
use haul_io::moved::{Moved, Refusal};
use haul_io::profile::Stripes;
use haul_sys::Errno;

use crate::errno::strerror;
use crate::quote::Quoter;
use crate::size::human_size;

/// The text for an error of the standard library, which may not come from the system.
pub fn io_error(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => strerror(Errno::from_raw_os_error(number)),
        None => error.to_string(),
    }
}

/// A message of the library, without the program's name and the end of the line.
pub fn message(error: &Error, quoter: &Quoter) -> Vec<u8> {
    let mut text = fill(error, quoter);
    if let Some(errno) = error.errno {
        text.extend(b": ");
        text.extend(strerror(errno).as_bytes());
    }
    text
}

fn fill(error: &Error, quoter: &Quoter) -> Vec<u8> {
    let mut text = Vec::new();
    let mut rest = error.what.template();
    while let Some((before, after)) = rest.split_once('{') {
        text.extend(before.as_bytes());
        let (place, after) = after.split_once('}').unwrap_or((after, ""));
        text.extend(match place {
            "path" => quoter.path(&error.path),
            "plain" => quoter.if_needed(error.path.as_os_str().as_bytes()),
            "other" => quoter.path(&error.other),
            _ => error.detail.as_bytes().to_vec(),
        });
        rest = after;
    }
    text.extend(rest.as_bytes());
    text
}

/// A file that the user named cannot be used: `cannot read the file list 'l': Permission denied`.
pub(crate) fn unusable(what: &str, path: &Path, why: &str, quoter: &Quoter) -> Vec<u8> {
    let path = quoter.path(path);
    [what.as_bytes(), b" ", &path, b": ", why.as_bytes()].concat()
}

/// A pattern that has matched nothing, or nothing that those before it have left.
pub(crate) fn idle_rule(rule: &Rule, quoter: &Quoter) -> Vec<u8> {
    let what: &[u8] = if rule.include { b"include " } else { b"exclude " };
    [what, &quoter.always(rule.pattern.as_bytes()), b": has decided about no entry\n"].concat()
}

/// A list cannot be written; `what`: which one.
pub fn cannot_write(what: &str, path: &Path, error: &std::io::Error, quoter: &Quoter) -> Vec<u8> {
    unusable(&format!("cannot write the {what}"), path, &io_error(error), quoter)
}

/// A file is neither the old nor the new one.
pub fn damaged(path: &Path, quoter: &Quoter) -> Vec<u8> {
    message(&Error::new(What::Damaged, path), quoter)
}

/// Whether a warning says nothing of how good the copy is.
pub(crate) fn is_hint(what: What) -> bool {
    matches!(what, What::SourceTwice | What::SourceDirectoryTwice | What::HolesReadAgain)
}

/// How to go on, and where what is done is written down.
pub fn resume_hint(journal: &Path, quoter: &Quoter) -> Vec<u8> {
    let journal = quoter.path(journal);
    [b"incomplete; run the same command again to resume (journal: ", &journal[..], b")"].concat()
}

/// `'a' -> 'b'`.
pub(crate) fn arrow(source: &Path, dest: &Path, quoter: &Quoter) -> Vec<u8> {
    [&quoter.path(source), &b" -> "[..], &quoter.path(dest)].concat()
}

/// What is asked before a file is replaced.
pub fn question(question: &Question<'_>, quoter: &Quoter) -> Vec<u8> {
    let dest = quoter.path(question.dest);
    let mode = question.inode.permissions;
    let letters = permission_letters(mode);
    let (before, after) = match (question.writable, question.replaces) {
        (true, _) => ("overwrite ", "? ".to_owned()),
        (false, true) => ("replace ", format!(", overriding mode {mode:04o} ({letters})? ")),
        (false, false) => ("unwritable ", format!(" (mode {mode:04o}, {letters}); try anyway? ")),
    };
    [before.as_bytes(), &dest, after.as_bytes()].concat()
}

/// Permission bits as ls shows them, without the type: `rwxr-xr-x`.
fn permission_letters(mode: u32) -> String {
    let special = [(0o4000, 's', 'S'), (0o2000, 's', 'S'), (0o1000, 't', 'T')];
    let mut letters = String::new();
    for (index, (bit, with_execute, without)) in special.into_iter().enumerate() {
        let bits = mode >> (6 - 3 * index);
        letters.push(if bits & 4 != 0 { 'r' } else { '-' });
        letters.push(if bits & 2 != 0 { 'w' } else { '-' });
        letters.push(match (mode & bit != 0, bits & 1 != 0) {
            (true, true) => with_execute,
            (true, false) => without,
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    letters
}

/// The line of `--debug`, in the words of GNU cp 9.2 and later.
pub(crate) fn debug_line(report: &DataReport<'_>, reflink: Reflink) -> String {
    let tried = |engine| report.tried.iter().find(|tried| tried.engine == engine);
    let outcome = |tried: Option<&Tried>, moved: bool| match tried {
        Some(_) if moved => Some("yes"),
        Some(Tried { refused: Some(_), .. }) => Some("unsupported"),
        _ => None,
    };
    let cloned = report.moved.cloned > 0;
    let clone = tried(EngineName::Clone);
    let range = tried(EngineName::CopyRange);
    let offload = outcome(range, range.is_some_and(|tried| tried.moved.total() > 0));
    let avoided = if report.moved.written > 0 { "avoided" } else { "unknown" };
    let reflink = match outcome(clone, cloned) {
        Some(outcome) => outcome,
        None if cloned => "yes",
        None if reflink == Reflink::Never => "no",
        None => "unknown",
    };
    let sparse = match report.holes {
        HoleSearch::None if cloned => "unknown",
        HoleSearch::None => "no",
        HoleSearch::Seek => "SEEK_HOLE",
        HoleSearch::Zeros => "zeros",
        HoleSearch::SeekAndZeros => "SEEK_HOLE + zeros",
    };
    format!("copy offload: {}, reflink: {reflink}, sparse detection: {sparse}\n", offload.unwrap_or(avoided))
}

/// The lines of `--explain` for one file.
pub(crate) fn explanation(report: &DataReport<'_>, quoter: &Quoter) -> Vec<u8> {
    let mut text = arrow(&report.source, &report.dest, quoter);
    let seconds = report.time.as_secs_f64();
    text.extend(format!(": {} in {seconds:.6} s", human_size(report.moved.total())).as_bytes());
    text.push(b'\n');
    for tried in report.tried.iter() {
        text.extend(format!("  {}: {}\n", tried.engine, tried_words(tried)).as_bytes());
    }
    if let Some((setting, origin)) = &report.profile {
        let origin = quoter.always(origin.as_bytes());
        text.extend([b"  profile ", &origin[..], format!(": {setting}\n").as_bytes()].concat());
    }
    if report.workers > 1 {
        text.extend(format!("  workers: up to {}\n", report.workers).as_bytes());
    }
    let holes = match report.holes {
        HoleSearch::None => "not looked for",
        HoleSearch::Seek => "looked for with SEEK_HOLE",
        HoleSearch::Zeros => "looked for as runs of zeros",
        HoleSearch::SeekAndZeros => "looked for with SEEK_HOLE and as runs of zeros",
    };
    text.extend(format!("  holes: {holes}\n").as_bytes());
    for reason in report.reasons.iter() {
        text.extend(format!("  because {reason}\n").as_bytes());
    }
    if let Some(image) = &report.image {
        text.extend(image_words(image));
    }
    text
}

/// The line of `--explain` for a new file on Lustre.
pub(crate) fn striped(dest: &Path, stripes: Option<&Stripes>, profile: &str, quoter: &Quoter) -> Vec<u8> {
    let how = stripes.map_or_else(|| "striped as its source".to_owned(), ToString::to_string);
    let profile = quoter.always(profile.as_bytes());
    [&quoter.path(dest)[..], b": ", how.as_bytes(), b", as profile ", &profile, b" says\n"].concat()
}

/// What is known of a disk image, region by region.
fn image_words(image: &ImageReport) -> Vec<u8> {
    let head = match (&image.whole, image.container) {
        (Some(why), _) => format!("  disk image, copied whole: {why}\n"),
        (None, Some(format)) => {
            let (skipped, free) = (human_size(image.skipped), human_size(image.free));
            format!(
                "  {format} container, kept: {skipped} of the {free} that are free in its disk were there, and not read\n"
            )
        }
        (None, None) => {
            let (skipped, size) = (human_size(image.skipped), human_size(image.size));
            format!("  disk image: {skipped} of {size} are free and were not read\n")
        }
    };
    let mut text = head.into_bytes();
    for region in &image.regions {
        // A guest chooses the names of volumes, and must not command the terminal by them.
        let place: String = region.place.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect();
        let kind = region.filesystem.map(|kind| format!("{kind}, ")).unwrap_or_default();
        let reason = region.reason.as_ref().map(|reason| format!(", {reason}")).unwrap_or_default();
        let sizes = format!("{} used, {} free", human_size(region.used), human_size(region.free));
        text.extend(format!("    {place}: {kind}{}{reason}; {sizes}\n", region.verdict).as_bytes());
    }
    if let Some(why) = &image.copied_after_all {
        text.extend(format!("    what was free was copied after all: {why}\n").as_bytes());
    }
    text
}

fn tried_words(tried: &Tried) -> String {
    let moved = ways(&tried.moved);
    match (tried.refused, moved.is_empty()) {
        (None, true) => "nothing to move".to_owned(),
        (None, false) => moved,
        (Some(refusal), true) => format!("refused: {}", refusal_words(refusal)),
        (Some(refusal), false) => format!("{moved}, then refused: {}", refusal_words(refusal)),
    }
}

/// The bytes of each way that has any.
pub fn ways(moved: &Moved) -> String {
    let ways = [
        (moved.cloned, "shared"),
        (moved.offloaded, "copied in the kernel"),
        (moved.written, "read and written"),
        (moved.holes, "of holes"),
    ];
    let used = ways.iter().filter(|(bytes, _)| *bytes > 0);
    used.map(|(bytes, way)| format!("{} {way}", human_size(*bytes))).collect::<Vec<_>>().join(", ")
}

fn refusal_words(refusal: Refusal) -> String {
    match refusal {
        Refusal::Unsupported(errno) => format!("not supported here ({})", strerror(errno)),
        Refusal::NoProgress => "moved nothing although there is more".to_owned(),
        Refusal::Misaligned => "offset or length does not suit it".to_owned(),
        Refusal::NoAnswer => "no answer came in time".to_owned(),
        Refusal::NotSeekable => "one of the files has no offsets".to_owned(),
        Refusal::BlindToBytes => "the bytes must be looked at, and it does not see them".to_owned(),
        Refusal::NoDirectIo => "direct I/O is not possible on either side".to_owned(),
    }
}
