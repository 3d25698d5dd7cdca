//! Every command of the user's guide is run, page by page, where there is what the page speaks of.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

use haul_testbed::{Command, commands, create_painted, document, named, script, script_marked, skip, temp_dir};

/// What the pages speak of.
fn stage(dir: &Path) {
    for name in ["photos/raw", "project/target", "old", "backup", "elsewhere", "third", "fourth", "fifth", "usb"] {
        fs::create_dir_all(dir.join(name)).unwrap();
    }
    for (name, size) in [
        ("photos/1.jpg", 300_000),
        ("photos/2.jpg", 5),
        ("photos/raw/1.dng", 3_000_000),
        ("project/main.c", 2000),
        ("project/main.o", 4000),
        ("project/target/main", 9000),
        ("old/letter", 100),
    ] {
        create_painted(dir.join(name), size);
    }
}

/// A disk image with a filesystem, `disk.raw`; `false` without what makes it.
fn image(dir: &Path) -> bool {
    let made =
        Command::new("/sbin/mkfs.ext4").args(["-q", "-d", "photos", "disk.raw", "16M"]).current_dir(dir).output();
    match made {
        Ok(output) => output.status.success(),
        Err(_) => {
            skip("mkfs.ext4 is not installed");
            false
        }
    }
}

/// Runs a page in a new place and gives that; `None` where something is missing.
fn follow(page: &str) -> Option<haul_testbed::TempDir> {
    let dir = temp_dir();
    stage(dir.path());
    if !image(dir.path()) {
        return None;
    }
    let programs = dir.path().join("programs");
    fs::create_dir(&programs).unwrap();
    for name in ["haul", "smartcp"] {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_haul"), programs.join(name)).unwrap();
    }
    let script = script(page);
    assert!(script.contains("haul "), "{page} has no command");
    let output = Command::new("sh")
        .args(["-euxc", &script])
        .current_dir(dir.path())
        .env("PATH", format!("{}:{}", programs.display(), std::env::var("PATH").unwrap()))
        .env("XDG_CONFIG_HOME", dir.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{page}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    Some(dir)
}

/// Compares by another program.
fn same(dir: &haul_testbed::TempDir, one: &str, other: &str) {
    let diff = Command::new("diff").args(["-r", one, other]).current_dir(dir.path()).output().unwrap();
    assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
}

#[test]
fn instead_of_cp() {
    let Some(dir) = follow("guide/cp.md") else { return };
    same(&dir, "photos", "backup/photos");
    same(&dir, "photos/1.jpg", "copy.jpg");
}

#[test]
fn a_daily_backup() {
    let Some(dir) = follow("guide/backup.md") else { return };
    same(&dir, "photos", "backup/photos");
    assert!(!dir.path().join("backup/project/main.o").exists());
    assert!(!dir.path().join("backup/project/target").exists());
}

#[test]
fn disk_images() {
    let Some(dir) = follow("guide/images.md") else { return };
    same(&dir, "disk.raw", "copy2.raw");
}

#[test]
fn moving_terabytes() {
    let Some(dir) = follow("guide/terabytes.md") else { return };
    for place in ["backup", "elsewhere", "third", "fourth", "fifth"] {
        same(&dir, "photos", &format!("{place}/photos"));
    }
    assert!(dir.path().join("moved/letter").exists() && !dir.path().join("old").exists());
}

/// What the examples speak of, in a root of their own; `false` without what makes disk images.
fn stage_examples(root: &Path) -> bool {
    for dir in ["backup", "mnt/new", "mnt/usb", "etc", "scratch/out", "archive", "b", "here/dst"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    for file in [
        "home/me/letter",
        "data/in/1",
        "scratch/run7/1",
        "here/src/main.c",
        "here/src/main.o",
        "here/src/build/main",
        "here/old/letter",
        "here/a",
        "here/new.conf",
    ] {
        fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
        create_painted(root.join(file), 2000);
    }
    fs::write(root.join("here/.gitignore"), "*.o\n").unwrap();
    create_painted(root.join("here/big.img"), 5 << 20);
    let here = root.join("here");
    let run = |program: &str, arguments: &[&str]| {
        Command::new(program).args(arguments).current_dir(&here).output().is_ok_and(|output| output.status.success())
    };
    let made = run("/sbin/mkfs.ext4", &["-q", "-d", "src", "vm.img", "16M"])
        && run("qemu-img", &["convert", "-O", "qcow2", "vm.img", "vm.qcow2"]);
    if !made {
        skip("mkfs.ext4 or qemu-img is not installed");
    }
    made
}

/// Runs the commands of a page that are of haul alone, each in the same new root; `least` of them must be there.
fn examples(page: &str, least: usize) -> Option<haul_testbed::TempDir> {
    let dir = temp_dir();
    let root = dir.path();
    if !stage_examples(root) {
        return None;
    }
    fs::create_dir(root.join("programs")).unwrap();
    for name in ["haul", "smartcp"] {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_haul"), root.join("programs").join(name)).unwrap();
    }
    let examples = [commands(page, "haul"), commands(page, "smartcp")].concat();
    for example in &examples {
        // A command for the whole machine, in this root, without the program that reads what it prints.
        let here = example.replace(" /", &format!(" {}/", root.display()));
        let output = Command::new("sh")
            .args(["-c", here.split(" | ").next().unwrap()])
            .current_dir(root.join("here"))
            .env("PATH", format!("{}:{}", root.join("programs").display(), std::env::var("PATH").unwrap()))
            .env("XDG_CONFIG_HOME", root)
            .output()
            .unwrap();
        // The comparison finds that times were not kept; shards are missing.
        let differs = ["--compare", "--shard=status"].iter().any(|option| example.contains(option));
        let expected = Some(i32::from(differs));
        assert_eq!(output.status.code(), expected, "{example}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(examples.len() >= least, "{} examples were found", examples.len());
    Some(dir)
}

#[test]
fn the_examples_of_the_readme() {
    let Some(dir) = examples("../README.md", 14) else { return };
    same(&dir, "home", "backup/home");
    same(&dir, "here/src", "mnt/usb/src");
    same(&dir, "here/vm.img", "backup/vm.img");
    assert!(dir.path().join("mnt/new/old/letter").exists() && !dir.path().join("here/old").exists());
}

#[test]
fn filters() {
    let Some(dir) = examples("filters.md", 3) else { return };
    let here = dir.path().join("here");
    let from_git = commands("filters.md", "cd");
    let [from_git] = &from_git[..] else { panic!("{from_git:?}") };
    let script = format!(
        "(cd src && git init -q && git add main.c) && {}",
        from_git.replace("haul ", &format!("{} ", env!("CARGO_BIN_EXE_haul")))
    );
    let output = Command::new("sh").args(["-c", &script]).current_dir(&here).env("HOME", &here).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(here.join("export/main.c").exists() && !here.join("export/main.o").exists());
    assert!(here.join("backup/main.c").exists() && !here.join("backup/main.o").exists());
    assert!(here.join("only-c-files/main.c").exists() && !here.join("only-c-files/build/main").exists());
}

#[test]
fn mirrors() {
    let Some(dir) = examples("mirror.md", 4) else { return };
    same(&dir, "home", "backup/home");
}

#[test]
fn events() {
    let Some(dir) = examples("json.md", 1) else { return };
    same(&dir, "here/src", "here/dst/src");
}

#[test]
fn shards() {
    let Some(dir) = examples("cluster.md", 6) else { return };
    assert!(dir.path().join("here/run7.list").exists() && dir.path().join("here/list").exists());
}

#[test]
fn questions() {
    let Some(dir) = follow("faq.md") else { return };
    same(&dir, "photos", "usb/photos");
}

/// The pages whose commands tests run, and those of which programs: here all of a page, or those of haul alone, and the
/// others in the packages of their programs.
const RUN: &[(&str, &[&str])] = &[
    ("guide/cp.md", &[]),
    ("guide/backup.md", &[]),
    ("guide/images.md", &[]),
    ("guide/terabytes.md", &[]),
    ("faq.md", &[]),
    ("../README.md", &["haul", "smartcp", "mpirun", "haul-lab"]),
    ("filters.md", &["haul", "cd"]),
    ("mirror.md", &["haul"]),
    ("json.md", &["haul"]),
    ("cluster.md", &["haul", "mpirun"]),
    ("lab.md", &["haul-lab"]),
];

#[test]
fn every_command_of_the_documentation_is_run_or_says_why_not() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut pages: Vec<String> =
        ["../README.md", "../CONTRIBUTING.md", "../SECURITY.md", "../ARCHITECTURE.md"].map(Into::into).into();
    for dir in ["", "guide/"] {
        let entries = fs::read_dir(docs.join(dir)).unwrap().map(|entry| entry.unwrap().file_name());
        let names = entries.map(|name| format!("{dir}{}", name.to_str().unwrap()));
        pages.extend(names.filter(|name| name.ends_with(".md")));
    }
    for page in pages {
        let unknown: Vec<String> = document(&page)
            .lines()
            .filter(|line| line.starts_with("```") && line.contains("sh"))
            .filter(|line| !["```sh", "```sh,not-run", "```sh,cluster"].contains(line))
            .map(str::to_owned)
            .collect();
        assert!(unknown.is_empty(), "{page}: {unknown:?}");
        for line in script_marked(&page, "sh,cluster").lines() {
            let run = ["srun", "sbatch", "seq"];
            assert!(
                page == "cluster.md" && named(line).is_none_or(|name| run.contains(&name)),
                "{page}: no test runs {line:?}"
            );
        }
        let programs = match RUN.iter().find(|(run, _)| *run == page) {
            Some((_, [])) => continue,
            Some((_, programs)) => *programs,
            None => &[],
        };
        let script = script(&page).replace("\\\n", " ");
        for line in script.lines() {
            assert!(named(line).is_none_or(|name| programs.contains(&name)), "{page}: no test runs {line:?}");
        }
    }
}
