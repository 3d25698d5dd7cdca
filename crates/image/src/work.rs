//! What one pass over an image is to do.

use haul_sys::Errno;
use haul_sys::kernel::{Fd, Kernel};
use md5::Md5;

use super::io_mode::IoMode;
use super::observer::Observer;
use super::pieces::Piece;
use super::sink::Sink;
use super::steps::Reading;

pub(super) struct Work<'a> {
    pub(super) reading: Reading<'a>,
    /// In order.
    pub(super) pieces: &'a mut (dyn Iterator<Item = Result<Piece, Errno>> + Send),
    /// Written here; nowhere if there is nothing.
    pub(super) sink: Option<&'a mut Sink>,
    pub(super) md5: Option<Md5>,
    /// Through the page cache or past it, by how many threads.
    pub(super) io_mode: &'a IoMode,
    /// The source's own file, if its bytes are those of the image: it can be read ahead.
    pub(super) file: Option<(&'a dyn Kernel, Fd<'a>)>,
    pub(super) observer: &'a dyn Observer,
}
