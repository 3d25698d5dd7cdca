//! The one error type: what failed, on which path, and what the kernel said.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use haul_sys::Errno;

/// One thing that went wrong, or that the user should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What was being done.
    pub what: What,
    /// The path it was done to.
    pub path: PathBuf,
    /// The second path, where [`What::template`] names one.
    pub other: PathBuf,
    /// Further text, where the template has a place for it.
    pub detail: String,
    /// What the kernel said, if it was asked. Programs ask [`Error::raw_os_error`].
    #[doc(hidden)]
    pub errno: Option<Errno>,
}

impl Error {
    /// An error about one path, without an errno.
    pub fn new(what: What, path: impl AsRef<Path>) -> Error {
        Error { what, path: path.as_ref().to_owned(), other: PathBuf::new(), detail: String::new(), errno: None }
    }

    /// The same with what the kernel said.
    #[doc(hidden)]
    #[must_use]
    pub fn errno(mut self, errno: Errno) -> Error {
        self.errno = Some(errno);
        self
    }

    /// The same with a second path.
    #[must_use]
    pub fn and(mut self, other: impl AsRef<Path>) -> Error {
        self.other = other.as_ref().to_owned();
        self
    }

    /// The number of what the kernel said, if it was asked: see errno(3).
    pub fn raw_os_error(&self) -> Option<i32> {
        self.errno.map(Errno::raw_os_error)
    }

    /// The kind of its cause.
    pub fn kind(&self) -> ErrorKind {
        match self.errno {
            Some(errno) => ErrorKind::of(errno),
            None if self.what.is_change() => ErrorKind::Changed,
            None if self.what.is_damage() => ErrorKind::Damaged,
            None => ErrorKind::Refused,
        }
    }

    /// The same with further text.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Error {
        self.detail = detail.into();
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |path: &Path| format!("{path:?}");
        f.write_str(&self.what.fill(
            &quoted(&self.path),
            &self.path.display().to_string(),
            &quoted(&self.other),
            &self.detail,
        ))?;
        match self.errno {
            Some(errno) => write!(f, ": {errno}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    /// What the kernel said, which the message of this error also says.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.errno.as_ref().map(|errno| errno as &(dyn std::error::Error + 'static))
    }
}

/// Kinds of causes, for programs and for the summary of a run: what has to be done is different for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No right to do it, or a filesystem that is mounted read-only.
    Permission,
    /// No room on the filesystem, in a quota or below a limit for files.
    Space,
    /// It is not there, or not any more.
    Missing,
    /// The device, the network or the server.
    Device,
    /// Memory, descriptors, threads.
    Resources,
    /// Somebody has it.
    Busy,
    /// A name that is too long, not allowed there, or leads in a circle.
    Name,
    /// The filesystem or the kernel cannot.
    Unsupported,
    /// The source changed while it was copied.
    Changed,
    /// A copy is incomplete or differs from its source.
    Damaged,
    /// haul will not do it, though the kernel would.
    Refused,
    /// Anything else.
    Other,
}

impl ErrorKind {
    /// The word for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::Permission => "permission",
            ErrorKind::Space => "space",
            ErrorKind::Missing => "missing",
            ErrorKind::Device => "device",
            ErrorKind::Resources => "resources",
            ErrorKind::Busy => "busy",
            ErrorKind::Name => "name",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Changed => "changed",
            ErrorKind::Damaged => "damaged",
            ErrorKind::Refused => "refused",
            ErrorKind::Other => "other",
        }
    }

    fn of(errno: Errno) -> ErrorKind {
        match errno {
            Errno::ACCESS | Errno::PERM | Errno::ROFS => ErrorKind::Permission,
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => ErrorKind::Space,
            Errno::NOENT | Errno::NOTDIR => ErrorKind::Missing,
            Errno::STALE => ErrorKind::Changed,
            Errno::IO | Errno::NXIO | Errno::NODEV | Errno::REMOTEIO | Errno::NOMEDIUM => ErrorKind::Device,
            Errno::TIMEDOUT | Errno::HOSTDOWN | Errno::HOSTUNREACH | Errno::NOTCONN | Errno::CONNREFUSED => {
                ErrorKind::Device
            }
            Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::AGAIN | Errno::NOBUFS => ErrorKind::Resources,
            Errno::BUSY | Errno::TXTBSY => ErrorKind::Busy,
            Errno::NAMETOOLONG | Errno::ILSEQ | Errno::LOOP => ErrorKind::Name,
            Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::NOTTY | Errno::XDEV => ErrorKind::Unsupported,
            _ => ErrorKind::Other,
        }
    }
}

macro_rules! what {
    ($($(#[$doc:meta])* $name:ident = $template:literal,)*) => {
        /// What was being done, or what is wrong. The words are those of GNU cp, since scripts read them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum What {
            $($(#[$doc])* #[doc = concat!("`", $template, "`")] $name,)*
        }

        impl What {
            /// The words of the message. `{path}` and `{other}` stand for quoted paths, `{plain}` for the path quoted
            /// only where it must be, `{detail}` for further text.
            pub fn template(self) -> &'static str {
                match self {
                    $(What::$name => $template,)*
                }
            }

            /// The name of the operation, for programs: never translated, and not changed when the words are.
            pub fn name(self) -> &'static str {
                match self {
                    $(What::$name => stringify!($name),)*
                }
            }
        }
    };
}

what! {
    CannotStat = "cannot stat {path}",
    OmittingDirectory = "-r not specified; omitting directory {path}",
    /// Where nodes are not wanted.
    SpecialFile = "not copying the special file {path}",
    /// The same at the destination.
    IntoFifo = "not writing into the fifo {path}",
    SourceTwice = "warning: source file {path} specified more than once",
    SourceDirectoryTwice = "warning: source directory {path} specified more than once",
    SameFile = "{path} and {other} are the same file",
    MaybeSameFile = "{path} and {other} have the same contents and may be the same file",
    NotReplacing = "not replacing {path}",
    CannotOverwriteNonDirectory = "cannot overwrite non-directory {path} with directory {other}",
    CannotOverwriteDirectory = "cannot overwrite directory {path} with non-directory {other}",
    JustCreated = "will not overwrite just-created {path} with {other}",
    ThroughJustCreatedLink = "will not copy {path} through just-created symlink {other}",
    BackupWouldDestroySource = "backing up {path} might destroy source;  {other} not copied",
    CannotBackup = "cannot backup {path}",
    CannotUnBackup = "cannot un-backup {path}",
    CannotRemove = "cannot remove {path}",
    /// On Lustre; `other` is the profile that wants other stripes.
    CannotStripe = "cannot stripe {path} as the profile {other} says, so it has the stripes of its directory",
    IntoItself = "cannot copy a directory, {path}, into itself, {other}",
    HardLinkToDirectory = "will not create hard link {path} to directory {other}",
    CyclicLink = "cannot copy cyclic symbolic link {path}",
    CannotCreateDirectory = "cannot create directory {path}",
    SettingPermissions = "setting permissions for {path}",
    PreservingPermissions = "preserving permissions for {path}",
    /// The ACL; cp quotes the path here in the locale's way.
    PreservingAcl = "preserving permissions for {path}",
    /// The mode in place of an inherited ACL; cp quotes the path here in the locale's way.
    SettingAcl = "setting permissions for {path}",
    /// The source's ACL; cp says no more than this, the path quoted in the locale's way.
    ReadingAcl = "{path}",
    ClearingPermissions = "clearing permissions for {path}",
    PreservingTimes = "preserving times for {path}",
    PreservingOwnership = "failed to preserve ownership for {path}",
    ParentTimes = "failed to preserve times for {path}",
    ParentPermissions = "failed to preserve permissions for {path}",
    ParentAttributes = "failed to get attributes of {path}",
    ParentMake = "cannot make directory {path}",
    ParentNotDirectory = "{path} exists but is not a directory",
    /// `path` is the destination, `other` the attribute's name; cp 9.1 says the name in both places.
    SettingAttribute = "setting attribute {other} for {other}",
    SettingAttributes = "setting attributes for {path}",
    RemovingAttribute = "removing attribute {other} of {path}",
    /// `path` is the source, `other` the attribute's name; cp 9.1 says the name in both places.
    GettingAttribute = "getting attribute {other} of {other}",
    ListingAttributes = "listing attributes of {path}",
    PreservingContext = "failed to set the security context of {path}",
    /// `detail` has the flags as lsattr's letters.
    PreservingFlags = "failed to preserve the inode flags {detail} of {path}",
    PreservingProject = "failed to preserve the project ID of {path}",
    CannotAccess = "cannot access {path}",
    CannotOpen = "cannot open {path} for reading",
    CannotFstat = "cannot fstat {path}",
    ReplacedWhileCopied = "skipping file {path}, as it was replaced while being copied",
    DanglingLink = "not writing through dangling symlink {path}",
    CannotCreateRegular = "cannot create regular file {path}",
    CannotCreateFifo = "cannot create fifo {path}",
    CannotCreateSpecial = "cannot create special file {path}",
    UnknownType = "{path} has unknown file type",
    CannotReadLink = "cannot read symbolic link {path}",
    CannotCreateLink = "cannot create symbolic link {path}",
    CannotCreateLinkTo = "cannot create symbolic link {path} to {other}",
    RelativeLinkElsewhere = "{plain}: can make relative symbolic links only in current directory",
    /// The table of files that have several names needs space on the destination's filesystem when it grows large.
    LinksUnknown = "cannot keep track of the hard links of {path}",
    NoMoreLinks = "warning: no more hard links to {path} are possible; {other} is another copy of the same file",
    CannotHardLink = "cannot create hard link {path} to {other}",
    CloneFailed = "failed to clone {path} from {other}",
    /// `detail` says why.
    TreeNotCloned = "cannot clone the tree {path} to {other}: {detail}",
    Reading = "error reading {path}",
    Writing = "error writing {path}",
    Copying = "error copying {path} to {other}",
    MakingHole = "failed to make a hole in {path}",
    Extending = "failed to extend {path}",
    Truncating = "failed to truncate {path}",
    Closing = "failed to close {path}",
    Syncing = "failed to write {path} to its device",
    TargetDirectory = "target directory {path}",
    Target = "target {path}",
    ParentsNeedDirectory = "with --parents, the destination must be a directory",
    /// In a run that is to be repeated; nothing was copied.
    AmbiguousDestination = "cannot tell whether {path} is the copy or the directory that it goes into",
    /// The source of a mapped copy shrank.
    SourceTruncated = "{path} was truncated while it was being copied",
    /// A chosen engine cannot do this copy.
    EngineRefused = "cannot copy {path} to {other} with the chosen engine: {detail}",
    /// After a failure or an interruption: the overwritten file is neither the old nor the new one.
    Damaged = "{path} was overwritten and is now incomplete",
    /// After a failure or an interruption: there is neither an old nor a new file.
    Lost = "the old {path} was removed and could not be replaced",
    /// After a failure or an interruption: the incomplete new file could not be removed.
    CannotRemovePartial = "cannot remove the incomplete {path}",
    /// After an interruption: removing it waits for a device or a server.
    PartialMayRemain = "the incomplete {path} may remain: it takes too long to remove it",
    /// A source of a smart copy.
    NotAnImage = "{path} is no disk image: it is neither a regular file nor a block device",
    /// A source of a smart copy: what its map says holds for one size only.
    SourceResized = "{path} changed its size while it was being copied; copy it when nothing writes to it",
    /// A source of a smart copy whose disk is in a container.
    SourceChanged = "the disk in {path} was changed while it was being copied; copy it when nothing writes to it",
    /// A destination of a smart copy.
    NotAnImagePlace = "cannot overwrite {path}: it is neither a regular file nor a block device",
    /// A destination of a smart copy that somebody has as a disk; `detail` says who.
    DestinationInUse = "will not overwrite {path}, which is in use: {detail}",
    /// A destination of a smart copy, and the image.
    SharedBytes = "will not overwrite {path}: it has bytes in common with {other}",
    /// A block device that cannot hold the image; `detail` has the sizes.
    DestinationTooSmall = "{path} is too small for {other}: {detail}",
    /// The write-only mode leaves no image behind.
    NotForTestData = "will not overwrite {path} with test data; name a new file",
    /// A source that must be copied without its free space, and cannot be; `detail` says why.
    NotSmart = "will not copy {path} without knowing its free space: {detail}",
    /// A source of a smart copy; `detail` says why.
    Doubted = "what was free in {path} was copied after all: {detail}",
    /// A source of a smart copy.
    SourceWritten = "{path} was written to while it was being copied; copy a snapshot, or when nothing writes",
    /// A file that a descriptor names, where a copy would have the same name.
    NotItsName = "will not make a copy with the name of {path}: a descriptor names it, and it does not end in .vmdk",
    /// A container of several files.
    SeveralFiles = "{path} is a disk in several files, which can be kept only in a directory",
    /// An image whose free space was to be given back in place; `detail` says why not.
    NotPunched = "will not free space in {path}: {detail}",
    /// The same where it was begun: what was given back was free, and all else is untouched.
    StoppedPunching = "stopped freeing space in {path}: {detail}",
    /// A regular file, with `--if-changed`.
    ChangedWhileCopied = "{path} changed while it was being copied",
    /// `detail` says how often.
    KeepsChanging = "{path} changed while it was being copied, {detail} times in a row",
    /// A copy that is not like its source; `other` is the name under which it is kept, `detail` says where it differs.
    Mismatch = "the copy {path} differs from its source {detail}; it is kept as {other}",
    /// The same where there is no other name: a block device.
    MismatchInPlace = "the copy {path} differs from its source {detail}",
    /// The source could not be read a second time; `path` is the source.
    ReadingAgain = "error reading {path} again to verify its copy",
    /// `path` is the copy.
    ReadingBack = "error reading back {path} to verify it",
    /// Reading holes takes time, and these are so large that it may have no end.
    HolesReadAgain = "warning: all of {path} is read again, {detail} TiB of holes too",
    /// A stream.
    CannotReadAgain = "cannot read {path} a second time, which verifying and digests take",
    /// `--verify=device` on tmpfs and the like.
    NoMedium = "cannot verify {path} on its device: the filesystem has none, or does not let go of its memory",
    /// A whole copy that could not get its name.
    CannotPublish = "cannot put the new {path} in its place",
    /// With `--atomic`; what could not be kept was reported before.
    NotTakenOver = "{path} was not replaced, since the new file cannot have the attributes of the old one",
    /// With `--resume` or `--shard`; what could not be kept was reported before.
    LacksAttributes = "{path} was not copied, since the next run would leave it without attributes that could not be kept",
    /// What is not certain to survive a power cut; `path` is a file, or a directory on the filesystem in question.
    NotDurable = "cannot write everything on the filesystem of {path} to its device",
    /// With `--resume`; `path` is the journal, or its directory.
    NoJournal = "cannot keep the journal {path}; nothing was copied",
    /// With `--resume`; `path` is the journal.
    JournalBusy = "another run of this command is still at work: it has the journal {path}",
    /// With `--resume`; `path` is the journal.
    JournalForeign = "will not use {path} as a journal: it is not a file of yours with a single name",
    /// With `--resume`; `path` is the journal.
    JournalEnds = "cannot write to the journal {path}: what is done from here on, another run will do again",
    /// With a filter; `path` is an operand, `detail` says by what.
    SourceExcluded = "the source {path} is excluded {detail}; nothing was copied",
    /// With a list of names; `path` is one of them, `other` a part of it.
    BelowLink = "not copying {path}: {other} is a symbolic link, and names are not looked for behind links",
    /// With a list of what there is to copy; `path` is an operand, `detail` says what is wrong.
    OtherSources = "the file list does not fit {path}: {detail}; nothing was copied",
    /// With a list; the source was named in it.
    ListedMissing = "{path} was listed, and is not there any more",
    /// With a list; `detail` is the kind that it has there.
    ListedOtherwise = "not copying {path}: when it was listed it was {detail}",
    /// With a list; no failure.
    ListedChanged = "{path} has changed since it was listed; it is copied as it is now",
    /// In shards.
    ChangedBetweenShards =
        "not copying {path}: it has changed since the shards were made; begin anew with another --job, and another list if any",
    /// With a list or in shards; `detail` is an option, `path` is of no interest.
    NotByList = "file lists and shards do not go with {detail}",
    /// In a dry run; `detail` is an option, `path` is of no interest.
    NotDry = "a dry run does not go with {detail}",
    /// In shards; `path` is the file, or its directory.
    NoShardState = "cannot keep the state of the shards in {path}; nothing was copied",
    /// In shards.
    ShardStateForeign =
        "will not use {path} as the record of shards: it is not a file of yours with a single name that this version has written",
    /// In shards; no failure.
    ShardIsDone = "this shard is done already, says {path}; nothing is copied: the same commands with --job=NEW copy anew",
    /// In shards; no failure.
    ShardIsBusy = "another process copies this shard, says {path}; waiting for its end",
    /// In shards; `detail` says what differs.
    OtherSplit =
        "other shards of this copy, whose state is in {path}, {detail}; nothing was copied: the same commands with --job=NEW begin anew",
    /// In shards; `detail` is the ID of the job that is recorded.
    JobReplaced = "another job, {detail}, has come after this one, says {path}; nothing was copied",
    /// In shards; `detail` is the ID of the job that is recorded.
    JobUnfinished =
        "{path} is of a job that is not finished; nothing was copied: --job={detail} goes on with it, and --job=NEW for all shards begins anew",
    /// In shards; `detail` is the ID of the job that is recorded.
    JobRunning = "shards of another job, {detail}, are being copied, says {path}; nothing was copied",
    /// In shards.
    OtherDestination =
        "what the other shards of this copy have made is not there any more, says {path}; nothing was copied: the same commands with --job=NEW begin anew",
    /// `path` is where the kernel tells the umask; the errno is of the other way to find it out.
    UmaskUnknown = "cannot find out the umask, for which {path} or unshare(2) is needed; nothing was copied",
    /// Of a move; `path` is the source.
    CannotMove = "cannot move {path} to {other}",
    /// Of a move; `detail` is an option, `path` is of no interest.
    NotByMove = "moving does not go with {detail}; nothing was moved",
    /// Of a move; `path` is a directory of the destination, with the table of sources that were not copied, or is a source.
    StaysUnknown = "cannot keep track of what is not to be removed, by {path}; nothing is removed",
    /// Of a move; `path` is the first of the sources that stay. Why one could not be moved was reported before.
    StaysLost = "not removing {path} nor another source: one of them could not be moved, and it is not known which",
    /// Of a move; `path` is the source, `other` what should be its copy.
    NoCopyOfSource = "not removing {path}: there is no {other}",
    /// Of a move; `path` is the source, `other` the name of its copy, which a directory does not have in this spelling.
    OtherSpelling = "not removing {path}: {other} may be the copy of another source, whose name differs in its spelling only",
    /// Of a move; `path` is the source, `other` its copy.
    UnlikeItsCopy = "not removing {path}: it is not the same as {other}",
    /// Of a move; `path` is the source.
    ChangedBeforeRemoval = "not removing {path}: it has changed while it was being moved",
    /// Of a move; `path` is a directory of the source.
    MountedInSource = "not removing {path}: another filesystem, or a subvolume, is there",
    /// Of a move; `path` is a directory of the source, `other` its copy.
    MaybeSameDirectory = "not removing what is in {path}: {other} may be the same directory",
    /// No threads.
    CannotStartThreads = "cannot start the threads that copy {path}",
    /// With `--delete`; `path` is a directory of the destination, `other` its source.
    SourceEmpty =
        "not deleting what is in {path}: its source {other} is empty, as a directory is on which nothing is mounted; --delete=force deletes it",
    /// With `--delete`; `path` is an operand's copy, `other` the operand.
    DeletionOverlaps = "will not delete in {path}: {other} is in it, or it in {other}; nothing was copied",
    /// With `--delete`; `detail` is an option, `path` is of no interest.
    NotWithDeletion = "--delete does not go with {detail}; nothing was copied",
    /// With `--delete`; an operand without a name of its own, where copies go into a directory.
    DeletionWhole =
        "will not delete: {path} has no name, so its copy would be the whole target directory; use -T if that is meant; nothing was copied",
    /// With `--delete`.
    MountStays = "not deleting {path}: something is mounted there",
    /// With `--delete`.
    SourceInDeleted = "not deleting {path}: it is a source",
    /// With `--max-delete`; `path` is the destination, `detail` the number.
    DeletionLimit =
        "{detail} more to delete in {path}: --max-delete is reached; run again with a larger number",
    /// With `--delete`; `path` is a directory of the destination.
    NamesMayBeAlike = "not deleting in {path}, nor elsewhere on such filesystems: names that differ in upper and lower case may be one name there",
    /// With `--delete`; `path` is a directory of the destination.
    ShownTwice = "not deleting in {path}, nor elsewhere in the copy: mounts show one of its directories at two places, and what is gone from one may belong to the other; unmount one of them",
    /// With `--delete`; a directory and something else, `path` at the destination, `other` in the source.
    NotInOneStep = "cannot replace {path} by {other} in one step, since one of them is a directory: remove {path}, or run without --atomic and options that imply it",
    /// With `--delete`; `path` is the destination.
    DeletionStopped = "not everything could be copied, so no more was deleted in {path}",
    /// A directory was moved while it was being copied.
    DirectoryMoved = "directory {path} was moved while it was being copied",
}

impl What {
    /// Whether it says that the source is not what it was.
    fn is_change(self) -> bool {
        matches!(
            self,
            What::ReplacedWhileCopied
                | What::SourceTruncated
                | What::SourceResized
                | What::SourceChanged
                | What::DirectoryMoved
                | What::ChangedWhileCopied
                | What::KeepsChanging
                | What::UnlikeItsCopy
                | What::ChangedBeforeRemoval
                | What::SourceWritten
        )
    }

    /// Whether it says that a copy is not what it shall be.
    fn is_damage(self) -> bool {
        matches!(self, What::Damaged | What::Lost | What::PartialMayRemain | What::Mismatch | What::MismatchInPlace)
    }

    /// The message with its places filled in.
    pub fn fill(self, path: &str, plain: &str, other: &str, detail: &str) -> String {
        let mut text = String::new();
        let mut rest = self.template();
        while let Some((before, after)) = rest.split_once('{') {
            text.push_str(before);
            let (place, after) = after.split_once('}').unwrap_or((after, ""));
            text.push_str(match place {
                "path" => path,
                "plain" => plain,
                "other" => other,
                _ => detail,
            });
            rest = after;
        }
        text.push_str(rest);
        text
    }
}

/// What the kernel said, EIO if it was something else.
pub fn errno_of(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_that_of_what_the_kernel_said_or_else_of_what_was_done() {
        let error = |what| Error::new(what, "a");
        for (error, kind) in [
            (error(What::Reading).errno(Errno::IO), ErrorKind::Device),
            (error(What::Writing).errno(Errno::DQUOT), ErrorKind::Space),
            (error(What::CannotOpen).errno(Errno::ACCESS), ErrorKind::Permission),
            (error(What::ReplacedWhileCopied), ErrorKind::Changed),
            (error(What::Mismatch), ErrorKind::Damaged),
            (error(What::SameFile), ErrorKind::Refused),
            (error(What::Closing).errno(Errno::CHILD), ErrorKind::Other),
        ] {
            assert_eq!(error.kind(), kind, "{error}");
        }
    }

    #[test]
    fn the_source_of_an_error_is_what_the_kernel_said() {
        use std::error::Error as _;
        let error = Error::new(What::Reading, "a");
        assert!(error.source().is_none() && error.raw_os_error().is_none());
        let error = error.errno(Errno::IO);
        assert_eq!(error.raw_os_error(), Some(5));
        assert_eq!(error.source().and_then(|source| source.downcast_ref()), Some(&Errno::IO));
    }

    #[test]
    fn a_brace_in_a_name_is_not_a_place() {
        let error = Error::new(What::SameFile, "{other}").and("b");
        assert_eq!(error.to_string(), "\"{other}\" and \"b\" are the same file");
    }
}
