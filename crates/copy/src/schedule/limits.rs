//! How many threads and open directories the limits of the process allow.

use haul_sys::memory;
use haul_sys::rustix::process;

/// What a thread may take, in bytes, where memory is limited: its stack, buffers, names of directories.
const MEMORY_OF_A_THREAD: u64 = 16 << 20;

/// How many levels of a tree each of so many threads keeps open: each takes a descriptor on either side, and half of them
/// must be left for the rest.
pub(crate) fn open_levels(threads: usize) -> usize {
    (descriptors() / 4 / threads).clamp(1, 4096)
}

/// Few trees are deeper.
const USUAL_LEVELS: usize = 24;

/// How many threads can keep open the levels of usual trees. There may be more; but each thread that there may be takes levels from
/// all others, whether or not it ever works.
pub(crate) fn threads_with_usual_levels() -> usize {
    (descriptors() / 4 / USUAL_LEVELS).saturating_sub(1)
}

/// How many threads there are descriptors and memory for. Beside the levels that it keeps open a thread needs a directory that
/// it just enters, the two files, a pipe, and the level that is closed next. The first thread needs as much memory as any other.
pub(crate) fn affordable_threads() -> usize {
    let for_memory =
        memory::left().map_or(usize::MAX, |left| usize::try_from(left / MEMORY_OF_A_THREAD).unwrap_or(usize::MAX));
    (descriptors() / 16).min(for_memory).max(1)
}

/// How many descriptors may be open, but for a few that have nothing to do with trees.
pub(crate) fn descriptors() -> usize {
    let limit = process::getrlimit(process::Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit.saturating_sub(16)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_open_however_many_threads_there_are() {
        assert_eq!(open_levels(usize::MAX), 1);
    }

    #[test]
    fn open_levels_of_all_threads_take_half_of_the_descriptors() {
        for threads in [1, 2, 8, 64] {
            let levels = open_levels(threads);
            // Two descriptors a level.
            assert!(levels == 1 || 2 * threads * levels <= descriptors() / 2, "{threads}: {levels}");
            assert!(levels <= open_levels(1) && levels <= 4096);
        }
    }

    #[test]
    fn threads_for_servers_leave_the_levels_of_usual_trees_open() {
        let threads = threads_with_usual_levels();
        assert!(threads == 0 || open_levels(threads + 1) >= USUAL_LEVELS, "{threads}");
    }

    #[test]
    fn each_thread_has_descriptors_and_there_is_always_one() {
        let threads = affordable_threads();
        assert!(threads == 1 || (threads > 1 && 16 * threads <= descriptors()), "{threads}");
    }
}
