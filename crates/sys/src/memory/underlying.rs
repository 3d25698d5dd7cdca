//! What allocates in static binaries: mimalloc, since musl's own malloc(3) has one lock for all threads, with which an archive
//! took 1.4 times as long. Where address space is limited it is musl's: mimalloc takes it in pieces of tens of MiB.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU8, Ordering};

use mimalloc::MiMalloc;
use rustix::process::{Resource, getrlimit};

/// Which one is used, from the first allocation on: what one has allocated the other cannot free.
static CHOSEN: AtomicU8 = AtomicU8::new(NONE);

/// With a lower limit than this, in bytes, musl's is used.
const ENOUGH: u64 = 4 << 30;

const NONE: u8 = 0;
const MIMALLOC: u8 = 1;
const LIBRARY: u8 = 2;

pub struct Underlying;

fn is_mimalloc() -> bool {
    match CHOSEN.load(Ordering::Relaxed) {
        NONE => choose() == MIMALLOC,
        chosen => chosen == MIMALLOC,
    }
}

#[cold]
fn choose() -> u8 {
    let limited = [Resource::As, Resource::Data]
        .into_iter()
        .any(|resource| getrlimit(resource).current.is_some_and(|bytes| bytes < ENOUGH));
    let choice = if limited { LIBRARY } else { MIMALLOC };
    // Another thread may have chosen meanwhile.
    CHOSEN.compare_exchange(NONE, choice, Ordering::Relaxed, Ordering::Relaxed).map_or_else(|chosen| chosen, |_| choice)
}

// SAFETY: everything is left to one allocator, the same for the life of the process.
unsafe impl GlobalAlloc for Underlying {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller promises for this call what that one asks for.
        unsafe { if is_mimalloc() { MiMalloc.alloc(layout) } else { System.alloc(layout) } }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above; the memory comes from the same allocator.
        unsafe { if is_mimalloc() { MiMalloc.dealloc(memory, layout) } else { System.dealloc(memory, layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { if is_mimalloc() { MiMalloc.alloc_zeroed(layout) } else { System.alloc_zeroed(layout) } }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as above; the memory comes from the same allocator.
        unsafe {
            if is_mimalloc() {
                MiMalloc.realloc(memory, layout, new_size)
            } else {
                System.realloc(memory, layout, new_size)
            }
        }
    }
}
