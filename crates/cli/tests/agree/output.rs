//! What haul prints and reads: questions, standard output that is full, statistics.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use haul_agree::stage::Call;
use haul_io::engine::{EngineName, Role, Shares};
use haul_testbed::Command;
use serde_json::Value;

use crate::support::{Sealed, exists, lay, sealed};

#[test]
fn each_question_takes_one_line_of_the_answers() {
    sealed("questions", |place| {
        let scene = |work: &Path| lay(work, &["a", "b", "c", "e", "d/a", "d/b", "d/c", "d/e"]);
        for answers in ["y\nn\nY\nx\n", "n\n\ny\n", "yes\nno\nYES\n", "", "y", " y\ny\ny\ny\n"] {
            for options in ["-i", "-iv", "-if", "-ib", "-iu", "-ni", "-in", "--interactive"] {
                let call =
                    Call { stdin: answers.as_bytes().to_vec(), ..Call::new(&[options, "a", "b", "c", "e", "d"]) };
                place.agree(&scene, &call);
            }
        }
    });
}

#[test]
fn the_question_about_a_file_without_write_permission_is_that_of_cp() {
    sealed("questions about permissions", |place| {
        let scene = |work: &Path| {
            lay(work, &["a", "d/a"])?;
            fs::set_permissions(work.join("d/a"), std::os::unix::fs::PermissionsExt::from_mode(0o400))
        };
        for options in ["-i", "-if", "-iv", "-i --remove-destination"] {
            for answer in ["y\n", "n\n"] {
                let argv: Vec<&str> = options.split(' ').chain(["a", "d"]).collect();
                for user in [0, haul_agree::grow::USER] {
                    place.agree(&scene, &Call { stdin: answer.as_bytes().to_vec(), user, ..Call::new(&argv) });
                }
            }
        }
    });
}

#[test]
fn a_full_standard_output_is_an_error_but_the_files_are_copied() {
    sealed("/dev/full", |place| {
        let scene = |work: &Path| lay(work, &["a", "s/x", "d/"]);
        for argv in [&["-v", "a", "d"][..], &["-rv", "s", "d"], &["--help"], &["--version"]] {
            let call = Call { stdout: Some(PathBuf::from("/dev/full")), ..Call::new(argv) };
            assert_eq!(place.agree(&scene, &call).status, "exit 1", "{argv:?}");
        }
        let call = Call { stdout: Some(PathBuf::from("/dev/full")), ..Call::new(&["a", "d"]) };
        let quiet = place.agree(&scene, &call);
        assert!(quiet.status == "exit 0" && exists(&quiet, "d/a"), "nothing was to be printed");
    });
}

#[test]
fn help_and_version_go_to_standard_output_and_win_over_missing_operands() {
    sealed("--help", |place| {
        let scene = |work: &Path| lay(work, &["a"]);
        for argv in [&["--help"][..], &["-r", "--help"], &["--version"], &["--vers"]] {
            let (reference, tested) = place.both(&scene, &Call::new(argv));
            assert_eq!((&tested.status, &tested.stderr), (&reference.status, &reference.stderr), "{argv:?}");
            assert!(!tested.stdout.is_empty(), "{argv:?}");
        }
    });
}

/// The numbers of an object by name.
fn numbers(value: &Value) -> BTreeMap<String, u64> {
    let object = value.as_object().unwrap_or_else(|| panic!("no object: {value}"));
    object.iter().map(|(name, number)| (name.clone(), number.as_u64().expect("a whole number"))).collect()
}

/// Asserts that the total is the sum of the rest, and returns the rest.
fn parts(bytes: &Value) -> BTreeMap<String, u64> {
    let mut parts = numbers(bytes);
    let total = parts.remove("total").expect("a total");
    assert_eq!(parts.values().sum::<u64>(), total, "{bytes}");
    parts
}

/// The record of a run, which must be the last line of standard error and must not be on standard output.
fn record(place: &Sealed, filesystem: &str, options: &[&str]) -> Value {
    let directory = place.room.join(filesystem).join("stats");
    let mut command = Command::new(&place.haul);
    command.arg0("haul").args(options).args(["--stats=json", "s", "d"]).current_dir(directory);
    let run = command.output().expect("starts");
    assert!(run.stdout.is_empty(), "statistics belong on standard error");
    let text = String::from_utf8(run.stderr).expect("JSON is UTF-8");
    let line = text.lines().last().unwrap_or_default();
    let record: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!((&record["record"], &record["version"]), (&Value::from("haul-stats"), &Value::from(1)));
    assert_eq!(record["exit_status"].as_i64(), run.status.code().map(i64::from), "{text}");
    record
}

#[test]
fn json_statistics_add_up_to_what_was_copied() {
    sealed("--stats=json", |place| {
        for filesystem in ["memory", "disk"] {
            let directory = place.room.join(filesystem).join("stats");
            fs::create_dir(&directory).expect("a directory");
            lay(&directory, &["s/one", "s/deep/three"]).expect("room");
            fs::write(directory.join("s/large"), vec![1; 3 << 20]).expect("room");
            fs::File::create(directory.join("s/hole")).expect("a file").set_len(5 << 20).expect("a hole");
            fs::hard_link(directory.join("s/one"), directory.join("s/two")).expect("a link");
            std::os::unix::fs::symlink("one", directory.join("s/link")).expect("a link");
            // Clone refuses most filesystems, and null moves nothing.
            let engines = EngineName::ALL.into_iter().filter(|engine| engine.caps().role != Role::Dummy);
            let engines = engines.filter(|engine| engine.caps().shares != Shares::Always).map(EngineName::as_str);
            for engine in engines.chain(["auto"]).map(|engine| format!("--engine={engine}")) {
                let record = record(place, filesystem, &["-a", &engine]);
                assert_eq!(record["exit_status"], 0, "{record}");
                let files = [("regular", 4), ("directories", 2), ("symbolic_links", 1), ("hard_links", 1)];
                for (kind, count) in files {
                    assert_eq!(record["files"][kind], count, "{kind} {engine}: {record}");
                }
                let wanted = (3 << 20) + (5 << 20) + "s/one".len() as u64 + "s/deep/three".len() as u64;
                let bytes = parts(&record["bytes"]);
                assert_eq!(bytes.values().sum::<u64>(), wanted, "{engine}: {record}");
                assert!(bytes["holes"] >= 4 << 20, "{engine}: {record}");
                let mut moved = BTreeMap::<String, u64>::new();
                for engine in record["engines"].as_object().expect("an object").values() {
                    for (way, count) in parts(&engine["bytes"]) {
                        *moved.entry(way).or_default() += count;
                    }
                }
                for way in ["shared", "offloaded", "written"] {
                    assert_eq!(moved.get(way), bytes.get(way), "{way} {engine}: {record}");
                }
                fs::remove_dir_all(directory.join("d")).expect("can be removed");
            }
        }
    });
}

#[test]
fn json_statistics_are_printed_after_a_failure_too_and_count_it() {
    sealed("--stats=json after a failure", |place| {
        let directory = place.room.join("memory/stats");
        fs::create_dir(&directory).expect("a directory");
        lay(&directory, &["s/x", "d/s/x/"]).expect("room");
        let record = record(place, "memory", &["-r"]);
        assert_eq!((&record["exit_status"], &record["errors"]), (&Value::from(1), &Value::from(1)), "{record}");
    });
}
