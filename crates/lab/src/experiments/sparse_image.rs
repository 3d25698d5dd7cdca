//! `haul-lab sparse-image`: what do skipped reads and writes save?
//!
//! Published for smartcp about 2014: one flat disk image of 8 GiB from a virtual-machine store to a backup; blocks that the guest
//! does not use are not read, and zeros are not written.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use haul_guest::image::ImageFile;
use haul_guest::{ExtentSet, ReadAt};
use haul_measure::cache::Temperature;
use haul_measure::programs;
use haul_measure::stop::Stop;
use haul_measure::words::{self, quoted};
use haul_measure::workspace;

use super::cp;
use crate::map::scan;
use crate::map::strip::{Kind, Picture};
use crate::measure::one_copy;
use crate::measure::sources;
use crate::measure::verify::verify_image;
use crate::results::{Body, Detail};
use crate::session::{Competitor, Group, Halt, How, Session, check_time, compete_all};

pub const NAME: &str = "sparse-image";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Bytes of the image that is made.
    pub size: u64,
    /// The user's image instead.
    pub image: Option<PathBuf>,
}

impl Default for Request {
    fn default() -> Request {
        Request { size: 8 << 30, image: None }
    }
}

/// Sizes of images that are made are multiples of this many bytes.
pub const UNIT: u64 = 1 << 20;
/// The smallest image that can be made.
pub const SMALLEST: u64 = 64 << 20;

/// Where the guest's partition begins.
const PARTITION: u64 = 1 << 20;
const SECTOR: u64 = 512;
const BLOCK: usize = 4096;
const BUFFER: usize = 1 << 20;
/// Cells of the strip in the results.
const CELLS: usize = 512;
/// The published image's shares in thousandths: in use with contents, and in use with zeros. The rest is free.
const LIVE: u64 = 488;
const ZEROS: u64 = 233;
/// Makes the guest's filesystem.
const MKFS: &str = "mkfs.ext4";
/// Begins each block that is to become zeros.
const MARK: [u8; 16] = *b"haul-lab zeros!\n";
const LIVE_MARK: [u8; 16] = *b"live in haul-lab";

/// Runs what of it was not run yet.
pub fn run(session: &mut Session, request: &Request) -> Result<(), Halt> {
    let size = match &request.image {
        Some(image) => raw_size(image)?,
        None => request.size,
    };
    let mut settings = vec![("size", size.to_string())];
    settings.extend(request.image.as_deref().map(identity).transpose()?.into_iter().flatten());
    let section = session.section(NAME, &settings)?;
    if settings.iter().any(|(name, value)| section.settings.get(*name) != Some(value)) {
        let image = quoted(request.image.as_deref().unwrap_or(&session.folder().join("image")));
        return Err(Halt::Failed(format!(
            "{image} has changed since the results were begun; name another folder with --output"
        )));
    }
    if request.image.is_none() && !programs::has(MKFS) {
        session.skip(
            NAME,
            "an image cannot be made: mkfs.ext4 (e2fsprogs) is missing; give one with --image".to_owned(),
        )?;
        return Ok(session.section_done(NAME)?);
    }
    let made = session.folder().join("image");
    let judge = |source: &Path, copy: &Path, who: &Competitor, stop: &Stop| {
        let smart = who.parameters.get("smart").is_some_and(|smart| smart == "yes");
        verify_image(source, copy, smart, stop)
    };
    let group = Group {
        name: format!("image of {}", words::bytes(size)),
        source: request.image.clone().unwrap_or(made),
        make: request.image.is_none().then_some(Box::new(move |path, stop| make_image(path, size, stop))),
        bytes: size,
        entries: request.image.is_some().then_some((1, size)),
        judge: Some(&judge),
        metadata: false,
        competitors: competitors(size),
    };
    check_time(session, std::slice::from_ref(&group))?;
    if let Some(image) = &request.image {
        session.source_is(image)?;
    }
    if session.results.section(NAME).is_none_or(|section| section.detail("strip").is_none()) {
        if request.image.is_none() {
            let made = make_image(&group.source, size, &session.stop);
            session.halt_if_stopped()?;
            made?;
        }
        let details = look_at(&group.source, &session.stop)?;
        session.halt_if_stopped()?;
        session.add_details(NAME, details)?;
    }
    compete_all(session, NAME, &[group])
}

/// Bytes that it needs: the source and what that is made of, and two copies.
pub fn room(request: &Request) -> Result<u64, String> {
    match &request.image {
        Some(image) => Ok(raw_size(image)?.saturating_mul(2)),
        None => Ok(request.size.saturating_mul(4)),
    }
}

pub(crate) fn competitors(size: u64) -> Vec<Competitor> {
    let yes = |flag: bool| if flag { "yes" } else { "no" };
    let own = |smart: bool, sparse: bool| {
        let name = format!(
            "{} read, {} output",
            if smart { "smart" } else { "full" },
            if sparse { "sparse" } else { "plain" }
        );
        let settings = one_copy::Settings { image: Some((smart, sparse)), ..one_copy::Settings::default() };
        Competitor::new(name, Temperature::Cold, How::Own(settings))
            .with("smart", yes(smart))
            .with("sparse", yes(sparse))
    };
    // smartcp had queues between threads that read and that write. Nothing is hashed, as then: on a quick device MD5 would be
    // what both sides wait for.
    let settings = one_copy::Settings { image: Some((true, true)), queued: true, ..one_copy::Settings::default() };
    let queued = Competitor::new("smart read, sparse output, by queues", Temperature::Cold, How::Own(settings));
    let all = [
        own(false, false).into_base().into_asked(),
        own(true, true).into_asked(),
        own(true, false).into_asked(),
        own(false, true),
        queued.with("smart", "yes").with("sparse", "yes").with("queued", "yes").into_asked(),
        Competitor::new("cp", Temperature::Cold, cp(&["--sparse=auto"])).with("smart", "no"),
    ];
    all.map(|competitor| competitor.with("size", size)).to_vec()
}

/// The size of the user's image, which must be a raw one: of a container nobody could say whether two copies are the same disk.
fn raw_size(path: &Path) -> Result<u64, String> {
    let failed = words::cannot("read", path);
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(format!("{} is not a file", quoted(path)));
    }
    let opened = haul_guest::container::open(
        std::sync::Arc::new(ImageFile::new(file, metadata.len())),
        path.file_name().unwrap_or_default(),
        &haul_guest::container::Alone,
    );
    match opened {
        Ok(opened) if opened.disk.format() == "raw" => Ok(metadata.len()),
        _ => Err(format!("{} is a container and not a raw image, which this experiment needs", quoted(path))),
    }
}

/// What is another where the user's image is another one, or was written to.
fn identity(path: &Path) -> Result<[(&'static str, String); 2], String> {
    let found = std::fs::metadata(path).map_err(words::cannot("read", path))?;
    let modified = format!("{}.{:09}", found.mtime(), found.mtime_nsec());
    Ok([("modified", modified), ("inode", found.ino().to_string())])
}

/// Makes an image as the published one was: a partition with ext4, of which half is live data, a quarter zeros that belong to
/// files, and the rest what deleted files left behind. Nothing of it is a hole.
fn make_image(path: &Path, size: u64, stop: &Stop) -> Result<(), String> {
    let failed = words::cannot("make", path);
    sources::file(path, size, 7, stop)?;
    let live = path.with_extension("live");
    workspace::remove(&live).map_err(failed)?;
    std::fs::create_dir(&live).map_err(failed)?;
    let inside = size - PARTITION;
    // Tables and the journal take a part of small filesystems.
    let usable = inside.saturating_sub(inside / 16 + (16 << 20));
    marked_file(&live.join("live"), usable / 1000 * LIVE, &LIVE_MARK, stop).map_err(failed)?;
    marked_file(&live.join("zeros"), usable / 1000 * ZEROS, &MARK, stop).map_err(failed)?;
    let blocks = inside / BLOCK as u64;
    let output = programs::command(MKFS)
        .args(["-q", "-F", "-b", "4096", "-m", "0", "-E"])
        .arg(format!("offset={PARTITION},nodiscard,lazy_itable_init=0,lazy_journal_init=0"))
        .arg("-d")
        .args([&live, path])
        .arg(blocks.to_string())
        .output()
        .map_err(failed)?;
    workspace::remove(&live).map_err(failed)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("mkfs.ext4 made no image: {}", said.lines().next().unwrap_or("it said nothing")));
    }
    let file = File::options().read(true).write(true).open(path).map_err(failed)?;
    partition(&file, inside).map_err(failed)?;
    let used = zero_marked(&file, size, stop).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    // What is in files was not asked of the map, so it proves that the map leaves nothing of them out.
    let map = haul_guest::map(&ImageFile::new(file, size), &haul_guest::fs::Options::default());
    match used.iter().find(|extent| map.free.touches(extent.start..extent.end())) {
        Some(extent) => {
            Err(format!("haul's map calls bytes free that a file of the image has, from {} on", extent.start))
        }
        None => Ok(()),
    }
}

/// A partition table with one Linux partition, in the first sector.
fn partition(file: &File, len: u64) -> io::Result<()> {
    let mut sector = [0_u8; SECTOR as usize];
    let entry = &mut sector[446..462];
    entry[4] = 0x83;
    let number = |sectors: u64| u32::try_from(sectors).unwrap_or(u32::MAX).to_le_bytes();
    entry[8..12].copy_from_slice(&number(PARTITION / SECTOR));
    entry[12..16].copy_from_slice(&number(len / SECTOR));
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    file.write_all_at(&sector, 0)
}

/// mkfs makes holes of zeros, so they are put in afterwards: this file's blocks can be found in the image.
fn marked_file(path: &Path, size: u64, mark: &[u8; 16], stop: &Stop) -> io::Result<()> {
    let file = File::create_new(path)?;
    let mut random = fastrand::Rng::with_seed(u64::from(mark[0]));
    let mut buffer = vec![0; BUFFER];
    let mut at = 0;
    while at < size && !stop.is_stopped() {
        let count = usize::try_from(size - at).unwrap_or(BUFFER).min(BUFFER);
        random.fill(&mut buffer[..count]);
        for block in buffer[..count].chunks_mut(BLOCK) {
            let len = block.len().min(mark.len());
            block[..len].copy_from_slice(&mark[..len]);
        }
        file.write_all_at(&buffer[..count], at)?;
        at += count as u64;
    }
    Ok(())
}

/// Gives the blocks of both files.
fn zero_marked(file: &File, size: u64, stop: &Stop) -> io::Result<ExtentSet> {
    let mut used = ExtentSet::new();
    let mut buffer = vec![0; BUFFER];
    let mut at = PARTITION;
    while at < size {
        if stop.is_stopped() {
            return Err(io::Error::other("interrupted"));
        }
        let count = usize::try_from(size - at).unwrap_or(BUFFER).min(BUFFER);
        let piece = &mut buffer[..count];
        file.read_exact_at(piece, at)?;
        let mut changed = false;
        for (number, block) in piece.chunks_mut(BLOCK).enumerate() {
            let zeros = block.starts_with(&MARK);
            if zeros || block.starts_with(&LIVE_MARK) {
                let start = at + (number * BLOCK) as u64;
                used.push(start..start + block.len() as u64);
            }
            if zeros {
                block.fill(0);
                changed = true;
            }
        }
        if changed {
            file.write_all_at(piece, at)?;
        }
        at += count as u64;
    }
    Ok(used)
}

/// What is where in the image, and how much of it.
fn look_at(path: &Path, stop: &Stop) -> Result<Vec<Detail>, String> {
    let failed = words::cannot("read", path);
    let file = File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let holes = crate::map::holes_in(file.as_fd(), size).map_err(failed)?;
    let image = ImageFile::new(file, size);
    let map = haul_guest::map(&image, &haul_guest::fs::Options::default());
    let used = map.free.union(&holes).complement(0..image.size());
    let mut zeros = ExtentSet::new();
    for part in used.iter().take_while(|_| !stop.is_stopped()) {
        zeros = zeros.union(&scan::zeros(&image, &ExtentSet::of(part.start..part.end())).map_err(failed)?);
    }
    let picture = Picture::new(&map, &holes, &zeros);
    let Some(strip) = picture.strips.first() else { return Ok(Vec::new()) };
    let rows = Kind::ALL
        .iter()
        .zip(strip.counts)
        .map(|(kind, count)| (kind.name().to_owned(), count.to_string(), words::bytes(count)));
    let facts = Detail::new("kinds", Body::Facts { rows: rows.collect() });
    let mut spans: Vec<(String, u64)> = Vec::new();
    for cell in picture.cells(strip, CELLS) {
        let most = Kind::ALL.iter().zip(cell).max_by_key(|(_, count)| *count).map_or(Kind::Used, |(kind, _)| *kind);
        let bytes = cell.iter().sum::<u64>();
        match spans.last_mut() {
            Some((kind, sum)) if kind == most.name() => *sum += bytes,
            _ => spans.push((most.name().to_owned(), bytes)),
        }
    }
    Ok(vec![facts, Detail::new("strip", Body::Strip { spans })])
}
