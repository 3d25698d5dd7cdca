//! Whether a store to a page waits while that page is being written back.
//!
//! That is the cause of the classic stalls, asked for directly. A file is filled through its mapping, its write-back is
//! begun and not waited for, and then one byte is stored to each of its last pages, which are the last to be written. If
//! pages must stay stable, the stores last until the device has them; if not, they are done at once, and what is left of the
//! write-back is waited for after them.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use haul_measure::stats;
use haul_sys::Errno;
use haul_sys::page_cache::write_back;
use haul_sys::rustix::fs::OFlags;
use haul_sys::rustix::param::page_size;
use haul_sys::rustix::thread::gettid;
use haul_sys::shared_map::SharedMap;
use serde::{Deserialize, Serialize};

use super::scene::{self, Failed, Scene, cannot};
use super::waits::Wait;
use super::watch::Watch;

/// Pages that are stored to.
const PAGES: usize = 4;
/// Bytes that are written back in the first repetition.
const FIRST: usize = 64 << 10;
/// Stores that take longer are looked at.
const LONG: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Bytes of the file, at least 64 KiB; less of it is written where that takes a sixteenth of the time.
    pub size: u64,
    pub repeats: u32,
    /// No repetition but the first one is begun after this.
    pub time: Duration,
}

impl Default for Settings {
    /// 20 times with 8 MiB, within 5 s.
    fn default() -> Settings {
        Settings { size: 8 << 20, repeats: 20, time: Duration::from_secs(5) }
    }
}

/// What was measured, in seconds, one of each for each repetition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The stores, which began while the pages were under write-back or about to be.
    pub stores: Vec<f64>,
    /// What was left of the write-back after them.
    pub rests: Vec<f64>,
    /// What the stores were seen to wait for, as often as somebody looked.
    pub seen: Vec<Wait>,
}

pub fn run(settings: &Settings, place: &Path, scene: &Scene) -> Result<Measured, Failed> {
    let page = page_size();
    let size = usize::try_from(settings.size).unwrap_or(64 << 10).next_multiple_of(page).max(64 << 10);
    scene.room_for(place, size as u64)?;
    let path = scene::file(place, "under");
    let failed = cannot("write through a mapping to", &path);
    let file = scene::open(&path, OFlags::empty())?;
    file.set_len(size as u64).map_err(cannot("set the size of", &path))?;
    let map = SharedMap::new(file.as_fd(), 0, size).map_err(failed)?;
    let watch = Watch::new(LONG);
    let thread = gettid().as_raw_nonzero().get();
    std::thread::scope(|scope| {
        scope.spawn(|| watch.look(thread));
        let measured = repeat(settings, &file, map, scene, &watch, failed);
        watch.close();
        measured
    })
}

fn repeat(
    settings: &Settings,
    file: &File,
    mut map: SharedMap,
    scene: &Scene,
    watch: &Watch,
    failed: impl Fn(Errno) -> Failed,
) -> Result<Measured, Failed> {
    let (mut measured, begin) = (Measured::default(), Instant::now());
    // Small at first, since nobody knows how slow it is; the first of each size also allocates.
    let (whole, mut size) = (map.len(), FIRST.min(map.len()));
    let mut repeats = 0;
    while repeats <= settings.repeats && (repeats < 2 || begin.elapsed() < settings.time) {
        scene.go_on()?;
        scene.report(f64::from(repeats) / f64::from(settings.repeats));
        let began = Instant::now();
        let (stores, rest, seen) = once(file, &mut map, size, repeats as u8, watch).map_err(&failed)?;
        if repeats == 0 && size < whole && began.elapsed() < settings.time / 16 {
            size = (size * 2).min(whole);
            continue;
        }
        if repeats > 0 {
            measured.stores.push(stores.as_secs_f64());
            measured.rests.push(rest.as_secs_f64());
            measured.seen.extend(seen);
        }
        repeats += 1;
    }
    Ok(measured)
}

/// The stores, what was left after them, and what they were seen at.
fn once(
    file: &File,
    map: &mut SharedMap,
    size: usize,
    byte: u8,
    watch: &Watch,
) -> Result<(Duration, Duration, Vec<Wait>), Errno> {
    let page = page_size();
    map.fill(0, size, byte)?;
    write_back(file.as_fd(), 0, size as u64, false)?;
    let store = watch.begin();
    let begin = Instant::now();
    for from_end in 1..=PAGES {
        map.fill(size - from_end * page, 1, !byte)?;
    }
    let stored = begin.elapsed();
    watch.end();
    let seen = watch.seen(store);
    // What the stores have made dirty is written too, a few pages.
    write_back(file.as_fd(), 0, size as u64, true)?;
    Ok((stored, begin.elapsed() - stored, seen))
}

impl Measured {
    /// How much of the write-back the stores waited for: near 1 if they waited for all of it, near 0 if they did not wait.
    /// `None` if the device was too quick to tell: less than a fifth of a millisecond in all repetitions together.
    pub fn waited(&self) -> Option<f64> {
        let (stores, rests): (f64, f64) = (self.stores.iter().sum(), self.rests.iter().sum());
        (stores + rests >= 2e-4).then(|| stores / (stores + rests))
    }

    /// What the stores were most often seen to wait for, if they were seen to wait at all.
    pub fn reason(&self) -> Option<Wait> {
        let times = |wait: &Wait| self.seen.iter().filter(|seen| *seen == wait).count();
        Wait::ALL.into_iter().filter(|wait| wait.stands_still() && times(wait) > 0).rev().max_by_key(times)
    }

    /// The median of the stores in seconds.
    pub fn store(&self) -> Option<f64> {
        stats::median(&self.stores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_the_write_back_is_distinguished_from_who_does_not() {
        let measured = |stores: &[f64], rests: &[f64]| Measured {
            stores: stores.to_vec(),
            rests: rests.to_vec(),
            seen: vec![Wait::Unknown, Wait::StablePage, Wait::StablePage],
        };
        assert!(measured(&[0.019, 0.02], &[0.001, 0.0]).waited().unwrap() > 0.9);
        assert!(measured(&[1e-5, 1e-5], &[0.02, 0.02]).waited().unwrap() < 0.01);
        assert_eq!(measured(&[1e-6], &[1e-6]).waited(), None);
        assert_eq!(measured(&[3.0, 1.0, 2.0], &[0.0; 3]).store(), Some(2.0));
        assert_eq!(measured(&[], &[]).reason(), Some(Wait::StablePage));
        assert_eq!((Measured::default().store(), Measured::default().reason()), (None, None));
    }
}
