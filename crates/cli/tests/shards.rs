//! `--shard`, `--list-out` and `--list`: several processes, in any order and at the same time, make the copy that
//! one makes; and what does not fit together is refused before anything is written.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::SystemTime;

use fastrand::Rng;
use haul_agree::grow::{Flavor, Grower, USER};
use haul_agree::scene::{self, Contents, Kind, Node, Run};
use haul_agree::snapshot::{self, Item};
use haul_testbed::{Bed, Child, Command, Fs, TempDir, skip, temp_dir};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

/// A tree, and who copies it.
struct Scene {
    dir: PathBuf,
    user: u32,
    start: SystemTime,
}

impl Scene {
    fn new(dir: &Path, user: u32, nodes: &[Node]) -> Scene {
        let start = SystemTime::now();
        fs::create_dir(dir).expect("a directory");
        scene::build(dir, nodes).expect("a tree can be made");
        chown(dir, Some(user), Some(user)).expect("an owner");
        Scene { dir: dir.to_owned(), user, start }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(HAUL);
        command.args(arguments).current_dir(&self.dir).env("LC_ALL", "C").stdin(Stdio::null());
        if self.user != 0 {
            command.uid(self.user).gid(self.user);
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it can be run")
    }

    /// Runs it and expects nothing but success.
    fn must(&self, arguments: &[&str]) {
        let output = self.run(arguments);
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {}", said(&output));
    }

    fn spawn(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it can be run")
    }

    /// An empty directory of the user.
    fn room(&self, name: &str) {
        fs::create_dir(self.dir.join(name)).expect("a directory");
        chown(self.dir.join(name), Some(self.user), Some(self.user)).expect("an owner");
    }

    /// What is in a directory, without what no copy can keep.
    fn look(&self, name: &str) -> BTreeMap<Vec<u8>, Item> {
        let mut found = snapshot::take(&self.dir.join(name), self.start).expect("it can be read");
        for item in found.values_mut() {
            item.atime = snapshot::Stamp::Now;
            // How many there are depends on the order of writing; whether there are holes does not.
            item.blocks = u64::from(item.blocks * 512 >= item.size);
        }
        found
    }

    fn same(&self, left: &str, right: &str, what: &str) {
        let (left, mut right) = (self.look(left), self.look(right));
        // The record of the shards may stay where it is.
        right.retain(|name, _| !is_record(name));
        let names: std::collections::BTreeSet<_> = left.keys().chain(right.keys()).collect();
        let differs = names.into_iter().filter(|name| left.get(*name) != right.get(*name));
        let differences: Vec<String> = differs
            .take(10)
            .map(|name| format!("{}:\n  {:?}\n  {:?}", name.escape_ascii(), left.get(name), right.get(name)))
            .collect();
        assert!(differences.is_empty(), "{what}:\n{}", differences.join("\n"));
    }
}

/// `.haul-shards-` and 16 digits, at the top.
fn is_record(name: &[u8]) -> bool {
    name.strip_prefix(b".haul-shards-").is_some_and(|digits| digits.len() == 16)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What shards find hard: each of it in several shards.
fn hard_ones(owner: (u32, u32)) -> Vec<Node> {
    let file = |path: &str, size: u64| {
        let runs = vec![Run { offset: 0, length: size, zeros: false }];
        Node::new(path.as_bytes(), Kind::File(Contents { size, runs, allocated: None, salt: size as u8 }))
    };
    let dir = |path: &str, mode: u32| Node { mode, ..Node::new(path.as_bytes(), Kind::Directory) };
    let mut nodes = vec![dir("s", 0o750)];
    for (name, mode) in [("read-only", 0o555), ("closed", 0o500), ("group", 0o2770), ("open", 0o1777), ("blind", 0o300)]
    {
        nodes.push(dir(&format!("s/{name}"), mode));
        nodes.push(dir(&format!("s/{name}/inner"), mode));
        nodes.push(dir(&format!("s/{name}/plain"), 0o755));
        nodes.push(dir(&format!("s/{name}/empty"), 0o700));
        for number in 0..9 {
            nodes.push(file(&format!("s/{name}/{number}"), number * 3000));
            nodes.push(file(&format!("s/{name}/inner/{number}"), number));
            nodes.push(file(&format!("s/{name}/plain/{number}"), 4096));
        }
    }
    for number in 0..4 {
        let first = format!("s/open/{number}").into_bytes();
        nodes.push(Node::new(format!("s/group/link-{number}").as_bytes(), Kind::HardLink(first.clone())));
        nodes.push(Node::new(format!("s/read-only/inner/link-{number}").as_bytes(), Kind::HardLink(first)));
    }
    // A directory that hands on an ACL.
    let mut acl = 2u32.to_le_bytes().to_vec();
    for (tag, rights, id) in
        [(1u16, 7u16, u32::MAX), (2, 6, 77), (4, 5, u32::MAX), (16, 7, u32::MAX), (32, 0, u32::MAX)]
    {
        acl.extend(tag.to_le_bytes());
        acl.extend(rights.to_le_bytes());
        acl.extend(id.to_le_bytes());
    }
    let xattrs = vec![(b"system.posix_acl_default".to_vec(), acl)];
    nodes.push(Node { xattrs, ..dir("s/acl", 0o755) });
    nodes.push(dir("s/acl/inner", 0o755));
    for number in 0..9 {
        nodes.push(file(&format!("s/acl/{number}"), 10));
        nodes.push(file(&format!("s/acl/inner/{number}"), 10));
    }
    let hole =
        Contents { size: 3 << 20, runs: vec![Run { offset: 1 << 20, length: 9, zeros: false }], ..Contents::default() };
    nodes.push(Node::new(b"s/sparse", Kind::File(hole)));
    nodes.push(Node::new(b"s/open/symlink", Kind::Symlink(b"../sparse".to_vec())));
    for node in &mut nodes {
        node.owner = owner;
    }
    nodes
}

/// A random tree `s`, with the hard ones or without.
fn tree(seed: u64, user: u32) -> Vec<Node> {
    let mut rng = Rng::with_seed(seed);
    let unprivileged = user != 0;
    let flavor = Flavor { fifos: true, devices: !unprivileged, mounts: false, unprivileged };
    let mut grower = Grower { rng: &mut rng, flavor, nodes: hard_ones((user, user)) };
    for number in 0..6 {
        grower.tree(format!("s/random-{number}").as_bytes(), 4, 40);
    }
    let mut nodes = grower.nodes;
    if unprivileged {
        for node in &mut nodes {
            node.owner = (user, user);
            // What it may not read is an error; see the test of that.
            node.mode |= if node.is_directory() { 0o500 } else { 0o400 };
            node.xattrs.retain(|(name, _)| name != b"system.posix_acl_access");
        }
    }
    nodes
}

/// The filesystems that are tested on, with a place on each; and who copies.
fn everywhere(test: impl Fn(&Path, u32)) {
    if !rustix::process::geteuid().is_root() {
        skip("shards of root and of others take root");
        return;
    }
    for user in [0, USER] {
        let Some(bed) = Bed::new() else { return };
        for kind in [Fs::Tmpfs, Fs::Ext4] {
            let Some(place) = bed.mount(kind) else { continue };
            let dir = place.join("shards");
            fs::create_dir(&dir).expect("a directory");
            fs::set_permissions(&dir, PermissionsExt::from_mode(0o755)).expect("a mode");
            test(&dir, user);
            fs::remove_dir_all(&dir).expect("it can be removed");
        }
    }
}

fn numbers(rng: &mut Rng, count: u32) -> Vec<String> {
    let mut order: Vec<u32> = (1..=count).collect();
    rng.shuffle(&mut order);
    order.iter().map(|number| format!("--shard={number}/{count}")).collect()
}

fn one_after_the_other(scene: &Scene, rng: &mut Rng, count: u32, arguments: &[&str]) {
    for shard in numbers(rng, count) {
        scene.must(&[&[&shard[..]], arguments].concat());
    }
}

fn at_the_same_time(scene: &Scene, rng: &mut Rng, count: u32, arguments: &[&str]) {
    let shards = numbers(rng, count);
    let children: Vec<Child> = shards.iter().map(|shard| scene.spawn(&[&[&shard[..]], arguments].concat())).collect();
    for (child, shard) in children.into_iter().zip(shards) {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success() && output.stderr.is_empty(), "{shard} {arguments:?}: {}", said(&output));
    }
}

#[test]
fn shards_in_any_order_and_at_once_make_the_copy_that_one_process_makes() {
    everywhere(|dir, user| {
        for (seed, options) in [(1, "-a"), (2, "-r"), (3, "-rp"), (4, "-a")] {
            let scene = Scene::new(&dir.join(format!("{seed}")), user, &tree(seed, user));
            scene.room("one");
            scene.must(&[options, "s", "one/new"]);
            scene.must(&[options, "--list-out=list", "s", "x"]);
            let mut rng = Rng::with_seed(seed);
            for count in [1, 2, 3, 7] {
                let what = |how: &str| format!("{dir:?} as {user}, seed {seed}, {options}, {count} shards {how}");
                for (how, more) in [("alone", &[options][..]), ("by a list", &[options, "--list=list"])] {
                    scene.room("several");
                    one_after_the_other(&scene, &mut rng, count, &[more, &["-T", "s", "several/new"]].concat());
                    scene.same("one", "several", &what(how));
                    fs::remove_dir_all(scene.dir.join("several")).expect("it can be removed");
                    scene.room("several");
                    at_the_same_time(&scene, &mut rng, count, &[more, &["-T", "s", "several/new"]].concat());
                    scene.same("one", "several", &what(&format!("{how}, at once")));
                    fs::remove_dir_all(scene.dir.join("several")).expect("it can be removed");
                }
            }
        }
    });
}

#[test]
fn shards_work_with_options_that_make_copies_certain_and_with_several_threads() {
    everywhere(|dir, user| {
        let scene = Scene::new(&dir.join("scene"), user, &tree(11, user));
        scene.room("one");
        scene.must(&["-a", "s", "one/new"]);
        let mut rng = Rng::with_seed(1);
        for options in [
            &["--resume"][..],
            &["--durable"],
            &["--durable=file"],
            &["--verify"],
            &["--atomic", "--jobs=4"],
            &["--jobs=1"],
            &["--resume", "--jobs=4"],
        ] {
            scene.room("several");
            at_the_same_time(&scene, &mut rng, 3, &[options, &["-aT", "s", "several/new"]].concat());
            scene.same("one", "several", &format!("{dir:?} as {user}, {options:?}"));
            fs::remove_dir_all(scene.dir.join("several")).expect("it can be removed");
        }
    });
}

#[test]
fn what_stood_at_the_destination_before_is_treated_as_by_one_process() {
    everywhere(|dir, user| {
        let mut nodes = tree(21, user);
        for place in ["one", "several"] {
            nodes.push(Node { owner: (user, user), ..Node::new(place.as_bytes(), Kind::Directory) });
            let old = [("s", 0o700), ("s/group", 0o711), ("s/acl", 0o700), ("s/read-only", 0o755), ("s/other", 0o751)];
            for (path, mode) in old {
                let path = format!("{place}/{path}");
                nodes.push(Node { mode, owner: (user, user), ..Node::new(path.as_bytes(), Kind::Directory) });
            }
            for path in ["s/group/1", "s/acl/7", "s/other/bystander", "s/sparse"] {
                let contents = Contents { size: 100, runs: Vec::new(), allocated: None, salt: 1 };
                let path = format!("{place}/{path}");
                nodes.push(Node { owner: (user, user), ..Node::new(path.as_bytes(), Kind::File(contents)) });
            }
        }
        for options in [&["-a"][..], &["-r"], &["-an"], &["-au"]] {
            let name = options.concat();
            let scene = Scene::new(&dir.join(&name), user, &nodes);
            scene.must(&[options, &["s", "one"]].concat());
            at_the_same_time(&scene, &mut Rng::with_seed(5), 3, &[options, &["s", "several/"]].concat());
            scene.same("one", "several", &format!("{dir:?} as {user}, {options:?}"));
        }
    });
}

#[test]
fn several_sources_are_copied_into_a_directory_and_the_contents_of_one_too() {
    everywhere(|dir, user| {
        let scene = Scene::new(&dir.join("scene"), user, &tree(31, user));
        for sources in [&["s/open", "s/group", "s/sparse"][..], &["s/."]] {
            scene.room("one");
            scene.room("several");
            scene.must(&[&["-a"], sources, &["one"]].concat());
            one_after_the_other(&scene, &mut Rng::with_seed(1), 3, &[&["-a"], sources, &["several/"]].concat());
            scene.same("one", "several", &format!("{dir:?} as {user}, {sources:?}"));
            // What the directories themselves have become.
            let look = |name: &str| fs::metadata(scene.dir.join(name)).expect("it is there");
            assert_eq!(look("one").mode(), look("several").mode());
            if sources == ["s/."] {
                assert_eq!(look("one").modified().expect("a time"), look("several").modified().expect("a time"));
            }
            for name in ["one", "several"] {
                fs::remove_dir_all(scene.dir.join(name)).expect("it can be removed");
            }
        }
    });
}

/// Kills a shard when it has made a certain number of names, and gives whether that came before its end.
fn killed(scene: &Scene, arguments: &[&str], names: usize) -> bool {
    let mut child = scene.spawn(arguments);
    loop {
        if child.try_wait().expect("the child is ours").is_some() {
            return false;
        }
        let made = Command::new("find").arg(scene.dir.join("several")).output().expect("find can be run").stdout;
        if made.split(|byte| *byte == b'\n').count() > names {
            child.kill().expect("the child is ours");
            return !child.wait().expect("it ends").success();
        }
    }
}

#[test]
fn a_shard_that_was_killed_is_run_again_with_and_without_resume() {
    everywhere(|dir, user| {
        let scene = Scene::new(&dir.join("scene"), user, &tree(41, user));
        scene.room("one");
        scene.must(&["-a", "s", "one/new"]);
        let mut kills = 0;
        for (round, (first, second)) in [
            (&["-a"][..], &["-a"][..]),
            (&["-a", "--resume"], &["-a", "--resume"]),
            (&["-a"], &["-a", "--resume"]),
            (&["-a", "--resume"], &["-a"]),
            (&["-an"], &["-an"]),
            (&["-au", "--jobs=1"], &["-au", "--jobs=1"]),
        ]
        .into_iter()
        .enumerate()
        {
            scene.room("several");
            // What is done is not run again: after the last one that would be another copy.
            let mut left = vec!["--shard=3/3", "--shard=2/3", "--shard=1/3"];
            if round % 2 == 1 {
                scene.must(&[first, &["--shard=1/3", "-T", "s", "several/new"]].concat());
                left.pop();
            }
            for (shard, names) in [("--shard=2/3", 5), ("--shard=2/3", 30), ("--shard=3/3", 60)] {
                if !left.contains(&shard) {
                    continue;
                }
                match killed(&scene, &[first, &[shard, "-T", "s", "several/new"]].concat(), names) {
                    true => kills += 1,
                    false => left.retain(|other| *other != shard),
                }
            }
            for shard in left {
                let again = scene.run(&[second, &[shard, "-T", "s", "several/new"]].concat());
                // One that was killed between its last name and its end has said that it is done.
                let quiet = again.stderr.is_empty() || said(&again).contains("this shard is done already");
                assert!(again.status.success() && quiet, "{second:?} {shard}: {}", said(&again));
            }
            if first.contains(&"--resume") && !second.contains(&"--resume") {
                // What another command has left under temporary names stays.
                tidy(&scene.dir.join("several"));
            }
            scene.same("one", "several", &format!("{dir:?} as {user}, {first:?}, {second:?}"));
            fs::remove_dir_all(scene.dir.join("several")).expect("it can be removed");
        }
        assert!(kills > 0, "no shard was killed before its end");
    });
}

/// Removes temporary files and journals, and leaves times as they are.
fn tidy(dir: &Path) {
    for entry in fs::read_dir(dir).expect("it can be read") {
        let entry = entry.expect("it can be read");
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(".haul-r") {
            let times = fs::metadata(dir).expect("it is there");
            fs::remove_file(&path).expect("it can be removed");
            let times = fs::FileTimes::new().set_modified(times.modified().expect("a time"));
            fs::File::open(dir).and_then(|dir| dir.set_times(times)).expect("a time");
        } else if entry.file_type().expect("a type").is_dir() {
            tidy(&path);
        }
    }
}

#[test]
fn a_shard_that_fails_says_so_and_is_all_that_has_to_be_run_again() {
    if !rustix::process::geteuid().is_root() {
        skip("another user takes root");
        return;
    }
    let dir = temp_dir();
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).expect("a mode");
    let scene = Scene::new(&dir.path().join("scene"), USER, &tree(51, USER));
    scene.room("one");
    scene.must(&["-a", "s", "one/new"]);
    let mut failed = Vec::new();
    let mut obstacle = String::new();
    scene.room("several");
    for number in [2, 3, 1] {
        if number == 3 {
            // Not at the source, which has to stay as it is.
            let names = (0..9).map(|file| format!("several/new/read-only/{file}"));
            obstacle = names.into_iter().find(|name| !scene.dir.join(name).exists()).expect("not all are done");
            scene.room(&obstacle);
        }
        let shard = format!("--shard={number}/3");
        let output = scene.run(&[&shard, "-aT", "s", "several/new"]);
        if !output.status.success() {
            let said = said(&output);
            assert!(said.contains(&format!("cannot create regular file '{obstacle}': File exists")), "{said}");
            assert!(said.contains("this shard is not done") && said.contains(".haul-shards-"), "{said}");
            failed.push(shard);
        }
    }
    assert_eq!(failed.len(), 1, "one shard has the file");
    // All have ended, so nobody needs the directory any more.
    assert_eq!(fs::metadata(scene.dir.join("several/new/read-only")).expect("it is there").mode() & 0o7777, 0o555);
    fs::remove_dir(scene.dir.join(&obstacle)).expect("it is there");
    scene.must(&[&failed[0], "-aT", "s", "several/new"]);
    scene.same("one", "several", "after the second run");
}

fn small() -> (TempDir, Scene) {
    let dir = temp_dir();
    let file = |path: &[u8]| Node::new(path, Kind::File(Contents { size: 5, ..Contents::default() }));
    let nodes: Vec<Node> = vec![
        Node::new(b"s", Kind::Directory),
        file(b"s/a"),
        file(b"s/b"),
        Node::new(b"s/d", Kind::Directory),
        file(b"s/d/c"),
        Node::new(b"t", Kind::Directory),
        file(b"t/a"),
    ];
    let user = rustix::process::geteuid().as_raw();
    let scene = Scene::new(&dir.path().join("scene"), user, &nodes);
    (dir, Scene { user: 0, ..scene })
}

impl Scene {
    /// Refused with these words, and nothing is there that was not there before.
    fn refused(&self, arguments: &[&str], words: &str) {
        let before = self.look(".");
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(words), "{arguments:?}: {}", said(&output));
        assert!(self.look(".") == before, "{arguments:?} has changed something");
    }
}

#[test]
fn impossible_shards_and_options_that_do_not_go_with_them_are_refused() {
    let (_dir, scene) = small();
    for shard in ["0/1", "2/1", "1/0", "0/0", "x", "1", "1/2/3", "-1/2", "", "/", "1/99999999999"] {
        let shard = format!("--shard={shard}");
        scene.refused(&[&shard, "-aT", "s", "new"], "invalid --shard argument");
    }
    for options in [
        &["-L"][..],
        &["--parents"],
        &["--backup"],
        &["-i"],
        &["--update=none-fail"],
        &["-l"],
        &["-s"],
        &["--preserve=flags"],
        &["--keep-directory-symlink"],
        &["--strip-trailing-slashes"],
    ] {
        scene.refused(&[&["--shard=1/2", "-aT"], options, &["s", "new"]].concat()[..], "--shard does not go with");
    }
    scene.refused(&["-rL", "--list-out=list", "s", "new"], "--list-out does not go with");
    scene.refused(&["-aT", "--list-out=list", "--shard=1/2", "s", "new"], "--list-out does not go with --shard");
    // As diff says that there is trouble.
    let compared = scene.run(&["-aT", "--compare", "--shard=1/2", "s", "t"]);
    assert_eq!(compared.status.code(), Some(2), "{}", said(&compared));
    assert!(said(&compared).contains("cannot be combined with --compare"), "{}", said(&compared));
    scene.refused(&["-aT", "--shard=1/2", "s", "s/d/new"], "cannot copy a directory, 's', into itself, 's/d/new'");
    fs::create_dir(scene.dir.join("into")).expect("a directory");
    scene.refused(&["-a", "--shard=1/2", "s/a", "t/a", "into"], "two sources of one name");
}

#[test]
fn a_list_that_is_damaged_or_of_other_sources_is_refused() {
    let (_dir, scene) = small();
    scene.must(&["-a", "--list-out=list", "s", "new"]);
    assert!(!scene.dir.join("new").exists());
    let list = fs::read(scene.dir.join("list")).expect("it was written");
    let with = |name: &str, bytes: &[u8]| fs::write(scene.dir.join(name), bytes).expect("it can be written");
    with("cut", &list[..list.len() / 2]);
    with("empty", b"");
    with("foreign", b"some words that are no list at all");
    let mut other = list.clone();
    other[list.len() / 2] ^= 1;
    with("damaged", &other);
    scene.refused(&["-a", "--list=cut", "s", "new"], "cannot read the file list 'cut': it is cut off at byte");
    scene.refused(&["-a", "--list=empty", "s", "new"], "it is");
    scene.refused(&["-a", "--list=foreign", "s", "new"], "it is not a file list of haul");
    scene.refused(&["-a", "--list=damaged", "s", "new"], "it is damaged");
    scene.refused(&["-a", "--list=none", "s", "new"], "No such file or directory");
    scene.refused(&["-a", "--list=list", "t", "new"], "the file list does not fit 't'");
    scene.refused(&["-a", "--list=list", "s", "t", "."], "it is of 1 sources, and 2 are given");
    scene.refused(&["-aT", "--list=list", "--shard=1/2", "t", "new"], "the file list does not fit 't'");
    fs::rename(scene.dir.join("s"), scene.dir.join("old")).expect("it can be renamed");
    scene.refused(&["-a", "--list=list", "s", "new"], "cannot stat 's'");
    fs::create_dir(scene.dir.join("s")).expect("a directory");
    scene.refused(&["-a", "--list=list", "s", "new"], "it was made of another file or directory");
    // The same directory by another name.
    scene.must(&["-a", "--list=list", "old", "new"]);
}

#[test]
fn a_list_says_what_is_copied_and_changes_since_are_reported() {
    let (_dir, scene) = small();
    scene.must(&["-a", "--list-out=list", "s", "new"]);
    fs::write(scene.dir.join("s/late"), "not in the list").expect("it can be written");
    fs::write(scene.dir.join("s/a"), "longer than it was").expect("it can be written");
    let output = scene.run(&["-a", "--list=list", "s", "changed"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(
        said(&output).contains("s/a' has changed since it was listed; it is copied as it is now"),
        "{}",
        said(&output)
    );
    assert_eq!(fs::read(scene.dir.join("changed/a")).expect("it is there"), b"longer than it was");
    assert!(!scene.dir.join("changed/late").exists());
    fs::remove_file(scene.dir.join("s/b")).expect("it is there");
    fs::remove_dir_all(scene.dir.join("s/d")).expect("it is there");
    fs::write(scene.dir.join("s/d"), "no directory").expect("it can be written");
    let output = scene.run(&["-a", "--list=list", "s", "missing"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("'s/b' was listed, and is not there any more"), "{}", said(&output));
    assert!(said(&output).contains("not copying 's/d': when it was listed it was a directory"), "{}", said(&output));
    assert_eq!(fs::read_dir(scene.dir.join("missing")).expect("it is there").count(), 1, "the file that is left");
}

#[test]
fn shards_that_do_not_belong_together_refuse_to_copy() {
    let (_dir, scene) = small();
    scene.must(&["-a", "--list-out=list", "s", "new"]);
    scene.must(&["-aT", "--shard=1/2", "s", "new"]);
    scene.refused(&["-aT", "--shard=2/3", "s", "new"], "are 2, not 3; nothing was copied");
    // A list of the same files is divided in the same way; another one is not.
    fs::write(scene.dir.join("s/d/late"), "after the first shard").expect("it can be written");
    scene.refused(&["-aT", "--shard=2/2", "s", "new"], "go by another list, or have found other files");
    scene.must(&["-aT", "--shard=2/2", "--list=list", "s", "new"]);
    let names =
        Command::new("find").args(["new", "."]).current_dir(&scene.dir).output().expect("find can be run").stdout;
    let names = String::from_utf8_lossy(&names).into_owned();
    assert!(names.contains("new/d/c") && !names.contains("new/d/late"), "{names}");
}

#[test]
fn what_cannot_be_listed_is_an_error_and_the_rest_is_listed() {
    if !rustix::process::geteuid().is_root() {
        skip("another user takes root");
        return;
    }
    let dir = temp_dir();
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).expect("a mode");
    let mut nodes = hard_ones((USER, USER));
    nodes.push(Node { mode: 0, owner: (USER, USER), ..Node::new(b"s/closed/never", Kind::Directory) });
    // Nothing but its contents is out of reach.
    nodes.iter_mut().filter(|node| node.mode == 0o300).for_each(|node| node.mode = 0o700);
    let scene = Scene::new(&dir.path().join("scene"), USER, &nodes);
    let words = "cannot access 's/closed/never': Permission denied";
    let output = scene.run(&["-a", "--list-out=list", "s", "x"]);
    assert!(output.status.code() == Some(1) && said(&output).contains(words), "{}", said(&output));
    scene.room("one");
    scene.room("several");
    let output = scene.run(&["-a", "s", "one/new"]);
    assert!(said(&output).contains(words), "{}", said(&output));
    let mut reported = 0;
    for shard in ["--shard=1/3", "--shard=2/3", "--shard=3/3"] {
        reported += said(&scene.run(&["-aT", shard, "s", "several/new"])).matches(words).count();
    }
    assert_eq!(reported, 1, "it is an error of the shard that has it");
    scene.same("one", "several", "an unreadable directory");
}

#[test]
fn a_shard_that_is_done_is_not_done_again_by_its_old_state_and_says_so() {
    let (_dir, scene) = small();
    scene.must(&["--shard=1/2", "-aT", "s", "new"]);
    let done: Vec<PathBuf> = ["a", "b", "d/c"].iter().map(|name| scene.dir.join("new").join(name)).collect();
    let done: Vec<&PathBuf> = done.iter().filter(|path| path.exists()).collect();
    assert!(!done.is_empty(), "the shard has something");
    for path in &done {
        fs::write(path, "edited since").expect("a file");
    }
    let output = scene.run(&["--shard=1/2", "-aT", "s", "new"]);
    assert!(output.status.success() && said(&output).contains("this shard is done already"), "{}", said(&output));
    for path in &done {
        assert_eq!(fs::read(path).expect("it is there"), b"edited since");
    }
    scene.must(&["--shard=2/2", "-aT", "s", "new"]);
}

#[test]
fn a_shard_that_is_run_again_does_not_remove_its_own_source() {
    let (_dir, scene) = small();
    let first = scene.run(&["--shard=1/1", "-a", "s/a", "s/"]);
    assert!(!first.status.success() && said(&first).contains("are the same file"), "{}", said(&first));
    // As editors save it: another file under the same name, younger than the state of the shard.
    fs::write(scene.dir.join("s/other"), "saved").expect("a file");
    fs::rename(scene.dir.join("s/other"), scene.dir.join("s/a")).expect("a new name");
    let second = scene.run(&["--shard=1/1", "--job=2", "-a", "s/a", "s/"]);
    assert!(!second.status.success() && said(&second).contains("are the same file"), "{}", said(&second));
    assert_eq!(fs::read(scene.dir.join("s/a")).expect("it is there"), b"saved");
}

#[test]
fn shards_that_are_repeated_make_no_second_copy_whichever_way_the_destination_is_given() {
    for (operands, copy) in
        [(&["-T", "s", "new"][..], "new"), (&["-t", "into", "s"], "into/s"), (&["s", "into/"], "into/s")]
    {
        let (_dir, scene) = small();
        scene.room("into");
        scene.must(&["-aT", "s", "expected"]);
        for shard in ["--shard=1/2", "--shard=2/2"] {
            scene.must(&[&["-a", shard], operands].concat());
        }
        scene.same("expected", copy, &format!("{operands:?}"));
        let done = scene.look(".");
        for shard in ["--shard=1/2", "--shard=2/2", "--shard=status"] {
            let again = scene.run(&[&["-a", shard], operands].concat());
            assert!(again.status.success(), "{operands:?} {shard}: {}", said(&again));
            assert!(scene.look(".") == done, "{operands:?} {shard} has changed something");
        }
    }
}

#[test]
fn a_destination_of_shards_that_could_mean_two_things_is_refused() {
    let (_dir, scene) = small();
    for shard in ["--shard=1/2", "--shard=status"] {
        for dest in ["new", "t"] {
            let words = format!(
                "haul: with --shard the destination must not mean two things: add -T to copy to '{dest}' itself, or \
                 write '{dest}/' to copy into it\n"
            );
            scene.refused(&["-a", shard, "s", dest], &words);
        }
    }
}

#[test]
fn sources_that_go_into_the_destination_itself_are_refused_beside_others() {
    let (_dir, scene) = small();
    scene.room("new");
    scene.refused(&["--shard=1/2", "-a", "s/.", "t", "new"], "a source of no name of its own beside others");
}

#[test]
fn a_list_that_has_nothing_of_a_source_does_not_fit() {
    let (_dir, scene) = small();
    scene.room("new");
    fs::rename(scene.dir.join("t"), scene.dir.join("away")).expect("a new name");
    assert!(!scene.run(&["-a", "--list-out=list", "s", "t", "new"]).status.success(), "a source is missing");
    fs::rename(scene.dir.join("away"), scene.dir.join("t")).expect("a new name");
    scene.refused(&["-a", "--list=list", "s", "t", "new"], "it has nothing of it");
}
