//! Where a workload runs: its filesystems, its source, the room for copies, and the state of memory before each run.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use haul_measure::cache;
use haul_measure::own::Own;
use haul_measure::storage::Storage;
use haul_sys::rustix::fs::{statvfs, syncfs};

use super::super::options::Options;
use super::super::place::{self, Place};
use super::super::surroundings::{drop_caches, warm_memory};
use super::programs::{Program, Shape, Task};
use super::sources::{self, Extent, Source};
use super::workload::{Fs, Workload};
use crate::shell::{self, Result};

/// More inodes than this in the removed copies, and ext4 needs time to forget them.
const FEW: u64 = 1000;
/// After large files were removed: the discards of their blocks.
const SHORT: Duration = Duration::from_secs(2);
/// What the kernel keeps for an inode and its name in memory, roughly.
const INODE: u64 = 2048;

/// Everything a workload needs on disk.
pub struct Scene<'a> {
    workload: &'a Workload,
    pub options: &'a Options,
    pub source: PathBuf,
    pub extent: Extent,
    /// What stands at the destination before a copy that finds a tree there.
    found: PathBuf,
    dest: PathBuf,
    /// The filesystem of the copies, to be synced.
    pub sync: File,
    /// Where the files are, in words.
    pub title: String,
    places: Vec<Place>,
    copies: Vec<PathBuf>,
}

impl<'a> Scene<'a> {
    /// Makes filesystems and source below `scratch`.
    pub fn new(workload: &'a Workload, options: &'a Options, scratch: &Path) -> Result<Scene<'a>> {
        let base = scratch.join(&workload.name);
        fs::create_dir(&base).map_err(shell::at(&base))?;
        let extent = match workload.source.extent() {
            Some(extent) => extent,
            None => sources::measure(Path::new(sources::usr(options)))?,
        };
        let mut places = Vec::new();
        let mut dir = |fs: Fs| -> Result<(PathBuf, String)> {
            let image = match fs {
                Fs::Dir => return Ok((base.clone(), place::on(&base)?)),
                Fs::Image(image) => image,
            };
            let place = Place::image_in(&base, image, room(extent, options))?;
            let answer = (place.dir.clone(), format!("{} in a loop image on {}", image.name, kind(&base)?));
            places.push(place);
            Ok(answer)
        };
        let (from, from_title) = dir(workload.from)?;
        let (to, to_title) =
            if workload.to == workload.from { (from.clone(), String::new()) } else { dir(workload.to)? };
        let title = if to_title.is_empty() { from_title } else { format!("{from_title} to {to_title}") };
        let source = match workload.source {
            Source::Usr => PathBuf::from(sources::usr(options)),
            made => {
                let source = from.join("source");
                sources::make(made, &source)?;
                source
            }
        };
        let mut found = source.clone();
        if workload.shape == Shape::Delete {
            found = from.join("full");
            fs::rename(&source, &found).map_err(shell::at(&source))?;
            fs::create_dir(&source).map_err(shell::at(&source))?;
        }
        let sync = File::open(&to).map_err(shell::at(&to))?;
        sync_below(&source)?;
        if matches!(workload.source, Source::File { .. }) {
            // What is warm was read, and not just written: writing leaves small folios, reading large ones.
            cache::forget(&source);
        }
        Ok(Scene { workload, options, source, extent, found, dest: to, sync, title, places, copies: Vec::new() })
    }

    /// The destination of a run: a new directory, and in it the name of the source, which does not exist yet unless the kind of
    /// copy finds a tree there. Older copies are removed if there is no room for another.
    pub fn dest(&mut self, run: usize) -> Result<PathBuf> {
        if !self.fits()? {
            self.remove_copies()?;
        }
        let dir = self.dest.join(format!("copy-{run}"));
        fs::create_dir(&dir).map_err(shell::at(&dir))?;
        self.copies.push(dir.clone());
        let dest = dir.join(self.source.file_name().unwrap_or_default());
        if self.workload.shape.finds_tree() {
            shell::run(shell::command("cp").arg("-a").args([&self.found, &dest]))?;
        }
        match self.workload.shape {
            Shape::Overwrite => change(&dest)?,
            Shape::Mirror => age(&dest, &mut 0)?,
            _ => {}
        }
        Ok(dest)
    }

    /// Whether another copy fits into what the benchmark may use, and into the filesystem.
    fn fits(&self) -> Result<bool> {
        let each = self.each();
        let used = each.bytes.saturating_mul(self.copies.len() as u64);
        let source = if self.workload.source == Source::Usr { 0 } else { self.extent.bytes };
        let fs = statvfs(&self.dest).map_err(shell::at(&self.dest))?;
        let free = fs.f_bavail.saturating_mul(fs.f_frsize);
        // btrfs has no fixed number of inodes and says 0.
        let inodes = fs.f_files == 0 || fs.f_favail > each.inodes.saturating_mul(2);
        Ok(used + each.bytes + source <= self.options.space && free > each.bytes + each.bytes / 8 && inodes)
    }

    /// What one copy takes. On filesystems that can clone too: not every program does.
    fn each(&self) -> Extent {
        let starts = self.workload.starts;
        Extent { inodes: self.extent.inodes * starts, bytes: self.extent.bytes.max(4096) * starts }
    }

    fn remove_copies(&mut self) -> Result {
        let count = self.copies.len() as u64;
        let wait = if self.each().inodes * count > FEW { self.options.settle } else { SHORT };
        eprintln!("  removing {count} copies, then waiting {} s ...", wait.as_secs());
        for copy in self.copies.drain(..) {
            fs::remove_dir_all(&copy).map_err(|error| format!("cannot remove {}: {error}", copy.display()))?;
        }
        self.settle()?;
        if self.workload.to != Fs::Dir {
            // Gives the blocks of the image back, so that each copy is written to fresh ones.
            shell::run(shell::command("fstrim").arg(&self.dest))?;
        }
        std::thread::sleep(wait);
        Ok(())
    }

    fn settle(&self) -> Result {
        syncfs(&self.sync).map_err(|error| format!("syncfs: {error}"))
    }

    /// Brings memory into the state in which the run shall start.
    pub fn prepare(&self, program: &Program) -> Result {
        self.settle()?;
        if self.workload.cold {
            sync_below(&self.source)?;
            drop_caches()?;
        }
        // The copy and as much again, in the page cache and in the inode and name caches.
        warm_memory(2 * (self.extent.bytes + INODE * self.extent.inodes))?;
        if !self.workload.cold {
            cache::read_apart(&Own::running()?, &self.source)?;
        }
        // The program itself is in memory in either case.
        let mut version = shell::command(&program.peer.program);
        version.args(program.peer.version_words).stdout(Stdio::null()).stderr(Stdio::null());
        // Only for what it brings in; fcp calls its version an error.
        version.status().map_err(|error| format!("cannot run {}: {error}", program.name))?;
        self.settle()
    }

    /// Whether haul leaves a file here to another engine than the one that a program names.
    pub fn falls_back(&self, program: &Program) -> Result<bool> {
        let Task::Copy(words) = &program.task else { return Ok(false) };
        let Some(engine) = words.iter().find_map(|word| word.strip_prefix("--engine=")) else { return Ok(false) };
        let (source, dest) = (self.dest.join("small"), self.dest.join(format!("small-{engine}")));
        fs::write(&source, vec![b'x'; 1 << 20]).map_err(shell::at(&source))?;
        let mut command = shell::command(&program.peer.program);
        command.args([&format!("--engine={engine}"), "--explain"]).arg(&source).arg(&dest);
        let output = command.output().map_err(|error| format!("cannot run {}: {error}", program.name))?;
        let said = [output.stdout, output.stderr].concat();
        Ok(String::from_utf8_lossy(&said).contains(&format!("{engine}: refused")))
    }

    /// KiB allocated for a copy of a single file.
    pub fn allocated(&self, dest: &Path) -> Option<u64> {
        let meta = dest.symlink_metadata().ok()?;
        meta.is_file().then(|| meta.blocks() / 2)
    }

    pub fn remove(self) -> Result {
        drop(self.sync);
        let base = match &self.places[..] {
            [] => self.dest.clone(),
            [place, ..] => place.dir.parent().map(Path::to_owned).unwrap_or_default(),
        };
        for place in self.places {
            place.remove()?;
        }
        fs::remove_dir_all(&base).map_err(|error| format!("cannot remove {}: {error}", base.display()))
    }
}

/// Gives every file below a directory other contents of the same size.
fn change(dir: &Path) -> Result {
    for entry in fs::read_dir(dir).map_err(shell::at(dir))? {
        let entry = entry.map_err(shell::at(dir))?;
        let path = entry.path();
        match entry.file_type().map_err(shell::at(&path))? {
            kind if kind.is_dir() => change(&path)?,
            kind if kind.is_file() => {
                let mut bytes = fs::read(&path).map_err(shell::at(&path))?;
                bytes.iter_mut().for_each(|byte| *byte = !*byte);
                fs::write(&path, bytes).map_err(shell::at(&path))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Of a hundred files below a directory changes one, removes one, and adds one.
fn age(dir: &Path, count: &mut u64) -> Result {
    let entries = fs::read_dir(dir).map_err(shell::at(dir))?.collect::<std::io::Result<Vec<_>>>();
    for entry in entries.map_err(shell::at(dir))? {
        let path = entry.path();
        match entry.file_type().map_err(shell::at(&path))? {
            kind if kind.is_dir() => age(&path, count)?,
            kind if kind.is_file() => {
                *count += 1;
                match *count % 100 {
                    0 => fs::write(&path, format!("changed {count}")),
                    33 => fs::remove_file(&path),
                    66 => fs::copy(&path, dir.join(format!("gone-{count}"))).map(|_| ()),
                    _ => Ok(()),
                }
                .map_err(shell::at(&path))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Syncs the filesystem that a path is on.
fn sync_below(path: &Path) -> Result {
    let file = File::open(path).map_err(shell::at(path))?;
    syncfs(file).map_err(|error| format!("syncfs: {error}"))
}

/// Room in an image: for the source, and for as many copies as all runs make and the limit allows.
fn room(extent: Extent, options: &Options) -> u64 {
    let bytes = extent.bytes + extent.inodes * 1024;
    // A dozen programs at most.
    let copies = (options.runs as u64 * 12).max(2);
    (bytes * (copies + 1)).min(options.space).max(bytes * 3)
}

/// The type of the filesystem that a directory is on.
pub fn kind(dir: &Path) -> Result<String> {
    Ok(Storage::of(dir)?.filesystem)
}
