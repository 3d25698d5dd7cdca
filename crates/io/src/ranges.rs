//! Which bytes to move: data and holes of a file, as SEEK_DATA and SEEK_HOLE tell them.
//!
//! The map is a hint. It may be wrong a moment later, and some filesystems call everything data, so:
//! each step goes forward, nothing beyond the size first seen is named, and who copies by it must go on reading at
//! that size, since only a read knows the end.

use std::os::fd::BorrowedFd;

use haul_sys::Errno;
use haul_sys::kernel::Kernel;
use haul_sys::rustix::io::retry_on_intr;

pub use crate::engine::parallel::Extent;

/// When the kernel contradicts itself about a place (it was punched between two calls), this many bytes from there
/// are taken for data, up to the next multiple.
const GRAIN: u64 = 64 << 10;

/// From here on SEEK_DATA finds nothing on tmpfs, whatever is there: the end of the last folio, of 2 MiB at most, is no offset
/// any more (Linux 6.18). So what is beyond is always taken for data.
pub(crate) const BLIND: u64 = (1 << 63) - (2 << 20);

/// The extents of a file in order, without gaps, from an offset up to the size that was seen; after an error, no more.
///
/// If the source shrinks meanwhile, they may end earlier. Moves the file position.
#[derive(Debug)]
pub struct Extents<'a> {
    kernel: &'a dyn Kernel,
    file: BorrowedFd<'a>,
    at: u64,
    size: u64,
    /// The place of the next data, if it is known already.
    data: Option<u64>,
}

impl<'a> Extents<'a> {
    /// The extents of `file` from byte `from` up to byte `size`.
    pub fn new(kernel: &'a dyn Kernel, file: BorrowedFd<'a>, from: u64, size: u64) -> Extents<'a> {
        Extents { kernel, file, at: from, size, data: None }
    }

    fn step(&mut self) -> Result<Option<Extent>, Errno> {
        let at = self.at;
        let data = match self.data.take() {
            Some(data) => data,
            None => match seek(|| self.kernel.seek_data(self.file, at))? {
                Found::At(data) => data,
                Found::Unsupported => return Ok(self.data_to(self.size)),
                Found::Nothing => {
                    // Either a hole up to the end, or the file ends before this place by now.
                    let end = self.kernel.size(self.file)?.min(self.size);
                    // It may have shrunk and grown again between the two questions: a hole is one only if nothing has
                    // come to stand there.
                    if end > at
                        && let Found::At(data) = seek(|| self.kernel.seek_data(self.file, at))?
                    {
                        if data > at {
                            self.data = Some(data);
                            return Ok(self.hole_to(data));
                        }
                        return Ok(self.data_to((at / GRAIN + 1).saturating_mul(GRAIN)));
                    }
                    // A size may promise more than there is (FUSE). What is no hole but nothing is for a read to tell.
                    self.size = if end > at && self.ends_before(end)? { at } else { end };
                    if self.size > BLIND && at >= BLIND {
                        return Ok(self.data_to(self.size));
                    }
                    if self.size > BLIND {
                        self.data = Some(BLIND);
                    }
                    return Ok(self.hole_to(self.size.min(BLIND)));
                }
            },
        };
        if data > at {
            self.data = Some(data);
            return Ok(self.hole_to(data));
        }
        match seek(|| self.kernel.seek_hole(self.file, at))? {
            Found::At(hole) if hole > at => Ok(self.data_to(hole)),
            // It has become a hole since. One piece is taken for data all the same: asking again could go on for ever.
            Found::At(_) => Ok(self.data_to((at / GRAIN + 1).saturating_mul(GRAIN))),
            // Beyond the end by now: a read will tell.
            Found::Nothing | Found::Unsupported => Ok(self.data_to(self.size)),
        }
    }

    /// Whether the file has no last byte of that many.
    fn ends_before(&self, size: u64) -> Result<bool, Errno> {
        retry_on_intr(|| self.kernel.pread(self.file, &mut [0], size - 1)).map(|count| count == 0)
    }

    fn data_to(&mut self, end: u64) -> Option<Extent> {
        self.advance(end).map(|(offset, len)| Extent::Data { offset, len })
    }

    fn hole_to(&mut self, end: u64) -> Option<Extent> {
        self.advance(end).map(|(offset, len)| Extent::Hole { offset, len })
    }

    fn advance(&mut self, end: u64) -> Option<(u64, u64)> {
        let (offset, end) = (self.at, end.min(self.size));
        self.at = end.max(offset);
        (end > offset).then(|| (offset, end - offset))
    }
}

impl Iterator for Extents<'_> {
    type Item = Result<Extent, Errno>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.size {
            return None;
        }
        let step = self.step();
        if step.is_err() {
            self.size = self.at;
        }
        step.transpose()
    }
}

enum Found {
    At(u64),
    /// No data from there to the end.
    Nothing,
    /// The filesystem cannot say.
    Unsupported,
}

fn seek(call: impl FnMut() -> Result<u64, Errno>) -> Result<Found, Errno> {
    match retry_on_intr(call) {
        Ok(offset) => Ok(Found::At(offset)),
        Err(Errno::NXIO) => Ok(Found::Nothing),
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::SPIPE | Errno::NOTTY) => Ok(Found::Unsupported),
        // An I/O error is an error: taken for the end, it would leave zeros in the copy.
        Err(errno) => Err(errno),
    }
}
