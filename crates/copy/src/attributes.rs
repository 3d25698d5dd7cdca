//! The attributes of a finished entry.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use haul_sys::Errno;
use haul_sys::inode::Inode;
use haul_sys::rustix::fs::IFlags;
use haul_sys::rustix::io::fcntl_dupfd_cloexec;

use crate::error::{Error, What};
use crate::meta::{self, Caller, KnownFilesystems, NewEntries, Object, Request, Side, XattrRules};
use crate::plan::{Dereference, ModeRule, Plan, Preserve, Wish};
use crate::report::{Loss, Reporter};

/// An entry whose data or contents are in place.
pub(crate) struct Keep<'a> {
    pub source: Side<'a>,
    /// As it was just after it was made, or as it was found.
    pub dest: Side<'a>,
    pub created: bool,
    /// What is known of the directory that it was made in, or of itself if it is a directory.
    pub entries: NewEntries,
}

/// One side of an entry: open, perhaps as a path only.
pub(crate) fn side<'a>(fd: &'a impl AsFd, path_only: bool, inode: &'a Inode, path: &'a Path) -> Side<'a> {
    Side { object: Object { fd: fd.as_fd(), path_only }, inode, path }
}

/// One side of an entry, held open.
pub(crate) struct HeldSide {
    pub fd: OwnedFd,
    pub path_only: bool,
    pub inode: Inode,
    pub path: PathBuf,
}

impl HeldSide {
    pub(crate) fn side(&self) -> Side<'_> {
        side(&self.fd, self.path_only, &self.inode, &self.path)
    }
}

/// An old file whose owner, mode and attributes the new one gets, since writing into it would have left them alone.
#[derive(Debug)]
pub(crate) struct ReplacedFile {
    /// Opened as a path.
    pub fd: OwnedFd,
    pub inode: Inode,
}

/// Permissions of the owner.
pub(crate) const OWNER: u32 = 0o700;
/// Permissions of all but the owner.
pub(crate) const OTHERS: u32 = 0o077;

/// Set-user-ID and set-group-ID.
pub(crate) const SPECIAL_RIGHTS: u32 = 0o6000;
const SET_USER_ID: u32 = 0o4000;
const GROUP_EXECUTES: u32 = 0o010;

/// Sets the attributes that a plan asks for. The same for all threads.
#[derive(Clone, Copy)]
pub(crate) struct Attributes<'a> {
    plan: &'a Plan,
    rules: &'a XattrRules,
    memory: &'a KnownFilesystems,
    caller: Caller,
}

/// What became of the attributes of a file.
pub(crate) struct Set {
    /// Whether it has all that it must have.
    pub kept: Result<(), Loss>,
    /// Flags of it wait for the end of the run.
    pub deferred: Option<DeferredFlags>,
}

impl<'a> Attributes<'a> {
    /// `memory` knows what was said already of two filesystems.
    pub(crate) fn new(
        plan: &'a Plan,
        rules: &'a XattrRules,
        memory: &'a KnownFilesystems,
        caller: Caller,
    ) -> Attributes<'a> {
        Attributes { plan, rules, memory, caller }
    }

    /// Gives the copy its attributes. False if one could not be set that had to be kept.
    pub(crate) fn set(&self, keep: &Keep<'_>, report: &mut Reporter<'_>) -> bool {
        self.set_or_lose(keep, report).is_ok()
    }

    /// The same, and says what kind of loss it is.
    pub(crate) fn set_or_lose(&self, keep: &Keep<'_>, report: &mut Reporter<'_>) -> Result<(), Loss> {
        report.attributes_or_loss(keep.dest.path, |problem| meta::finish(&self.request(keep), problem))
    }

    /// The same for a file that may get more hard links, or another name if it is `temporary`: the kernel gives none to an
    /// immutable or append-only file, so those two flags wait until the end of the run.
    pub(crate) fn set_of_file(&self, keep: &Keep<'_>, temporary: bool, report: &mut Reporter<'_>) -> Set {
        let preserve = &self.plan.preserve;
        // Two symbolic links that are followed may lead to one file.
        let follows = match self.plan.dereference {
            Dereference::Never => false,
            Dereference::Operands => self.plan.sources.len() > 1,
            Dereference::Always => true,
        };
        let may_be_linked = preserve.links && (keep.source.inode.links > 1 || follows);
        let seal_later = preserve.flags && (may_be_linked || temporary);
        let request = Request { seal_later, ..self.request(keep) };
        let kept = report.attributes_or_loss(keep.dest.path, |problem| meta::finish(&request, problem));
        if !seal_later {
            return Set { kept, deferred: None };
        }
        let deferred = report.check(DeferredFlags::hold(keep), What::PreservingFlags, keep.dest.path);
        Set { kept, deferred: deferred.unwrap_or(None) }
    }

    /// The same for a full directory. One that was there before and has them all is left alone, if the plan looks at such things.
    pub(crate) fn set_of_directory(&self, keep: &Keep<'_>, report: &mut Reporter<'_>) {
        let compares = !keep.created && self.plan.update.compares();
        // What was made in it has changed its times.
        let now = if compares { Inode::of(keep.dest.object.fd).ok() } else { None };
        if !now.is_some_and(|now| self.stand(keep, &now)) {
            self.set(keep, report);
        }
    }

    /// Whether what stood there before, and is `now` like this, has all attributes already.
    pub(crate) fn stand(&self, keep: &Keep<'_>, now: &Inode) -> bool {
        meta::stands(&Request { dest: Side { inode: now, ..keep.dest }, ..self.request(keep) })
    }

    /// The same of two entries of these names that are not open, if that is certain: `keep` has the directories that they are in.
    pub(crate) fn stand_unopened(&self, keep: &Keep<'_>, names: [&OsStr; 2]) -> bool {
        meta::stands_unopened(&self.request(keep), names)
    }

    /// Sets the flags that waited for the last hard link.
    pub(crate) fn seal(&self, deferred: Vec<DeferredFlags>, report: &mut Reporter<'_>) {
        for deferred in deferred {
            let keep = deferred.keep();
            report.attributes(keep.dest.path, |problem| meta::seal(&self.request(&keep), problem));
        }
    }

    /// Sets what only works on an empty file or an empty directory.
    pub(crate) fn prepare(&self, keep: &Keep<'_>, report: &mut Reporter<'_>) {
        report.attributes(keep.dest.path, |problem| meta::before_data(&self.request(keep), problem));
    }

    /// Gives a new file the attributes of the one that it replaces, but not its owner where it can have that of the source: the
    /// file is whole, and an old owner could open it. False if something would be lost that need not be.
    pub(crate) fn of_replaced(&self, keep: &Keep<'_>, replaced: &ReplacedFile, report: &mut Reporter<'_>) -> bool {
        // Others than root may not write all attributes that they can see.
        let xattr = if self.caller.privileged() { Wish::Require } else { Wish::Try };
        let mut inode = replaced.inode;
        if !self.caller.privileged() {
            // The kernel takes these away when such a file is written to by somebody else than root.
            inode.permissions &= !SPECIAL_RIGHTS;
        }
        let owner = keep.source.inode;
        let is_given =
            self.plan.preserve.ownership && keep.dest.object.change_owner(Some(owner.user), Some(owner.group)).is_ok();
        if is_given && (owner.user, owner.group) != (inode.user, inode.group) {
            // A change of owner takes these away, and there will be no other one.
            inode.permissions &= !of_owner_alone(inode.permissions);
        }
        // It is not to be used under the old mode if that is not the one that it gets.
        let old = side(&replaced.fd, true, &inode, keep.dest.path).object;
        let has_acl = || [old, keep.source.object].into_iter().any(meta::has_acl);
        let narrow = meta::while_written(&inode, keep.source.inode, &self.plan.preserve, has_acl);
        let preserve = Preserve {
            mode: if narrow.is_some() { ModeRule::Default } else { ModeRule::Keep },
            ownership: !is_given,
            context: Wish::Try,
            xattr,
            quiet: xattr == Wish::Try,
            ..Preserve::default()
        };
        if let Some(mode) = narrow {
            inode.permissions = mode;
        }
        let source = side(&replaced.fd, true, &inode, keep.dest.path);
        let mut rules = XattrRules::for_other_contents();
        if self.removes_surplus() {
            rules.skip("user.*");
        }
        let request = Request { preserve: &preserve, source, created: true, rules: &rules, ..self.request(keep) };
        report.attributes(keep.dest.path, |problem| {
            let kept = meta::finish(&request, problem);
            // A change of owner has taken away what may stay.
            let Some(Err(errno)) = narrow.map(|mode| keep.dest.object.set_mode(mode)) else { return kept };
            problem(Error::new(What::PreservingPermissions, keep.dest.path).errno(errno));
            false
        })
    }

    /// Whether attributes that only the destination has are removed.
    fn removes_surplus(&self) -> bool {
        self.plan.delete.is_some() && self.plan.preserve.xattr != Wish::No
    }

    pub(crate) fn request<'k>(&'k self, keep: &Keep<'k>) -> Request<'k> {
        Request {
            preserve: &self.plan.preserve,
            context: &self.plan.context,
            source: keep.source,
            dest: keep.dest,
            created: keep.created,
            entries: keep.entries,
            exact: self.removes_surplus(),
            despite_mode: self.plan.update.compares(),
            no_data: self.plan.attributes_only,
            moves: self.plan.moves,
            seal_later: false,
            caller: self.caller,
            rules: self.rules,
            memory: self.memory,
        }
    }
}

/// The bits that chown(2) takes away. Set-group-ID where the group may not execute is no right, and stays.
fn of_owner_alone(permissions: u32) -> u32 {
    if permissions & GROUP_EXECUTES != 0 { SPECIAL_RIGHTS } else { SET_USER_ID }
}

/// A finished file whose source is immutable or append-only and has several names. There are few of these.
pub(crate) struct DeferredFlags {
    source: HeldSide,
    dest: HeldSide,
    entries: NewEntries,
}

impl DeferredFlags {
    fn hold(keep: &Keep<'_>) -> Result<Option<DeferredFlags>, Errno> {
        let flags = IFlags::from_bits_retain(keep.source.object.inode_flags().unwrap_or(0));
        if !flags.intersects(IFlags::IMMUTABLE | IFlags::APPEND) {
            return Ok(None);
        }
        let held = |Side { object: Object { fd, path_only }, inode, path }: Side<'_>| {
            let fd = fcntl_dupfd_cloexec(fd, 0)?;
            Ok(HeldSide { fd, path_only, inode: *inode, path: path.to_owned() })
        };
        Ok(Some(DeferredFlags { source: held(keep.source)?, dest: held(keep.dest)?, entries: keep.entries }))
    }

    fn keep(&self) -> Keep<'_> {
        Keep { source: self.source.side(), dest: self.dest.side(), created: true, entries: self.entries }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::{PermissionsExt, fchown};
    use std::time::{Duration, SystemTime};

    use haul_testbed::temp_dir;

    use super::*;
    use crate::context::test_support::Bench;

    /// Two files, of which the second is to be a copy of the first.
    struct Two {
        dir: haul_testbed::TempDir,
        files: [File; 2],
        inodes: [Inode; 2],
    }

    impl Two {
        fn new(modes: [u32; 2]) -> Two {
            let dir = temp_dir();
            let files = [("from", modes[0]), ("to", modes[1])].map(|(name, mode)| {
                let path = dir.path().join(name);
                let file = File::create(&path).unwrap();
                fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
                file
            });
            files[0].set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1000)).unwrap();
            let inodes = [0, 1].map(|index| Inode::of(files[index].as_fd()).unwrap());
            Two { dir, files, inodes }
        }

        fn keep(&self) -> Keep<'_> {
            Keep {
                source: side(&self.files[0], false, &self.inodes[0], Path::new("from")),
                dest: side(&self.files[1], false, &self.inodes[1], Path::new("to")),
                created: true,
                entries: NewEntries::UNKNOWN,
            }
        }

        /// The copy's mode, and the seconds of its last modification.
        fn of_copy(&self) -> (u32, i64) {
            let copy = Inode::of(self.files[1].as_fd()).unwrap();
            (copy.permissions, copy.modified.seconds)
        }
    }

    fn with<T>(plan: &Plan, work: impl FnOnce(Attributes<'_>, &mut Reporter<'_>) -> T) -> T {
        let ran = Bench::new(plan.clone()).run(|worker| work(worker.cx.attributes(), &mut worker.report));
        ran.says(&[]);
        ran.value
    }

    #[test]
    fn a_copy_gets_what_the_plan_keeps_and_nothing_else() {
        let two = Two::new([0o640, 0o600]);
        let times = Plan { preserve: Preserve { timestamps: true, ..Preserve::default() }, ..Plan::default() };
        assert!(with(&times, |attributes, report| attributes.set(&two.keep(), report)));
        assert_eq!(two.of_copy(), (0o600, 1000));
        let mode = Plan { preserve: Preserve { mode: ModeRule::Keep, ..Preserve::default() }, ..Plan::default() };
        assert!(with(&mode, |attributes, report| attributes.set(&two.keep(), report)));
        assert_eq!(two.of_copy().0, 0o640);
    }

    #[test]
    fn no_flag_waits_for_the_end_of_the_run_unless_flags_are_kept() {
        let two = Two::new([0o600, 0o600]);
        let set = with(&Plan::default(), |attributes, report| attributes.set_of_file(&two.keep(), true, report));
        assert!(set.kept.is_ok() && set.deferred.is_none());
    }

    #[test]
    fn a_file_that_replaces_another_gets_the_mode_of_that() {
        let two = Two::new([0o644, 0o600]);
        let path = two.dir.path().join("old");
        let old = File::create(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o751)).unwrap();
        let replaced = ReplacedFile { inode: Inode::of(old.as_fd()).unwrap(), fd: old.into() };
        assert!(with(&Plan::default(), |attributes, report| attributes.of_replaced(&two.keep(), &replaced, report)));
        assert_eq!(two.of_copy().0, 0o751);
    }

    /// The mode of a file that replaces one of somebody else, when it has the attributes of that. It must have its owner.
    fn of_file_that_replaced(mode: ModeRule, old_mode: u32) -> Option<u32> {
        const OLD: u32 = 1001;
        const NEW: u32 = 1002;
        let mut two = Two::new([0o755, 0o600]);
        let path = two.dir.path().join("old");
        let old = File::create(&path).unwrap();
        if [(&old, OLD), (&two.files[0], NEW)]
            .iter()
            .any(|(file, user)| fchown(file, Some(*user), Some(*user)).is_err())
        {
            haul_testbed::skip("not root");
            return None;
        }
        fs::set_permissions(&path, Permissions::from_mode(old_mode)).unwrap();
        two.inodes[0] = Inode::of(two.files[0].as_fd()).unwrap();
        let replaced = ReplacedFile { inode: Inode::of(old.as_fd()).unwrap(), fd: old.into() };
        let preserve = Preserve { ownership: true, mode, ..Preserve::default() };
        let plan = Plan { preserve, ..Plan::default() };
        assert!(with(&plan, |attributes, report| attributes.of_replaced(&two.keep(), &replaced, report)));
        let copy = Inode::of(two.files[1].as_fd()).unwrap();
        assert_eq!((copy.user, copy.group), (NEW, NEW));
        Some(copy.permissions)
    }

    #[test]
    fn a_whole_file_is_never_the_old_owners() {
        let Some(mode) = of_file_that_replaced(ModeRule::Keep, 0o6777) else { return };
        assert_eq!(mode, 0o700);
    }

    #[test]
    fn a_new_owner_does_not_get_the_set_user_id_bit_of_an_old_one() {
        for (old, new) in [(0o4711, 0o711), (0o6711, 0o711), (0o2644, 0o2644), (0o1751, 0o1751)] {
            let Some(mode) = of_file_that_replaced(ModeRule::Default, old) else { return };
            assert_eq!(mode, new, "{old:o}");
        }
    }
}
