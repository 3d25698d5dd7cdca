//! Page by page: store integers into a small mapped file and write each page to the device, and the same by write(2).
//!
//! The mapped file is opened with O_DSYNC, which says nothing of stores, and each page is written by msync(MS_SYNC |
//! MS_INVALIDATE) when the first integer behind it has been stored. The other file gets the same bytes a page at a time, by
//! pwrite(2) to a descriptor with O_DSYNC. Both ask the filesystem for the same: this page on the device, and what is needed
//! to find it. So what the mapped pages take longer is not the device's doing.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use haul_sys::process_state::Usage;
use haul_sys::rustix::fs::OFlags;
use haul_sys::rustix::param::page_size;
use haul_sys::shared_map::SharedMap;
use serde::{Deserialize, Serialize};

use super::latency::Times;
use super::scene::{self, Failed, Scene, cannot, file};
use crate::results::Latency;

/// A synchronous page over this is counted, in seconds of its own.
const THRESHOLD: Duration = Duration::from_millis(100);
/// Stores between two page boundaries are four bytes each.
const NUMBER: usize = size_of::<u32>();

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub rounds: u32,
    pub size: u64,
    /// No page is begun after this.
    pub time: Duration,
}

impl Default for Settings {
    /// The published ones, within 20 s.
    fn default() -> Settings {
        Settings { rounds: 100, size: 512 << 10, time: Duration::from_secs(20) }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    pub size: u64,
    /// Seconds of each whole round of stores and msync.
    pub mapped_rounds: Vec<f64>,
    /// Seconds of each whole round of pwrite.
    pub written_rounds: Vec<f64>,
    /// Each msync, those of rounds that were cut short as well.
    pub mapped: Latency,
    /// Each synchronous pwrite of a page.
    pub written: Latency,
    /// Seconds of CPU time of each whole round: `mapped user`, `mapped sys`, `written user`, `written sys`.
    #[serde(default)]
    pub cpu: BTreeMap<String, Vec<f64>>,
    /// Seconds of both on average.
    pub means: Option<(f64, f64)>,
    /// The time was over before all rounds were done.
    pub cut_short: bool,
}

/// One kind of rounds.
struct Side {
    file: std::path::PathBuf,
    rounds: Vec<f64>,
    user: Vec<f64>,
    system: Vec<f64>,
    times: Times,
}

impl Side {
    fn new(file: std::path::PathBuf) -> Side {
        Side { file, rounds: Vec::new(), user: Vec::new(), system: Vec::new(), times: Times::new(THRESHOLD) }
    }

    /// A round is done that began then. This process does nothing else meanwhile.
    fn done(&mut self, (begin, before): (Instant, Usage)) {
        let now = Usage::of_process();
        self.rounds.push(begin.elapsed().as_secs_f64());
        self.user.push((now.user - before.user).as_secs_f64());
        self.system.push((now.system - before.system).as_secs_f64());
    }
}

/// Runs the rounds, a mapped one and a written one in turn, so that whatever else the device does meets both.
pub fn run(settings: &Settings, place: &Path, scene: &Scene) -> Result<Measured, Failed> {
    let page = page_size() as u64;
    let size = settings.size.next_multiple_of(page).max(page);
    scene.room_for(place, 2 * size)?;
    let (mut mapped, mut written) = (Side::new(file(place, "msync.mapped")), Side::new(file(place, "msync.written")));
    let end = Instant::now() + settings.time;
    for round in 0..settings.rounds {
        scene.report(f64::from(round) / f64::from(settings.rounds));
        // Half of what is left for each, so that both are measured where a round takes longer than there is time for.
        let now = Instant::now();
        let whole = mapped_round(&mut mapped, size, now + end.saturating_duration_since(now) / 2, scene)?;
        if !(written_round(&mut written, size, end, scene)? && whole) {
            break;
        }
    }
    let cut_short = written.rounds.len() < settings.rounds as usize;
    let cpu = [
        ("mapped user", mapped.user),
        ("mapped sys", mapped.system),
        ("written user", written.user),
        ("written sys", written.system),
    ];
    Ok(Measured {
        size,
        mapped_rounds: mapped.rounds,
        written_rounds: written.rounds,
        cpu: cpu.map(|(name, times)| (name.to_owned(), times)).into(),
        mapped: mapped.times.summary(),
        written: written.times.summary(),
        means: mapped.times.mean().zip(written.times.mean()),
        cut_short,
    })
}

/// The file is the same in all rounds, so only the first one allocates.
fn open(path: &Path, size: u64) -> Result<File, Failed> {
    let file = scene::open(path, OFlags::DSYNC)?;
    file.set_len(size).map_err(cannot("set the size of", path))?;
    Ok(file)
}

/// Whether there was time for all of it.
fn mapped_round(side: &mut Side, size: u64, end: Instant, scene: &Scene) -> Result<bool, Failed> {
    let begin = (Instant::now(), Usage::of_process());
    let Side { file: path, times, rounds, .. } = &mut *side;
    let failed = cannot("write through a mapping to", path);
    let file = open(path, size)?;
    // It fits into memory.
    let (size, page) = (size as usize, page_size());
    let mut map = SharedMap::new(file.as_fd(), 0, size).map_err(failed)?;
    map.expect_sequential().map_err(failed)?;
    for at in (0..size).step_by(NUMBER) {
        if at.is_multiple_of(page) && at > 0 {
            scene.go_on()?;
            sync_page(&map, at - page, times).map_err(failed)?;
            if Instant::now() >= end {
                return Ok(false);
            }
        }
        // Any number will do, but it is another one in each round.
        map.store(at, (at + rounds.len()) as u32).map_err(failed)?;
    }
    sync_page(&map, size - page, times).map_err(failed)?;
    side.done(begin);
    Ok(true)
}

fn sync_page(map: &SharedMap, at: usize, times: &mut Times) -> Result<(), haul_sys::Errno> {
    let begin = Instant::now();
    map.sync(at, page_size(), true)?;
    times.add(begin.elapsed());
    Ok(())
}

/// Whether there was time for all of it.
fn written_round(side: &mut Side, size: u64, end: Instant, scene: &Scene) -> Result<bool, Failed> {
    let begin = (Instant::now(), Usage::of_process());
    let file = open(&side.file, size)?;
    let page = page_size();
    let mut bytes = vec![0; page];
    for at in (0..size).step_by(page) {
        for (number, bytes) in bytes.chunks_exact_mut(NUMBER).enumerate() {
            bytes.copy_from_slice(&((at as usize + number * NUMBER + side.rounds.len()) as u32).to_ne_bytes());
        }
        scene.go_on()?;
        let begin = Instant::now();
        file.write_all_at(&bytes, at).map_err(cannot("write", &side.file))?;
        side.times.add(begin.elapsed());
        if Instant::now() >= end && at + (page as u64) < size {
            return Ok(false);
        }
    }
    side.done(begin);
    Ok(true)
}
