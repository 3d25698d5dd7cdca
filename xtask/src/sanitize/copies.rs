//! Copies of a tree by a `haul` that was built for a sanitizer, compared by rsync.

use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

use super::place::Place;
use crate::shell::{self, Result};

/// Ways to copy the tree; each must give the same.
const WAYS: [&[&str]; 18] = [
    &[],
    &["--jobs=4"],
    &["--engine=reference"],
    &["--engine=read-write"],
    &["--engine=copy-range"],
    &["--engine=splice"],
    &["--engine=mapped"],
    &["--engine=mapped-direct"],
    &["--engine=direct"],
    &["--engine=io-uring", "--jobs=4"],
    &["--engine=linux-aio"],
    &["--engine=posix-aio"],
    &["--engine=dontcache"],
    &["--verify=read", "--jobs=4"],
    &["--verify=device"],
    &["--resume"],
    &["--durable=file", "--jobs=4"],
    &["--smart"],
];

/// Copies in each way; gives how many copies were right and how many were not.
pub fn run(place: &Place) -> Result<(u64, u64)> {
    let source = place.scratch.join("source");
    tree(&source).map_err(shell::at(&source))?;
    image(&source.join("disk.img"))?;
    let (mut right, mut wrong) = (0, 0);
    for (number, way) in WAYS.iter().enumerate() {
        let dest = place.scratch.join(format!("copy-{number}"));
        match copy(place, way, &source, &dest) {
            Ok(()) => right += 1,
            Err(why) => {
                wrong += 1;
                println!("failed: haul -aT {}: {why}", way.join(" "));
            }
        }
        fs::remove_dir_all(&dest).map_err(shell::at(&dest))?;
    }
    fs::remove_dir_all(&source).map_err(shell::at(&source))?;
    println!("{right} copies are as their source, {wrong} are not");
    Ok((right, wrong))
}

fn copy(place: &Place, way: &[&str], source: &Path, dest: &Path) -> Result {
    let mut haul = shell::command(place.programs().join("haul"));
    haul.arg("-aT").args(way).arg(source).arg(dest);
    place.options(&mut haul);
    shell::run(&mut haul)?;
    let mut rsync = shell::command("rsync");
    rsync.args(["-aHAX", "--dry-run", "--checksum", "--delete", "--itemize-changes"]);
    // With a slash it is what is in the directory.
    rsync.arg(format!("{}/", source.display())).arg(format!("{}/", dest.display()));
    let differences = shell::output(&mut rsync)?;
    if differences.is_empty() { Ok(()) } else { Err(format!("the copy differs:\n{differences}")) }
}

/// Files of sizes around pages and buffers, a large one, holes, links, and many small files in directories to share.
fn tree(root: &Path) -> std::io::Result<()> {
    fs::create_dir_all(root)?;
    for size in [0, 1, 4095, 4096, 4097, 65_537, (1 << 20) + 3, (9 << 20) + 1] {
        fs::write(root.join(format!("size-{size}")), bytes(size, size))?;
    }
    let sparse = fs::File::create(root.join("sparse"))?;
    sparse.write_all_at(&bytes(70_000, 1), 3 << 20)?;
    sparse.set_len(20 << 20)?;
    symlink("size-4096", root.join("link"))?;
    symlink("nowhere", root.join("dangling"))?;
    fs::hard_link(root.join("size-4097"), root.join("second-name"))?;
    for directory in 0..16 {
        let directory = root.join(format!("directory-{directory}/inner"));
        fs::create_dir_all(&directory)?;
        for file in 0..16 {
            fs::write(directory.join(format!("file-{file}")), bytes(file * 700, file))?;
        }
    }
    Ok(())
}

/// Bytes that differ from place to place.
fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251 + at / 4096 + seed) as u8).collect()
}

/// A disk image with a filesystem on it. What is free is zeros, so that a copy by `--smart` has the same bytes.
fn image(path: &Path) -> Result {
    let file = fs::File::create(path).map_err(shell::at(path))?;
    file.set_len(32 << 20).map_err(shell::at(path))?;
    // The system's own programs are files to put in it.
    shell::output(shell::command("mkfs.ext4").args(["-q", "-F", "-d", "/etc/default"]).arg(path)).map(drop)
}
