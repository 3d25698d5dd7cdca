//! The progress bar as text: how fast a run is, how long it will take, and which fields fit the terminal. How far the run is,
//! and what time it is, come from outside.

use std::time::Duration;

use crate::size::human_size;

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Phase {
    /// It looks what there is.
    #[default]
    Scanning,
    /// It moves bytes.
    Copying,
    /// All bytes are moved; it waits for devices.
    Syncing,
    /// It reads again what it has copied.
    Verifying,
    /// It removes what the source does not have, or sources that were moved.
    Deleting,
}

impl Phase {
    /// The word for it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Phase::Scanning => "scanning",
            Phase::Copying => "copying",
            Phase::Syncing => "syncing",
            Phase::Verifying => "verifying",
            Phase::Deleting => "deleting",
        }
    }
}

/// Bytes and entries, of a part or of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Bytes of regular files.
    pub bytes: u64,
    /// Entries of all kinds.
    pub entries: u64,
}

/// How far a run is at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Moment {
    /// What it is doing.
    pub phase: Phase,
    /// What is as the user has asked for: with `--durable` and `--verify` only what is synced and compared.
    pub done: Totals,
    /// Bytes that are at the destination.
    pub moved: u64,
    /// Those of them that were there before, or need not come.
    pub spared: u64,
    /// Entries that were removed.
    pub deleted: u64,
    /// Bytes count as done later than they are moved, and many at a time.
    pub in_bursts: bool,
    /// All that there is to do, if that is known.
    pub all: Option<Totals>,
}

/// An entry takes about as long as so many bytes.
const ENTRY: f64 = 65536.0;

impl Moment {
    /// What was done, in bytes: moving one is half of it where that is not all that was asked for.
    fn work(&self) -> f64 {
        (self.moved as f64 + self.done.bytes as f64) / 2.0 + ENTRY * self.done.entries as f64
    }

    /// The same without what took no time.
    fn paid_work(&self) -> f64 {
        let paid = |bytes: u64| bytes.saturating_sub(self.spared) as f64;
        (paid(self.moved) + paid(self.done.bytes)) / 2.0 + ENTRY * self.done.entries as f64
    }

    /// What is left to do.
    fn rest(&self) -> Option<f64> {
        let all = self.all?;
        Some((all.bytes as f64 + ENTRY * all.entries as f64 - self.work()).max(0.0))
    }
}

/// How fast a run is, with the last seconds weighing most.
#[derive(Debug, Default)]
pub struct Rate {
    time: Duration,
    moved: f64,
    /// Bytes per second.
    bytes: Option<f64>,
    /// The same of the work, which has its own time: while a run waits for devices nobody sees how much they do.
    work_time: Duration,
    worked: f64,
    work: Option<f64>,
}

/// What a [`Rate`] says.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Speed {
    /// Bytes moved per second.
    pub bytes: f64,
    /// The time left.
    pub left: Option<Duration>,
}

impl Rate {
    /// Takes in how far the run is after so much time.
    pub(crate) fn update(&mut self, time: Duration, moment: &Moment) -> Speed {
        /// In seconds: how far back the shown rate and the estimate look. Files are synced in bursts, which must not show.
        const SHOWN: f64 = 3.0;
        const PLAIN: f64 = 15.0;
        const IN_BURSTS: f64 = 30.0;
        /// Nobody waits for centuries.
        const LONGEST: f64 = 1e10;
        let moved = moment.moved.saturating_sub(moment.spared) as f64;
        self.bytes = smooth(self.bytes, (self.moved, moved), (self.time, time), SHOWN);
        (self.time, self.moved) = (time, moved);
        let worked = moment.paid_work();
        let waits = !matches!(moment.phase, Phase::Scanning | Phase::Copying) && worked <= self.worked;
        if !waits {
            let memory = if moment.in_bursts { IN_BURSTS } else { PLAIN };
            self.work = smooth(self.work, (self.worked, worked), (self.work_time, time), memory);
            (self.work_time, self.worked) = (time, worked);
        }
        let left = self.work.filter(|rate| *rate >= 1.0).zip(moment.rest()).map(|(rate, rest)| rest / rate);
        // How much there is to delete nobody knows.
        let left = left.filter(|seconds| *seconds < LONGEST && moment.phase != Phase::Deleting);
        let left = left.map(Duration::from_secs_f64);
        Speed { bytes: self.bytes.unwrap_or(0.0), left }
    }
}

/// A rate per second that remembers about so many seconds; until those are over it is the mean since the start.
fn smooth(before: Option<f64>, done: (f64, f64), time: (Duration, Duration), memory: f64) -> Option<f64> {
    let seconds = time.1.saturating_sub(time.0).as_secs_f64();
    if seconds <= 0.0 {
        return before;
    }
    let now = (done.1 - done.0).max(0.0) / seconds;
    let weight = (seconds / (seconds + memory)).max(seconds / time.1.as_secs_f64());
    Some(before.map_or(now, |before| before + weight * (now - before)))
}

/// The fields in the order in which they are dropped where the line is too short. The time left stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Field {
    LongBar,
    Files,
    Bar,
    Bytes,
    Phase,
    Rate,
    Share,
    Left,
}

/// In the order of dropping.
const FIELDS: [Field; 8] =
    [Field::LongBar, Field::Files, Field::Bar, Field::Bytes, Field::Phase, Field::Rate, Field::Share, Field::Left];

/// The numbers of the bar in at most so many columns; ASCII only.
pub(crate) fn numbers(moment: &Moment, speed: &Speed, columns: usize) -> String {
    let fits = |line: &String| line.len() <= columns;
    let mut lines = FIELDS.iter().map(|first| with_fields(moment, speed, *first));
    lines.find(fits).unwrap_or_else(|| {
        let mut line = with_fields(moment, speed, Field::Left).trim_end_matches(" left").to_owned();
        line.truncate(columns);
        line
    })
}

/// The line with this field and those that are dropped after it.
fn with_fields(moment: &Moment, speed: &Speed, first: Field) -> String {
    let has = |field: Field| field >= first;
    let mut line = String::new();
    let mut add = |gap: &str, text: &str| {
        if !line.is_empty() {
            line.push_str(gap);
        }
        line.push_str(text);
    };
    if has(Field::Phase) {
        add("", moment.phase.as_str());
    }
    if let Some(all) = moment.all {
        if has(Field::Bar) {
            add(" ", &bar(moment, all, if has(Field::LongBar) { 20 } else { 10 }));
        }
        if has(Field::Share) {
            add(" ", &format!("{:3.0}%", (100.0 * share(moment.done.bytes, &moment.done, all)).floor()));
        }
    }
    if moment.phase == Phase::Deleting {
        if has(Field::Rate) {
            add("  ", &format!("{} deleted", moment.deleted));
        }
        return line;
    }
    if has(Field::Bytes) {
        add("  ", &pair(moment.done.bytes, moment.all.map(|all| all.bytes)));
    }
    if has(Field::Files) {
        let all = moment.all.map_or_else(String::new, |all| format!("/{}", all.entries));
        add("  ", &format!("{}{all} files", moment.done.entries));
    }
    if has(Field::Rate) {
        // Rates are positive and far below 2^63.
        add("  ", &format!("{}/s", human_size(speed.bytes as u64)));
    }
    if moment.all.is_some() {
        let left = speed.left.map_or_else(|| "-:--".to_owned(), clock);
        add("  ", &format!("{left} left"));
    }
    line
}

/// How much of all that is: by bytes, or by entries if none of them has any.
fn share(bytes: u64, done: &Totals, all: Totals) -> f64 {
    let (part, whole) = if all.bytes > 0 { (bytes, all.bytes) } else { (done.entries, all.entries.max(1)) };
    (part as f64 / whole as f64).clamp(0.0, 1.0)
}

/// `#` is what is done, `=` what was moved beyond that.
fn bar(moment: &Moment, all: Totals, width: usize) -> String {
    let filled = |bytes| (share(bytes, &moment.done, all) * width as f64) as usize;
    let done = filled(moment.done.bytes);
    let moved = filled(moment.moved).max(done) - done;
    format!("[{}{}{}]", "#".repeat(done), "=".repeat(moved), "-".repeat(width - done - moved))
}

/// `1.0/2.0 MiB`, with one unit where both have the same.
fn pair(part: u64, whole: Option<u64>) -> String {
    let part = human_size(part);
    let Some(whole) = whole.map(human_size) else { return part };
    match (part.split_once(' '), whole.split_once(' ')) {
        (Some((number, unit)), Some((_, of))) if unit == of => format!("{number}/{whole}"),
        _ => format!("{part}/{whole}"),
    }
}

/// A time as hours, minutes and seconds.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn copying(bytes: u64, entries: u64, all: Option<(u64, u64)>) -> Moment {
        let all = all.map(|(bytes, entries)| Totals { bytes, entries });
        Moment { phase: Phase::Copying, done: Totals { bytes, entries }, moved: bytes, all, ..Moment::default() }
    }

    #[test]
    fn fields_are_dropped_one_by_one_and_the_time_left_is_the_last() {
        let moment = copying(25 * MIB, 7, Some((100 * MIB, 10)));
        let speed = Speed { bytes: MIB as f64, left: Some(Duration::from_secs(75)) };
        for (columns, expected) in [
            (200, "copying [#####---------------]  25%  25.0/100.0 MiB  7/10 files  1.0 MiB/s  1:15 left"),
            (85, "copying [#####---------------]  25%  25.0/100.0 MiB  7/10 files  1.0 MiB/s  1:15 left"),
            (84, "copying [##--------]  25%  25.0/100.0 MiB  7/10 files  1.0 MiB/s  1:15 left"),
            (79, "copying [##--------]  25%  25.0/100.0 MiB  7/10 files  1.0 MiB/s  1:15 left"),
            (74, "copying [##--------]  25%  25.0/100.0 MiB  1.0 MiB/s  1:15 left"),
            (60, "copying  25%  25.0/100.0 MiB  1.0 MiB/s  1:15 left"),
            (39, "copying  25%  1.0 MiB/s  1:15 left"),
            (33, " 25%  1.0 MiB/s  1:15 left"),
            (25, " 25%  1:15 left"),
            (14, "1:15 left"),
            (8, "1:15"),
            (2, "1:"),
            (0, ""),
        ] {
            assert_eq!(numbers(&moment, &speed, columns), expected, "{columns}");
        }
    }

    #[test]
    fn on_80_and_40_columns_the_longest_numbers_leave_the_time_left() {
        let moment = copying(1023 * MIB - 1, 99_999_999, Some((MIB << 20, 100_000_000)));
        let speed = Speed { bytes: 1023.9 * MIB as f64, left: Some(Duration::from_secs(359_999)) };
        for (columns, expected) in [
            (79, "copying [----------]   0%  1023.0 MiB/1.0 TiB  1023.9 MiB/s  99:59:59 left"),
            (39, "  0%  1023.9 MiB/s  99:59:59 left"),
        ] {
            assert_eq!(numbers(&moment, &speed, columns), expected, "{columns}");
        }
    }

    #[test]
    fn of_what_is_deleted_the_number_is_shown_and_no_time() {
        let moment = Moment { phase: Phase::Deleting, deleted: 1234, ..copying(MIB, 10, Some((MIB, 10))) };
        let speed = Speed { bytes: MIB as f64, left: Some(Duration::ZERO) };
        for (columns, expected) in [
            (80, "deleting [####################] 100%  1234 deleted"),
            (40, "deleting [##########] 100%  1234 deleted"),
            (30, "deleting 100%  1234 deleted"),
            (20, "100%  1234 deleted"),
            (5, "100%"),
            (3, ""),
        ] {
            assert_eq!(numbers(&moment, &speed, columns), expected, "{columns}");
        }
        let line = numbers(&Moment { all: None, ..moment }, &speed, 80);
        assert_eq!(line, "deleting  1234 deleted");
    }

    #[test]
    fn without_totals_nothing_is_said_of_the_time_left() {
        let line = numbers(&copying(3 * MIB, 7, None), &Speed { bytes: MIB as f64, left: None }, 80);
        assert_eq!(line, "copying  3.0 MiB  7 files  1.0 MiB/s");
    }

    #[test]
    fn what_is_moved_and_not_done_is_shown_apart_and_is_not_counted() {
        let mut moment = Moment { moved: 75 * MIB, ..copying(50 * MIB, 7, Some((100 * MIB, 10))) };
        let speed = Speed::default();
        let line = numbers(&moment, &speed, 100);
        assert!(line.starts_with("copying [##########=====-----]  50%  50.0/100.0 MiB "), "{line}");
        (moment.moved, moment.done.bytes, moment.phase) = (100 * MIB, 100 * MIB - 1, Phase::Syncing);
        let line = numbers(&moment, &speed, 100);
        assert!(line.starts_with("syncing [###################=]  99% "), "{line}");
    }

    #[test]
    fn files_without_bytes_count_by_their_number() {
        let line = numbers(&copying(0, 3, Some((0, 4))), &Speed::default(), 100);
        assert_eq!(line, "copying [###############-----]  75%  0/0 B  3/4 files  0 B/s  -:-- left");
    }

    #[test]
    fn times_are_read_as_on_a_clock() {
        for (seconds, text) in [(0.0, "0:00"), (0.2, "0:01"), (59.5, "1:00"), (3725.0, "1:02:05")] {
            assert_eq!(clock(Duration::from_secs_f64(seconds)), text);
        }
    }

    /// The estimates, in seconds, of a run that is here after each fifth of a second, from the first second on.
    fn estimates(steps: u32, at: impl Fn(f64) -> Moment) -> Vec<(f64, f64)> {
        let mut rate = Rate::default();
        let times = (5..=steps).map(|step| Duration::from_secs(1) * step / 5);
        let estimate = |time: Duration| (time.as_secs_f64(), rate.update(time, &at(time.as_secs_f64())).left);
        times.map(estimate).filter_map(|(time, left)| Some((time, left?.as_secs_f64()))).collect()
    }

    #[test]
    fn of_a_steady_copy_the_estimate_is_right_from_the_first_one_on() {
        let at = |time: f64| copying((time * 1e6) as u64, 1, Some((100_000_000, 1)));
        for (time, left) in estimates(450, at) {
            // The entry itself is worth some bytes, which are over at once.
            assert!((left - (100.0 - time)).abs() < 7.0, "{left} s left at {time} s");
        }
    }

    #[test]
    fn small_files_and_large_ones_one_after_the_other_do_not_turn_the_estimate_over() {
        // 10,000 files of 1 KiB in 10 s, then 640 MiB in 10 s.
        let at = |time: f64| {
            let small = (time.min(10.0) * 1000.0) as u64;
            let large = ((time - 10.0).max(0.0) * 64.0 * MIB as f64) as u64;
            copying((small << 10) + large, small, Some(((10_000 << 10) + 640 * MIB, 10_001)))
        };
        for (time, left) in estimates(95, at) {
            assert!((left - (20.0 - time)).abs() < 2.0, "{left} s left at {time} s");
        }
    }

    #[test]
    fn no_estimate_jumps_where_a_copy_comes_in_bursts() {
        // 40 MB each two seconds, of 4 GB.
        let at = |time: f64| copying((time / 2.0).floor() as u64 * 40_000_000, 1, Some((4_000_000_000, 1)));
        let estimates = estimates(500, at);
        for pair in estimates.iter().filter(|(time, _)| *time > 20.0).collect::<Vec<_>>().windows(2) {
            let (before, after) = (pair[0].1, pair[1].1);
            assert!((after - before).abs() < 0.2 * before, "from {before} to {after} s at {} s", pair[1].0);
        }
    }

    #[test]
    fn where_bytes_count_when_they_are_synced_the_estimate_has_that_in_it() {
        // Synced in bursts of 100 MB, which the copy is not slower for.
        let at = |time: f64| {
            let moved = (time * 50e6) as u64;
            Moment { moved, in_bursts: true, ..copying(moved / 100_000_000 * 100_000_000, 1, Some((5_000_000_000, 1))) }
        };
        for (time, left) in estimates(450, at).into_iter().filter(|(time, _)| *time > 10.0) {
            let right = 100.0 - time;
            assert!((left - right).abs() < 0.25 * right + 3.0, "{left} s left at {time} s");
        }
    }

    #[test]
    fn while_nobody_knows_how_far_a_sync_is_the_estimate_stays() {
        let all = Some((100_000_000, 1));
        let at = |time: f64| match time {
            time if time < 10.0 => Moment { moved: (time * 1e7) as u64, in_bursts: true, ..copying(0, 1, all) },
            _ => Moment { phase: Phase::Syncing, moved: 100_000_000, in_bursts: true, ..copying(0, 1, all) },
        };
        let estimates = estimates(200, at);
        let in_sync: Vec<f64> = estimates.iter().filter(|(time, _)| *time > 10.5).map(|(_, left)| *left).collect();
        assert!(in_sync.windows(2).all(|pair| pair[0] == pair[1]), "{in_sync:?}");
        assert!(in_sync.iter().all(|left| (8.0..12.0).contains(left)), "{in_sync:?}");
    }

    #[test]
    fn bytes_that_are_there_already_count_as_done_and_make_no_run_faster() {
        // Half of it is there after the first second.
        let at = |time: f64| {
            let spared = 50_000_000;
            Moment { spared, ..copying(spared + ((time - 1.0) * 1e6) as u64, 1, Some((100_000_000, 1))) }
        };
        for (time, left) in estimates(200, at).into_iter().filter(|(time, _)| *time > 5.0) {
            assert!((left - (51.0 - time)).abs() < 12.0, "{left} s left at {time} s");
        }
    }

    #[test]
    fn the_shown_rate_follows_the_last_seconds() {
        let mut rate = Rate::default();
        let mut after = |seconds, bytes| rate.update(Duration::from_secs(seconds), &copying(bytes, 1, None)).bytes;
        assert_eq!(after(1, 100), 100.0);
        assert_eq!(after(1, 100), 100.0, "no time has passed");
        assert!(after(31, 100) < 10.0);
    }
}
