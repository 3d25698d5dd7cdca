//! `--dry-run`: each entry is named with what a copy would do and why, errors that can be foreseen are reported, and nothing is
//! written anywhere. The random scenes of `agree` compare what it says with what the copy then does.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, SystemTime};

use haul_testbed::{Command, TempDir, temp_dir};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

fn haul(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(HAUL);
    command.args(arguments).current_dir(dir).env("LC_ALL", "C").stdin(Stdio::null());
    command.output().expect("it can be run")
}

/// What a dry run says, which must not fail.
fn dry(dir: &Path, arguments: &[&str]) -> Vec<String> {
    let arguments = [&["--dry-run"], arguments].concat();
    let output = haul(dir, &arguments);
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    lines(&output.stdout)
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8(bytes.to_vec()).expect("plain words").lines().map(str::to_owned).collect()
}

fn write(path: &Path, text: &str, seconds: u64) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    fs::write(path, text).expect("it can be written");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::open(path).and_then(|file| file.set_modified(time)).expect("its time can be set");
}

/// Of each entry all that a write would change.
fn state(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![dir.to_owned()];
    while let Some(path) = waiting.pop() {
        let of = fs::symlink_metadata(&path).expect("it is there");
        if of.is_dir() {
            waiting.extend(fs::read_dir(&path).expect("a directory").map(|entry| entry.expect("an entry").path()));
        }
        let times = (of.mtime(), of.mtime_nsec(), of.ctime(), of.ctime_nsec());
        found.insert(path, format!("{} {:o} {} {times:?}", of.ino(), of.mode(), of.size()));
    }
    found
}

/// `src`, and `dst/src` with an older and a newer, a shorter and a whole file of it.
fn scene() -> TempDir {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    for name in ["older", "newer", "shorter", "same", "sub/new"] {
        write(&at("src").join(name), name, 1_000);
    }
    symlink("same", at("src/link")).expect("a link");
    write(&at("dst/src/older"), "OLDER", 500);
    write(&at("dst/src/newer"), "newer", 2_000);
    write(&at("dst/src/shorter"), "short", 1_000);
    write(&at("dst/src/same"), "same", 1_000);
    dir
}

/// The lines about single entries, in the order of bytes, and the last one.
fn sorted(mut lines: Vec<String>) -> (Vec<String>, String) {
    let last = lines.pop().expect("totals");
    lines.sort();
    (lines, last)
}

#[test]
fn each_entry_has_a_line_with_the_reason() {
    let dir = scene();
    let (lines, totals) = sorted(dry(dir.path(), &["-r", "--update=changed", "src", "dst"]));
    assert_eq!(
        lines,
        [
            "copy 'src/link' -> 'dst/src/link'",
            "copy 'src/sub/new' -> 'dst/src/sub/new'",
            "make directory 'dst/src/sub'",
            "replace 'src/newer' -> 'dst/src/newer': time differs",
            "replace 'src/older' -> 'dst/src/older': time differs",
            "replace 'src/shorter' -> 'dst/src/shorter': size differs",
            "skip 'dst/src/same': same size and time",
        ]
    );
    assert_eq!(totals, "dry run: make 1 directory, copy 2 (7 B), replace 3 (17 B), skip 1; nothing was written");
}

#[test]
fn what_is_not_older_stays() {
    let dir = scene();
    let (lines, _) = sorted(dry(dir.path(), &["-ru", "src/older", "src/newer", "dst/src"]));
    assert_eq!(lines, ["replace 'src/older' -> 'dst/src/older': older", "skip 'dst/src/newer': not older"]);
}

#[test]
fn contents_are_compared_where_the_copy_would() {
    let dir = scene();
    let (lines, _) = sorted(dry(dir.path(), &["--update=content", "src/older", "src/newer", "dst/src"]));
    let expected = ["replace 'src/older' -> 'dst/src/older': contents differ", "skip 'dst/src/newer': same contents"];
    assert_eq!(lines, expected);
}

#[test]
fn attributes_that_differ_are_set_where_contents_stay() {
    let dir = scene();
    for (name, mode) in [("src/same", 0o640), ("dst/src/same", 0o600)] {
        fs::set_permissions(dir.path().join(name), Permissions::from_mode(mode)).expect("a mode");
    }
    let line = |option: &str| dry(dir.path(), &[option, "--update=content", "src/same", "dst/src"])[0].clone();
    assert_eq!(line("-p"), "set attributes of 'dst/src/same': same contents");
    assert_eq!(line("-f"), "skip 'dst/src/same': same contents");
}

#[test]
fn nothing_is_written_anywhere() {
    for options in [
        &["-a"][..],
        &["-a", "--remove-destination"],
        &["-a", "--backup=numbered"],
        &["-a", "--atomic"],
        &["-a", "--durable=file"],
        &["-a", "--verify"],
        &["-r", "-l", "-f"],
        &["-r", "--update=content"],
        &["-r", "--parents"],
        &["-a", "--jobs=4"],
        &["-f"],
    ] {
        let dir = scene();
        let before = state(dir.path());
        haul(dir.path(), &[&["--dry-run"], options, &["src", "dst"]].concat());
        haul(dir.path(), &[&["--dry-run", "-T"], options, &["src", "new"]].concat());
        assert!(before == state(dir.path()), "{options:?}");
    }
}

#[test]
fn nobody_is_asked_and_nothing_fails() {
    let dir = scene();
    let (lines, totals) = sorted(dry(dir.path(), &["-i", "src/older", "src/link", "dst/src"]));
    let expected = ["ask 'src/older' -> 'dst/src/older'", "copy 'src/link' -> 'dst/src/link'"];
    assert_eq!(lines, expected);
    assert_eq!(totals, "dry run: copy 1 (4 B), ask about 1; nothing was written");
}

#[test]
fn protected_files_are_skipped() {
    let dir = scene();
    assert_eq!(dry(dir.path(), &["-n", "src/older", "dst/src"])[0], "skip 'dst/src/older': exists");
}

#[test]
fn another_name_of_a_file_is_a_link() {
    let dir = temp_dir();
    write(&dir.path().join("src/one"), "text", 1_000);
    fs::hard_link(dir.path().join("src/one"), dir.path().join("src/two")).expect("a link");
    let (lines, totals) = sorted(dry(dir.path(), &["-a", "src", "new"]));
    assert!(lines[0].starts_with("copy 'src/") && lines[1].starts_with("link 'src/"), "{lines:?}");
    let copy = lines[0].rsplit_once(" -> ").expect("two paths").1;
    assert!(lines[1].ends_with(&format!(": same file as {copy}")), "{lines:?}");
    assert_eq!(totals, "dry run: make 1 directory, copy 1 (4 B), link 1; nothing was written");
}

#[test]
fn links_to_the_source_are_named_as_such() {
    let dir = scene();
    assert_eq!(dry(dir.path(), &["-l", "src/same", "new"])[0], "link 'src/same' -> 'new'");
    assert_eq!(dry(dir.path(), &["-s", "src/same", "new"])[0], "symlink 'src/same' -> 'new'");
    assert_eq!(dry(dir.path(), &["-sf", "src/same", "old"])[0], "symlink 'src/same' -> 'old'");
}

#[test]
fn a_backup_is_named_with_the_number_that_it_would_get() {
    let dir = scene();
    write(&dir.path().join("dst/src/older.~3~"), "older", 1);
    let lines = dry(dir.path(), &["--backup=numbered", "src/older", "dst/src"]);
    assert_eq!(lines[0], "replace 'src/older' -> 'dst/src/older' (backup: 'dst/src/older.~4~')");
}

#[test]
fn directories_that_are_entered_are_named_with_v() {
    let dir = scene();
    let entered = |options: &[&str]| {
        let lines = dry(dir.path(), &[options, &["src", "dst"]].concat());
        lines.iter().filter(|line| *line == "enter directory 'dst/src'").count()
    };
    assert_eq!([entered(&["-r"]), entered(&["-rv"])], [0, 1]);
}

#[test]
fn only_what_is_chosen_is_named() {
    let dir = scene();
    fs::write(dir.path().join("list"), "sub/new\n").expect("a list");
    let (lines, _) = sorted(dry(dir.path(), &["-rT", "--exclude=o*", "--exclude=link", "src", "new"]));
    assert!(lines.iter().all(|line| !line.contains("older") && !line.contains("link")), "{lines:?}");
    let (lines, _) = sorted(dry(dir.path(), &["-rT", "--files-from=list", "src", "new"]));
    assert_eq!(lines, ["copy 'src/sub/new' -> 'new/sub/new'", "make directory 'new'", "make directory 'new/sub'"]);
}

/// What a dry run and the copy after it say on standard error, and how they end.
fn both(dir: &Path, arguments: &[&str]) -> [(Option<i32>, Vec<String>); 2] {
    let run = |arguments: &[&str]| {
        let output = haul(dir, arguments);
        (output.status.code(), lines(&output.stderr))
    };
    [run(&[&["--dry-run"], arguments].concat()), run(arguments)]
}

#[test]
fn what_a_copy_refuses_a_dry_run_reports_in_the_same_words() {
    for arguments in [
        &["missing", "dst"][..],
        &["src", "dst"],
        &["src/same", "src/same"],
        &["-r", "src", "src/inside"],
        &["src/same", "missing/dir/name"],
        &["-r", "src", "missing/dir/name"],
        &["src/same", "new/"],
        &["src/same", "missing/new/"],
        &["-P", "src/link", "new/"],
        &["--move", "src", "dangling/"],
        &["--move", "src/same", "dangling/"],
        &["-P", "--atomic", "src/link", "new/"],
        &["-r", "src", ""],
        &["src/same", "src/older", "src/newer"],
        &["--update=none-fail", "src/same", "dst/src"],
        &["-l", "src/same", "dst/src"],
        &["-rT", "src", "dst/src/same"],
        &["src/same", "dst/src/same", "dst"],
        &["-s", "src/same", "dst/src"],
        &["src/same", "dangling"],
        &["-T", "src/same", "dst"],
    ] {
        let dir = scene();
        symlink("nowhere", dir.path().join("dangling")).expect("a link");
        let [foreseen, done] = both(dir.path(), arguments);
        assert_eq!(foreseen.0, Some(1), "{arguments:?}");
        assert_eq!(foreseen, done, "{arguments:?}");
    }
}

#[test]
fn missing_rights_are_foreseen() {
    let dir = scene();
    let at = |name: &str| dir.path().join(name);
    let mode = |name: &str, mode| fs::set_permissions(at(name), Permissions::from_mode(mode)).expect("a mode");
    mode("", 0o755);
    mode("src/same", 0o000);
    mode("dst/src/older", 0o444);
    mode("dst/src", 0o555);
    let run = |dry: &[&str]| {
        let mut command = Command::new(HAUL);
        command.args(dry).args(["-r", "src", "dst"]).current_dir(dir.path()).env("LC_ALL", "C").stdin(Stdio::null());
        if rustix::process::geteuid().is_root() {
            command.uid(65534).gid(65534);
        }
        let output = command.output().expect("it can be run");
        let mut said = lines(&output.stderr);
        said.sort();
        (output.status.code(), said)
    };
    let foreseen = run(&["--dry-run"]);
    mode("dst/src", 0o555);
    assert_eq!(foreseen, run(&[]));
    assert!(foreseen.1.len() >= 4, "{foreseen:?}");
    mode("dst/src", 0o755);
}

#[test]
fn what_cannot_be_foreseen_is_refused() {
    let dir = scene();
    for (options, what) in [(&["--shard=1/2", "-T"][..], "--shard"), (&["--list-out=list"], "--list-out")] {
        let before = state(dir.path());
        let output = haul(dir.path(), &[&["--dry-run", "-r"], options, &["src", "new"]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("--dry-run does not go with ") && said.contains(what), "{said}");
        assert!(before == state(dir.path()), "{options:?}");
    }
    let compared = haul(dir.path(), &["--dry-run", "--compare", "-rT", "src", "dst"]);
    assert_eq!(compared.status.code(), Some(2));
}

#[test]
fn the_statistics_count_what_would_be_made() {
    let dir = scene();
    let output = haul(dir.path(), &["--dry-run", "--stats=json", "-r", "--update=changed", "src", "dst"]);
    let said = String::from_utf8(output.stderr).expect("plain words");
    for count in ["\"regular\":4", "\"directories\":2", "\"symbolic_links\":1", "\"hard_links\":0", "\"skipped\":1"] {
        assert!(said.contains(count), "{count}: {said}");
    }
    assert!(said.contains(r#""bytes":{"total":0"#), "{said}");
}

#[test]
fn no_digest_is_made_and_no_list_of_them() {
    let dir = scene();
    fs::write(dir.path().join("list"), "old").expect("a list");
    for options in [&["--checksum=blake3"][..], &["--digests=list"], &["--digests=new-list"], &["--smart", "-a"]] {
        let before = state(dir.path());
        let (lines, _) = sorted(dry(dir.path(), &[&["-rT"], options, &["src", "new"]].concat()));
        assert_eq!(lines.len(), 8, "{options:?}: {lines:?}");
        assert!(before == state(dir.path()), "{options:?}");
    }
}

/// The events of a dry run, which must not fail, without the first and the last.
fn events(dir: &Path, arguments: &[&str]) -> Vec<serde_json::Value> {
    let mut lines: Vec<serde_json::Value> = dry(dir, &[&["--json"], arguments].concat())
        .iter()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    let (start, summary) = (lines.remove(0), lines.pop().expect("a summary"));
    assert_eq!((&start["event"], &start["dry_run"]), (&"start".into(), &true.into()));
    assert_eq!((&summary["event"], &summary["exit_status"]), (&"summary".into(), &0.into()));
    lines
}

#[test]
fn events_report_the_plan() {
    let dir = scene();
    let before = state(dir.path());
    let plan = events(dir.path(), &["-r", "--update=changed", "src", "dst"]);
    let of = |dest: &str| {
        let plan = plan.iter().find(|event| event["dest"] == dest).unwrap_or_else(|| panic!("{dest}: {plan:?}"));
        let text = |name: &str| plan[name].as_str().unwrap_or_default().to_owned();
        (text("action"), text("source"), text("reason"), plan["bytes"].as_u64())
    };
    let words = |action: &str, source: &str, reason: &str| (action.to_owned(), source.to_owned(), reason.to_owned());
    let with = |(action, source, reason), bytes| (action, source, reason, bytes);
    assert_eq!(of("dst/src/shorter"), with(words("replace", "src/shorter", "size_differs"), Some(7)));
    assert_eq!(of("dst/src/same"), with(words("skip", "src/same", "same_size_and_time"), None));
    assert_eq!(of("dst/src/sub"), with(words("make_directory", "src/sub", ""), None));
    assert_eq!(of("dst/src/link"), with(words("copy", "src/link", ""), Some(0)));
    assert!(plan.iter().all(|event| event["event"] == "plan"), "{plan:?}");
    assert_eq!(plan.len(), 8, "with the directory that is only entered");
    assert!(before == state(dir.path()));
}

#[test]
fn a_move_on_one_filesystem_is_foreseen_as_renames() {
    let dir = scene();
    let before = state(dir.path());
    assert_eq!(
        dry(dir.path(), &["--move", "src", "new"]),
        ["rename 'src' -> 'new'", "dry run: rename 1; nothing was written"]
    );
    let (lines, totals) = sorted(dry(dir.path(), &["--move", "-T", "src", "dst/src"]));
    assert_eq!(
        lines,
        [
            "rename 'src/link' -> 'dst/src/link'",
            "rename 'src/newer' -> 'dst/src/newer'",
            "rename 'src/older' -> 'dst/src/older'",
            "rename 'src/same' -> 'dst/src/same'",
            "rename 'src/shorter' -> 'dst/src/shorter'",
            "rename 'src/sub' -> 'dst/src/sub'",
        ]
    );
    assert_eq!(totals, "dry run: rename 6; nothing was written");
    assert!(before == state(dir.path()));
    assert!(haul(dir.path(), &["--move", "-T", "src", "dst/src"]).status.success());
    assert!(!dir.path().join("src").exists());
}

#[test]
fn a_move_to_another_filesystem_is_foreseen_as_copies() {
    let Some((dir, other)) = haul_testbed::temp_dirs_apart() else { return };
    write(&dir.path().join("tree/file"), "text", 1_000);
    let to = other.path().join("new");
    let to = to.to_str().expect("plain words");
    let (lines, _) = sorted(dry(dir.path(), &["--move", "tree", to]));
    assert_eq!(lines, [format!("copy 'tree/file' -> '{to}/file'"), format!("make directory '{to}'")]);
    assert!(dir.path().join("tree/file").exists() && !Path::new(to).exists());
}

#[test]
fn a_second_source_of_one_name_is_foreseen_to_stay() {
    let dir = scene();
    write(&dir.path().join("other/src/file"), "text", 1_000);
    fs::create_dir(dir.path().join("into")).expect("a directory");
    let [foreseen, done] = both(dir.path(), &["--move", "src", "other/src", "into"]);
    assert_eq!(foreseen.0, Some(1));
    assert_eq!(foreseen, done);
}

#[test]
fn what_an_interrupted_run_has_finished_is_said_and_its_journal_stays_as_it_is() {
    let dir = scene();
    let at = |name: &str| dir.path().join(name);
    fs::remove_dir_all(at("dst/src")).expect("it is there");
    // Where a file goes is a directory.
    fs::create_dir_all(at("dst/src/older")).expect("a directory");
    // What was changed a moment ago is not believed.
    while ["same", "older"].into_iter().any(|name| {
        let found = fs::metadata(at("src").join(name)).expect("it is there");
        let changed = Duration::new(found.ctime().unsigned_abs(), found.ctime_nsec().unsigned_abs() as u32);
        SystemTime::UNIX_EPOCH.elapsed().expect("after 1970") < changed + Duration::from_millis(30)
    }) {
        std::thread::yield_now();
    }
    assert_eq!(haul(dir.path(), &["-a", "--resume", "src", "dst/"]).status.code(), Some(1));
    fs::remove_dir(at("dst/src/older")).expect("it is empty");
    let before = state(dir.path());
    let (lines, totals) = sorted(dry(dir.path(), &["-a", "--resume", "src", "dst/"]));
    assert!(lines.contains(&"skip 'dst/src/same': finished".to_owned()), "{lines:?}");
    assert!(lines.contains(&"copy 'src/older' -> 'dst/src/older'".to_owned()), "{lines:?}");
    assert!(totals.contains("skip 4"), "{totals}");
    assert!(before == state(dir.path()), "the journal is one of the files");
    assert!(haul(dir.path(), &["-a", "--resume", "src", "dst/"]).status.success());
}

#[test]
fn what_an_interrupted_run_has_left_is_not_said_to_be_deleted() {
    let dir = scene();
    let at = |name: &str| dir.path().join(name);
    fs::remove_dir_all(at("dst/src")).expect("it is there");
    // Where a file goes is a directory, so the journal stays.
    fs::create_dir_all(at("dst/src/older")).expect("a directory");
    let arguments = ["-rT", "--delete", "--resume", "src", "dst/src"];
    assert_eq!(haul(dir.path(), &arguments).status.code(), Some(1));
    fs::remove_dir(at("dst/src/older")).expect("it is empty");
    let journals: Vec<String> = fs::read_dir(at("dst"))
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with(".haul-resume-"))
        .collect();
    let [journal] = &journals[..] else { panic!("{journals:?}") };
    // Named as files are that are not whole.
    let tag = &journal[".haul-resume-".len()..][..10];
    write(&at("dst/src").join(format!(".haul-r{tag}0000000000000001")), "unfinished", 1_000);
    write(&at("dst/src/gone"), "gone", 1_000);
    let (lines, _) = sorted(dry(dir.path(), &arguments));
    let deleted: Vec<&String> = lines.iter().filter(|line| line.starts_with("delete")).collect();
    assert_eq!(deleted, ["delete 'dst/src/gone'"]);
}
