//! What the device itself can do with fresh data: the limit beside which a copy's time must be read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use haul_sys::rustix::fs::{FallocateFlags, OFlags, fallocate, syncfs};

use crate::shell::{self, Result};

/// Threads, each with one request under way.
const DEPTH: usize = 4;
/// Bytes of a request, and the alignment of its buffer.
const REQUEST: usize = 8 << 20;
const ALIGN: usize = 4096;

/// [`fresh_data`] in a process of its own: the buffers of this one would be counted to every program that it starts.
///
/// # Errors
/// When the process fails.
pub fn measure(dir: &Path, size: u64) -> Result<Option<Duration>> {
    let said = shell::output(shell::own("fresh-data")?.arg(dir).arg(size.to_string()))?;
    Ok(said.trim().parse().ok().map(Duration::from_micros))
}

/// The process: prints microseconds, or a word where there is no direct I/O.
///
/// # Errors
/// When the arguments are wrong or the file cannot be made or written.
pub fn process(args: &[String]) -> Result {
    let [dir, size] = args else { return Err("fresh-data wants a directory and a number of bytes".into()) };
    let size = size.parse().map_err(|_| format!("{size:?} is no number"))?;
    match fresh_data(Path::new(dir), size)? {
        Some(time) => println!("{}", time.as_micros()),
        None => println!("unsupported"),
    }
    Ok(())
}

/// Writes incompressible data with O_DIRECT into a new, preallocated file, 8 MiB at queue depth 4, until it is
/// durable. `None` where the filesystem has no direct I/O.
///
/// # Errors
/// When the file cannot be made or written.
fn fresh_data(dir: &Path, size: u64) -> Result<Option<Duration>> {
    let path = dir.join("limit");
    let direct = i32::try_from(OFlags::DIRECT.bits()).map_err(|error| error.to_string())?;
    let Ok(file) = OpenOptions::new().write(true).create_new(true).custom_flags(direct).open(&path) else {
        // Not every filesystem lets a file be opened so; where it cannot even be created, the copies will say why.
        fs::remove_file(&path).unwrap_or_default();
        return Ok(None);
    };
    let failed = shell::at(&path);
    let pieces = (size / REQUEST as u64).max(1);
    let noise = Buffer::random()?;
    let start = Instant::now();
    fallocate(&file, FallocateFlags::empty(), 0, pieces * REQUEST as u64).map_err(|error| failed(error.into()))?;
    let next = AtomicU64::new(0);
    let worker = || -> io::Result<()> {
        let mut own = noise.clone();
        loop {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= pieces {
                return Ok(());
            }
            // Different bytes in each piece, should anything below compress or deduplicate.
            own.stamp(piece);
            file.write_all_at(own.bytes(), piece * REQUEST as u64)?;
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..DEPTH).map(|_| scope.spawn(worker)).collect();
        let joined = workers.into_iter().map(|one| one.join().unwrap_or_else(|_| Err(io::Error::other("panicked"))));
        joined.collect::<io::Result<()>>()
    })
    .map_err(failed)?;
    syncfs(&file).map_err(|error| failed(error.into()))?;
    let took = start.elapsed();
    fs::remove_file(&path).map_err(failed)?;
    Ok(Some(took.mul_f64(size as f64 / (pieces * REQUEST as u64) as f64)))
}

/// An aligned buffer without `unsafe`: a larger one, and an offset into it.
struct Buffer {
    memory: Vec<u8>,
    start: usize,
}

impl Buffer {
    fn random() -> Result<Buffer> {
        let mut buffer = Buffer::empty();
        let start = buffer.start;
        let mut random = File::open("/dev/urandom").map_err(|error| format!("/dev/urandom: {error}"))?;
        random
            .read_exact(&mut buffer.memory[start..start + REQUEST])
            .map_err(|error| format!("/dev/urandom: {error}"))?;
        Ok(buffer)
    }

    fn empty() -> Buffer {
        let memory = vec![0; REQUEST + ALIGN];
        let start = memory.as_ptr().align_offset(ALIGN);
        Buffer { memory, start }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + REQUEST]
    }

    fn stamp(&mut self, piece: u64) {
        for block in self.memory[self.start..self.start + REQUEST].chunks_mut(ALIGN) {
            block[..8].copy_from_slice(&piece.to_le_bytes());
        }
    }
}

impl Clone for Buffer {
    /// Aligned again: a copy of the vector may start elsewhere.
    fn clone(&self) -> Buffer {
        let mut copy = Buffer::empty();
        let start = copy.start;
        copy.memory[start..start + REQUEST].copy_from_slice(self.bytes());
        copy
    }
}
