//! What smartcp prints: for people, and for programs.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use haul_copy::plan::CacheUse;
use haul_frontend::record::without_controls;
use haul_image::{Mode, Options, Report, Smart, Stats};

/// The block of options at the beginning.
pub fn options(options: &Options) -> String {
    let yes = |is: bool| if is { "yes" } else { "no" };
    let smart = match options.smart {
        Smart::Off => "no",
        Smart::Auto => "yes",
        Smart::Snapshot => "yes, of a snapshot",
    };
    let mode = match options.mode {
        Mode::Copy => "",
        Mode::ReadOnly => "  mode:           read only\n",
        Mode::WriteOnly => "  mode:           write only\n",
    };
    format!(
        "Options:\n  smart read:     {smart}\n  sparse output:  {}\n  md5 checksum:   {}\n  buffer size:    {}\n  \
         direct I/O:     {}\n  zero scanning:  {}\n{mode}",
        if options.sparse { "always" } else { "never" },
        yes(options.md5),
        options.buffer_size,
        match options.cache {
            _ if options.direct => "yes",
            CacheUse::Keep => "no",
            _ => "auto",
        },
        yes(options.zero_scan),
    )
}

fn seconds(time: Duration) -> String {
    format!("{}.{:03} s", time.as_secs(), time.subsec_millis())
}

fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// The line of each second.
pub fn interval(stats: &Stats) -> String {
    let times = &stats.times;
    format!(
        "{} bytes processed, {} zeros, {} elapsed, {} on scan, {} on read, {} on write\n",
        stats.processed(),
        stats.zeros,
        seconds(stats.elapsed),
        seconds(times.scan),
        seconds(times.read),
        seconds(times.write),
    )
}

/// The blocks at the end.
pub(crate) fn statistics(stats: &Stats) -> String {
    let times = &stats.times;
    let mut text = String::new();
    let mut line = |label: &str, value: String| text.push_str(&format!("{label:<34}{value}\n"));
    line("Time on open:", seconds(times.open));
    line("Time on copy:", seconds(times.copy));
    line("Time on close:", seconds(times.close));
    line("Stats:", String::new());
    for (label, bytes) in [
        ("  file size:", stats.total),
        ("  read skipped:", stats.read_skipped),
        ("  write skipped:", stats.write_skipped),
        ("  copied bytes:", stats.copied),
        ("  total bytes:", stats.processed()),
        ("  scanned zeros:", stats.zeros),
    ] {
        line(label, bytes.to_string());
    }
    for (label, time) in [
        ("  elapsed time:", stats.elapsed),
        ("  time on scan:", times.scan),
        ("  time on read:", times.read),
        ("  time on write:", times.write),
        ("  read queue, time on enqueue:", times.read_enqueue),
        ("  read queue, time on dequeue:", times.read_dequeue),
        ("  write queue, time on enqueue:", times.write_enqueue),
        ("  write queue, time on dequeue:", times.write_dequeue),
    ] {
        line(label, seconds(time));
    }
    if let Some((read, write)) = stats.shares() {
        line("  parallel workers:", stats.workers.to_string());
        line("  time of all workers:", seconds(times.workers));
        line("  of it on read:", format!("{} %", percent(read)));
        line("  of it on write:", format!("{} %", percent(write)));
    }
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// What only `-g` shows.
pub(crate) fn debugging(report: &Report) -> String {
    let (stats, times) = (&report.stats, &report.stats.times);
    format!(
        "Debug:\n  proven free, not read:          {}\n  holes, not read:                {}\n  \
         bytes read:                     {}\n  time on maps:                   {}\n  time on md5:                    {}\n",
        stats.free,
        stats.read_skipped - stats.free,
        stats.read,
        seconds(times.map),
        seconds(times.md5),
    )
}

/// A line of `-T json`. Its form is known to programs: only a new number after `"v"` may change it.
pub fn json(stats: &Stats, source: &Path) -> String {
    format!(
        "{{ \"r\": \"data\", \"v\": 2, \"file\": {}, \"t\": \"{}\", \"total\": \"{}\", \"copied\": \"{}\", \"write_skipped\": \"{}\", \
         \"read_skipped\": \"{}\" }}\n",
        quoted(source),
        stats.elapsed.as_secs(),
        stats.total,
        stats.copied,
        stats.write_skipped,
        stats.read_skipped,
    )
}

/// Where the time of a whole copy went, in the same way.
pub(crate) fn json_times(stats: &Stats, source: &Path) -> String {
    let times = &stats.times;
    let (read, write) = stats.shares().unwrap_or_default();
    let seconds = [
        ("elapsed", stats.elapsed),
        ("open", times.open),
        ("map", times.map),
        ("copy", times.copy),
        ("close", times.close),
        ("scan", times.scan),
        ("md5", times.md5),
        ("read", times.read),
        ("write", times.write),
        ("read_enqueue", times.read_enqueue),
        ("read_dequeue", times.read_dequeue),
        ("write_enqueue", times.write_enqueue),
        ("write_dequeue", times.write_dequeue),
        ("workers_time", times.workers),
    ];
    let seconds = seconds.map(|(name, time)| (name, format!("{}.{:03}", time.as_secs(), time.subsec_millis())));
    let shares =
        [("workers", stats.workers.to_string()), ("read_share", percent(read)), ("write_share", percent(write))];
    let fields = seconds.into_iter().chain(shares).map(|(name, value)| format!(", \"{name}\": \"{value}\""));
    format!("{{ \"r\": \"times\", \"v\": 2, \"file\": {}{} }}\n", quoted(source), fields.collect::<String>())
}

/// The same for the checksum.
pub(crate) fn json_md5(md5: &[u8; 16], source: &Path) -> String {
    format!("{{ \"r\": \"md5\", \"v\": 2, \"file\": {}, \"md5\": \"{}\" }}\n", quoted(source), hex(md5))
}

/// A path as a JSON string without control characters, which could command a terminal. What is no UTF-8 is replaced.
fn quoted(path: &Path) -> String {
    without_controls(serde_json::Value::from(path.to_string_lossy().into_owned()).to_string())
}

fn hex(md5: &[u8; 16]) -> String {
    md5.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A line as md5sum prints it: a name with a backslash or an end of line has them escaped, and then the line begins with
/// a backslash.
pub(crate) fn md5_line(md5: &[u8; 16], path: &Path) -> Vec<u8> {
    let mut name = Vec::new();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'\\' => name.extend(b"\\\\"),
            b'\n' => name.extend(b"\\n"),
            b'\r' => name.extend(b"\\r"),
            byte => name.push(byte),
        }
    }
    let escaped = name.len() != path.as_os_str().len();
    [if escaped { &b"\\"[..] } else { b"" }, hex(md5).as_bytes(), b"  ", &name, b"\n"].concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use haul_image::Times;

    use super::*;
    use crate::smartcp::manual;

    #[test]
    fn the_manual_describes_exactly_the_fields_of_the_records() {
        let stats = Stats::default();
        let records = [json(&stats, "a".as_ref()), json_times(&stats, "a".as_ref()), json_md5(&[0; 16], "a".as_ref())];
        let parsed = records.map(|line| serde_json::from_str::<serde_json::Value>(&line).expect("it is JSON"));
        let fields = parsed.iter().flat_map(|record| record.as_object().into_iter().flatten());
        let fields: BTreeSet<&str> = fields.map(|(name, _)| &**name).collect();
        let (chapter, _) = manual::TAIL.split_once(".SH EXIT STATUS").expect("it follows");
        let bold = chapter.lines().filter_map(|line| line.strip_prefix(".B ").or_else(|| line.strip_prefix(".BR ")));
        let is_field =
            |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let described: BTreeSet<&str> = bold.flat_map(|line| line.split([' ', '"'])).filter(is_field).collect();
        assert_eq!(described, fields);
    }

    #[test]
    fn shares_of_the_time_of_workers_are_for_people_and_programs() {
        let second = Duration::from_secs;
        let times = Times { read: second(3), write: second(1), workers: second(8), ..Times::default() };
        let stats = Stats { workers: 2, times, ..Stats::default() };
        let text = statistics(&stats);
        let lines = [
            "  parallel workers:               2\n",
            "  time of all workers:            8.000 s\n",
            "  of it on read:                  37.5 %\n",
            "  of it on write:                 12.5 %\n",
        ];
        assert!(text.ends_with(&lines.concat()), "{text}");
        let record = json_times(&stats, "a".as_ref());
        let record: serde_json::Value = serde_json::from_str(&record).expect("it is JSON");
        for (field, value) in [
            ("read", "3.000"),
            ("workers", "2"),
            ("workers_time", "8.000"),
            ("read_share", "37.5"),
            ("write_share", "12.5"),
        ] {
            assert_eq!(record[field], value, "{field}");
        }
        let queued = statistics(&Stats::default());
        assert!(queued.contains("write queue") && !queued.contains("workers"), "{queued}");
    }
}
