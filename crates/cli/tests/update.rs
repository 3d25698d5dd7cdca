//! `--update=changed` and `--update=content`: what differs is copied, what is the same is not written, and attributes follow.
//! `rsync -a` and `rsync -ac` say what is right.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use haul_testbed::guest::{Mounted, has};
use haul_testbed::{Bed, Command, Fs, TempDir, skip, temp_dir};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");
const KINDS: [&str; 2] = ["--update=changed", "--update=content"];

fn run(program: &str, dir: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    let output = command.args(arguments).current_dir(dir).env("LC_ALL", "C").output().expect("it can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && (said.is_empty() || program != HAUL), "{program} {arguments:?}: {said}");
    String::from_utf8(output.stdout).expect("plain words")
}

fn haul(dir: &Path, arguments: &[&str]) -> String {
    run(HAUL, dir, arguments)
}

fn set_time(path: &Path, seconds: u64, nanoseconds: u32) {
    let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds);
    File::open(path).and_then(|file| file.set_modified(time)).expect("its time can be set");
}

fn write(path: &Path, text: &str, seconds: u64) {
    fs::write(path, text).expect("it can be written");
    set_time(path, seconds, 123_456_789);
}

/// `tree`, with one of everything, and a whole copy of it, `copy`.
fn scene(dir: &Path) {
    let tree = dir.join("tree");
    fs::create_dir_all(tree.join("inner/empty")).expect("a directory");
    for name in ["same", "longer", "touched", "quiet", "mode", "inner/gone", "inner/one"] {
        write(&tree.join(name), &format!("of {name}"), 1_000_000_000);
    }
    fs::hard_link(tree.join("inner/one"), tree.join("two")).expect("a link");
    symlink("same", tree.join("link")).expect("a link");
    symlink("same", tree.join("retargeted")).expect("a link");
    run("mkfifo", dir, &["tree/fifo"]);
    haul(dir, &["-aT", "tree", "copy"]);
}

/// Changes the source of a copy in every way that counts.
fn change(dir: &Path) {
    let tree = dir.join("tree");
    write(&tree.join("longer"), "of longer, and more", 1_000_000_000);
    write(&tree.join("touched"), "of Touched", 1_000_000_001);
    // The size and the time are as they were.
    write(&tree.join("quiet"), "of Quiet", 1_000_000_000);
    fs::set_permissions(tree.join("mode"), Permissions::from_mode(0o640)).expect("a mode");
    fs::set_permissions(tree.join("inner"), Permissions::from_mode(0o750)).expect("a mode");
    fs::remove_file(tree.join("retargeted")).expect("it is there");
    symlink("longer", tree.join("retargeted")).expect("a link");
    write(&tree.join("new"), "of new", 1_000_000_000);
    fs::remove_file(dir.join("copy/inner/gone")).expect("it is there");
}

fn paths(top: &Path) -> Vec<PathBuf> {
    let mut found = vec![top.to_owned()];
    for entry in fs::read_dir(top).expect("a directory") {
        let entry = entry.expect("an entry");
        match entry.file_type().expect("a type").is_dir() {
            true => found.extend(paths(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

/// Of each entry all that an update may change, but for its times of access and of change.
fn state(top: &Path) -> BTreeMap<PathBuf, String> {
    let of = |path: &PathBuf| {
        let found = fs::symlink_metadata(path).expect("it is there");
        let contents = match found.file_type() {
            kind if kind.is_file() => fs::read_to_string(path).expect("it can be read"),
            kind if kind.is_symlink() => fs::read_link(path).expect("a link").display().to_string(),
            _ => String::new(),
        };
        let (owner, time) = ((found.uid(), found.gid()), (found.mtime(), found.mtime_nsec()));
        let links = if found.is_file() { found.nlink() } else { 0 };
        format!("{:o} {owner:?} {time:?} {links} {contents}", found.mode())
    };
    paths(top).iter().map(|path| (path.strip_prefix(top).expect("below").to_owned(), of(path))).collect()
}

/// When each inode was changed last: any write to it shows here.
fn changes(top: &Path) -> BTreeMap<PathBuf, (u64, i64, i64)> {
    let of = |path: &PathBuf| {
        let found = fs::symlink_metadata(path).expect("it is there");
        (found.ino(), found.ctime(), found.ctime_nsec())
    };
    paths(top).iter().map(|path| (path.clone(), of(path))).collect()
}

fn changed_scene() -> TempDir {
    let dir = temp_dir();
    scene(dir.path());
    change(dir.path());
    dir
}

/// A filesystem whose inodes have no room for parts of seconds.
fn with_whole_seconds(bed: &Bed) -> Option<Mounted> {
    if !has("mkfs.ext4") {
        skip("mkfs.ext4 is missing");
        return None;
    }
    let image = bed.path().join("image");
    File::create(&image).and_then(|file| file.set_len(16 << 20)).expect("an image");
    run("mkfs.ext4", bed.path(), &["-q", "-I", "128", "-O", "^metadata_csum", "image"]);
    Some(bed.mount_image("ext4", &image, &[]))
}

#[test]
fn what_differs_is_copied_as_rsync_copies_it() {
    if !has("rsync") {
        return skip("rsync is missing");
    }
    for (kind, options) in [(KINDS[0], "-aHAX"), (KINDS[1], "-aHAXc")] {
        let dir = changed_scene();
        run("cp", dir.path(), &["-aT", "copy", "theirs"]);
        haul(dir.path(), &["-aT", kind, "tree", "copy"]);
        // By itself it compares whole seconds.
        run("rsync", dir.path(), &[options, "--modify-window=-1", "tree/", "theirs/"]);
        assert_eq!(state(&dir.path().join("copy")), state(&dir.path().join("theirs")), "{kind}");
    }
}

#[test]
fn contents_of_the_same_size_and_time_are_found_by_content_only() {
    for (kind, found) in [(KINDS[0], "of quiet"), (KINDS[1], "of Quiet")] {
        let dir = changed_scene();
        haul(dir.path(), &["-aT", kind, "tree", "copy"]);
        assert_eq!(fs::read_to_string(dir.path().join("copy/quiet")).expect("it is there"), found, "{kind}");
    }
}

#[test]
fn a_second_run_writes_nothing() {
    for kind in KINDS {
        for options in
            [&[][..], &["--atomic"], &["--durable=file"], &["--verify=read"], &["--jobs=4"], &["--preserve=all"]]
        {
            let dir = changed_scene();
            let arguments = [&["-aT", kind], options, &["tree", "copy"]].concat();
            haul(dir.path(), &arguments);
            let (copy, before) = (dir.path().join("copy"), changes(&dir.path().join("copy")));
            haul(dir.path(), &arguments);
            assert_eq!(changes(&copy), before, "{arguments:?}");
        }
    }
}

#[test]
fn why_something_is_copied_again_is_said() {
    let reasons = |kind: &str| {
        let dir = changed_scene();
        let said = haul(dir.path(), &["-aT", "-v", kind, "tree", "copy"]);
        let of = |name: &str| {
            let line = said.lines().find(|line| line.starts_with(&format!("'tree/{name}' -> 'copy/{name}'")));
            line.map(|line| line.rsplit_once("': ").map_or("", |(_, why)| why).to_owned())
        };
        ["longer", "touched", "quiet", "retargeted", "new", "same"].map(of)
    };
    let why = |reasons: [&str; 6]| reasons.map(|reason| (reason != "-").then(|| reason.to_owned()));
    assert_eq!(reasons("--update=changed"), why(["size differs", "time differs", "-", "contents differ", "", "-"]));
    assert_eq!(
        reasons("--update=content"),
        why(["size differs", "contents differ", "contents differ", "contents differ", "", "-"])
    );
    // As cp has it.
    assert_eq!(reasons("--update=older"), why(["-", "", "-", "", "", "-"]));
}

#[test]
fn only_what_differs_is_written() {
    for kind in KINDS {
        let dir = changed_scene();
        let copy = dir.path().join("copy");
        let before = changes(&copy);
        haul(dir.path(), &["-aT", kind, "tree", "copy"]);
        let after = changes(&copy);
        for name in ["same", "link", "fifo", "inner/one", "two", "inner/empty"] {
            assert_eq!(after[&copy.join(name)], before[&copy.join(name)], "{kind}: {name}");
        }
        assert_eq!(after[&copy.join("mode")].0, before[&copy.join("mode")].0, "{kind}: it stays the same file");
    }
}

#[test]
fn a_time_that_was_changed_in_the_copy_is_set_right_without_its_contents() {
    let dir = temp_dir();
    scene(dir.path());
    let file = dir.path().join("copy/same");
    set_time(&file, 5, 0);
    let inode = fs::metadata(&file).expect("it is there").ino();
    let said = haul(dir.path(), &["-aT", "--debug", "--update=content", "tree", "copy"]);
    assert!(said.lines().any(|line| line == "skipped 'copy/same' (same)"), "{said}");
    let found = fs::metadata(&file).expect("it is there");
    assert_eq!((found.ino(), found.mtime(), found.mtime_nsec()), (inode, 1_000_000_000, 123_456_789));
}

#[test]
fn attributes_that_are_not_to_be_kept_stay() {
    let dir = temp_dir();
    scene(dir.path());
    let mode = |name: &str| fs::metadata(dir.path().join(name)).expect("it is there").mode() & 0o777;
    fs::set_permissions(dir.path().join("copy/same"), Permissions::from_mode(0o600)).expect("a mode");
    haul(dir.path(), &["-rT", "--update=content", "tree", "copy"]);
    assert_eq!(mode("copy/same"), 0o600);
    haul(dir.path(), &["-rpT", "--update=content", "tree", "copy"]);
    assert_eq!(mode("copy/same"), mode("tree/same"));
}

#[test]
fn extended_attributes_and_acls_that_differ_are_set_right() {
    if !["setfattr", "getfattr", "setfacl", "getfacl"].iter().all(|program| has(program)) {
        return skip("the programs for extended attributes or ACLs are missing");
    }
    for kind in KINDS {
        let dir = temp_dir();
        scene(dir.path());
        run("setfattr", dir.path(), &["-n", "user.new", "-v", "1", "tree/same"]);
        run("setfattr", dir.path(), &["-n", "user.own", "-v", "2", "copy/same"]);
        run("setfacl", dir.path(), &["-m", "u:12345:r", "tree/mode"]);
        run("setfacl", dir.path(), &["-m", "u:12345:r", "copy/quiet"]);
        run("setfacl", dir.path(), &["-d", "-m", "u:12345:r", "tree/inner"]);
        haul(dir.path(), &["-aT", kind, "tree", "copy"]);
        let of = |top: &str| run("getfacl", &dir.path().join(top), &["-nR", "."]);
        assert_eq!(of("copy"), of("tree"), "{kind}");
        let attributes = run("getfattr", dir.path(), &["-d", "copy/same"]);
        // As cp leaves what only the copy has.
        assert!(attributes.contains("user.new=\"1\"") && attributes.contains("user.own=\"2\""), "{attributes}");
        let before = changes(&dir.path().join("copy"));
        haul(dir.path(), &["-aT", kind, "tree", "copy"]);
        assert_eq!(changes(&dir.path().join("copy")), before, "{kind}");
    }
}

#[test]
fn a_mirror_loses_the_attributes_that_its_source_has_lost() {
    if !["setfattr", "getfattr"].iter().all(|program| has(program)) {
        return skip("the programs for extended attributes are missing");
    }
    for options in [&["--mirror"][..], &["--mirror", "--atomic"], &["-aT", "--delete"]] {
        let dir = temp_dir();
        scene(dir.path());
        let set = |name: &str, value: &str, file: &str| run("setfattr", dir.path(), &["-n", name, "-v", value, file]);
        set("user.kept", "1", "tree/same");
        for file in ["copy/same", "copy/longer", "copy/inner", "copy/inner/empty"] {
            set("user.kept", "2", file);
            set("user.lost", "3", file);
        }
        let root = rustix::process::getuid().is_root();
        if root {
            // cap_setuid, permitted and effective (linux/capability.h, VFS_CAP_REVISION_2).
            set("security.capability", "0x0100000280000000000000000000000000000000", "copy/same");
            set("trusted.other", "4", "copy/same");
        }
        write(&dir.path().join("tree/longer"), "of longer, and more", 1_000_000_000);
        let words: Vec<&str> = options.iter().copied().chain(["tree", "copy"]).collect();
        haul(dir.path(), &words);
        let of = |file: &str| {
            let listed = run("getfattr", dir.path(), &["-d", "-m", "user|security.capability|trusted", file]);
            listed.lines().skip(1).filter(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        let kept: &[&str] = if root { &["trusted.other=\"4\"", "user.kept=\"1\""] } else { &["user.kept=\"1\""] };
        assert_eq!(of("copy/same"), kept, "{options:?}");
        for file in ["copy/longer", "copy/inner", "copy/inner/empty"] {
            assert!(of(file).is_empty(), "{options:?}: {file}: {:?}", of(file));
        }
        let before = changes(&dir.path().join("copy"));
        if options.contains(&"--mirror") {
            haul(dir.path(), &words);
            assert_eq!(changes(&dir.path().join("copy")), before, "{options:?}");
        }
    }
}

#[test]
fn inode_flags_that_differ_are_set_right() {
    if !["chattr", "lsattr"].iter().all(|program| has(program)) {
        return skip("chattr or lsattr is missing");
    }
    let Some(bed) = Bed::new() else { return };
    let Some(root) = bed.mount(Fs::Ext4) else { return };
    for kind in KINDS {
        let dir = root.join(kind);
        fs::create_dir(&dir).expect("a directory");
        scene(&dir);
        // `inner/one` has another name.
        for [flag, name] in [
            ["+dc", "tree/same"],
            ["+d", "copy/quiet"],
            ["+i", "tree/mode"],
            ["+ai", "tree/inner/one"],
            ["+T", "tree/inner"],
            ["+T", "copy"],
        ] {
            run("chattr", &dir, &[flag, name]);
        }
        haul(&dir, &["-aT", "--preserve=flags", kind, "tree", "copy"]);
        let of = |top: &str| {
            let listed =
                run("lsattr", &dir.join(top), &["-d", ".", "same", "quiet", "mode", "inner", "inner/one", "two"]);
            listed.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(of("copy"), of("tree"), "{kind}");
    }
}

#[test]
fn an_immutable_file_gets_all_names_that_links_to_it_have() {
    if !["chattr", "lsattr"].iter().all(|program| has(program)) || !rustix::process::getuid().is_root() {
        return skip("chattr is missing, or not root");
    }
    let Some(bed) = Bed::new() else { return };
    let Some(disk) = bed.mount(Fs::Ext4) else { return };
    let at = |name: &str| disk.join(name);
    fs::create_dir(at("tree")).expect("a directory");
    fs::write(at("file"), "contents").expect("it can be written");
    for name in ["tree/a", "tree/b"] {
        symlink("../file", at(name)).expect("a link");
    }
    run("chattr", &disk, &["+i", "file"]);
    haul(&disk, &["-aTL", "--preserve=flags", "tree", "copy"]);
    let listed = run("lsattr", &disk, &["copy/a"]);
    let inodes = ["copy/a", "copy/b"].map(|name| fs::metadata(at(name)).expect("it is there").ino());
    run("chattr", &disk, &["-i", "file", "copy/a"]);
    assert!(listed.split_whitespace().next().is_some_and(|flags| flags.contains('i')), "{listed}");
    assert_eq!(inodes[0], inodes[1]);
}

#[test]
fn names_of_one_file_become_names_of_one_file() {
    for kind in KINDS {
        let dir = temp_dir();
        scene(dir.path());
        let name = |name: &str| dir.path().join("copy").join(name);
        fs::remove_file(name("two")).expect("it is there");
        fs::copy(name("inner/one"), name("two")).expect("a copy");
        set_time(&name("two"), 1_000_000_000, 123_456_789);
        haul(dir.path(), &["-aT", kind, "tree", "copy"]);
        let inode = |path: PathBuf| fs::metadata(path).expect("it is there").ino();
        assert_eq!(inode(name("two")), inode(name("inner/one")), "{kind}");
    }
}

#[test]
fn sources_that_are_no_longer_one_file_get_files_of_their_own() {
    for options in
        [&["--mirror"][..], &["-aT", "--update=content"], &["--mirror", "--jobs=1"], &["--mirror", "--atomic"]]
    {
        let dir = temp_dir();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("tree")).expect("a directory");
        write(&at("tree/a"), "one file", 1_000_000_000);
        for name in ["tree/b", "tree/c"] {
            fs::hard_link(at("tree/a"), at(name)).expect("a link");
        }
        haul(dir.path(), &["-aT", "tree", "copy"]);
        fs::remove_file(at("tree/b")).expect("it was there");
        write(&at("tree/b"), "one file", 1_000_000_000);
        fs::set_permissions(at("tree/b"), Permissions::from_mode(0o600)).expect("a mode");

        let words: Vec<&str> = options.iter().copied().chain(["tree", "copy"]).collect();
        haul(dir.path(), &words);
        assert_eq!(state(&at("tree")), state(&at("copy")), "{options:?}");
        let [a, b, c] = ["copy/a", "copy/b", "copy/c"].map(|name| fs::metadata(at(name)).expect("it is there").ino());
        assert!(a == c && a != b, "{options:?}: {a} {b} {c}");
        let before = changes(&at("copy"));
        haul(dir.path(), &words);
        assert_eq!(changes(&at("copy")), before, "{options:?}: a second run");
    }
}

#[test]
fn what_is_the_same_keeps_its_names_outside_of_the_copy() {
    let dir = temp_dir();
    scene(dir.path());
    run("cp", dir.path(), &["-al", "copy", "yesterday"]);
    change(dir.path());
    haul(dir.path(), &["--mirror", "tree", "copy"]);
    let inode = |name: &str| fs::metadata(dir.path().join(name)).expect("it is there").ino();
    assert_eq!(inode("copy/same"), inode("yesterday/same"));
    for name in ["longer", "touched"] {
        let old = fs::read_to_string(dir.path().join("yesterday").join(name)).expect("it is there");
        assert_eq!(old, format!("of {name}"));
        assert_ne!(inode(&format!("copy/{name}")), inode(&format!("yesterday/{name}")));
    }
}

#[test]
fn no_copy_is_written_into_that_of_another_source() {
    for (options, changed) in
        [("--update=changed", "b"), ("--update=changed", "a"), ("--update=content", "b"), ("--delete", "b")]
    {
        let dir = temp_dir();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("tree")).and_then(|()| fs::create_dir(at("copy"))).expect("directories");
        for name in ["tree/a", "tree/b", "copy/a"] {
            write(&at(name), "text", 1_000_000_000);
        }
        fs::hard_link(at("copy/a"), at("copy/b")).expect("a link");
        write(&at("tree").join(changed), "news", 1_000_000_001);
        haul(dir.path(), &["-rT", "--preserve=timestamps", options, "tree", "copy"]);
        let text = |name: &str| fs::read_to_string(at(name)).expect("it is there");
        assert_eq!(["copy/a", "copy/b"].map(text), ["tree/a", "tree/b"].map(text), "{options} {changed}");
    }
}

#[test]
fn what_is_copied_is_read_again_backed_up_and_replaced_as_elsewhere() {
    for kind in KINDS {
        let dir = changed_scene();
        let inode = |name: &str| fs::metadata(dir.path().join(name)).expect("it is there").ino();
        let before = [inode("copy/same"), inode("copy/longer")];
        let options = ["-aT", kind, "--atomic", "--durable=file", "--verify=device", "--backup=numbered"];
        haul(dir.path(), &[&options[..], &["tree", "copy"]].concat());
        assert_eq!(inode("copy/same"), before[0], "{kind}");
        assert_eq!(inode("copy/longer.~1~"), before[1], "{kind}: replaced as a whole");
        assert!(!dir.path().join("copy/same.~1~").exists(), "{kind}: what stays needs no backup");
        assert_eq!(fs::read_to_string(dir.path().join("copy/longer")).expect("it is there"), "of longer, and more");
    }
}

#[test]
fn what_makes_way_may_be_a_name_of_the_source() {
    for options in [
        &["--update=content", "-b"][..],
        &["--update=content", "--remove-destination"],
        &["--update=content", "-b", "--atomic"],
        &["--delete"],
    ] {
        let dir = temp_dir();
        let at = |path: &str| dir.path().join(path);
        fs::create_dir(at("source")).and_then(|()| fs::create_dir(at("copy"))).expect("a directory");
        write(&at("source/file"), "text", 1_000_000_000);
        let mut name = at("copy/file");
        if options == ["--delete"] {
            fs::create_dir(&name).expect("a directory");
            name = name.join("inner");
        }
        fs::hard_link(at("source/file"), name).expect("a link");
        // It changes the time of change of the source.
        haul(dir.path(), &[&["-aT", "--if-changed=fail"], options, &["source", "copy"]].concat());
        assert_eq!(fs::read_to_string(at("copy/file")).expect("it was copied"), "text", "{options:?}");
    }
}

#[test]
fn shards_and_a_resumed_run_update_as_one_run_does() {
    for kind in KINDS {
        let dir = changed_scene();
        let at = |name: &str| dir.path().join(name);
        for name in ["sharded", "resumed"] {
            run("cp", dir.path(), &["-aT", "copy", name]);
        }
        haul(dir.path(), &["-aT", kind, "tree", "copy"]);
        for shard in ["--shard=1/2", "--shard=2/2"] {
            haul(dir.path(), &["-aT", kind, shard, "tree", "sharded"]);
        }
        for _ in 0..2 {
            haul(dir.path(), &["-aT", kind, "--resume", "tree", "resumed"]);
        }
        for name in ["sharded", "resumed"] {
            assert_eq!(state(&at(name)), state(&at("copy")), "{kind}: {name}");
        }
    }
}

#[test]
fn a_file_is_not_copied_for_a_time_that_its_filesystem_cannot_keep() {
    let Some(bed) = Bed::new() else { return };
    let Some(mounted) = with_whole_seconds(&bed) else { return };
    let dir = temp_dir();
    let tree = dir.path().join("tree");
    fs::create_dir(&tree).expect("a directory");
    for (name, seconds) in [("odd", 1_000_000_001), ("even", 1_000_000_000)] {
        write(&tree.join(name), "text", seconds);
    }
    let copy = mounted.path().join("copy");
    let update = |kind| {
        haul(dir.path(), &["-rT", "--preserve=timestamps", kind, "--debug", "tree", copy.to_str().expect("a name")])
    };
    update("--update=all");
    let said = update("--update=changed");
    assert_eq!(said.lines().filter(|line| line.starts_with("skipped")).count(), 2, "{said}");
    set_time(&tree.join("odd"), 1_000_000_003, 0);
    let said = update("--update=changed");
    assert_eq!(said.lines().filter(|line| line.starts_with("skipped")).count(), 1, "{said}");
}

#[test]
fn an_ordinary_update_knows_what_its_filesystem_cannot_keep_as_cp_does() {
    let Some(bed) = Bed::new() else { return };
    let Some(mounted) = with_whole_seconds(&bed) else { return };
    let dir = temp_dir();
    scene(dir.path());
    for program in [HAUL, "cp"] {
        let copy = mounted.path().join(Path::new(program).file_name().expect("a name"));
        let update = || run(program, dir.path(), &["-auT", "tree", copy.to_str().expect("a name")]);
        update();
        // What tells whether it is copied again.
        write(&copy.join("same"), "of this copy", 1_000_000_000);
        update();
        assert_eq!(fs::read_to_string(copy.join("same")).expect("it is there"), "of this copy", "{program}");
    }
}

#[test]
fn what_is_read_only_for_its_owner_follows_with_its_attributes() {
    if fs::metadata("/proc/self").expect("proc").uid() != 0 {
        return skip("only root can act as somebody else");
    }
    if !["setfattr", "getfattr"].iter().all(|program| has(program)) {
        return skip("the programs for extended attributes are missing");
    }
    for kind in ["--update=changed", "--update=content", "--delete"] {
        let dir = temp_dir();
        scene(dir.path());
        let set = |value: &str, file: &str| run("setfattr", dir.path(), &["-n", "user.a", "-v", value, file]);
        for (name, mode) in [("same", 0o444), ("quiet", 0o400), ("inner/empty", 0o555), ("mode", 0o644)] {
            set("new", &format!("tree/{name}"));
            set("old", &format!("copy/{name}"));
            fs::set_permissions(dir.path().join("copy").join(name), Permissions::from_mode(mode)).expect("a mode");
            let of_source = if name == "mode" { 0o444 } else { mode };
            fs::set_permissions(dir.path().join("tree").join(name), Permissions::from_mode(of_source)).expect("a mode");
        }
        set("surplus", "copy/longer");
        fs::set_permissions(dir.path().join("copy/longer"), Permissions::from_mode(0o444)).expect("a mode");
        run("chown", dir.path(), &["-R", "12345:12345", "."]);
        let mut command = Command::new(HAUL);
        let update: &[&str] = if kind == "--delete" { &["--mirror"] } else { &["-aT", kind] };
        command.args(update).args(["tree", "copy"]).current_dir(dir.path()).uid(12345).gid(12345);
        let output = command.output().expect("it can be run");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        for name in ["same", "quiet", "inner/empty", "mode", "longer"] {
            let [of_source, of_copy] = ["tree", "copy"].map(|side| {
                let path = dir.path().join(side).join(name);
                let mode = fs::metadata(&path).expect("it is there").mode();
                let mut value = [0; 8];
                let length = rustix::fs::getxattr(&path, "user.a", &mut value[..]).unwrap_or(0);
                (mode, value[..length].to_vec())
            });
            if name == "longer" && kind != "--delete" {
                assert_eq!(of_copy, (of_source.0, b"surplus".to_vec()), "{kind}");
            } else {
                assert_eq!(of_copy, of_source, "{kind} {name}");
            }
        }
    }
}

#[test]
fn a_user_who_cannot_keep_the_owner_writes_nothing_for_it() {
    if fs::metadata("/proc/self").expect("proc").uid() != 0 {
        return skip("only root can act as somebody else");
    }
    let dir = temp_dir();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).expect("a mode");
    scene(dir.path());
    let user = |arguments: &[&str]| {
        let output = Command::new(HAUL).args(arguments).current_dir(dir.path()).uid(12345).gid(12345).output();
        let output = output.expect("it can be run");
        assert!(output.status.success(), "{output:?}");
    };
    user(&["-aT", "--update=changed", "tree", "own"]);
    let own = dir.path().join("own");
    let before = changes(&own);
    user(&["-aT", "--update=changed", "tree", "own"]);
    assert_eq!(changes(&own), before);
}
