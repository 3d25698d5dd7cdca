//! What ranks send each other.

use super::work::Task;

/// What a message is about.
#[derive(Debug)]
pub(super) enum Body {
    Want,
    No,
    WorkUnit(Task),
    Done(u32),
    ChunkDone(u32),
    Claim,
    Answer,
    Error,
    End,
    Summary,
    Status,
}

/// One on its way, or several of a kind.
#[derive(Debug)]
pub(super) struct Message {
    pub from: u32,
    pub to: u32,
    /// So many messages are simulated as this one.
    pub weight: u64,
    pub body: Body,
}

/// Kinds of messages, in the order of [`crate::report::MESSAGES`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Want,
    No,
    WorkUnit,
    Chunk,
    Done,
    Link,
    Error,
    End,
}

impl Kind {
    pub fn of(body: &Body) -> Kind {
        match body {
            Body::Want => Kind::Want,
            Body::No => Kind::No,
            Body::WorkUnit(Task::Names { .. }) => Kind::WorkUnit,
            Body::WorkUnit(Task::Chunk { .. }) => Kind::Chunk,
            Body::Done(_) | Body::ChunkDone(_) => Kind::Done,
            Body::Claim | Body::Answer => Kind::Link,
            Body::Error => Kind::Error,
            Body::End | Body::Summary | Body::Status => Kind::End,
        }
    }
}
