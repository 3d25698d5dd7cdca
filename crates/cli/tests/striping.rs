//! Stripes on Lustre, by a profile. strace answers as Lustre would: this was not tried on Lustre.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use haul_io::probe::place_of;
use haul_io::profile::{self, PlaceEntry, Profile, StripeCount, Stripes, Striping};
use haul_testbed::guest::has;
use haul_testbed::{Command, TempDir, create_painted, skip, temp_dir};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

/// What fstatfs(2) has of Lustre: its type.
const TYPE: &str = "inject=fstatfs:poke_exit=@arg2=d00bd00b00000000";
/// `lustre.lov` as strace shows it.
const NAME: &str = r"\x6c\x75\x73\x74\x72\x65\x2e\x6c\x6f\x76";
/// A `struct lov_user_md_v1` of a file with two stripes of 1 MiB, as Lustre has it: it names the object's first target, 0.
const OF_SOURCE: &str = "d00bd10b01000000000000000000000000000000000000000000100002000000";

/// `small` of 1 KiB and `large` of 100 KiB, and a directory for their copies. `None` where there is no strace.
fn scene() -> Option<TempDir> {
    if !has("strace") {
        skip("strace is not installed");
        return None;
    }
    let dir = temp_dir();
    create_painted(dir.path().join("small"), 1 << 10);
    create_painted(dir.path().join("large"), 100 << 10);
    fs::create_dir(dir.path().join("to")).expect("it can be made");
    Some(dir)
}

/// Files from 64 KiB have four stripes of 1 MiB.
fn by_size() -> Striping {
    let stripes = Stripes { from: 64 << 10, count: StripeCount::Of(4), size: Some(1 << 20), pool: "flash".to_owned() };
    Striping { as_source: false, by_size: vec![stripes] }
}

/// A profile for the directory of copies.
fn copy_text(dir: &Path, striping: &Striping) -> String {
    let place = place_of(dir).expect("it can be opened").expect("it is known");
    profile::to_text(&Profile {
        places: vec![PlaceEntry { place, striping: striping.clone(), ..PlaceEntry::default() }],
    })
}

/// Copies `small` and `large` to a directory, which `answers` make a directory of Lustre or not.
fn copy(dir: &Path, striping: Striping, answers: &[&str]) -> Copied {
    let named = dir.join("mine");
    fs::write(&named, copy_text(dir, &striping)).expect("it can be written");
    fs::set_permissions(&named, fs::Permissions::from_mode(0o644)).expect("it is ours");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-xx", "-s", "64", "-o", "calls", "-e", "trace=all"]);
    for path in ["to", "to/large", "to/small", "large"] {
        command.arg("-P").arg(dir.join(path));
    }
    answers.iter().for_each(|answer| _ = command.args(["-e", answer]));
    let output = command
        .args([HAUL, "--profile=mine", "--explain", "--reflink=never", "--jobs=1", "large", "small", "to"])
        .current_dir(dir)
        .output()
        .expect("strace can be run");
    assert!(output.status.success(), "{output:?}");
    for name in ["small", "large"] {
        let [source, copy] = [dir.join(name), dir.join("to").join(name)].map(fs::read);
        assert_eq!(source.expect("it is there"), copy.expect("it was copied"), "{name}");
    }
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it is text");
    let calls = fs::read_to_string(dir.join("calls")).expect("strace has written");
    Copied { calls, said: text(output.stdout), warned: text(output.stderr) }
}

struct Copied {
    calls: String,
    said: String,
    warned: String,
}

impl Copied {
    /// Where in the calls those are that have all of these words.
    fn calls(&self, words: &[&str]) -> Vec<usize> {
        let fits = |line: &str| words.iter().all(|word| line.contains(word));
        self.calls.lines().enumerate().filter(|(_, line)| fits(line)).map(|(number, _)| number).collect()
    }

    /// The values that `lustre.lov` was set to, in hexadecimal.
    fn layouts(&self) -> Vec<String> {
        let lines = self.calls.lines().filter(|line| line.contains("fsetxattr(") && line.contains(NAME));
        lines.map(|line| line.split('"').nth(3).expect("it has a value").replace(r"\x", "")).collect()
    }
}

#[test]
fn a_large_file_gets_its_stripes_before_its_first_byte() {
    let Some(dir) = scene() else { return };
    let copied = copy(dir.path(), by_size(), &[TYPE, "inject=fsetxattr:retval=0"]);
    let layout = format!("d00bd30b01000000{}000010000400ffff666c6173680000000000000000000000", "0".repeat(32));
    assert_eq!(copied.layouts(), [layout]);
    let made = copied.calls(&["O_CREAT", "ASYNC"]);
    let set = copied.calls(&["fsetxattr(", NAME]);
    let written: Vec<usize> =
        ["write(", "pwrite64(", "copy_file_range("].iter().flat_map(|call| copied.calls(&[call])).collect();
    assert_eq!(made.len(), 1, "{}", copied.calls);
    assert!(made[0] < set[0] && written.iter().all(|call| set[0] < *call), "{}", copied.calls);
    assert!(!written.is_empty(), "{}", copied.calls);
    let said = "'to/large': 4 stripes of 1 MiB in the pool flash, as profile 'mine' says\n";
    assert!(copied.said.contains(said) && copied.said.matches("stripe").count() == 1, "{}", copied.said);
    assert_eq!(copied.warned, "");
}

#[test]
fn a_file_is_striped_as_its_source_or_by_its_size() {
    let Some(dir) = scene() else { return };
    let striping = Striping { as_source: true, ..by_size() };
    let answer = format!("inject=fgetxattr:retval=32:poke_exit=@arg3={OF_SOURCE}");
    let copied = copy(dir.path(), striping.clone(), &[TYPE, "inject=fsetxattr:retval=0", &answer]);
    assert_eq!(copied.layouts(), [OF_SOURCE]);
    assert!(copied.said.contains("'to/large': striped as its source, as profile 'mine' says\n"), "{}", copied.said);
    for name in ["large", "small"] {
        fs::remove_file(dir.path().join("to").join(name)).expect("it is there");
    }
    // This source is not on Lustre.
    let copied = copy(dir.path(), striping, &[TYPE, "inject=fsetxattr:retval=0"]);
    assert!(copied.said.contains("'to/large': 4 stripes of 1 MiB"), "{}", copied.said);
}

#[test]
fn a_layout_that_lustre_refuses_costs_a_warning_and_no_file() {
    let Some(dir) = scene() else { return };
    let mut striping = by_size();
    striping.by_size[0].from = 0;
    let refused = "inject=fsetxattr:error=EINVAL";
    let copied = copy(dir.path(), striping, &[TYPE, refused]);
    // Each is opened again without the flag then, and gets the layout of its directory.
    assert_eq!(copied.layouts().len(), 2, "{}", copied.calls);
    let again = copied.calls(&["openat(", "O_WRONLY", "O_NOFOLLOW"]);
    assert_eq!(again.len(), 2, "{}", copied.calls);
    assert!(copied.calls(&["openat(", "O_WRONLY", "O_NOFOLLOW", "ASYNC"]).is_empty(), "{}", copied.calls);
    let warning = ": cannot stripe 'to/large' as the profile 'mine' says, so it has the stripes of its directory: Invalid argument\n";
    assert!(copied.warned.ends_with(warning) && copied.warned.lines().count() == 1, "{}", copied.warned);
    assert!(!copied.said.contains("stripes"), "{}", copied.said);
}

#[test]
fn elsewhere_than_on_lustre_files_are_made_as_ever() {
    let Some(dir) = scene() else { return };
    let copied = copy(dir.path(), by_size(), &[]);
    assert_eq!(copied.layouts(), [""; 0]);
    assert_eq!(copied.calls(&["O_CREAT", "ASYNC"]), []);
    assert!(!copied.said.contains("stripes"), "{}", copied.said);
}

#[test]
fn what_stands_there_keeps_its_layout() {
    let Some(dir) = scene() else { return };
    fs::write(dir.path().join("to/large"), "old").expect("it can be written");
    let copied = copy(dir.path(), by_size(), &[TYPE, "inject=fsetxattr:retval=0"]);
    assert_eq!(copied.layouts(), [""; 0]);
}

#[test]
fn a_file_that_gets_no_layout_at_all_is_an_error_and_leaves_nothing() {
    let Some(dir) = scene() else { return };
    let text = copy_text(dir.path(), &by_size());
    fs::write(dir.path().join("mine"), text).expect("it can be written");
    let mut command = Command::new("strace");
    command
        .args(["-f", "-qq", "-o", "calls", "-P"])
        .arg(dir.path().join("to/large"))
        .arg("-P")
        .arg(dir.path().join("to"));
    // The second call for `large` in the directory opens it again.
    let answers = [TYPE, "inject=fsetxattr:error=ENOSPC", "inject=openat:error=EACCES:when=3+"];
    answers.iter().for_each(|answer| _ = command.args(["-e", answer]));
    let output = command
        .args([HAUL, "--profile=mine", "--reflink=never", "--jobs=1", "large", "small", "to"])
        .current_dir(dir.path())
        .output()
        .expect("strace can be run");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let calls = fs::read_to_string(dir.path().join("calls")).expect("strace has written");
    assert_eq!(output.status.code(), Some(1), "{said}{calls}");
    assert!(said.contains("cannot create regular file 'to/large': No space left on device"), "{said}{calls}");
    assert!(!dir.path().join("to/large").exists(), "{calls}");
}
