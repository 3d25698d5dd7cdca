//! The exit status: a function of how the run ended.

use haul_copy::run::Summary;

/// All was done.
pub const SUCCESS: u8 = 0;
/// Something was not done.
pub const FAILURE: u8 = 1;

/// The status for a run that ended like this, after this signal, with or without a failure to write the output.
///
/// A run that a signal stopped gets 128 and the number of the signal, as shells have it. A signal that came when all
/// was done changes nothing.
pub fn status(summary: &Summary, signal: Option<i32>, output_failed: bool) -> u8 {
    let stopped = signal.filter(|_| summary.cancelled).and_then(|signal| u8::try_from(128 + signal).ok());
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
    fn the_status_tells_how_the_run_ended() {
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
