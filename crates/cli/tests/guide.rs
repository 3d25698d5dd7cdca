//! Every command of the user's guide is run, page by page, where there is what the page speaks of.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

use haul_testbed::{Command, create_painted, document, skip, temp_dir};

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

/// The blocks of a page that are for a shell, as one script. Those that need something else say so.
fn commands(page: &str) -> String {
    let mut script = String::new();
    let mut inside = false;
    for line in document(page).lines() {
        match line {
            "```sh" => inside = true,
            "```" => inside = false,
            line if inside => script += &format!("{line}\n"),
            _ => {}
        }
    }
    script
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
    let script = commands(page);
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

/// Runs the commands of a page that are of haul alone, each in the same new root; `least` of them must be there. Those of
/// haul-lab, haul-mpi and haul-model have tests in their packages.
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
    let script = commands(page);
    let examples = script.lines().filter(|line| line.starts_with("haul ") || line.starts_with("smartcp "));
    let mut count = 0;
    for example in examples {
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
        count += 1;
    }
    assert!(count >= least, "{count} examples were found");
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
