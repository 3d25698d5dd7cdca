//! One file with two identities: on a stacked filesystem, and on the one below.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

use haul_testbed::{Bed, Command, Fs, painted, skip};

use super::{HAUL, assert_tidy, haul, run, said};

/// A place with an overlay `merged` over `lower` and `upper`. `None`, after a skip, where there can be none.
fn overlay(bed: &Bed, kind: Fs) -> Option<PathBuf> {
    let place = bed.mount(kind)?;
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir(place.join(name)).expect("it can be made");
    }
    Some(place)
}

fn mount(place: &Path, options: &str) -> bool {
    let options = format!("lowerdir=lower,upperdir=upper,workdir=work{options}");
    let mounted = Command::new("mount")
        .args(["-t", "overlay", "overlay", "-o", &options, "merged"])
        .current_dir(place)
        .output()
        .expect("it can be run");
    if !mounted.status.success() {
        skip(format!("no overlay: {}", said(&mounted)));
    }
    mounted.status.success()
}

fn unmount(place: &Path) {
    run("umount", &[place.join("merged").to_str().expect("a name")]);
}

/// Copies over a file that is the source, in every way that an option makes a difference. What both names stand for
/// afterwards is what was there.
fn copies_onto_itself(kind: Fs, options: &str) {
    const WAYS: [&[&str]; 14] = [
        &[],
        &["-a"],
        &["-f"],
        &["--remove-destination"],
        &["-b"],
        &["--backup=numbered", "-p"],
        &["--atomic"],
        &["--verify"],
        &["--sparse=always"],
        &["--engine=io-uring"],
        &["--engine=direct"],
        &["--checksum=md5"],
        &["--smart"],
        &["-p", "--remove-destination", "--jobs=4"],
    ];
    let Some(bed) = Bed::new() else { return };
    let Some(place) = overlay(&bed, kind) else { return };
    let old = painted(300_000);
    for (layer, names) in [("lower", ["merged/f", "lower/f"]), ("upper", ["merged/f", "upper/f"])] {
        for [from, to] in [names, [names[1], names[0]]] {
            for way in WAYS {
                for dir in ["lower", "upper", "work"] {
                    fs::remove_dir_all(place.join(dir)).expect("it can be removed");
                    fs::create_dir(place.join(dir)).expect("it can be made");
                }
                fs::write(place.join(layer).join("f"), &old).expect("it can be written");
                if !mount(&place, options) {
                    return;
                }
                let output = haul(&place, &[way, &[from, to][..]].concat());
                let after = [from, to].map(|name| fs::read(place.join(name)));
                unmount(&place);
                let same = after.iter().all(|bytes| bytes.as_ref().is_ok_and(|bytes| *bytes == old));
                let sizes = after.map(|bytes| bytes.map(|bytes| bytes.len()));
                assert!(same, "{way:?} {from} {to} ({options}): {sizes:?}, {}", said(&output));
                assert_tidy(&place);
            }
        }
    }
}

#[test]
fn a_file_below_an_overlay_is_never_emptied_by_its_copy() {
    copies_onto_itself(Fs::Ext4, "");
}

#[test]
fn a_file_below_an_overlay_without_inode_numbers_of_its_own_is_never_emptied() {
    copies_onto_itself(Fs::Tmpfs, ",xino=off,metacopy=on,redirect_dir=on");
}

/// A mounted overlay with what a test needs.
fn with_overlay(test: impl FnOnce(&Path)) {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = overlay(&bed, Fs::Ext4) else { return };
    if mount(&place, "") {
        test(&place);
        unmount(&place);
    }
}

fn succeeds(output: &Output) {
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(output));
}

#[test]
fn a_tree_below_an_overlay_survives_a_copy_from_above() {
    with_overlay(|place| {
        fs::create_dir(place.join("upper/dir")).unwrap();
        for number in 0..50usize {
            fs::write(place.join(format!("upper/dir/{number}")), painted(number * 1000)).unwrap();
        }
        symlink("0", place.join("upper/dir/link")).unwrap();
        succeeds(&haul(place, &["-a", "-T", "--jobs=4", "merged/dir", "upper/dir"]));
        for number in 0..50usize {
            let bytes = fs::read(place.join(format!("upper/dir/{number}"))).unwrap();
            assert!(bytes == painted(number * 1000), "{number}: {} bytes", bytes.len());
        }
        assert_eq!(fs::read_link(place.join("upper/dir/link")).unwrap(), Path::new("0"));
        assert_tidy(place);
    });
}

#[test]
fn a_destination_that_is_proven_to_be_another_file_is_written_into() {
    with_overlay(|place| {
        for (old, new) in [("longer than the new one", "new"), ("old", "new")] {
            fs::write(place.join("merged/f"), new).unwrap();
            fs::write(place.join("there"), old).unwrap();
            fs::hard_link(place.join("there"), place.join("other-name")).unwrap();
            succeeds(&haul(place, &["merged/f", "there"]));
            assert_eq!(fs::read_to_string(place.join("other-name")).unwrap(), new);
            fs::remove_file(place.join("other-name")).unwrap();
        }
    });
}

#[test]
fn smartcp_refuses_the_file_below_an_overlay() {
    with_overlay(|place| {
        let image = painted(3 << 20);
        fs::write(place.join("upper/f"), &image).unwrap();
        for [from, to] in [["merged/f", "upper/f"], ["upper/f", "merged/f"]] {
            let output = Command::new(HAUL).arg0("smartcp").args([from, to]).current_dir(place).output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{}", said(&output));
            assert!(said(&output).contains("may be the same file"), "{}", said(&output));
            assert!(fs::read(place.join("upper/f")).unwrap() == image, "{from} {to}");
        }
    });
}

#[test]
fn a_backup_does_not_replace_the_source_below_an_overlay() {
    with_overlay(|place| {
        for [from, to, way] in
            [["upper/f~", "merged/f", "--backup=simple"], ["merged/f~", "upper/f", "--backup=existing"]]
        {
            fs::write(place.join("upper/f~"), "precious").unwrap();
            fs::write(place.join("upper/f"), "old").unwrap();
            let output = haul(place, &[way, from, to]);
            assert_eq!(output.status.code(), Some(1), "{}", said(&output));
            assert!(said(&output).contains("backing up"), "{}", said(&output));
            assert_eq!(fs::read_to_string(place.join("upper/f~")).unwrap(), "precious", "{from} {to}");
            assert_eq!(fs::read_to_string(place.join("upper/f")).unwrap(), "old", "{from} {to}");
        }
        // What is proven to be another file may be replaced.
        fs::write(place.join("f~"), "new").unwrap();
        succeeds(&haul(place, &["--backup=simple", "f~", "merged/f"]));
        assert_eq!(fs::read_to_string(place.join("merged/f")).unwrap(), "new");
        assert_eq!(fs::read_to_string(place.join("merged/f~")).unwrap(), "old");
        assert_tidy(place);
    });
}

#[test]
fn a_mirror_does_not_delete_its_source_below_an_overlay() {
    with_overlay(|place| {
        fs::create_dir_all(place.join("upper/a/dir")).unwrap();
        fs::write(place.join("upper/a/big"), painted(2000)).unwrap();
        fs::write(place.join("upper/a/dir/f"), "contents").unwrap();
        let modified = || fs::metadata(place.join("upper/a")).unwrap().modified().unwrap();
        let before = modified();
        // From the second one on, another directory stands beside it.
        for way in [&[][..], &["--atomic"], &["--jobs=4"]] {
            let output = haul(place, &[&["--mirror", "--max-size=1000"], way, &["upper/a", "merged"]].concat());
            assert_eq!(output.status.code(), Some(1), "{}", said(&output));
            assert!(said(&output).contains("not deleting 'merged/a': it is a source"), "{}", said(&output));
            assert!(fs::read(place.join("upper/a/big")).unwrap() == painted(2000), "{way:?}");
            assert_eq!(fs::read_to_string(place.join("upper/a/dir/f")).unwrap(), "contents", "{way:?}");
            assert_eq!(fs::read_to_string(place.join("merged/dir/f")).unwrap(), "contents", "{way:?}");
            assert!(!place.join("merged/other").exists(), "what is no source goes");
            assert_eq!(modified(), before, "{way:?}");
            fs::create_dir_all(place.join("merged/other/dir")).unwrap();
            fs::write(place.join("merged/other/dir/f"), "old").unwrap();
        }
        assert_tidy(place);
    });
}

#[test]
fn what_is_in_the_way_of_a_copy_stays_if_it_is_the_source() {
    with_overlay(|place| {
        // The file `b` of the source is to stand where the source itself is seen.
        fs::create_dir_all(place.join("upper/b/a")).unwrap();
        fs::write(place.join("upper/b/a/b"), "contents").unwrap();
        fs::write(place.join("upper/b/a/big"), painted(2000)).unwrap();
        let output = haul(place, &["--mirror", "--max-size=1000", "upper/b/a", "merged"]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains("not deleting 'merged/b/a': it is a source"), "{}", said(&output));
        assert_eq!(fs::read_to_string(place.join("upper/b/a/b")).unwrap(), "contents");
        assert!(fs::read(place.join("upper/b/a/big")).unwrap() == painted(2000));
        assert_tidy(place);
    });
}

#[test]
fn what_is_replaced_for_safety_keeps_owner_and_mode() {
    with_overlay(|place| {
        fs::write(place.join("upper/f"), "contents").unwrap();
        fs::set_permissions(place.join("upper/f"), PermissionsExt::from_mode(0o640)).unwrap();
        std::os::unix::fs::chown(place.join("upper/f"), Some(1234), Some(2345)).unwrap();
        succeeds(&haul(place, &["merged/f", "upper/f"]));
        let stat = fs::metadata(place.join("upper/f")).unwrap();
        assert_eq!((stat.mode() & 0o7777, stat.uid(), stat.gid()), (0o640, 1234, 2345));
    });
}

#[test]
fn a_mounted_file_with_the_contents_of_the_source_stays() {
    with_overlay(|place| {
        fs::write(place.join("merged/f"), "contents").unwrap();
        fs::write(place.join("stored"), "contents").unwrap();
        fs::write(place.join("mounted"), "").unwrap();
        let name = |name: &str| place.join(name).to_str().expect("a name").to_owned();
        run("mount", &["--bind", &name("stored"), &name("mounted")]);
        for _ in 0..2 {
            succeeds(&haul(place, &["merged/f", "mounted"]));
            assert_eq!(fs::read_to_string(place.join("stored")).unwrap(), "contents");
        }
        fs::write(place.join("merged/f"), "other contents").unwrap();
        succeeds(&haul(place, &["merged/f", "mounted"]));
        assert_eq!(fs::read_to_string(place.join("stored")).unwrap(), "other contents");
        run("umount", &[&name("mounted")]);
        assert_tidy(place);
    });
}
