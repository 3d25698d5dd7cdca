//! `haul-lab report` on files of results.

mod sample;

use std::fs;
use std::path::Path;
use std::process::Output;

use haul_lab::results::{Outcome, Results, Section};
use haul_testbed::{Command, temp_dir};

fn report(dir: &Path, arguments: &[&str]) -> Output {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_haul-lab"));
    lab.arg("report").args(arguments).current_dir(dir).env("LC_ALL", "C").output().unwrap()
}

fn printed(output: &Output) -> &str {
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    std::str::from_utf8(&output.stdout).unwrap()
}

fn complaint(output: &Output) -> &str {
    assert_eq!((output.status.code(), &*output.stdout), (Some(1), &b""[..]), "{output:?}");
    std::str::from_utf8(&output.stderr).unwrap()
}

fn save(dir: &Path, name: &str, results: &Results) {
    results.save(&dir.join(name)).unwrap();
}

#[test]
fn without_an_option_tables_are_printed_in_the_width_that_is_asked_for() {
    let dir = temp_dir();
    save(dir.path(), "all.json", &sample::results());
    let output = report(dir.path(), &["all.json", "--width=100"]);
    let text = printed(&output);
    for words in ["Copies inside the kernel", "ext4 on /dev/nvme0n1p2", "WRONG COPY", "photographs/7.raw differs"] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    assert!(!text.contains(['\x1b', '\u{202e}']));
    let tables = text.lines().filter(|line| line.starts_with("  ") && line.contains("(") && !line.contains("WRONG"));
    let longest = tables.map(|line| line.chars().count()).max();
    assert!(longest.is_some_and(|longest| longest <= 100), "{longest:?}");
}

#[test]
fn help_is_printed_and_fits_a_terminal() {
    let dir = temp_dir();
    let output = report(dir.path(), &["--help"]);
    let text = printed(&output);
    assert!(text.starts_with("Usage: haul-lab report") && text.lines().all(|line| line.len() <= 80), "{text}");
}

#[test]
fn a_wrong_copy_is_shown_as_wrong_and_has_no_time() {
    let dir = temp_dir();
    save(dir.path(), "all.json", &sample::few());
    printed(&report(dir.path(), &["all.json", "--csv=all.csv", "--html=all.html"]));
    let csv = fs::read_to_string(dir.path().join("all.csv")).unwrap();
    let lines: Vec<&str> = csv.lines().filter(|line| line.contains(",liar,") && !line.contains(",runs: ")).collect();
    assert!(lines.iter().any(|line| line.contains("WRONG COPY")), "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains("returned") || line.ends_with(",,-")), "{lines:?}");
    let html = fs::read_to_string(dir.path().join("all.html")).unwrap();
    let row = html.split("<tr>").find(|row| row.contains(">liar<")).unwrap();
    assert!(row.contains("class=\"bad\" colspan=") && !row.contains("best"), "{row}");
}

#[test]
fn columns_are_named_in_the_words_of_the_field() {
    let dir = temp_dir();
    save(dir.path(), "all.json", &sample::results());
    printed(&report(dir.path(), &["all.json", "--html=all.html"]));
    let html = fs::read_to_string(dir.path().join("all.html")).unwrap();
    let heads = html.split("<th scope=\"col\"").skip(1).filter_map(|rest| rest.split_once('>')?.1.split('<').next());
    let heads: Vec<&str> = heads.collect();
    for name in ["sys, s", "max RSS", "major faults", "MiB/s", "ratio to base", "p50", "p99", "p99.9", "max"] {
        assert!(heads.contains(&name), "{name} in {heads:?}");
    }
    let own = ["what", "kernel", "against", "peak memory", "of them", "longest", "together", "MB/s", "KiB/s", "KB/s"];
    let found: Vec<&&str> = heads.iter().filter(|head| own.iter().any(|name| head.starts_with(name))).collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn the_first_screen_has_a_sentence_and_a_picture_of_each_experiment_that_was_run() {
    let dir = temp_dir();
    for number in [1, 6] {
        let mut results = sample::results();
        results.sections.truncate(number);
        save(dir.path(), "some.json", &results);
        printed(&report(dir.path(), &["some.json", "--html=some.html"]));
        let html = fs::read_to_string(dir.path().join("some.html")).unwrap();
        let first = html.split_once("<h2>What was measured</h2>").unwrap().0;
        let cards: Vec<&str> = first.split("<li>\n<h2>").skip(1).collect();
        assert_eq!(cards.len(), number);
        for card in cards {
            let counts = (card.matches("<p>").count(), card.matches("role=\"img\"").count());
            assert!(counts == (1, 1) && !card.contains("<p></p>"), "{card}");
        }
    }
}

#[test]
fn every_output_is_written_and_the_results_are_not() {
    let dir = temp_dir();
    save(dir.path(), "all.json", &sample::few());
    let before = fs::read(dir.path().join("all.json")).unwrap();
    let options = ["all.json", "--html=a.html", "--markdown=a.md", "--csv=a.csv"];
    assert_eq!(printed(&report(dir.path(), &options)), "");
    for (name, begins) in [("a.html", "<!DOCTYPE html>"), ("a.md", "# "), ("a.csv", "section,table,row,")] {
        assert!(fs::read_to_string(dir.path().join(name)).unwrap().starts_with(begins), "{name}");
    }
    fs::hard_link(dir.path().join("all.json"), dir.path().join("other-name")).unwrap();
    for option in ["--html=all.json", "--csv=other-name"] {
        let output = report(dir.path(), &["all.json", option]);
        assert!(complaint(&output).contains("is one of the results, and is not overwritten"), "{output:?}");
    }
    assert_eq!(fs::read(dir.path().join("all.json")).unwrap(), before);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 5, "something else was left there");
}

#[test]
fn the_same_results_make_the_same_report() {
    let dir = temp_dir();
    save(dir.path(), "all.json", &sample::few());
    for name in ["--html=1", "--html=2"] {
        printed(&report(dir.path(), &["all.json", name]));
    }
    assert_eq!(fs::read(dir.path().join("1")).unwrap(), fs::read(dir.path().join("2")).unwrap());
}

#[test]
fn what_is_no_results_file_is_refused_with_its_name_and_the_reason() {
    let dir = temp_dir();
    let whole = serde_json::to_string(&sample::few()).unwrap();
    let mut empty = sample::few();
    empty.sections.clear();
    for (name, text, expected) in [
        ("newer.json", whole.replacen("\"version\":1", "\"version\":2", 1), "has version 2 of the format"),
        ("cut.json", whole[..whole.len() / 2].to_owned(), "is no results file: EOF"),
        ("other.json", "{\"format\":\"something\"}".to_owned(), "is no results file of haul-lab"),
        ("lost.json", whole.replacen("\"sections\"", "\"passages\"", 1), "is damaged: missing field `sections`"),
        ("nothing.json", String::new(), "is no results file: EOF"),
        ("empty.json", serde_json::to_string(&empty).unwrap(), "nothing was measured yet"),
    ] {
        fs::write(dir.path().join(name), text).unwrap();
        let output = report(dir.path(), &[name, "--html=out.html"]);
        assert!(complaint(&output).contains(expected), "{name}: {output:?}");
    }
    let output = report(dir.path(), &["absent.json"]);
    assert!(complaint(&output).contains("cannot read \"absent.json\": No such file"), "{output:?}");
    assert!(!dir.path().join("out.html").exists());
}

#[test]
fn a_baseline_shows_what_became_slower() {
    let dir = temp_dir();
    let (old, mut new) = (sample::few(), sample::few());
    for run in new.sections[1].cases.iter_mut().flat_map(|case| &mut case.runs) {
        run.returned *= 1.5;
    }
    save(dir.path(), "old.json", &old);
    save(dir.path(), "new.json", &new);
    let output = report(dir.path(), &["new.json", "--baseline=old.json", "--width=160"]);
    let text = printed(&output);
    assert!(text.contains("none is faster than in the baseline of 2026-11-22 16:51 UTC, 16 are slower"), "{text}");
    save(dir.path(), "none.json", &Results { sections: vec![Section::new("compare", "x")], ..sample::few() });
    let output = report(dir.path(), &["new.json", "--baseline=none.json"]);
    assert!(complaint(&output).contains("has no case in common"), "{output:?}");
}

#[test]
fn several_files_are_one_report_without_what_nobody_asked_for() {
    let dir = temp_dir();
    let (mut one, mut two) = (sample::few(), sample::few());
    one.sections.truncate(1);
    two.sections = two.sections.split_off(1);
    two.sections.truncate(1);
    two.environment.kernel = "5.10".to_owned();
    save(dir.path(), "one.json", &one);
    save(dir.path(), "two.json", &two);
    let output = report(dir.path(), &["one.json", "two.json", "--width=200"]);
    let text = printed(&output);
    for words in [
        "two.json was measured elsewhere than one.json: kernel 5.10 and not 6.12.9-amd64.",
        "Copies inside the kernel: ",
        "8 GB: there is no room for it on /mnt/measure",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    assert!(!text.contains("Disk images"), "{text}");
}

#[test]
fn cases_without_runs_and_sections_without_cases_make_a_report() {
    let dir = temp_dir();
    let mut results = sample::results();
    for section in &mut results.sections {
        section.complete = false;
        section.details.clear();
        for case in &mut section.cases {
            case.runs.clear();
            case.outcome = Outcome::Right;
        }
    }
    results.sections[0].cases.clear();
    results.complete = false;
    save(dir.path(), "bare.json", &results);
    let options = ["bare.json", "--html=a.html", "--markdown=a.md", "--csv=a.csv"];
    assert_eq!(printed(&report(dir.path(), &options)), "");
    let text = report(dir.path(), &["bare.json"]);
    assert!(printed(&text).contains("This section is not complete"));
}
