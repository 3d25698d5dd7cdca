//! `--resume`: what could make a second run wrong, or leave something behind.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use haul_testbed::{Command, assert_same_contents, create_painted, skip, temp_dir};

use super::interrupted::{beginning, killed};
use super::resume::{counted, interrupted, journals, let_settle};
use super::{HAUL, assert_tidy, haul, make_tree, said, succeeds};

#[test]
fn after_an_error_of_the_destination_only_what_was_synced_before_is_believed() {
    if !haul_testbed::guest::has("strace") {
        return skip("strace is missing");
    }
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    create_painted(at("large"), 400 << 20);
    let_settle(dir.path());
    // The copy goes to the device behind the copying, and the eighth wait for it fails: what becomes of that data nobody knows.
    let arguments =
        ["--resume", "--stats=json", "--cache=drop", "--engine=read-write", "--jobs=1", "-T", "large", "copy"];
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "log", "-e", "trace=sync_file_range"]);
    command.args(["-e", "inject=sync_file_range:error=EIO:when=8+", HAUL]).args(arguments);
    let output = command.current_dir(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let noted = |bytes: Vec<u8>| {
        let records = bytes.chunks_exact(64).filter(|record| record[14] == b'P');
        records.map(|record| u64::from_le_bytes(record[56..].try_into().unwrap())).max().unwrap_or(0)
    };
    let noted = journals(dir.path()).first().map_or(0, |journal| noted(fs::read(journal).unwrap()));
    assert_eq!(noted % (64 << 10), 0);
    assert!(noted < 400 << 20, "{noted}: nothing was noted after the error");
    let log = fs::read_to_string(at("log")).unwrap();
    assert!(log.contains("(INJECTED)"), "nothing failed");
    succeeds(dir.path(), &arguments);
    assert_same_contents(at("large"), at("copy"));
    assert_tidy(dir.path());
}

#[test]
fn what_pretends_to_copy_is_another_command() {
    let dir = temp_dir();
    make_tree(&dir.path().join("tree"));
    interrupted(dir.path(), &["-a", "--engine=null"]);
    let output = succeeds(dir.path(), &["--resume", "--stats=json", "-a", "tree", "dest/"]);
    assert_eq!(counted(&output, "resumed"), 0, "{}", said(&output));
    assert_same_contents(dir.path().join("tree/inner/some"), dir.path().join("dest/tree/inner/some"));
}

#[test]
fn each_name_of_a_source_has_a_beginning_of_its_own() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    for name in ["tree/one", "tree/two"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    create_painted(at("tree/one/large"), 200 << 20);
    fs::hard_link(at("tree/one/large"), at("tree/two/large")).unwrap();
    // Names are not kept together: both are copied.
    let arguments = ["--resume", "--stats=json", "--limit=400M", "--jobs=1", "-rT", "tree", "dest"];
    // The beginning, three directories, three checkpoints of the first file and its end, one of the second.
    killed(dir.path(), &arguments, 6, dir.path());
    succeeds(dir.path(), &arguments);
    for name in ["one/large", "two/large"] {
        assert_same_contents(at("tree").join(name), at("dest").join(name));
    }
    assert_tidy(dir.path());
}

#[test]
fn a_beginning_stays_where_its_source_cannot_be_opened() {
    if !haul_testbed::guest::has("strace") {
        return skip("strace is missing");
    }
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    create_painted(at("large"), 200 << 20);
    let arguments = ["--resume", "--stats=json", "--limit=400M", "-T", "large", "copy"];
    killed(dir.path(), &arguments, 2, dir.path());
    let kept = beginning(dir.path());
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-P", "large", "-e", "trace=openat"]);
    command.args(["-e", "inject=openat:error=EIO", HAUL]).args(arguments).current_dir(dir.path());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(beginning(dir.path()), kept);
    let output = succeeds(dir.path(), &arguments);
    assert!(counted(&output, "resumed_bytes") >= 64 << 20, "{}", said(&output));
    assert_same_contents(at("large"), at("copy"));
    assert_tidy(dir.path());
}

#[test]
fn directories_have_the_modes_of_one_run_where_owners_alone_are_kept() {
    let dir = temp_dir();
    make_tree(&dir.path().join("tree"));
    fs::set_permissions(dir.path().join("tree/inner"), Permissions::from_mode(0o755)).unwrap();
    interrupted(dir.path(), &["-r", "--preserve=ownership"]);
    succeeds(dir.path(), &["--resume", "-r", "--preserve=ownership", "tree", "dest/"]);
    let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().mode() & 0o7777;
    succeeds(dir.path(), &["-r", "--preserve=ownership", "tree", "once"]);
    assert_eq!(mode("dest/tree/inner"), mode("once/inner"));
    assert_eq!(mode("dest/tree/inner"), 0o755);
}

#[test]
fn a_directory_that_this_run_made_is_none_of_an_earlier_one() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    for (name, mode) in [("a/d/e", 0o755), ("b/d/e", 0o775), ("dest", 0o755), ("dest/blocked", 0o755)] {
        fs::create_dir_all(at(name)).unwrap();
        fs::set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
    }
    fs::write(at("blocked"), "text").unwrap();
    let arguments = ["--resume", "--fail-fast", "-r", "blocked", "a/d", "b/d", "dest"];
    // The first run comes no further than its first operand, but leaves a journal.
    fs::write(at("first"), "text").unwrap();
    let_settle(dir.path());
    let all = [&["--resume", "--fail-fast", "-r", "first"], &arguments[3..]].concat();
    let output = haul(dir.path(), &all);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(!at("dest/d").exists());
    fs::remove_dir(at("dest/blocked")).unwrap();
    let umask_off = |arguments: &[&str]| {
        let mut words = vec!["-c".to_owned(), "umask 0; exec \"$0\" \"$@\"".to_owned(), HAUL.to_owned()];
        words.extend(arguments.iter().map(|word| (*word).to_owned()));
        let output = Command::new("sh").args(words).current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
    };
    umask_off(&all);
    assert_eq!(fs::metadata(at("dest/d/e")).unwrap().mode() & 0o777, 0o755, "that of the first that made it");
}

#[test]
fn a_beginning_that_a_later_operand_needs_is_not_tidied_away() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    for name in ["p/d", "q/d", "dest"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    fs::write(at("p/d/small"), "text").unwrap();
    create_painted(at("q/d/large"), 200 << 20);
    let arguments = ["--resume", "--stats=json", "--limit=400M", "-r", "p/d", "q/d", "dest"];
    killed(dir.path(), &arguments, 4, &at("dest"));
    let output = succeeds(dir.path(), &arguments);
    assert!(counted(&output, "resumed_bytes") >= 64 << 20, "{}", said(&output));
    assert_same_contents(at("q/d/large"), at("dest/d/large"));
    assert_tidy(dir.path());
}

#[test]
fn the_beginning_of_a_source_that_has_gone_goes_too() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    for name in ["p/d", "q/d", "dest"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    create_painted(at("p/d/large"), 200 << 20);
    fs::write(at("q/d/small"), "text").unwrap();
    let arguments = ["--resume", "--limit=400M", "-r", "p/d", "q/d", "dest"];
    killed(dir.path(), &arguments, 3, &at("dest"));
    beginning(&at("dest"));
    fs::remove_file(at("p/d/large")).unwrap();
    succeeds(dir.path(), &arguments);
    assert_tidy(dir.path());
}

#[test]
fn the_same_words_in_another_directory_are_another_command() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    for name in ["a/x", "b/x"] {
        fs::create_dir_all(at(name)).unwrap();
        fs::write(at(name).join("file"), name).unwrap();
    }
    std::os::unix::fs::symlink("nowhere", at("a/x/dangling")).unwrap();
    let new = at("new");
    let arguments = ["--resume", "-rLT", "x", new.to_str().unwrap()];
    assert_eq!(haul(&at("a"), &arguments).status.code(), Some(1));
    assert_eq!(journals(dir.path()).len(), 1);
    assert_eq!(fs::read(at("new/file")).unwrap(), b"a/x");
    succeeds(&at("b"), &arguments);
    assert_eq!(fs::read(at("new/file")).unwrap(), b"b/x");
    assert_eq!(journals(dir.path()).len(), 1, "that of the other command stays");
}

#[test]
fn a_journal_that_could_not_be_begun_does_not_stay() {
    if !haul_testbed::guest::has("strace") {
        return skip("strace is missing");
    }
    let dir = temp_dir();
    fs::write(dir.path().join("file"), "text").unwrap();
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=pwrite64", "-e", "inject=pwrite64:error=ENOSPC"]);
    let output = command.arg(HAUL).args(["--resume", "-T", "file", "copy"]).current_dir(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("; nothing was copied: No space left on device"), "{}", said(&output));
    assert_tidy(dir.path());
}

#[test]
fn a_file_from_the_future_is_finished_like_others() {
    let dir = temp_dir();
    make_tree(&dir.path().join("tree"));
    let file = dir.path().join("tree/inner/some");
    super::run("touch", &["-d", "@4000000000", file.to_str().unwrap()]);
    interrupted(dir.path(), &["-a"]);
    let output = succeeds(dir.path(), &["--resume", "--stats=json", "-a", "tree", "dest/"]);
    assert_eq!(counted(&output, "resumed"), 55, "{}", said(&output));
}
