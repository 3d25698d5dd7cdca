//! `--delete` and `--mirror`: what the source does not have goes from the copy, and nothing else. `rsync -a --delete` says what is
//! right.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use haul_testbed::guest::{Noise, has};
use haul_testbed::{Bed, Command, Fs, TempDir, skip, temp_dir};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

/// Ways to copy: those that remove directory by directory, and those that remove at last.
const WAYS: [&[&str]; 5] = [&[], &["--jobs=1"], &["--atomic"], &["--durable=file", "--jobs=4"], &["--resume"]];

/// Those of them that write files under their own names.
const IN_PLACE: [&[&str]; 2] = [&[], &["--jobs=1"]];

fn run<S: AsRef<OsStr>>(program: &str, dir: &Path, arguments: &[S]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(dir).env("LC_ALL", "C").output().expect("it can be run")
}

/// Runs it, dry before that. If nothing fails, the dry run must have named what has gone, and changed nothing.
#[track_caller]
fn haul<S: AsRef<OsStr>>(dir: &Path, arguments: &[S]) -> Output {
    let all = arguments.iter().map(AsRef::as_ref).chain([OsStr::new("--dry-run")]).collect::<Vec<_>>();
    let before = look(dir);
    let dry = run(HAUL, dir, &all);
    assert_eq!(look(dir), before, "{all:?}");
    let output = run(HAUL, dir, arguments);
    let is_refused =
        ["--dry-run does not go with", "cannot be combined with --compare"].map(|why| said(&dry).contains(why));
    if output.status.success() && is_refused == [false; 2] {
        assert!(dry.status.success() && !said(&dry).contains("haul: "), "{all:?}: {}", said(&dry));
        let after = look(dir);
        // The modes of directories, and no others, begin so.
        let is_dir = |tree: &BTreeMap<PathBuf, String>, path: &Path| tree.get(path).map(|found| found.starts_with('4'));
        // What an interrupted run has left for the next one goes by itself.
        let is_left = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".haul-r"));
        let gone = before.keys().filter(|path| is_dir(&before, path) != is_dir(&after, path) && !is_left(path));
        assert_eq!(named(&dry.stdout), gone.cloned().collect(), "{all:?}");
    }
    output
}

/// What a dry run says would go.
fn named(lines: &[u8]) -> BTreeSet<PathBuf> {
    let text = String::from_utf8_lossy(lines);
    let of = |line: &str| {
        let name = line.strip_prefix("delete directory '").or(line.strip_prefix("delete '"))?;
        name.strip_suffix('\'').map(PathBuf::from)
    };
    text.lines().filter_map(of).collect()
}

/// Runs it and expects nothing but success; what it printed.
#[track_caller]
fn must(program: &str, dir: &Path, arguments: &[&str]) -> String {
    let output = if program == HAUL { haul(dir, arguments) } else { run(program, dir, arguments) };
    assert!(output.status.success() && output.stderr.is_empty(), "{program} {arguments:?}: {}", said(&output));
    String::from_utf8(output.stdout).expect("plain words")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// An error with these words in it, and the last of the lines.
#[track_caller]
fn fails(dir: &Path, arguments: &[&str], words: &str) -> String {
    let output = haul(dir, arguments);
    assert!(!output.status.success() && said(&output).contains(words), "{arguments:?}: {}", said(&output));
    said(&output)
}

/// Files with their paths as contents, and the directories that they are in; a path with a slash at its end is a directory.
fn make(dir: &Path, paths: &[&str]) {
    for path in paths {
        let at = dir.join(path);
        if path.ends_with('/') {
            fs::create_dir_all(at).expect("a directory");
            continue;
        }
        fs::create_dir_all(at.parent().expect("a directory")).expect("a directory");
        fs::write(&at, path).expect("it can be written");
    }
}

/// All that is in a directory: a letter for the type, the mode, the time of modification, and the contents.
fn look(top: &Path) -> BTreeMap<PathBuf, String> {
    fn walk(dir: &Path, top: &Path, found: &mut BTreeMap<PathBuf, String>) {
        let inode = fs::symlink_metadata(dir).expect("it is there");
        let kind = inode.file_type();
        let contents = match () {
            () if kind.is_dir() => "directory".to_owned(),
            () if kind.is_symlink() => format!("link to {}", fs::read_link(dir).expect("a link").display()),
            () if !kind.is_file() => "special".to_owned(),
            () => fs::read(dir)
                .map_or_else(|error| error.to_string(), |bytes| String::from_utf8_lossy(&bytes).into_owned()),
        };
        let attributes = format!("{:o} {}.{}", inode.mode(), inode.mtime(), inode.mtime_nsec());
        found.insert(dir.strip_prefix(top).expect("below").to_owned(), format!("{attributes} {contents}"));
        if kind.is_dir() {
            for entry in fs::read_dir(dir).into_iter().flatten() {
                walk(&entry.expect("an entry").path(), top, found);
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(top, top, &mut found);
    found
}

/// The paths in a directory.
fn paths(top: &Path) -> Vec<String> {
    look(top).into_keys().map(|path| path.display().to_string()).filter(|path| !path.is_empty()).collect()
}

/// `source` with `kept` and `dir/kept`, and `copy`, which has more.
fn scene() -> TempDir {
    let dir = temp_dir();
    make(dir.path(), &["source/kept", "source/dir/kept"]);
    must("cp", dir.path(), &["-aT", "source", "copy"]);
    make(dir.path(), &["copy/gone", "copy/dir/gone", "copy/old/inner/gone"]);
    dir
}

const KEPT: [&str; 3] = ["dir", "dir/kept", "kept"];
const ALL: [&str; 8] = ["dir", "dir/gone", "dir/kept", "gone", "kept", "old", "old/inner", "old/inner/gone"];

/// Everything that the old copy has is there, and what else there is.
#[track_caller]
fn keeps_everything(dir: &Path) {
    let found = paths(&dir.join("copy"));
    assert!(ALL.iter().all(|path| found.iter().any(|found| found == path)), "{found:?}");
}

#[test]
fn what_is_gone_from_the_source_goes_from_the_copy() {
    for way in WAYS {
        let dir = scene();
        must(HAUL, dir.path(), &[&["-aT", "--delete"], way, &["source", "copy"]].concat());
        assert_eq!(look(&dir.path().join("copy")), look(&dir.path().join("source")), "{way:?}");
    }
}

#[test]
fn a_mirror_is_like_its_source_afterwards() {
    let dir = scene();
    let (source, copy) = (dir.path().join("source"), dir.path().join("copy"));
    fs::write(source.join("kept"), "changed").expect("it can be written");
    make(&source, &["new/file"]);
    must(HAUL, dir.path(), &["--mirror", "source", "copy"]);
    assert_eq!(look(&copy), look(&source));
    must(HAUL, dir.path(), &["--compare", "-aT", "source", "copy"]);
    // What is the same stays the same.
    let inode = |name: &str| fs::metadata(copy.join(name)).map(|found| (found.ino(), found.ctime_nsec())).expect("it");
    let before = [inode("kept"), inode("dir"), inode("")];
    assert_eq!(must(HAUL, dir.path(), &["--mirror", "-v", "source", "copy"]), "");
    assert_eq!([inode("kept"), inode("dir"), inode("")], before);
}

/// Changes about a third of what is in a tree: some goes, some comes, and with `types` some changes between directory and file.
fn shake(dir: &Path, types: bool, noise: &mut Noise) {
    let entries: Vec<PathBuf> =
        fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("one").path()).collect();
    for path in entries {
        let is_dir = fs::symlink_metadata(&path).expect("it is there").is_dir();
        match noise.below(9) {
            0 | 1 if is_dir => fs::remove_dir_all(&path).expect("it can go"),
            0 | 1 => fs::remove_file(&path).expect("it can go"),
            2 if is_dir && types => {
                fs::remove_dir_all(&path).expect("it can go");
                fs::write(&path, "a file now").expect("it can be written");
            }
            3 if !is_dir && types => {
                fs::remove_file(&path).expect("it can go");
                make(&path, &["inner/file"]);
            }
            4 if !is_dir => {
                fs::remove_file(&path).expect("it can go");
                symlink("nowhere", &path).expect("a link");
            }
            _ if is_dir => shake(&path, types, noise),
            _ => {}
        }
    }
    let name = format!("new{}", noise.below(1000));
    make(dir, &[&name]);
}

fn grow(dir: &Path, depth: u32, noise: &mut Noise) {
    fs::create_dir_all(dir).expect("a directory");
    for number in 0..noise.below(7) + 2 {
        make(dir, &[&format!("file{number}")]);
    }
    for number in 0..if depth == 0 { 0 } else { noise.below(4) + 1 } {
        grow(&dir.join(format!("dir{number}")), depth - 1, noise);
    }
    // The same for both programs, and older than what comes.
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for entry in fs::read_dir(dir).expect("a directory") {
        File::open(entry.expect("one").path()).and_then(|file| file.set_modified(time)).expect("its time can be set");
    }
}

#[test]
fn a_mirror_of_a_random_tree_is_what_rsync_makes_of_it() {
    if !has("rsync") {
        return skip("rsync is missing");
    }
    for (seed, way) in WAYS.into_iter().cycle().enumerate().take(20) {
        let dir = temp_dir();
        let (source, copy) = (dir.path().join("source"), dir.path().join("copy"));
        let mut noise = Noise::new(seed as u64);
        grow(&source, 3, &mut noise);
        must("cp", dir.path(), &["-aT", "source", "copy"]);
        let types = IN_PLACE.contains(&way);
        shake(&source, types, &mut noise);
        shake(&copy, types, &mut noise);
        must("cp", dir.path(), &["-aT", "copy", "theirs"]);
        // By itself it compares whole seconds.
        must("rsync", dir.path(), &["-a", "--delete", "--force", "--modify-window=-1", "source/", "theirs/"]);
        must(HAUL, dir.path(), &[&["--mirror", "--delete=force"], way, &["source", "copy"]].concat());
        assert_eq!(look(&copy), look(&dir.path().join("theirs")), "{seed}");
        assert_eq!(look(&copy), look(&source), "{seed}");
    }
}

#[test]
fn what_is_excluded_stays_unless_it_is_to_go() {
    for (way, all) in WAYS.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        let dir = scene();
        make(dir.path(), &["source/a.o", "copy/a.o", "copy/old/b.o", "copy/dir/c.o"]);
        let options =
            [&["-aT", "--delete", "--exclude=*.o"][..], way, if all { &["--delete-excluded"][..] } else { &[] }];
        must(HAUL, dir.path(), &[&options.concat()[..], &["source", "copy"]].concat());
        let left: &[&str] = if all { &KEPT } else { &["a.o", "dir", "dir/c.o", "dir/kept", "kept", "old", "old/b.o"] };
        assert_eq!(paths(&dir.path().join("copy")), left, "{way:?}");
    }
}

#[test]
fn the_copy_of_an_empty_directory_stays_unless_that_is_forced() {
    for way in WAYS {
        let dir = scene();
        fs::remove_file(dir.path().join("source/dir/kept")).expect("it is there");
        let with = |delete| [&["-aT", delete], way, &["source", "copy"]].concat();
        let words = "not deleting what is in 'copy/dir': its source 'source/dir' is empty";
        let error = fails(dir.path(), &with("--delete"), words);
        assert!(error.contains("--delete=force"), "{error}");
        assert_eq!(paths(&dir.path().join("copy")), ["dir", "dir/gone", "dir/kept", "kept"], "{way:?}");
        must(HAUL, dir.path(), &with("--delete=force"));
        assert_eq!(paths(&dir.path().join("copy")), ["dir", "kept"], "{way:?}");
        must(HAUL, dir.path(), &with("--delete"));
    }
}

#[test]
fn an_empty_source_empties_nothing() {
    for way in WAYS {
        let dir = scene();
        fs::create_dir(dir.path().join("empty")).expect("a directory");
        fails(dir.path(), &[&["--mirror"], way, &["empty", "copy"]].concat(), "'empty' is empty");
        keeps_everything(dir.path());
    }
}

#[test]
fn no_more_is_removed_than_may_be() {
    for (way, most) in WAYS.into_iter().flat_map(|way| [(way, 0), (way, 3), (way, 4)]) {
        let dir = scene();
        let limit = format!("--max-delete={most}");
        let words = format!("{} more to delete in 'copy'", 5 - most);
        fails(dir.path(), &[&["-aT", "--delete", &limit], way, &["source", "copy"]].concat(), &words);
        assert_eq!(paths(&dir.path().join("copy")).len(), ALL.len() - most, "{way:?}");
        must(HAUL, dir.path(), &[&["-aT", "--delete", "--max-delete=5"], way, &["source", "copy"]].concat());
        assert_eq!(paths(&dir.path().join("copy")), KEPT, "{way:?}");
    }
}

#[test]
fn a_link_goes_and_what_it_leads_to_stays() {
    for way in WAYS {
        let dir = scene();
        make(dir.path(), &["precious/file"]);
        let mut links = vec!["copy/link", "copy/old/link"];
        if IN_PLACE.contains(&way) {
            make(dir.path(), &["source/becomes/file"]);
            links.push("copy/becomes");
        }
        for name in links {
            symlink("../precious", dir.path().join(name)).expect("a link");
        }
        symlink(dir.path().join("precious"), dir.path().join("copy/dir/link")).expect("a link");
        must(HAUL, dir.path(), &[&["-aT", "--delete"], way, &["source", "copy"]].concat());
        assert_eq!(look(&dir.path().join("copy")), look(&dir.path().join("source")), "{way:?}");
        assert_eq!(paths(&dir.path().join("precious")), ["file"], "{way:?}");
    }
}

#[test]
fn nothing_is_written_through_a_link_of_the_copy() {
    for way in WAYS {
        let dir = scene();
        make(dir.path(), &["precious"]);
        for name in ["kept", "dir/kept"] {
            fs::remove_file(dir.path().join("copy").join(name)).expect("it is there");
        }
        symlink("../precious", dir.path().join("copy/kept")).expect("a link");
        symlink("../../source/dir/kept", dir.path().join("copy/dir/kept")).expect("a link");
        must(HAUL, dir.path(), &[&["-aT", "--delete"], way, &["source", "copy"]].concat());
        assert_eq!(look(&dir.path().join("copy")), look(&dir.path().join("source")), "{way:?}");
        assert_eq!(fs::read_to_string(dir.path().join("precious")).expect("it is there"), "precious", "{way:?}");
    }
}

#[test]
fn what_is_in_the_way_goes() {
    for way in IN_PLACE {
        let dir = scene();
        make(dir.path(), &["source/was-dir", "source/was-file/inner", "copy/was-dir/deep/file", "copy/was-file"]);
        symlink("kept", dir.path().join("source/link")).expect("a link");
        make(dir.path(), &["source/was-fifo"]);
        must("mkfifo", dir.path(), &["copy/was-fifo"]);
        make(dir.path(), &["copy/link/file"]);
        must(HAUL, dir.path(), &[&["-aT", "--delete"], way, &["source", "copy"]].concat());
        assert_eq!(look(&dir.path().join("copy")), look(&dir.path().join("source")), "{way:?}");
    }
}

#[test]
fn what_is_of_another_type_goes_though_it_is_newer() {
    let dir = temp_dir();
    make(dir.path(), &["source/file", "source/was-link", "source/was-fifo", "source/was-dir", "copy/was-dir/inner"]);
    make(dir.path(), &["elsewhere", "copy/link", "copy/newer"]);
    fs::write(dir.path().join("source/newer"), "older").expect("it can be written");
    for name in ["source/was-link", "source/was-fifo", "source/was-dir", "source/newer"] {
        let old = SystemTime::now() - Duration::from_secs(1 << 20);
        File::open(dir.path().join(name)).and_then(|file| file.set_modified(old)).expect("an older file");
    }
    symlink("file", dir.path().join("source/link")).expect("a link");
    must("touch", dir.path(), &["-hd", "1 month ago", "source/link"]);
    symlink("../elsewhere", dir.path().join("copy/was-link")).expect("a link");
    must("mkfifo", dir.path(), &["copy/was-fifo"]);
    must(HAUL, dir.path(), &["-aT", "--delete", "--update=older", "source", "copy"]);
    let (source, mut copy) = (look(&dir.path().join("source")), look(&dir.path().join("copy")));
    let newer = copy.insert("newer".into(), source[Path::new("newer")].clone()).expect("a file");
    assert_eq!(copy, source);
    assert!(newer.contains("copy/newer"), "{newer}");
    assert_eq!(fs::read(dir.path().join("elsewhere")).expect("a file"), b"elsewhere");
}

#[test]
fn what_is_in_the_way_stays_where_a_copy_gets_its_name_at_last() {
    for way in WAYS.into_iter().filter(|way| !IN_PLACE.contains(way)) {
        let dir = temp_dir();
        make(dir.path(), &["source/was-dir", "source/was-file/inner", "copy/was-dir/file", "copy/was-file"]);
        let arguments = [&["-aT", "--delete"], way, &["source", "copy"]].concat();
        let said = fails(dir.path(), &arguments, "cannot replace 'copy/was-dir' by 'source/was-dir' in one step");
        assert!(said.contains("cannot replace 'copy/was-file' by 'source/was-file' in one step"), "{said}");
        assert_eq!(paths(&dir.path().join("copy")), ["was-dir", "was-dir/file", "was-file"], "{way:?}");
    }
}

#[test]
fn what_is_in_the_way_of_what_cannot_be_read_stays() {
    let dir = temp_dir();
    make(dir.path(), &["source/file", "source/dir/inner", "copy/file/old", "copy/dir"]);
    // The built program may lie where nobody may go.
    must("cp", dir.path(), &[HAUL, "haul"]);
    let arguments = ["-rT", "--delete", "source", "copy"];
    for name in ["source/file", "source/dir"] {
        fs::set_permissions(dir.path().join(name), Permissions::from_mode(0o000)).expect("a mode");
    }
    let mut command = Command::new(dir.path().join("haul"));
    if rustix::process::geteuid().is_root() {
        must("chown", dir.path(), &["-R", "65534:65534", "."]);
        command.uid(65534).gid(65534);
    }
    let output = command.args(arguments).current_dir(dir.path()).env("LC_ALL", "C").output().expect("it can be run");
    for name in ["file", "dir"] {
        let words = format!("cannot open 'source/{name}' for reading: Permission denied");
        assert!(said(&output).contains(&words), "{}", said(&output));
    }
    assert_eq!(paths(&dir.path().join("copy")), ["dir", "file", "file/old"]);
}

#[test]
fn what_is_in_the_way_stays_if_something_of_it_is_excluded_or_too_much() {
    for option in ["--exclude=*.o", "--max-delete=2"] {
        let dir = temp_dir();
        make(dir.path(), &["source/x", "source/y", "copy/x/deep/a.o", "copy/x/b", "copy/y"]);
        let words = "cannot overwrite directory 'copy/x' with non-directory 'source/x'";
        fails(dir.path(), &["-aT", "--delete", option, "source", "copy"], words);
        assert_eq!(paths(&dir.path().join("copy")), ["x", "x/b", "x/deep", "x/deep/a.o", "y"], "{option}");
    }
}

#[test]
fn an_operand_is_never_in_the_way() {
    let dir = scene();
    symlink("copy", dir.path().join("link")).expect("a link");
    make(dir.path(), &["file", "into/source"]);
    fails(dir.path(), &["--mirror", "source", "link"], "cannot overwrite non-directory 'link'");
    fails(dir.path(), &["--mirror", "source", "file"], "cannot overwrite non-directory 'file'");
    fails(dir.path(), &["-a", "--delete", "-t", "into", "source"], "cannot overwrite non-directory 'into/source'");
    fails(dir.path(), &["-aT", "--delete", "file", "copy"], "cannot overwrite directory 'copy'");
    assert!(fs::symlink_metadata(dir.path().join("link")).expect("it stays").is_symlink());
    keeps_everything(dir.path());
}

#[test]
fn of_a_directory_that_a_copy_goes_into_nothing_else_goes() {
    for way in WAYS {
        let dir = scene();
        make(dir.path(), &["into/other/file", "into/source/gone"]);
        must(HAUL, dir.path(), &[&["-a", "--delete", "-t", "into"], way, &["source"]].concat());
        let of_source = ["source", "source/dir", "source/dir/kept", "source/kept"];
        assert_eq!(paths(&dir.path().join("into")), [&["other", "other/file"], &of_source[..]].concat(), "{way:?}");
    }
}

#[test]
fn several_sources_are_refused() {
    let dir = scene();
    make(dir.path(), &["into/source/old/file"]);
    for way in WAYS {
        let arguments = [&["-a", "--delete", "-t", "into"], way, &["source", "into/source/old"]].concat();
        fails(dir.path(), &arguments, "several sources: one could be in the copy of another");
        assert_eq!(paths(&dir.path().join("into")), ["source", "source/old", "source/old/file"], "{way:?}");
    }
}

#[test]
fn a_source_without_a_name_is_no_mirror_of_a_directory_that_copies_go_into() {
    let dir = scene();
    for arguments in [&["-t", "copy", "source/."][..], &["source/.", "copy/"]] {
        fails(dir.path(), &[&["-a", "--delete"], arguments].concat(), "'source/.' has no name");
        keeps_everything(dir.path());
    }
    must(HAUL, dir.path(), &["-aT", "--delete", "source/.", "copy"]);
    assert_eq!(look(&dir.path().join("copy")), look(&dir.path().join("source")));
}

#[test]
fn a_copy_that_holds_its_source_is_refused() {
    let dir = temp_dir();
    make(dir.path(), &["top/source/file", "top/other"]);
    fails(dir.path(), &["--mirror", "top/source", "top"], "will not delete in 'top'");
    fails(dir.path(), &["--mirror", "--atomic", "top/source", "top"], "will not delete in 'top'");
    assert_eq!(paths(&dir.path().join("top")), ["other", "source", "source/file"]);
}

#[test]
fn what_does_not_go_with_deletion_is_refused_and_nothing_is_written() {
    let dir = scene();
    let before = look(&dir.path().join("copy"));
    for (arguments, words) in [
        ("-a --delete source copy", "add -T to copy to 'copy' itself, or write 'copy/'"),
        ("-pT --delete source copy", "without -r"),
        ("-aT --delete -L source copy", "-L: what a link leads to"),
        ("-aT --delete --move source copy", "--move"),
        ("-aT --delete -i source copy", "-i"),
        ("-aT --delete -n source copy", "-n"),
        ("-aT --delete --update=none source copy", "--update=none"),
        ("-aT --delete --backup source copy", "--backup"),
        ("-aT --delete -l source copy", "--link"),
        ("-aT --delete --attributes-only source copy", "--attributes-only"),
        ("-aT --delete --shard=1/2 source copy", "--shard"),
        ("-a --delete --parents source -t copy", "--parents"),
        ("-aT --delete --keep-directory-symlink source copy", "--keep-directory-symlink"),
        ("-aT --delete --files-from=list source copy", "--files-from"),
        ("-aT --delete --list=list source copy", "--list"),
        ("-aT --delete --list-out=new-list source", "--list-out"),
        ("-aT --max-delete=1 source copy", "--max-delete has a meaning only with --delete"),
        ("-aT --delete-excluded source copy", "--delete-excluded has a meaning only with --delete"),
        ("-aT --delete --max-delete=x source copy", "invalid --max-delete argument 'x'"),
        ("-aT --delete --max-delete=-1 source copy", "invalid --max-delete argument '-1'"),
        ("--mirror source copy third", "extra operand 'third'"),
        ("--mirror -t copy source", "cannot combine"),
        ("--mirror --compare source copy", "--compare"),
        ("--mirror --dry-run -L source copy", "-L: what a link leads to"),
    ] {
        fs::write(dir.path().join("list"), "kept\n").expect("it can be written");
        fails(dir.path(), &arguments.split(' ').collect::<Vec<_>>(), words);
        assert_eq!(look(&dir.path().join("copy")), before, "{arguments}");
        assert!(!dir.path().join("new-list").exists());
    }
}

#[test]
fn what_goes_is_named_and_counted() {
    let dir = scene();
    make(dir.path(), &["list"]);
    let output = must(HAUL, dir.path(), &["-aT", "--update=changed", "--delete", "-v", "source", "copy"]);
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    let expected = [
        "removed 'copy/dir/gone'",
        "removed 'copy/gone'",
        "removed 'copy/old/inner/gone'",
        "removed directory 'copy/old'",
        "removed directory 'copy/old/inner'",
    ];
    assert_eq!(lines, expected);
    let dir = scene();
    let output = haul(dir.path(), &["--mirror", "--stats=json", "source", "copy"]);
    let (said, printed) = (said(&output), String::from_utf8_lossy(&output.stdout).into_owned());
    assert!((said + &printed).contains(r#""deleted":3,"deleted_directories":2"#), "{printed}");
}

#[test]
fn after_an_error_nothing_more_is_removed() {
    for (way, at_last) in WAYS.into_iter().zip([false, false, true, true, true]) {
        let dir = scene();
        // A directory that stands where a file goes, and must stay: it holds what is excluded.
        make(dir.path(), &["source/way", "copy/way/a.o"]);
        let arguments = [&["-aT", "--delete", "--exclude=*.o"], way, &["source", "copy"]].concat();
        let said = fails(dir.path(), &arguments, "'copy/way'");
        assert!(said.contains("not everything could be copied, so no more was deleted in 'copy'"), "{said}");
        let left = paths(&dir.path().join("copy"));
        // What is in the same directory stays in any case, what was removed before that only at last.
        for path in ["gone", "old/inner/gone", if at_last { "dir/gone" } else { "gone" }] {
            assert!(left.iter().any(|found| found == path), "{way:?}: {left:?}");
        }
    }
}

#[test]
fn after_an_error_in_another_directory_a_renamed_file_keeps_its_old_copy() {
    for way in WAYS {
        let dir = scene();
        fs::rename(dir.path().join("source/kept"), dir.path().join("source/renamed")).expect("it can be renamed");
        make(dir.path(), &["source/dir/way", "copy/dir/way/a.o"]);
        let arguments = [&["-aT", "--delete", "--jobs=1", "--exclude=*.o"], way, &["source", "copy"]].concat();
        fails(dir.path(), &arguments, "'copy/dir/way'");
        let left = paths(&dir.path().join("copy"));
        assert!(left.iter().any(|found| found == "kept"), "{way:?}: {left:?}");
    }
}

#[test]
fn a_run_that_is_killed_has_removed_nothing_if_all_goes_at_last() {
    for (way, at_last) in [("--update=all", false), ("--atomic", true)] {
        let dir = scene();
        make(dir.path(), &["source/a/kept", "source/b/kept", "copy/a/gone", "copy/b/gone"]);
        must("mkfifo", dir.path(), &["source/a/fifo", "source/b/fifo"]);
        let mut command = Command::new(HAUL);
        command.args(["-rT", "--delete", way, "--copy-contents", "--jobs=1", "source", "copy"]);
        let mut child = command.current_dir(dir.path()).spawn().expect("haul can be run");
        // It reads each FIFO until its writer ends. When it has come to the second one, the directory of the first is done.
        let (writers, reached) = mpsc::channel();
        for name in ["source/a/fifo", "source/b/fifo"] {
            let (path, writers) = (dir.path().join(name), writers.clone());
            thread::spawn(move || writers.send(File::options().write(true).open(path)));
        }
        drop(reached.recv().expect("one is reached").expect("haul reads it"));
        let second = reached.recv().expect("the other is reached").expect("haul reads it");
        child.kill().expect("the child is ours");
        child.wait().expect("it ends");
        drop(second);
        let stay = ["copy/a/gone", "copy/b/gone"].iter().filter(|path| dir.path().join(path).exists()).count();
        assert_eq!(stay, if at_last { 2 } else { 1 }, "{way}");
        if at_last {
            keeps_everything(dir.path());
        }
    }
}

#[test]
fn an_interrupted_run_that_is_continued_removes_what_went_meanwhile() {
    let dir = scene();
    make(dir.path(), &["source/new/goes", "source/new/stays"]);
    must("mkfifo", dir.path(), &["source/fifo"]);
    let options = ["-rT", "--delete", "--resume", "--copy-contents", "--jobs=1", "source", "copy"];
    let mut command = Command::new(HAUL);
    let mut child = command.args(options).current_dir(dir.path()).spawn().expect("haul can be run");
    let writer = File::options().write(true).open(dir.path().join("source/fifo")).expect("haul reads it");
    child.kill().expect("the child is ours");
    child.wait().expect("it ends");
    drop(writer);
    fs::remove_file(dir.path().join("source/fifo")).expect("it is there");
    fs::remove_file(dir.path().join("source/new/goes")).expect("it is there");
    must(HAUL, dir.path(), &options);
    assert_eq!(paths(&dir.path().join("copy")), paths(&dir.path().join("source")));
    assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 2, "no journal is left");
}

/// As a user who has all of this directory, and no rights besides.
fn haul_as_nobody(dir: &Path, arguments: &[&str]) -> Output {
    // The built program may lie where nobody may go.
    must("cp", dir, &[HAUL, "haul"]);
    must("chown", dir, &["-R", "65534:65534", "."]);
    fs::set_permissions(dir, Permissions::from_mode(0o755)).expect("a mode");
    let mut command = Command::new(dir.join("haul"));
    command.args(arguments).current_dir(dir).env("LC_ALL", "C").uid(65534).gid(65534);
    command.output().expect("it can be run")
}

#[test]
fn a_directory_of_the_copy_that_cannot_be_read_is_an_error() {
    if !rustix::process::geteuid().is_root() {
        return skip("who is nobody is for root to say");
    }
    for way in WAYS {
        let dir = temp_dir();
        make(dir.path(), &["source/dir/kept", "copy/dir/gone"]);
        fs::set_permissions(dir.path().join("copy/dir"), Permissions::from_mode(0o300)).expect("a mode");
        let output = haul_as_nobody(dir.path(), &[&["-rT", "--delete"], way, &["source", "copy"]].concat());
        assert_eq!(output.status.code(), Some(1), "{way:?}");
        assert!(said(&output).contains("cannot access 'copy/dir': Permission denied"), "{way:?}: {}", said(&output));
    }
}

#[test]
fn the_copy_of_a_directory_that_cannot_be_read_stays() {
    if !rustix::process::geteuid().is_root() {
        return skip("who is nobody is for root to say");
    }
    for way in WAYS {
        let dir = scene();
        make(dir.path(), &["source/dir/inner/file", "copy/dir/inner/gone"]);
        fs::set_permissions(dir.path().join("source/dir"), Permissions::from_mode(0o000)).expect("a mode");
        let output = haul_as_nobody(dir.path(), &[&["-rT", "--delete"], way, &["source", "copy"]].concat());
        assert!(said(&output).contains("cannot access 'source/dir': Permission denied"), "{}", said(&output));
        let left = paths(&dir.path().join("copy"));
        for path in ["dir/gone", "dir/kept", "dir/inner/gone"] {
            assert!(left.iter().any(|found| found == path), "{way:?}: {left:?}");
        }
    }
}

#[test]
fn nothing_goes_where_something_is_mounted() {
    let Some(bed) = Bed::new() else { return };
    let Some(other) = bed.mount(Fs::Tmpfs) else { return };
    make(&other, &["precious"]);
    make(bed.path(), &["bound/precious"]);
    for (way, one) in WAYS.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        make(bed.path(), &["source/kept", "copy/gone", "copy/old/mounted/", "copy/old/bound/", "copy/old/file"]);
        must("mount", bed.path(), &["--bind", other.to_str().expect("a name"), "copy/old/mounted"]);
        must("mount", bed.path(), &["--bind", "bound", "copy/old/bound"]);
        let arguments =
            [&["-aT", "--delete"][..], way, if one { &["-x"][..] } else { &[] }, &["source", "copy"]].concat();
        let output = haul(bed.path(), &arguments);
        assert_eq!(output.status.success(), one, "{arguments:?}: {}", said(&output));
        let reports = said(&output).matches("something is mounted there").count();
        assert_eq!(reports, if one { 0 } else { 2 }, "{arguments:?}: {}", said(&output));
        let left = ["kept", "old", "old/bound", "old/bound/precious", "old/mounted", "old/mounted/precious"];
        assert_eq!(paths(&bed.path().join("copy")), left, "{arguments:?}");
        must("umount", bed.path(), &["copy/old/mounted", "copy/old/bound"]);
        fs::remove_dir_all(bed.path().join("copy")).expect("it can go");
    }
}

#[test]
fn nothing_goes_where_mounts_show_a_directory_of_the_copy_twice() {
    let Some(bed) = Bed::new() else { return };
    for way in WAYS {
        make(bed.path(), &["source/a/x", "source/b/y", "copy/a/", "copy/b/", "copy/gone"]);
        must("mount", bed.path(), &["--bind", "copy/a", "copy/b"]);
        let arguments = [&["-aT", "--delete"][..], way, &["source", "copy"]].concat();
        let output = run(HAUL, bed.path(), &arguments);
        assert!(!output.status.success(), "{arguments:?}");
        assert_eq!(said(&output).matches("mounts show one of its directories").count(), 1, "{}", said(&output));
        let left = ["a", "a/x", "a/y", "b", "b/x", "b/y", "gone"];
        assert_eq!(paths(&bed.path().join("copy")), left, "{arguments:?}");
        // Once it is unmounted, everything goes that the source does not have.
        must("umount", bed.path(), &["copy/b"]);
        let output = run(HAUL, bed.path(), &arguments);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        assert_eq!(paths(&bed.path().join("copy")), ["a", "a/x", "b", "b/y"], "{arguments:?}");
        fs::remove_dir_all(bed.path().join("copy")).expect("it can go");
    }
}

#[test]
fn what_is_gone_from_a_directory_that_its_owner_cannot_write_goes() {
    if !rustix::process::geteuid().is_root() {
        return skip("who is nobody is for root to say");
    }
    for way in WAYS {
        let dir = scene();
        make(dir.path(), &["copy/closed/gone", "copy/listed/gone"]);
        must("cp", dir.path(), &[HAUL, "haul"]);
        must("chown", dir.path(), &["-R", "65534:65534", "."]);
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("a mode");
        for (name, mode) in [("source/dir", 0o555), ("copy/dir", 0o555), ("copy/closed", 0), ("copy/listed", 0o400)] {
            fs::set_permissions(dir.path().join(name), Permissions::from_mode(mode)).expect("a mode");
        }
        let run = |more: &[&str]| {
            let mut command = Command::new(dir.path().join("haul"));
            command.args([&["--mirror"], way, more, &["source", "copy"]].concat()).current_dir(dir.path());
            let output = command.uid(65534).gid(65534).output().expect("it can be run");
            assert!(output.status.success(), "{way:?}: {}", said(&output));
            output
        };
        if !way.contains(&"--resume") {
            let before = look(dir.path());
            let foretold = named(&run(&["--dry-run"]).stdout);
            assert_eq!(look(dir.path()), before, "{way:?}");
            // What is in a directory that is closed only who opens it sees.
            let open = ["closed", "listed", "dir/gone", "gone", "old", "old/inner", "old/inner/gone"];
            let expected = open.map(|name| Path::new("copy").join(name));
            assert_eq!(foretold, BTreeSet::from(expected), "{way:?}");
        }
        run(&[]);
        assert_eq!(look(&dir.path().join("copy")), look(&dir.path().join("source")), "{way:?}");
    }
}

#[test]
fn with_x_nothing_goes_from_a_mounted_directory_of_the_copy() {
    let Some(bed) = Bed::new() else { return };
    let Some(other) = bed.mount(Fs::Tmpfs) else { return };
    for (way, one) in WAYS.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        make(bed.path(), &["source/dir/kept", "copy/dir/", "copy/gone"]);
        make(&other, &["gone"]);
        must("mount", bed.path(), &["--bind", other.to_str().expect("a name"), "copy/dir"]);
        let options = [&["-rT", "--delete"][..], way, if one { &["-x"][..] } else { &[] }, &["source", "copy"]];
        // What is seen through two paths goes from both, and a dry run names one.
        let output = run(HAUL, bed.path(), &options.concat());
        assert!(output.status.success() && output.stderr.is_empty(), "{way:?}: {}", said(&output));
        let left: &[&str] = if one { &["dir", "dir/gone", "dir/kept"] } else { &["dir", "dir/kept"] };
        assert_eq!(paths(&bed.path().join("copy")), left, "{way:?}, {one}");
        must("umount", bed.path(), &["copy/dir"]);
    }
}

#[test]
fn where_names_are_not_known_to_be_exact_everything_stays() {
    let Some(bed) = Bed::new() else { return };
    // It is none of the filesystems that haul knows to have exact names.
    fs::create_dir(bed.path().join("root")).expect("a directory");
    must("mount", bed.path(), &["-t", "ramfs", "none", "root"]);
    make(bed.path(), &["source/kept", "source/dir/kept"]);
    for (number, way) in WAYS.into_iter().enumerate() {
        let copy = format!("root/{number}");
        make(&bed.path().join(&copy), &["gone", "dir/gone"]);
        let words = "names that differ in upper and lower case may be one name there";
        let said = fails(bed.path(), &[&["-rT", "--delete"], way, &["source", &copy]].concat(), words);
        assert_eq!(said.matches(words).count(), 1, "{said}");
        let left = paths(&bed.path().join(&copy));
        assert_eq!(left, ["dir", "dir/gone", "dir/kept", "gone", "kept"], "{way:?}");
    }
}

#[test]
fn on_xfs_a_look_shows_that_names_are_exact() {
    let Some(bed) = Bed::new() else { return };
    let Some(root) = bed.mount(Fs::Xfs) else { return };
    for way in WAYS {
        // Also where no name has letters.
        make(&root, &["source/1/kept", "source/2/3", "copy/1/Kept", "copy/2/4", "copy/5", "copy/gone"]);
        must(HAUL, &root, &[&["-rT", "--delete"], way, &["source", "copy"]].concat());
        assert_eq!(paths(&root.join("copy")), ["1", "1/kept", "2", "2/3"], "{way:?}");
        fs::remove_dir_all(root.join("copy")).expect("it can go");
    }
}

#[test]
fn a_list_of_digests_that_is_being_written_to_the_copy_stays() {
    for way in WAYS {
        let dir = scene();
        must(HAUL, dir.path(), &[&["-aT", "--delete", "--digests=copy/dir/SUMS"], way, &["source", "copy"]].concat());
        let sums = fs::read_to_string(dir.path().join("copy/dir/SUMS")).expect("it has its name");
        assert_eq!((sums.lines().count(), paths(&dir.path().join("copy")).len()), (2, 4), "{way:?}: {sums}");
    }
}

#[test]
fn what_cannot_be_removed_is_an_error_and_the_rest_goes() {
    if !has("chattr") {
        return skip("chattr is missing");
    }
    let Some(bed) = Bed::new() else { return };
    let Some(root) = bed.mount(Fs::Ext4) else { return };
    make(&root, &["source/kept", "copy/old/fixed", "copy/old/loose", "copy/gone"]);
    must("chattr", &root, &["+i", "copy/old/fixed"]);
    fails(&root, &["-aT", "--delete", "source", "copy"], "cannot remove 'copy/old/fixed': Operation not permitted");
    let left = paths(&root.join("copy"));
    must("chattr", &root, &["-i", "copy/old/fixed"]);
    assert_eq!(left, ["kept", "old", "old/fixed"]);
}

#[test]
fn a_copy_whose_filesystem_spells_names_in_another_way_stays() {
    let Some(bed) = Bed::new() else { return };
    if !has("lowntfs-3g") || !has("mkntfs") {
        return skip("lowntfs-3g or mkntfs is missing");
    }
    let image = bed.path().join("image");
    File::create(&image).and_then(|file| file.set_len(8 << 20)).expect("an image");
    run("mkntfs", bed.path(), &["-F", "-q", "-Q", "image"]);
    // It gives all names back in lower case.
    let mounted = bed.mount_fuse("lowntfs-3g", &image, &["ignore_case"]);
    let copy = mounted.path().join("copy");
    fs::create_dir(&copy).expect("a directory");
    make(bed.path(), &["source/Name.txt", "source/dir/kept"]);
    // As it stands there it has other letters.
    make(&copy, &["NAME.TXT", "gone", "Dir/kept", "Dir/gone"]);
    let copy_name = copy.to_str().expect("a name");
    fails(bed.path(), &["-rT", "--delete", "source", copy_name], "not deleting");
    let left: Vec<String> = paths(&copy).iter().map(|path| path.to_lowercase()).collect();
    assert_eq!(left, ["dir", "dir/gone", "dir/kept", "gone", "name.txt"]);
    assert_eq!(fs::read_to_string(copy.join("name.txt")).expect("it is there"), "source/Name.txt");
}

#[test]
fn a_copy_of_what_is_in_an_excluded_cache_stays() {
    let dir = temp_dir();
    make(dir.path(), &["source/cache/sub/file", "copy/cache/sub/file", "copy/cache/sub/old", "copy/gone"]);
    let tag = dir.path().join("source/cache/CACHEDIR.TAG");
    fs::write(tag, "Signature: 8a477f597d28d172789f06886806bc55").expect("a tag");
    for way in WAYS {
        make(dir.path(), &["copy/gone"]);
        must(HAUL, dir.path(), &[&["-aT", "--delete", "--exclude-caches"], way, &["source", "copy"]].concat());
        let left = paths(&dir.path().join("copy"));
        assert_eq!(left, ["cache", "cache/CACHEDIR.TAG", "cache/sub", "cache/sub/file", "cache/sub/old"], "{way:?}");
    }
}

#[test]
fn a_link_stays_where_the_file_that_is_to_take_its_place_cannot_be_read() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    for name in ["source", "copy"] {
        fs::create_dir(at(name)).expect("a directory");
    }
    fs::write(at("source/name"), "text").expect("a file");
    fs::set_permissions(at("source/name"), Permissions::from_mode(0o000)).expect("a mode");
    symlink("elsewhere", at("copy/name")).expect("a link");
    for name in ["", "copy"] {
        fs::set_permissions(at(name), Permissions::from_mode(0o777)).expect("a mode");
    }
    // The built program may lie where nobody may go.
    must("cp", dir.path(), &[HAUL, "haul"]);
    let mut command = Command::new(dir.path().join("haul"));
    command.args(["-rT", "--delete", "source", "copy"]).current_dir(dir.path()).env("LC_ALL", "C");
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    let output = command.output().expect("it can be run");
    assert!(said(&output).contains("cannot open 'source/name' for reading"), "{}", said(&output));
    assert_eq!(fs::read_link(at("copy/name")).expect("the link is there"), Path::new("elsewhere"));
}
