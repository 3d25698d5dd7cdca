//! The way to the other processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The processes that copy together, and the way to them.
///
/// Messages arrive whole, once, and between two processes in the order in which they were sent. A process that is lost ends
/// all others: nobody waits for it.
pub trait Transport: Send + Sync {
    /// The number of this process: 0 begins with the operands.
    fn rank(&self) -> usize;

    /// How many processes there are.
    fn ranks(&self) -> usize;

    /// Whether a process is on the same machine: what that has written can be read here at once.
    fn is_near(&self, rank: usize) -> bool;

    /// The run begins. As long as `spare_capacity` says so, this process would take work of others.
    fn begin(&self, spare_capacity: SpareCapacity);

    /// Whether a process waits for work of this one. Asked between any two entries, so it must be cheap.
    fn is_asked_for_work(&self) -> bool;

    /// Another thread will soon have something to give away, or with `false` has nothing more: as long as one has, a process
    /// that asks may wait.
    fn will_give(&self, more: bool);

    /// Sends work to a process that waits for it. Gives it back if none does any more.
    fn give(&self, work: Vec<u8>) -> Option<Vec<u8>>;

    /// Sends a message to another process. Does not wait for it.
    fn send(&self, to: usize, message: Vec<u8>);

    /// Waits for the next message, and says from whom it is. `None`: there will be no more, since the run is over.
    fn receive(&self) -> Option<(usize, Vec<u8>)>;

    /// For rank 0: everything is copied. Waits until all others have done what is left to do and have ended; false if
    /// something went wrong in one of them. After that nothing is received any more.
    fn finish(&self) -> bool;

    /// This process cannot go on: it has no thread to listen with, or one of its threads has panicked. Nothing more is
    /// received, so that its run ends; the job has to end with it.
    fn give_up(&self);
}

/// How this process takes part.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// The way to the others.
    pub transport: &'a dyn Transport,
    /// Bytes of a chunk of a large file, a multiple of 64 KiB; a file of two of them and more is shared.
    pub chunk: u64,
}

/// How many tasks a process would take, at any moment.
#[derive(Debug, Clone, Default)]
pub struct SpareCapacity(Arc<AtomicUsize>);

impl SpareCapacity {
    /// As many as this number says.
    #[must_use]
    pub fn of(tasks: Arc<AtomicUsize>) -> SpareCapacity {
        SpareCapacity(tasks)
    }

    /// So many.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
