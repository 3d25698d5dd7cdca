//! Processes that read a file through mappings of their own, segment by segment and over and over, while it is copied.
//!
//! They share pages with the copy, and nothing else: their CPU time is not the copy's, which never waits for them.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::Ordering;

use haul_measure::own::Own;
use haul_measure::words;
use haul_sys::map::Mapping;

use super::method::Method;
use crate::measure::end_of_input;
use crate::measure::failure::Failure;

/// The name of the part of this program that is one.
pub(crate) const PART: &str = "read-mapped";

/// Bytes that are read at once.
const CHUNK: usize = 128 << 10;

pub(super) struct Readers(Vec<Child>);

impl Readers {
    /// Starts those of a method. Each has read something when this returns, and ends with its input.
    pub(super) fn start(method: &Method, source: &Path) -> Result<Readers, Failure> {
        let failed = |why: String| Failure::Failed(format!("cannot read beside the copy: {why}"));
        let start = |_| {
            let mut command = Own::running().map_err(failed)?.part(PART);
            command.arg(source).arg(method.request.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().map_err(|error| failed(words::of(&error)))?;
            let pipe = child.stdout.as_mut().ok_or_else(|| failed("no pipe".to_owned()))?;
            pipe.read_exact(&mut [0]).map_err(|error| failed(words::of(&error)))?;
            Ok(child)
        };
        (0..method.readers).map(start).collect::<Result<_, _>>().map(Readers)
    }

    /// Ends them: how many have read meanwhile, and how many bytes.
    pub(super) fn end(self) -> (u64, u64) {
        let mut done = (0, 0);
        for child in self.0 {
            drop(child.stdin);
            let mut said = String::new();
            let read = child.stdout.map(|mut pipe| pipe.read_to_string(&mut said));
            let bytes: u64 = if matches!(read, Some(Ok(_))) { said.trim().parse().unwrap_or(0) } else { 0 };
            done = (done.0 + u64::from(bytes > 0), done.1 + bytes);
        }
        done
    }
}

/// Reads the file that the first word names, in segments of the size that the second word says, until the input ends. Says
/// when it has begun, and at the end how many bytes it has read since.
pub(crate) fn read(words: &[OsString]) -> Result<(), String> {
    let [path, segment] = words else { return Err("a file and a size are needed".to_owned()) };
    let failed = words::cannot("read", Path::new(path));
    let segment: u64 = segment.to_str().and_then(|text| text.parse().ok()).ok_or("the size is no number")?;
    let file = File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let ended = end_of_input();
    let (mut at, mut bytes, mut buffer) = (0, None, vec![0; CHUNK]);
    while size > 0 && !ended.load(Ordering::Relaxed) {
        let len = segment.min(size - at) as usize;
        let mapping = Mapping::new(file.as_fd(), at, len).map_err(|errno| failed(errno.into()))?;
        for begin in (0..len).step_by(CHUNK) {
            let chunk = &mut buffer[..CHUNK.min(len - begin)];
            mapping.get(begin, chunk).map_err(|errno| failed(errno.into()))?;
            match &mut bytes {
                Some(bytes) => *bytes += chunk.len() as u64,
                None => {
                    bytes = Some(0);
                    say("\n")?;
                }
            }
            if bytes > Some(0) && ended.load(Ordering::Relaxed) {
                break;
            }
        }
        at = (at + segment) % size.next_multiple_of(segment);
    }
    say(&bytes.unwrap_or(0).to_string())
}

fn say(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| words::of(&error))
}
