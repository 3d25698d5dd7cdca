//! One thread that walks a tree and copies what it meets.

use crate::context::RunContext;
use crate::context::Worker;
use crate::finish::naming;
use crate::schedule::limits::open_levels;
use crate::schedule::ordered::EventSink;
use crate::schedule::pool::Pool;
use crate::tree::operand_set::Operands;
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
