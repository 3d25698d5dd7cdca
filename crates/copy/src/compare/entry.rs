//! Two entries of one name.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use haul_io::options::CacheUse;
use haul_io::transfer::{Buffers, Comparison, has_storage, is_pseudo_file};
use haul_sys::Errno;
use haul_sys::inode::{FileId, Inode, Kind};
use haul_sys::object::Object;
use haul_sys::rustix::fs::OFlags;

use crate::error::{Error, What};
use crate::meta::{Action, XattrRules, is_acl_name};
use crate::offline::OfflineFiles;
use crate::plan::{Dereference, LinkMode, ModeRule, Plan, Wish};
use crate::walk::Spot;

use super::difference::Difference;
use super::links;

/// What is compared, as far as the plan keeps it.
pub(super) struct Rules<'a> {
    pub(super) plan: &'a Plan,
    pub(super) xattrs: &'a XattrRules,
    pub(super) stop: &'a (dyn Fn() -> bool + Sync),
    pub(super) offline: Arc<OfflineFiles>,
}

impl Rules<'_> {
    /// Opens one side to read it, without a trace if the plan wants that.
    pub(super) fn open(&self, spot: Spot<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
        if self.plan.open_noatime { spot.open_noatime(flags) } else { spot.open(flags, 0) }
    }

    /// Whether a source is not compared since its contents are in an archive.
    pub(super) fn leave_out(&self, source: Spot<'_>, inode: &Inode, follow: bool) -> bool {
        self.plan.skip_offline && self.offline.contain(source, inode, follow)
    }
}

/// What became of one name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Both are directories.
    pub(super) directories: bool,
    /// Both files, where one of them may have other names and that matters.
    pub(super) links: Option<(FileId, FileId)>,
    pub(super) differences: Vec<Difference>,
    pub(super) problems: Vec<Error>,
}

impl Outcome {
    /// Whether anything is said or has to be remembered.
    pub(super) fn matters(&self) -> bool {
        self.links.is_some() || !self.differences.is_empty() || !self.problems.is_empty()
    }

    /// Of a name that cannot be looked at.
    pub(super) fn failed(path: &Path, errno: Errno) -> Outcome {
        Outcome { problems: vec![Error::new(What::CannotStat, path).errno(errno)], ..Outcome::default() }
    }
}

/// Compares what has one name on both sides.
pub(super) fn compare(rules: &Rules<'_>, source: Spot<'_>, copy: Spot<'_>, buffers: &mut Buffers) -> Outcome {
    match inodes(rules, source, copy) {
        Ok((one, other)) => compare_both(rules, (source, one), (copy, other), buffers),
        Err(outcome) => outcome,
    }
}

/// What has one name on both sides; else what is to be reported of it: it is there on one side only, or cannot be looked at.
pub(super) fn inodes(rules: &Rules<'_>, source: Spot<'_>, copy: Spot<'_>) -> Result<(Inode, Inode), Outcome> {
    let mut outcome = Outcome::default();
    let follow = rules.plan.dereference == Dereference::Always;
    let inode = |spot: Spot<'_>| spot.inode_now(follow);
    match (inode(source), inode(copy)) {
        (Ok(one), Ok(other)) => return Ok((one, other)),
        (Err(Errno::NOENT), Ok(_)) => outcome.differences.push(Difference::OnlyInCopy),
        (Ok(_), Err(Errno::NOENT)) => outcome.differences.push(Difference::OnlyInSource),
        (Err(errno), _) => outcome = Outcome::failed(source.path, errno),
        (_, Err(errno)) => outcome = Outcome::failed(copy.path, errno),
    }
    Err(outcome)
}

/// Whether two entries, no link followed, are of one kind and have the same contents: bytes, the text of a link, the numbers of a
/// device. What they keep besides is not looked at. True also if it was stopped.
pub(crate) fn are_alike(
    source: (Spot<'_>, Inode),
    copy: (Spot<'_>, Inode),
    open_noatime: bool,
    stop: &(dyn Fn() -> bool + Sync),
    buffers: &mut Buffers,
) -> Result<bool, Error> {
    let plan = Plan { dereference: Dereference::Never, open_noatime, ..Plan::default() };
    let rules = Rules { plan: &plan, xattrs: &XattrRules::default(), stop, offline: Arc::default() };
    let is_known = source.1.kind != Kind::Unknown;
    let Outcome { differences, problems, .. } = compare_both(&rules, source, copy, buffers);
    match problems.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(is_known && differences.is_empty()),
    }
}

pub(super) fn compare_both(
    rules: &Rules<'_>,
    source: (Spot<'_>, Inode),
    copy: (Spot<'_>, Inode),
    buffers: &mut Buffers,
) -> Outcome {
    let both = (source.1, copy.1);
    let mut outcome = Outcome {
        directories: both.0.kind == Kind::Directory && both.1.kind == Kind::Directory && both.0.id != both.1.id,
        links: if rules.plan.preserve.links { links::of(&both) } else { None },
        ..Outcome::default()
    };
    let mut pair = Pair { rules, source, copy, outcome: &mut outcome };
    if let Err(error) = pair.look(buffers) {
        outcome.problems.push(error);
    }
    outcome
}

struct Pair<'a> {
    rules: &'a Rules<'a>,
    source: (Spot<'a>, Inode),
    copy: (Spot<'a>, Inode),
    outcome: &'a mut Outcome,
}

impl Pair<'_> {
    fn differ(&mut self, difference: Difference) {
        self.outcome.differences.push(difference);
    }

    fn look(&mut self, buffers: &mut Buffers) -> Result<(), Error> {
        let (one, other) = (self.source.1, self.copy.1);
        if one.kind != other.kind {
            self.differ(Difference::Kind(one.kind, other.kind));
            return Ok(());
        }
        let may_be_linked = !matches!(one.kind, Kind::Directory | Kind::SymbolicLink);
        match (one.id == other.id, self.rules.plan.link) {
            // A link to a link is made where the filesystem can, and a copy of it elsewhere.
            (true, LinkMode::Hard) if one.kind != Kind::Directory => return Ok(()),
            (true, _) => {
                self.differ(Difference::Same);
                return Ok(());
            }
            (false, LinkMode::Hard) if may_be_linked => {
                self.differ(Difference::NotLinked(self.source.0.path.to_owned()));
            }
            _ => {}
        }
        match one.kind {
            Kind::Regular if self.rules.plan.attributes_only => {}
            Kind::Regular => self.contents(buffers)?,
            Kind::SymbolicLink => self.targets()?,
            Kind::CharacterDevice | Kind::BlockDevice if one.node != other.node => {
                self.differ(Difference::Node(one.node, other.node));
            }
            _ => {}
        }
        self.attributes()
    }

    fn targets(&mut self) -> Result<(), Error> {
        let read =
            |spot: Spot<'_>| spot.read_link().map_err(|errno| Error::new(What::CannotReadLink, spot.path).errno(errno));
        let (one, other) = (read(self.source.0)?, read(self.copy.0)?);
        if one != other {
            self.differ(Difference::Target(one, other));
        }
        Ok(())
    }

    fn contents(&mut self, buffers: &mut Buffers) -> Result<(), Error> {
        let (one, other) = (self.source.1, self.copy.1);
        let differ = one.size != other.size;
        if differ && has_storage(&one) && has_storage(&other) {
            self.differ(Difference::Size(one.size, other.size));
            return Ok(());
        }
        let files = [Arc::new(self.open(self.source)?), Arc::new(self.open(self.copy)?)];
        // The size of what is made up while it is read means nothing.
        if differ && !is_pseudo_file(&files[0], &one) && !is_pseudo_file(&files[1], &other) {
            self.differ(Difference::Size(one.size, other.size));
            return Ok(());
        }
        let comparison = Comparison {
            files: [&files[0], &files[1]],
            inodes: [&one, &other],
            pace: None,
            cache: CacheUse::Keep,
            stop: self.rules.stop,
        };
        let found = comparison
            .first_difference(buffers)
            .map_err(|(side, errno)| Error::new(What::Reading, [self.source.0, self.copy.0][side].path).errno(errno))?;
        if let Some(at) = found {
            self.differ(Difference::Contents(at));
        }
        Ok(())
    }

    fn open(&self, (spot, inode): (Spot<'_>, Inode)) -> Result<OwnedFd, Error> {
        let follow = self.rules.plan.dereference == Dereference::Always;
        let flags = OFlags::NONBLOCK | if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let failed = |what| move |errno| Error::new(what, spot.path).errno(errno);
        let file = self.rules.open(spot, OFlags::RDONLY | flags).map_err(failed(What::CannotOpen))?;
        let opened = Inode::of(file.as_fd()).map_err(failed(What::CannotFstat))?;
        if opened.is_same_file_as(&inode) { Ok(file) } else { Err(Error::new(What::ReplacedWhileCopied, spot.path)) }
    }

    fn attributes(&mut self) -> Result<(), Error> {
        let (one, other) = (self.source.1, self.copy.1);
        let preserve = &self.rules.plan.preserve;
        let is_link = one.kind == Kind::SymbolicLink;
        if preserve.mode == ModeRule::Keep && !is_link && one.permissions != other.permissions {
            self.differ(Difference::Mode(one.permissions, other.permissions));
        }
        if preserve.ownership && (one.user, one.group) != (other.user, other.group) {
            self.differ(Difference::Owner((one.user, one.group), (other.user, other.group)));
        }
        // Not the time of access: looking changes it.
        if preserve.timestamps && one.modified != other.modified {
            self.differ(Difference::Modified(one.modified, other.modified));
        }
        if preserve.mode == ModeRule::Keep || preserve.xattr != Wish::No || preserve.context != Wish::No {
            self.extended()?;
        }
        Ok(())
    }

    fn extended(&mut self) -> Result<(), Error> {
        let (one, other) = (self.all_of(self.source)?, self.all_of(self.copy)?);
        let mut names: Vec<&CString> =
            one.iter().filter(|(name, value)| other.get(*name) != Some(*value)).map(|it| it.0).collect();
        names.extend(other.keys().filter(|name| !one.contains_key(*name)));
        names.sort();
        for name in names {
            self.differ(Difference::Attribute(OsStr::from_bytes(name.to_bytes()).to_owned()));
        }
        Ok(())
    }

    /// The extended attributes that a copy keeps.
    fn all_of(&self, (spot, inode): (Spot<'_>, Inode)) -> Result<BTreeMap<CString, Vec<u8>>, Error> {
        let failed = |what| move |errno| Error::new(what, spot.path).errno(errno);
        let follow = self.rules.plan.dereference == Dereference::Always;
        let flags = if follow { OFlags::PATH } else { OFlags::PATH | OFlags::NOFOLLOW };
        let file = spot.open(flags, 0).map_err(failed(What::CannotAccess))?;
        let opened = Inode::of(file.as_fd()).map_err(failed(What::CannotFstat))?;
        if !opened.is_same_file_as(&inode) {
            return Err(Error::new(What::ReplacedWhileCopied, spot.path));
        }
        let object = Object { fd: file.as_fd(), path_only: true };
        let (mut list, mut found) = (Vec::new(), BTreeMap::new());
        match object.list_xattrs(&mut list) {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(found),
            Err(errno) => return Err(failed(What::ListingAttributes)(errno)),
        }
        for name in list.split_inclusive(|byte| *byte == 0).filter_map(|name| CStr::from_bytes_with_nul(name).ok()) {
            if !self.is_kept(name) {
                continue;
            }
            let mut value = Vec::new();
            match object.get_xattr(name, &mut value) {
                Ok(()) => _ = found.insert(name.to_owned(), value),
                // Gone since it was listed.
                Err(Errno::NODATA) => {}
                Err(errno) => {
                    let plain = OsStr::from_bytes(name.to_bytes());
                    return Err(Error::new(What::GettingAttribute, spot.path).and(plain).errno(errno));
                }
            }
        }
        Ok(found)
    }

    fn is_kept(&self, name: &CStr) -> bool {
        let preserve = &self.rules.plan.preserve;
        let with_mode = preserve.mode == ModeRule::Keep;
        if is_acl_name(name) {
            return with_mode;
        }
        if name == c"security.selinux" {
            return preserve.context != Wish::No;
        }
        match self.rules.xattrs.action(name) {
            Action::Copy => preserve.xattr != Wish::No,
            Action::Permissions => with_mode,
            Action::Skip => false,
        }
    }
}
