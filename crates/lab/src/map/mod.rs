//! `haul-lab map`: what of an image its guests use, as a report and as a drawing.

pub mod scan;
pub mod strip;
pub mod svg;
pub mod terminal;
#[cfg(test)]
mod test_support;

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_guest::container::{self, Opened};
use haul_guest::image::ImageFile;
use haul_guest::report::Map;
use haul_guest::{ExtentSet, ReadAt};
use haul_image::{Beside, Source, System};
use haul_io::ranges::{Extent, Extents};
use haul_measure::words::{self, quoted};
use haul_sys::inode::Inode;
use haul_sys::kernel::{Kernel, Linux};

use strip::{Picture, printable};
use terminal::Screen;

/// What the user wants to see of what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    pub image: PathBuf,
    /// Only [`Map::to_json`].
    pub json: bool,
    pub svg: Option<PathBuf>,
    pub width: Option<usize>,
    /// Read what is used, to find zeros.
    pub scan: bool,
    /// Do not ask whether somebody uses the image.
    pub snapshot: bool,
}

/// Looks at an image, draws it if asked, and gives what is to be printed. `warn` gets what the user should know besides.
pub fn run(request: &Request, screen: Screen, warn: &mut dyn FnMut(&str)) -> Result<String, String> {
    let source = Source::open(&Linux, &request.image).map_err(|error| error.to_string())?;
    let image = Image::open(&source, warn)?;
    let files = || std::iter::once(&source).chain(&image.others);
    let user = if request.snapshot { None } else { files().find_map(|file| file.in_use(&System::default())) };
    if let Some(user) = user {
        warn(&format!("{} is in use, and a copy would take all of it: {user}", quoted(&request.image)));
    }
    let disk = image.disk();
    let map = haul_guest::map(disk, &haul_guest::fs::Options::default());
    let failed = words::cannot("read", &request.image);
    let holes = image.holes(&source).map_err(failed)?;
    let zeros = match request.scan {
        true => {
            let used = map.free.union(&holes).complement(0..map.size);
            scan::zeros(disk, &used).map_err(failed)?
        }
        false => ExtentSet::new(),
    };
    if !matches!(map.still_holds(disk), Ok(true)) {
        warn(&format!("{} was changed meanwhile; this may be wrong", quoted(&request.image)));
    }
    let picture = Picture::new(&map, &holes, &zeros);
    if let Some(path) = &request.svg {
        let name = request.image.file_name().unwrap_or(request.image.as_os_str()).to_string_lossy();
        let inodes = files().map(|file| Inode::of(file.file())).collect::<Result<Vec<_>, _>>();
        let inodes = inodes.map_err(|errno| format!("{}: {errno}", quoted(&request.image)))?;
        save(path, &svg::draw(&picture, &printable(&name)), &inodes).map_err(words::cannot("write", path))?;
    }
    Ok(report(request, &map, &picture, image.format(), screen))
}

fn report(request: &Request, map: &Map, picture: &Picture, format: &str, screen: Screen) -> String {
    if request.json {
        return map.to_json() + "\n";
    }
    let container = if format == "raw" { String::new() } else { format!("a disk in a {format} container\n") };
    format!("{container}{map}\n{}", terminal::draw(picture, request.width, screen))
}

/// A disk, and the container that it is in, if it is in one.
struct Image {
    opened: Result<Opened, ImageFile>,
    /// The files besides the first of a container.
    others: Vec<Source>,
}

impl Image {
    fn open(source: &Source, warn: &mut dyn FnMut(&str)) -> Result<Image, String> {
        let failed = words::cannot("open", source.path());
        let file = |fd: OwnedFd| ImageFile::new(File::from(fd), source.file_size());
        let shared: Arc<dyn ReadAt> = Arc::new(file(source.duplicate().map_err(failed)?));
        let name = source.path().file_name().unwrap_or(OsStr::new("image"));
        let kernel: Arc<dyn Kernel> = Arc::new(Linux);
        let beside = Beside::new(&kernel, source);
        let opened = match container::open(shared, name, &beside) {
            Ok(opened) => Ok(opened),
            Err(refusal) => {
                let text = printable(&refusal.to_string());
                warn(&format!("{} is a container that is not understood: {text}", quoted(source.path())));
                Err(file(source.duplicate().map_err(failed)?))
            }
        };
        let mut found = beside.into_files();
        let parts = opened.iter().flat_map(|opened| opened.parts.iter().skip(1));
        let others: Vec<Source> = parts.filter_map(|part| found.remove(&part.name)).collect();
        for link in others.iter().filter(|file| file.is_link()) {
            warn(&format!(
                "{} is a symbolic link, which a descriptor names and which is followed",
                quoted(link.path())
            ));
        }
        Ok(Image { opened, others })
    }

    fn disk(&self) -> &dyn ReadAt {
        match &self.opened {
            Ok(opened) => &*opened.disk,
            Err(file) => file,
        }
    }

    fn format(&self) -> &'static str {
        self.opened.as_ref().map_or("raw", |opened| opened.disk.format())
    }

    /// What of the disk is not stored: holes of the file, or what a container has no place for.
    fn holes(&self, source: &Source) -> io::Result<ExtentSet> {
        if let Ok(opened) = &self.opened
            && opened.disk.format() != "raw"
        {
            let files = std::iter::once(source).chain(&self.others).map(holes_of).collect::<io::Result<Vec<_>>>()?;
            return Ok(opened.disk.unallocated().union(&opened.disk.stored_in(&files)));
        }
        holes_of(source)
    }
}

fn holes_of(file: &Source) -> io::Result<ExtentSet> {
    holes_in(file.file(), file.file_size())
}

/// The holes of a plain file of `size` bytes.
pub fn holes_in(file: BorrowedFd<'_>, size: u64) -> io::Result<ExtentSet> {
    let mut holes = ExtentSet::new();
    for extent in Extents::new(&Linux, file, 0, size) {
        if let Extent::Hole { offset, len } = extent? {
            holes.push(offset..offset + len);
        }
    }
    Ok(holes)
}

const SVG: &[u8] = b"<svg ";

/// Writes a drawing. What is no drawing is not overwritten: above all not the image, nor a part of it.
fn save(path: &Path, drawing: &str, image: &[Inode]) -> io::Result<()> {
    let refused = |why| io::Error::new(io::ErrorKind::AlreadyExists, why);
    match fs::metadata(path) {
        Ok(meta) if meta.file_type().is_block_device() => return Err(refused("it is a block device")),
        Ok(meta) if !meta.is_file() => {
            // A pipe or a terminal.
            return OpenOptions::new().write(true).open(path)?.write_all(drawing.as_bytes());
        }
        _ => {}
    }
    // Emptied only when it is known what it is.
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    let inode = Inode::of(file.as_fd()).map_err(io::Error::from)?;
    if image.iter().any(|image| image.id == inode.id) {
        return Err(refused("it is the image"));
    }
    if file.metadata()?.size() > 0 {
        let mut start = [0; SVG.len()];
        let begins = file.read_exact(&mut start).is_ok() && start == SVG;
        if !begins {
            return Err(refused("it exists and is no SVG drawing"));
        }
    }
    // A new description starts at the beginning.
    file.set_len(0)?;
    haul_sys::rustix::fs::seek(&file, haul_sys::rustix::fs::SeekFrom::Start(0))?;
    file.write_all(drawing.as_bytes())?;
    haul_sys::close(OwnedFd::from(file))?;
    Ok(())
}
