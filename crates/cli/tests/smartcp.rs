//! The command smartcp: what it prints, how it ends, and what it leaves behind.
#![forbid(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::{Output, Stdio};

use haul_testbed::guest::Noise;
use haul_testbed::{Command, TempDir, assert_same_contents, temp_dir};
use rustix::process::{Pid, Signal, kill_process};

/// A directory with a link to the program by the name smartcp.
fn place() -> TempDir {
    let dir = temp_dir();
    symlink(env!("CARGO_BIN_EXE_haul"), dir.path().join("smartcp")).expect("the link can be made");
    dir
}

fn smartcp(dir: &Path) -> Command {
    let mut command = Command::new(dir.join("smartcp"));
    command.current_dir(dir).env("LC_ALL", "C").env_remove("POSIXLY_CORRECT").stdin(Stdio::null());
    command
}

fn run(dir: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = smartcp(dir).args(arguments).output().expect("it can be run");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).replace(&dir.display().to_string(), "DIR");
    (status.code(), text(stdout), text(stderr))
}

/// An image: noise, then zeros, then a hole.
fn image(path: &Path) {
    let file = File::create(path).expect("it can be made");
    file.write_all_at(&Noise::new(1).bytes(300_000), 0).expect("it can be written");
    file.write_all_at(&[0; 100_000], 300_000).expect("it can be written");
    file.set_len(1_000_000).expect("it can be extended");
    closed(file, path);
}

/// Closes an image that was written. A child that another test is starting may hold the descriptor for a moment, and then
/// the image would be in use.
fn closed(file: File, path: &Path) {
    drop(file);
    let file = File::open(path).expect("it is there");
    while haul_sys::in_use::is_open_for_writing(file.as_fd()) == Ok(true) {
        std::thread::yield_now();
    }
}

/// Times as they look, whatever they are.
fn without_times(text: &str) -> String {
    let mut lines = String::new();
    for line in text.lines() {
        let words = line.split(' ').map(|word| {
            let is_time = word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            if is_time { "TIME" } else { word }
        });
        lines.push_str(&words.collect::<Vec<_>>().join(" "));
        lines.push('\n');
    }
    lines
}

#[test]
fn a_copy_is_silent_and_the_same() {
    let dir = place();
    image(&dir.path().join("image"));
    assert_eq!(run(dir.path(), &["image", "copy"]), (Some(0), String::new(), String::new()));
    assert_same_contents(dir.path().join("image"), dir.path().join("copy"));
}

#[test]
fn verbose_output_has_its_blocks() {
    let dir = place();
    image(&dir.path().join("image"));
    let (status, out, err) = run(dir.path(), &["-v", "image", "copy"]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    let expected = "\
Options:
  smart read:     yes
  sparse output:  always
  md5 checksum:   no
  buffer size:    131072
  direct I/O:     auto
  zero scanning:  yes
Copying: image
To:      copy
Time on open:                     TIME s
Time on copy:                     TIME s
Time on close:                    TIME s
Stats:
  file size:                      1000000
  read skipped:                   598592
  write skipped:                  696896
  copied bytes:                   303104
  total bytes:                    1000000
  scanned zeros:                  98304
  elapsed time:                   TIME s
  time on scan:                   TIME s
  time on read:                   TIME s
  time on write:                  TIME s
  read queue, time on enqueue:    TIME s
  read queue, time on dequeue:    TIME s
  write queue, time on enqueue:   TIME s
  write queue, time on dequeue:   TIME s
  parallel workers:               1
  time of all workers:            TIME s
  of it on read:                  TIME %
  of it on write:                 TIME %
";
    assert_eq!(without_times(&out), expected);
}

#[test]
fn json_has_exactly_the_known_form() {
    let dir = place();
    image(&dir.path().join("image"));
    for (sparse, copied, write_skipped) in [("always", 303_104, 696_896), ("never", 1_000_000, 0)] {
        let (status, out, err) = run(dir.path(), &["-T", "json", "-s", sparse, "image", "copy"]);
        assert_eq!((status, err.as_str()), (Some(0), ""));
        let line = |copied: u64, write_skipped: u64, read_skipped: u64| {
            format!(
                "{{ \"r\": \"data\", \"v\": 2, \"file\": \"image\", \"t\": \"0\", \"total\": \"1000000\", \
                 \"copied\": \"{copied}\", \"write_skipped\": \"{write_skipped}\", \"read_skipped\": \"{read_skipped}\" }}"
            )
        };
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[..lines.len() - 1], [line(0, 0, 0), line(copied, write_skipped, 598_592)]);
        serde_json::from_str::<serde_json::Value>(lines[0]).expect("it is JSON");
        let times: serde_json::Value = serde_json::from_str(lines[2]).expect("it is JSON");
        let said = ["r", "v", "file", "workers", "read_enqueue"].map(|field| times[field].to_string());
        assert_eq!(said, ["\"times\"", "2", "\"image\"", "\"1\"", "\"0.000\""]);
    }
}

#[test]
fn each_record_names_its_file_and_the_md5_follows_its_data() {
    let dir = place();
    let names = ["one", "two \"quoted\" \u{7}"];
    names.iter().for_each(|name| image(&dir.path().join(name)));
    fs::create_dir(dir.path().join("to")).expect("it can be made");
    let (status, out, err) = run(dir.path(), &["-Tjson", "--md5", names[0], names[1], "to"]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert!(!out.contains('\u{7}'), "a terminal is commanded");
    let records: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let reported = records.iter().map(|it| (it["r"].as_str().unwrap_or(""), it["file"].as_str().unwrap_or("")));
    let records = names.iter().flat_map(|name| ["data", "data", "times", "md5"].map(|record| (record, *name)));
    let expected = records.collect::<Vec<_>>();
    assert_eq!(reported.collect::<Vec<_>>(), expected);
}

#[test]
fn with_json_people_read_on_the_other_stream_and_every_line_is_json() {
    let dir = place();
    image(&dir.path().join("image"));
    let (status, out, err) = run(dir.path(), &["-vg", "-Tjson", "--md5", "image", "copy"]);
    assert_eq!(status, Some(0));
    let records: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let reported = records.iter().map(|record| record["r"].as_str().unwrap_or(""));
    assert_eq!(reported.collect::<Vec<_>>(), ["data", "data", "times", "md5"]);
    assert!(err.starts_with("Options:\n") && err.contains("\nDebug:\n") && err.contains("\nStats:\n"), "{err}");
}

#[test]
fn md5_is_that_of_the_copy_as_md5sum_prints_it() {
    let dir = place();
    image(&dir.path().join("image"));
    for name in ["copy", "a\nb\\c"] {
        for direct in ["yes", "no"] {
            let (status, out, err) = run(dir.path(), &["--md5", "--direct-io", direct, "image", name]);
            assert_eq!((status, err.as_str()), (Some(0), ""));
            let theirs = Command::new("md5sum").arg(name).current_dir(dir.path()).output().expect("there is md5sum");
            assert_eq!(out, String::from_utf8_lossy(&theirs.stdout));
        }
    }
}

#[test]
fn several_images_go_into_a_directory_and_failures_do_not_stop_the_others() {
    let dir = place();
    for name in ["a", "b", "other/a"] {
        fs::create_dir_all(dir.path().join("other")).expect("it can be made");
        image(&dir.path().join(name));
    }
    fs::create_dir(dir.path().join("dest")).expect("it can be made");
    let (status, out, err) = run(dir.path(), &["a", "missing", "other/a", "b", "dest"]);
    let expected = "DIR/smartcp: cannot stat 'missing': No such file or directory\n\
                    DIR/smartcp: will not overwrite just-created 'dest/a' with 'other/a'\n";
    assert_eq!((status, out.as_str(), err.as_str()), (Some(1), "", expected));
    for name in ["a", "b"] {
        assert_same_contents(dir.path().join(name), dir.path().join("dest").join(name));
    }
    let (status, _, err) = run(dir.path(), &["a", "b", "nowhere"]);
    assert_eq!((status, err.as_str()), (Some(1), "DIR/smartcp: target 'nowhere': No such file or directory\n"));
    let (status, _, err) = run(dir.path(), &["a", "b", "other/a"]);
    assert_eq!((status, err.as_str()), (Some(1), "DIR/smartcp: target 'other/a': Not a directory\n"));
}

#[test]
fn an_image_does_not_overwrite_the_copy_of_another_by_another_name() {
    let dir = place();
    let at = |name: &str| dir.path().join(name);
    for (name, seed) in [("a", 1), ("b", 2)] {
        fs::write(at(name), Noise::new(seed).bytes(300_000)).expect("it can be written");
        closed(File::open(at(name)).expect("it is there"), &at(name));
    }
    for link in ["hard", "symbolic"] {
        fs::create_dir(at(link)).expect("it can be made");
        fs::write(at(link).join("a"), "old").expect("it can be written");
        match link {
            "hard" => fs::hard_link(at("hard/a"), at("hard/b")).expect("it can be made"),
            _ => symlink("a", at("symbolic/b")).expect("it can be made"),
        }
        let (status, out, err) = run(dir.path(), &["a", "b", link]);
        let expected = format!("DIR/smartcp: will not overwrite just-created '{link}/b' with 'b'\n");
        assert_eq!((status, out.as_str(), err), (Some(1), "", expected));
        assert_same_contents(at("a"), at(link).join("a"));
    }
}

#[test]
fn an_image_in_use_is_copied_whole_with_a_warning_unless_it_is_a_snapshot() {
    let dir = place();
    image(&dir.path().join("image"));
    let qemu = File::open(dir.path().join("image")).expect("it can be opened");
    haul_sys::in_use::lock_byte(qemu.as_fd(), 101).expect("it can be locked");
    let expected = "DIR/smartcp: warning: 'image' is in use and is copied whole: QEMU has it open; \
                    if it is a frozen snapshot, use --snapshot\n";
    assert_eq!(run(dir.path(), &["image", "copy"]), (Some(0), String::new(), expected.to_owned()));
    assert_same_contents(dir.path().join("image"), dir.path().join("copy"));
    assert_eq!(run(dir.path(), &["--snapshot", "image", "copy"]), (Some(0), String::new(), String::new()));
    assert_eq!(run(dir.path(), &["-S", "no", "image", "copy"]), (Some(0), String::new(), String::new()));
}

#[test]
fn an_image_of_a_suspended_machine_is_not_proposed_as_a_snapshot() {
    let dir = place();
    image(&dir.path().join("image"));
    fs::write(dir.path().join("image.save"), "LibvirtQemudSave").expect("it can be written");
    let expected = "DIR/smartcp: warning: 'image' is in use and is copied whole: \
                    a virtual machine was suspended with it: image.save\n";
    assert_eq!(run(dir.path(), &["image", "copy"]), (Some(0), String::new(), expected.to_owned()));
    assert_same_contents(dir.path().join("image"), dir.path().join("copy"));
}

#[test]
fn wrong_command_lines_are_refused_with_a_hint() {
    let dir = place();
    for (arguments, message) in [
        (&[][..], "missing file operand"),
        (&["a"], "missing destination file operand after 'a'"),
        (&["-g", "a", "b"], "-g (--debug) is possible only with -v (--verbose)"),
        (&["--bogus", "a", "b"], "unrecognized option '--bogus'"),
        (&["-x", "a", "b"], "invalid option -- 'x'"),
        (
            &["-s", "auto", "a", "b"],
            "invalid argument 'auto' for '--sparse'\nValid arguments are:\n  - 'always'\n  - 'never'",
        ),
        (&["--buffer-size=0", "a", "b"], "invalid buffer size '0': it must be from 1 to 16M"),
        (&["--buffer-size=17M", "a", "b"], "invalid buffer size '17M': it must be from 1 to 16M"),
        (&["--read-only", "--write-only", "a", "b"], "cannot combine --read-only and --write-only"),
        (&["--md5", "--write-only", "a", "b"], "cannot combine --write-only and --md5"),
        (&["-Sno", "--snapshot", "a", "b"], "--snapshot has no meaning with --use-smartread=no"),
        (&["-Sno", "--page-files=drop", "a", "b"], "--page-files=drop has no meaning with --use-smartread=no"),
    ] {
        let expected = format!("DIR/smartcp: {message}\nTry 'DIR/smartcp --help' for more information.\n");
        assert_eq!(run(dir.path(), arguments), (Some(1), String::new(), expected), "{arguments:?}");
    }
}

#[test]
fn help_names_every_option_and_fits_the_screen() {
    let dir = place();
    let (status, help, err) = run(dir.path(), &["-h"]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert_eq!(run(dir.path(), &["--help"]).1, help);
    assert!(help.starts_with("Usage: DIR/smartcp [OPTION]... SOURCE DESTINATION\n"), "{help}");
    for flag in haul::smartcp::options::FLAGS.iter() {
        let spelling = haul_frontend::help::spelling(flag, str::to_owned, str::to_owned);
        assert_eq!(help.lines().filter(|line| line.trim_start().starts_with(&spelling)).count(), 1, "{spelling}");
    }
    assert!(help.lines().all(|line| line.len() < 100), "{help}");
}

#[test]
fn the_version_names_the_build_and_its_licence() {
    let dir = place();
    let (status, version, err) = run(dir.path(), &["--version"]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    let lines: Vec<&str> = version.lines().collect();
    assert_eq!(lines[0], format!("smartcp (haul) {}", env!("CARGO_PKG_VERSION")));
    let names: Vec<&str> = lines[1..].iter().filter_map(|line| line.split_once(": ")).map(|(name, _)| name).collect();
    assert_eq!(names, ["Commit", "Build", "Engines", "License"], "{version}");
    assert!(lines[2].contains(std::env::consts::ARCH) && lines[2].contains("debug"), "{version}");
}

#[test]
fn measuring_one_side_leaves_the_other_alone() {
    let dir = place();
    image(&dir.path().join("image"));
    fs::write(dir.path().join("old"), "old").expect("it can be written");
    assert_eq!(run(dir.path(), &["--read-only", "image", "old"]), (Some(0), String::new(), String::new()));
    assert_eq!(fs::read(dir.path().join("old")).expect("it is there"), b"old");
    let refused = "DIR/smartcp: will not overwrite 'old' with test data; name a new file\n".to_owned();
    assert_eq!(run(dir.path(), &["--write-only", "image", "old"]), (Some(1), String::new(), refused));
    assert_eq!(run(dir.path(), &["--write-only", "image", "new"]), (Some(0), String::new(), String::new()));
    assert_eq!(fs::metadata(dir.path().join("new")).expect("it was made").len(), 1_000_000);
}

#[test]
fn ctrl_c_removes_a_new_copy_and_names_an_overwritten_one() {
    for existing in [false, true] {
        let dir = place();
        let image = File::create(dir.path().join("image")).expect("it can be made");
        // The MD5 of so many zeros takes most of an hour; it is stopped at the line of the first second.
        image.set_len(1 << 40).expect("it can be extended");
        closed(image, &dir.path().join("image"));
        if existing {
            fs::write(dir.path().join("copy"), "old").expect("it can be written");
        }
        let mut child = smartcp(dir.path())
            .args(["-T", "json", "--md5", "image", "copy"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it can be run");
        let mut lines = BufReader::new(child.stdout.as_mut().expect("it is piped")).lines();
        for begins in [true, false] {
            let line = lines.next().expect("it reports").expect("it can be read");
            assert!(line.starts_with("{ \"r\": \"data\", \"v\": "), "{line}");
            assert_eq!(line.contains("\"t\": \"0\""), begins, "{line}");
        }
        kill_process(Pid::from_child(&child), Signal::INT).expect("the process is there");
        let mut said = String::new();
        child.stderr.take().expect("it is piped").read_to_string(&mut said).expect("messages are text");
        assert_eq!(child.wait().expect("the child is ours").code(), Some(130), "{said}");
        assert_eq!(dir.path().join("copy").exists(), existing);
        let expected = if existing { "'copy' was overwritten and is now incomplete\n" } else { "" };
        assert!(said.ends_with(expected) && said.is_empty() != existing, "{said}");
    }
}

#[test]
fn an_output_that_cannot_be_written_is_a_failure() {
    let dir = place();
    image(&dir.path().join("image"));
    let full = OpenOptions::new().write(true).open("/dev/full").expect("there is /dev/full");
    let output = smartcp(dir.path()).args(["-v", "image", "copy"]).stdout(full).output().expect("it can be run");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).ends_with(": write error: No space left on device\n"));
    assert_same_contents(dir.path().join("image"), dir.path().join("copy"));
}

#[test]
fn a_file_of_a_container_is_copied_again_if_a_system_sleeps_in_it() {
    let dir = place();
    // A swap area with a bad page, of which only the page with the mark of a system that hibernates in it says so.
    let mut disk = vec![b'x'; 4 << 20];
    disk[1024..1036].copy_from_slice(&[1, 0, 0, 0, 0xff, 3, 0, 0, 0, 0, 0, 0]);
    disk[1036..1536].fill(0);
    disk[4086..4096].copy_from_slice(b"SWAPSPACE2");
    disk[12790..12799].copy_from_slice(b"S1SUSPEND");
    fs::create_dir(dir.path().join("v")).expect("it can be made");
    fs::create_dir(dir.path().join("out")).expect("it can be made");
    let parts = [("d-f001.vmdk", &disk[..2 << 20]), ("d-f002.vmdk", &disk[2 << 20..])];
    for (name, part) in parts {
        fs::write(dir.path().join("v").join(name), part).expect("it can be written");
    }
    let extents = parts.map(|(name, _)| format!("RW 4096 FLAT \"{name}\" 0\n")).concat();
    let head =
        "# Disk DescriptorFile\nversion=1\nCID=12345678\nparentCID=ffffffff\ncreateType=\"twoGbMaxExtentFlat\"\n";
    fs::write(dir.path().join("v/d.vmdk"), format!("{head}{extents}")).expect("it can be written");
    let (status, _, err) = run(dir.path(), &["--container=keep", "v/d.vmdk", "out"]);
    assert_eq!(status, Some(0), "{err}");
    let tree = Command::new(env!("CARGO_BIN_EXE_haul"))
        .args(["--smart", "--explain", "-rT", "v", "tree"])
        .current_dir(dir.path())
        .output();
    let tree = tree.expect("haul starts");
    let said = [tree.stdout, tree.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(tree.status.success() && said.contains("hibernated"), "{said}");
    for (name, part) in parts {
        assert!(fs::read(dir.path().join("out").join(name)).expect("it is there") == part, "{name}: {err}");
        assert!(fs::read(dir.path().join("tree").join(name)).expect("it is there") == part, "{name}: {said}");
    }
}
