//! What is copied, as values that travel from stage to stage: an entry, a directory, a part of one, a task.

pub(crate) mod dest_state;
pub(crate) mod directory;
pub(crate) mod file_data;
pub(crate) mod file_outcome;
pub(crate) mod frame;
pub(crate) mod remote;
pub(crate) mod subject;
pub(crate) mod task;
pub(crate) mod unfinished;
