//! Files that are made under another name and get theirs when they are whole (`--atomic`, `--durable=file`).
//!
//! The other name is in the directory of the final one, so that a rename puts one in the place of the other in one step.
//! Everything in between is done by the code that makes any other file, which sees a new file in that directory.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::rustix::fs::{Mode, OFlags, openat, readlinkat};
use haul_sys::rustix::io::fcntl_dupfd_cloexec;

use super::durable::{Place, Ready};
use super::entry::Subject;
use super::existing::{Clear, Existing, may_write};
use super::{Keep, Run};
use crate::error::{Error, What};
use crate::facts::{Inode, Kind};
use crate::meta::{self, NewEntries, Object, XattrRules};
use crate::plan::{LinkMode, ModeRule, Preserve, Wish};
use crate::verify::Checked;
use crate::walk::Spot;

/// Set-user-ID and set-group-ID.
const SPECIAL_RIGHTS: u32 = 0o6000;
/// As many as the kernel follows (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// Where a file is made, and where it goes.
struct Stage {
    /// The directory of both, where that is not the one of the destination: behind a symbolic link.
    dir: Option<OwnedFd>,
    /// The name in the meantime.
    name: OsString,
    /// The name that it gets.
    last: OsString,
    /// Something stands there.
    replaces: bool,
}

impl Stage {
    fn spot<'s>(&'s self, dest: Spot<'s>, name: &'s OsStr) -> Spot<'s> {
        match &self.dir {
            Some(dir) => Spot::new(dir.as_fd(), name, dest.path),
            None => dest.beside(name, dest.path),
        }
    }
}

/// An old file whose owner, mode and attributes the new one takes over, since writing into it would have left them alone.
#[derive(Debug)]
pub(super) struct Heritage {
    fd: OwnedFd,
    inode: Inode,
}

impl Run<'_> {
    /// Makes what is neither a directory nor a link to the source, under another name first where the plan asks for that.
    pub(super) fn make_file(&mut self, subject: &mut Subject<'_>, clear: &Clear) -> bool {
        (self.checked, self.kept) = (Ok(Checked::default()), true);
        if !self.is_staged(subject, clear) {
            let made = self.make_at_once(subject, clear);
            let checked = self.take_checked();
            if made {
                self.tell_digest(subject.dest.path, &checked);
            }
            return made;
        }
        let stage = match stage(subject.dest, clear, self.plan.write_through_dangling_link) {
            Ok(stage) => stage,
            Err(errno) => {
                return self.problem(Error::new(What::CannotCreateRegular, subject.dest.path).errno(errno));
            }
        };
        let last = stage.spot(subject.dest, &stage.last);
        let old = clear.existing.map(|existing| existing.target);
        let heritage = match old.map(|old| self.heritage(last, old)).transpose() {
            Ok(heritage) => heritage,
            Err(error) => return self.problem(error),
        };
        // Behind a link it is made in a directory of which nothing is known.
        let entries = if stage.dir.is_some() { NewEntries::UNKNOWN } else { clear.entries };
        let new = Clear { new: true, staged: true, entries, heritage, ..Clear::default() };
        let spot = stage.spot(subject.dest, &stage.name);
        let sides = subject.sides.filter(|_| stage.dir.is_none());
        let mut staged = Subject { dest: spot, sides, opened: subject.opened.take(), ..*subject };
        if self.make_at_once(&mut staged, &new) {
            let kept = self.kept;
            // A copy that is not what it must be gets its name, but no other ones. What waits for its name still needs its
            // backup.
            let backed_up = self.unsynced.is_some() && clear.backup.is_some();
            return self.publish_or_wait(&stage, spot, subject) && (kept || backed_up);
        }
        // A node whose attributes could not be kept. Everything else has gone already.
        spot.unlink().ok();
        false
    }

    fn make_at_once(&mut self, subject: &mut Subject<'_>, clear: &Clear) -> bool {
        if self.copied_as_regular(subject.inode.kind) {
            self.copy_regular(subject, clear)
        } else {
            self.make_special(subject, clear)
        }
    }

    /// Whether it is made under another name first. Not where an existing file is no regular one, which is written into, as
    /// FIFOs and devices are; nor where only attributes are set.
    fn is_staged(&self, subject: &Subject<'_>, clear: &Clear) -> bool {
        let plan = self.plan;
        let regular = |existing: &Existing| existing.target.kind == Kind::Regular;
        plan.is_staged()
            && plan.link == LinkMode::Copy
            && !(plan.attributes_only && clear.existing.is_some())
            && clear
                .existing
                .as_ref()
                .is_none_or(|existing| regular(existing) && self.copied_as_regular(subject.inode.kind))
    }

    /// Takes hold of a file that is going to be replaced, where writing into it would have been allowed.
    fn heritage(&self, spot: Spot<'_>, old: Inode) -> Result<Heritage, Error> {
        let error = Error::new(What::CannotCreateRegular, spot.path);
        if !self.plan.force && !self.shared.caller.privileged() && !may_write(spot) {
            return Err(error.errno(Errno::ACCESS));
        }
        let held = spot.open_path().and_then(|fd| Ok((Inode::of(fd.as_fd())?, fd)));
        match held {
            Ok((inode, fd)) if inode.is_same_file_as(&old) => Ok(Heritage { fd, inode }),
            Ok(_) => Err(Error::new(What::ReplacedWhileCopied, spot.path)),
            Err(errno) => Err(error.errno(errno)),
        }
    }

    /// Gives a new file what the one had in whose place it comes. False if something would be lost that need not be.
    pub(super) fn take_over(&mut self, keep: &Keep<'_>, heritage: &Heritage) -> bool {
        // Others than root may not write all attributes that they can see.
        let xattr = if self.shared.caller.privileged() { Wish::Require } else { Wish::Try };
        let preserve = Preserve {
            mode: ModeRule::Keep,
            ownership: true,
            context: Wish::Try,
            xattr,
            quiet: xattr == Wish::Try,
            ..Preserve::default()
        };
        let mut inode = heritage.inode;
        if !self.shared.caller.privileged() {
            // The kernel takes these away when such a file is written to by somebody else than root.
            inode.permissions &= !SPECIAL_RIGHTS;
        }
        let source = meta::Side {
            object: Object { fd: heritage.fd.as_fd(), path_only: true },
            inode: &inode,
            path: keep.dest_path,
        };
        let rules = XattrRules::for_other_contents();
        let request = meta::Request { preserve: &preserve, source, created: true, rules: &rules, ..self.request(keep) };
        let mut problems = Vec::new();
        let kept = meta::finish(&request, &mut |error| problems.push(error));
        self.report_attributes(problems, kept);
        kept
    }

    /// The file is whole: gives it its name, or leaves that until it is on the device.
    fn publish_or_wait(&mut self, stage: &Stage, spot: Spot<'_>, subject: &Subject<'_>) -> bool {
        let checked = self.take_checked();
        let unsynced = self.unsynced.take();
        if let Some(mismatch) = checked.mismatch {
            return self.set_aside(spot, &stage.last, mismatch);
        }
        let Some((file, id)) = unsynced else {
            let published = self.publish(spot, &stage.last, stage.replaces);
            if published {
                self.tell_digest(spot.path, &checked);
            }
            return published;
        };
        let place = match (&stage.dir, subject.sides) {
            (None, Some(sides)) => Ok(Place::Shared(Arc::clone(sides))),
            _ => spot.dir().and_then(|dir| fcntl_dupfd_cloexec(dir, 0)).map(Place::Own),
        };
        let place = match place {
            Ok(place) => place,
            Err(errno) => {
                let error = Error::new(What::CannotPublish, spot.path).errno(errno);
                return self.withdraw(spot, error);
            }
        };
        self.wait_for_device(Ready {
            file,
            id,
            size: subject.inode.size,
            checked,
            place,
            name: stage.name.clone(),
            last: stage.last.clone(),
            path: spot.path.to_owned(),
            replaces: stage.replaces,
        });
        true
    }

    /// Puts a whole file in its place. If that fails, it goes away again.
    pub(super) fn publish(&mut self, spot: Spot<'_>, last: &OsStr, replaces: bool) -> bool {
        let renamed = if replaces { spot.rename_to(last) } else { rename_to_free(spot, last) };
        match renamed {
            Ok(()) => true,
            // The name was free as far as following links told.
            Err(Errno::EXIST) if spot.beside(last, spot.path).read_link().is_ok() => {
                self.withdraw(spot, Error::new(What::DanglingLink, spot.path))
            }
            Err(errno) => {
                let what = if errno == Errno::EXIST { What::CannotCreateRegular } else { What::CannotPublish };
                self.withdraw(spot, Error::new(what, spot.path).errno(errno))
            }
        }
    }

    /// Removes a whole file that cannot get its name. Always `false`.
    pub(super) fn withdraw(&mut self, spot: Spot<'_>, error: Error) -> bool {
        self.problem(error);
        if let Err(errno) = spot.unlink() {
            self.problem(Error::new(What::CannotRemovePartial, spot.path).errno(errno));
        }
        false
    }
}

/// Where filesystem or kernel cannot refuse a name that is taken, it is looked at first.
pub(super) fn rename_to_free(spot: Spot<'_>, last: &OsStr) -> Result<(), Errno> {
    match spot.rename_to_free(last) {
        Err(Errno::INVAL | Errno::NOSYS) => match spot.beside(last, spot.path).inode() {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => spot.rename_to(last),
            Err(errno) => Err(errno),
        },
        result => result,
    }
}

/// Finds the place behind the destination: behind symbolic links, if it is one that is written through.
fn stage(dest: Spot<'_>, clear: &Clear, through_dangling: bool) -> Result<Stage, Errno> {
    // As open(2) says of a name that ends in a slash where no directory is to be made.
    if dest.name.as_bytes().last() == Some(&b'/') {
        return Err(Errno::NOTDIR);
    }
    let through_link = clear.existing.is_some_and(|existing| existing.entry.kind == Kind::SymbolicLink);
    let dangling = through_dangling && clear.existing.is_none() && !clear.replaces && dest.read_link().is_ok();
    let (dir, last) = match through_link || dangling {
        true => follow(dest).map(|(dir, last)| (Some(dir), last))?,
        false => (None, dest.name.to_owned()),
    };
    let replaces = clear.existing.is_some() || clear.replaces;
    Ok(Stage { dir, name: unlikely_name(), last, replaces })
}

/// The directory and the name that symbolic links lead to, found as the kernel finds them.
fn follow(dest: Spot<'_>) -> Result<(OwnedFd, OsString), Errno> {
    let mut dir = fcntl_dupfd_cloexec(dest.dir()?, 0)?;
    let mut name = dest.name.to_owned();
    for _ in 0..MOST_LINKS {
        let text = match readlinkat(&dir, name.as_os_str(), Vec::new()) {
            Ok(text) => text.into_bytes(),
            // What is no link, or is not there.
            Err(Errno::INVAL | Errno::NOENT) => return Ok((dir, name)),
            Err(errno) => return Err(errno),
        };
        let path = Path::new(OsStr::from_bytes(&text));
        let last = path.file_name().ok_or(Errno::ISDIR)?;
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        dir = open_directory(dir.as_fd(), above.unwrap_or(Path::new(".")))?;
        name = last.to_owned();
    }
    Err(Errno::LOOP)
}

fn open_directory(from: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    openat(from, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// A name that nobody has: of 64 random bits. Whoever makes the file notices if it is taken all the same.
fn unlikely_name() -> OsString {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u8(0);
    OsString::from(format!(".haul-{:016x}", hasher.finish()))
}
