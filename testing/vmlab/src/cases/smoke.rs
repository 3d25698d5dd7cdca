//! An ordinary set of copies on a kernel that is not the host's.

use std::fs::{self, File};
use std::path::Path;

use haul_io::engine::{EngineName, Role};

use crate::haul;
use crate::lab::{Found, Lab};
use crate::tool;
use crate::tree::{self, ALL};

/// Plays it.
pub fn run(lab: &mut Lab) -> Result<(), String> {
    let source = &lab.mounted("ext4", "source", 256)?.join("tree");
    tree::plant(source, ALL)?;
    for kind in ["ext4", "btrfs", "xfs"] {
        let at = lab.mounted(kind, kind, 512)?;
        let tree = at.join("tree");
        lab.check(&format!("ext4 -> {kind}: -a"), || {
            let run = haul::right(&format!("-aT {} {}", source.display(), tree.display()))?;
            tree::same(source, &tree, ALL)?;
            tree::haul_agrees(source, &tree)?;
            Ok(Found::new(&run, "equal"))
        });
        lab.check(&format!("within {kind}: -a"), || {
            let run = haul::right(&format!("-aT {} {}", tree.display(), at.join("again").display()))?;
            tree::same(source, &at.join("again"), ALL)?;
            Ok(Found::new(&run, "equal"))
        });
    }
    engines(lab, Path::new("/tmp/guest/xfs"));
    promises(lab, source);
    image(lab, source, Path::new("/tmp/guest/ext4"))
}

/// Copies that promise more.
fn promises(lab: &mut Lab, source: &Path) {
    for kind in ["ext4", "xfs", "btrfs"] {
        lab.check(&format!("ext4 -> {kind}: --atomic --durable=file --verify=device"), || {
            let (from, to) = (source.join("a"), Path::new("/tmp/guest").join(kind).join("staged"));
            let options = "-a --atomic --durable=file --verify=device";
            haul::right(&format!("{options} -T {} {}", from.display(), to.display()))?;
            let run = haul::right(&format!("{options} -T {} {}", from.display(), to.display()))?;
            tree::forget_cache()?;
            tree::same(&from, &to, ALL)?;
            Ok(Found::new(&run, "equal, made and replaced"))
        });
    }
}

/// The image of a disk with an ext4 filesystem.
fn image(lab: &mut Lab, source: &Path, at: &Path) -> Result<(), String> {
    let (image, copy) = (at.join("image"), at.join("image-copy"));
    File::create(&image).and_then(|file| file.set_len(48 << 20)).map_err(|error| error.to_string())?;
    tool::run(&format!("mkfs.ext4 -q -F -d {} {}", source.join("a").display(), image.display()))?;
    lab.check("a disk image: --smart", || {
        let run = haul::right(&format!("--smart=require {} {}", image.display(), copy.display()))?;
        tool::run("modprobe loop")?;
        fs::create_dir_all("/tmp/guest/disk").map_err(|error| error.to_string())?;
        tool::run(&format!("mount -o loop,ro {} /tmp/guest/disk", copy.display()))?;
        // The image has a directory for what is found when it is repaired.
        let same = tool::run(&format!(
            "diff --recursive --no-dereference --exclude=lost+found --exclude=fifo {} /tmp/guest/disk",
            source.join("a").display()
        ));
        tool::run("umount /tmp/guest/disk")?;
        same?;
        tool::run(&format!("e2fsck -fn {}", copy.display()))?;
        Ok(Found::new(&run, format!("its files equal; {} KiB of 49152", tree::allocated(&copy)?)))
    });
    Ok(())
}

/// Each engine with a tree within one filesystem.
fn engines(lab: &mut Lab, at: &Path) {
    let source = at.join("tree");
    for name in EngineName::ALL.into_iter().filter(|name| name.caps().role != Role::Dummy) {
        lab.check(&format!("--engine={name}"), || {
            let copy = at.join(name.as_str());
            let run = haul::run(&format!("-a --engine={name} -T {} {}", source.display(), copy.display()))?;
            if run.failed() {
                return Err(run.report().into());
            }
            tool::run(&format!(
                "diff --recursive --no-dereference --exclude=fifo {} {}",
                source.display(),
                copy.display()
            ))?;
            tool::run(&format!("rm -r {}", copy.display()))?;
            Ok(Found::new(&run, if run.said.is_empty() { "equal".into() } else { format!("equal; {}", run.said) }))
        });
    }
}
