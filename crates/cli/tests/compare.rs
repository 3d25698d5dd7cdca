//! `--compare`: reports every difference, nothing else, and writes nothing.
#![forbid(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Output;
use std::time::{Duration, SystemTime};

use haul_testbed::{Bed, Command, Fs, TempDir, temp_dir};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

fn haul(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(HAUL).args(arguments).current_dir(dir).env("LC_ALL", "C").output().expect("it can be run")
}

fn report_lines(output: &Output) -> Vec<String> {
    String::from_utf8(output.stdout.clone()).expect("plain words").lines().map(str::to_owned).collect()
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().expect("it can be run");
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A tree with one of everything.
fn make_tree(dir: &Path) {
    fs::create_dir_all(dir.join("inner/deeper")).expect("it can be made");
    let file = |name: &str, bytes: &[u8]| fs::write(dir.join(name), bytes).expect("it can be written");
    file("empty", b"");
    file("small", b"some text");
    file("inner/large", &vec![7; 3 << 20]);
    file("inner/deeper/last", b"last");
    file("one", b"linked");
    fs::hard_link(dir.join("one"), dir.join("two")).expect("it can be linked");
    symlink("small", dir.join("link")).expect("it can be linked");
    run("mkfifo", &[dir.join("fifo").to_str().expect("a name")]);
    let sparse = File::create(dir.join("sparse")).expect("it can be made");
    sparse.write_all_at(b"middle", 5 << 20).expect("it can be written");
    sparse.set_len(9 << 20).expect("it can be extended");
}

fn scene() -> TempDir {
    let dir = temp_dir();
    make_tree(&dir.path().join("tree"));
    let output = haul(dir.path(), &["-a", "tree", "copy"]);
    assert!(output.status.success(), "{output:?}");
    dir
}

#[test]
fn a_copy_is_the_same_and_nothing_is_said() {
    let dir = scene();
    for arguments in
        [&["--compare", "-a", "-T", "tree", "copy"][..], &["--compare", "-r", "-T", "--jobs=1", "tree", "copy"]]
    {
        let output = haul(dir.path(), arguments);
        assert_eq!(
            (output.status.code(), report_lines(&output).len(), output.stderr.len()),
            (Some(0), 0, 0),
            "{output:?}"
        );
    }
    let output = haul(dir.path(), &["--compare", "-av", "-T", "tree", "copy"]);
    assert_eq!(report_lines(&output), ["12 entries compared, 0 differences"]);
}

#[test]
fn operands_are_found_where_a_copy_would_have_put_them() {
    let dir = temp_dir();
    make_tree(&dir.path().join("tree"));
    fs::create_dir(dir.path().join("to")).expect("it can be made");
    for arguments in
        [&["-a", "tree", "tree/small", "to"][..], &["-a", "-t", "to", "tree"], &["-a", "-T", "tree", "to/other"]]
    {
        assert!(haul(dir.path(), arguments).status.success());
        let output = haul(dir.path(), &[&["--compare"], arguments].concat());
        assert_eq!((output.status.code(), report_lines(&output).len()), (Some(0), 0), "{arguments:?}: {output:?}");
    }
}

/// Something that is done to a copy, and the line that reports it.
type Change = (&'static str, fn(&Path), &'static str);

fn changes() -> Vec<Change> {
    let later = |path: &Path| {
        let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 5);
        File::open(path).expect("it is there").set_modified(time).expect("it can be set");
    };
    vec![
        ("small", |path| fs::write(path, b"some Text").expect("written"), "contents, from byte 5 on"),
        ("small", |path| fs::write(path, b"more").expect("written"), "size 9, 4"),
        (
            "inner/large",
            |path| {
                let file = OpenOptions::new().write(true).open(path).expect("there");
                file.write_all_at(b"x", (3 << 20) - 1).expect("written");
            },
            "contents, from byte 3145727 on",
        ),
        (
            "sparse",
            |path| {
                let file = OpenOptions::new().write(true).open(path).expect("there");
                file.write_all_at(b"x", 8 << 20).expect("written");
            },
            "contents, from byte 8388608 on",
        ),
        (
            "link",
            |path| {
                fs::remove_file(path).expect("there");
                symlink("elsewhere", path).expect("linked");
            },
            "link to 'small', 'elsewhere'",
        ),
        (
            "empty",
            |path| fs::set_permissions(path, fs::Permissions::from_mode(0o7640)).expect("set"),
            "mode 0644, 7640",
        ),
        ("empty", later, "time "),
        ("inner/deeper", later, "time "),
        (
            "fifo",
            |path| {
                fs::remove_file(path).expect("there");
                fs::write(path, "").expect("written");
            },
            "FIFO, regular file",
        ),
        (
            "two",
            |path| {
                fs::remove_file(path).expect("there");
                fs::write(path, "linked").expect("written");
            },
            "no hard link to 'copy/one'",
        ),
        (
            "empty",
            |path| run("setfattr", &["-n", "user.new", "-v", "1", path.to_str().expect("a name")]),
            "attribute 'user.new'",
        ),
        (
            "small",
            |path| run("setfacl", &["-m", "u:1234:r", path.to_str().expect("a name")]),
            "attribute 'system.posix_acl_access'",
        ),
        (
            "inner/deeper/last",
            |path| fs::remove_file(path).expect("there"),
            "only in the source: 'tree/inner/deeper/last'",
        ),
        (
            "inner/deeper/new",
            |path| fs::write(path, "new").expect("written"),
            "only in the copy: 'copy/inner/deeper/new'",
        ),
    ]
}

#[test]
fn every_kind_of_difference_is_reported_where_it_is() {
    for (name, change, words) in changes() {
        let dir = scene();
        let path = dir.path().join("copy").join(name);
        change(&path);
        let output = haul(dir.path(), &["--compare", "-a", "-T", "tree", "copy"]);
        let lines = report_lines(&output);
        let line = match words.starts_with("only") {
            true => words.to_owned(),
            false => format!("'tree/{name}' and 'copy/{name}' differ: {words}"),
        };
        assert!(lines.iter().any(|said| said.starts_with(&line)), "{line}: {lines:#?}");
        // Times of what was written to, or of its directory, are no surprise.
        let others = lines.iter().filter(|said| !said.starts_with(&line) && !said.contains("differ: time "));
        let linked = others.filter(|said| !(words.starts_with("mode") || name == "two" || said.contains("mode ")));
        assert_eq!(linked.count(), 0, "{line}: {lines:#?}");
        assert_eq!((output.status.code(), output.stderr.len()), (Some(1), 0), "{output:?}");
    }
}

#[test]
fn without_preserving_only_names_kinds_and_contents_count() {
    let dir = scene();
    let copy = dir.path().join("copy");
    run("chmod", &["700", copy.join("small").to_str().expect("a name")]);
    run("touch", &["-d", "2001-01-01", copy.join("inner").to_str().expect("a name")]);
    fs::remove_file(copy.join("two")).expect("there");
    fs::write(copy.join("two"), "linked").expect("it can be written");
    assert_eq!(haul(dir.path(), &["--compare", "-r", "-T", "tree", "copy"]).status.code(), Some(0));
    fs::write(copy.join("two"), "Linked").expect("it can be written");
    let output = haul(dir.path(), &["--compare", "-r", "-T", "tree", "copy"]);
    assert_eq!(report_lines(&output), ["'tree/two' and 'copy/two' differ: contents, from byte 0 on"]);
}

#[test]
fn holes_and_written_zeros_are_the_same() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    File::create(at("hole")).expect("made").set_len(2 << 20).expect("extended");
    fs::write(at("zeros"), vec![0; 2 << 20]).expect("it can be written");
    for (one, other) in [("hole", "zeros"), ("zeros", "hole")] {
        assert_eq!(haul(dir.path(), &["--compare", one, other]).status.code(), Some(0), "{one} {other}");
    }
    let file = OpenOptions::new().write(true).open(at("zeros")).expect("there");
    file.write_all_at(b"x", 1 << 20).expect("it can be written");
    let output = haul(dir.path(), &["--compare", "hole", "zeros"]);
    assert_eq!(report_lines(&output), ["'hole' and 'zeros' differ: contents, from byte 1048576 on"]);
}

#[test]
fn the_report_does_not_depend_on_the_number_of_threads() {
    let dir = temp_dir();
    for (tree, other) in [("tree", 3), ("copy", 5)] {
        for number in 0..1500_usize {
            let inner = dir.path().join(tree).join(format!("d{}/e{}", number % 7, number % 3));
            fs::create_dir_all(&inner).expect("it can be made");
            if number % other != 0 {
                fs::write(inner.join(format!("f{number}")), vec![(number % other) as u8; number % 50])
                    .expect("written");
            }
        }
    }
    let outputs: Vec<Vec<String>> = ["1", "2", "8", "8"]
        .iter()
        .map(|jobs| {
            report_lines(&haul(dir.path(), &["--compare", "-r", "-T", &format!("--jobs={jobs}"), "tree", "copy"]))
        })
        .collect();
    assert!(outputs[0].len() > 1000, "{}", outputs[0].len());
    assert!(outputs.iter().all(|output| *output == outputs[0]));
}

#[test]
fn a_deep_tree_needs_few_descriptors() {
    let dir = temp_dir();
    let deep: std::path::PathBuf = std::iter::repeat_n("deep", 700).collect();
    for tree in ["tree", "copy"] {
        fs::create_dir_all(dir.path().join(tree).join(&deep)).expect("it can be made");
    }
    for level in [600, 300, 1] {
        let at: std::path::PathBuf = std::iter::repeat_n("deep", level).collect();
        fs::write(dir.path().join("tree").join(at).join("file"), "x").expect("it can be written");
    }
    let script = "ulimit -n 400; exec \"$0\" --compare -r -T --jobs=2 tree copy";
    let output = Command::new("sh").args(["-c", script, HAUL]).current_dir(dir.path()).output().expect("it can be run");
    let lines = report_lines(&output);
    assert_eq!((lines.len(), output.stderr.len(), output.status.code()), (3, 0, Some(1)), "{output:?}");
    assert!(lines.iter().all(|line| line.starts_with("only in the source: ") && line.ends_with("/file'")));
}

#[test]
fn the_way_back_from_a_deep_tree_behind_a_link_is_found() {
    let dir = temp_dir();
    let deep: std::path::PathBuf = std::iter::repeat_n("deep", 80).collect();
    fs::create_dir_all(dir.path().join("elsewhere").join(deep)).expect("it can be made");
    fs::create_dir_all(dir.path().join("tree/inner")).expect("it can be made");
    symlink(dir.path().join("elsewhere"), dir.path().join("tree/inner/link")).expect("it can be linked");
    assert!(haul(dir.path(), &["-r", "-L", "tree", "copy"]).status.success());
    let output = haul(dir.path(), &["--compare", "-r", "-L", "-T", "tree", "copy"]);
    assert_eq!((output.status.code(), report_lines(&output).len(), output.stderr.len()), (Some(0), 0, 0), "{output:?}");
}

#[test]
fn what_cannot_be_read_is_an_error_and_the_rest_is_compared() {
    let dir = scene();
    fs::write(dir.path().join("copy/small"), "other").expect("it can be written");
    let output = haul(dir.path(), &["--compare", "-r", "nothing", "tree/small", "copy"]);
    assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1, "{output:?}");
    assert_eq!(
        (report_lines(&output), output.status.code()),
        (vec!["'tree/small' and 'copy/small' differ: size 9, 5".to_owned()], Some(2))
    );
    // A directory is no file without -r.
    let output = haul(dir.path(), &["--compare", "tree", "copy"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("omitting directory 'tree'"), "{output:?}");
    for target in [&["tree/small", "tree/empty", "copy/small"][..], &["-t", "nowhere", "tree/small"]] {
        let output = haul(dir.path(), &[&["--compare"], target].concat());
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{target:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("target "), "{output:?}");
    }
    for nonsense in ["--sparse=always", "--backup", "-s", "--smart"] {
        let output = haul(dir.path(), &["--compare", "-r", nonsense, "tree", "copy"]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{nonsense}");
    }
}

#[test]
fn a_comparison_ends_with_1_if_anything_differs_and_2_after_trouble() {
    let dir = scene();
    let status = |arguments: &[&str]| haul(dir.path(), arguments).status.code();
    assert_eq!(status(&["--compare", "-a", "-T", "tree", "copy"]), Some(0));
    fs::write(dir.path().join("copy/small"), "other").expect("it can be written");
    assert_eq!(status(&["--compare", "-a", "-T", "tree", "copy"]), Some(1));
    assert_eq!(status(&["--compare", "-a", "tree", "nothing", "copy"]), Some(2));
    for misuse in [&["--compare"][..], &["--bogus", "--compare", "a", "b"], &["--compare", "a"], &["--compare", "-z"]] {
        assert_eq!(status(misuse), Some(2), "{misuse:?}");
    }
    assert_eq!(status(&["--bogus", "tree", "copy"]), Some(1), "nothing is compared");
}

#[test]
fn a_copy_that_is_its_source_is_no_copy() {
    let dir = scene();
    let at = |name: &str| dir.path().join(name);
    for name in ["small", "inner/large", "empty", "fifo"] {
        fs::remove_file(at("copy").join(name)).expect("it is there");
        fs::hard_link(at("tree").join(name), at("copy").join(name)).expect("it can be linked");
    }
    let output = haul(dir.path(), &["--compare", "-r", "-T", "tree", "copy"]);
    let same = |name: &str| format!("'tree/{name}' and 'copy/{name}' are the same file, which is no copy");
    let mut lines = report_lines(&output);
    lines.sort();
    assert_eq!(lines, ["empty", "fifo", "inner/large", "small"].map(same));
    assert_eq!(output.status.code(), Some(1));
    // By a symbolic link, too.
    symlink("tree", at("other")).expect("it can be linked");
    symlink("small", at("tree/inner/deeper/alias")).expect("it can be linked");
    for (arguments, line) in [
        (["-rT", "-L", "tree", "other"], "'tree' and 'other' are the same file, which is no copy"),
        (["-T", "-L", "tree/one", "tree/two"], "'tree/one' and 'tree/two' are the same file, which is no copy"),
    ] {
        let output = haul(dir.path(), &[&["--compare"], &arguments[..]].concat());
        assert_eq!((report_lines(&output), output.status.code()), (vec![line.to_owned()], Some(1)), "{output:?}");
    }
}

#[test]
fn with_l_a_copy_must_be_a_hard_link_of_its_source() {
    let dir = scene();
    let output = haul(dir.path(), &["-al", "tree", "links"]);
    assert!(output.status.success(), "{output:?}");
    let output = haul(dir.path(), &["--compare", "-al", "-T", "tree", "links"]);
    assert_eq!((report_lines(&output), output.status.code()), (Vec::new(), Some(0)), "{output:?}");
    fs::remove_file(dir.path().join("links/small")).expect("it is there");
    run(
        "cp",
        &[
            "-p",
            dir.path().join("tree/small").to_str().expect("a name"),
            dir.path().join("links").to_str().expect("a name"),
        ],
    );
    run(
        "touch",
        &["-r", dir.path().join("tree").to_str().expect("a name"), dir.path().join("links").to_str().expect("a name")],
    );
    let output = haul(dir.path(), &["--compare", "-al", "-T", "tree", "links"]);
    let line = "'tree/small' and 'links/small' differ: no hard link to 'tree/small'".to_owned();
    assert_eq!((report_lines(&output), output.status.code()), (vec![line], Some(1)), "{output:?}");
}

#[test]
fn nothing_is_written_on_any_filesystem() {
    let Some(bed) = Bed::new() else { return };
    for kind in Fs::ALL {
        let Some(dir) = bed.mount(kind) else { continue };
        make_tree(&dir.join("tree"));
        assert!(haul(&dir, &["-a", "tree", "copy"]).status.success());
        fs::write(dir.join("copy/small"), "some other text").expect("it can be written");
        let looks = || {
            ["tree", "copy", "tree/small", "copy/small", "tree/inner", "copy/inner/large"]
                .map(|name| fs::metadata(dir.join(name)).expect("there"))
                .map(|found| (found.ino(), found.size(), found.ctime(), found.ctime_nsec(), found.mtime_nsec()))
        };
        let before = looks();
        let output = haul(&dir, &["--compare", "-a", "-T", "tree", "copy"]);
        assert_eq!(looks(), before, "{}", kind.name());
        let lines = report_lines(&output);
        assert_eq!(lines.len(), 2, "{}: {lines:#?}", kind.name());
        assert!(lines.iter().all(|line| line.starts_with("'tree/small' and 'copy/small' differ: ")), "{lines:#?}");
    }
}

#[test]
fn twenty_descriptors_compare_a_tree_of_any_depth() {
    let dir = temp_dir();
    let mut deepest = dir.path().join("tree");
    for level in 0..150 {
        fs::create_dir_all(deepest.join("other")).expect("it can be made");
        fs::write(deepest.join("file"), level.to_string()).expect("it can be written");
        deepest.push("down");
    }
    fs::create_dir(&deepest).expect("it can be made");
    fs::write(deepest.join("file"), "the last").expect("it can be written");
    assert!(haul(dir.path(), &["-a", "tree", "copy"]).status.success());
    fs::write(
        dir.path().join("copy").join(deepest.strip_prefix(dir.path().join("tree")).expect("below")).join("file"),
        "differs!",
    )
    .expect("it can be written");
    for jobs in ["--jobs=1", "--jobs=8"] {
        let limited = "ulimit -n 20 && exec timeout 120 \"$0\" --compare -aT \"$1\" tree copy";
        let mut command = Command::new("sh");
        let output = command.args(["-c", limited, HAUL, jobs]).current_dir(dir.path()).output().expect("it can be run");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{jobs}");
        let unlimited = haul(dir.path(), &["--compare", "-aT", jobs, "tree", "copy"]);
        assert_eq!((report_lines(&output), output.status), (report_lines(&unlimited), unlimited.status), "{jobs}");
        // Its contents and its time.
        assert!(report_lines(&output).iter().any(|line| line.contains("down/file")), "{output:?}");
    }
}

#[test]
fn a_copy_of_a_made_up_file_is_like_it() {
    let dir = temp_dir();
    // Its size is said to be 0.
    assert!(haul(dir.path(), &["/proc/version", "copy"]).status.success());
    assert!(haul(dir.path(), &["--compare", "/proc/version", "copy"]).status.success());
    fs::write(dir.path().join("copy"), "other").unwrap();
    assert_eq!(haul(dir.path(), &["--compare", "/proc/version", "copy"]).status.code(), Some(1));
}
