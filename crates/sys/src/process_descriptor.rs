//! Descriptors that are known by their numbers only, as other languages have them.

use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use rustix::io::{Errno, fcntl_dupfd_cloexec};

/// Another descriptor for the same description.
///
/// # Errors
/// EBADF if the number stands for nothing that is open; EMFILE if there can be no more.
pub fn duplicate(number: RawFd) -> Result<OwnedFd, Errno> {
    if number < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: it is no -1, and it is used for one call, which asks the kernel whether it is open.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_dupfd_cloexec(descriptor, 0)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write, pipe};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn both_descriptors_stand_for_the_same_description() {
        let (mut reader, writer) = pipe().unwrap();
        let copy = duplicate(writer.as_raw_fd()).unwrap();
        drop(writer);
        File::from(copy).write_all(b"text").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
    }

    #[test]
    fn what_is_not_open_is_an_error() {
        for number in [-1, -100, RawFd::MAX] {
            assert_eq!(duplicate(number).err(), Some(Errno::BADF), "{number}");
        }
    }
}
