//! The line at the end of a run that somebody has watched.

use std::time::Duration;

use haul_copy::run::Summary;

use crate::size::human_size;

/// What was copied, how fast, and what did not have to be: one line.
pub fn summary_line(summary: &Summary, wall: Duration) -> String {
    let stats = &summary.stats;
    let files = stats.regular + stats.symbolic_links + stats.hard_links + stats.special;
    let bytes = stats.moved.total();
    let seconds = wall.as_secs_f64();
    let rate = match bytes {
        0 => String::new(),
        // Far below 2^63.
        bytes => format!(" ({}/s)", human_size((bytes as f64 / seconds.max(1e-3)) as u64)),
    };
    let stopped = if summary.cancelled { "stopped: " } else { "" };
    let mut line = format!("{stopped}{}, {} in {}{rate}", count(files, "file"), human_size(bytes), time(seconds));
    let shared = stats.moved.cloned;
    if shared > 0 {
        line += &format!(", {} shared", human_size(shared));
    }
    for (number, what) in [
        (stats.cloned_trees, "trees cloned"),
        (stats.renamed, "renamed"),
        (stats.removed, "sources removed"),
        (stats.skipped.saturating_sub(stats.offline), "skipped"),
        (stats.offline, "offline"),
        (stats.excluded, "excluded"),
        (stats.deleted_files + stats.deleted_directories, "deleted"),
        (stats.resumed_files, "finished by an earlier run"),
    ] {
        if number > 0 {
            line += &format!(", {number} {what}");
        }
    }
    for (number, what) in [(stats.errors, "error"), (stats.warnings, "warning")] {
        if number > 0 {
            line += &format!(", {}", count(number, what));
        }
    }
    line + "\n"
}

fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn time(seconds: f64) -> String {
    if seconds < 1.0 {
        return format!("{seconds:.3} s");
    }
    if seconds < 59.95 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02} min") }
}

#[cfg(test)]
mod tests {
    use haul_copy::stats::Stats;
    use haul_io::moved::Moved;

    use super::*;

    #[test]
    fn the_line_names_only_what_there_was() {
        let moved = |cloned, written| Moved { cloned, written, ..Moved::default() };
        for (stats, cancelled, millis, expected) in [
            (
                Stats { regular: 1, moved: moved(0, 5), ..Stats::default() },
                false,
                2,
                "1 file, 5 B in 0.002 s (2.4 KiB/s)",
            ),
            (
                Stats { regular: 2, hard_links: 1, symbolic_links: 4, special: 1, ..Stats::default() },
                false,
                1500,
                "8 files, 0 B in 1.5 s",
            ),
            (
                Stats { regular: 3, moved: moved(1 << 20, 1 << 20), skipped: 2, excluded: 1, ..Stats::default() },
                false,
                125_000,
                "3 files, 2.0 MiB in 2:05 min (16.4 KiB/s), 1.0 MiB shared, 2 skipped, 1 excluded",
            ),
            (
                Stats { resumed_files: 7, errors: 1, warnings: 2, ..Stats::default() },
                true,
                3_725_000,
                "stopped: 0 files, 0 B in 1:02:05, 7 finished by an earlier run, 1 error, 2 warnings",
            ),
        ] {
            let summary = Summary { stats, cancelled, ..Summary::default() };
            assert_eq!(summary_line(&summary, Duration::from_millis(millis)), expected.to_owned() + "\n");
        }
    }
}
