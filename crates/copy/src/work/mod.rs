//! What is copied, as values that travel from stage to stage: an entry, a directory, a part of one, a task.

pub(crate) mod directory;
pub(crate) mod entry;
pub(crate) mod file_data;
pub(crate) mod planned;
pub(crate) mod task;
