//! What stands at the destination, or would stand there: old rights, FIFOs, symbolic links, the source itself.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Output;

use haul_testbed::{Bed, Command, Fs, painted, skip, temp_dir};
use rustix::fs::OFlags;

use super::{HAUL, assert_tidy, haul, run, said, succeeds};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("it is there").mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("its mode can be set");
}

/// haul, killed if it waits for somebody who never comes.
fn with_deadline(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60", HAUL]).args(arguments).current_dir(dir).env("LC_ALL", "C");
    let output = command.output().expect("it can be run");
    assert_ne!(output.status.code(), Some(137), "{arguments:?} waits for ever");
    output
}

#[test]
fn special_bits_of_an_overwritten_file_end_as_the_sources() {
    let Some(bed) = Bed::new() else { return };
    for kind in [Fs::Ext4, Fs::Tmpfs] {
        let Some(place) = bed.mount(kind) else { continue };
        let (new, old) = (place.join("new"), place.join("old"));
        for acl in [false, true] {
            fs::write(&new, "new").unwrap();
            if acl {
                run("setfacl", &["-m", "u:1:r", new.to_str().expect("a name")]);
            }
            for wanted in [0o644, 0o755, 0o2755] {
                set_mode(&new, wanted);
                for before in [0o4755, 0o2755, 0o1644, 0o6777] {
                    for options in [&["-a"][..], &["-p"], &["-a", "--atomic"], &["-a", "--attributes-only"]] {
                        fs::write(&old, "old").unwrap();
                        set_mode(&old, before);
                        succeeds(&place, &[options, &["new", "old"]].concat());
                        assert_eq!(mode(&old), mode(&new), "{options:?} over {before:o} with an ACL: {acl}");
                        if options[options.len() - 1] != "--attributes-only" {
                            succeeds(&place, &["-a", "--compare", "-T", "new", "old"]);
                        }
                    }
                }
            }
            fs::remove_file(&new).unwrap();
            fs::remove_file(&old).unwrap();
        }
    }
}

#[test]
fn an_existing_directory_keeps_its_set_group_id_bit() {
    let dir = temp_dir();
    fs::create_dir(dir.path().join("s")).unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    set_mode(&dir.path().join("s"), 0o755);
    set_mode(&dir.path().join("d"), 0o2750);
    succeeds(dir.path(), &["-aT", "s", "d"]);
    assert_eq!(mode(&dir.path().join("d")), 0o2755);
}

fn make_fifo(path: &Path) {
    run("mkfifo", &[path.to_str().expect("a name")]);
}

#[test]
fn a_fifo_that_nobody_reads_is_an_error() {
    for options in [&["-a"][..], &["-r"], &["-a", "--jobs=4"], &["-a", "--atomic"], &["-a", "--verify"], &["--atomic"]]
    {
        let dir = temp_dir();
        let place = dir.path();
        for name in ["s", "d"] {
            fs::create_dir(place.join(name)).unwrap();
        }
        fs::write(place.join("s/f"), "contents").unwrap();
        fs::write(place.join("s/other"), "contents").unwrap();
        make_fifo(&place.join("d/f"));
        let operands = if options == ["--atomic"] { ["s/f", "d/f"] } else { ["s", "d"] };
        let output = with_deadline(place, &[options, &["-T"], &operands[..]].concat());
        assert_eq!(output.status.code(), Some(1), "{options:?}");
        let words = "cannot create regular file 'd/f': No such device or address";
        assert!(said(&output).contains(words), "{options:?}: {}", said(&output));
        assert!(fs::symlink_metadata(place.join("d/f")).unwrap().file_type().is_fifo());
        if operands == ["s", "d"] {
            assert_eq!(fs::read_to_string(place.join("d/other")).unwrap(), "contents", "{options:?}");
        }
        assert_tidy(place);
    }
}

#[test]
fn a_fifo_that_somebody_reads_is_written_to() {
    let dir = temp_dir();
    let place = dir.path();
    fs::write(place.join("f"), "contents").unwrap();
    make_fifo(&place.join("fifo"));
    for options in [&["-a"][..], &["-r"], &["--atomic"], &[]] {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let mut reader = File::options().read(true).custom_flags(flags).open(place.join("fifo")).unwrap();
        let output = with_deadline(place, &[options, &["-T", "f", "fifo"]].concat());
        assert!(output.status.success(), "{options:?}: {}", said(&output));
        let mut bytes = String::new();
        reader.read_to_string(&mut bytes).unwrap();
        assert_eq!(bytes, "contents", "{options:?}");
        assert_tidy(place);
    }
}

#[test]
fn a_named_fifo_waits_for_its_reader() {
    let dir = temp_dir();
    let place = dir.path();
    fs::write(place.join("f"), "contents").unwrap();
    make_fifo(&place.join("fifo"));
    // The reader opens the FIFO when haul has done so, or before: either waits for the other.
    let mut child = Command::new("timeout")
        .args(["-s", "KILL", "60", HAUL, "f", "fifo"])
        .current_dir(place)
        .spawn()
        .expect("it can be run");
    assert_eq!(fs::read_to_string(place.join("fifo")).unwrap(), "contents");
    assert!(child.wait().unwrap().success());
}

/// What stands below a directory: names, kinds, contents and links.
fn described(dir: &Path) -> String {
    let output = Command::new("find")
        .args([".", "-printf", "%P %y %n %l ", "-type", "f", "-exec", "cat", "{}", ";", "-o", "-printf", "\n"])
        .current_dir(dir)
        .output()
        .expect("it can be run");
    let mut lines: Vec<_> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    lines.join("\n")
}

#[test]
fn hard_links_over_symbolic_links_end_as_with_cp() {
    const SCENES: [&str; 3] = [
        "echo x >x; ln -s ../x d/a; ln -s ../x d/b; ln -s ../x d/c",
        "echo x >x; ln -s ../x d/a; echo other >d/b; echo other >d/c",
        "echo x >x; echo y >y; ln -s ../x d/a; ln -s ../y d/b; ln -s ../y d/c",
    ];
    for scene in SCENES {
        for options in [&["-a"][..], &["-a", "--jobs=4"], &["-a", "-L"], &["-a", "--atomic"], &["-a", "--durable=file"]]
        {
            let dirs = [temp_dir(), temp_dir()];
            for dir in &dirs {
                let script = format!("mkdir s d; echo new >s/a; ln s/a s/b; ln s/a s/c; {scene}");
                let made = Command::new("sh").args(["-ec", &script]).current_dir(dir.path()).status();
                assert!(made.expect("it can be run").success());
            }
            // Which name comes first is a matter of inode numbers and names: the same in both.
            let plain: Vec<_> =
                options.iter().copied().filter(|option| !option.starts_with("--")).chain(["-T", "s", "d"]).collect();
            let cp = Command::new("/usr/bin/cp").args(&plain).current_dir(dirs[0].path()).status();
            assert!(cp.expect("it can be run").success());
            succeeds(dirs[1].path(), &[options, &["-T", "s", "d"]].concat());
            for name in ["d/a", "d/b", "d/c"] {
                assert_eq!(fs::read_to_string(dirs[1].path().join(name)).unwrap(), "new\n", "{scene} {options:?}");
            }
            let described = dirs.each_ref().map(|dir| described(dir.path()));
            assert!(
                described[0] == described[1],
                "{scene} {options:?}\ncp:\n{}\nhaul:\n{}",
                described[0],
                described[1]
            );
        }
    }
}

#[test]
fn a_copy_into_itself_leaves_nothing() {
    const CALLS: [&[&str]; 9] = [
        &["-a", "d", "d/new"],
        &["-a", "d", "d/sub"],
        &["-a", "d", "d"],
        &["-a", "d", "d/sub/new"],
        &["-a", "--jobs=4", "d", "d/new"],
        &["-a", "--parents", "d", "d/sub"],
        &["-a", "--resume", "-T", "d", "d/new"],
        &["-a", "--resume", "-t", "d/sub", "d"],
        &["-rl", "d", "d/new"],
    ];
    for call in CALLS {
        let dir = temp_dir();
        fs::create_dir_all(dir.path().join("d/sub/deeper")).unwrap();
        fs::write(dir.path().join("d/f"), "contents").unwrap();
        symlink("f", dir.path().join("d/link")).unwrap();
        let before = described(dir.path());
        let output = haul(dir.path(), call);
        assert_eq!(output.status.code(), Some(1), "{call:?}");
        let words = "cannot copy a directory, 'd', into itself, 'd/";
        assert!(said(&output).contains(words), "{call:?}: {}", said(&output));
        assert_eq!(said(&output).lines().count(), 1, "{call:?}: {}", said(&output));
        assert_eq!(described(dir.path()), before, "{call:?}");
    }
    let dir = temp_dir();
    fs::write(dir.path().join("f"), "contents").unwrap();
    let before = described(dir.path());
    let output = haul(dir.path(), &["-a", ".", "./x"]);
    assert!(!output.status.success() && said(&output).contains("into itself, './x'"), "{}", said(&output));
    assert_eq!(described(dir.path()), before);
}

#[test]
fn other_sources_are_copied_beside_one_that_cannot_be() {
    let dir = temp_dir();
    fs::create_dir(dir.path().join("d")).unwrap();
    fs::write(dir.path().join("f"), "contents").unwrap();
    let output = haul(dir.path(), &["-a", "d", "f", "d"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read_to_string(dir.path().join("d/f")).unwrap(), "contents");
    assert!(!dir.path().join("d/d").exists());
}

#[test]
fn one_file_system_is_copied_to_another_one_mounted_in_it() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = bed.mount(Fs::Tmpfs) else { return };
    fs::create_dir_all(place.join("root/mnt")).unwrap();
    fs::write(place.join("root/f"), "contents").unwrap();
    run("mount", &["-t", "tmpfs", "tmpfs", place.join("root/mnt").to_str().expect("a name")]);
    succeeds(&place, &["-ax", "root", "root/mnt/copy"]);
    assert_eq!(fs::read_to_string(place.join("root/mnt/copy/f")).unwrap(), "contents");
    assert!(fs::read_dir(place.join("root/mnt/copy/mnt")).unwrap().next().is_none());
    run("umount", &[place.join("root/mnt").to_str().expect("a name")]);
}

#[test]
fn nodes_are_copied_whole_without_proc() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = bed.mount(Fs::Ext4) else { return };
    if !has_fchmodat2() {
        skip("before Linux 6.6 the mode of a node cannot be set without /proc");
        return;
    }
    fs::create_dir(place.join("s")).unwrap();
    for (name, wanted) in [("fifo", 0o640), ("suid", 0o4751)] {
        make_fifo(&place.join("s").join(name));
        set_mode(&place.join("s").join(name), wanted);
    }
    run("mknod", &[place.join("s/null").to_str().expect("a name"), "c", "1", "3"]);
    symlink("nowhere", place.join("s/link")).unwrap();
    create_linked(&place.join("s"));
    // Whatever a test looks at in /proc comes before and after.
    run("mount", &["-t", "tmpfs", "tmpfs", "/proc"]);
    let outputs = [&["-a", "s", "d"][..], &["-a", "--jobs=4", "s", "d4"], &["-a", "--atomic", "s", "da"]]
        .map(|call| haul(&place, call));
    run_unmount_proc();
    for (output, copy) in outputs.iter().zip(["d", "d4", "da"]) {
        assert!(output.status.success() && output.stderr.is_empty(), "{copy}: {}", said(output));
        super::assert_same_trees(&place.join("s"), &place.join(copy));
    }
}

fn create_linked(dir: &Path) {
    fs::write(dir.join("file"), painted(100_000)).expect("it can be written");
    fs::hard_link(dir.join("file"), dir.join("linked")).expect("it can be linked");
}

/// Linux 6.6.
fn has_fchmodat2() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("it can be read");
    let mut numbers = release.split(['.', '-']).map(|number| number.trim().parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(6))
}

fn run_unmount_proc() {
    run("umount", &["/proc"]);
}
