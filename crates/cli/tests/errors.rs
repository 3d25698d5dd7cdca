//! What becomes of a run in which things go wrong: what it reports, and what is still copied.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Output;
use std::thread;

use haul_testbed::{Bed, Command, Fs, TempDir, painted, skip, temp_dir};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

/// A tree of 100 files, `a` and `z` among them, and 50 names under which no file can be made in `dest`: directories stand
/// there.
fn scene() -> TempDir {
    let dir = temp_dir();
    fs::create_dir(dir.path().join("tree")).unwrap();
    for number in 0..50 {
        fs::create_dir_all(dir.path().join(format!("dest/tree/bad{number}"))).unwrap();
        fs::write(dir.path().join(format!("tree/bad{number}")), "bad").unwrap();
        fs::write(dir.path().join(format!("tree/good{number}")), "good").unwrap();
    }
    dir
}

/// Runs haul under this name.
fn run(name: &str, dir: &Path, arguments: &[&str]) -> Output {
    Command::new(HAUL).arg0(name).args(arguments).current_dir(dir).env("LC_ALL", "C").output().unwrap()
}

fn lines(output: &Output) -> Vec<String> {
    String::from_utf8(output.stderr.clone()).unwrap().lines().map(str::to_owned).collect()
}

fn copied(dir: &Path) -> usize {
    (0..50)
        .filter(|number| fs::read(dir.join(format!("dest/tree/good{number}"))).is_ok_and(|text| text == b"good"))
        .count()
}

#[test]
fn many_errors_of_one_kind_are_counted_and_summed_up_and_all_other_files_are_copied() {
    let dir = scene();
    let output = run("haul", dir.path(), &["-r", "tree", "nothing", "dest"]);
    assert_eq!(output.status.code(), Some(1));
    let said = lines(&output);
    assert_eq!(
        said.iter().filter(|line| line.contains("cannot overwrite directory 'dest/tree/bad")).count(),
        21,
        "{said:#?}"
    );
    assert_eq!(said.iter().filter(|line| line.contains("only counted")).count(), 1, "{said:#?}");
    let [head, first, second] = &said[said.len() - 3..] else { panic!("{said:#?}") };
    assert_eq!(head, "haul: 51 errors, by the first of each kind:");
    assert!(first.starts_with("      50  cannot overwrite directory 'dest/tree/bad"), "{first}");
    assert_eq!(second, "       1  cannot stat 'nothing': No such file or directory");
    assert_eq!(copied(dir.path()), 50);
}

#[test]
fn called_as_cp_or_with_v_every_error_is_reported_and_nothing_else() {
    for (name, arguments) in [("cp", &["-r", "tree", "dest"][..]), ("haul", &["-rv", "tree", "dest"])] {
        let dir = scene();
        let output = run(name, dir.path(), arguments);
        assert_eq!(output.status.code(), Some(1));
        let said = lines(&output);
        assert_eq!(said.len(), 50, "{said:#?}");
        assert_eq!(said.iter().filter(|line| line.contains("cannot overwrite directory")).count(), 50, "{said:#?}");
        assert_eq!(copied(dir.path()), 50);
    }
}

#[test]
fn each_error_is_a_record_for_programs() {
    let dir = scene();
    let output = run("haul", dir.path(), &["-r", "--stats=json", "tree", "nothing", "dest"]);
    let records: Vec<serde_json::Value> = lines(&output)
        .iter()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (stats, errors) = records.split_last().unwrap();
    assert_eq!((&stats["record"], &stats["errors"]), (&"haul-stats".into(), &51.into()));
    assert_eq!(errors.len(), 51);
    let refused = errors.iter().filter(|error| error["operation"] == "CannotOverwriteDirectory").collect::<Vec<_>>();
    assert_eq!(refused.len(), 50);
    assert!(refused.iter().all(|error| error["record"] == "haul-error" && error["class"] == "refused"), "{refused:#?}");
    let missing = errors.iter().find(|error| error["path"] == "nothing").unwrap();
    assert_eq!((&missing["errno"], &missing["class"]), (&2.into(), &"missing".into()));
}

#[test]
fn the_first_error_ends_a_run_that_is_to_fail_fast() {
    let dir = scene();
    let output = run("haul", dir.path(), &["-r", "--jobs=1", "--fail-fast", "nothing", "tree", "dest"]);
    assert_eq!((output.status.code(), lines(&output).len()), (Some(1), 1), "{:#?}", lines(&output));
    assert_eq!(copied(dir.path()), 0);
    // In the middle of a tree, what was copied before is whole.
    let output = run("haul", dir.path(), &["-r", "--fail-fast", "tree", "dest"]);
    assert_eq!(output.status.code(), Some(1));
    for entry in fs::read_dir(dir.path().join("dest/tree")).unwrap().map(Result::unwrap) {
        assert!(entry.path().is_dir() || fs::read(entry.path()).unwrap() == b"good", "{entry:?}");
    }
    // The last one counts.
    let output = run("haul", dir.path(), &["-r", "--fail-fast", "--keep-going", "nothing", "tree", "dest"]);
    assert_eq!((output.status.code(), copied(dir.path())), (Some(1), 50));
}

#[test]
fn with_fail_fast_a_warning_ends_nothing() {
    let dir = scene();
    fs::write(dir.path().join("f"), "f").unwrap();
    let output = run("haul", dir.path(), &["--fail-fast", "f", "f", "tree/good1", "dest"]);
    assert_eq!(output.status.code(), Some(0), "{:#?}", lines(&output));
    assert!(dir.path().join("dest/good1").exists());
}

/// Copies a directory with several threads to a tmpfs with so many bytes left. What became of it, and what there is then.
fn copy_to_full_tmpfs(source: &str, left: u64) -> Option<(Output, Vec<OsString>)> {
    let bed = Bed::new()?;
    let place = bed.small(Fs::Tmpfs, 1 << 20)?;
    let dest = place.join("dest");
    fs::create_dir(&dest).unwrap();
    let mut ballast = File::create(place.join("ballast")).unwrap();
    while ballast.write(&[0; 4096]).is_ok() {}
    ballast.set_len(ballast.metadata().unwrap().len() - left).unwrap();
    let output = run("haul", &place, &["-rT", "--copy-contents", "--jobs=4", source, "dest"]);
    let there = fs::read_dir(&dest).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    Some((output, there))
}

#[test]
fn made_up_files_that_find_no_space_fail_and_are_not_taken_for_empty_ones() {
    // Made up while it is read: a second attempt would find its end.
    let Some((output, there)) = copy_to_full_tmpfs("/proc/sys/kernel/random", 0) else { return };
    assert_eq!(output.status.code(), Some(1), "{:?}", lines(&output));
    assert!(lines(&output)[0].ends_with("dest/boot_id': No space left on device"), "{:?}", lines(&output));
    assert!(there.is_empty(), "{there:?}");
}

#[test]
fn a_stream_that_finds_no_space_fails_and_does_not_go_on_behind_what_was_lost() {
    let dir = temp_dir();
    let (tree, fifo) = (dir.path().join("tree"), dir.path().join("tree/fifo"));
    fs::create_dir(&tree).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    // Nobody reads the rest of it.
    let writer = thread::spawn(move || fs::write(fifo, painted(400 << 10)).ok());
    let Some((output, there)) = copy_to_full_tmpfs(tree.to_str().unwrap(), 256 << 10) else { return };
    assert_eq!(output.status.code(), Some(1), "{:?}", lines(&output));
    assert!(lines(&output)[0].ends_with("dest/fifo': No space left on device"), "{:?}", lines(&output));
    assert!(there.is_empty(), "{there:?}");
    writer.join().unwrap();
}

/// Runs haul with errors that strace injects.
fn run_injected(dir: &Path, strace: &[&str], arguments: &[&str]) -> Option<Output> {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null"]).args(strace).arg(HAUL).args(arguments);
    match command.current_dir(dir).env("LC_ALL", "C").output() {
        Ok(output) => Some(output),
        Err(error) => {
            skip(format!("strace: {error}"));
            None
        }
    }
}

#[test]
fn one_attribute_that_a_filesystem_does_not_know_keeps_no_other_from_being_set() {
    let dir = temp_dir();
    fs::write(dir.path().join("a"), "text").unwrap();
    for name in ["one", "two", "three"] {
        let set = xattr_set(&dir.path().join("a"), name);
        if !set {
            return skip("the temporary directory has no extended attributes");
        }
    }
    let Some(output) = run_injected(dir.path(), &["-e", "inject=fsetxattr:error=EOPNOTSUPP:when=1"], &["-a", "a", "b"])
    else {
        return;
    };
    assert!(output.status.success(), "{:?}", lines(&output));
    let mut names = vec![0; 1024];
    let len = rustix::fs::listxattr(dir.path().join("b"), &mut names).unwrap();
    assert_eq!(names[..len].split_inclusive(|byte| *byte == 0).count(), 2);
}

fn xattr_set(file: &Path, name: &str) -> bool {
    rustix::fs::setxattr(file, format!("user.{name}"), b"value", rustix::fs::XattrFlags::empty()).is_ok()
}

#[test]
fn a_new_file_whose_close_fails_is_removed() {
    let dir = temp_dir();
    fs::create_dir(dir.path().join("tree")).unwrap();
    fs::write(dir.path().join("tree/file"), "text").unwrap();
    let copy = dir.path().canonicalize().unwrap().join("copy/file");
    let strace = ["-e", "inject=close:error=ENOSPC", "-P", copy.to_str().unwrap()];
    let Some(output) = run_injected(dir.path(), &strace, &["-rT", "--jobs=1", "tree", "copy"]) else { return };
    assert_eq!(output.status.code(), Some(1), "{:?}", lines(&output));
    assert_eq!(lines(&output).len(), 1, "{:?}", lines(&output));
    assert!(
        lines(&output)[0].ends_with("failed to close 'copy/file': No space left on device"),
        "{:?}",
        lines(&output)
    );
    assert!(!copy.exists());
}

#[test]
fn a_source_behind_a_symbolic_link_replaces_what_is_removed_first() {
    let dir = temp_dir();
    fs::write(dir.path().join("file"), "new").unwrap();
    std::os::unix::fs::symlink("file", dir.path().join("link")).unwrap();
    fs::write(dir.path().join("dest"), "other").unwrap();
    let output = run("haul", dir.path(), &["-LT", "--remove-destination", "--update=changed", "link", "dest"]);
    assert!(output.status.success(), "{:?}", lines(&output));
    assert_eq!(fs::read(dir.path().join("dest")).unwrap(), b"new");
}

#[test]
fn a_move_that_fails_leaves_no_second_name() {
    let dir = temp_dir();
    fs::write(dir.path().join("a"), "text").unwrap();
    // No rename that refuses a name that is taken, so it is a link; and then the old name cannot go.
    let strace = ["-e", "inject=renameat2:error=EINVAL", "-e", "inject=unlinkat:error=EACCES:when=1"];
    let Some(output) = run_injected(dir.path(), &strace, &["--move", "a", "b"]) else { return };
    assert_eq!(output.status.code(), Some(1), "{:?}", lines(&output));
    assert!(lines(&output)[0].contains("cannot move 'a' to 'b': Permission denied"), "{:?}", lines(&output));
    assert!(dir.path().join("a").exists() && !dir.path().join("b").exists());
}

#[test]
fn a_numbered_backup_replaces_nothing_where_renames_cannot_refuse() {
    let dir = temp_dir();
    // No room for a number, so that the name of the backup is taken.
    let (old, taken) = ("x".repeat(254), "x".repeat(253) + "~");
    for (name, text) in [("new", "new"), (&*old, "old"), (&*taken, "precious")] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let strace = ["-e", "inject=renameat2:error=EINVAL"];
    let Some(output) = run_injected(dir.path(), &strace, &["--backup=numbered", "new", &old]) else { return };
    assert_eq!(output.status.code(), Some(1), "{:?}", lines(&output));
    assert!(lines(&output)[0].contains("File exists"), "{:?}", lines(&output));
    assert_eq!(fs::read(dir.path().join(&old)).unwrap(), b"old");
    assert_eq!(fs::read(dir.path().join(&taken)).unwrap(), b"precious");
}

#[test]
fn a_file_gets_a_name_that_is_free_where_renames_cannot_refuse() {
    let dir = temp_dir();
    fs::write(dir.path().join("a"), "text").unwrap();
    let strace = ["-e", "inject=renameat2:error=EINVAL"];
    let Some(output) = run_injected(dir.path(), &strace, &["--atomic", "a", "b"]) else { return };
    assert!(output.status.success(), "{:?}", lines(&output));
    assert_eq!(fs::read(dir.path().join("b")).unwrap(), b"text");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn an_old_file_whose_close_fails_is_copied_again_by_the_next_update() {
    let dir = temp_dir();
    for (tree, text) in [("source", "new"), ("dest", "old")] {
        fs::create_dir(dir.path().join(tree)).unwrap();
        fs::write(dir.path().join(tree).join("file"), text).unwrap();
    }
    let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    File::options().write(true).open(dir.path().join("source/file")).unwrap().set_modified(long_ago).unwrap();
    let copy = dir.path().canonicalize().unwrap().join("dest/file");
    let strace = ["-e", "inject=close:error=EDQUOT", "-P", copy.to_str().unwrap()];
    let update = ["-a", "--update=changed", "-T", "source", "dest"];
    let Some(output) = run_injected(dir.path(), &strace, &update) else { return };
    assert_eq!(output.status.code(), Some(1), "{:?}", lines(&output));
    // As where a filesystem could not keep what was written.
    let modified = fs::metadata(&copy).unwrap().modified().unwrap();
    fs::write(&copy, "odd").unwrap();
    File::options().write(true).open(&copy).unwrap().set_modified(modified).unwrap();
    let output = run("haul", dir.path(), &update);
    assert!(output.status.success(), "{:?}", lines(&output));
    assert_eq!(fs::read(&copy).unwrap(), b"new");
}

/// A directory with a default ACL, if there can be one; false after a skip.
fn make_default_acl(dir: &Path) -> bool {
    fs::create_dir_all(dir.join("source/dir")).unwrap();
    let set = Command::new("setfacl").args(["-d", "-m", "u:1:rwx", "source/dir"]).current_dir(dir).output();
    let made = set.is_ok_and(|output| output.status.success());
    if !made {
        skip("no default ACLs can be set");
    }
    made
}

fn names_the_acl(output: &Output) {
    assert_eq!(output.status.code(), Some(1), "{:?}", lines(output));
    assert!(lines(output)[0].contains("preserving permissions for 'dest/dir'"), "{:?}", lines(output));
}

#[test]
fn an_acl_with_an_id_that_a_user_namespace_does_not_have_is_an_error() {
    let dir = temp_dir();
    if !make_default_acl(dir.path()) {
        return;
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["-Ur", HAUL, "-rT", "--preserve=mode", "source", "dest"]).current_dir(dir.path());
    let output = unshare.env("LC_ALL", "C").output().unwrap();
    if String::from_utf8_lossy(&output.stderr).starts_with("unshare: ") {
        return skip("no user namespaces");
    }
    names_the_acl(&output);
}

#[test]
fn an_acl_that_a_directory_hands_on_does_not_go_with_its_source_where_the_copy_cannot_have_it() {
    let Some(bed) = Bed::new() else { return };
    if !make_default_acl(bed.path()) {
        return;
    }
    fs::create_dir(bed.path().join("dest")).unwrap();
    let mounted = Command::new("mount").args(["-t", "ramfs", "none", "dest"]).current_dir(bed.path()).status();
    assert!(mounted.unwrap().success());
    names_the_acl(&run("haul", bed.path(), &["--move", "-T", "source", "dest"]));
    assert!(bed.path().join("source/dir").exists());
}

#[test]
fn a_filesystem_that_counts_no_links_takes_a_journal_and_special_files() {
    let dir = temp_dir();
    fs::create_dir(dir.path().join("source")).unwrap();
    fs::write(dir.path().join("source/file"), "text").unwrap();
    std::os::unix::fs::symlink("file", dir.path().join("source/link")).unwrap();
    // All that was asked for is told, in blocks of 4096 bytes, with no attributes and no links.
    let strace = ["-e", "inject=statx:poke_exit=@arg5=ff1f000000100000000000000000000000000000"];
    let Some(output) = run_injected(dir.path(), &strace, &["--resume", "-aT", "source", "dest"]) else { return };
    assert!(output.status.success(), "{:?}", lines(&output));
    assert_eq!(fs::read(dir.path().join("dest/link")).unwrap(), b"text");
}
