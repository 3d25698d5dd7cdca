//! Reads behind a copy: what it has moved is read again from the source, hashed, and compared with the destination.

use std::os::fd::BorrowedFd;

use haul_sys::Errno;
use haul_sys::kernel::Kernel;

use crate::engine::buffer::AlignedBuffer;
use crate::engine::calls::again;
use parking_lot::{Condvar, Mutex};
use twox_hash::xxhash3_128::Hasher;

use super::blocks::{Blocks, Mismatch, WINDOW, hash};
use super::digest::Checksum;
use super::digest::Digest;

/// The copy waits when it is so far ahead: what is read again must still be in the page cache, and the memory of the machine
/// is for others, too.
const AHEAD: u64 = 256 << 20;

/// What was found.
#[derive(Debug, Default)]
pub struct Checked {
    /// The digest of the source's bytes, where one was wanted.
    pub digest: Option<String>,
    /// Fingerprints of the source's blocks, where they were wanted.
    pub blocks: Option<Blocks>,
    /// The first place that differs.
    pub mismatch: Option<Mismatch>,
}

/// Why it could not be found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The copy itself failed, or was given up.
    Abandoned,
    /// The source could not be read again.
    Source(Errno),
    /// The destination could not be read.
    Dest(Errno),
    /// The source is shorter than what was copied of it.
    SourceEnded(u64),
}

/// Where the copy stands and where its follower does. Shared by both.
#[derive(Debug, Default)]
pub struct Follower {
    progress: Mutex<Progress>,
    moved_on: Condvar,
}

#[derive(Debug, Default, Clone, Copy)]
struct Progress {
    copied: u64,
    checked: u64,
    /// The size of the copy, once it is whole.
    end: Option<u64>,
    /// One of the two has given up.
    over: bool,
    /// Nobody reads until the copy is whole.
    afterwards: bool,
}

impl Follower {
    /// A copy that comes in pieces of this many bytes lets its follower begin soon, and go on while it does.
    pub const PIECE: u64 = 8 << 20;

    /// One that begins when the copy is whole.
    pub fn afterwards() -> Follower {
        let follower = Follower::default();
        follower.do_not_wait();
        follower
    }

    /// The copy does not wait for it.
    pub fn do_not_wait(&self) {
        self.progress.lock().afterwards = true;
    }

    /// The copy has come so far, and everything before is there.
    pub fn copied(&self, to: u64) {
        let mut progress = self.progress.lock();
        if to > progress.copied {
            progress.copied = to;
            self.moved_on.notify_all();
        }
    }

    /// Waits until a copy that goes on here is not too far ahead.
    pub(crate) fn let_follow(&self, at: u64) {
        let mut progress = self.progress.lock();
        while !progress.over && !progress.afterwards && progress.copied.min(at).saturating_sub(progress.checked) > AHEAD
        {
            self.moved_on.wait(&mut progress);
        }
    }

    /// Up to where everything was read again.
    pub fn checked(&self) -> u64 {
        self.progress.lock().checked
    }

    /// The copy is whole and has this size. Waits until all of it was read again, if somebody does that.
    pub fn whole(&self, end: u64, wait: bool) {
        let mut progress = self.progress.lock();
        (progress.copied, progress.end) = (end, Some(end));
        self.moved_on.notify_all();
        while wait && !progress.over && !progress.afterwards && progress.checked < end {
            self.moved_on.wait(&mut progress);
        }
    }

    /// Nothing more comes.
    pub fn abandon(&self) {
        self.progress.lock().over = true;
        self.moved_on.notify_all();
    }

    /// Reads behind the copy until that is whole, or is given up, or `stop` says so. `dest` is read and compared if it is given.
    ///
    /// # Errors
    /// What cannot be read, and that the copy was given up.
    pub fn follow(
        &self,
        kernel: &dyn Kernel,
        source: BorrowedFd<'_>,
        dest: Option<BorrowedFd<'_>>,
        wishes: Wishes,
        stop: &dyn Fn() -> bool,
    ) -> Result<Checked, Trouble> {
        let over = Over(self);
        let checked = self.try_follow(&mut Pass::new(kernel, source, dest, wishes), stop)?;
        std::mem::forget(over);
        Ok(checked)
    }

    fn try_follow(&self, pass: &mut Pass<'_>, stop: &dyn Fn() -> bool) -> Result<Checked, Trouble> {
        let mut at = 0;
        loop {
            let (to, end) = self.next(at)?;
            while at < to {
                if stop() {
                    return Err(Trouble::Abandoned);
                }
                let len = (to - at).min(WINDOW as u64) as usize;
                pass.window(at, len)?;
                at += len as u64;
                self.progress.lock().checked = at;
                self.moved_on.notify_all();
            }
            if let Some(end) = end.filter(|end| at >= *end) {
                pass.look_at_size(end)?;
                return Ok(pass.finish());
            }
        }
    }

    /// Waits for whole windows, or the last one.
    fn next(&self, at: u64) -> Result<(u64, Option<u64>), Trouble> {
        let mut progress = self.progress.lock();
        loop {
            if progress.over {
                return Err(Trouble::Abandoned);
            }
            if let Some(end) = progress.end {
                return Ok((end, Some(end)));
            }
            let whole = progress.copied - progress.copied % WINDOW as u64;
            if whole > at {
                return Ok((whole, None));
            }
            self.moved_on.wait(&mut progress);
        }
    }
}

/// When it goes away, by an error or a panic, nobody waits for the follower any more.
struct Over<'a>(&'a Follower);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// What is wanted of a pass over a file.
#[derive(Debug, Clone, Copy)]
pub struct Wishes {
    /// A digest of all bytes.
    pub checksum: Option<Checksum>,
    /// Fingerprints of blocks, for a file of about this size in bytes.
    pub blocks: Option<u64>,
    /// The copy must have the size of what was copied.
    pub exact: bool,
}

/// One pass over both files.
struct Pass<'a> {
    kernel: &'a dyn Kernel,
    source: BorrowedFd<'a>,
    dest: Option<BorrowedFd<'a>>,
    ours: AlignedBuffer,
    theirs: AlignedBuffer,
    wishes: Wishes,
    digest: Option<Digest>,
    blocks: Option<Blocks>,
    /// The block in the making.
    block: Hasher,
    /// Bytes in it.
    filled: u64,
    mismatch: Option<Mismatch>,
}

impl<'a> Pass<'a> {
    fn new(kernel: &'a dyn Kernel, source: BorrowedFd<'a>, dest: Option<BorrowedFd<'a>>, wishes: Wishes) -> Pass<'a> {
        Pass {
            kernel,
            source,
            dest,
            ours: AlignedBuffer::for_copying(WINDOW),
            theirs: AlignedBuffer::for_copying(if dest.is_some() { WINDOW } else { 0 }),
            wishes,
            digest: wishes.checksum.map(Digest::new),
            blocks: wishes.blocks.map(Blocks::of_size),
            block: Hasher::new(),
            filled: 0,
            mismatch: None,
        }
    }

    fn window(&mut self, at: u64, len: usize) -> Result<(), Trouble> {
        let ours = &mut self.ours.bytes()[..len];
        let count = read_all(self.kernel, self.source, ours, at).map_err(Trouble::Source)?;
        if count < len {
            return Err(Trouble::SourceEnded(at + count as u64));
        }
        if let Some(digest) = &mut self.digest {
            digest.update(ours);
        }
        if let Some(dest) = self.dest.filter(|_| self.mismatch.is_none()) {
            let theirs = &mut self.theirs.bytes()[..len];
            let count = read_all(self.kernel, dest, theirs, at).map_err(Trouble::Dest)?;
            // A hole at the end is there when the copy is whole; then its size is looked at.
            theirs[count..].fill(0);
            if ours != theirs {
                let same = ours.iter().zip(theirs.iter()).take_while(|(a, b)| a == b).count();
                let (source, dest) = (hash(ours), hash(theirs));
                self.mismatch = Some(Mismatch { offset: at + same as u64, source, dest });
            }
        }
        // Blocks are a whole number of windows.
        if let Some(blocks) = &mut self.blocks {
            self.block.write(ours);
            self.filled += len as u64;
            blocks.total += len as u64;
            if self.filled == blocks.size {
                blocks.hashes.push(finished(&mut self.block));
                self.filled = 0;
            }
        }
        Ok(())
    }

    /// A regular copy must not be longer than what was copied, nor shorter. The size of a device is its own.
    fn look_at_size(&mut self, end: u64) -> Result<(), Trouble> {
        let Some(dest) = self.dest.filter(|_| self.mismatch.is_none()) else { return Ok(()) };
        let size = self.kernel.size(dest).map_err(Trouble::Dest)?;
        if size != end && self.wishes.exact {
            self.mismatch = Some(Mismatch { offset: size.min(end), source: hash(&[]), dest: hash(&[]) });
        }
        Ok(())
    }

    fn finish(&mut self) -> Checked {
        if let Some(blocks) = self.blocks.as_mut().filter(|_| self.filled > 0) {
            blocks.hashes.push(finished(&mut self.block));
        }
        Checked { digest: self.digest.take().map(Digest::finish), blocks: self.blocks.take(), mismatch: self.mismatch }
    }
}

/// The hash of a block, which the next one takes the place of.
fn finished(block: &mut Hasher) -> u128 {
    std::mem::replace(block, Hasher::new()).finish_128()
}

/// Reads until the buffer is full or the file ends.
pub(super) fn read_all(kernel: &dyn Kernel, file: BorrowedFd<'_>, buffer: &mut [u8], at: u64) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        match again(|| kernel.pread(file, &mut buffer[filled..], at + filled as u64))? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use haul_sys::kernel::Linux;
    use haul_testbed::{TempDir, create_painted, temp_dir};

    const WISHES: Wishes = Wishes { checksum: None, blocks: None, exact: true };

    fn pair(size: u64) -> (TempDir, File, File) {
        let dir = temp_dir();
        for name in ["a", "b"] {
            create_painted(dir.path().join(name), size);
        }
        let open = |name: &str| File::options().read(true).write(true).open(dir.path().join(name)).unwrap();
        let (a, b) = (open("a"), open("b"));
        (dir, a, b)
    }

    fn follow(a: &File, b: &File, end: u64) -> Result<Checked, Trouble> {
        let follower = Follower::afterwards();
        follower.whole(end, true);
        follower.follow(&Linux, a.as_fd(), Some(b.as_fd()), WISHES, &|| false)
    }

    #[test]
    fn one_byte_that_differs_is_found_wherever_it_is() {
        let size = 2 * WINDOW as u64 + 77;
        for at in [0, 1, WINDOW as u64 - 1, WINDOW as u64, size - 1] {
            let (_dir, a, b) = pair(size);
            assert_eq!(follow(&a, &b, size).unwrap().mismatch, None);
            let mut byte = [0];
            b.read_exact_at(&mut byte, at).unwrap();
            b.write_all_at(&[!byte[0]], at).unwrap();
            assert_eq!(follow(&a, &b, size).unwrap().mismatch.unwrap().offset, at);
        }
    }

    #[test]
    fn a_copy_that_is_too_long_or_too_short_differs() {
        let size = 100_000;
        for wrong in [size - 1, size + 1] {
            let (_dir, a, b) = pair(size);
            b.set_len(wrong).unwrap();
            let mismatch = follow(&a, &b, size).unwrap().mismatch.unwrap();
            assert_eq!(mismatch.offset, size.min(wrong));
        }
    }

    #[test]
    fn a_source_that_has_become_shorter_is_no_mismatch() {
        let (_dir, a, b) = pair(100_000);
        a.set_len(60_000).unwrap();
        assert_eq!(follow(&a, &b, 100_000).unwrap_err(), Trouble::SourceEnded(60_000));
    }

    #[test]
    fn a_hole_at_the_end_counts_when_the_copy_is_whole() {
        let (_dir, a, b) = pair(1000);
        a.set_len(3 * WINDOW as u64).unwrap();
        let follower = Follower::default();
        std::thread::scope(|scope| {
            let found = scope.spawn(|| follower.follow(&Linux, a.as_fd(), Some(b.as_fd()), WISHES, &|| false));
            follower.copied(3 * WINDOW as u64);
            while follower.checked() < 2 * WINDOW as u64 {
                std::thread::yield_now();
            }
            b.set_len(3 * WINDOW as u64).unwrap();
            follower.whole(3 * WINDOW as u64, true);
            assert_eq!(found.join().unwrap().unwrap().mismatch, None);
        });
    }

    #[test]
    fn the_copy_waits_for_a_follower_that_is_far_behind_and_not_for_one_that_has_given_up() {
        let follower = Follower::default();
        follower.copied(2 * AHEAD);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| follower.let_follow(2 * AHEAD));
            assert!(!waiting.is_finished());
            follower.abandon();
            waiting.join().unwrap();
        });
        Follower::afterwards().let_follow(u64::MAX);
    }
}
