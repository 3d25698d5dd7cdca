//! The exit status: a function of how the run ended.

use std::ffi::OsStr;

use haul_copy::compare;
use haul_copy::run::Summary;
use signal_hook::consts::SIGPIPE;

/// All was done.
pub const SUCCESS: u8 = 0;
/// Something was not done.
pub const FAILURE: u8 = 1;

/// A comparison that could not be made, or not of everything; as with diff, 1 says that something differs.
pub const TROUBLE: u8 = 2;

/// The status after a comparison, of which all was written or not.
pub fn comparison(summary: &compare::Summary, written: bool) -> u8 {
    if summary.errors > 0 || summary.stopped || !written {
        TROUBLE
    } else if summary.differences > 0 {
        FAILURE
    } else {
        SUCCESS
    }
}

/// The status where the command line cannot be obeyed: who asks for a comparison must not take it for a difference.
pub fn misuse(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> u8 {
    // Also cut, as the parser takes it. What is shorter begins other options, too.
    let compares =
        |word: &OsStr| word.len() >= "--com".len() && "--compare".as_bytes().starts_with(word.as_encoded_bytes());
    if arguments.into_iter().any(|word| compares(word.as_ref())) { TROUBLE } else { FAILURE }
}

/// The status for a run that ended like this, after this signal, with or without a failure to write the output.
///
/// A run that a signal stopped gets 128 and the number of the signal, as shells have it. A signal that came when all
/// was done changes nothing, but that nobody has read what was printed.
pub fn status(summary: &Summary, signal: Option<i32>, output_failed: bool) -> u8 {
    let stops = |signal: &i32| summary.cancelled || *signal == SIGPIPE;
    let stopped = signal.filter(stops).and_then(|signal| u8::try_from(128 + signal).ok());
    match stopped {
        Some(status) => status,
        None if summary.failed || summary.cancelled || output_failed || !summary.damaged.is_empty() => FAILURE,
        None => SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn a_comparison_that_cannot_begin_is_no_difference() {
        for (word, status) in [("--compare", 2), ("--comp", 2), ("--com", 2), ("--compared", 1), ("--co", 1), ("-c", 1)]
        {
            assert_eq!(misuse([word, "a", "b"]), status, "{word}");
        }
    }

    #[test]
    fn a_comparison_ends_as_diff_does() {
        let summary = |differences, errors, stopped| compare::Summary { entries: 9, differences, errors, stopped };
        for (summary, written, expected) in [
            (summary(0, 0, false), true, 0),
            (summary(1, 0, false), true, 1),
            (summary(0, 1, false), true, 2),
            (summary(1, 1, false), true, 2),
            (summary(1, 0, true), true, 2),
            (summary(0, 0, false), false, 2),
        ] {
            assert_eq!(comparison(&summary, written), expected, "{summary:?} {written}");
        }
    }

    #[test]
    fn the_status_says_how_the_run_ended() {
        let fine = Summary::default();
        let failed = Summary { failed: true, ..Summary::default() };
        let cancelled = Summary { cancelled: true, failed: true, ..Summary::default() };
        let damaged = Summary { damaged: vec![PathBuf::from("a")], ..Summary::default() };
        for (summary, signal, output_failed, expected) in [
            (&fine, None, false, 0),
            (&fine, None, true, 1),
            (&failed, None, false, 1),
            (&damaged, None, false, 1),
            (&cancelled, None, false, 1),
            (&cancelled, Some(2), false, 130),
            (&cancelled, Some(15), true, 143),
            (&cancelled, Some(1), false, 129),
            (&fine, Some(2), false, 0),
        ] {
            assert_eq!(status(summary, signal, output_failed), expected, "{summary:?} {signal:?} {output_failed}");
        }
    }
}
