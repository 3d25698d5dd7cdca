//! From a finished entry to its attributes: fills in what the metadata room wants to know.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use haul_sys::Errno;
use haul_sys::rustix::fs::IFlags;
use haul_sys::rustix::io::fcntl_dupfd_cloexec;

use super::Run;
use crate::error::{Error, What};
use crate::facts::Inode;
use crate::meta::{self, NewEntries, Object, Request, Side};

/// An entry whose data or contents are in place.
pub(super) struct Keep<'a> {
    pub source: Object<'a>,
    pub source_inode: &'a Inode,
    pub source_path: &'a Path,
    pub dest: Object<'a>,
    /// The destination just after it was made, or as it was found.
    pub dest_inode: &'a Inode,
    pub dest_path: &'a Path,
    pub created: bool,
    /// What is known of the directory that it was made in, or of itself if it is a directory.
    pub entries: NewEntries,
}

impl Run<'_> {
    /// Gives the copy the attributes that the plan asks for. False if one failed that had to be kept.
    pub(super) fn keep_attributes(&mut self, keep: &Keep<'_>) -> bool {
        let mut problems: Vec<Error> = Vec::new();
        let kept = meta::finish(&self.request(keep), &mut |error| problems.push(error));
        self.report_attributes(problems, kept);
        kept
    }

    /// The same for a file that may get more hard links, or another name if it is `staged`: the kernel gives none to an
    /// immutable or append-only file, so those two flags wait until the end of the run.
    pub(super) fn keep_attributes_of_file(&mut self, keep: &Keep<'_>, staged: bool) -> bool {
        let preserve = &self.plan.preserve;
        let may_be_linked = preserve.links && keep.source_inode.links > 1;
        if !preserve.flags || !(may_be_linked || staged) {
            return self.keep_attributes(keep);
        }
        let mut problems: Vec<Error> = Vec::new();
        let request = Request { seal_later: true, ..self.request(keep) };
        let kept = meta::finish(&request, &mut |error| problems.push(error));
        self.report_attributes(problems, kept);
        match Unsealed::hold(keep) {
            Ok(Some(unsealed)) => self.unsealed.push(unsealed),
            Ok(None) => {}
            Err(errno) => {
                self.problem(Error::new(What::PreservingFlags, keep.dest_path).errno(errno));
            }
        }
        kept
    }

    /// Sets the flags that waited for the last hard link.
    pub(super) fn seal(&mut self) {
        for unsealed in std::mem::take(&mut self.unsealed) {
            let mut problems: Vec<Error> = Vec::new();
            let sealed = meta::seal(&self.request(&unsealed.keep()), &mut |error| problems.push(error));
            self.report_attributes(problems, sealed);
        }
    }

    /// Sets what only works on an empty file or an empty directory.
    pub(super) fn prepare_attributes(&mut self, keep: &Keep<'_>) {
        let mut problems: Vec<Error> = Vec::new();
        let kept = meta::before_data(&self.request(keep), &mut |error| problems.push(error));
        self.report_attributes(problems, kept);
    }

    pub(super) fn request<'k>(&'k self, keep: &Keep<'k>) -> Request<'k> {
        Request {
            preserve: &self.plan.preserve,
            context: &self.plan.context,
            source: Side { object: keep.source, inode: keep.source_inode, path: keep.source_path },
            dest: Side { object: keep.dest, inode: keep.dest_inode, path: keep.dest_path },
            created: keep.created,
            entries: keep.entries,
            no_data: self.plan.attributes_only,
            seal_later: false,
            caller: self.shared.caller,
            rules: &self.session.xattr_rules,
            memory: &self.shared.memory,
        }
    }

    /// Attributes that could not be kept fail the run only if they had to be kept.
    pub(super) fn report_attributes(&mut self, problems: Vec<Error>, kept: bool) {
        for error in problems {
            if kept {
                self.warning(&error);
            } else {
                self.problem(error);
            }
        }
        if !kept {
            self.failed = true;
        }
    }
}

/// A finished file whose source is immutable or append-only and has several names. There are few of these.
pub(super) struct Unsealed {
    source: OwnedFd,
    source_inode: Inode,
    source_path: PathBuf,
    dest: OwnedFd,
    dest_inode: Inode,
    dest_path: PathBuf,
    entries: NewEntries,
}

impl Unsealed {
    fn hold(keep: &Keep<'_>) -> Result<Option<Unsealed>, Errno> {
        let flags = IFlags::from_bits_retain(keep.source.inode_flags().unwrap_or(0));
        if !flags.intersects(IFlags::IMMUTABLE | IFlags::APPEND) {
            return Ok(None);
        }
        let held = |fd: BorrowedFd<'_>| fcntl_dupfd_cloexec(fd, 0);
        Ok(Some(Unsealed {
            source: held(keep.source.fd)?,
            source_inode: *keep.source_inode,
            source_path: keep.source_path.to_owned(),
            dest: held(keep.dest.fd)?,
            dest_inode: *keep.dest_inode,
            dest_path: keep.dest_path.to_owned(),
            entries: keep.entries,
        }))
    }

    fn keep(&self) -> Keep<'_> {
        Keep {
            source: Object { fd: self.source.as_fd(), path_only: false },
            source_inode: &self.source_inode,
            source_path: &self.source_path,
            dest: Object { fd: self.dest.as_fd(), path_only: false },
            dest_inode: &self.dest_inode,
            dest_path: &self.dest_path,
            created: true,
            entries: self.entries,
        }
    }
}
