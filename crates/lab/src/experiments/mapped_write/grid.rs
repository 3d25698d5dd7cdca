//! A grid over sizes of files and records: nine ways to go through a file, mapped with a synchronous msync, and by read(2) and
//! write(2).
//!
//! It asks what `iozone -B -G` asks. There `-B` maps the files, and with `-G` each record that was stored is followed by an
//! msync(MS_SYNC) of exactly that record, within the time that is measured; reads come from the page cache, which the writes
//! before them have filled. Beside it the same records go by pread(2) and pwrite(2) to a descriptor with O_DSYNC, which asks
//! as much of the filesystem for each record: so their ratio is what the mapping costs, whatever the device is like.

use std::fs::File;
use std::hint::black_box;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haul_measure::words;
use haul_sys::rustix::fs::OFlags;
use haul_sys::shared_map::SharedMap;
use serde::{Deserialize, Serialize};

use super::scene::{self, Failed, Scene, cannot};
use crate::names::named;

/// Stride reads take every record of this distance.
const STRIDE: u64 = 17;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Sizes of the files in bytes, rising.
    pub files: Vec<u64>,
    /// Sizes of the records in bytes, rising: multiples of the page size. Larger than the file, they are skipped.
    pub records: Vec<u64>,
    /// Bytes that the two files may take together.
    pub space: u64,
    /// Each test gets its share of this; one that is not done by then counts with what it has done, one record at least.
    /// When it is over, larger sizes are skipped.
    pub time: Duration,
}

impl Default for Settings {
    /// From 64 KiB and 4 KiB up, the published cell among them, within 64 MiB and 25 s.
    fn default() -> Settings {
        Settings {
            files: vec![64 << 10, 512 << 10, 4 << 20, 32 << 20],
            records: vec![4 << 10, 32 << 10, 256 << 10, 2 << 20],
            space: 64 << 20,
            time: Duration::from_secs(25),
        }
    }
}

named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Test {
        /// A new file, from its beginning.
        Write = "write",
        /// The same again.
        Rewrite = "rewrite",
        /// From the beginning.
        Read = "read",
        /// Once more.
        Reread = "reread",
        /// Each record once, in an order that chance gave.
        RandomRead = "random-read",
        /// The same.
        RandomWrite = "random-write",
        /// From the end.
        BackwardRead = "backward-read",
        /// The first record, as often as the file has records.
        RecordRewrite = "record-rewrite",
        /// Every 17th record, from the beginning again behind the end.
        StrideRead = "stride-read",
    }
}

impl Test {
    pub(crate) fn writes(self) -> bool {
        matches!(self, Test::Write | Test::Rewrite | Test::RandomWrite | Test::RecordRewrite)
    }

    /// Which record comes at a turn, of so many.
    fn record(self, turn: u64, records: u64, shuffled: &[u64]) -> u64 {
        match self {
            Test::Write | Test::Rewrite | Test::Read | Test::Reread => turn,
            Test::RandomRead | Test::RandomWrite => shuffled[turn as usize],
            Test::BackwardRead => records - 1 - turn,
            Test::RecordRewrite => 0,
            Test::StrideRead => turn * STRIDE % records,
        }
    }
}

named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Manner {
        /// Stored and loaded through a mapping; each stored record by msync.
        Mapped = "mapped",
        /// By pread and synchronous pwrite.
        Written = "written",
    }
}

/// The name of a detail of the grid.
pub fn grid_name(manner: Manner, test: Test) -> String {
    format!("grid-{}-{}", manner.name(), test.name())
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub test: Test,
    pub manner: Manner,
    pub file: u64,
    pub record: u64,
    /// Bytes that were moved: those of the file, or fewer if the time was over before.
    pub bytes: u64,
    pub seconds: f64,
}

impl Cell {
    pub(crate) fn rate(&self) -> f64 {
        self.bytes as f64 / 1024.0 / self.seconds.max(1e-9)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    pub files: Vec<u64>,
    pub records: Vec<u64>,
    pub cells: Vec<Cell>,
    pub skipped: Vec<String>,
}

impl Measured {
    pub fn cell(&self, manner: Manner, test: Test, file: u64, record: u64) -> Option<&Cell> {
        let wanted = (manner, test, file, record);
        self.cells.iter().find(|cell| (cell.manner, cell.test, cell.file, cell.record) == wanted)
    }

    /// Rates in KiB/s by file and record.
    pub fn table(&self, manner: Manner, test: Test) -> Vec<Vec<Option<f64>>> {
        let rate = |file: u64, record: u64| self.cell(manner, test, file, record).map(Cell::rate);
        let row = |file: &u64| self.records.iter().map(|record| rate(*file, *record)).collect();
        self.files.iter().map(row).collect()
    }
}

/// One file, with one size of records.
struct Field<'a> {
    manner: Manner,
    path: PathBuf,
    file: File,
    size: u64,
    record: u64,
    shuffled: &'a [u64],
    scene: &'a Scene,
}

/// Runs the tests.
pub fn run(settings: &Settings, place: &Path, scene: &Scene) -> Result<Measured, Failed> {
    let fits = |file: &&u64| **file <= settings.space / 2;
    let files: Vec<u64> = settings.files.iter().filter(fits).copied().collect();
    let too_large = settings.files.iter().filter(|file| !fits(file));
    let skipped = too_large.map(|file| format!("files of {}: more than half of the space", words::bytes(*file)));
    let mut skipped: Vec<String> = skipped.collect();
    let records = settings.records.clone();
    let pairs = files.iter().flat_map(|file| records.iter().map(move |record| (*file, *record)));
    let pairs: Vec<(u64, u64)> = pairs.filter(|(file, record)| record <= file && *record > 0).collect();
    let end = Instant::now() + settings.time;
    let all = pairs.len() * Manner::ALL.len() * Test::ALL.len();
    let mut cells = Vec::with_capacity(all);
    let count = pairs.len();
    for (done, (size, record)) in pairs.into_iter().enumerate() {
        // On a slow device one record of each test takes longer than there is time for.
        if done > 0 && Instant::now() >= end {
            skipped.push(format!("{} of {count} sizes of files and records: the time was over", count - done));
            break;
        }
        let records = size / record;
        let shuffled = shuffled(records);
        for manner in Manner::ALL {
            scene.room_for(place, size)?;
            let path = scene::file(place, &format!("grid.{}", manner.name()));
            let file = scene::open(&path, OFlags::DSYNC)?;
            let field = Field { manner, path, file, size: records * record, record, shuffled: &shuffled, scene };
            for test in Test::ALL {
                scene.report(cells.len() as f64 / all as f64);
                let now = Instant::now();
                let left = u32::try_from(all - cells.len()).unwrap_or(u32::MAX).max(1);
                let share = end.saturating_duration_since(now) / left;
                let cell = field.run(test, share)?;
                cells.push(Cell { file: size, ..cell });
            }
        }
    }
    Ok(Measured { files, records, cells, skipped })
}

/// All numbers below `end`, in a disorder that is the same in every run.
fn shuffled(end: u64) -> Vec<u64> {
    let mut row: Vec<u64> = (0..end).collect();
    fastrand::Rng::with_seed(end).shuffle(&mut row);
    row
}

impl Field<'_> {
    /// Runs a test for at most this time, which does not count what opens and maps.
    fn run(&self, test: Test, most: Duration) -> Result<Cell, Failed> {
        if test == Test::Write {
            self.resize(0)?;
        }
        let (moved, took) = match self.manner {
            Manner::Mapped => self.mapped(test, most)?,
            Manner::Written => self.written(test, most)?,
        };
        // For the tests after one that was cut short: what it has not written is a hole.
        self.resize(self.size)?;
        let (manner, record) = (self.manner, self.record);
        Ok(Cell { test, manner, file: self.size, record, bytes: moved, seconds: took.as_secs_f64() })
    }

    fn resize(&self, size: u64) -> Result<(), Failed> {
        self.file.set_len(size).map_err(cannot("set the size of", &self.path))
    }

    fn mapped(&self, test: Test, most: Duration) -> Result<(u64, Duration), Failed> {
        let failed = cannot("go through a mapping of", &self.path);
        self.resize(self.size)?;
        // Both fit into memory.
        let (size, record) = (self.size as usize, self.record as usize);
        let mut map = SharedMap::new(self.file.as_fd(), 0, size).map_err(failed)?;
        let mut bytes = vec![test as u8 + 1; record];
        self.records(test, most, |at| {
            let at = at as usize;
            if test.writes() {
                return map.put(at, &bytes).and_then(|()| map.sync(at, record, false)).map_err(failed);
            }
            map.get(at, &mut bytes).map_err(failed)?;
            black_box(&bytes);
            Ok(())
        })
    }

    fn written(&self, test: Test, most: Duration) -> Result<(u64, Duration), Failed> {
        let failed = cannot("read or write", &self.path);
        let mut bytes = vec![test as u8 + 1; self.record as usize];
        self.records(test, most, |at| {
            if test.writes() {
                return self.file.write_all_at(&bytes, at).map_err(failed);
            }
            self.file.read_exact_at(&mut bytes, at).map_err(failed)?;
            black_box(&bytes);
            Ok(())
        })
    }

    /// Moves the records of a test one after the other, until the time is over: bytes, and the time.
    fn records(
        &self,
        test: Test,
        most: Duration,
        mut move_record: impl FnMut(u64) -> Result<(), Failed>,
    ) -> Result<(u64, Duration), Failed> {
        let records = self.size / self.record;
        let begin = Instant::now();
        let (mut moved, mut took) = (self.size, Duration::ZERO);
        for turn in 0..records {
            move_record(test.record(turn, records, self.shuffled) * self.record)?;
            took = begin.elapsed();
            if took >= most {
                moved = (turn + 1) * self.record;
                break;
            }
        }
        self.scene.go_on()?;
        Ok((moved, took))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_goes_where_it_says() {
        let shuffled = shuffled(8);
        let order = |test: Test| (0..8).map(|turn| test.record(turn, 8, &shuffled)).collect::<Vec<_>>();
        assert_eq!(order(Test::Rewrite), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(order(Test::BackwardRead), [7, 6, 5, 4, 3, 2, 1, 0]);
        assert_eq!(order(Test::RecordRewrite), [0; 8]);
        assert_eq!(order(Test::StrideRead), [0, 1, 2, 3, 4, 5, 6, 7], "17 is 1 of 8");
        let mut random = order(Test::RandomWrite);
        assert_ne!(random, [0, 1, 2, 3, 4, 5, 6, 7]);
        random.sort_unstable();
        assert_eq!(random, [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
