//! Totals at the end of a run: a table for people, or one record of JSON for programs (docs/stats.md).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use haul_copy::error::Error;
use haul_copy::images::ImageReport;
use haul_copy::run::Summary;
use haul_copy::stats::{EngineStats, Stats};
use haul_io::moved::Moved;
use haul_io::pace::Pace;
use haul_io::profile::Profile;
use haul_sys::process_state::Usage;
use serde::{Serialize, Serializer};
use serde_json::Value;

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

/// The fields of an object of JSON, in their order.
#[derive(Debug, Default)]
pub(crate) struct Fields(Vec<(String, Value)>);

impl Fields {
    /// One more.
    pub(crate) fn add(&mut self, name: &str, value: impl Into<Value>) {
        self.0.push((name.to_owned(), value.into()));
    }

    /// All of them, in no order.
    pub(crate) fn into_value(self) -> Value {
        self.0.into_iter().collect()
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// A line of JSON.
pub fn line(record: &impl Serialize) -> String {
    // Numbers and plain words can always be written.
    without_controls(serde_json::to_string(record).unwrap_or_default()) + "\n"
}

/// One line about one error, for programs.
pub(crate) fn error_line(error: &Error) -> String {
    let mut fields = Fields::default();
    fields.add("record", "haul-error");
    fields.add("version", VERSION);
    line(&error_fields(fields, error))
}

/// What programs hear of an error, after other fields.
pub(crate) fn error_fields(mut fields: Fields, error: &Error) -> Fields {
    path_fields(&mut fields, "path", &error.path);
    match error.other.as_os_str().is_empty() {
        true => fields.add("other_path", Value::Null),
        false => path_fields(&mut fields, "other_path", &error.other),
    }
    fields.add("operation", error.what.name());
    fields.add("errno", error.raw_os_error());
    fields.add("class", error.kind().as_str());
    fields.add("message", &*String::from_utf8_lossy(&words::message(error, &Quoter::plain())));
    fields
}

/// A path as text; if that is not all of it, a second field has its bytes in hexadecimal digits.
pub(crate) fn path_fields(fields: &mut Fields, name: &str, path: impl AsRef<OsStr>) {
    let path = path.as_ref();
    fields.add(name, &*path.to_string_lossy());
    if path.to_str().is_none() {
        let digits: String = path.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        fields.add(&format!("{name}_bytes"), digits);
    }
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
    cloned_trees: u64,
    symbolic_links: u64,
    hard_links: u64,
    special: u64,
    renamed: u64,
    removed: u64,
    skipped: u64,
    offline: u64,
    excluded: u64,
    deleted: u64,
    deleted_directories: u64,
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

impl From<&Stats> for Files {
    fn from(stats: &Stats) -> Files {
        Files {
            regular: stats.regular,
            directories: stats.directories,
            cloned_trees: stats.cloned_trees,
            symbolic_links: stats.symbolic_links,
            hard_links: stats.hard_links,
            special: stats.special,
            renamed: stats.renamed,
            removed: stats.removed,
            skipped: stats.skipped,
            offline: stats.offline,
            excluded: stats.excluded,
            deleted: stats.deleted_files,
            deleted_directories: stats.deleted_directories,
            resumed: stats.resumed_files,
        }
    }
}

impl From<&Pace> for Limit {
    fn from(pace: &Pace) -> Limit {
        let limit = pace.limit();
        Limit {
            bytes_per_second: limit.bytes,
            operations_per_second: limit.operations,
            r#yield: pace.is_yielding(),
            waited_seconds: pace.waited().as_secs_f64(),
        }
    }
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
        profile: Option<&Profile>,
        pace: &Pace,
        usage: Usage,
        wall: Duration,
        exit_status: u8,
    ) -> Record<'a> {
        // Field by field, so that the compiler asks for a new one here.
        let &Stats {
            // These are in `Files`.
            regular: _,
            directories: _,
            symbolic_links: _,
            cloned_trees: _,
            hard_links: _,
            special: _,
            renamed: _,
            removed: _,
            skipped: _,
            offline: _,
            excluded: _,
            deleted_files: _,
            deleted_directories: _,
            resumed_files: _,
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
            // `--explain` says it.
            rule_hits: _,
            ref images,
            walk_time,
            data_time,
            metadata_time,
            sync_time,
        } = &summary.stats;
        let places = profile.map_or(&[][..], |profile| &profile.places);
        let mut read: Vec<String> = places.iter().map(|place| place.origin.clone()).collect();
        read.dedup();
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
            files: (&summary.stats).into(),
            resumed_bytes,
            bytes: moved.into(),
            engines: engines.iter().map(|(name, engine)| (name.as_str(), engine.into())).collect(),
            images,
            images_left_out,
            profile: Profiled { read, files: by_profile },
            limit: pace.into(),
            pace: pace_words(pace),
            stats: &summary.stats,
        }
    }

    /// The exit status that follows.
    pub(crate) fn exit_status(&self) -> u8 {
        self.exit_status
    }

    /// For people or for programs; whole lines.
    pub fn show(&self, format: StatsFormat) -> String {
        match format {
            StatsFormat::Text => self.text(),
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
        (files.cloned_trees, "trees cloned"),
        (files.hard_links, "hard links"),
        (files.special, "special"),
        (files.renamed, "renamed"),
        (files.removed, "sources removed"),
        (files.skipped.saturating_sub(files.offline), "skipped"),
        (files.offline, "offline"),
        (files.excluded, "excluded"),
        (files.deleted, "deleted"),
        (files.deleted_directories, "directories deleted"),
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
    use haul_testbed::document;

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
        let line = error_line(&error.errno(haul_sys::Errno::ACCESS));
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
            assert!(document("stats.md").contains(&format!("| `{field}` |")), "{field}");
        }
    }

    #[test]
    fn a_path_that_is_not_utf_8_has_its_bytes_in_a_field_of_their_own() {
        let name = OsStr::from_bytes(b"a\xff\n");
        let line = error_line(&Error::new(What::SameFile, name).and("b"));
        let json: Value = serde_json::from_str(&line).expect("what was printed is JSON");
        assert_eq!((json["path"].as_str(), json["path_bytes"].as_str()), (Some("a\u{fffd}\n"), Some("61ff0a")));
        assert_eq!((json["other_path"].as_str(), json.get("other_path_bytes")), (Some("b"), None));
        assert!(document("stats.md").contains("| `path_bytes`, `other_path_bytes` |"));
    }

    #[test]
    fn no_control_character_is_left_in_a_record() {
        let name: String = (1..0xa0_u8).map(char::from).collect();
        let line = error_line(&Error::new(What::CannotOpen, &name));
        assert!(!line.trim_end().contains(char::is_control), "{line:?}");
        let json: serde_json::Value = serde_json::from_str(&line).expect("what was printed is JSON");
        assert_eq!(json["path"].as_str(), Some(&name[..]));
    }

    #[test]
    fn the_json_record_says_what_the_run_did() {
        let summary = summary();
        let record = Record::new("haul".into(), &summary, None, &pace(), usage(), Duration::from_secs(2), 1);
        let json: serde_json::Value = serde_json::from_str(&line(&record)).expect("what was printed is JSON");
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
            workers: 2,
            worker_time: Duration::from_secs(8),
            read_time: Duration::from_secs(3),
            write_time: Duration::from_millis(1500),
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
        let record = Record::new("haul".into(), &summary, None, &pace(), usage(), Duration::from_secs(2), 1);
        let json = serde_json::to_value(&record).expect("serializes");
        let of_image = ["workers", "worker_seconds", "read_seconds", "write_seconds"];
        assert_eq!(of_image.map(|field| json["images"][0][field].to_string()), ["2", "8.0", "3.0", "1.5"]);
        let mut names = BTreeSet::new();
        fields(&json, &mut names);
        let page = document("stats.md");
        let (page, _) = page.split_once("\n## Errors").expect("a chapter");
        let cells = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('|').next());
        let documented = cells.flat_map(|cell| cell.split('`').step_by(2)).map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(documented, names);
    }

    #[test]
    fn the_text_names_only_what_there_was() {
        let summary = summary();
        let text = Record::new("haul".into(), &summary, None, &pace(), usage(), Duration::from_secs(2), 1).text();
        assert!(text.contains("files         3 regular\n"), "{text}");
        assert!(
            text.contains("  read-write  2 files: 4.0 KiB read and written, 1.0 KiB of holes, 1 refusals"),
            "{text}"
        );
        assert!(text.contains("limit         1.0 MiB/s; 0.000 s of waiting\n"), "{text}");
        assert!(!text.contains("directories"), "{text}");
    }
}
