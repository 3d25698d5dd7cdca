//! `--exclude` and the other filters: what is copied is what rsync copies with the same filters, whoever copies it, and what
//! cannot be meant is refused before anything is written.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use haul_testbed::{Command, TempDir, skip, temp_dir};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");
const TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55";

fn run<S: AsRef<OsStr>>(program: &str, dir: &Path, arguments: &[S]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(dir).env("LC_ALL", "C").stdin(Stdio::null());
    command.output().expect("it can be run")
}

fn haul<S: AsRef<OsStr>>(dir: &Path, arguments: &[S]) -> Output {
    run(HAUL, dir, arguments)
}

/// Runs it and expects nothing but success.
fn must(dir: &Path, filters: &[OsString], rest: &[&str]) -> Output {
    let arguments: Vec<OsString> = filters.iter().cloned().chain(rest.iter().map(OsString::from)).collect();
    let output = haul(dir, &arguments);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {}{printed}", said(&output));
    output
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn words(options: &[&str]) -> Vec<OsString> {
    options.iter().map(OsString::from).collect()
}

/// All that is in a directory, with the contents of files and links.
fn look(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(dir: &Path, below: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in fs::read_dir(dir.join(below)).expect("a directory") {
            let entry = entry.expect("it can be read");
            let (path, kind) = (below.join(entry.file_name()), entry.file_type().expect("a type"));
            let contents = match () {
                () if kind.is_dir() => b"directory".to_vec(),
                () if kind.is_symlink() => fs::read_link(entry.path()).expect("a link").into_os_string().into_vec(),
                () => fs::read(entry.path()).expect("a file"),
            };
            if kind.is_dir() {
                walk(dir, &path, found);
            }
            found.insert(path, contents);
        }
    }
    let mut found = BTreeMap::new();
    walk(dir, Path::new(""), &mut found);
    // The record of shards is no part of a copy.
    found.retain(|path, _| !path.as_os_str().as_bytes().starts_with(b".haul-shards-"));
    found
}

fn names(dir: &Path) -> Vec<String> {
    look(dir).into_keys().map(|path| path.to_string_lossy().into_owned()).collect()
}

/// A directory `src` with these files, each with its name as its contents; a name that ends in a slash is a directory.
fn scene(files: &[&str]) -> TempDir {
    let dir = temp_dir();
    for file in files {
        let path = dir.path().join("src").join(file);
        fs::create_dir_all(if file.ends_with('/') { &path } else { path.parent().expect("a parent") }).expect("made");
        if !file.ends_with('/') {
            fs::write(&path, file).expect("it can be written");
        }
    }
    dir
}

const NAMES: [&[u8]; 10] = [b"a", b"b", b"ab", b".a", b"a.o", b"b.c", b"c d", b"\xff", b"[x]", b"{y}"];

/// A random tree in `dir`, at most so deep. Contents say nothing but their size.
fn grow(dir: &Path, depth: usize, rng: &mut Rng) {
    fs::create_dir(dir).expect("a directory");
    for name in NAMES {
        let path = dir.join(OsStr::from_bytes(name));
        match rng.u8(..10) {
            0..3 => fs::write(path, vec![b'x'; rng.usize(..4)]).expect("it can be written"),
            3 => symlink("a", path).expect("a link"),
            4..7 if depth > 0 => grow(&path, depth - 1, rng),
            _ => {}
        }
    }
}

/// A random pattern: as haul has it, and the patterns of rsync that match the same.
fn pattern(rng: &mut Rng) -> (OsString, Vec<OsString>) {
    const PARTS: [&str; 12] = ["a", "b", "ab", "*", "?", "a*", "*.o", "[ab]", "[!a]", "*b*", "[[]x]", "??"];
    let part = |rng: &mut Rng| PARTS[rng.usize(..PARTS.len())];
    let slash = if rng.bool() { "" } else { "/" };
    let (one, two) = (part(rng), part(rng));
    let (own, rsync) = match rng.u8(..8) {
        0..3 => (one.to_owned(), vec![one.to_owned()]),
        3 => (format!("/{one}"), vec![format!("/{one}")]),
        // One in the middle anchors it, too.
        4 => (format!("{one}/{two}"), vec![format!("/{one}/{two}")]),
        5 => (format!("**/{one}"), vec![one.to_owned()]),
        6 => (format!("{one}/**/{two}"), vec![format!("/{one}/{two}"), format!("/{one}/**/{two}")]),
        _ => return (format!("{one}/**").into(), vec![format!("/{one}/**").into()]),
    };
    (format!("{own}{slash}").into(), rsync.into_iter().map(|rsync| format!("{rsync}{slash}").into()).collect())
}

/// Random filters, for haul and for rsync.
fn filters(rng: &mut Rng) -> [Vec<OsString>; 2] {
    let (mut own, mut rsync) = (Vec::new(), Vec::new());
    let option = |name: &str, value: &OsStr| [OsStr::new(name), value].iter().copied().collect::<OsString>();
    for _ in 0..rng.usize(1..5) {
        let name = if rng.u8(..3) == 0 { "--include=" } else { "--exclude=" };
        let (pattern, same) = pattern(rng);
        own.push(option(name, &pattern));
        rsync.extend(same.iter().map(|pattern| option(name, pattern)));
    }
    for name in ["--max-size=", "--min-size="] {
        if rng.u8(..4) == 0 {
            let limit: OsString = format!("{name}{}", rng.u8(..4)).into();
            own.push(limit.clone());
            rsync.push(limit);
        }
    }
    [own, rsync]
}

#[test]
fn the_same_entries_are_copied_as_by_rsync() {
    if Command::new("rsync").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip("rsync");
    }
    let seed = fastrand::u64(..);
    let mut rng = Rng::with_seed(seed);
    for _ in 0..20 {
        let dir = temp_dir();
        grow(&dir.path().join("src"), 3, &mut rng);
        let [own, rsync] = filters(&mut rng);
        must(dir.path(), &own, &["-aT", "src/.", "own"]);
        let arguments: Vec<OsString> = rsync.iter().cloned().chain(words(&["-a", "src/", "theirs/"])).collect();
        let output = run("rsync", dir.path(), &arguments);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        let (own_copy, theirs) = (look(&dir.path().join("own")), look(&dir.path().join("theirs")));
        assert_eq!(own_copy, theirs, "{own:?} and {rsync:?}, seed {seed}");
    }
}

#[test]
fn every_way_to_copy_leaves_out_the_same() {
    let seed = fastrand::u64(..);
    let mut rng = Rng::with_seed(seed);
    for _ in 0..6 {
        let dir = temp_dir();
        let at = |name: &str| dir.path().join(name);
        grow(&at("src"), 3, &mut rng);
        let [own, _] = filters(&mut rng);
        let mut cached = own.clone();
        if let Some(Ok(sub)) = fs::read_dir(at("src"))
            .expect("a directory")
            .find(|entry| entry.as_ref().is_ok_and(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())))
        {
            fs::write(sub.path().join("CACHEDIR.TAG"), TAG).expect("a tag");
            cached.push("--exclude-caches".into());
        }
        must(dir.path(), &cached, &["-aT", "--jobs=1", "src/.", "one"]);
        let expected = look(&at("one"));
        let same = |name: &str| assert_eq!(look(&at(name)), expected, "{name}: {cached:?}, seed {seed}");
        must(dir.path(), &cached, &["-aT", "--jobs=4", "src/.", "many"]);
        same("many");
        must(dir.path(), &cached, &["-aT", "--resume", "src/.", "resumed"]);
        same("resumed");
        must(dir.path(), &cached, &["-aT", "--compare", "src/.", "one"]);
        must(dir.path(), &cached, &["-aT", "--list-out=list", "src/.", "listed"]);
        must(dir.path(), &[], &["-aT", "--list=list", "src/.", "listed"]);
        same("listed");
        for shard in ["--shard=2/2", "--shard=1/2"] {
            let arguments: Vec<OsString> =
                cached.iter().cloned().chain(words(&["-aT", shard, "src/.", "sharded"])).collect();
            let output = haul(dir.path(), &arguments);
            assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        }
        same("sharded");
        // Of a list of everything, a filter leaves the same, but for caches.
        must(dir.path(), &[], &["-aT", "--list-out=all", "src/.", "chosen"]);
        must(dir.path(), &own, &["-aT", "src/.", "without"]);
        must(dir.path(), &own, &["-aT", "--list=all", "src/.", "chosen"]);
        assert_eq!(look(&at("chosen")), look(&at("without")), "{own:?}, seed {seed}");
    }
}

#[test]
fn an_excluded_directory_is_not_entered() {
    let dir = scene(&["keep", "no/keep"]);
    must(dir.path(), &words(&["--exclude=no", "--include=keep", "--exclude=*"]), &["-aT", "src/.", "dst"]);
    assert_eq!(names(&dir.path().join("dst")), ["keep"]);
}

#[test]
fn what_is_excluded_and_cannot_be_looked_at_is_no_error() {
    let dir = scene(&["kept", "sub/kept"]);
    for link in ["src/broken", "src/sub/broken", "src/gone"] {
        symlink("nowhere", dir.path().join(link)).expect("a link");
    }
    // One pattern is for names; the other is for paths, and for directories only.
    let filters = words(&["--exclude=broken", "--exclude=/gone/"]);
    must(dir.path(), &filters, &["-rLT", "src", "copy"]);
    assert_eq!(names(&dir.path().join("copy")), ["kept", "sub", "sub/kept"]);
    must(dir.path(), &filters, &["-rLT", "--compare", "src", "copy"]);
    fs::remove_file(dir.path().join("src/gone")).expect("it can be removed");
    let output = haul(dir.path(), &["-rLT", "--exclude=/broken", "src", "other"]);
    assert!(said(&output).contains("'src/sub/broken'") && said(&output).lines().count() == 1, "{output:?}");
}

#[test]
fn of_a_tagged_cache_the_tag_is_copied() {
    let dir = scene(&["cache/data/x", "other/CACHEDIR.TAG", "other/data"]);
    let src = dir.path().join("src");
    fs::write(src.join("cache/CACHEDIR.TAG"), format!("{TAG}\n# made by a test")).expect("a tag");
    must(dir.path(), &words(&["--exclude-caches"]), &["-aT", "src", "dst"]);
    let copied = names(&dir.path().join("dst"));
    assert_eq!(copied, ["cache", "cache/CACHEDIR.TAG", "other", "other/CACHEDIR.TAG", "other/data"]);
    fs::create_dir(dir.path().join("dst/cache/more")).expect("a directory");
    must(dir.path(), &words(&["--exclude-caches"]), &["-rT", "--compare", "src", "dst"]);
    // A source that is a cache itself was named: it is no error.
    must(dir.path(), &words(&["--exclude-caches"]), &["-aT", "src/cache", "itself"]);
    assert_eq!(names(&dir.path().join("itself")), ["CACHEDIR.TAG"]);
}

#[test]
fn only_files_that_are_newer_than_a_time_are_copied() {
    let dir = scene(&["old", "same", "new", "dir/old"]);
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let set = |path: &str, seconds| {
        let file = fs::File::open(dir.path().join(path)).expect("a file");
        file.set_modified(at(seconds)).expect("its time can be set");
    };
    for (path, seconds) in [("src/old", 999), ("src/same", 1000), ("src/new", 1001), ("src/dir/old", 5), ("src/dir", 5)]
    {
        set(path, seconds);
    }
    fs::write(dir.path().join("stamp"), "").expect("a file");
    set("stamp", 1000);
    for (time, copy) in [("@1000", "one"), ("1970-01-01T00:16:40Z", "two"), ("./stamp", "three")] {
        must(dir.path(), &[format!("--newer-than={time}").into()], &["-aT", "src", copy]);
        assert_eq!(names(&dir.path().join(copy)), ["dir", "new"], "{time}");
    }
}

#[test]
fn a_comparison_says_nothing_of_what_is_excluded_on_either_side() {
    let dir = scene(&["a.o", "a.c", "large"]);
    fs::create_dir(dir.path().join("dst")).expect("a directory");
    for (name, text) in [("a.c", "a.c"), ("b.o", "only here"), ("a.o", "other"), ("large", "l")] {
        fs::write(dir.path().join("dst").join(name), text).expect("a file");
    }
    let compared = |filters: &[&str]| {
        let arguments: Vec<&str> = [&["--compare", "-rT"][..], filters, &["src", "dst"]].concat();
        let output = haul(dir.path(), &arguments);
        (output.status.code(), String::from_utf8(output.stdout).expect("plain words"))
    };
    assert_eq!(compared(&["--exclude=*.o", "--max-size=3"]), (Some(0), String::new()));
    let (code, text) = compared(&["--exclude=*.o"]);
    assert!(code == Some(1) && text.contains("large") && !text.contains(".o"), "{text}");
    assert_eq!(compared(&["--max-size=0"]), (Some(1), "only in the copy: 'dst/b.o'\n".to_owned()));
    let slashes = haul(dir.path(), &["--compare", "-rT", "--exclude=/*.o", "--exclude=/large", "src//", "dst//"]);
    assert!(slashes.status.success() && slashes.stdout.is_empty(), "{slashes:?}");
}

#[test]
fn a_file_of_patterns_is_read_as_git_reads_it() {
    let dir = scene(&["a.o", "keep.o", "#x", "a.c", "build/x", "sub/build"]);
    fs::write(dir.path().join("patterns"), "# objects\n*.o\n!keep.o\n\n\\#x\n/build/\n").expect("a file");
    must(dir.path(), &words(&["--exclude-from=patterns"]), &["-aT", "src", "dst"]);
    assert_eq!(names(&dir.path().join("dst")), ["a.c", "keep.o", "sub", "sub/build"]);
    // What comes before the file decides before it.
    must(dir.path(), &words(&["--exclude=keep.o", "--exclude-from=patterns"]), &["-aT", "src", "other"]);
    assert_eq!(names(&dir.path().join("other")), ["a.c", "sub", "sub/build"]);
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_written() {
    let dir = scene(&["a.o", "b"]);
    fs::write(dir.path().join("patterns"), "fine\n[\n").expect("a file");
    for (arguments, word) in [
        (&["--exclude=[", "src", "dst"][..], "unclosed"),
        (&["--exclude=", "src", "dst"], "empty"),
        (&["--include=!x", "src", "dst"], "'!'"),
        (&["--exclude-from=patterns", "src", "dst"], "'patterns', line 2"),
        (&["--exclude-from=none", "src", "dst"], "No such file"),
        (&["--exclude-from=src", "src", "dst"], "no regular file"),
        (&["--max-size=x", "src", "dst"], "--max-size"),
        (&["--newer-than=yesterday", "src", "dst"], "--newer-than"),
        (&["--newer-than=./none", "src", "dst"], "No such file"),
        (&["--exclude=src", "src", "dst"], "the source 'src' is excluded"),
        (&["--exclude=s*/", "--exclude=b", "./src//", "dst"], "'./src//' is excluded"),
        (&["--exclude=src", "--list-out=list", "src", "dst"], "the source 'src' is excluded"),
        (&["--exclude=src", "--compare", "src", "dst"], "the source 'src' is excluded"),
        (&["--exclude=src", "--shard=1/2", "src", "dst"], "the source 'src' is excluded"),
        (&["--max-size=1", "src/a.o", "dst"], "by its size"),
    ] {
        let output = haul(dir.path(), &[&["-rT"][..], arguments].concat());
        let text = said(&output);
        assert!(!output.status.success() && text.contains(word), "{arguments:?}: {text}");
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 2, "{arguments:?}");
    }
    let output = haul(dir.path(), &["--exclude=*.o", "src/b", "src/a.o", "src"]);
    assert!(!output.status.success() && said(&output).contains("'src/a.o' is excluded"));
}

#[test]
fn a_source_without_a_name_of_its_own_is_not_excluded() {
    let dir = scene(&["a/x", "b"]);
    must(dir.path(), &words(&["--exclude=[a-z]"]), &["-aT", "src/.", "dst"]);
    assert!(names(&dir.path().join("dst")).is_empty());
    must(&dir.path().join("src"), &words(&["--exclude=b"]), &["-rT", ".", "../other"]);
    assert_eq!(names(&dir.path().join("other")), ["a", "a/x"]);
}

#[test]
fn a_pattern_that_has_decided_nothing_is_named() {
    let dir = scene(&["a.o", "b.c"]);
    let filters = words(&["--explain", "--stats=json", "--exclude=a.*", "--include=*.o", "--exclude=*.x"]);
    for (rest, excluded) in [
        (&["-aT", "src", "dst"][..], 1),
        (&["-aT", "--shard=1/2", "src", "new"], 1),
        (&["-aT", "--shard=2/2", "src", "new"], 0),
    ] {
        let arguments: Vec<OsString> = filters.iter().cloned().chain(rest.iter().map(OsString::from)).collect();
        let output = haul(dir.path(), &arguments);
        let idle: Vec<_> =
            output.stdout.split(|byte| *byte == b'\n').filter(|line| line.ends_with(b"no entry")).collect();
        let expected = ["include '*.o': has decided about no entry", "exclude '*.x': has decided about no entry"];
        assert_eq!(idle, expected.map(str::as_bytes), "{rest:?}");
        let record = said(&output).lines().last().map(serde_json::from_str::<serde_json::Value>);
        let record = record.and_then(Result::ok).expect("a record");
        assert_eq!(record["files"]["excluded"], excluded, "{rest:?}");
    }
}

/// A list of random names below `src`, and what they are written like. Only names that are there, and not behind links.
fn random_list(src: &Path, rng: &mut Rng) -> Vec<u8> {
    let mut names: Vec<PathBuf> = look(src).into_keys().collect();
    rng.shuffle(&mut names);
    names.truncate(rng.usize(..=names.len()));
    let mut text = Vec::new();
    for name in names {
        text.extend(["", "./", "/", ".//"][rng.usize(..4)].as_bytes());
        text.extend(name.as_os_str().as_bytes());
        text.push(0);
        if rng.u8(..8) == 0 {
            text.push(0);
        }
    }
    text
}

#[test]
fn the_same_names_of_a_list_are_copied_as_by_rsync() {
    if Command::new("rsync").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip("rsync");
    }
    let seed = fastrand::u64(..);
    let mut rng = Rng::with_seed(seed);
    for _ in 0..12 {
        let dir = temp_dir();
        grow(&dir.path().join("src"), 3, &mut rng);
        fs::write(dir.path().join("list"), random_list(&dir.path().join("src"), &mut rng)).expect("a list");
        for (number, recursive) in ["", "r"].into_iter().enumerate() {
            let (own_copy, theirs) = (format!("own{number}"), format!("theirs{number}"));
            let options = words(&[&format!("-a{recursive}"), "--files-from=list", "-0"]);
            must(dir.path(), &options, &["-T", "src/.", &own_copy]);
            let arguments = [options, words(&["src/", &format!("{theirs}/")])].concat();
            let output = run("rsync", dir.path(), &arguments);
            assert!(output.status.success(), "{arguments:?}: {}", said(&output));
            let at = |name: &str| look(&dir.path().join(name));
            assert_eq!(at(&own_copy), at(&theirs), "-a{recursive}, seed {seed}");
        }
    }
}

#[test]
fn every_way_to_copy_the_names_of_a_list_makes_the_same() {
    let seed = fastrand::u64(..);
    let mut rng = Rng::with_seed(seed);
    for _ in 0..5 {
        let dir = temp_dir();
        let at = |name: &str| dir.path().join(name);
        grow(&at("src"), 3, &mut rng);
        fs::write(at("names"), random_list(&at("src"), &mut rng)).expect("a list");
        let mut options = filters(&mut rng)[0].clone();
        options.extend(words(&[if rng.bool() { "-a" } else { "-ar" }, "--files-from=names", "--from0", "-T"]));
        must(dir.path(), &options, &["--jobs=1", "src/.", "one"]);
        let expected = look(&at("one"));
        let same = |name: &str| assert_eq!(look(&at(name)), expected, "{name}: {options:?}, seed {seed}");
        must(dir.path(), &options, &["--jobs=4", "--resume", "src/.", "many"]);
        same("many");
        must(dir.path(), &options, &["--list-out=list", "src/.", "listed"]);
        must(dir.path(), &[], &["-aT", "--list=list", "src/.", "listed"]);
        same("listed");
        for shard in ["--shard=2/2", "--shard=1/2"] {
            let arguments = [options.clone(), words(&[shard, "src/.", "sharded"])].concat();
            let output = haul(dir.path(), &arguments);
            assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        }
        same("sharded");
        fs::write(at("one/beside"), "not in the list").expect("a file");
        let compare = ["--compare", "--no-preserve=timestamps", "src/.", "one"];
        must(dir.path(), &options, &compare);
        let file = expected.iter().find(|(path, text)| !at("one").join(path).is_dir() && !text.is_empty());
        if let Some((path, _)) = file {
            fs::remove_file(at("one").join(path)).expect("it is there");
            let arguments = [options.clone(), words(&compare)].concat();
            let output = haul(dir.path(), &arguments);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.code() == Some(1) && text.lines().count() == 1, "{text} {}", said(&output));
        }
    }
}

#[test]
fn names_that_lead_to_nothing_are_errors_and_the_others_are_copied() {
    let dir = scene(&["a/x", "b", "c/y", "#d"]);
    symlink("a", dir.path().join("src/link")).expect("a link");
    let long = "n".repeat(300);
    let list = format!("a/x\nnone/x\nc/none\nb/x\nlink/x\n{long}\nb\n\nb\n#d\n/a/x\nlink\n");
    fs::write(dir.path().join("list"), list).expect("a list");
    let output = haul(dir.path(), &["-aT", "--files-from=list", "--stats=json", "src", "dst"]);
    assert_eq!(output.status.code(), Some(1));
    let text = said(&output);
    for (path, why) in [
        ("'src/none/x'", "No such file"),
        ("'src/c/none'", "No such file"),
        ("'src/b/x'", "Not a directory"),
        ("'src/link/x'", "'src/link' is a symbolic link"),
        (&format!("'src/{long}'"), "File name too long"),
    ] {
        let line = text.lines().find(|line| line.contains(path) && !line.starts_with('{'));
        assert!(line.is_some_and(|line| line.contains(why)), "{path}: {text}");
    }
    assert!(text.contains("\"errors\":5,"), "{text}");
    // No directory for a name that is not there.
    assert_eq!(names(&dir.path().join("dst")), ["#d", "a", "a/x", "b", "link"]);
}

#[test]
fn a_shard_is_done_though_names_are_missing() {
    let dir = scene(&["a", "b"]);
    fs::write(dir.path().join("list"), "a\nnone\na/x\nb\n").expect("a list");
    for (shard, says) in [("1/2", "1 of 2 shards are done"), ("2/2", "2 of 2 shards are done")] {
        let shard = format!("--shard={shard}");
        let output = haul(dir.path(), &["-aT", "--files-from=list", &shard, "src", "dst"]);
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.code() == Some(1) && printed.contains(says), "{printed}{}", said(&output));
        assert!(said(&output).contains("'src/none'"), "{}", said(&output));
    }
    assert_eq!(names(&dir.path().join("dst")), ["a", "b"]);
    must(dir.path(), &words(&["-aT", "--files-from=list", "--shard=status"]), &["src", "dst"]);
}

#[test]
fn a_list_of_names_that_cannot_be_meant_is_refused_before_anything_is_written() {
    let dir = scene(&["a", "b"]);
    for (name, text) in [("up", "a\n../src/a\n"), ("zero", "a\0b\0"), ("fine", "a\n")] {
        fs::write(dir.path().join(name), text).expect("a list");
    }
    for (arguments, word) in [
        (&["--files-from=up", "src", "dst"][..], "name 2: '..'"),
        (&["--files-from=zero", "src", "dst"], "-0"),
        (&["--files-from=none", "src", "dst"], "No such file"),
        (&["--files-from=fine", "src/a", "dst"], "Not a directory"),
        (&["--files-from=fine", "none", "dst"], "No such file"),
        (&["--files-from=fine", "-L", "src", "dst"], "-L"),
        (&["--files-from=fine", "--list=fine", "src", "dst"], "--list"),
        (&["--files-from=fine", "--exclude=src", "src", "dst"], "is excluded"),
        (&["-0", "src", "dst"], "--files-from"),
        (&["--files-from=up", "--compare", "src", "dst"], "name 2: '..'"),
    ] {
        let output = haul(dir.path(), &[&["-aT"][..], arguments].concat());
        let text = said(&output);
        assert!(!output.status.success() && text.contains(word), "{arguments:?}: {text}");
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 4, "{arguments:?}");
    }
    let output = haul(dir.path(), &["-a", "--files-from=fine", "src/a", "src/b", "src"]);
    assert!(!output.status.success() && said(&output).contains("several sources"), "{}", said(&output));
}

#[test]
fn a_filter_leaves_out_what_is_below_a_directory_also_if_it_is_named() {
    let dir = scene(&["no/x", "yes/x", "yes/x.o"]);
    fs::write(dir.path().join("list"), "no/x\nyes/x\nyes/x.o\n").expect("a list");
    must(dir.path(), &words(&["--exclude=no", "--exclude=*.o", "--files-from=list"]), &["-aT", "src", "dst"]);
    assert_eq!(names(&dir.path().join("dst")), ["yes", "yes/x"]);
}

#[test]
fn the_source_itself_in_a_list_stands_for_all_with_r() {
    let dir = scene(&["a/x", "b"]);
    for (number, list) in [".\n", "/\n", "./\n", "b\n.\na\n"].into_iter().enumerate() {
        fs::write(dir.path().join("list"), list).expect("a list");
        let (all, itself) = (format!("all{number}"), format!("itself{number}"));
        must(dir.path(), &words(&["-arT", "--files-from=list"]), &["src", &all]);
        assert_eq!(names(&dir.path().join(&all)), ["a", "a/x", "b"], "{list:?}");
        must(dir.path(), &words(&["-arT", "--files-from=list", "--compare"]), &["src", &all]);
        must(dir.path(), &words(&["-aT", "--files-from=list"]), &["src", &itself]);
        let named: &[&str] = if list.contains('b') { &["a", "b"] } else { &[] };
        assert_eq!(names(&dir.path().join(&itself)), named, "{list:?}");
    }
}

#[test]
fn standard_input_is_read_for_one_option() {
    let dir = scene(&["a"]);
    for options in [&["--exclude-from=-", "--files-from=-"], &["--exclude-from=-", "--exclude-from=-"]] {
        let output = haul(dir.path(), &[&["-aT"][..], options, &["src", "dst"]].concat());
        assert!(!output.status.success() && said(&output).contains("standard input"), "{}", said(&output));
        assert!(!dir.path().join("dst").exists());
    }
}

#[test]
fn names_are_read_from_standard_input() {
    let dir = scene(&["a\nb", "c"]);
    let mut command = Command::new(HAUL);
    command.args(["-aT", "--files-from=-", "-0", "src", "dst"]).current_dir(dir.path());
    fs::write(dir.path().join("list"), "a\nb\0").expect("a list");
    let status = command.stdin(fs::File::open(dir.path().join("list")).expect("a list")).status();
    assert!(status.expect("it can be run").success());
    assert_eq!(names(&dir.path().join("dst")), ["a\nb"]);
}
