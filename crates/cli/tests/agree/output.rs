//! What haul prints and reads: questions, standard output that is full, statistics.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_agree::stage::Call;
use serde_json::Value;

use crate::support::{exists, lay, sealed};

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

/// All numbers of a JSON value under keys that contain `key`, wherever they stand.
fn numbers(value: &Value, key: &str, found: &mut Vec<u64>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| match value.as_u64() {
            Some(number) if name == key => found.push(number),
            _ => numbers(value, key, found),
        }),
        Value::Array(list) => list.iter().for_each(|value| numbers(value, key, found)),
        _ => {}
    }
}

#[test]
fn json_statistics_are_one_json_record_on_standard_error() {
    sealed("--stats=json", |place| {
        let directory = place.room.join("memory/stats");
        fs::create_dir(&directory).expect("a directory");
        lay(&directory, &["s/one", "s/two", "s/deep/three"]).expect("room");
        let run = Command::new(&place.haul)
            .arg0("haul")
            .args(["-r", "--stats=json", "s", "d"])
            .current_dir(&directory)
            .output()
            .expect("starts");
        assert!(run.status.success());
        assert!(run.stdout.is_empty(), "statistics belong on standard error");
        let text = String::from_utf8(run.stderr).expect("JSON is UTF-8");
        let record: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let mut versions = Vec::new();
        numbers(&record, "version", &mut versions);
        assert_eq!(versions.len(), 1, "one number of the format: {text}");
    });
}
