//! One thread that walks a tree and copies what it meets.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use haul_sys::inode::{FileId, Inode};

use crate::context::{RunContext, Worker};
use crate::finish::naming;
use crate::schedule::limits::open_levels;
use crate::schedule::ordered::EventSink;
use crate::schedule::pool::Pool;
use crate::walk::{KnownEntry, Spot};
use crate::work::task::Task;

pub(crate) struct Walker<'a> {
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
            worker: Worker::new(cx),
            sink,
            pool: None,
            spawn: &Some,
            do_task,
            operands: Operands::new(cx.plan.sources.len() > 1),
            open_levels: open_levels(1),
        }
    }

    /// Waits until everything is done that comes before in a serial copy, and has its name. In a run that is cancelled it may
    /// never be: the caller looks whether it is.
    pub fn wait_for_turn(&mut self) {
        let cx = self.worker.cx;
        match self.pool {
            // Who looks ahead changes nothing.
            Some(pool) if pool.open() == 1 && cx.services.order.is_wanted() => naming::give_names(&mut self.worker),
            // Others may have what comes later, and wait for this.
            Some(pool) if cx.services.order.is_known() => {
                pool.rest_until(|| self.sink.is_first() || cx.cancelled());
                naming::give_names(&mut self.worker);
            }
            // They have what comes before: only the first thread meets what stood at the destination.
            _ => {
                cx.services.order.take_back();
                self.drain();
            }
        }
    }

    /// Waits until nothing is in other hands, and helps; then everything gets its name. For the first thread.
    pub fn drain(&mut self) {
        if let Some(pool) = self.pool {
            pool.drain(|task| (self.do_task)(self, task));
        }
        naming::give_names(&mut self.worker);
    }
}

/// The operand that is being copied, and what the ones before have left to know.
#[derive(Debug, Default)]
pub(crate) struct Operands {
    pub current: usize,
    /// There are others beside it; only then the rest is known.
    pub several: bool,
    /// Sources, and what was made for them.
    seen: HashSet<KnownEntry>,
    made: HashSet<KnownEntry>,
    /// Directories that a dry run has said would be made for several of them.
    planned: HashSet<PathBuf>,
}

impl Operands {
    pub fn new(several: bool) -> Operands {
        Operands { several, ..Operands::default() }
    }

    /// Whether this operand was seen before; remembers it. As with cp, a path through a symbolic link to the directory of
    /// the file is another operand.
    pub fn was_seen(&mut self, spot: Spot<'_>, inode: &Inode) -> bool {
        self.several && KnownEntry::named(spot, inode.id).is_some_and(|entry| !self.seen.insert(entry))
    }

    /// Whether this destination was made for an operand before.
    pub fn have_made(&self, spot: Spot<'_>, inode: &Inode) -> bool {
        self.several && KnownEntry::of(spot, inode.id).is_some_and(|entry| self.made.contains(&entry))
    }

    /// Remembers that this file would stand at this destination for an operand (in a dry run).
    pub fn remember_planned(&mut self, spot: Spot<'_>, file: FileId) {
        if self.several {
            self.made.extend(KnownEntry::of(spot, file));
        }
    }

    /// Whether it was not yet said of this directory that it would be made; remembers that it is.
    pub fn is_first_to_plan(&mut self, path: &Path) -> bool {
        !self.several || self.planned.insert(path.to_owned())
    }

    /// Remembers that this destination was made for an operand; `made` is which file that was, if it is known.
    pub fn remember(&mut self, spot: Spot<'_>, made: Option<FileId>) {
        if self.several {
            // What waits for its name cannot be looked at.
            let file = spot.inode().map(|inode| inode.id).ok().or(made);
            self.made.extend(file.and_then(|file| KnownEntry::of(spot, file)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

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
    fn an_operand_through_a_link_to_its_directory_is_another_one() {
        let dir = temp_dir();
        let (inside, link) = (dir.path().join("inside"), dir.path().join("link"));
        fs::create_dir(&inside).unwrap();
        fs::write(inside.join("file"), "x").unwrap();
        symlink(&inside, &link).unwrap();
        let [first, second] = [inside, link].map(|dir| Operand::open(dir.join("file").as_os_str()));
        let inode = first.spot().inode().unwrap();
        let mut operands = Operands::new(true);
        assert!(!operands.was_seen(first.spot(), &inode) && !operands.was_seen(second.spot(), &inode));
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
