//! What the user wants: plain data, filled by a front end, validated once, never changed afterwards.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

pub use haul_fs::preserve::{ContextRule, ModeRule, Preserve, Wish};
pub use haul_io::engine::EngineName;
pub use haul_io::options::{CacheUse, DataOptions, EngineChoice, Preallocate, Reflink, Sparse};
pub use haul_io::profile;
use haul_io::strategy::Demands;
pub use haul_io::verify::Checksum;

use crate::list::{FileList, Shard};

/// One copy as the user asked for it.
///
/// The defaults are those of `cp SOURCE DEST` without options.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The files and directories to copy, in the order given.
    pub sources: Vec<OsString>,
    /// Where they go.
    pub destination: Destination,
    /// Copy directories and what is below them.
    pub recursive: bool,
    /// Which symbolic links of the source are followed.
    pub dereference: Dereference,
    /// Copy the contents of FIFOs and devices, not the nodes, also when recursive.
    pub copy_contents: bool,
    /// Make links to the source instead of copies of it.
    pub link: LinkMode,
    /// Create the attributes but move no data.
    pub attributes_only: bool,
    /// What happens to an existing destination file.
    pub overwrite: Overwrite,
    /// Copy only where the destination is missing or older than the source.
    pub only_newer: bool,
    /// Remove a destination that cannot be opened and try again (`--force`).
    pub force: bool,
    /// Remove each existing destination before it is opened (`--remove-destination`).
    pub remove_destination: bool,
    /// How an existing destination is kept under another name.
    pub backup: Backup,
    /// Appended to the name by simple backups.
    pub backup_suffix: OsString,
    /// Attributes to keep.
    pub preserve: Preserve,
    /// Append the whole source path to the destination directory.
    pub parents: bool,
    /// Remove trailing slashes from each source operand.
    pub strip_trailing_slashes: bool,
    /// Follow a symbolic link to a directory that already stands in the destination.
    pub keep_directory_symlink: bool,
    /// Do not descend into directories on other filesystems.
    pub one_file_system: bool,
    /// The first error ends the run; otherwise the other files are still copied.
    pub fail_fast: bool,
    /// Create the target of a dangling destination link, as POSIX asks (`POSIXLY_CORRECT`).
    pub write_through_dangling_link: bool,
    /// How the data of regular files is moved.
    pub data: DataOptions,
    /// Which files are copied without what the guests of a disk image do not use.
    pub smart: SmartCopy,
    /// The images are frozen snapshots, whoever has them open.
    pub snapshot: bool,
    /// The SELinux context that new files get.
    pub context: ContextRule,
    /// Files copied at the same time; `None` lets haul decide.
    pub jobs: Option<usize>,
    /// Remove a new file that could not be copied whole.
    pub remove_partial: bool,
    /// When a copy is on its device.
    pub durable: Durable,
    /// Every name of the destination stands for the old file or for the whole new one, at any moment.
    pub atomic: bool,
    /// What happens if a source changes while it is copied.
    pub if_changed: IfChanged,
    /// Whether copies are read again and compared with their sources.
    pub verify: Verify,
    /// The digest that is made of each source, and reported.
    pub checksum: Option<Checksum>,
    /// What is done is written down, and what an earlier run of the same plan has done is not done again. Every file is on its
    /// device before it gets its name, as with [`Durable::File`].
    pub resume: bool,
    /// Only what this list names is copied; it is of these sources.
    pub list: Option<Arc<FileList>>,
    /// Only this part is copied, of the list or of what a walk finds; other processes copy the others.
    pub shard: Option<Shard>,
    /// Which copy a shard is a part of, among several by the same command.
    pub job: Job,
}

impl Plan {
    /// Whether files are made under another name and get theirs when they are whole.
    pub(crate) fn uses_temporary_file(&self) -> bool {
        // What a shard leaves alone when it is run again must be whole.
        let repeatable = self.shard.is_some() && self.keeps_existing();
        self.atomic || self.names_wait() || self.verify != Verify::Off || repeatable
    }

    /// Whether a file that stands at the destination may stay as it is (`-n`, `-u`).
    pub(crate) fn keeps_existing(&self) -> bool {
        self.only_newer || self.overwrite == Overwrite::Skip
    }

    /// Whether files are on the device before they get their names.
    pub(crate) fn names_wait(&self) -> bool {
        self.durable == Durable::File || self.verify == Verify::Device || self.resume
    }

    /// Why the sources of this plan cannot be listed, or cannot be copied by a list or in shards, if they cannot.
    pub fn against_lists(&self) -> Option<&'static str> {
        // Such a part of a copy meets what it or another one has made.
        let shard = self.shard.is_some();
        let against = [
            (self.recursive && self.dereference == Dereference::Always, "symbolic links that are followed (-L)"),
            (self.parents, "--parents"),
            (self.strip_trailing_slashes, "--strip-trailing-slashes"),
            (shard && self.backup != Backup::None, "--backup: a shard that is repeated would lose it"),
            (shard && self.overwrite == Overwrite::Ask, "-i"),
            (shard && self.overwrite == Overwrite::Refuse, "--update=none-fail: what a shard made is there"),
            (shard && self.link != LinkMode::Copy, "--link and --symbolic-link, which copy nothing"),
            (shard && self.preserve.flags, "--preserve=flags: an immutable directory takes no more entries"),
            (shard && self.keep_directory_symlink, "--keep-directory-symlink"),
        ];
        against.iter().find(|(given, _)| *given).map(|(_, what)| *what)
    }

    /// The destination, if a repeated run might read it otherwise than the first one did. With `resume` or a shard it must not
    /// depend on what is there whether that is the copy or the directory that the copy goes into, and a run refuses such a plan.
    pub fn ambiguous_destination(&self) -> Option<&OsStr> {
        let is_repeated = self.resume || self.shard.is_some();
        // Several sources, and whole source paths, go only into a directory.
        let could_be_both = self.sources.len() == 1 && !self.parents;
        match &self.destination {
            // An empty name is no directory, and no copy gets it.
            Destination::Guess(path) if is_repeated && could_be_both && !path.is_empty() => Some(path),
            _ => None,
        }
    }

    /// What a copy demands of how the data of its files is moved.
    pub(crate) fn demands(&self) -> Demands {
        Demands {
            reads_again: self.reads_again(),
            verified_in_cache: self.verify == Verify::Read,
            renamed: self.atomic,
            durable: self.durable != Durable::None || self.names_wait(),
        }
    }

    /// Whether the contents of regular files are read again behind the copy.
    pub fn reads_again(&self) -> bool {
        self.verify != Verify::Off || self.checksum.is_some()
    }
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            sources: Vec::new(),
            destination: Destination::Guess(OsString::new()),
            recursive: false,
            dereference: Dereference::Always,
            copy_contents: false,
            link: LinkMode::Copy,
            attributes_only: false,
            overwrite: Overwrite::Replace,
            only_newer: false,
            force: false,
            remove_destination: false,
            backup: Backup::None,
            backup_suffix: OsString::from("~"),
            preserve: Preserve::default(),
            parents: false,
            strip_trailing_slashes: false,
            keep_directory_symlink: false,
            one_file_system: false,
            fail_fast: false,
            write_through_dangling_link: false,
            data: DataOptions::default(),
            smart: SmartCopy::Off,
            snapshot: false,
            context: ContextRule::Default,
            jobs: None,
            remove_partial: true,
            durable: Durable::None,
            atomic: false,
            if_changed: IfChanged::Ignore,
            verify: Verify::Off,
            checksum: None,
            resume: false,
            list: None,
            shard: None,
            job: Job::Recorded,
        }
    }
}

/// Which job a shard belongs to. Two jobs of one command differ in their IDs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Job {
    /// The one that is recorded at the destination, whichever that is; the first one if none is.
    Recorded,
    /// The one to which whatever started this process has given this ID. It is not begun in the place of one that has the same
    /// files to copy and is not finished: one shard of that may have been started again by hand.
    Launched(OsString),
    /// The one to which the user has given this ID.
    Named(OsString),
}

/// The destination operand and how to read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// A directory if it is one, else the name of the copy (`SOURCE... DEST`). See [`Plan::ambiguous_destination`].
    Guess(OsString),
    /// Must be a directory (`--target-directory`).
    Directory(OsString),
    /// The name of the copy, whatever stands there (`--no-target-directory`).
    Exactly(OsString),
}

impl Destination {
    /// The operand.
    pub(crate) fn path(&self) -> &OsStr {
        let (Destination::Guess(path) | Destination::Directory(path) | Destination::Exactly(path)) = self;
        path
    }
}

/// Which symbolic links of the source are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dereference {
    /// None (`-P`).
    Never,
    /// Those named as operands (`-H`).
    Operands,
    /// All (`-L`).
    Always,
}

/// Whether data is copied or linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkMode {
    /// Copy.
    Copy,
    /// Hard links (`-l`).
    Hard,
    /// Symbolic links (`-s`).
    Symbolic,
}

/// What happens to an existing destination that is not a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overwrite {
    /// It is replaced.
    Replace,
    /// The user is asked (`-i`).
    Ask,
    /// It is left alone and this is no failure (`-n`, `--update=none`).
    Skip,
    /// It is left alone and this is a failure (`--update=none-fail`).
    Refuse,
}

/// How an existing destination is kept under another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backup {
    /// Not at all.
    None,
    /// `NAME` and the suffix.
    Simple,
    /// `NAME.~N~` if such backups exist already, else simple.
    Existing,
    /// `NAME.~N~`.
    Numbered,
}

/// Which files are copied without what the guests of a disk image do not use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmartCopy {
    /// None: every byte counts.
    Off,
    /// Those of which something is proven free.
    Auto,
    /// All; one that is in use, in which nothing could be mapped, or of which a part is refused, is an error.
    Require,
}

/// When a copy is on its device and not only in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durable {
    /// When the kernel writes it, as with cp.
    None,
    /// All of it before the run ends.
    Flush,
    /// Each file before it gets its name, and all names before the run ends.
    File,
}

/// What happens if a regular file changes while it is copied: if its size, its time of modification or its time of change
/// is not the same when all is read as when it was opened. The copy may be a mixture of old and new then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfChanged {
    /// Nobody looks.
    Ignore,
    /// It is said, and the copy stays.
    Warn,
    /// It is copied again, a few times; if it changes each time, the copy fails.
    Retry,
    /// The copy fails.
    Fail,
}

/// Whether a copy is read again and compared with its source before it gets its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    /// It is not.
    Off,
    /// Through the page cache: finds errors of this program and of the filesystem.
    Read,
    /// From the device, once it is there: finds errors of that, too.
    Device,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_copy_demands_follows_from_its_plan() {
        let demands = |change: fn(&mut Plan)| {
            let mut plan = Plan::default();
            change(&mut plan);
            plan.demands()
        };
        assert_eq!(demands(|_| {}), Demands::NONE);
        assert_eq!(demands(|plan| plan.atomic = true), Demands { renamed: true, ..Demands::NONE });
        let durable = Demands { durable: true, ..Demands::NONE };
        assert_eq!(demands(|plan| plan.durable = Durable::Flush), durable);
        assert_eq!(demands(|plan| plan.durable = Durable::File), durable);
        assert_eq!(demands(|plan| plan.resume = true), durable);
        let read_again = Demands { reads_again: true, ..Demands::NONE };
        assert_eq!(demands(|plan| plan.checksum = Some(Checksum::Blake3)), read_again);
        assert_eq!(demands(|plan| plan.verify = Verify::Read), Demands { verified_in_cache: true, ..read_again });
        assert_eq!(demands(|plan| plan.verify = Verify::Device), Demands { durable: true, ..read_again });
    }
}
