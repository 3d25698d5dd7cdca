//! The commands that measure, as a user runs them.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use haul_lab::results::{Case, Outcome, Results};
use haul_testbed::guest::run;
use haul_testbed::{Bed, Child, Command, Fs, create_painted, temp_dir, write_script};
use rustix::process::{Pid, Signal, kill_process};

const LAB: &str = env!("CARGO_BIN_EXE_haul-lab");

/// A folder with a directory to measure in and a source.
struct Scene {
    dir: haul_testbed::TempDir,
}

impl Scene {
    fn new() -> Scene {
        let dir = temp_dir();
        fs::create_dir(dir.path().join("place")).unwrap();
        create_painted(dir.path().join("source"), 300_000);
        Scene { dir }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(LAB);
        command.args(words).current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("it can be run")
    }

    /// Compares haul with these commands, once each, and gives what was saved.
    fn compare(&self, options: &[&str], commands: &[&str]) -> (Output, Results) {
        let words = ["compare", "--source=source", "--dest=place", "--output=out"];
        let words = [&words[..], options, &["--"], commands].concat();
        let output = self.run(&words);
        let results = Results::load(&self.at("out/results.json"));
        (output.clone(), results.unwrap_or_else(|error| panic!("{error}: {}", said(&output))))
    }

    fn assert_nothing_left(&self) {
        let left: Vec<_> = fs::read_dir(self.at("place")).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn said(output: &Output) -> String {
    format!("{}: {}{}", output.status, String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout))
}

fn case<'r>(results: &'r Results, competitor: &str) -> &'r Case {
    let mut cases = results.sections.iter().flat_map(|section| &section.cases);
    cases.find(|case| case.competitor == competitor).unwrap_or_else(|| panic!("no {competitor} in {results:#?}"))
}

#[test]
fn every_copy_of_an_experiment_is_right_or_refused_and_nothing_is_left() {
    let scene = Scene::new();
    for words in [
        &["in-kernel", "--sizes=1M,2M"][..],
        &["mapped-copy", "--size=2M", "--buffers=64K"],
        &["async-tree", "--totals=1M", "--files=3,40", "--variants=plain,readahead,preallocate"],
    ] {
        let output = scene.run(&[words, &["--runs=2", "--output=out", "place"]].concat());
        assert!(output.status.success(), "{}", said(&output));
        let results = Results::load(&scene.at("out/results.json")).unwrap();
        assert!(results.complete);
        let cases = &results.section(words[0]).unwrap().cases;
        assert!(cases.len() >= 10, "{cases:?}");
        for case in cases {
            match &case.outcome {
                Outcome::Right => assert_eq!(case.runs.len(), 2, "{case:?}"),
                // The one where extents cannot be shared, the other where they are.
                Outcome::Refused(_) => {
                    assert!(case.runs.is_empty() && ["clone", "copy-range"].contains(&&*case.competitor), "{case:?}")
                }
                other => panic!("{}: {other:?}", case.competitor),
            }
        }
        scene.assert_nothing_left();
        fs::remove_dir_all(scene.at("out")).unwrap();
    }
}

#[test]
fn where_the_kernel_spends_the_time_is_said_or_why_it_is_not() {
    let scene = Scene::new();
    fs::create_dir(scene.at("programs")).unwrap();
    std::os::unix::fs::symlink("/bin/cp", scene.at("programs/cp")).unwrap();
    let sampled = |name: &str, path: Option<PathBuf>| {
        let mut command = scene.command(&["in-kernel", "--sizes=16M", "--runs=1", "--output", name, "place"]);
        path.map(|path| command.env("PATH", path));
        let output = command.output().expect("it can be run");
        assert!(output.status.success(), "{}", said(&output));
        let results = Results::load(&scene.at(name).join("results.json")).unwrap();
        let section = results.section("in-kernel").unwrap();
        assert!(section.cases.iter().any(|case| case.competitor == "cp" && case.outcome == Outcome::Right));
        (section.grid("samples").cloned(), section.skipped.join("; "))
    };
    // What perf may do here is not ours to choose.
    match sampled("with", None) {
        (Some(grid), _) => {
            assert_eq!((grid.rows.1[0].as_str(), grid.columns.1[0].as_str()), ("read-write", "copying memory"));
            assert!(grid.values[0][0] > Some(0.0), "{grid:?}");
        }
        (None, why) => {
            assert!(why.contains("where the kernel spends the time: ") && why.contains("perf must"), "{why}")
        }
    }
    let (none, why) = sampled("without", Some(scene.at("programs")));
    assert!(none.is_none() && why.contains("cannot run perf: No such file"), "{why}");
    scene.assert_nothing_left();
}

#[test]
fn a_wrong_copy_below_perf_fails_the_command() {
    let scene = Scene::new();
    fs::create_dir(scene.at("programs")).unwrap();
    let perf = scene.at("programs/perf");
    let script = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift\n\"$@\" || exit\nfor copy; do :; done\n\
                  echo more >> \"$copy\"\n";
    write_script(&perf, script);
    let path = format!("{}:{}", scene.at("programs").display(), std::env::var("PATH").unwrap());
    let mut command = scene.command(&["in-kernel", "--sizes=1M", "--runs=1", "--output=out", "place"]);
    let output = command.env("PATH", path).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("read-write made a WRONG COPY below perf"), "{}", said(&output));
    scene.assert_nothing_left();
}

#[test]
fn an_image_copied_in_any_way_is_right_and_what_is_skipped_is_counted() {
    let scene = Scene::new();
    let output = scene.run(&["sparse-image", "--size=96M", "--runs=1", "--output=out", "place"]);
    assert!(output.status.success(), "{}", said(&output));
    let results = Results::load(&scene.at("out/results.json")).unwrap();
    let reported = |competitor: &str, name: &str| case(&results, competitor).runs[0].reported[name];
    let smart = "smart read, sparse output";
    assert!(reported(smart, "bytes.read-skipped") > 10e6, "{results:?}");
    assert!(reported(smart, "bytes.write-skipped") > reported(smart, "bytes.read-skipped") + 10e6);
    assert!(reported("full read, plain output", "bytes.copied") == f64::from(96 << 20));
    assert!(reported("full read, sparse output", "bytes.read-skipped") == 0.0);
    let by_queues = "smart read, sparse output, by queues";
    let waits =
        ["read-enqueue", "read-dequeue", "write-enqueue", "write-dequeue"].map(|name| format!("seconds.{name}"));
    assert!(waits.iter().all(|wait| reported(by_queues, wait) > 0.0 && reported(smart, wait) == 0.0), "{results:?}");
    assert!(reported(by_queues, "workers") == 0.0 && reported(smart, "workers") >= 1.0);
    let in_calls = reported(smart, "seconds.read") + reported(smart, "seconds.write");
    assert!(in_calls > 0.0 && in_calls <= reported(smart, "seconds.workers"), "{results:?}");
    assert!(results.sections[0].detail("strip").is_some());
    scene.assert_nothing_left();
}

#[test]
fn a_competitor_of_known_times_has_these_times() {
    let scene = Scene::new();
    let slow = "cp {source} {dest}; sleep 0.3";
    let (output, results) = scene.compare(&["--runs=3", "--with=cp"], &[slow]);
    assert!(output.status.success(), "{}", said(&output));
    for run in &case(&results, slow).runs {
        assert!(run.returned >= 0.3 && run.durable >= run.returned, "{run:?}");
        // It sleeps and does not work.
        assert!(run.user + run.system < run.returned, "{run:?}");
    }
    assert_eq!(case(&results, "cp").runs.len(), 3);
    assert_eq!(case(&results, "haul").runs.len(), 3);
    assert!(results.environment.competitors["cp"].contains("cp (GNU coreutils)"));
    let report = fs::read_to_string(scene.at("out/report.html")).unwrap();
    assert!(report.contains("sleep 0.3"));
}

#[test]
fn memory_of_a_competitor_is_its_own() {
    let scene = Scene::new();
    let large = "head -c 100000000 /dev/zero | tail -c 100000000 > /dev/null; cp {source} {dest}";
    let (_, results) = scene.compare(&["--runs=1"], &[large]);
    assert!(case(&results, large).runs[0].peak_memory > 50_000_000, "{results:?}");
    assert!(case(&results, "haul").runs[0].peak_memory < 50_000_000, "{results:?}");
}

#[test]
fn a_wrong_copier_is_caught_and_has_no_times() {
    let scene = Scene::new();
    let short = "head -c 299999 {source} > {dest}";
    let null = format!("{LAB} one-copy '{{\"engine\":\"null\"}}' {{source}} {{dest}}");
    let (output, results) = scene.compare(&["--runs=2"], &[short, &null, "cp {source} {dest}"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    for wrong in [short, &null] {
        let case = case(&results, wrong);
        assert!(matches!(case.outcome, Outcome::Wrong(_)) && case.runs.is_empty(), "{case:?}");
    }
    assert_eq!(case(&results, "cp {source} {dest}").outcome, Outcome::Right);
    assert!(String::from_utf8_lossy(&output.stdout).contains("WRONG"), "{}", said(&output));
    scene.assert_nothing_left();
}

#[test]
fn a_copy_without_its_metadata_is_wrong_where_metadata_was_asked_for() {
    let scene = Scene::new();
    fs::File::open(scene.at("source")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    let (_, results) = scene.compare(&["--runs=1", "--archive", "--with=cp"], &["cp {source} {dest}"]);
    assert_eq!(case(&results, "cp").outcome, Outcome::Right);
    assert!(matches!(case(&results, "cp {source} {dest}").outcome, Outcome::Wrong(_)), "{results:?}");
}

#[test]
fn a_competitor_that_hangs_is_ended_with_all_that_it_started() {
    let scene = Scene::new();
    let hangs = "sleep 98761 & sleep 98761; cp {source} {dest}";
    let (output, results) = scene.compare(&["--runs=2", "--timeout=4s"], &[hangs]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(matches!(case(&results, hangs).outcome, Outcome::TooLong(_)), "{results:?}");
    assert_eq!(case(&results, "haul").outcome, Outcome::Right);
    assert!(!is_running("98761"));
    scene.assert_nothing_left();
}

#[test]
fn what_a_competitor_left_running_ends_with_it() {
    let scene = Scene::new();
    // The second one is in a session of its own, and keeps the outputs.
    let leaves = "sleep 98762 & setsid sleep 98762 & cp {source} {dest}";
    let (output, results) = scene.compare(&["--runs=1"], &[leaves]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(case(&results, leaves).outcome, Outcome::Right);
    assert!(!is_running("98762"));
}

/// Whether there is a process of ours with this word in its command.
fn is_running(word: &str) -> bool {
    let commands =
        fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    commands.into_iter().any(|command| command.split(|byte| *byte == 0).any(|part| part == word.as_bytes()))
}

#[test]
fn a_competitor_that_fails_or_is_killed_or_missing_is_reported_and_the_others_are_measured() {
    let scene = Scene::new();
    let commands = [
        "echo sorry >&2; exit 3; # {source} {dest}",
        "kill -9 $$; # {source} {dest}",
        "no-such-program-anywhere {source} {dest}",
    ];
    let (output, results) = scene.compare(&["--runs=1"], &commands);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    for (command, why) in commands.iter().zip(["sorry", "signal: 9", "not found"]) {
        let Outcome::Failed(reported) = &case(&results, command).outcome else { panic!("{results:?}") };
        assert!(reported.contains(why), "{reported}");
    }
    assert_eq!(case(&results, "haul").outcome, Outcome::Right);
    scene.assert_nothing_left();
}

#[test]
fn a_disk_that_is_full_in_the_middle_fails_who_filled_it_and_nobody_else() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = bed.small(Fs::Tmpfs, 160 << 20) else { return };
    let scene = Scene::new();
    let greedy = "cp {source} {dest} && cat /dev/zero > {dest}.more";
    let dest = format!("--dest={}", place.display());
    let words = ["compare", "--source=source", &dest, "--output=out", "--runs=2", "--", greedy, "cp {source} {dest}"];
    let output = scene.run(&words);
    let results =
        Results::load(&scene.at("out/results.json")).unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
    assert!(matches!(case(&results, greedy).outcome, Outcome::Failed(_)), "{}", said(&output));
    assert_eq!(case(&results, "cp {source} {dest}").outcome, Outcome::Right, "{}", said(&output));
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
}

#[test]
fn what_cannot_be_done_is_refused_before_anything_is_written() {
    let scene = Scene::new();
    for (words, why) in [
        (&["in-kernel", "--sizes=900T", "place"][..], "in-kernel needs "),
        (&["in-kernel", "nowhere"], "No such file or directory"),
        (&["in-kernel", "source"], "is not a directory"),
        (&["compare", "--source=source", "--dest=place", "--with=cq"], "unknown competitor \"cq\""),
        (&["compare", "--source=nothing", "--dest=place", "--with=cp"], "No such file or directory"),
        (&["compare", "--source=source", "--dest=place"], "with whom?"),
        (&["mapped-copy", "--time=1s", "place"], "there is no time to run everybody once"),
        (&["reproduce", "--budget=5s", "place"], "a budget of 5 s is too short"),
        (&["compare", "--source=source", "--dest=place", "--with=tar"], "nobody is left to compete"),
        (&["compare", "--source=source", "--dest=place", "--", "cp '{source}' {dest}"], "in quotes"),
        (&["sparse-image", "--image=nothing", "place"], "No such file or directory"),
    ] {
        let output = scene.run(&[words, &["--output=out"]].concat());
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains(why), "{}", said(&output));
        scene.assert_nothing_left();
        assert!(!scene.at("out").exists(), "{words:?}");
    }
}

#[test]
fn a_time_that_cannot_decide_says_so_first_and_is_used_all_the_same() {
    let scene = Scene::new();
    let output = scene.run(&["mapped-copy", "--size=256M", "--states=cold", "--time=5s", "--output=out", "place"]);
    assert!(output.status.success(), "{}", said(&output));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let warned = words.find("5 s cannot decide the published claims about mapped-copy: ").expect(&words);
    assert!(
        words.contains("; --time=") && warned < words.find("haul-lab: mapped-copy, 256 MiB").expect(&words),
        "{words}"
    );
    assert!(Results::load(&scene.at("out/results.json")).unwrap().complete);
    scene.assert_nothing_left();
}

#[test]
fn two_directories_are_both_measured_and_the_report_says_which_claims_hold_where() {
    let scene = Scene::new();
    fs::create_dir(scene.at("other")).unwrap();
    for (words, second) in [
        (&["async-tree", "--totals=1M", "--files=2", "--variants=plain"][..], "other ("),
        (&["mapped-copy", "--size=1M", "--states=cold"], "place to "),
    ] {
        let output = scene.run(&[words, &["--runs=1", "--output=out", "place", "other"]].concat());
        assert!(output.status.success(), "{}", said(&output));
        let results = Results::load(&scene.at("out/results.json")).unwrap();
        let places: Vec<(&str, &str, bool)> =
            results.sections.iter().map(|one| (&*one.name, &*one.place, one.complete)).collect();
        assert_eq!(places, [(words[0], "directory", true), (words[0], "second directory", true)]);
        let ranked = results.sections.iter().map(|section| section.cases.iter().filter(|case| !case.runs.is_empty()));
        assert!(ranked.map(Iterator::count).all(|count| count > 3), "{}", said(&output));
        let report = fs::read_to_string(scene.at("out/report.md")).unwrap();
        assert!(report.contains("Which claims hold where") && report.contains(second), "{report}");
        scene.assert_nothing_left();
        assert_eq!(fs::read_dir(scene.at("other")).unwrap().count(), 0);
        fs::remove_dir_all(scene.at("out")).unwrap();
    }
    let output = scene.run(&["async-tree", "place", "./place"]);
    assert!(said(&output).contains("is named twice"), "{}", said(&output));
}

#[test]
fn copies_are_not_made_within_what_is_copied() {
    let scene = Scene::new();
    fs::create_dir(scene.at("place/deeper")).unwrap();
    for words in [
        &["compare", "--source=place", "--dest=place/deeper", "--with=cp", "--output=out"][..],
        &["compare", "--source=place", "--dest=place", "--with=cp", "--output=out"],
        &["compare", "--source=.", "--dest=/tmp", "--with=cp"],
        &["compare", "--source=.", "--dest=/tmp", "--with=cp", "--output=results"],
        &["compare", "--source=place", "--dest=/tmp", "--with=cp", "--output=new/../place/deeper/results"],
    ] {
        let output = scene.run(words);
        assert!(said(&output).contains("is in the source"), "{}", said(&output));
    }
    assert_eq!(fs::read_dir(scene.at("place")).unwrap().count(), 1);
    assert!(!scene.at("results").exists() && !scene.at("new").exists());
}

#[test]
fn a_link_to_a_source_is_the_source() {
    let scene = Scene::new();
    std::os::unix::fs::symlink("source", scene.at("link")).unwrap();
    let output = scene.run(&["compare", "--source=link", "--dest=place", "--output=out", "--runs=1", "--with=cp"]);
    assert!(output.status.success(), "{}", said(&output));
    let results = Results::load(&scene.at("out/results.json")).unwrap();
    assert_eq!(case(&results, "cp").bytes, 300_000);
}

#[test]
fn a_competitor_that_moves_the_source_does_not_lose_it() {
    let scene = Scene::new();
    let output =
        scene.run(&["compare", "--source=source", "--dest=place", "--output=out", "--", "mv", "{source}", "{dest}"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("whatever is missing is in"), "{}", said(&output));
    let folder = fs::read_dir(scene.at("place")).unwrap().next().expect("it stays").unwrap().path();
    let kept = fs::read_dir(folder)
        .unwrap()
        .map(|run| run.unwrap().path().join("copy"))
        .find(|copy| fs::metadata(copy).is_ok_and(|copy| copy.len() == 300_000));
    assert!(kept.is_some());
}

#[test]
fn a_source_that_was_moved_is_kept_also_when_the_measuring_is_interrupted_or_killed() {
    for (signal, word) in [(Signal::INT, "98766"), (Signal::KILL, "98767")] {
        let scene = Scene::new();
        let moves = format!("mv {{source}} {{dest}}; echo > {}; sleep {word}", scene.at("begun").display());
        let words = ["compare", "--source=source", "--dest=place", "--output=out", "--runs=1", "--", &moves];
        let mut child = in_the_middle(scene.command(&words).stderr(Stdio::null()), &scene);
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
        child.wait().unwrap();
        // The guard too, when it outlives the one that it guards.
        while children.split_whitespace().any(|id| fs::exists(format!("/proc/{id}")).unwrap()) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let folder = fs::read_dir(scene.at("place")).unwrap().next().expect("it stays").unwrap().path();
        let copies = fs::read_dir(folder).unwrap().map(|run| run.unwrap().path().join("copy"));
        let kept = copies.filter(|copy| fs::metadata(copy).is_ok_and(|copy| copy.len() == 300_000)).count();
        assert_eq!(kept, 2, "that of haul, and the source, {signal:?}");
        assert!(!is_running(word));
    }
}

#[test]
fn a_source_that_has_changed_is_another_measurement() {
    let scene = Scene::new();
    let (_, before) = scene.compare(&["--runs=1"], &["cp {source} {dest}"]);
    create_painted(scene.at("other"), 5000);
    fs::rename(scene.at("other"), scene.at("source")).unwrap();
    let (output, after) = scene.compare(&["--runs=1"], &["cp {source} {dest}"]);
    assert!(said(&output).contains("has changed since"), "{}", said(&output));
    assert_eq!(before.sections, after.sections);
}

#[test]
fn an_image_that_has_changed_is_another_measurement() {
    let scene = Scene::new();
    let run = || scene.run(&["sparse-image", "--image=source", "--runs=1", "--output=out", "place"]);
    let results = || Results::load(&scene.at("out/results.json")).unwrap();
    assert!(run().status.success());
    let before = results();
    assert!(run().status.success() && results().sections == before.sections, "nothing is left to run");
    let image = fs::File::options().write(true).open(scene.at("source")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&image, b"other", 0).unwrap();
    let output = run();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("has changed since"), "{}", said(&output));
    assert_eq!(results().sections, before.sections);
}

#[test]
fn a_directory_that_may_not_be_written_to_is_refused() {
    let scene = Scene::new();
    let output = scene.run(&["in-kernel", "--output=out", "/proc/self"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("cannot make files in"), "{}", said(&output));
}

#[test]
fn results_of_another_command_or_version_are_not_written_over() {
    let scene = Scene::new();
    let (_, results) = scene.compare(&["--runs=1"], &["cp {source} {dest}"]);
    let output = scene.run(&["in-kernel", "--sizes=1M", "--output=out", "place"]);
    assert!(said(&output).contains("holds the results of another command"), "{}", said(&output));
    let path = scene.at("out/results.json");
    assert_eq!(Results::load(&path).unwrap(), results);
    let newer = fs::read_to_string(&path).unwrap().replace("\"version\": 1", "\"version\": 2");
    fs::write(&path, &newer).unwrap();
    let (output, message) =
        (scene.run(&["in-kernel", "--sizes=1M", "--output=out", "place"]), "has version 2 of the format");
    assert!(said(&output).contains(message), "{}", said(&output));
    assert_eq!(fs::read_to_string(&path).unwrap(), newer);
}

#[test]
fn a_report_of_somebody_else_is_not_written_over() {
    for name in ["report.html", "report.md", "report.csv"] {
        let scene = Scene::new();
        fs::create_dir(scene.at("out")).unwrap();
        fs::write(scene.at("out").join(name), "mine").unwrap();
        let output = scene.run(&["in-kernel", "--sizes=1M", "--output=out", "place"]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains("without results of haul-lab"), "{}", said(&output));
        assert_eq!(fs::read_to_string(scene.at("out").join(name)).unwrap(), "mine");
        scene.assert_nothing_left();
        assert_eq!(fs::read_dir(scene.at("out")).unwrap().count(), 1);
    }
}

/// Starts a comparison whose second competitor never ends, and waits until the first is measured.
fn in_the_middle(command: &mut Command, scene: &Scene) -> Child {
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    loop {
        let runs = Results::load(&scene.at("out/results.json")).map_or(0, |results| {
            results.sections.iter().flat_map(|section| &section.cases).map(|case| case.runs.len()).sum()
        });
        if runs >= 1 && scene.at("begun").exists() {
            return child;
        }
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        std::thread::sleep(Duration::from_millis(5));
    }
}

const WAITS: &str = "echo > ../../begun; test -e ../../go || sleep 98763; cp {source} {dest}";

#[test]
fn ctrl_c_leaves_nothing_behind_and_the_same_command_goes_on() {
    let scene = Scene::new();
    let waits = format!("cd {}/a/b; {WAITS}", scene.dir.path().display());
    fs::create_dir_all(scene.at("a/b")).unwrap();
    let words = ["compare", "--source=source", "--dest=place", "--output=out", "--runs=1", "--", &waits];
    let mut child = in_the_middle(scene.command(&words).stderr(Stdio::null()), &scene);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    scene.assert_nothing_left();
    assert!(!is_running("98763"));
    let before = Results::load(&scene.at("out/results.json")).unwrap();
    assert!(!before.complete);
    fs::write(scene.at("go"), b"").unwrap();
    let output = scene.run(&words);
    assert!(output.status.success(), "{}", said(&output));
    let after = Results::load(&scene.at("out/results.json")).unwrap();
    assert_eq!(case(&after, "haul").runs, case(&before, "haul").runs);
    assert_eq!(case(&after, &waits).outcome, Outcome::Right);
    assert!(after.complete);
}

#[test]
fn a_kill_leaves_nothing_behind_either() {
    let scene = Scene::new();
    run(Command::new("mkfifo").arg(scene.at("alive")));
    // Who reads there sees the end when the competitor and all that it has started are gone.
    let mut competitor = Command::new("cat").arg(scene.at("alive")).stdout(Stdio::null()).spawn().unwrap();
    let waits = format!("exec 9> {}; cd {}; {WAITS}", scene.at("alive").display(), scene.at("a/b").display());
    fs::create_dir_all(scene.at("a/b")).unwrap();
    let words = ["compare", "--source=source", "--dest=place", "--output=out", "--runs=1", "--", &waits];
    let mut child = in_the_middle(scene.command(&words).stderr(Stdio::piped()), &scene);
    child.kill().unwrap();
    // The guard has the other end of the pipe, too, and ends when it has tidied up.
    assert_eq!(child.wait_with_output().unwrap().status.signal(), Some(9));
    assert!(competitor.wait().unwrap().success());
    scene.assert_nothing_left();
}

#[test]
fn a_signal_for_all_processes_leaves_nothing_behind() {
    let scene = Scene::new();
    let waits = format!("cd {}/a/b; {}", scene.dir.path().display(), WAITS.replace("98763", "98765"));
    fs::create_dir_all(scene.at("a/b")).unwrap();
    let words = ["compare", "--source=source", "--dest=place", "--output=out", "--runs=1", "--", &waits];
    let mut child = in_the_middle(scene.command(&words).stderr(Stdio::null()), &scene);
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
    for id in children.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().unwrap())) {
        kill_process(id, Signal::TERM).unwrap();
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    scene.assert_nothing_left();
}

#[test]
fn nobody_writes_to_the_users_source() {
    let scene = Scene::new();
    let before = fs::metadata(scene.at("source")).unwrap();
    scene.compare(&["--runs=1", "--cold"], &["cp {source} {dest}"]);
    let after = fs::metadata(scene.at("source")).unwrap();
    assert_eq!(before.modified().unwrap(), after.modified().unwrap());
    assert_eq!(fs::read(scene.at("source")).unwrap(), haul_testbed::painted(300_000));
}
