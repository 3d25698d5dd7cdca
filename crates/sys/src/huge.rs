//! Memory in huge pages, for buffers that devices read and write.

use rustix::mm::{Advice, madvise};
use rustix::param::page_size;

/// What x86-64 and arm64 with 4 KiB pages call huge. Where it is something else, the advice is as good as none.
pub const HUGE_PAGE: usize = 2 << 20;

/// Asks for huge pages behind these bytes, as far as they are whole ones. A request of a device has a limited number of
/// segments (254 of 4 KiB on virtio: 1 MiB), and a huge page is one segment. Advice only: without it everything works.
pub fn advise(bytes: &mut [u8]) {
    let start = bytes.as_mut_ptr();
    let skip = start.addr().wrapping_neg() & (page_size() - 1);
    let Some(len) = bytes.len().checked_sub(skip).filter(|len| *len >= HUGE_PAGE) else { return };
    let len = len & !(page_size() - 1);
    // SAFETY: the range lies within the bytes, begins and ends at pages, and this advice changes no contents. It is advice
    // only, so its failure changes nothing but speed.
    unsafe { madvise(start.add(skip).cast(), len, Advice::LinuxHugepage) }.ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_stay_as_they_are() {
        for len in [0, 1, 4096, HUGE_PAGE, 3 * HUGE_PAGE + 5] {
            let mut bytes: Vec<u8> = (0..len).map(|index| index as u8).collect();
            advise(&mut bytes);
            assert!(bytes.iter().enumerate().all(|(index, byte)| *byte == index as u8));
        }
    }
}
