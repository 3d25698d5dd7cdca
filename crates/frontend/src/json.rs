//! What happens in a run, as lines of JSON for programs (docs/json.md).

use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use haul_copy::events::{Action, Event, Kept, Planned, Reason};
use haul_copy::plan::Plan;
use haul_sys::inode::Kind;
use serde_json::Value;

use crate::bar::{Moment, Speed};
use crate::planned;
use crate::record::{Fields, Record, error_fields, line, path_fields};

/// The version of the lines: raised when a field or an event changes its meaning or goes. New ones do not raise it.
const VERSION: u32 = 1;

/// What the run is, before anything else is said of it.
pub(crate) fn start(program: &OsStr, plan: &Plan) -> String {
    let time = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let mut fields = of("start");
    fields.add("version", VERSION);
    path_fields(&mut fields, "program", program);
    fields.add("program_version", env!("CARGO_PKG_VERSION"));
    fields.add("time", time.as_secs_f64());
    fields.add("dry_run", plan.dry_run);
    let sources = plan.sources.iter().map(|source| {
        let mut fields = Fields::default();
        path_fields(&mut fields, "path", source);
        fields.into_value()
    });
    fields.add("sources", sources.collect::<Vec<Value>>());
    path_fields(&mut fields, "destination", plan.destination.path());
    line(&fields)
}

/// What a program hears of an event of the library. Nothing of one that only counts, or that has a file of its own to go to.
pub(crate) fn event(event: &Event<'_>) -> Option<String> {
    let fields = match event {
        Event::Copying { source, dest, backup, kind, size, reason } => {
            let backup = backup.as_deref().map(|backup| ("backup", backup));
            let mut fields = entry("copy", [("source", &**source), ("dest", &**dest)].into_iter().chain(backup));
            fields.add("kind", kind_word(*kind));
            if *kind == Kind::Regular {
                fields.add("bytes", *size);
            }
            reason.and_then(differs).into_iter().for_each(|reason| fields.add("reason", reason));
            fields
        }
        Event::Skipped(dest, why) => {
            let mut fields = entry("skip", [("dest", &**dest)]);
            fields.add("reason", reason(*why));
            fields
        }
        Event::Removed(dest) => entry("remove", [("dest", &**dest)]),
        Event::Deleted { path, directory } => {
            let mut fields = entry("delete", [("dest", &**path)]);
            fields.add("directory", *directory);
            fields
        }
        Event::Renamed { source, dest, backup } => {
            let backup = backup.as_deref().map(|backup| ("backup", backup));
            entry("rename", [("source", &**source), ("dest", &**dest)].into_iter().chain(backup))
        }
        Event::SourceRemoved { source, directory } => {
            let mut fields = entry("remove_source", [("source", &**source)]);
            fields.add("directory", *directory);
            fields
        }
        Event::UnBackedUp { backup, dest } => entry("restore", [("backup", &**backup), ("dest", &**dest)]),
        Event::ParentMade { source, dest } => entry("make_parent", [("source", &**source), ("dest", &**dest)]),
        Event::Planned(planned) => plan_fields(planned)?,
        Event::Digest { dest, digest } => {
            let mut fields = of("digest");
            path_fields(&mut fields, "dest", &**dest);
            fields.add("digest", &**digest);
            fields
        }
        Event::Problem(error) => error_fields(of("error"), error),
        Event::Warning(error) => error_fields(of("warning"), error),
        _ => return None,
    };
    Some(line(&fields))
}

/// Something else that is wrong: only its message is known.
pub(crate) fn message(is_error: bool, message: &[u8]) -> String {
    let mut fields = of(if is_error { "error" } else { "warning" });
    for unknown in ["path", "other_path", "operation", "errno", "class"] {
        fields.add(unknown, Value::Null);
    }
    fields.add("message", &*String::from_utf8_lossy(message));
    line(&fields)
}

/// How far the run is after so much time.
pub(crate) fn progress(time: Duration, moment: &Moment, speed: &Speed) -> String {
    let mut fields = of("progress");
    fields.add("phase", moment.phase.as_str());
    fields.add("seconds", time.as_secs_f64());
    fields.add("bytes_done", moment.done.bytes);
    fields.add("bytes_moved", moment.moved);
    fields.add("bytes_total", moment.all.map(|all| all.bytes));
    fields.add("entries_done", moment.done.entries);
    fields.add("entries_total", moment.all.map(|all| all.entries));
    fields.add("entries_deleted", moment.deleted);
    fields.add("bytes_per_second", speed.bytes);
    fields.add("seconds_left", speed.left.map(|left| left.as_secs_f64()));
    line(&fields)
}

/// How the run has ended.
pub fn summary(record: &Record<'_>, journal: Option<&Path>) -> String {
    let mut fields = of("summary");
    fields.add("exit_status", record.exit_status());
    match journal {
        Some(journal) => path_fields(&mut fields, "journal", journal),
        None => fields.add("journal", Value::Null),
    }
    // Numbers and plain words can always be written.
    fields.add("stats", serde_json::to_value(record).unwrap_or_default());
    line(&fields)
}

fn of(event: &str) -> Fields {
    let mut fields = Fields::default();
    fields.add("event", event);
    fields
}

fn entry<'a>(action: &str, paths: impl IntoIterator<Item = (&'static str, &'a Path)>) -> Fields {
    let mut fields = of("entry");
    fields.add("action", action);
    paths.into_iter().for_each(|(name, path)| path_fields(&mut fields, name, path));
    fields
}

/// What a copy would do about one entry; `None` of an action that this version does not know.
fn plan_fields(planned: &Planned<'_>) -> Option<Fields> {
    let mut fields = of("plan");
    fields.add("action", planned::word(planned.action)?);
    if !planned.source.as_os_str().is_empty() {
        path_fields(&mut fields, "source", &*planned.source);
    }
    path_fields(&mut fields, "dest", &*planned.dest);
    for (name, path) in [("backup", &planned.backup), ("other_name", &planned.other_name)] {
        path.iter().for_each(|path| path_fields(&mut fields, name, &**path));
    }
    if matches!(planned.action, Action::Copy | Action::Replace) {
        fields.add("bytes", planned.size);
    }
    planned.reason.and_then(planned::reason_words).into_iter().for_each(|reason| fields.add("reason", snake(reason)));
    Some(fields)
}

/// Words as one name.
fn snake(words: &str) -> String {
    words.replace(' ', "_")
}

fn reason(why: Kept) -> &'static str {
    match why {
        Kept::NotOlder => "not_older",
        Kept::Same => "same",
        Kept::Finished => "finished",
        Kept::Protected => "exists",
        Kept::Declined => "declined",
        Kept::Offline => "offline",
    }
}

/// Why something is copied; `None` where nothing was compared.
fn differs(why: Reason) -> Option<String> {
    planned::reason_words(why).map(snake)
}

fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Regular => "file",
        Kind::Directory => "directory",
        Kind::SymbolicLink => "symbolic_link",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
        Kind::CharacterDevice => "character_device",
        Kind::BlockDevice => "block_device",
        Kind::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use haul_copy::error::{Error, What};
    use haul_copy::plan::Destination;
    use haul_copy::run::Summary;
    use haul_io::pace::Pace;
    use haul_sys::process_state::Usage;
    use haul_testbed::{document, json_events};

    use super::*;
    use crate::bar::{Phase, Totals};

    fn parsed(line: &str) -> Value {
        assert!(line.ends_with('\n') && !line.trim_end().contains('\n'), "{line:?}");
        serde_json::from_str(line).expect("what was printed is JSON")
    }

    fn at(path: &str) -> std::borrow::Cow<'_, Path> {
        Path::new(path).into()
    }

    fn copying(kind: Kind, reason: Option<Reason>) -> Event<'static> {
        Event::Copying { source: at("a"), dest: at("b"), backup: Some(at("b~")), kind, size: 5, reason }
    }

    /// A line of each kind.
    fn lines() -> Vec<Value> {
        let error = Error::new(What::SameFile, "a").and("b");
        let usage = Usage { user: Duration::ZERO, system: Duration::ZERO, peak_memory: 0 };
        let ended = Summary::default();
        let record = Record::new("haul".into(), &ended, None, &Pace::default(), usage, Duration::ZERO, 0);
        let kept = [Kept::NotOlder, Kept::Same, Kept::Finished, Kept::Protected, Kept::Declined, Kept::Offline];
        let mut events = vec![
            copying(Kind::Regular, Some(Reason::Older)),
            Event::Removed(at("b")),
            Event::Deleted { path: at("b"), directory: true },
            Event::Renamed { source: at("a"), dest: at("b"), backup: None },
            Event::SourceRemoved { source: at("a"), directory: false },
            Event::UnBackedUp { backup: at("b~"), dest: at("b") },
            Event::ParentMade { source: at("a"), dest: at("b") },
            Event::Digest { dest: at("b"), digest: "00".into() },
            Event::Problem(std::borrow::Cow::Borrowed(&error)),
            Event::Warning(std::borrow::Cow::Borrowed(&error)),
        ];
        events.extend(kept.map(|why| Event::Skipped(at("b"), why)));
        let differs = [Reason::SizeDiffers, Reason::TimeDiffers, Reason::ContentsDiffer, Reason::TypeDiffers];
        events.extend(differs.map(|why| copying(Kind::Regular, Some(why))));
        let kinds = [Kind::Directory, Kind::SymbolicLink, Kind::Fifo, Kind::Socket];
        events.extend(kinds.map(|kind| copying(kind, None)));
        let others = [Kind::CharacterDevice, Kind::BlockDevice, Kind::Unknown];
        events.extend(others.map(|kind| copying(kind, None)));
        events.extend(plans());
        let of_library = events.iter().map(|it| event(it).expect("programs hear of it"));
        let plan = Plan { sources: vec!["a".into()], destination: Destination::Guess("b".into()), ..Plan::default() };
        let others = [
            start(OsStr::new("haul"), &plan),
            message(false, b"w"),
            message(true, b"e"),
            progress(Duration::from_secs(1), &Moment::default(), &Speed::default()),
            summary(&record, Some(Path::new("j"))),
        ];
        of_library.chain(others).map(|line| parsed(&line)).collect()
    }

    /// A plan with each action, and one with each reason.
    fn plans() -> Vec<Event<'static>> {
        let actions = [
            Action::MakeDirectory,
            Action::EnterDirectory,
            Action::Copy,
            Action::Replace,
            Action::Ask,
            Action::Link,
            Action::SymbolicLink,
            Action::Rename,
            Action::CloneTree,
            Action::SetAttributes,
            Action::Skip,
            Action::Delete,
            Action::DeleteDirectory,
        ];
        let reasons = [
            Reason::Older,
            Reason::SizeDiffers,
            Reason::TimeDiffers,
            Reason::ContentsDiffer,
            Reason::TypeDiffers,
            Reason::NotOlder,
            Reason::SameSizeAndTime,
            Reason::SameContents,
            Reason::SameType,
            Reason::Finished,
            Reason::Exists,
            Reason::SameFile,
            Reason::Offline,
        ];
        let of = |action, reason| {
            let (backup, other_name) = (Some(at("b~")), Some(at("c")));
            Event::Planned(Planned { action, source: at("a"), dest: at("b"), reason, backup, other_name, size: 5 })
        };
        let reasons = reasons.map(|reason| of(Action::Skip, Some(reason)));
        actions.into_iter().map(|action| of(action, None)).chain(reasons).collect()
    }

    #[test]
    fn the_document_names_each_event_with_its_fields_and_no_others() {
        let mut printed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in lines() {
            let fields = line.as_object().expect("an object");
            let event = fields["event"].as_str().expect("a word").to_owned();
            printed.entry(event).or_default().extend(fields.keys().filter(|name| *name != "event").cloned());
        }
        let documented = json_events();
        for (event, fields) in &printed {
            assert_eq!(documented.get(event), Some(fields), "{event}");
        }
        let is_of_field = |name: &str| matches!(name, "action" | "kind" | "reason") || name.starts_with("plan.");
        let events = |name: &&String| !is_of_field(name);
        assert_eq!(documented.keys().filter(events).count(), printed.len());
    }

    #[test]
    fn the_document_names_each_word_that_a_field_may_have() {
        let lines = lines();
        for (event, field, heading) in [
            ("entry", "action", "action"),
            ("entry", "kind", "kind"),
            ("entry", "reason", "reason"),
            ("plan", "action", "plan.action"),
            ("plan", "reason", "plan.reason"),
        ] {
            let of_event = lines.iter().filter(|line| line["event"] == event);
            let printed = of_event.filter_map(|line| line[field].as_str()).map(str::to_owned).collect();
            assert_eq!(json_events()[heading], printed, "{heading}");
        }
        let phases = [Phase::Scanning, Phase::Copying, Phase::Syncing, Phase::Verifying, Phase::Deleting];
        let phases = phases.map(Phase::as_str);
        let document = document("json.md");
        assert!(phases.iter().all(|phase| document.contains(&format!("`{phase}`"))));
    }

    #[test]
    fn what_is_not_known_is_null() {
        let line = parsed(&progress(Duration::from_secs(3), &Moment::default(), &Speed::default()));
        assert_eq!((&line["bytes_total"], &line["seconds_left"]), (&Value::Null, &Value::Null));
        assert_eq!(line["seconds"], 3.0);
        let moment = Moment { all: Some(Totals { bytes: 9, entries: 2 }), moved: 4, ..Moment::default() };
        let speed = Speed { bytes: 2.0, left: Some(Duration::from_millis(2500)) };
        let line = parsed(&progress(Duration::from_secs(3), &moment, &speed));
        for (field, value) in
            [("bytes_total", 9.0), ("bytes_moved", 4.0), ("seconds_left", 2.5), ("bytes_per_second", 2.0)]
        {
            assert_eq!(line[field].as_f64(), Some(value), "{field}");
        }
    }

    #[test]
    fn only_a_regular_file_has_bytes_and_only_what_was_compared_has_a_reason() {
        let of = |kind, reason| parsed(&event(&copying(kind, reason)).expect("programs hear of it"));
        let file = of(Kind::Regular, Some(Reason::SizeDiffers));
        assert_eq!(
            (&file["kind"], &file["bytes"], &file["reason"]),
            (&"file".into(), &5.into(), &"size_differs".into())
        );
        let link = of(Kind::SymbolicLink, None);
        assert_eq!((link.get("bytes"), link.get("reason")), (None, None));
    }

    #[test]
    fn events_that_only_count_are_no_lines() {
        assert_eq!(event(&Event::Secured(1)), None);
        assert_eq!(event(&Event::Listed { entries: 1, bytes: 1 }), None);
    }
}
