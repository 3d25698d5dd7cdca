//! `haul-lab map` on images that other programs made.

use std::fs;
use std::path::Path;
use std::process::Output;

use haul_testbed::guest::{Noise, digests, has, run, write_noise};
use haul_testbed::{Command, allocated, sparse_file, temp_dir};

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_haul-lab")).arg("map").args(arguments).env("LC_ALL", "C").output().unwrap()
}

fn text(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn complaint(output: &Output) -> &str {
    assert_eq!((output.status.code(), text(output)), (Some(1), ""));
    std::str::from_utf8(&output.stderr).unwrap()
}

/// A disk of 64 MiB with a GPT, in which the second partition is an ext4 with a file.
fn disk(dir: &Path) -> Option<String> {
    if !["sfdisk", "mkfs.ext4"].into_iter().all(has) {
        return None;
    }
    let (image, files) = (dir.join("disk.img"), dir.join("files"));
    sparse_file(&image, 64 << 20, &[]);
    fs::create_dir(&files).unwrap();
    write_noise(&files.join("file"), 5 << 20, &mut Noise::new(1));
    assert_eq!(digests(&files).len(), 1);
    let script = dir.join("script");
    fs::write(&script, "label: gpt\nstart=1MiB, size=3MiB\nstart=8MiB, size=48MiB\n").unwrap();
    let mut sfdisk = Command::new("sfdisk");
    run(sfdisk.args(["-q", "--no-reread", "--no-tell-kernel"]).arg(&image).stdin(fs::File::open(script).unwrap()));
    let mut mkfs = Command::new("mkfs.ext4");
    mkfs.args(["-q", "-F", "-b", "4096", "-E", "nodiscard,offset=8388608", "-d"]).arg(files).arg(&image).arg("48M");
    run(&mut mkfs);
    Some(image.to_str().unwrap().to_owned())
}

#[test]
fn a_disk_with_a_filesystem_is_shown_and_nothing_is_written() {
    let dir = temp_dir();
    let Some(image) = disk(dir.path()) else { return };
    let before = (fs::read(&image).unwrap(), allocated(&image));
    let svg = dir.path().join("map.svg");
    let svg_name = svg.to_str().unwrap();
    let shown = lab(&["--scan", "--width=64", "--svg", svg_name, &image]);
    let drawn = text(&shown);
    assert!(shown.status.success() && shown.stderr.is_empty(), "{shown:?}");
    for words in ["GPT partition 2", "ext4", "mapped", "start of the disk", "the whole disk (64.0 MiB)", "# used"] {
        assert!(drawn.contains(words), "{words}\n{drawn}");
    }
    assert!(!drawn.contains('\x1b'), "colours without a terminal");
    let strip = drawn.lines().skip_while(|line| !line.starts_with("the whole disk")).nth(1).unwrap();
    assert_eq!(strip.len(), 64);
    assert!(strip.contains('#') && strip.contains('.'), "{strip}");
    let drawing = fs::read_to_string(&svg).unwrap();
    assert!(drawing.starts_with("<svg ") && drawing.contains("GPT partition 2: ext4, mapped"));
    // A second one replaces it.
    assert!(lab(&["--svg", svg_name, &image]).status.success());
    assert_eq!(before, (fs::read(&image).unwrap(), allocated(&image)));
}

#[test]
fn the_report_for_programs_is_that_of_the_map() {
    let dir = temp_dir();
    let Some(image) = disk(dir.path()) else { return };
    let shown = lab(&["--json", &image]);
    let json: serde_json::Value = serde_json::from_str(text(&shown)).unwrap();
    let region = json["regions"].as_array().unwrap().iter().find(|region| region["kind"] == "ext4").unwrap();
    assert_eq!((&json["size"], &region["verdict"]), (&(64 << 20).into(), &"mapped".into()));
    assert_eq!((&region["start"], &region["len"]), (&(8 << 20).into(), &(48 << 20).into()));
    assert!(region["free"].as_u64().unwrap() > 30 << 20);
    assert_eq!(text(&shown).lines().count(), 1);
}

#[test]
fn a_container_is_looked_into() {
    let dir = temp_dir();
    let Some(image) = disk(dir.path()) else { return };
    if !has("qemu-img") {
        return;
    }
    let qcow2 = format!("{image}.qcow2");
    run(Command::new("qemu-img").args(["convert", "-O", "qcow2", &image, &qcow2]));
    let shown = lab(&[&qcow2]);
    assert!(text(&shown).starts_with("a disk in a qcow2 container\n"), "{shown:?}");
    assert_eq!(text(&lab(&["--json", &qcow2])), text(&lab(&["--json", &image])));
    // The rest of a container that is cut off is no disk.
    fs::OpenOptions::new().write(true).open(&qcow2).unwrap().set_len(1 << 16).unwrap();
    let cut = lab(&[&qcow2]);
    assert!(String::from_utf8_lossy(&cut.stderr).contains("is a container that is not understood"), "{cut:?}");
}

#[test]
fn a_descriptor_is_the_disk_in_its_files() {
    let dir = temp_dir();
    let Some(image) = disk(dir.path()) else { return };
    if !has("qemu-img") {
        return;
    }
    let vmdk = dir.path().join("a.vmdk");
    let convert = ["convert", "-O", "vmdk", "-o", "subformat=monolithicFlat", &image];
    run(Command::new("qemu-img").args(convert).arg(&vmdk));
    let name = vmdk.to_str().unwrap();
    let drawn = lab(&["--width=64", name]);
    assert!(drawn.status.success() && drawn.stderr.is_empty(), "{drawn:?}");
    assert!(text(&drawn).starts_with("a disk in a vmdk container\n"), "{drawn:?}");
    assert_eq!(text(&lab(&["--json", name])), text(&lab(&["--json", &image])));
    // Somebody who has one of its files has the disk; and a drawing replaces none of them.
    let flat = dir.path().join("a-flat.vmdk");
    let writer = fs::OpenOptions::new().write(true).open(&flat).unwrap();
    assert!(String::from_utf8_lossy(&lab(&[name]).stderr).contains("is in use"));
    drop(writer);
    let refused = lab(&["--svg", flat.to_str().unwrap(), "--snapshot", name]);
    assert!(complaint(&refused).contains("it is the image"), "{refused:?}");
    // A link is followed, and that is said.
    fs::rename(&flat, dir.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", &flat).unwrap();
    let linked = lab(&["--json", "--snapshot", name]);
    assert!(String::from_utf8_lossy(&linked.stderr).contains("a-flat.vmdk\" is a symbolic link"), "{linked:?}");
    assert_eq!(text(&linked), text(&lab(&["--json", &image])));
}

#[test]
fn a_drawing_replaces_nothing_but_a_drawing() {
    let dir = temp_dir();
    let image = dir.path().join("image");
    fs::write(&image, vec![1; 8192]).unwrap();
    let other = dir.path().join("other");
    fs::write(&other, "precious").unwrap();
    std::os::unix::fs::symlink(&image, dir.path().join("link")).unwrap();
    let name = image.to_str().unwrap();
    for (svg, why) in [("link", "it is the image"), ("image", "it is the image"), ("other", "is no SVG drawing")] {
        let svg = dir.path().join(svg);
        let output = lab(&["--svg", svg.to_str().unwrap(), name]);
        assert!(complaint(&output).contains(why), "{output:?}");
    }
    assert_eq!(fs::read(&image).unwrap(), vec![1; 8192]);
    assert_eq!(fs::read(&other).unwrap(), b"precious");
}

#[test]
fn what_cannot_be_looked_at_is_an_error_with_status_1() {
    let dir = temp_dir();
    let missing = dir.path().join("missing");
    let output = lab(&[missing.to_str().unwrap()]);
    assert!(complaint(&output).contains("No such file or directory"), "{output:?}");
    assert!(complaint(&output).starts_with("haul-lab: "));
    let output = lab(&[dir.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let output = lab(&[]);
    assert!(complaint(&output).contains("Try 'haul-lab --help'"), "{output:?}");
}

#[test]
fn an_image_that_somebody_has_open_for_writing_is_named() {
    let dir = temp_dir();
    let image = dir.path().join("image");
    fs::write(&image, vec![1; 8192]).unwrap();
    let _writer = fs::OpenOptions::new().write(true).open(&image).unwrap();
    let name = image.to_str().unwrap();
    let warned = |output: &Output| String::from_utf8_lossy(&output.stderr).contains("is in use");
    let output = lab(&[name]);
    assert!(output.status.success() && warned(&output), "{output:?}");
    assert!(!warned(&lab(&["--snapshot", name])));
}
