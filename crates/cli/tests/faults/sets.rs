//! The options that a copy is made with, and where.

use std::fmt;

use haul_testbed::Fs;

/// One set of options.
#[derive(Debug)]
pub struct Set {
    /// The words, as a user types them.
    pub options: &'static str,
    /// Where source and destination are.
    pub filesystem: Fs,
    /// An older tree stands at the destination.
    pub onto_old: bool,
}

const fn new(options: &'static str, filesystem: Fs) -> Set {
    Set { options, filesystem, onto_old: false }
}

const fn onto_old(options: &'static str, filesystem: Fs) -> Set {
    Set { options, filesystem, onto_old: true }
}

/// All of them, one in a line.
pub const SETS: &[Set] = &[
    new("-r", Fs::Ext4),
    new("-a", Fs::Ext4),
    new("-a --preserve=xattr", Fs::Xfs),
    onto_old("-a", Fs::Ext4),
    onto_old("-r", Fs::Btrfs),
    onto_old("-a --remove-destination", Fs::Xfs),
    onto_old("-a --backup=numbered", Fs::Ext4),
    new("-a --sparse=always", Fs::Ext4),
    new("-a --reflink=auto", Fs::Btrfs),
    new("-r --reflink=auto", Fs::Xfs),
    new("-a --engine=read-write", Fs::Tmpfs),
    new("-r --engine=mapped", Fs::Ext4),
    new("-r --engine=splice", Fs::Ext4),
    new("-r --engine=copy-range", Fs::Xfs),
    new("-r --engine=direct", Fs::Ext4),
    new("-r --engine=io-uring", Fs::Ext4),
    new("-r --engine=linux-aio", Fs::Xfs),
    new("-a --jobs=4", Fs::Ext4),
    onto_old("-a --atomic", Fs::Ext4),
    new("-a --durable=flush", Fs::Ext4),
    new("-a --durable=file", Fs::Ext4),
    new("-a --verify=read", Fs::Ext4),
    onto_old("-a --verify=device", Fs::Xfs),
    onto_old("-a --atomic --backup=numbered", Fs::Ext4),
    onto_old("-a --durable=file --jobs=4", Fs::Btrfs),
    onto_old("-a --resume", Fs::Ext4),
    onto_old("-a --update=changed", Fs::Ext4),
    onto_old("-a --update=content --atomic", Fs::Xfs),
    new("-r --resume --jobs=4", Fs::Xfs),
    // Renamed, with the directories one by one; and copied, since links are not kept, and removed.
    onto_old("--move -x", Fs::Ext4),
    new("--move --no-preserve=links", Fs::Ext4),
    onto_old("--move --no-preserve=links --durable=file", Fs::Xfs),
];

impl Set {
    /// The words of the command line. Without a word about it, one thread copies: then the calls of two runs are the same.
    pub fn arguments(&self) -> Vec<&'static str> {
        let jobs = self.is_serial().then_some("--jobs=1");
        // The tree itself, also where a directory stands already.
        self.options.split(' ').chain(jobs).chain(["-T", super::scene::SOURCE, super::scene::DEST]).collect()
    }

    /// One thread copies.
    pub fn is_serial(&self) -> bool {
        !self.options.contains("--jobs=")
    }

    /// Everything about a file is kept.
    pub fn keeps_all(&self) -> bool {
        self.options.split(' ').any(|word| word == "-a")
    }

    /// Nothing stays where it was.
    pub fn moves(&self) -> bool {
        self.options.contains("--move")
    }

    /// The user insists on extended attributes.
    pub fn insists_on_attributes(&self) -> bool {
        self.options.contains("--preserve=xattr")
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let onto = if self.onto_old { " onto an older tree" } else { "" };
        write!(f, "{}{onto} on {}", self.options, self.filesystem.name())
    }
}
