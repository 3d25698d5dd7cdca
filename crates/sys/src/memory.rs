//! Memory that is not to be had: what a limit leaves of it, allocations that may fail, and the end of a command where one
//! fails that may not.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};

/// Kept for the last acts of a process: opendir(3) alone takes 32 KiB.
const RESERVE: usize = 128 << 10;

/// What a thread takes besides its stack: a stack for signal handlers, its name, its handle.
const BESIDE_A_STACK: u64 = 1 << 20;

/// With less address space than this all threads share one arena of malloc(3).
#[cfg(target_env = "gnu")]
const ENOUGH_FOR_ARENAS: u64 = 4 << 30;

/// Taken for used where the kernel does not tell.
const LIKELY_USED: u64 = 32 << 20;

#[cfg(target_env = "musl")]
mod underlying;

#[cfg(not(target_env = "musl"))]
use std::alloc::System as Underlying;
#[cfg(target_env = "musl")]
use underlying::Underlying;

/// The allocator of commands, the system's or, in static binaries, mimalloc: where it has no memory the process says so and ends with a status, as C programs do
/// (Rust's way is SIGABRT). Allocations in `may_fail` fail as usual.
#[derive(Debug, Default, Clone, Copy)]
pub struct Allocator;

// SAFETY: every call goes to the system's allocator as it came, and so does every answer; where there is no memory it may not
// return.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller promises for this call what that one asks for.
        or_end(unsafe { Underlying.alloc(layout) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { Underlying.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        or_end(unsafe { Underlying.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as above.
        or_end(unsafe { Underlying.realloc(memory, layout, new_size) })
    }
}

thread_local! {
    static MAY_FAIL: Cell<bool> = const { Cell::new(false) };
    /// This thread ends the process.
    static ENDS: Cell<bool> = const { Cell::new(false) };
}

/// Some thread ends the process.
static ENDING: AtomicBool = AtomicBool::new(false);
static STATUS: AtomicI32 = AtomicI32::new(1);
static LAST_ACT: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();
static RESERVED: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

fn or_end(memory: *mut u8) -> *mut u8 {
    if memory.is_null() && !MAY_FAIL.get() {
        end();
    }
    memory
}

/// The exit status of a process whose [`Allocator`] has no memory; 1 unless it is set.
pub fn end_with_status(status: u8) {
    STATUS.store(i32::from(status), Ordering::Relaxed);
}

/// What is done before a process ends whose [`Allocator`] has no memory: by any thread, with whatever locks it holds. Memory
/// for it is set aside now. Only the first call counts.
pub fn before_the_end(act: impl Fn() + Send + Sync + 'static) {
    if LAST_ACT.set(Box::new(act)).is_ok()
        && let Some(layout) = reserve()
    {
        // SAFETY: the layout is not of size zero.
        RESERVED.store(unsafe { Underlying.alloc(layout) }, Ordering::SeqCst);
    }
}

fn reserve() -> Option<Layout> {
    Layout::array::<u8>(RESERVE).ok()
}

#[cold]
fn end() -> ! {
    if ENDING.swap(true, Ordering::SeqCst) && !ENDS.get() {
        loop {
            // SAFETY: pause waits for a signal and touches nothing. The thread that was first ends the process.
            unsafe { libc::pause() };
        }
    }
    // Not what the last act itself could not get.
    if !ENDS.replace(true) {
        say();
        let reserved = RESERVED.swap(ptr::null_mut(), Ordering::SeqCst);
        if !reserved.is_null()
            && let Some(layout) = reserve()
        {
            // SAFETY: it was allocated by the same allocator with this layout, and nobody else has it any more.
            unsafe { Underlying.dealloc(reserved, layout) };
        }
        if let Some(act) = LAST_ACT.get() {
            // A panic must not leave an allocator. Its message is out already.
            catch_unwind(AssertUnwindSafe(act)).ok();
        }
    }
    // SAFETY: it ends the process at once and runs nothing of it.
    unsafe { libc::_exit(STATUS.load(Ordering::Relaxed)) }
}

/// Says it in cp's words, without any memory.
fn say() {
    unsafe extern "C" {
        /// The C library's copy of the first argument, there before `main`.
        static program_invocation_name: *const libc::c_char;
    }
    let text = b": memory exhausted\n";
    // SAFETY: it is set before any code of ours runs, and a string that ends in a zero.
    let (name, len) = unsafe { (program_invocation_name, libc::strlen(program_invocation_name)) };
    let parts = [
        libc::iovec { iov_base: name.cast_mut().cast(), iov_len: len },
        libc::iovec { iov_base: text.as_ptr().cast_mut().cast(), iov_len: text.len() },
    ];
    // SAFETY: both parts are live for so many bytes, and are only read. Whether it was written helps nobody any more.
    unsafe { libc::writev(libc::STDERR_FILENO, parts.as_ptr(), 2) };
}

/// Runs something whose allocations may fail: they return what they return where there is no memory.
pub(crate) fn may_fail<T>(act: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            MAY_FAIL.set(self.0);
        }
    }
    let _before = Before(MAY_FAIL.replace(true));
    act()
}

/// So many zeros, which the system provides when they are touched. `None` where there is no memory.
#[must_use]
pub fn zeros(len: usize) -> Option<Vec<u8>> {
    if len == 0 {
        return Some(Vec::new());
    }
    let layout = Layout::array::<u8>(len).ok()?;
    // SAFETY: the layout is not of size zero.
    let memory = may_fail(|| unsafe { std::alloc::alloc_zeroed(layout) });
    if memory.is_null() {
        return None;
    }
    // SAFETY: it comes from the global allocator with the layout of so many bytes, all of which are zero.
    Some(unsafe { Vec::from_raw_parts(memory, len, len) })
}

/// Bytes that this process may still take of what `ulimit -v` and `ulimit -d` allow; `None` where there is no limit.
#[must_use]
pub fn left() -> Option<u64> {
    let [address_space, data] = [Resource::As, Resource::Data].map(|resource| getrlimit(resource).current);
    if address_space.is_none() && data.is_none() {
        return None;
    }
    let pages = may_fail(|| fs::read_to_string("/proc/self/statm")).unwrap_or_default();
    let mut pages = pages.split_ascii_whitespace().map(str::parse::<u64>);
    let mut used = |skip| match pages.nth(skip) {
        Some(Ok(pages)) => pages * page_size() as u64,
        _ => LIKELY_USED,
    };
    // The whole, then resident, shared, code and nothing, then data with stack.
    let used = [used(0), used(4)];
    [address_space, data].into_iter().zip(used).filter_map(|(limit, used)| Some(limit?.saturating_sub(used))).min()
}

/// Whether a thread with a stack of so many bytes can be started. One that has its stack and cannot get the rest would end the
/// process.
#[must_use]
pub fn has_room_for_thread(stack: u64) -> bool {
    left().is_none_or(|left| left >= stack + BESIDE_A_STACK)
}

/// Lets threads share one arena of malloc(3) where address space is limited: each arena of its own takes 64 MiB of it. To be
/// called before there are threads.
pub fn spare_address_space() {
    #[cfg(target_env = "gnu")]
    if left().is_some_and(|left| left < ENOUGH_FOR_ARENAS) {
        // SAFETY: it sets a number of the C library. Where it fails, more memory is taken.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_zeros_and_no_memory_is_an_answer() {
        let mut bytes = zeros(100_000).unwrap();
        assert!(bytes.len() == 100_000 && bytes.iter().all(|byte| *byte == 0));
        bytes.push(1);
        assert_eq!(zeros(0), Some(Vec::new()));
        assert_eq!(zeros(isize::MAX as usize), None);
        assert_eq!(zeros(usize::MAX), None);
    }

    #[test]
    fn what_may_fail_ends_with_what_was_called() {
        may_fail(|| {
            may_fail(|| ());
            assert!(MAY_FAIL.get());
        });
        assert!(!MAY_FAIL.get());
        catch_unwind(|| may_fail(|| panic!("as any call may"))).unwrap_err();
        assert!(!MAY_FAIL.get());
    }
}
