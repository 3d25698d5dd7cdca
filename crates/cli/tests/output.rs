//! What a run prints: compared with the system's cp where cp prints the same.
#![forbid(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};

use haul_testbed::{Command, TempDir, skip, temp_dir};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");
const CP: &str = "/bin/cp";

/// A directory with some files.
fn scene() -> TempDir {
    let dir = temp_dir();
    let write = |name: &str, contents: &[u8]| fs::write(dir.path().join(name), contents).expect("it can be written");
    fs::create_dir_all(dir.path().join("tree/inner")).expect("it can be made");
    fs::create_dir(dir.path().join("dest")).expect("it can be made");
    write("a", b"new contents");
    write("b", b"old");
    write("tree/inner/c", b"c");
    dir
}

/// Runs a shell command in a scene, in which `$CP` is the program; `cp` is its name.
fn run_in_scene(program: &str, script: &str, stdin: &str) -> (Output, TempDir) {
    let dir = scene();
    let bin = dir.path().join("bin");
    fs::create_dir(&bin).expect("it can be made");
    std::os::unix::fs::symlink(program, bin.join("cp")).expect("it can be made");
    let mut child = Command::new("bash")
        .args(["-c", script])
        .current_dir(dir.path())
        .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("bash can be run");
    // A command that does not read its input ends before this.
    child.stdin.take().expect("it is piped").write_all(stdin.as_bytes()).ok();
    (child.wait_with_output().expect("it ends"), dir)
}

type Printed = (String, String, Option<i32>);

/// What haul and cp print in the same scene, and how they end.
fn both(script: &str, stdin: &str) -> [(Printed, Output); 2] {
    [HAUL, CP].map(|program| {
        let (output, _) = run_in_scene(program, script, stdin);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        ((text(&output.stdout), text(&output.stderr), output.status.code()), output)
    })
}

fn agree(script: &str, stdin: &str) -> Output {
    let [(ours, _), (theirs, output)] = both(script, stdin);
    assert_eq!(ours, theirs, "{script}: haul, then cp");
    output
}

#[test]
fn verbose_lines_are_cps() {
    for script in [
        "cp -v a b",
        "cp -v a dest",
        "cp -vb a b",
        "cp -v --backup=numbered -S .x a b",
        "cp -v --remove-destination a b",
        "cp -vl a dest/x; cp -vlf a dest/x",
        "cp -vs a x; cp -vsf a x; cp -vsf a b; cp -vlf a x",
        "ln -s b x; cp -vlf a x; cp -vlf a b; cp -vsfb a tree/inner/c; cp -vsf --remove-destination a b",
        "cp -rv tree dest",
        "cp -v --parents tree/inner/c dest; cp -v --parents tree/inner/c dest",
        "cp -v nothing a dest",
        "cp -vn a b",
        "cp -vu a b nothing dest",
        "cp -rv tree a dest; cp -rv tree a dest",
        "cp -v --attributes-only a b",
    ] {
        assert!(!agree(script, "").stdout.is_empty() || script.contains("-vn"), "{script} prints nothing");
    }
}

#[test]
fn output_that_cannot_be_written_fails_the_run_as_cps_does() {
    for script in [
        "cp -v a b >/dev/full",
        "cp -v a b >&-",
        "cp a b >/dev/full",
        "cp a b >&-",
        "cp --help >/dev/full",
        "cp --version >/dev/full",
        "cp --help >&-",
        "cp -v a b 2>&- >&-",
        "cp nothing b 2>/dev/full",
    ] {
        agree(script, "");
    }
}

#[test]
fn messages_go_to_no_file_where_standard_descriptors_are_closed() {
    for closed in ["<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"] {
        let (_, dir) = run_in_scene(HAUL, &format!("cp -rv nothing a b tree dest {closed}"), "");
        let file = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap_or_default();
        assert_eq!(file("dest/a") + &file("dest/b") + &file("dest/tree/inner/c"), "new contentsoldc", "{closed}");
        assert_eq!(file("a") + &file("b") + &file("tree/inner/c"), "new contentsoldc", "{closed}: the sources");
    }
}

#[test]
fn the_question_before_a_file_is_replaced_is_cps_and_so_is_its_answer() {
    for answer in ["y\n", "Y\n", "yes\n", "n\n", "\n", "", "y", " y\n", "no\ny\n", "1\n"] {
        for script in ["cp -i a b; cat b", "cp -iv a b tree/inner/c dest; cp -iv a b tree/inner/c dest; true"] {
            agree(script, answer);
        }
    }
}

#[test]
fn a_declined_question_makes_the_exit_status_1() {
    for (options, answer, printed) in [
        ("-i", "n\n", "1\nold"),
        ("-i", "", "1\nold"),
        ("-i --fail-fast", "n\n", "1\nold"),
        ("-i", "y\n", "0\nnew contents"),
        // Not asked for at all.
        ("-in", "y\n", "0\nold"),
        ("-iu", "y\n", "0\nold"),
    ] {
        // The copy is not newer than what is there.
        let before = if options == "-iu" { "touch -d @1 a" } else { "true" };
        let (output, _) = run_in_scene(HAUL, &format!("{before}; cp {options} a b; echo $?; cat b"), answer);
        assert_eq!(String::from_utf8_lossy(&output.stdout), printed, "{options} {answer:?}");
    }
}

#[test]
fn what_update_none_protects_is_never_asked_about() {
    for options in ["-n --update=none -i", "--update=none -n -i", "-n -f --update=none -i", "--update=none -i"] {
        for (options, said, status) in
            [(options.to_owned(), "", 0), (options.replace("=none", "=none-fail"), "cp: not replacing 'b'\n", 1)]
        {
            let (output, dir) = run_in_scene(HAUL, &format!("cp {options} a b"), "y\n");
            assert_eq!(String::from_utf8_lossy(&output.stderr), said, "{options}");
            assert_eq!(output.status.code(), Some(status), "{options}");
            assert_eq!(fs::read(dir.path().join("b")).expect("it is there"), b"old", "{options}");
        }
    }
}

#[test]
fn debug_says_that_sparse_never_shares_no_extents() {
    let (output, _) = run_in_scene(HAUL, "cp --debug --sparse=never a b", "");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.ends_with("copy offload: avoided, reflink: no, sparse detection: no\n"), "{said}");
}

#[test]
fn a_backup_makes_way_for_a_directory() {
    for options in ["-rb", "-ab", "-rb --atomic"] {
        let (output, dir) =
            run_in_scene(HAUL, &format!("cp -T b tree/inner/d; mkdir -p x/inner/d/y; cp {options} -T x tree"), "");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{options}");
        assert_eq!(output.status.code(), Some(0), "{options}");
        assert_eq!(fs::read(dir.path().join("tree/inner/d~")).expect("the backup is there"), b"old", "{options}");
        assert!(dir.path().join("tree/inner/d/y").is_dir(), "{options}");
    }
}

/// Runs a command in a fresh scene without privilege.
fn as_nobody(program: &str, options: &str, mode: u32) -> Output {
    let dir = scene();
    let path = |name: &str| dir.path().join(name);
    // The built program may lie where nobody may go. Copied by another process: a program that is open for writing in
    // this one, or in a child that was just forked from it, cannot be started.
    let copied = Command::new(CP).arg(program).arg(path("cp")).status().expect("there is a cp");
    assert!(copied.success());
    for (name, mode) in [("", 0o777), ("cp", 0o755), ("a", 0o644), ("b", mode)] {
        fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).expect("it is ours");
    }
    let mut child = Command::new(path("cp"))
        .arg0("cp")
        .args(options.split(' '))
        .args(["a", "b"])
        .current_dir(dir.path())
        .env("LC_ALL", "C")
        .uid(65534)
        .gid(65534)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be run");
    child.stdin.take().expect("it is piped").write_all(b"n\n").ok();
    child.wait_with_output().expect("it ends")
}

#[test]
fn the_question_about_a_file_that_may_not_be_written_shows_its_mode() {
    if !rustix::process::geteuid().is_root() {
        skip("needs root, to become somebody without privilege");
        return;
    }
    for (options, mode) in [
        ("-i", 0o444),
        ("-if", 0o444),
        ("-i --remove-destination", 0o400),
        ("-i", 0o4555),
        ("-i", 0o7000),
        ("-i", 0o7511),
    ] {
        let (ours, theirs) = (as_nobody(HAUL, options, mode), as_nobody(CP, options, mode));
        let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said(&ours), said(&theirs), "{options} {mode:o}");
        assert!(said(&theirs).contains("mode"), "{}", said(&theirs));
    }
}

fn haul(script: &str) -> (String, String, TempDir) {
    let (output, dir) = run_in_scene(HAUL, script, "");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("names here are ASCII");
    (text(output.stdout), text(output.stderr), dir)
}

#[test]
fn debug_says_how_each_file_was_copied_below_its_name() {
    let (out, ..) = haul("cp --debug --reflink=never --sparse=always a b; cp --debug -n a b");
    let expected = "'a' -> 'b'\ncopy offload: avoided, reflink: no, sparse detection: zeros\nskipped 'b'\n";
    assert_eq!(out, expected);
}

#[test]
fn explain_names_the_engine_that_was_asked_for() {
    let (out, ..) = haul("cp --explain --engine=read-write a b");
    assert!(out.starts_with("'a' -> 'b': 12 B in "), "{out}");
    assert!(out.contains("\n  read-write: 12 B read and written\n"), "{out}");
}

#[test]
fn statistics_are_one_record_that_counts_what_was_done_after_those_of_errors() {
    let (out, err, _) = haul("cp -r --stats=json --engine=read-write tree a nothing dest");
    assert_eq!(out, "");
    let [message, error, record] = err.lines().collect::<Vec<_>>()[..] else { panic!("{err}") };
    assert_eq!(message, "cp: cannot stat 'nothing': No such file or directory");
    assert!(error.starts_with("{\"record\":\"haul-error\","), "{error}");
    let record: serde_json::Value = serde_json::from_str(record).expect("it is JSON");
    for (field, value) in [
        ("/record", "\"haul-stats\""),
        ("/program", "\"cp\""),
        ("/exit_status", "1"),
        ("/errors", "1"),
        ("/files/regular", "2"),
        ("/files/directories", "2"),
        ("/bytes/total", "13"),
        ("/bytes/written", "13"),
        ("/engines/read-write/files", "2"),
    ] {
        assert_eq!(record.pointer(field).map(ToString::to_string).as_deref(), Some(value), "{field}: {record}");
    }
}

/// A copy of a FIFO, fed by the test.
fn slow_copy(dir: &Path, program: &str, arguments: &[&str]) -> (haul_testbed::Child, File) {
    let made = Command::new("mkfifo").arg(dir.join("fifo\n")).status().expect("mkfifo can be run");
    assert!(made.success());
    let child = Command::new(program)
        .args(arguments)
        .current_dir(dir)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be run");
    // Waits for the reader.
    let mut feed = OpenOptions::new().write(true).open(dir.join("fifo\n")).expect("it is there");
    feed.write_all(&vec![b'x'; 1 << 20]).expect("the reader reads");
    (child, feed)
}

#[test]
fn progress_is_shown_in_lines_where_there_is_no_terminal_but_it_was_asked_for() {
    let dir = temp_dir();
    let (mut child, feed) = slow_copy(dir.path(), HAUL, &["--progress=always", "fifo\n", "dest"]);
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines().map_while(Result::ok);
    // On a busy machine the first line may come before the first file. They come as long as the copy goes on.
    let line = lines.find(|line| line.ends_with("/s  fifo\\n") && line.contains("  1 files  "));
    assert!(line.is_some());
    drop(feed);
    assert!(child.wait().expect("it ends").success());
    assert_eq!(fs::metadata(dir.path().join("dest")).expect("it was copied").len(), 1 << 20);
}

#[test]
fn progress_on_a_terminal_is_a_line_that_is_cleared_at_the_end() {
    let dir = temp_dir();
    // script(1) gives the command a terminal and prints what appears on it.
    let command = format!("stty cols 60; exec '{HAUL}' -v fifo$'\\n' dest");
    let command = format!("exec bash -c {}", shell_word(&command));
    let (mut child, feed) = slow_copy(dir.path(), "script", &["-qefc", &command, "/dev/null"]);
    let mut screen = child.stdout.take().expect("it is piped");
    let mut seen = Vec::new();
    let mut byte = [0];
    let bar = b"/s  fifo\\n";
    while !seen.ends_with(bar) {
        assert_eq!(screen.read(&mut byte).expect("the terminal is open"), 1, "{}", String::from_utf8_lossy(&seen));
        seen.push(byte[0]);
    }
    drop(feed);
    screen.read_to_end(&mut seen).expect("the terminal is open until the end");
    assert!(child.wait().expect("it ends").success());
    let text = String::from_utf8(seen).expect("the names here are ASCII");
    // The verbose line is untouched; at the end the bar is wiped away, and one line sums up.
    assert!(text.lines().any(|line| line.ends_with("'fifo'$'\\n' -> 'dest'")), "{text:?}");
    let (_, last) = text.rsplit_once("\r\u{1b}[K").expect("the bar is cleared");
    assert!(last.starts_with("1 file, 1.0 MiB in ") && last.lines().count() == 1, "{text:?}");
    assert!(text.split('\r').all(|line| line.trim_start_matches("\u{1b}[K").len() < 60), "{text:?}");
}

fn shell_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[test]
fn help_and_version_have_the_name_of_the_command() {
    let (out, err, _) = haul("cp --help; cp --version");
    assert_eq!(err, "");
    assert!(out.starts_with("Usage: cp [OPTION]... [-T] SOURCE DEST\n"), "{out}");
    assert!(out.contains(&format!("\ncp (haul) {}\n", env!("CARGO_PKG_VERSION"))), "{out}");
}
