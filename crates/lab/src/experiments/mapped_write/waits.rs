//! What a store waited for, as far as that can be seen from outside: pure judgements on what [`super::watch`] saw.

use serde::{Deserialize, Serialize};

use crate::names::named;

named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Wait {
        /// For a page to be written back: it must stay stable until then.
        StablePage = "stable-page",
        /// The kernel made the writer rest, since there is too much that is not written back yet (balance_dirty_pages).
        Throttled = "throttled",
        /// For memory: pages had to be reclaimed or moved first.
        Memory = "memory",
        /// For the filesystem: its journal, an allocation, a lock, an answer of its server.
        Filesystem = "filesystem",
        /// For a page that somebody else held locked, or that was being read.
        Page = "page",
        /// It was preempted: ready to run, without a processor.
        NotOnProcessor = "not-on-processor",
        /// It did not wait: the processor was at work for it, on page faults most likely.
        OnProcessor = "on-processor",
        Unknown = "unknown",
    }
}

impl Wait {
    /// The other way round.
    pub(crate) fn of_name(name: &str) -> Option<Wait> {
        Wait::ALL.into_iter().find(|wait| wait.name() == name)
    }

    /// What so many fills did, for people.
    pub(crate) fn says(self, fills: usize) -> String {
        let be = if fills == 1 { "was" } else { "were" };
        match self {
            Wait::StablePage => "waited until a page was written back".to_owned(),
            Wait::Throttled => format!("{be} throttled, since too much was not yet written back"),
            Wait::Memory => "waited for memory".to_owned(),
            Wait::Filesystem => "waited for the filesystem".to_owned(),
            Wait::Page => "waited for a page that was locked or being read".to_owned(),
            Wait::NotOnProcessor => format!("{be} preempted (or the hypervisor had the processor)"),
            Wait::OnProcessor => "kept the processor busy all the time".to_owned(),
            Wait::Unknown => "waited for an unknown reason".to_owned(),
        }
    }

    /// Whether it stood still for storage or memory. What was busy, or only had no processor, did not.
    pub(crate) fn stands_still(self) -> bool {
        !matches!(self, Wait::NotOnProcessor | Wait::OnProcessor)
    }
}

/// Functions of the kernel, innermost first where they stand on a stack, and what a thread in them waits for. The first line
/// that fits decides, so what is special comes before what it calls or is called from.
const PLACES: &[(Wait, &str)] = &[
    (Wait::Throttled, "balance_dirty_pages"),
    (
        Wait::StablePage,
        "folio_wait_stable folio_wait_writeback wait_for_stable_page wait_on_page_writeback \
         fuse_wait_on_page_writeback fuse_wait_on_folio_writeback btrfs_start_ordered_extent nfs_wb_folio",
    ),
    (
        Wait::Memory,
        "__alloc_pages_slowpath try_to_free shrink_ reclaim_throttle compact_zone \
         mem_cgroup_handle_over_high try_charge",
    ),
    (Wait::Page, "__folio_lock __lock_page folio_wait_bit wait_on_page_bit filemap_fault"),
    (
        Wait::Filesystem,
        "jbd2_ start_this_handle wait_transaction_locked ext4_ xfs_ xlog_ btrfs_ f2fs_ iomap_ fuse_ \
         request_wait_answer nfs cifs_ ceph_ zfs_ zpl_ ovl_ page_mkwrite",
    ),
];

/// What a thread here waits for: lines of `/proc/PID/stack`, or the one name in `wchan`. `None` if it says nothing.
pub fn place(text: &str) -> Option<Wait> {
    if text.trim().is_empty() || text.trim() == "0" {
        return None;
    }
    let found = PLACES.iter().find(|(_, names)| names.split(' ').any(|name| text.contains(name)));
    Some(found.map_or(Wait::Unknown, |(wait, _)| *wait))
}

/// Functions that are shown of a stack.
const SHOWN: usize = 6;

/// The innermost functions of a stack, or the one name in `wchan`: `a < b < c`, where a was called by b.
pub fn functions(text: &str) -> String {
    let name = |line: &str| {
        let name = line.rsplit_once("] ").map_or(line, |(_, name)| name);
        name.split('+').next().unwrap_or(name).trim().to_owned()
    };
    text.lines().map(name).filter(|name| !name.is_empty()).take(SHOWN).collect::<Vec<_>>().join(" < ")
}

/// How a long store spent its time, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    /// From its beginning to its end.
    pub whole: f64,
    pub running: f64,
    /// Ready to run, without one.
    pub ready: f64,
}

/// What a long store waited for: most of its time decides, then what it was most often seen at. Where it was not seen at
/// all (it was over too soon), that it waited is all there is to say. Time that a hypervisor took is in none of the kernel's
/// sums; a thread that was ready to run at each look did not wait for anything else.
pub fn judge(spent: Spent, seen: &[Wait]) -> Wait {
    let still = (spent.whole - spent.running - spent.ready).max(0.0);
    if still < spent.running.max(spent.ready) {
        return if spent.ready > spent.running { Wait::NotOnProcessor } else { Wait::OnProcessor };
    }
    let times = |wait: Wait| seen.iter().filter(|seen| **seen == wait).count();
    let waited: usize = Wait::ALL.into_iter().filter(|wait| wait.stands_still()).map(times).sum();
    if times(Wait::NotOnProcessor) > waited {
        return Wait::NotOnProcessor;
    }
    let known = Wait::ALL.into_iter().filter(|wait| wait.stands_still() && *wait != Wait::Unknown && times(*wait) > 0);
    // Of several seen as often, the first.
    known.rev().max_by_key(|wait| times(*wait)).unwrap_or(Wait::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_is_read_off_the_kernels_stack() {
        let stack = |names: &[&str]| names.iter().map(|name| format!("[<0>] {name}+0x5e/0x1a0\n")).collect::<String>();
        for (names, expected) in [
            (&["folio_wait_bit_common", "folio_wait_writeback", "ext4_page_mkwrite", "do_fault"][..], Wait::StablePage),
            (&["io_schedule_timeout", "balance_dirty_pages", "fault_dirty_shared_page"], Wait::Throttled),
            (&["jbd2_log_wait_commit", "ext4_page_mkwrite", "do_page_mkwrite"], Wait::Filesystem),
            (&["start_this_handle", "jbd2__journal_start", "ext4_page_mkwrite"], Wait::Filesystem),
            (&["reclaim_throttle", "shrink_node", "try_to_free_pages", "ext4_page_mkwrite"], Wait::Memory),
            (&["folio_wait_bit_common", "__folio_lock", "ext4_page_mkwrite"], Wait::Page),
            (&["folio_wait_bit_common", "filemap_fault", "__do_fault"], Wait::Page),
            (&["folio_wait_writeback", "fuse_page_mkwrite"], Wait::StablePage),
            (&["request_wait_answer", "fuse_simple_request"], Wait::Filesystem),
            (&["futex_wait"], Wait::Unknown),
        ] {
            assert_eq!(place(&stack(names)), Some(expected), "{names:?}");
            assert_eq!(functions(&stack(names)), names.join(" < "));
        }
        assert_eq!(functions("balance_dirty_pages"), "balance_dirty_pages");
        assert_eq!((place("0"), place(" \n")), (None, None));
        assert_eq!(place("balance_dirty_pages"), Some(Wait::Throttled), "wchan has one name alone");
    }

    #[test]
    fn most_of_the_time_decides_before_what_was_seen() {
        let spent = |running: f64, ready: f64| Spent { whole: 1.0, running, ready };
        assert_eq!(judge(spent(0.9, 0.0), &[Wait::Throttled]), Wait::OnProcessor);
        assert_eq!(judge(spent(0.1, 0.8), &[]), Wait::NotOnProcessor);
        assert_eq!(judge(spent(0.1, 0.1), &[]), Wait::Unknown);
        let seen = [Wait::Filesystem, Wait::StablePage, Wait::StablePage, Wait::Unknown, Wait::Unknown, Wait::Unknown];
        assert_eq!(judge(spent(0.1, 0.1), &seen), Wait::StablePage);
        assert_eq!(judge(spent(0.0, 0.0), &[Wait::Filesystem, Wait::Throttled]), Wait::Throttled);
        let stolen = [Wait::NotOnProcessor, Wait::NotOnProcessor, Wait::Filesystem];
        assert_eq!(judge(spent(0.1, 0.1), &stolen), Wait::NotOnProcessor);
        assert_eq!(judge(spent(0.1, 0.1), &stolen[1..]), Wait::Filesystem);
    }

    #[test]
    fn names_lead_back_to_what_they_name() {
        assert!(Wait::ALL.into_iter().all(|wait| Wait::of_name(wait.name()) == Some(wait)));
        assert_eq!(Wait::of_name("throttle"), None);
    }
}
