//! Trees with images in them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use haul_testbed::guest::Noise;
use haul_testbed::{Bed, Fs, temp_dir};

use crate::harness::{Image, MIB, Program, assert_holds, ext4, settled};

/// A tree with three images, one of which has two names more, and files beside them.
fn tree(bed: &Bed, dir: &Path) -> Option<Vec<(String, Vec<u8>)>> {
    let mut copies = Vec::new();
    for sub in ["a", "b", "c/d"] {
        fs::create_dir_all(dir.join(sub)).expect("it can be made");
    }
    for (number, name) in ["a/disk", "b/disk", "c/d/disk"].into_iter().enumerate() {
        let image = ext4(bed, &dir.join(name), 24 * MIB, 20 + number as u64)?;
        copies.push((name.to_owned(), image.copied()));
    }
    for name in ["b/again", "c/again"] {
        fs::hard_link(dir.join("a/disk"), dir.join(name)).expect("it can be linked");
        let copied = copies.first().expect("there are three").1.clone();
        copies.push((name.to_owned(), copied));
    }
    for number in 0..200 {
        let mut noise = Noise::new(number);
        let len = if number % 40 == 0 { 2 << 20 } else { noise.below(30_000) as usize };
        let (name, bytes) = (format!("{}/f{number}", ["a", "b", "c", "c/d"][number as usize % 4]), noise.bytes(len));
        fs::write(dir.join(&name), &bytes).expect("it can be written");
        copies.push((name, bytes));
    }
    for (name, _) in &copies {
        settled(&dir.join(name));
    }
    Some(copies)
}

#[test]
fn a_tree_of_several_images_is_copied_by_several_threads() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let Some(copies) = tree(&bed, &dir.path().join("tree")) else { return };
    for (jobs, options) in [("4", &["-a"][..]), ("4", &["-r"]), ("1", &["-a"]), ("16", &["-a", "--limit=200M"])] {
        let jobs = format!("--jobs={jobs}");
        let (status, _, err) = Program::Haul.run(dir.path(), &[options, &[&jobs, "tree", "copy"]].concat());
        assert_eq!((status, err.as_str()), (Some(0), ""), "{jobs} {options:?}");
        let copy = dir.path().join("copy");
        for (name, bytes) in &copies {
            assert_holds(&copy.join(name), bytes, &format!("{jobs} {options:?} {name}"));
        }
        let inode = |name: &str| fs::metadata(copy.join(name)).expect("there").ino();
        let linked = [inode("b/again"), inode("c/again")].iter().all(|other| *other == inode("a/disk"));
        assert_eq!(linked, options.contains(&"-a"));
        // Again, over what is there.
        let (status, _, err) = Program::Haul.run(dir.path(), &[options, &[&jobs, "-T", "tree", "copy"]].concat());
        assert_eq!((status, err.as_str()), (Some(0), ""), "{jobs} {options:?}, again");
        for (name, bytes) in &copies {
            assert_holds(&copy.join(name), bytes, &format!("{jobs} {options:?} {name}, again"));
        }
        fs::remove_dir_all(&copy).expect("it is there");
    }
}

#[test]
fn an_image_for_which_there_is_no_room_fails_alone() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    for kind in Fs::ALL {
        let Some(full) = bed.small(kind, 32 * MIB) else { continue };
        let size = full_size(&full);
        fs::create_dir_all(at("tree")).expect("it can be made");
        let Some(image) = ext4(&bed, &at("tree/fits"), 24 * MIB, 31) else { return };
        // What is behind the filesystem is not free, and alone too much.
        fs::copy(at("tree/fits"), at("tree/large")).expect("it can be copied");
        let mut large = fs::OpenOptions::new().append(true).open(at("tree/large")).expect("it is there");
        let noise = Noise::new(5).bytes(8 << 20);
        for _ in 0..size.div_ceil(8 * MIB) {
            std::io::Write::write_all(&mut large, &noise).expect("it can be written");
        }
        drop(large);
        for name in ["fits", "large"] {
            settled(&at("tree").join(name));
        }
        for number in 0..20 {
            fs::write(at("tree").join(format!("f{number}")), vec![number; 3000]).expect("it can be written");
        }
        let copy = full.join("copy");
        for (program, jobs) in [(Program::Haul, "--jobs=4"), (Program::Haul, "--jobs=1"), (Program::Smartcp, "")] {
            let what = format!("{} {program:?} {jobs}", kind.name());
            let names: Vec<String> = fs::read_dir(at("tree"))
                .expect("there")
                .map(|entry| format!("tree/{}", entry.expect("there").file_name().to_string_lossy()))
                .collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            fs::create_dir_all(&copy).expect("it can be made");
            let (status, _, err) = match program {
                Program::Haul => program.run(dir.path(), &["-r", jobs, "-T", "tree", copy.to_str().expect("a name")]),
                Program::Smartcp => program.run(dir.path(), &[&names[..], &[copy.to_str().expect("a name")]].concat()),
            };
            assert_eq!(status, Some(1), "{what}: {err}");
            assert!(err.contains("large': No space left on device"), "{what}: {err}");
            assert_eq!(err.lines().count(), 1, "{what}: {err}");
            assert!(!copy.join("large").exists(), "{what}");
            assert_holds(&copy.join("fits"), &image.copied(), &what);
            for number in 0..20 {
                assert_holds(&copy.join(format!("f{number}")), &[number; 3000], &what);
            }
            // An old one that is lost is named, and does not look whole.
            fs::write(copy.join("large"), "old").expect("there is room");
            let large = copy.join("large");
            let (status, _, err) = program.run(dir.path(), &["tree/large", large.to_str().expect("a name")]);
            assert_eq!(status, Some(1), "{what}: {err}");
            assert!(err.contains("No space left on device") && err.contains("is now incomplete"), "{what}: {err}");
            assert_ne!(
                fs::metadata(&large).expect("there").len(),
                fs::metadata(at("tree/large")).expect("there").len()
            );
            fs::remove_dir_all(&copy).expect("it is there");
        }
        fs::remove_dir_all(at("tree")).expect("it is there");
    }
}

/// Bytes of a filesystem.
fn full_size(dir: &Path) -> u64 {
    let found = rustix::fs::statvfs(dir).expect("it is mounted");
    found.f_blocks * found.f_frsize
}

#[test]
fn an_image_in_a_tree_has_the_same_copy_as_one_alone() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("tree")).expect("it can be made");
    let Some(_) = ext4(&bed, &at("tree/disk"), 24 * MIB, 33) else { return };
    // Several filesystems, with what is not free between them.
    let disk = fs::read(at("tree/disk")).expect("there");
    fs::write(at("tree/twice"), [&disk[..], &[9; 5000], &disk[..]].concat()).expect("it can be written");
    settled(&at("tree/twice"));
    for name in ["disk", "twice"] {
        let image = Image::of(&at("tree").join(name));
        let (status, _, err) = Program::Haul.run(dir.path(), &["-r", "--jobs=4", "-T", "tree", "copy"]);
        assert_eq!((status, err.as_str()), (Some(0), ""));
        let (status, _, err) = Program::Smartcp.run(dir.path(), &[&format!("tree/{name}"), "alone"]);
        assert_eq!((status, err.as_str()), (Some(0), ""));
        assert_holds(&at("copy").join(name), &image.copied(), name);
        assert_holds(&at("alone"), &image.copied(), name);
    }
}
