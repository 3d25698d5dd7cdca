//! Keeps the source being read some way ahead of the engine, so that the device works while bytes are written.

use std::num::NonZeroU64;

use haul_sys::kernel::{Fd, Kernel};

use crate::plan::EngineName;

/// One request: what the kernel takes at once with the usual settings of a device. Of a larger one it would drop the rest.
const REQUEST: u64 = 128 << 10;

/// The window of one file.
#[derive(Debug)]
pub(super) struct ReadAhead {
    window: u64,
    /// Up to where the source was asked for.
    asked: u64,
}

impl ReadAhead {
    /// Stays so many bytes ahead.
    pub fn new(window: u64) -> ReadAhead {
        ReadAhead { window: window.max(1), asked: 0 }
    }

    /// Whether an engine reads through the page cache, one request after the other.
    pub fn helps(name: EngineName) -> bool {
        let many_at_a_time = matches!(name, EngineName::IoUring | EngineName::LinuxAio | EngineName::PosixAio);
        !many_at_a_time && !matches!(name, EngineName::Clone | EngineName::Direct | EngineName::Null)
    }

    /// How large a job may be so that half of the window is still ahead when it is done.
    pub fn piece(&self) -> u64 {
        (self.window / 2).max(REQUEST)
    }

    /// Asks for what is still missing of the window at `at`, but nothing from `end` on.
    pub fn ask(&mut self, kernel: &dyn Kernel, source: Fd<'_>, at: u64, end: u64) {
        let until = at.saturating_add(self.window).min(end);
        // A jump over a hole leaves it out; what an engine has refused half way was asked for already.
        let mut from = self.asked.max(at);
        while let Some(len) = NonZeroU64::new(until.saturating_sub(from).min(REQUEST)) {
            // A hint: a file that has no page cache (EINVAL, ESPIPE) is copied without, and if the disk fails the engine
            // hears of it.
            if kernel.read_ahead(source, from, len).is_err() {
                break;
            }
            from += len.get();
        }
        self.asked = self.asked.max(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_sys::Errno;
    use std::os::fd::AsFd;
    use std::sync::Mutex;

    const MIB: u64 = 1 << 20;

    /// Writes down what is asked for.
    #[derive(Debug, Default)]
    struct Asked(Mutex<Vec<(u64, u64)>>);

    impl Kernel for Asked {
        fn read_ahead(&self, _: Fd<'_>, offset: u64, len: NonZeroU64) -> Result<(), Errno> {
            self.0.lock().unwrap().push((offset, offset + len.get()));
            Ok(())
        }
    }

    /// Beginnings and ends of everything that was asked for, adjacent requests joined.
    fn asked(window: u64, steps: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let (kernel, file) = (Asked::default(), std::fs::File::open("/").unwrap());
        let mut ahead = ReadAhead::new(window);
        for (at, end) in steps {
            ahead.ask(&kernel, file.as_fd(), *at, *end);
        }
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (from, to) in kernel.0.into_inner().unwrap() {
            assert!(to - from <= REQUEST);
            match joined.last_mut() {
                Some(last) if last.1 == from => last.1 = to,
                _ => joined.push((from, to)),
            }
        }
        joined
    }

    #[test]
    fn a_window_ahead_is_asked_for_and_nothing_twice() {
        assert_eq!(asked(8 * MIB, &[(0, 100 * MIB)]), [(0, 8 * MIB)]);
        assert_eq!(asked(8 * MIB, &[(0, 100 * MIB), (4 * MIB, 100 * MIB)]), [(0, 12 * MIB)]);
        assert_eq!(asked(8 * MIB, &[(0, 100 * MIB), (0, 100 * MIB)]), [(0, 8 * MIB)]);
    }

    #[test]
    fn nothing_is_asked_for_beyond_what_is_copied() {
        assert_eq!(asked(8 * MIB, &[(0, 5 * MIB + 17)]), [(0, 5 * MIB + 17)]);
        assert_eq!(asked(8 * MIB, &[(0, 0)]), []);
        // Two extents with a hole between them.
        let extents = asked(8 * MIB, &[(0, MIB), (64 * MIB, 65 * MIB)]);
        assert_eq!(extents, [(0, MIB), (64 * MIB, 65 * MIB)]);
    }

    #[test]
    fn a_file_that_refuses_is_not_asked_again_and_again() {
        #[derive(Debug, Default)]
        struct Refusing(Mutex<usize>);
        impl Kernel for Refusing {
            fn read_ahead(&self, _: Fd<'_>, _: u64, _: NonZeroU64) -> Result<(), Errno> {
                *self.0.lock().unwrap() += 1;
                Err(Errno::INVAL)
            }
        }
        let (kernel, file) = (Refusing::default(), std::fs::File::open("/").unwrap());
        ReadAhead::new(8 * MIB).ask(&kernel, file.as_fd(), 0, 100 * MIB);
        assert_eq!(*kernel.0.lock().unwrap(), 1);
    }
}
