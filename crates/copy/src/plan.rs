//! What the user wants: plain data, filled by a front end, validated once, never changed afterwards.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

pub use haul_fs::preserve::{ContextRule, ModeRule, Preserve, Wish};
pub use haul_io::engine::EngineName;
pub use haul_io::options::{CacheUse, DataOptions, EngineChoice, Preallocate, Reflink, Sparse, Writeback};
pub use haul_io::profile;
use haul_io::strategy::Demands;
pub use haul_io::verify::Checksum;

use crate::filter::Filter;
use crate::list::{FileList, Names, Shard};

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
    /// What a recursive copy makes of FIFOs, sockets and devices.
    pub special_files: SpecialFiles,
    /// Files whose contents an archive has taken away are left out, rather than brought back (`--skip-offline`). See
    /// [`OfflineFiles`](crate::offline::OfflineFiles) for who says so.
    pub skip_offline: bool,
    /// Reading leaves the times of access of sources as they are, where the kernel lets the caller have that: of what is its own,
    /// and to root (`O_NOATIME` of open(2)).
    pub open_noatime: bool,
    /// Make links to the source instead of copies of it.
    pub link: LinkMode,
    /// Create the attributes but move no data.
    pub attributes_only: bool,
    /// What happens to an existing destination file.
    pub overwrite: Overwrite,
    /// Which existing files count as up to date, and stay.
    pub update: Update,
    /// Remove a destination that cannot be opened and try again (`--force`).
    pub force: bool,
    /// Remove each existing destination before it is opened (`--remove-destination`).
    pub remove_destination: bool,
    /// Sources are moved: renamed where the filesystem can, and else removed when their copies are on the device and were
    /// compared. See [`Plan::against_moving`].
    pub moves: bool,
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
    /// Nothing is written anywhere. What would be done is reported ([`Event::Planned`](crate::events::Event::Planned)), and so
    /// are the errors that can be foreseen. See [`Plan::against_dry_run`].
    pub dry_run: bool,
    /// Create the target of a dangling destination link, as POSIX asks (`POSIXLY_CORRECT`).
    pub write_through_dangling_link: bool,
    /// How the data of regular files is moved.
    pub data: DataOptions,
    /// Whether a whole tree is copied as a snapshot.
    pub clone_tree: CloneTree,
    /// Which files are copied without what the guests of a disk image do not use.
    pub smart: SmartCopy,
    /// The images are frozen snapshots, whoever has them open.
    pub snapshot: bool,
    /// Where libvirt saves the memory of suspended machines of the user, for `smart`: see
    /// [`saved_machines`](crate::images::saved_machines). Those of the system are known.
    pub saved_machines: Vec<PathBuf>,
    /// The SELinux context that new files get.
    pub context: ContextRule,
    /// Files copied at the same time; `None` lets haul decide.
    pub jobs: Option<usize>,
    /// Remove from the destination what the source does not have.
    pub delete: Option<Delete>,
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
    /// Which entries below the sources are copied; `None`: all. A source that it excludes itself is an error.
    pub filter: Option<Arc<Filter>>,
    /// Only what has these names below the one source is copied, and the directories on the way. A name that is not there is an
    /// error; the others are copied. With `list`, that is what was found under these names.
    pub names: Option<Arc<Names>>,
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
        self.atomic || self.moves || self.names_wait() || self.verify != Verify::Off || repeatable
    }

    /// Whether a source that is renamed is what the plan wants of its copy: all that a filesystem keeps of it.
    pub(crate) fn renames(&self) -> bool {
        let Preserve { mode, ownership, timestamps, links, xattr, .. } = self.preserve;
        let keeps_all = mode == ModeRule::Keep && ownership && timestamps && links && xattr != Wish::No;
        self.moves && keeps_all && self.context == ContextRule::Default
    }

    /// The same of a directory with all that is in it.
    pub(crate) fn renames_trees(&self) -> bool {
        self.renames() && self.filter.is_none() && !self.one_file_system && !self.skip_offline
    }

    /// Whether what is written is on its device before the run ends.
    pub(crate) fn syncs(&self) -> bool {
        // Nothing that exists nowhere else may be in memory only.
        self.durable != Durable::None || self.moves
    }

    /// Whether a file that stands at the destination may stay as it is (`-n`, `--update`).
    pub(crate) fn keeps_existing(&self) -> bool {
        self.update != Update::All || self.overwrite == Overwrite::Skip
    }

    /// Whether the same command, which is to complete this copy when it is run again, looks at nothing but the name or the time
    /// of what stands there.
    pub(crate) fn passes_over_existing(&self) -> bool {
        let is_completed = self.resume || self.shard.is_some();
        is_completed && (self.update == Update::Older || self.overwrite == Overwrite::Skip)
    }

    /// Whether files are on the device before they get their names.
    pub(crate) fn names_wait(&self) -> bool {
        self.durable == Durable::File || self.verify == Verify::Device || self.resume
    }

    /// From when on bytes of a copy are all that is asked for.
    pub fn done_when(&self) -> DoneWhen {
        match (self.durable, self.verify) {
            _ if self.names_wait() => DoneWhen::Synced,
            (Durable::None, Verify::Off) => DoneWhen::Written,
            (Durable::None, _) => DoneWhen::Compared,
            _ => DoneWhen::Flushed,
        }
    }

    /// Why the sources of this plan cannot be listed, or cannot be copied by a list or in shards, if they cannot.
    pub fn against_lists(&self) -> Option<&'static str> {
        // Such a part of a copy meets what it or another one has made.
        let shard = self.shard.is_some();
        let against = [
            (self.recursive && self.dereference == Dereference::Always, "symbolic links that are followed (-L)"),
            (self.names.is_some() && self.sources.len() > 1, "several sources: names are below one"),
            (
                self.list.is_some()
                    && self.names.is_none()
                    && self.filter.as_ref().is_some_and(|filter| filter.choice().exclude_caches),
                "--exclude-caches, which belongs to the command that makes the list",
            ),
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

    /// Why what this plan asks for cannot be foreseen by a dry run, if it cannot.
    pub fn against_dry_run(&self) -> Option<&'static str> {
        self.shard.is_some().then_some("--shard, which records what is done")
    }

    /// What of this plan does not go with `delete`, if there is any, and such a plan is refused.
    pub fn against_deletion(&self) -> Option<&'static str> {
        self.delete?;
        let against = [
            (!self.recursive, "a copy without -r"),
            (self.sources.len() > 1, "several sources: one could be in the copy of another"),
            (self.moves, "--move"),
            (self.dereference == Dereference::Always, "-L: what a link leads to may be in the copy"),
            (self.names.is_some(), "--files-from: a list does not say what is gone"),
            (self.list.is_some(), "--list: a list does not say what is gone"),
            (self.shard.is_some(), "--shard"),
            (self.parents, "--parents"),
            (self.backup != Backup::None, "--backup: the source does not have the backups"),
            (self.link != LinkMode::Copy, "--link and --symbolic-link"),
            (self.attributes_only, "--attributes-only"),
            (self.keep_directory_symlink, "--keep-directory-symlink: nothing is deleted through a symbolic link"),
            (self.overwrite == Overwrite::Ask, "-i"),
            (self.overwrite != Overwrite::Replace, "-n, --update=none and --update=none-fail"),
        ];
        against.iter().find(|(given, _)| *given).map(|(_, what)| *what)
    }

    /// Why sources cannot be moved by this plan, if they cannot: what it makes is no copy that could take the place of a source,
    /// or nobody looks at each of them.
    pub fn against_moving(&self) -> Option<&'static str> {
        let against = [
            (self.link != LinkMode::Copy, "--link and --symbolic-link, which copy nothing"),
            (self.attributes_only, "--attributes-only, which copies no data"),
            (self.data.engine == EngineChoice::Only(EngineName::Null), "--engine=null, which copies no data"),
            (self.smart != SmartCopy::Off, "--smart, which leaves bytes out"),
            (self.special_files == SpecialFiles::Contents, "--copy-contents, which makes files of another kind"),
            (
                self.dereference != Dereference::Never,
                "-L and -H: what links lead to would be copied, and the links removed",
            ),
            (self.keep_directory_symlink, "--keep-directory-symlink"),
            (self.parents, "--parents"),
            (self.backup != Backup::None, "--backup: a backup could take the name of what was moved a moment ago"),
            (self.verify == Verify::Device, "--verify=device: each copy is compared with its source in any case"),
            (self.checksum.is_some(), "--checksum and --digests: what is renamed is not read"),
            (self.resume, "--resume: run the same command again to go on"),
            (self.shard.is_some(), "--shard"),
            (self.delete.is_some(), "--delete"),
            (self.names.is_some(), "--files-from"),
            (self.list.is_some(), "--list"),
        ];
        against.iter().find(|(given, _)| *given).map(|(_, what)| *what)
    }

    /// Whether what the source does not have stays until everything is copied: a run that ends early has removed nothing then.
    pub(crate) fn deletes_at_last(&self) -> bool {
        self.delete.is_some() && self.uses_temporary_file()
    }

    /// The destination, if a repeated run might read it otherwise than the first one did. With `resume`, `delete` or a shard it
    /// must not depend on what is there whether that is the copy or the directory that the copy goes into, and a run refuses such
    /// a plan.
    pub(crate) fn ambiguous_destination(&self) -> Option<&OsStr> {
        self.ambiguous_if(false)
    }

    /// The same for a run that may be `repeated` also for another reason.
    pub fn ambiguous_if(&self, repeated: bool) -> Option<&OsStr> {
        let is_repeated = repeated || self.resume || self.shard.is_some() || self.delete.is_some();
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
            durable: self.syncs() || self.names_wait(),
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
            special_files: SpecialFiles::Nodes,
            skip_offline: false,
            open_noatime: false,
            link: LinkMode::Copy,
            attributes_only: false,
            overwrite: Overwrite::Replace,
            update: Update::All,
            force: false,
            remove_destination: false,
            moves: false,
            backup: Backup::None,
            backup_suffix: OsString::from("~"),
            preserve: Preserve::default(),
            parents: false,
            strip_trailing_slashes: false,
            keep_directory_symlink: false,
            one_file_system: false,
            fail_fast: false,
            dry_run: false,
            write_through_dangling_link: false,
            data: DataOptions::default(),
            clone_tree: CloneTree::Never,
            smart: SmartCopy::Off,
            snapshot: false,
            saved_machines: Vec::new(),
            context: ContextRule::Default,
            jobs: None,
            delete: None,
            remove_partial: true,
            durable: Durable::None,
            atomic: false,
            if_changed: IfChanged::Ignore,
            verify: Verify::Off,
            checksum: None,
            resume: false,
            filter: None,
            names: None,
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
    /// A directory if it is one, else the name of the copy (`SOURCE... DEST`). See [`Plan::ambiguous_if`].
    Guess(OsString),
    /// Must be a directory (`--target-directory`).
    Directory(OsString),
    /// The name of the copy, whatever stands there (`--no-target-directory`).
    Exactly(OsString),
}

impl Destination {
    /// The operand.
    pub fn path(&self) -> &OsStr {
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

/// What a recursive copy makes of FIFOs, sockets and devices. Any other copy reads their contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialFiles {
    /// Nodes like them.
    Nodes,
    /// Regular files with what is read from them (`--copy-contents`).
    Contents,
    /// Nothing, and each is an error; so is a FIFO at the destination that a file would be written into.
    Refused,
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

/// Which files that exist at the destination count as up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// None: all are replaced.
    All,
    /// Those that are not older than their sources (`-u`).
    Older,
    /// Those of the size and the time of modification of their sources.
    Changed,
    /// Those of the contents of their sources.
    Content,
}

impl Update {
    /// Whether what is up to date is like its source, but perhaps for attributes, which are brought up to date then.
    pub(crate) fn compares(self) -> bool {
        matches!(self, Update::Changed | Update::Content)
    }
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

/// What is removed from the destination since the source does not have it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delete {
    /// Also where the directory of the source is empty, as one is whose filesystem is not mounted.
    pub force: bool,
    /// Also what the patterns of the filter exclude.
    pub excluded: bool,
    /// So many entries at most in the whole run.
    pub most: Option<u64>,
}

/// Whether the copy of a tree is a snapshot, where the source is a subvolume of btrfs and the destination is new.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CloneTree {
    /// It is copied entry by entry.
    #[default]
    Never,
    /// Where that is possible, and has all that the copy would have.
    Auto,
    /// Always; a tree for which that is not possible is an error.
    Always,
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

/// From when on bytes of a copy are all that its plan asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DoneWhen {
    /// When they are written.
    Written,
    /// When they were read again ([`Event::Secured`](crate::events::Event::Secured)).
    Compared,
    /// When their file is on the device, and compared with that if the plan says so
    /// ([`Event::Secured`](crate::events::Event::Secured)).
    Synced,
    /// When the run ends.
    Flushed,
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
