//! `--profile`: what is read, what is obeyed, and what a profile can never change.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Output;

use haul_copy::plan::EngineName;
use haul_io::probe::place_of;
use haul_io::profile::{self, Entry, Measured, PlaceEntry, Profile, Setting, SizeClass, Source, may_be_preferred};
use haul_testbed::{Bed, Command, Fs, TempDir, create_painted, script_marked, skip, sparse_file, temp_dir};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

/// A directory with a file of 100 KiB, `config` and `home` in it.
fn scene() -> TempDir {
    let dir = temp_dir();
    for name in ["config/haul", "home/.config/haul"] {
        fs::create_dir_all(dir.path().join(name)).expect("it can be made");
    }
    create_painted(dir.path().join("a"), 100 << 10);
    dir
}

fn haul_as(name: &str, dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(HAUL);
    command.arg0(name).args(arguments).current_dir(dir).env("LC_ALL", "C");
    command.env("XDG_CONFIG_HOME", dir.join("config")).env("HOME", dir.join("home"));
    command.output().expect("it can be run")
}

fn haul(dir: &Path, arguments: &[&str]) -> Output {
    haul_as("haul", dir, arguments)
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What this profile says of files from 64 KiB to 4 MiB in this directory: an engine that haul does not choose by itself.
fn profile_of(dir: &Path, engine: EngineName) -> Profile {
    let setting = Setting { engine: Some(engine), buffer_size: Some(192 << 10), depth: None, workers: None };
    let entry = Entry { class: SizeClass::Small, source: None, setting, jobs: None, measured: Measured::default() };
    of(dir, vec![entry])
}

fn of(dir: &Path, entries: Vec<Entry>) -> Profile {
    let place = place_of(dir).expect("it can be opened").expect("it is known");
    let directory = dir.to_string_lossy().into_owned();
    Profile { places: vec![PlaceEntry { directory, place, entries, ..PlaceEntry::default() }] }
}

fn save(profile: &Profile, path: &Path) {
    fs::write(path, profile::to_text(profile)).expect("it can be written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("it is ours");
}

/// Which engine moved `a`, by the line of `--explain`.
fn engine_of(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    let text = out(output);
    let moved = text.lines().find(|line| line.contains("KiB") && !line.contains("->") && !line.contains("profile"));
    let moved = moved.unwrap_or_else(|| panic!("{text}"));
    moved.trim().split(':').next().unwrap_or_default().to_owned()
}

#[test]
fn a_profile_that_is_named_comes_before_the_usual_one_and_options_before_both() {
    let dir = scene();
    let at = |name: &str| dir.path().join(name);
    save(&profile_of(dir.path(), EngineName::Mapped), &at("config/haul/profile"));
    save(&profile_of(dir.path(), EngineName::Splice), &at("mine"));
    let engine = |options: &[&str]| {
        let output = haul(dir.path(), &[&["--reflink=never", "--explain", "-f"], options, &["a", "b"]].concat());
        assert_eq!(err(&output), "");
        engine_of(&output)
    };
    assert_eq!(engine(&["--profile=none"]), "read-write");
    assert_eq!(engine(&[]), "mapped");
    assert_eq!(engine(&["--profile=mine"]), "splice");
    assert_eq!(engine(&["--profile=mine", "--engine=mapped"]), "mapped");
    assert_eq!(engine(&["--profile=mine", "--profile", "none"]), "read-write", "the last one counts");
}

#[test]
fn the_home_directory_is_looked_into_where_no_configuration_directory_is_set() {
    let dir = scene();
    save(&profile_of(dir.path(), EngineName::Mapped), &dir.path().join("home/.config/haul/profile"));
    let mut command = Command::new(HAUL);
    command.args(["--explain", "--reflink=never", "a", "b"]).current_dir(dir.path()).env_remove("XDG_CONFIG_HOME");
    let output = command.env("HOME", dir.path().join("home")).output().expect("it can be run");
    assert_eq!(engine_of(&output), "mapped");
}

#[test]
fn called_as_cp_only_a_profile_that_is_named_is_read() {
    let dir = scene();
    let path = dir.path().join("config/haul/profile");
    save(&profile_of(dir.path(), EngineName::Mapped), &path);
    let options = ["--reflink=never", "--explain", "a", "b"];
    assert_eq!(engine_of(&haul_as("cp", dir.path(), &options)), "read-write");
    let named = format!("--profile={}", path.display());
    assert_eq!(engine_of(&haul_as("cp", dir.path(), &[&[named.as_str()], &options[..]].concat())), "mapped");
}

#[test]
fn what_a_profile_decided_is_reported() {
    let dir = scene();
    save(&profile_of(dir.path(), EngineName::Mapped), &dir.path().join("mine"));
    let options = ["--profile=mine", "--reflink=never", "--explain", "--stats=json", "a", "b"];
    let output = haul(dir.path(), &options);
    let text = out(&output);
    assert!(text.contains("profile 'mine': mapped, 192 KiB"), "{text}");
    assert!(text.contains("because the profile has measured"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&err(&output)).expect("one record");
    assert_eq!(json["profile"], serde_json::json!({ "read": ["mine"], "files": 1 }));
}

#[test]
fn a_profile_of_another_storage_is_not_applied() {
    let dir = scene();
    for change in [0, 1, 2] {
        let mut profile = profile_of(dir.path(), EngineName::Mapped);
        let place = &mut profile.places[0].place;
        match change {
            0 => place.id.push('0'),
            1 => place.device.push('0'),
            _ => place.filesystem.push('0'),
        }
        save(&profile, &dir.path().join("mine"));
        let output = haul(dir.path(), &["--profile=mine", "--reflink=never", "--explain", "-f", "a", "b"]);
        assert_eq!(engine_of(&output), "read-write");
    }
}

#[test]
fn a_copy_from_one_storage_to_another_is_none_within_either() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = bed.small(Fs::Tmpfs, 8 << 20) else { return };
    let dir = scene();
    let mut both = profile_of(dir.path(), EngineName::Mapped);
    both = both.before(profile_of(&place, EngineName::Mapped));
    save(&both, &dir.path().join("mine"));
    let copy = |from: &Path, to: &Path| {
        let names = [from.join("a"), to.join("b")].map(|path| path.to_string_lossy().into_owned());
        let options = ["--profile=mine", "--reflink=never", "--explain", "-f", &names[0], &names[1]];
        engine_of(&haul(dir.path(), &options))
    };
    create_painted(place.join("a"), 100 << 10);
    assert_eq!(copy(dir.path(), &place), "read-write");
    assert_eq!(copy(&place, &place), "mapped", "a tmpfs is a storage, too");
}

#[test]
fn a_bad_profile_that_is_named_is_an_error_and_nothing_is_copied() {
    let dir = scene();
    fs::write(dir.path().join("bad"), "format = \"haul-profile\"\nversion = 1\nspeed = 9\n")
        .expect("it can be written");
    fs::write(dir.path().join("new"), "format = \"haul-profile\"\nversion = 2\n").expect("it can be written");
    for (name, why) in [
        ("bad", "line 3: unknown key \"speed\""),
        ("new", "line 2: bad value of the key \"version\": this haul reads version 1"),
        ("missing", "No such file or directory"),
        ("home", "it is no regular file"),
    ] {
        let output = haul(dir.path(), &["--profile", name, "a", "b"]);
        let message = err(&output);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.starts_with(&format!("haul: cannot use the profile '{name}': {why}")), "{message}");
        assert!(!dir.path().join("b").exists());
    }
}

#[test]
fn a_bad_usual_profile_is_warned_about_and_the_copy_is_made() {
    let dir = scene();
    let path = dir.path().join("config/haul/profile");
    fs::write(&path, "format = \"haul-profile\"\nversion = 1\n[[place]]\nidea = 1\n").expect("it can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("it is ours");
    let output = haul(dir.path(), &["a", "b"]);
    let message = err(&output);
    assert!(message.starts_with("haul: warning: ignoring the profile '") && message.contains("line 4"), "{message}");
    assert!(output.status.success() && dir.path().join("b").exists());
    let output = haul(dir.path(), &["--profile=none", "a", "b"]);
    assert!(output.status.success() && err(&output).is_empty(), "none is not even looked at");
}

#[test]
fn a_profile_that_others_can_write_is_not_obeyed() {
    let dir = scene();
    let path = dir.path().join("config/haul/profile");
    save(&profile_of(dir.path(), EngineName::Mapped), &path);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("it is ours");
    let options = ["--reflink=never", "--explain", "-f", "a", "b"];
    let output = haul(dir.path(), &options);
    assert!(err(&output).contains("others may write to it"), "{}", err(&output));
    assert_eq!(engine_of(&output), "read-write");
    let named = format!("--profile={}", path.display());
    let output = haul(dir.path(), &[&[named.as_str()], &options[..]].concat());
    if rustix::process::geteuid().is_root() {
        assert_eq!(output.status.code(), Some(1));
        assert!(err(&output).contains("others may write to it"), "{}", err(&output));
    } else {
        skip("only root is guarded against what it names itself (needs root)");
        assert_eq!(engine_of(&output), "mapped");
    }
}

/// Files of all kinds, and of all sizes but the largest.
fn make_tree(dir: &Path) {
    fs::create_dir_all(dir.join("inner")).expect("it can be made");
    fs::write(dir.join("empty"), b"").expect("it can be written");
    for (name, size) in
        [("odd", 77), ("page", 4096), ("inner/tiny", 60_001), ("inner/small", 300_001), ("medium", 5 << 20)]
    {
        create_painted(dir.join(name), size);
    }
    create_painted(dir.join("large"), (33 << 20) + 5);
    sparse_file(dir.join("sparse"), 9 << 20, &[(4096, 4096), (5 << 20, 100)]);
    fs::write(dir.join("zeros"), vec![0; 1 << 20]).expect("it can be written");
    fs::hard_link(dir.join("odd"), dir.join("twin")).expect("it can be linked");
    symlink("odd", dir.join("link")).expect("it can be linked");
    fs::set_permissions(dir.join("inner/tiny"), fs::Permissions::from_mode(0o641)).expect("it is ours");
}

/// What stands there: kind, mode, owner, links, size, whether it has holes, time and contents.
fn listing(dir: &Path, times: bool) -> Vec<String> {
    let mut all = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(path) = left.pop() {
        let meta = fs::symlink_metadata(&path).expect("it is there");
        let mut line = format!("{:?} {:o} {} {}", path.strip_prefix(dir).ok(), meta.mode(), meta.uid(), meta.nlink());
        if times {
            line += &format!(" {}.{}", meta.mtime(), meta.mtime_nsec());
        }
        if meta.is_dir() {
            left.extend(
                fs::read_dir(&path).expect("it is a directory").map(|entry| entry.expect("it is there").path()),
            );
        } else if meta.is_file() {
            let bytes = fs::read(&path).expect("it can be read");
            fs::File::open(&path).and_then(|file| file.sync_all()).expect("it can be synced");
            let meta = fs::metadata(&path).expect("it is there");
            let holes = meta.blocks() * 512 < meta.len();
            line += &format!(
                " {} {holes} {:x}",
                bytes.len(),
                bytes.iter().fold(5381_u64, |sum, byte| { sum.wrapping_mul(33) ^ u64::from(*byte) })
            );
        }
        all.push(line);
    }
    all.sort();
    all
}

#[test]
fn the_profile_of_the_documentation_is_understood() {
    let profile = profile::parse(&script_marked("profiles.md", "toml"), "p").expect("it is a profile");
    let [measured, striped] = &profile.places[..] else { panic!("{profile:?}") };
    assert_eq!((measured.entries.len(), measured.jobs()), (2, Some(4)));
    let stripes = striped.striping.of_size(1 << 30).map(ToString::to_string);
    assert_eq!(stripes.as_deref(), Some("8 stripes of 4 MiB in the pool flash"));
    assert!(striped.striping.as_source);
}

/// Any profile at all for a place.
fn random_profile(random: &mut fastrand::Rng, dir: &Path) -> Profile {
    let engines: Vec<EngineName> = EngineName::ALL.into_iter().filter(|engine| may_be_preferred(*engine)).collect();
    let mut entries = Vec::new();
    for class in SizeClass::ALL {
        let both = class < SizeClass::Medium || random.bool();
        let sources = if both { vec![None] } else { vec![Some(Source::Cached), Some(Source::Cold)] };
        for source in sources {
            let setting = Setting {
                engine: Some(engines[random.usize(..engines.len())]).filter(|_| random.u8(..8) > 0),
                buffer_size: Some(random.usize(1..300_000) * random.usize(1..20)).filter(|_| random.bool()),
                depth: Some(random.usize(1..9)).filter(|_| random.bool()),
                workers: Some(random.usize(1..5)).filter(|_| random.bool()),
            };
            let jobs = Some(random.usize(1..9)).filter(|_| random.bool());
            entries.push(Entry { class, source, setting, jobs, measured: Measured::default() });
        }
    }
    of(dir, entries)
}

#[test]
fn no_profile_changes_what_a_copy_is() {
    let dir = scene();
    let tree = dir.path().join("tree");
    make_tree(&tree);
    let mut random = fastrand::Rng::with_seed(7);
    for (number, options) in [
        &["-r"][..],
        &["-a", "--reflink=never"],
        &["-a", "--sparse=always"],
        &["-a", "--sparse=never"],
        &["-a", "--cache=drop", "--reflink=never"],
        &["-a", "--cache=drop", "--jobs=1"],
        &["-a", "--verify", "--reflink=never"],
        &["-a", "--atomic", "--buffer-size=5000"],
    ]
    .into_iter()
    .enumerate()
    {
        let profile = dir.path().join("mine");
        save(&random_profile(&mut random, dir.path()), &profile);
        let text = fs::read_to_string(&profile).expect("it is there");
        let names = ["with", "without"].map(|name| format!("{name}-{number}"));
        for (name, option) in names.iter().zip(["--profile=mine", "--profile=none"]) {
            let output = haul(dir.path(), &[options, &[option, "tree", name]].concat());
            assert!(output.status.success(), "{options:?} {}\n{text}", err(&output));
        }
        let [with, without] = names.map(|name| listing(&dir.path().join(name), options != ["-r"]));
        assert_eq!(with, without, "{options:?}\n{text}");
        for name in ["with", "without"] {
            fs::remove_dir_all(dir.path().join(format!("{name}-{number}"))).expect("it can be removed");
        }
    }
}
