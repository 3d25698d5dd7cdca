//! What whoever watches a simulation sees.

/// What was done, for whoever watches a simulation. Directories are known by [`crate::Dir::id`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// A directory was made at the destination.
    Made {
        /// Which one.
        dir: u64,
        /// In which one; `None` for the first.
        parent: Option<u64>,
    },
    /// The regular files of these names were copied.
    Files {
        /// Where they are.
        dir: u64,
        /// The first name.
        from: u64,
        /// The name behind the last one.
        to: u64,
    },
    /// A chunk of a large file was copied.
    Chunk {
        /// Where the file is.
        dir: u64,
        /// Its name.
        name: u64,
        /// Which chunk.
        index: u64,
    },
    /// A large file has all its chunks.
    Large {
        /// Where the file is.
        dir: u64,
        /// Its name.
        name: u64,
    },
    /// A directory got its attributes, and nothing happens in it any more.
    Finished {
        /// Which one.
        dir: u64,
    },
}
