//! Totals at the end of a run: a table for people, or one record of JSON for programs (docs/stats.md).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use haul_copy::error::Error;
use haul_copy::images::ImageReport;
use haul_copy::run::Summary;
use haul_copy::stats::{EngineStats, Stats};
use haul_io::moved::Moved;
use haul_io::pace::Pace;
use haul_io::profile::Profile;
use haul_sys::process_state::Usage;
use serde::Serialize;

use crate::quote::Quoter;
use crate::show::StatsFormat;
use crate::size::human_size;
use crate::throttle::pace_words;
use crate::words::{self, ways};

/// The version of the record: raised when a field changes its meaning or goes. New fields do not raise it.
const VERSION: u32 = 1;

/// What a run did, in the order of the fields of the JSON record.
#[derive(Debug, Serialize)]
pub struct Record<'a> {
    record: &'static str,
    version: u32,
    program: String,
    exit_status: u8,
    cancelled: bool,
    errors: u64,
    warnings: u64,
    damaged: usize,
    wall_seconds: f64,
    user_seconds: f64,
    system_seconds: f64,
    walk_seconds: f64,
    data_seconds: f64,
    metadata_seconds: f64,
    sync_seconds: f64,
    peak_memory_bytes: u64,
    files: Files,
    resumed_bytes: u64,
    bytes: Bytes,
    engines: BTreeMap<&'static str, Engine>,
    images: &'a [ImageReport],
    images_left_out: u64,
    profile: Profiled,
    limit: Limit,
    /// The limit for people, if there is any.
    #[serde(skip)]
    pace: Option<String>,
    /// All that was counted, for people.
    #[serde(skip)]
    stats: &'a Stats,
}

/// One error, in the order of the fields of its JSON record.
#[derive(Debug, Serialize)]
struct ErrorRecord {
    record: &'static str,
    version: u32,
    path: String,
    other_path: Option<String>,
    operation: &'static str,
    errno: Option<i32>,
    class: &'static str,
    message: String,
}

/// A line of JSON.
///
/// # Errors
/// None that a record of numbers and plain words can cause.
pub fn line(record: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_string(record).map(|json| without_controls(json) + "\n")
}

/// One line about one error, for programs.
///
/// # Errors
/// None that plain words and a number can cause.
pub(crate) fn error_line(error: &Error) -> Result<String, serde_json::Error> {
    let other = &error.other;
    line(&ErrorRecord {
        record: "haul-error",
        version: VERSION,
        path: error.path.to_string_lossy().into_owned(),
        other_path: (!other.as_os_str().is_empty()).then(|| other.to_string_lossy().into_owned()),
        operation: error.what.name(),
        errno: error.raw_os_error(),
        class: error.kind().as_str(),
        message: String::from_utf8_lossy(&words::message(error, &Quoter::plain())).into_owned(),
    })
}

/// JSON leaves DEL and the C1 control characters as they are, and a terminal would obey them.
pub fn without_controls(json: String) -> String {
    if !json.contains(char::is_control) {
        return json;
    }
    let mut safe = String::with_capacity(json.len() + 16);
    for letter in json.chars() {
        match letter.is_control() {
            // Writing to a String cannot fail.
            true => write!(safe, "\\u{:04x}", u32::from(letter)).unwrap_or_default(),
            false => safe.push(letter),
        }
    }
    safe
}

#[derive(Debug, Serialize)]
struct Files {
    regular: u64,
    directories: u64,
    symbolic_links: u64,
    hard_links: u64,
    special: u64,
    skipped: u64,
    resumed: u64,
}

#[derive(Debug, Serialize)]
struct Limit {
    bytes_per_second: Option<u64>,
    operations_per_second: Option<u64>,
    r#yield: bool,
    waited_seconds: f64,
}

#[derive(Debug, Serialize)]
struct Profiled {
    read: Vec<String>,
    files: u64,
}

#[derive(Debug, Serialize)]
struct Bytes {
    total: u64,
    shared: u64,
    offloaded: u64,
    written: u64,
    holes: u64,
}

#[derive(Debug, Serialize)]
struct Engine {
    files: u64,
    refusals: u64,
    bytes: Bytes,
}

impl From<Moved> for Bytes {
    fn from(moved: Moved) -> Bytes {
        Bytes {
            total: moved.total(),
            shared: moved.cloned,
            offloaded: moved.offloaded,
            written: moved.written,
            holes: moved.holes,
        }
    }
}

impl From<&EngineStats> for Engine {
    fn from(stats: &EngineStats) -> Engine {
        Engine { files: stats.files, refusals: stats.refusals, bytes: stats.moved.into() }
    }
}

impl<'a> Record<'a> {
    /// The record of a run that took so long and ends with this status.
    pub fn new(
        program: String,
        summary: &'a Summary,
        pace: &Pace,
        usage: Usage,
        wall: Duration,
        exit_status: u8,
    ) -> Record<'a> {
        // Field by field, so that the compiler asks for a new one here.
        let &Stats {
            regular,
            directories,
            symbolic_links,
            hard_links,
            special,
            skipped,
            resumed_files: resumed,
            resumed_bytes,
            // These are for the records of haul-mpi.
            given_away: _,
            work_units: _,
            chunks: _,
            by_profile,
            errors,
            warnings,
            images_left_out,
            // Only the text says it.
            free_skipped: _,
            moved,
            ref engines,
            ref images,
            walk_time,
            data_time,
            metadata_time,
            sync_time,
        } = &summary.stats;
        let limit = pace.limit();
        Record {
            record: "haul-stats",
            version: VERSION,
            program,
            exit_status,
            cancelled: summary.cancelled,
            errors,
            warnings,
            damaged: summary.damaged.len(),
            wall_seconds: wall.as_secs_f64(),
            user_seconds: usage.user.as_secs_f64(),
            system_seconds: usage.system.as_secs_f64(),
            walk_seconds: walk_time.as_secs_f64(),
            data_seconds: data_time.as_secs_f64(),
            metadata_seconds: metadata_time.as_secs_f64(),
            sync_seconds: sync_time.as_secs_f64(),
            peak_memory_bytes: usage.peak_memory,
            files: Files { regular, directories, symbolic_links, hard_links, special, skipped, resumed },
            resumed_bytes,
            bytes: moved.into(),
            engines: engines.iter().map(|(name, engine)| (name.as_str(), engine.into())).collect(),
            images,
            images_left_out,
            profile: Profiled { read: Vec::new(), files: by_profile },
            limit: Limit {
                bytes_per_second: limit.bytes,
                operations_per_second: limit.operations,
                r#yield: pace.is_yielding(),
                waited_seconds: pace.waited().as_secs_f64(),
            },
            pace: pace_words(pace),
            stats: &summary.stats,
        }
    }

    /// The same, with the profile that the run had.
    #[must_use]
    pub fn with(mut self, profile: Option<&Profile>) -> Record<'a> {
        let places = profile.map_or(&[][..], |profile| &profile.places);
        self.profile.read.extend(places.iter().map(|place| place.origin.clone()));
        self.profile.read.dedup();
        self
    }

    /// For people or for programs; whole lines.
    ///
    /// # Errors
    /// None that a record of numbers and plain words can cause.
    pub fn show(&self, format: StatsFormat) -> Result<String, serde_json::Error> {
        match format {
            StatsFormat::Text => Ok(self.text()),
            StatsFormat::Json => line(self),
        }
    }

    fn text(&self) -> String {
        let stats = self.stats;
        let mut text = String::new();
        let mut line = |label: &str, value: String| {
            // Writing to a String cannot fail.
            writeln!(text, "{label:<14}{value}").ok();
        };
        line("files", kinds(&self.files));
        line("bytes", format!("{} ({}){}", self.bytes.total, human_size(self.bytes.total), parted(&stats.moved)));
        for (name, engine) in &stats.engines {
            let refusals = if engine.refusals > 0 { format!(", {} refusals", engine.refusals) } else { String::new() };
            let files = format!("{} files", engine.files);
            line(&format!("  {name}"), format!("{files}{}{refusals}", parted(&engine.moved)));
        }
        if self.profile.files > 0 {
            line("profile", format!("{} files by {}", self.profile.files, self.profile.read.join(", ")));
        }
        let images = stats.images.len() as u64 + stats.images_left_out;
        if images > 0 {
            line("images", format!("{images}: {} free and not read", human_size(stats.free_skipped)));
        }
        let rate = self.bytes.total as f64 / self.wall_seconds.max(1e-9);
        line("time", format!("{:.3} s ({}/s)", self.wall_seconds, human_size(rate as u64)));
        line(
            "  spent",
            format!(
                "{:.3} s walking, {:.3} s on data, {:.3} s on metadata",
                self.walk_seconds, self.data_seconds, self.metadata_seconds
            ),
        );
        let waited = self.limit.waited_seconds;
        if self.pace.is_some() || waited > 0.0 {
            let pace = self.pace.as_deref().unwrap_or("none");
            line("limit", format!("{pace}; {waited:.3} s of waiting"));
        }
        line("CPU", format!("{:.3} s user, {:.3} s system", self.user_seconds, self.system_seconds));
        line("memory", format!("{} at most", human_size(self.peak_memory_bytes)));
        let cancelled = if self.cancelled { ", stopped before the end" } else { "" };
        line("status", format!("{}: {} errors, {} warnings{cancelled}", self.exit_status, self.errors, self.warnings));
        text
    }
}

fn kinds(files: &Files) -> String {
    let kinds = [
        (files.regular, "regular"),
        (files.directories, "directories"),
        (files.symbolic_links, "symbolic links"),
        (files.hard_links, "hard links"),
        (files.special, "special"),
        (files.skipped, "skipped"),
        (files.resumed, "finished by an earlier run"),
    ];
    let used: Vec<String> =
        kinds.iter().filter(|(count, _)| *count > 0).map(|(count, kind)| format!("{count} {kind}")).collect();
    if used.is_empty() { "none".to_owned() } else { used.join(", ") }
}

fn parted(moved: &Moved) -> String {
    let ways = ways(moved);
    if ways.is_empty() { ways } else { format!(": {ways}") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use haul_copy::error::What;
    use haul_copy::images::RegionReport;
    use haul_copy::plan::EngineName;

    use super::*;

    fn summary() -> Summary {
        let moved = Moved { written: 4096, holes: 1024, ..Moved::default() };
        let mut stats =
            Stats { regular: 3, errors: 1, moved, walk_time: Duration::from_millis(1500), ..Stats::default() };
        stats.engines.insert(EngineName::ReadWrite, EngineStats { files: 2, moved, refusals: 1 });
        Summary { failed: true, stats, ..Summary::default() }
    }

    fn pace() -> Pace {
        Pace::new(haul_io::pace::Limit { bytes: Some(1 << 20), operations: None })
    }

    fn usage() -> Usage {
        Usage { user: Duration::from_millis(250), system: Duration::from_secs(1), peak_memory: 8 << 20 }
    }

    #[test]
    fn the_record_of_an_error_has_every_documented_field() {
        let error = Error::new(What::SameFile, "a b").and("c");
        let line = error_line(&error.errno(haul_sys::Errno::ACCESS)).expect("serializes");
        let json: serde_json::Value = serde_json::from_str(&line).expect("what was printed is JSON");
        for (field, value) in [
            ("record", "\"haul-error\""),
            ("version", "1"),
            ("path", "\"a b\""),
            ("other_path", "\"c\""),
            ("operation", "\"SameFile\""),
            ("errno", "13"),
            ("class", "\"permission\""),
            ("message", "\"'a b' and 'c' are the same file: Permission denied\""),
        ] {
            assert_eq!(json[field].to_string(), value, "{field}");
            assert!(include_str!("../../../docs/stats.md").contains(&format!("| `{field}` |")), "{field}");
        }
    }

    #[test]
    fn no_control_character_is_left_in_a_record() {
        let name: String = (1..0xa0_u8).map(char::from).collect();
        let line = error_line(&Error::new(What::CannotOpen, &name)).expect("serializes");
        assert!(!line.trim_end().contains(char::is_control), "{line:?}");
        let json: serde_json::Value = serde_json::from_str(&line).expect("what was printed is JSON");
        assert_eq!(json["path"].as_str(), Some(&name[..]));
    }

    #[test]
    fn the_json_record_says_what_the_run_did() {
        let summary = summary();
        let record = Record::new("haul".into(), &summary, &pace(), usage(), Duration::from_secs(2), 1);
        let json: serde_json::Value =
            serde_json::from_str(&line(&record).expect("serializes")).expect("what was printed is JSON");
        for (field, value) in [
            ("/record", "\"haul-stats\""),
            ("/version", "1"),
            ("/program", "\"haul\""),
            ("/exit_status", "1"),
            ("/errors", "1"),
            ("/wall_seconds", "2.0"),
            ("/user_seconds", "0.25"),
            ("/walk_seconds", "1.5"),
            ("/peak_memory_bytes", "8388608"),
            ("/files/regular", "3"),
            ("/bytes/total", "5120"),
            ("/bytes/holes", "1024"),
            ("/engines/read-write/refusals", "1"),
            ("/engines/read-write/bytes/written", "4096"),
            ("/profile/files", "0"),
            ("/profile/read", "[]"),
            ("/limit/bytes_per_second", "1048576"),
            ("/limit/operations_per_second", "null"),
            ("/limit/yield", "false"),
            ("/limit/waited_seconds", "0.0"),
        ] {
            assert_eq!(json.pointer(field).map(ToString::to_string).as_deref(), Some(value), "{field}");
        }
    }

    /// The fields of a record and of all that is in it.
    fn fields(json: &serde_json::Value, names: &mut BTreeSet<String>) {
        for (name, value) in json.as_object().into_iter().flatten() {
            // Engines are listed by their names.
            if EngineName::named(name).is_none() {
                names.insert(name.clone());
            }
            fields(value, names);
        }
        json.as_array().into_iter().flatten().for_each(|part| fields(part, names));
    }

    #[test]
    fn the_documented_fields_are_those_of_the_record() {
        let mut summary = summary();
        summary.stats.images.push(ImageReport {
            source: "a".into(),
            whole: None,
            container: None,
            size: 0,
            used: 0,
            free: 0,
            skipped: 0,
            copied_after_all: None,
            source_written: false,
            regions: vec![RegionReport {
                place: String::new(),
                filesystem: None,
                verdict: "mapped",
                reason: None,
                used: 0,
                free: 0,
                skipped: 0,
            }],
        });
        let record = Record::new("haul".into(), &summary, &pace(), usage(), Duration::from_secs(2), 1);
        let mut names = BTreeSet::new();
        fields(&serde_json::to_value(&record).expect("serializes"), &mut names);
        let (document, _) = include_str!("../../../docs/stats.md").split_once("\n## Errors").expect("a chapter");
        let cells = document.lines().filter_map(|line| line.strip_prefix("| `")?.split('|').next());
        let documented = cells.flat_map(|cell| cell.split('`').step_by(2)).map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(documented, names);
    }

    #[test]
    fn the_text_names_only_what_there_was() {
        let summary = summary();
        let text = Record::new("haul".into(), &summary, &pace(), usage(), Duration::from_secs(2), 1).text();
        assert!(text.contains("files         3 regular\n"), "{text}");
        assert!(
            text.contains("  read-write  2 files: 4.0 KiB read and written, 1.0 KiB of holes, 1 refusals"),
            "{text}"
        );
        assert!(text.contains("limit         1.0 MiB/s; 0.000 s of waiting\n"), "{text}");
        assert!(!text.contains("directories"), "{text}");
    }
}
