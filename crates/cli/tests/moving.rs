//! `--move`: what is renamed, what is copied and removed, and what stays where it is.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant, SystemTime};

use haul_agree::snapshot::{self, Item, Snapshot, Stamp};
use haul_testbed::guest::has;
use haul_testbed::{Bed, Command, Fs, TempDir, skip, temp_dir, temp_dir_in, temp_dirs_apart};
use rustix::fs::{XattrFlags, setxattr};
use rustix::process::{Pid, Signal, geteuid, kill_process};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

/// No copy here takes so long, unless it hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// `tree` on the ordinary disk, and a directory on another filesystem.
struct Scene {
    dir: TempDir,
    other: TempDir,
}

impl Scene {
    /// `None`, after a skip, where there is no other filesystem that keeps everything.
    fn new() -> Option<Scene> {
        let (dir, other) = temp_dirs_apart()?;
        lay(&dir.path().join("tree"));
        Some(Scene { dir, other })
    }

    fn tree(&self, name: &str) -> PathBuf {
        self.dir.path().join("tree").join(name)
    }

    fn copy(&self, name: &str) -> PathBuf {
        self.other.path().join("copy").join(name)
    }

    /// Moves the tree to the other filesystem.
    fn haul(&self, options: &[&str]) -> Output {
        let mut command = Command::new(HAUL);
        command.arg("--move").args(options).args(["-T", "tree"]).arg(self.other.path().join("copy"));
        command.current_dir(self.dir.path()).env("LC_ALL", "C").output().expect("haul can be run")
    }
}

/// Runs haul in a directory.
fn haul(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(HAUL).args(arguments).current_dir(dir).env("LC_ALL", "C").output().expect("haul can be run")
}

#[track_caller]
fn succeeded(output: &Output) {
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

/// What a run that failed has said.
#[track_caller]
fn failed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// One of everything, all of it old.
fn lay(tree: &Path) {
    fs::create_dir_all(tree.join("inner/empty")).expect("a directory");
    for (name, size) in [("nothing", 0), ("small", 700), ("large", 3 << 20), ("inner/file", 70_000)] {
        fs::write(tree.join(name), vec![size as u8 | 1; size]).expect("a file");
        fs::set_permissions(tree.join(name), PermissionsExt::from_mode(0o640)).expect("a mode");
    }
    setxattr(tree.join("small"), "user.note", b"kept", XattrFlags::empty()).expect("an attribute");
    fs::hard_link(tree.join("small"), tree.join("inner/second")).expect("a link");
    symlink("small", tree.join("link")).expect("a link");
    symlink("nowhere", tree.join("inner/dangling")).expect("a link");
    assert!(Command::new("mkfifo").arg(tree.join("fifo")).status().expect("it can be run").success());
    let old = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    for name in ["nothing", "small", "large", "inner/file", "inner/empty", "inner", ""] {
        File::open(tree.join(name)).and_then(|file| file.set_modified(old)).expect("a time");
    }
}

/// All that can be seen, but for what no copy keeps.
fn look(root: &Path) -> Snapshot {
    let all = snapshot::take(root, SystemTime::now() + Duration::from_secs(1 << 30)).expect("it can be read");
    let plain = |item: Item| {
        // Symbolic links have no time that a test could have set.
        let mtime = if item.kind == 'l' { Stamp::Now } else { item.mtime };
        Item { atime: Stamp::Now, blocks: 0, mtime, ..item }
    };
    all.into_iter().map(|(path, item)| (path, plain(item))).collect()
}

fn inode_numbers(root: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::from([(PathBuf::new(), fs::symlink_metadata(root).expect("it is there").ino())]);
    let mut waiting = vec![root.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            let metadata = fs::symlink_metadata(&path).expect("it is there");
            found.insert(path.strip_prefix(root).expect("it is below").to_owned(), metadata.ino());
            if metadata.is_dir() {
                waiting.push(path);
            }
        }
    }
    found
}

#[test]
fn on_one_filesystem_a_tree_is_renamed() {
    let dir = temp_dir();
    lay(&dir.path().join("tree"));
    let (numbers, before) = (inode_numbers(&dir.path().join("tree")), look(&dir.path().join("tree")));
    let output = haul(dir.path(), &["--move", "-v", "tree", "new"]);
    succeeded(&output);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "renamed 'tree' -> 'new'\n");
    assert_eq!((inode_numbers(&dir.path().join("new")), look(&dir.path().join("new"))), (numbers, before));
    assert!(!dir.path().join("tree").exists());
}

#[test]
fn several_sources_go_into_a_directory() {
    let dir = temp_dir();
    lay(&dir.path().join("tree"));
    fs::write(dir.path().join("file"), "text").expect("a file");
    fs::create_dir(dir.path().join("into")).expect("a directory");
    let output = haul(dir.path(), &["--move", "--stats=json", "tree", "file", "into"]);
    assert!(output.status.success(), "{output:?}");
    let record: serde_json::Value = serde_json::from_slice(&output.stderr).expect("a record");
    assert_eq!((&record["files"]["renamed"], &record["files"]["regular"]), (&2.into(), &0.into()));
    assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 1);
    assert!(dir.path().join("into/tree/inner/file").exists() && dir.path().join("into/file").exists());
}

#[test]
fn trees_are_merged_by_renaming_what_is_in_them() {
    let dir = temp_dir();
    lay(&dir.path().join("tree"));
    fs::create_dir_all(dir.path().join("new/inner")).expect("a directory");
    fs::write(dir.path().join("new/small"), "old").expect("a file");
    fs::write(dir.path().join("new/inner/old"), "old").expect("a file");
    let (numbers, before) = (inode_numbers(&dir.path().join("tree")), look(&dir.path().join("tree")));
    succeeded(&haul(dir.path(), &["--move", "--jobs=4", "-T", "tree", "new"]));
    assert!(!dir.path().join("tree").exists());
    let (now, mut after) = (inode_numbers(&dir.path().join("new")), look(&dir.path().join("new")));
    assert_eq!(fs::read(dir.path().join("new/inner/old")).expect("a file"), b"old");
    after.remove(&b"inner/old"[..]);
    assert_eq!(after, before);
    for (path, number) in numbers.iter().filter(|(path, _)| !["", "inner"].contains(&path.to_str().unwrap_or(""))) {
        assert_eq!(now.get(path), Some(number), "{path:?}");
    }
}

#[test]
fn between_filesystems_everything_arrives_and_nothing_stays() {
    for options in [&[][..], &["--jobs=4"], &["--durable=file"], &["--verify"]] {
        let Some(scene) = Scene::new() else { return };
        let before = look(&scene.tree(""));
        succeeded(&scene.haul(options));
        assert_eq!(look(&scene.copy("")), before, "{options:?}");
        assert!(!scene.tree("").exists(), "{options:?}");
    }
}

#[test]
fn another_name_of_the_same_entry_is_refused_whatever_it_is() {
    let dir = temp_dir();
    fs::write(dir.path().join("file"), "text").expect("a file");
    symlink("file", dir.path().join("link")).expect("a link");
    for name in ["file", "link"] {
        let other = format!("{name}2");
        let link = rustix::fs::linkat(
            rustix::fs::CWD,
            dir.path().join(name),
            rustix::fs::CWD,
            dir.path().join(&other),
            rustix::fs::AtFlags::empty(),
        );
        link.expect("another name");
        let error = failed(&haul(dir.path(), &["--move", name, &other]));
        assert!(error.contains(&format!("'{name}' and '{other}' are the same file")), "{error}");
    }
    assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 4);
}

#[test]
fn a_source_whose_path_led_through_one_that_has_gone_is_reported() {
    let Some(scene) = Scene::new() else { return };
    fs::create_dir(scene.copy("")).expect("a directory");
    fs::write(scene.dir.path().join("beside"), "text").expect("a file");
    let into = scene.copy("");
    let arguments = ["--move", "tree", "tree/../beside", into.to_str().expect("plain words")];
    let error = failed(&haul(scene.dir.path(), &arguments));
    assert!(error.contains("cannot stat 'tree/../beside': No such file or directory"), "{error}");
    assert_eq!(fs::read(scene.dir.path().join("beside")).expect("it stays"), b"text");
    assert!(!scene.tree("").exists());
}

#[test]
fn what_is_copied_and_removed_is_said_and_counted() {
    let Some(scene) = Scene::new() else { return };
    let output = scene.haul(&["-v", "--stats=json"]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for name in ["small", "inner/second", "link", "fifo"] {
        assert!(said.lines().any(|line| line == format!("removed 'tree/{name}'")), "{name}: {said}");
    }
    assert!(said.ends_with("removed directory 'tree'\n"), "{said}");
    let record: serde_json::Value = serde_json::from_slice(&output.stderr).expect("a record");
    assert_eq!((&record["files"]["removed"], &record["files"]["renamed"]), (&11.into(), &0.into()));
}

#[test]
fn what_an_option_leaves_alone_stays_though_the_same_stands_there() {
    for option in ["-n", "--update=older", "--update=none"] {
        let Some(scene) = Scene::new() else { return };
        fs::create_dir(scene.copy("")).expect("a directory");
        fs::copy(scene.tree("large"), scene.copy("large")).expect("a copy");
        fs::write(scene.copy("small"), "not old").expect("a file");
        succeeded(&scene.haul(&[option]));
        let left: Vec<_> = look(&scene.tree("")).into_keys().collect();
        // The other name is one of a file that was left alone.
        assert_eq!(left, ["inner", "inner/second", "large", "small"].map(|name| name.as_bytes().to_vec()), "{option}");
    }
}

#[test]
fn what_is_the_same_already_counts_as_moved() {
    for option in ["--update=changed", "--update=content"] {
        let Some(scene) = Scene::new() else { return };
        let before = look(&scene.tree(""));
        succeeded(&haul(scene.dir.path(), &["-aT", "tree", scene.copy("").to_str().expect("a plain path")]));
        let numbers = inode_numbers(&scene.copy(""));
        succeeded(&scene.haul(&[option]));
        assert!(!scene.tree("").exists());
        let large = PathBuf::from("large");
        assert_eq!(inode_numbers(&scene.copy(""))[&large], numbers[&large], "{option} has copied it again");
        assert_eq!(look(&scene.copy("")), before);
    }
}

#[test]
fn what_another_source_was_moved_to_does_not_count_as_moved() {
    for option in ["--update=changed", "--update=content"] {
        let Some(scene) = Scene::new() else { return };
        for (name, mode) in [("one", 0o600), ("other", 0o644)] {
            let path = scene.dir.path().join(name).join("file");
            fs::create_dir(path.parent().expect("a directory")).expect("a directory");
            fs::write(&path, "the same").expect("a file");
            fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("a mode");
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
            File::open(&path).and_then(|file| file.set_modified(time)).expect("a time");
        }
        let to = scene.other.path().to_str().expect("a plain path");
        let said = failed(&haul(scene.dir.path(), &["--move", option, "one/file", "other/file", to]));
        assert!(said.contains("will not overwrite just-created") && said.contains("other/file"), "{said}");
        assert_eq!(fs::metadata(scene.other.path().join("file")).expect("a file").mode() & 0o777, 0o600);
        assert!(!scene.dir.path().join("one/file").exists());
        assert_eq!(fs::metadata(scene.dir.path().join("other/file")).expect("a file").mode() & 0o777, 0o644);
    }
}

#[test]
fn what_cannot_be_copied_stays_with_its_directories_and_the_rest_goes() {
    let Some(scene) = Scene::new() else { return };
    let before = look(&scene.tree(""));
    fs::create_dir_all(scene.copy("inner/file")).expect("a directory in the way");
    let said = failed(&scene.haul(&[]));
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("cannot overwrite directory") && said.contains("inner/file"), "{said}");
    let left = look(&scene.tree(""));
    assert_eq!(left.keys().collect::<Vec<_>>(), [&b"inner"[..], b"inner/file"]);
    assert_eq!(left[&b"inner/file"[..]], before[&b"inner/file"[..]]);
}

#[test]
fn what_a_filter_excludes_stays_with_its_directories() {
    for (options, left) in [
        (&["--exclude=/inner/file"][..], &["inner", "inner/file"][..]),
        (&["--max-size=1M"], &["large"]),
        (
            &["--include=*/", "--include=file", "--exclude=*"],
            &["fifo", "inner", "inner/dangling", "inner/second", "large", "link", "nothing", "small"],
        ),
    ] {
        let Some(scene) = Scene::new() else { return };
        succeeded(&scene.haul(options));
        let found: Vec<String> =
            look(&scene.tree("")).keys().map(|path| String::from_utf8_lossy(path).into_owned()).collect();
        assert_eq!(found, left, "{options:?}");
        // On one filesystem the same stays where what is wanted is renamed.
        let dir = temp_dir();
        lay(&dir.path().join("tree"));
        succeeded(&haul(dir.path(), &[&["--move", "-T"], options, &["tree", "new"]].concat()));
        assert_eq!(look(&dir.path().join("tree")).len(), left.len(), "{options:?}");
    }
}

#[test]
fn a_source_that_changes_between_its_copy_and_its_removal_stays() {
    let Some(scene) = Scene::new() else { return };
    let traces = has("strace") && {
        let tried = Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    if !traces {
        return skip("strace cannot be used here");
    }
    let log = scene.dir.path().join("log");
    let mut command = Command::new("strace");
    // It stops itself when everything is copied and about to be synced.
    command.args(["-f", "-qq", "-e", "trace=syncfs", "-e", "inject=syncfs:signal=SIGSTOP:when=1", "-o"]).arg(&log);
    command.arg(HAUL).args(["--move", "-T", "tree"]).arg(scene.copy("")).current_dir(scene.dir.path());
    let child = command.env("LC_ALL", "C").stderr(std::process::Stdio::piped()).spawn().expect("strace can be run");
    let (text, start) = (|| fs::read_to_string(&log).unwrap_or_default(), Instant::now());
    while !text().contains("stopped by SIGSTOP") {
        assert!(start.elapsed() < LIMIT, "it does not stop: {}", text());
        std::thread::yield_now();
    }
    fs::write(scene.tree("small"), "changed").expect("a file");
    fs::write(scene.tree("inner/new"), "new").expect("a file");
    let stopped = text().lines().find(|line| line.contains("stopped by SIGSTOP")).map(str::to_owned);
    let thread: i32 =
        stopped.and_then(|line| line.split(' ').next()?.parse().ok()).expect("the log begins lines with a number");
    kill_process(Pid::from_raw(thread).expect("a process"), Signal::CONT).expect("it is ours");
    let output = child.wait_with_output().expect("it ends");
    let said = failed(&output);
    assert!(said.contains("not removing 'tree/small': it is not the same as"), "{said}");
    assert!(said.contains("not removing 'tree/inner/new': there is no"), "{said}");
    assert_eq!(fs::read(scene.tree("small")).expect("a file"), b"changed");
    let left: Vec<_> = look(&scene.tree("")).into_keys().collect();
    let expected = ["inner", "inner/new", "inner/second", "small"].map(|name| name.as_bytes().to_vec());
    assert_eq!(left, expected, "the other name is one of the same file");
    assert_ne!(fs::read(scene.copy("small")).expect("a copy"), b"changed");
}

#[test]
fn nothing_is_removed_behind_a_mount_point() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = bed.mount(Fs::Ext4) else { return };
    lay(&place.join("tree"));
    let mounted = place.join("tree/inner/empty");
    let mount = |arguments: &[&str]| {
        assert!(Command::new("mount").args(arguments).arg(&mounted).status().expect("mount can be run").success());
    };
    mount(&["-t", "tmpfs", "none"]);
    fs::write(mounted.join("behind"), "text").expect("a file");
    let target = bed.path().join("copy");
    let target = target.to_str().expect("a plain path");
    let said = failed(&haul(&place, &["--move", "-T", "tree", target]));
    assert!(said.contains("not removing 'tree/inner/empty': another filesystem"), "{said}");
    assert_eq!(fs::read(mounted.join("behind")).expect("it is there"), b"text");
    assert!(bed.path().join("copy/inner/empty/behind").exists(), "it was copied");
    let left: Vec<_> = look(&place.join("tree")).into_keys().collect();
    let expected = ["inner", "inner/empty", "inner/empty/behind"].map(|name| name.as_bytes().to_vec());
    assert_eq!(left, expected);
    // With -x it is not wanted, and stays in silence.
    succeeded(&haul(&place, &["--move", "-xT", "tree", target]));
    assert!(mounted.join("behind").exists());
}

#[test]
fn what_is_mounted_from_the_same_filesystem_is_copied_and_stays() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = bed.mount(Fs::Ext4) else { return };
    lay(&place.join("tree"));
    fs::create_dir(place.join("other")).expect("a directory");
    fs::write(place.join("other/behind"), "text").expect("a file");
    fs::create_dir_all(place.join("new/inner")).expect("a directory");
    let at = place.join("tree/inner/empty");
    let mounted = Command::new("mount").arg("--bind").arg(place.join("other")).arg(&at).status();
    assert!(mounted.expect("mount can be run").success());
    let said = failed(&haul(&place, &["--move", "-T", "tree", "new"]));
    assert!(said.contains("not removing 'tree/inner/empty': another filesystem"), "{said}");
    for copy in ["other/behind", "new/inner/empty/behind"] {
        assert_eq!(fs::read(place.join(copy)).expect("it is there"), b"text", "{copy}");
    }
    let left: Vec<_> = look(&place.join("tree")).into_keys().collect();
    let expected = ["inner", "inner/empty", "inner/empty/behind"].map(|name| name.as_bytes().to_vec());
    assert_eq!(left, expected);
}

/// Mounts something at this directory, which it makes.
fn mount(at: &Path, arguments: &[&str]) -> bool {
    fs::create_dir(at).expect("a directory");
    let mounted = Command::new("mount").args(arguments).arg(at).output().expect("mount can be run");
    if !mounted.status.success() {
        skip(format!("mount {arguments:?}: {}", String::from_utf8_lossy(&mounted.stderr)));
    }
    mounted.status.success()
}

#[test]
fn a_tree_that_has_two_identities_is_not_lost() {
    for layer in ["lower", "upper"] {
        let Some(bed) = Bed::new() else { return };
        let Some(place) = bed.mount(Fs::Ext4) else { return };
        for name in ["lower", "upper", "work"] {
            fs::create_dir(place.join(name)).expect("a directory");
        }
        lay(&place.join(layer).join("tree"));
        let before = look(&place.join(layer).join("tree"));
        let at = |name: &str| place.join(name).to_str().expect("a plain path").to_owned();
        let layers = format!("lowerdir={},upperdir={},workdir={}", at("lower"), at("upper"), at("work"));
        if !mount(&place.join("merged"), &["-t", "overlay", "overlay", "-o", &layers]) {
            return;
        }
        for [from, to] in [["merged", layer], [layer, "merged"]] {
            let (from, to) = (format!("{from}/tree"), format!("{to}/tree"));
            let said = failed(&haul(&place, &["--move", "-T", &from, &to]));
            assert!(!said.is_empty(), "{from} to {to}: nothing is said of what stays");
            let missing = |top: &str| {
                let tree = place.join(top).join("tree");
                let found = if tree.exists() { look(&tree) } else { Snapshot::new() };
                let is_there = |path: &Vec<u8>, item: &Item| {
                    found.get(path).is_some_and(|found| (found.kind, &found.contents) == (item.kind, &item.contents))
                };
                before.iter().filter(|(path, item)| !is_there(path, item)).count()
            };
            assert!(missing("merged") == 0 || missing(layer) == 0, "{from} to {to}: something is on neither side");
        }
    }
}

#[test]
fn where_nothing_is_known_of_names_several_sources_are_copied() {
    let Some(bed) = Bed::new() else { return };
    let place = bed.path().join("plain");
    // As far as haul knows, upper and lower case may be alike there.
    if !mount(&place, &["-t", "ramfs", "ramfs"]) {
        return;
    }
    fs::create_dir(place.join("into")).expect("a directory");
    let counts = |arguments: &[&str]| {
        let output = haul(&place, &[&["--move", "--stats=json"], arguments].concat());
        let record: serde_json::Value = serde_json::from_slice(&output.stderr).expect("a record");
        assert!(output.status.success(), "{output:?}");
        ["renamed", "regular", "removed"].map(|field| record["files"][field].as_u64())
    };
    for name in ["a", "A"] {
        fs::write(place.join(name), name).expect("a file");
    }
    assert_eq!(counts(&["a", "A", "into"]), [Some(0), Some(2), Some(2)]);
    assert_eq!(counts(&["into/a", "alone"]), [Some(1), Some(0), Some(0)], "one source cannot meet another");
    let contents = ["alone", "into/A"].map(|name| fs::read(place.join(name)).expect("it is there"));
    assert_eq!(contents, [b"a", b"A"]);
    assert!(!place.join("a").exists() && !place.join("A").exists());
}

#[test]
fn what_the_copy_cannot_keep_stays() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = bed.mount(Fs::Ext4) else { return };
    lay(&place.join("tree"));
    let plain = bed.path().join("plain");
    if !mount(&plain, &["-t", "ramfs", "ramfs"]) {
        return;
    }
    let copy = plain.join("copy");
    let copy = copy.to_str().expect("a plain path");
    let said = failed(&haul(&place, &["--move", "-T", "tree", copy]));
    assert!(said.contains("copy/small'") && said.contains("not supported"), "{said}");
    let left: Vec<_> = look(&place.join("tree")).into_keys().collect();
    // The two names of the file with an extended attribute.
    assert_eq!(left, ["inner", "inner/second", "small"].map(|name| name.as_bytes().to_vec()));
    succeeded(&haul(&place, &["--move", "--no-preserve=xattr", "-T", "tree", copy]));
    assert!(!place.join("tree").exists() && Path::new(copy).join("small").exists());
}

#[test]
fn what_cannot_be_read_stays_with_its_directory() {
    let dir = temp_dir();
    let (tree, memory) = (dir.path().join("tree"), Path::new("/dev/shm"));
    let Ok(device) = fs::metadata(memory).map(|found| found.dev()) else { return skip("there is no /dev/shm") };
    if device == fs::metadata(dir.path()).expect("it is there").dev() {
        return skip("/dev/shm is no filesystem of its own");
    }
    let other = temp_dir_in(memory);
    fs::create_dir_all(tree.join("inner")).expect("a directory");
    for name in ["open", "inner/closed", "inner/open"] {
        fs::write(tree.join(name), name).expect("a file");
    }
    fs::set_permissions(tree.join("inner/closed"), PermissionsExt::from_mode(0o000)).expect("a mode");
    let mut command = Command::new(HAUL);
    if geteuid().is_root() {
        const NOBODY: u32 = 65534;
        let below = ["", "inner", "open", "inner/closed", "inner/open"].map(|name| tree.join(name));
        for path in below.iter().map(PathBuf::as_path).chain([dir.path(), other.path()]) {
            chown(path, Some(NOBODY), Some(NOBODY)).expect("an owner");
        }
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.args(["--move", "-T"]).arg(&tree).arg(other.path().join("copy")).env("LC_ALL", "C").output();
    let said = failed(&output.expect("haul can be run"));
    assert!(said.lines().count() == 1 && said.contains("inner/closed' for reading: Permission denied"), "{said}");
    let left: Vec<_> = fs::read_dir(&tree).expect("it is there").map(|entry| entry.expect("one").file_name()).collect();
    assert_eq!(left, ["inner"]);
    assert_eq!(fs::read_dir(tree.join("inner")).expect("it is there").count(), 1);
    assert_eq!(fs::read(other.path().join("copy/inner/open")).expect("a copy"), b"inner/open");
}

#[test]
fn no_link_is_followed_to_what_is_removed() {
    let Some(scene) = Scene::new() else { return };
    let outside = scene.dir.path().join("outside");
    lay(&outside);
    symlink("../outside", scene.tree("door")).expect("a link");
    let before = look(&outside);
    succeeded(&scene.haul(&[]));
    assert_eq!(look(&outside), before);
    assert_eq!(fs::read_link(scene.copy("door")).expect("a link"), Path::new("../outside"));
}

#[test]
fn what_moving_does_not_go_with_is_refused_before_anything_happens() {
    let dir = temp_dir();
    lay(&dir.path().join("tree"));
    let before = look(dir.path());
    for option in [
        "-l",
        "-s",
        "-L",
        "-H",
        "--attributes-only",
        "--copy-contents",
        "--parents",
        "-b",
        "--verify=device",
        "--resume",
        "--shard=1/2",
        "--list=list",
        "--list-out=list",
        "--checksum=md5",
        "--smart",
        "--keep-directory-symlink",
        "--engine=null",
        "--compare",
    ] {
        let output = haul(dir.path(), &["--move", option, "-T", "tree", "new"]);
        assert!(!output.status.success() && output.stdout.is_empty(), "{option}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("--move does not go with") || said.contains("--compare"), "{option}: {said}");
    }
    assert_eq!(look(dir.path()), before);
}

#[test]
fn a_source_that_cannot_be_there_lets_no_other_one_stay() {
    let Some(Scene { dir, other }) = Scene::new() else { return };
    fs::write(dir.path().join("file"), "text").expect("a file");
    let output = haul(dir.path(), &["--move", "file/below", "tree/small", other.path().to_str().expect("plain words")]);
    assert_eq!(failed(&output).lines().count(), 1, "{output:?}");
    assert!(other.path().join("small").exists() && !dir.path().join("tree/small").exists());
}

#[test]
fn a_cache_that_is_left_out_keeps_its_tag() {
    let Some(Scene { dir, other }) = Scene::new() else { return };
    let tag = "Signature: 8a477f597d28d172789f06886806bc55";
    for to in [dir.path().join("into"), other.path().join("into")] {
        fs::create_dir_all(dir.path().join("work/cache/deep")).expect("a directory");
        fs::write(dir.path().join("work/cache/CACHEDIR.TAG"), tag).expect("a tag");
        fs::write(dir.path().join("work/cache/deep/file"), "cached").expect("a file");
        fs::write(dir.path().join("work/file"), "text").expect("a file");
        fs::create_dir(&to).expect("a directory");
        let line = ["--move", "--exclude-caches", "work", to.to_str().expect("plain words")];
        succeeded(&haul(dir.path(), &line));
        let left = |name: &str| fs::read_to_string(dir.path().join("work").join(name)).ok();
        assert_eq!(left("cache/CACHEDIR.TAG").as_deref(), Some(tag), "{to:?}");
        assert_eq!((left("cache/deep/file").as_deref(), left("file")), (Some("cached"), None), "{to:?}");
        assert_eq!(fs::read_to_string(to.join("work/file")).expect("it was moved"), "text");
        assert_eq!(fs::read_to_string(to.join("work/cache/CACHEDIR.TAG")).expect("it was copied"), tag);
        assert!(!to.join("work/cache/deep").exists(), "{to:?}");
        fs::remove_dir_all(dir.path().join("work")).expect("it is there");
    }
}

#[test]
fn what_is_newer_keeps_its_contents_though_its_source_has_another_name() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    for name in ["source", "dest"] {
        fs::create_dir(at(name)).expect("a directory");
    }
    fs::write(at("source/a"), "old").expect("a file");
    fs::hard_link(at("source/a"), at("source/b")).expect("a link");
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::open(at("source/a")).and_then(|file| file.set_modified(old)).expect("a time");
    fs::write(at("dest/a"), "newer a").expect("a file");
    fs::write(at("dest/b"), "newer b").expect("a file");
    assert!(haul(dir.path(), &["--move", "-u", "-T", "source", "dest"]).status.success());
    let now = |name: &str| fs::read_to_string(at(name)).expect("it is there");
    assert_eq!(["dest/a", "dest/b", "source/a", "source/b"].map(now), ["newer a", "newer b", "old", "old"]);
}

#[test]
fn a_source_that_went_through_a_link_with_a_slash_goes() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    for name in ["source", "behind"] {
        fs::create_dir(at(name)).expect("a directory");
    }
    fs::write(at("source/file"), "text").expect("a file");
    symlink("behind", at("link")).expect("a link");
    succeeded(&haul(dir.path(), &["--move", "-T", "source", "link/"]));
    assert_eq!(fs::read_to_string(at("behind/file")).expect("it was moved"), "text");
    assert!(!at("source").exists() && fs::read_link(at("link")).is_ok());
}
