//! `--json`: what programs read. Each line of each run here is held against docs/json.md.
#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Output, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

use haul_testbed::{Child, Command, TempDir, create_painted, json_events, temp_dir};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

fn command(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(HAUL);
    command.arg0("haul").arg("--json").args(arguments).current_dir(dir).env("LC_ALL", "C");
    command
}

/// One line, all of whose fields are documented.
fn parsed(line: &str) -> Value {
    let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let documented = json_events();
    let event = value["event"].as_str().expect("an event");
    let fields = documented.get(event).unwrap_or_else(|| panic!("{event} is not documented"));
    for name in value.as_object().expect("an object").keys() {
        let base = name.strip_suffix("_bytes").filter(|base| value[base].is_string()).unwrap_or(name);
        assert!(name == "event" || fields.contains(base), "{name} of {event} is not documented: {line}");
    }
    value
}

/// All lines of a run that has come to its end.
fn lines(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).expect("JSON is UTF-8");
    assert!(text.ends_with('\n'), "{text}");
    let lines: Vec<Value> = text.lines().map(parsed).collect();
    let events: Vec<&str> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    assert_eq!((events.first(), events.last()), (Some(&"start"), Some(&"summary")), "{events:?}");
    assert_eq!(events.iter().filter(|event| matches!(**event, "start" | "summary")).count(), 2, "{events:?}");
    let summary = lines.last().expect("there is one");
    assert_eq!(summary["exit_status"].as_i64(), output.status.code().map(i64::from), "{summary}");
    assert_eq!(summary["stats"]["exit_status"], summary["exit_status"]);
    lines
}

fn run(dir: &Path, arguments: &[&str]) -> Vec<Value> {
    lines(&command(dir, arguments).output().expect("it can be run"))
}

/// The lines of one kind.
fn of<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

fn last(lines: &[Value]) -> &Value {
    lines.last().expect("there is a summary")
}

/// A directory with a tree.
fn scene() -> TempDir {
    let dir = temp_dir();
    fs::create_dir_all(dir.path().join("tree/inner")).expect("directories");
    fs::create_dir(dir.path().join("dest")).expect("a directory");
    fs::write(dir.path().join("tree/a"), "four").expect("a file");
    fs::write(dir.path().join("tree/inner/b"), "").expect("a file");
    fs::hard_link(dir.path().join("tree/a"), dir.path().join("tree/inner/c")).expect("a link");
    std::os::unix::fs::symlink("nowhere", dir.path().join("tree/link")).expect("a link");
    dir
}

#[test]
fn each_entry_is_a_line_between_start_and_summary() {
    let dir = scene();
    let lines = run(dir.path(), &["-a", "tree", "dest"]);
    let [start, .., summary] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(start["version"], 1);
    assert_eq!(start["destination"], "dest");
    assert_eq!(start["sources"], serde_json::json!([{ "path": "tree" }]));
    let mut copied: Vec<_> = of(&lines, "entry").iter().map(|line| line["dest"].as_str().expect("UTF-8")).collect();
    copied.sort_unstable();
    let names = ["", "/a", "/inner", "/inner/b", "/inner/c", "/link"].map(|name| format!("dest/tree{name}"));
    assert_eq!(copied, names);
    assert!(of(&lines, "entry").iter().all(|line| line["action"] == "copy" && line["source"].is_string()));
    let what = |name: &str| {
        let line = of(&lines, "entry").into_iter().find(|line| line["dest"] == format!("dest/tree{name}"));
        line.map(|line| (line["kind"].clone(), line.get("bytes").cloned(), line.get("reason").cloned()))
    };
    assert_eq!(what("/a"), Some(("file".into(), Some(4.into()), None)));
    assert_eq!(what("/inner"), Some(("directory".into(), None, None)));
    assert_eq!(what("/link"), Some(("symbolic_link".into(), None, None)));
    assert_eq!(summary["exit_status"], 0);
    assert_eq!(summary["journal"], Value::Null);
    assert_eq!(summary["stats"]["record"], "haul-stats");
    assert_eq!(summary["stats"]["bytes"]["total"], 4);
    assert!(dir.path().join("dest/tree/inner/c").exists());
}

#[test]
fn an_existing_destination_is_reported_with_what_becomes_of_it() {
    let dir = scene();
    run(dir.path(), &["-a", "tree", "dest"]);
    let lines = run(dir.path(), &["-an", "tree", "dest"]);
    let skipped: Vec<_> = of(&lines, "entry").into_iter().filter(|line| line["action"] == "skip").collect();
    assert_eq!(skipped.len(), 4);
    assert!(skipped.iter().all(|line| line["reason"] == "exists"), "{skipped:?}");
    fs::write(dir.path().join("tree/inner/b"), "longer").expect("a file");
    let lines = run(dir.path(), &["-a", "--update=changed", "tree", "dest"]);
    let copied = of(&lines, "entry").into_iter().find(|line| line["dest"] == "dest/tree/inner/b");
    let copied = copied.expect("it is copied");
    assert_eq!((&copied["action"], &copied["reason"]), (&"copy".into(), &"size_differs".into()));
    let lines = run(dir.path(), &["--backup=simple", "tree/a", "dest/tree/a"]);
    let [entry] = of(&lines, "entry")[..] else { panic!("{lines:?}") };
    assert_eq!(entry["backup"], "dest/tree/a~");
    let lines = run(dir.path(), &["--remove-destination", "tree/a", "dest/tree/a"]);
    let actions: Vec<_> = of(&lines, "entry").iter().map(|line| line["action"].as_str().expect("a word")).collect();
    assert_eq!(actions, ["remove", "copy"]);
    let lines = run(dir.path(), &["--parents", "tree/inner/b", "dest/tree/inner"]);
    let actions: Vec<_> = of(&lines, "entry").iter().map(|line| line["action"].as_str().expect("a word")).collect();
    assert_eq!(actions, ["make_parent", "make_parent", "copy"]);
}

#[test]
fn errors_and_warnings_are_lines_and_messages_too() {
    let dir = scene();
    let output = command(dir.path(), &["tree/a", "nothing", "tree/a", "dest"]).output().expect("it can be run");
    let lines = lines(&output);
    let [error] = of(&lines, "error")[..] else { panic!("{lines:?}") };
    assert_eq!(error["path"], "nothing");
    assert_eq!(error["errno"], 2);
    assert_eq!(error["class"], "missing");
    assert_eq!(error["message"], "cannot stat 'nothing': No such file or directory");
    let [warning] = of(&lines, "warning")[..] else { panic!("{lines:?}") };
    assert_eq!(warning["path"], "tree/a");
    assert_eq!(warning["operation"], "SourceTwice");
    assert_eq!(last(&lines)["exit_status"], 1);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("haul: cannot stat 'nothing': No such file or directory\n"), "{said}");
}

#[test]
fn names_that_are_not_utf_8_lose_nothing() {
    let dir = temp_dir();
    let name = OsStr::from_bytes(b"caf\xe9\n\x01\xff");
    fs::create_dir(dir.path().join("s")).expect("a directory");
    fs::write(dir.path().join("s").join(name), "text").expect("a file");
    let lines = run(dir.path(), &["-r", "s", "d"]);
    let entries = of(&lines, "entry");
    let found = entries.iter().find_map(|line| line["source_bytes"].as_str()).expect("one name is not UTF-8");
    let digits = |at: usize| u8::from_str_radix(&found[at..at + 2], 16).expect("digits");
    let bytes = (0..found.len()).step_by(2).map(digits).collect();
    assert_eq!(OsString::from_vec(bytes), Path::new("s").join(name));
    assert_eq!(entries.iter().filter(|line| line["source"] == "s/caf\u{fffd}\n\u{1}\u{fffd}").count(), 1);
}

/// Waits until nothing below was changed just now: a change from then on can be seen by its time.
fn let_settle(dir: &Path) {
    for entry in fs::read_dir(dir).expect("it can be read") {
        let path = entry.expect("it can be read").path();
        let found = fs::symlink_metadata(&path).expect("it is there");
        let [seconds, rest] = [found.ctime(), found.ctime_nsec()].map(|part| u64::try_from(part).expect("after 1970"));
        let changed = Duration::from_secs(seconds) + Duration::from_nanos(rest);
        while SystemTime::UNIX_EPOCH.elapsed().expect("after 1970") < changed + Duration::from_millis(30) {
            thread::yield_now();
        }
        if found.is_dir() {
            let_settle(&path);
        }
    }
}

#[test]
fn a_run_that_goes_on_says_what_an_earlier_one_has_finished() {
    let dir = scene();
    // Either of the two names may come first.
    fs::remove_file(dir.path().join("tree/inner/c")).expect("it is there");
    // Where a file goes is a directory.
    fs::create_dir_all(dir.path().join("dest/tree/inner/b")).expect("directories");
    let_settle(&dir.path().join("tree"));
    let arguments = ["-a", "--resume", "tree", "dest/"];
    let first = run(dir.path(), &arguments);
    let journal = last(&first)["journal"].as_str().expect("it is incomplete");
    assert!(dir.path().join(journal).exists(), "{journal}");
    fs::remove_dir(dir.path().join("dest/tree/inner/b")).expect("it is empty");
    let second = run(dir.path(), &arguments);
    let entries = of(&second, "entry");
    let finished: Vec<_> = entries.iter().filter(|line| line["reason"] == "finished").collect();
    let [finished] = finished[..] else { panic!("{second:?}") };
    assert_eq!(finished["dest"], "dest/tree/a");
    assert_eq!(last(&second)["journal"], Value::Null);
    assert_eq!(last(&second)["stats"]["resumed_bytes"], 4);
}

#[test]
fn digests_are_lines_unless_they_have_a_list() {
    let dir = scene();
    let lines = run(dir.path(), &["-a", "--checksum=md5", "--verify", "--durable=file", "tree/a", "dest"]);
    let [digest] = of(&lines, "digest")[..] else { panic!("{lines:?}") };
    assert_eq!(digest["dest"], "dest/a");
    assert_eq!(digest["digest"], "8cbad96aced40b3838dd9f07f6ef5772");
    let lines = run(dir.path(), &["-a", "--checksum=md5", "--digests=list", "tree/a", "dest"]);
    assert!(of(&lines, "digest").is_empty());
    let list = fs::read_to_string(dir.path().join("list")).expect("it was written");
    assert_eq!(list, "8cbad96aced40b3838dd9f07f6ef5772  dest/a\n");
}

/// A copy of one MiB that takes a minute.
fn slow_copy(dir: &Path, options: &[&str]) -> Child {
    create_painted(dir.join("file"), 1 << 20);
    fs::write(dir.join("control"), "limit=16K").expect("it can be written");
    let arguments = [options, &["--control=control", "--reflink=never", "file", "dest"]].concat();
    command(dir, &arguments).stdout(Stdio::piped()).spawn().expect("it can be run")
}

#[test]
fn a_run_that_is_stopped_says_so_in_its_last_line() {
    let dir = temp_dir();
    let mut child = slow_copy(dir.path(), &[]);
    let mut out = BufReader::new(child.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    let begun = out.by_ref().map(|line| parsed(&line)).find(|line| line["bytes_moved"].as_u64() > Some(0));
    assert!(begun.is_some());
    kill_process(Pid::from_child(&child), Signal::INT).expect("the process is there");
    let rest: Vec<Value> = out.map(|line| parsed(&line)).collect();
    assert_eq!(last(&rest)["exit_status"], 130);
    assert_eq!(last(&rest)["stats"]["cancelled"], true);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert!(!dir.path().join("dest").exists());
}

#[test]
fn progress_is_reported_each_second_with_the_totals_and_the_time_left() {
    for (options, done) in [(&[][..], true), (&["--durable=file"], false)] {
        let dir = temp_dir();
        let mut child = slow_copy(dir.path(), options);
        let mut out = BufReader::new(child.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
        let known = out.by_ref().map(|line| parsed(&line)).find(|line| line["seconds_left"].as_f64().is_some());
        let known = known.expect("it is slow enough");
        let number = |field: &str| known[field].as_u64().unwrap_or_else(|| panic!("{field} of {known}"));
        assert_eq!(known["event"], "progress");
        assert_eq!(known["phase"], "copying");
        assert_eq!((number("bytes_total"), number("entries_total"), number("entries_done")), (1 << 20, 1, 1));
        assert!((1..1 << 20).contains(&number("bytes_moved")), "{known}");
        assert_eq!(number("bytes_done"), if done { number("bytes_moved") } else { 0 });
        fs::write(dir.path().join("new"), "limit=none").expect("it can be written");
        fs::rename(dir.path().join("new"), dir.path().join("control")).expect("it can be renamed");
        let rest: Vec<Value> = out.map(|line| parsed(&line)).collect();
        assert_eq!(last(&rest)["event"], "summary");
        assert_eq!(last(&rest)["stats"]["bytes"]["total"], 1 << 20);
        assert!(child.wait().expect("it ends").success());
    }
}

#[test]
fn while_a_run_only_deletes_progress_says_so_and_how_much() {
    if !haul_testbed::guest::has("strace") {
        return haul_testbed::skip("strace is missing");
    }
    // Directory by directory, and at the end of the run.
    for options in [&[][..], &["--atomic"]] {
        let dir = scene();
        run(dir.path(), &["-aT", "tree", "dest"]);
        for number in 0..60 {
            fs::write(dir.path().join(format!("dest/inner/{number}")), "").expect("a file");
        }
        let mut command = Command::new("strace");
        // So that all of it takes some seconds.
        command.args([
            "-f",
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            "trace=unlinkat",
            "-e",
            "inject=unlinkat:delay_enter=50000",
        ]);
        command.args([HAUL, "--json", "-aT", "--delete"]).args(options).args(["tree", "dest"]);
        let mut child = command.current_dir(dir.path()).stdout(Stdio::piped()).spawn().expect("strace can be run");
        let mut out = BufReader::new(child.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
        let deleting = out.by_ref().map(|line| parsed(&line)).find(|line| line["phase"] == "deleting");
        let deleting = deleting.expect("it is slow enough");
        assert!((1..=60).contains(&deleting["entries_deleted"].as_u64().expect("a number")), "{deleting}");
        assert_eq!(deleting["seconds_left"], Value::Null);
        let rest: Vec<Value> = out.map(|line| parsed(&line)).collect();
        assert_eq!(last(&rest)["stats"]["files"]["deleted"], 60);
        assert!(child.wait().expect("it ends").success());
    }
}

#[test]
fn a_dry_run_reports_no_progress_however_long_it_takes() {
    if !haul_testbed::guest::has("strace") {
        return haul_testbed::skip("strace is missing");
    }
    let dir = scene();
    let events = |options: &[&str]| {
        let mut command = Command::new("strace");
        // Each directory is read by two calls at least: more than a second together.
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=getdents64"]);
        command.args(["-e", "inject=getdents64:delay_enter=700000", HAUL, "--json", "-aT"]);
        let output = command.args(options).args(["tree", "dest"]).current_dir(dir.path()).output();
        lines(&output.expect("strace can be run"))
    };
    assert!(of(&events(&["--dry-run"]), "progress").is_empty());
    assert!(!of(&events(&[]), "progress").is_empty(), "it was slow enough");
}

#[test]
fn what_prints_on_standard_output_does_not_go_with_it() {
    let dir = scene();
    for arguments in [
        &["-v", "tree/a", "dest"][..],
        &["--debug", "tree/a", "dest"],
        &["--explain", "tree/a", "dest"],
        &["--list-out=l", "-r", "tree", "dest/"],
        &["--shard=status", "-r", "tree", "dest/"],
        &["--compare", "-r", "tree", "dest"],
        &["--punch", "--smart", "tree/a"],
    ] {
        let output = command(dir.path(), arguments).output().expect("it can be run");
        assert!(!output.status.success(), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
    assert!(!dir.path().join("dest/a").exists());
}

#[test]
fn what_shards_and_statistics_say_goes_to_standard_error() {
    let dir = scene();
    let output =
        command(dir.path(), &["-r", "--shard=1/1", "--stats", "tree", "dest/"]).output().expect("it can be run");
    lines(&output);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("1 of 1 shards are done") && said.contains("\nstatus "), "{said}");
}

#[test]
fn lines_that_cannot_be_written_fail_the_run() {
    let dir = scene();
    let full = fs::File::options().write(true).open("/dev/full").expect("it is there");
    let mut child =
        command(dir.path(), &["tree/a", "dest"]).stdout(full).stderr(Stdio::piped()).spawn().expect("it can be run");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().expect("it is piped"), &mut said).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(1));
    assert!(said.contains("write error: No space left on device"), "{said}");
    assert_eq!(fs::read(dir.path().join("dest/a")).expect("it is copied all the same"), b"four");
}
