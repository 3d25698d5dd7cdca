//! One thread that walks a tree and copies what it meets.

use std::collections::HashSet;

use haul_sys::inode::{FileId, Inode};

use crate::context::{RunContext, Worker};
use crate::finish::naming;
use crate::schedule::limits::open_levels;
use crate::schedule::ordered::EventSink;
use crate::schedule::pool::Pool;
use crate::walk::{KnownEntry, Spot};
use crate::work::task::Task;

/// One thread that walks a tree and copies what it meets.
pub(crate) struct Walker<'a> {
    pub cx: RunContext<'a>,
    pub worker: Worker<'a>,
    /// The way to the observer; the session's leads here, too.
    pub sink: &'a EventSink<'a>,
    /// The other threads, if there can be any.
    pub pool: Option<&'a Pool<Task>>,
    /// Starts another thread for a task; gives the task back if the system has none.
    pub spawn: &'a dyn Fn(Task) -> Option<Task>,
    /// Does a task of another thread, for who has to wait for it.
    pub do_task: for<'r> fn(&mut Walker<'r>, Task),
    pub operands: Operands,
    /// Directories of one branch kept open on each side.
    pub open_levels: usize,
}

impl<'a> Walker<'a> {
    /// The only thread of a run.
    pub fn alone(
        cx: RunContext<'a>,
        sink: &'a EventSink<'a>,
        do_task: for<'r> fn(&mut Walker<'r>, Task),
    ) -> Walker<'a> {
        Walker {
            cx,
            worker: Worker::new(cx),
            sink,
            pool: None,
            spawn: &Some,
            do_task,
            operands: Operands::new(cx.plan.sources.len() > 1),
            open_levels: open_levels(1),
        }
    }

    /// Waits until nothing is in other hands, and helps; then everything gets its name. For the first thread, which alone meets
    /// what stood at the destination before.
    pub fn drain(&mut self) {
        if let Some(pool) = self.pool {
            pool.drain(|task| (self.do_task)(self, task));
        }
        naming::give_names(self.cx, &mut self.worker);
    }
}

/// The operand that is being copied, and what the ones before have left to know.
#[derive(Debug, Default)]
pub(crate) struct Operands {
    /// The number of the operand that is being copied.
    pub current: usize,
    /// Sources, and what was made for them; only where there are several.
    seen: Option<HashSet<KnownEntry>>,
    made: Option<HashSet<KnownEntry>>,
}

impl Operands {
    pub fn new(several: bool) -> Operands {
        Operands { current: 0, seen: several.then(HashSet::new), made: several.then(HashSet::new) }
    }

    /// Whether there are several.
    pub fn are_several(&self) -> bool {
        self.made.is_some()
    }

    /// Whether this operand was seen before; remembers it.
    pub fn was_seen(&mut self, spot: Spot<'_>, inode: &Inode) -> bool {
        let Some(entry) = KnownEntry::of(spot, inode.id) else { return false };
        self.seen.as_mut().is_some_and(|seen| !seen.insert(entry))
    }

    /// Whether this destination was made for an operand before.
    pub fn have_made(&self, spot: Spot<'_>, inode: &Inode) -> bool {
        let made = self.made.as_ref();
        made.is_some_and(|made| KnownEntry::of(spot, inode.id).is_some_and(|entry| made.contains(&entry)))
    }

    /// Remembers that this destination was made for an operand; `made` is which file that was, if it is known.
    pub fn remember(&mut self, spot: Spot<'_>, made: Option<FileId>) {
        let Some(known) = self.made.as_mut() else { return };
        // What waits for its name cannot be looked at.
        let Some(file) = spot.inode().map(|inode| inode.id).ok().or(made) else { return };
        known.extend(KnownEntry::of(spot, file));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use haul_testbed::temp_dir;

    use super::*;
    use crate::walk::Operand;

    #[test]
    fn an_operand_is_seen_the_second_time_also_by_another_path() {
        let dir = temp_dir();
        let path = dir.path().join("file");
        fs::write(&path, "x").unwrap();
        let other = dir.path().join("../").join(dir.path().file_name().unwrap()).join("file");
        let [first, second] = [&path, &other].map(|path| Operand::open(path.as_os_str()));
        let inode = first.spot().inode().unwrap();
        let mut several = Operands::new(true);
        assert!(!several.was_seen(first.spot(), &inode));
        assert!(several.was_seen(second.spot(), &inode));
        let mut single = Operands::new(false);
        assert!(!single.was_seen(first.spot(), &inode) && !single.was_seen(second.spot(), &inode));
    }

    #[test]
    fn what_was_made_for_an_operand_is_known_by_its_name_and_file() {
        let dir = temp_dir();
        let path = dir.path().join("made");
        fs::write(&path, "x").unwrap();
        let operand = Operand::open(path.as_os_str());
        let inode = operand.spot().inode().unwrap();
        let mut operands = Operands::new(true);
        assert!(!operands.have_made(operand.spot(), &inode));
        operands.remember(operand.spot(), None);
        assert!(operands.have_made(operand.spot(), &inode));
        let link = dir.path().join("link");
        fs::hard_link(&path, &link).unwrap();
        assert!(!operands.have_made(Operand::open(link.as_os_str()).spot(), &inode), "another name of the file");
    }
}
