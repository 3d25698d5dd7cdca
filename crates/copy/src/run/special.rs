//! Everything that is neither a directory nor has data: symbolic links, FIFOs, sockets and device nodes.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use haul_sys::Errno;
use haul_sys::rustix::fs::{CWD, FileType, OFlags};

use super::attributes::Keep;
use super::entry::Subject;
use super::existing::Clear;
use super::{Reported, Run};
use crate::error::{Error, What};
use crate::facts::{FileId, Inode, Kind};
use crate::meta::{self, NewEntries, Object};
use crate::plan::LinkMode;
use crate::publish::replace;
use crate::walk::Spot;

impl Run<'_> {
    /// Makes a symbolic link that leads to the source (`-s`).
    pub(super) fn make_symbolic_link_to_source(
        &mut self,
        subject: &Subject<'_>,
        clear: &Clear,
    ) -> Result<Option<FileId>, Reported> {
        let (source, dest) = (subject.source, subject.dest);
        let absolute = source.path.as_os_str().as_bytes().first() == Some(&b'/');
        if !absolute && !in_current_directory(dest) {
            return Err(self.worker.report.fail(Error::new(What::RelativeLinkElsewhere, dest.path)));
        }
        match replace::symbolic_link(
            source.path.as_os_str(),
            dest,
            self.cx.names_if(self.cx.plan.force || clear.replaces),
        ) {
            Ok(_) => {
                self.worker.report.stats.symbolic_links += 1;
                self.finish_special(subject, true, NewEntries::UNKNOWN)
            }
            Err(errno) => Err(self
                .worker
                .report
                .fail(Error::new(What::CannotCreateLinkTo, dest.path).and(source.path).errno(errno))),
        }
    }

    /// Makes the node that the source is.
    pub(super) fn make_special(&mut self, subject: &Subject<'_>, clear: &Clear) -> Result<Option<FileId>, Reported> {
        let (source, dest) = (subject.source, subject.dest);
        let kind = match subject.inode.kind {
            Kind::SymbolicLink => return self.copy_symbolic_link(subject, clear),
            Kind::Fifo => FileType::Fifo,
            Kind::Socket => FileType::Socket,
            Kind::CharacterDevice => FileType::CharacterDevice,
            Kind::BlockDevice => FileType::BlockDevice,
            Kind::Regular | Kind::Directory | Kind::Unknown => {
                return Err(self.worker.report.fail(Error::new(What::UnknownType, source.path)));
            }
        };
        let preserve = &self.cx.plan.preserve;
        let creation =
            meta::creation_mode(subject.inode.kind, &subject.inode, &clear.entries, preserve, self.cx.services.caller);
        match self.cx.services.space_gate.with_space(|| dest.make_node(kind, creation.mode, subject.inode.node)) {
            Ok(()) => {
                self.worker.report.stats.special += 1;
                self.finish_special(subject, clear.new, clear.entries)
            }
            Err(errno) => {
                let what = if kind == FileType::Fifo { What::CannotCreateFifo } else { What::CannotCreateSpecial };
                Err(self.worker.report.fail(Error::new(what, dest.path).errno(errno)))
            }
        }
    }

    fn copy_symbolic_link(&mut self, subject: &Subject<'_>, clear: &Clear) -> Result<Option<FileId>, Reported> {
        let (source, dest) = (subject.source, subject.dest);
        let text = match source.read_link() {
            Ok(text) => text,
            Err(errno) => {
                return Err(self.worker.report.fail(Error::new(What::CannotReadLink, source.path).errno(errno)));
            }
        };
        match self
            .cx
            .services
            .space_gate
            .with_space(|| replace::symbolic_link(&text, dest, self.cx.names_if(self.cx.plan.force)))
        {
            Ok(_) => {}
            // With -u a link that leads to the same place already is as new as can be.
            Err(Errno::EXIST)
                if self.cx.plan.only_newer && !clear.new && dest.read_link().is_ok_and(|old| old == text) => {}
            Err(errno) => {
                return Err(self.worker.report.fail(Error::new(What::CannotCreateLink, dest.path).errno(errno)));
            }
        }
        self.worker.report.stats.symbolic_links += 1;
        self.finish_special(subject, clear.new, clear.entries)
    }

    /// Attributes of a node or link that was just made, and which one it is.
    fn finish_special(
        &mut self,
        subject: &Subject<'_>,
        created: bool,
        entries: NewEntries,
    ) -> Result<Option<FileId>, Reported> {
        let dest = match held(subject.dest.open_path()) {
            Ok(dest) => dest,
            Err(errno) => {
                return Err(self.worker.report.fail(Error::new(What::CannotStat, subject.dest.path).errno(errno)));
            }
        };
        // What was just made has one name; anything else was put there by somebody, and is not ours to change.
        if created && (dest.0.links != 1 || matches!(dest.0.kind, Kind::Regular | Kind::Directory)) {
            return Err(self.worker.report.fail(Error::new(What::ReplacedWhileCopied, subject.dest.path)));
        }
        // A link that the next name would be looked at through is no file of its own.
        let id = (!(subject.follow && dest.0.kind == Kind::SymbolicLink)).then_some(dest.0.id);
        let no_follow = if subject.follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let source = match held(subject.source.open(OFlags::PATH | no_follow, 0)) {
            Ok((inode, source)) if inode.is_same_file_as(&subject.inode) => source,
            Ok(_) => return Err(self.worker.report.fail(Error::new(What::ReplacedWhileCopied, subject.source.path))),
            // `-sf` has just replaced a link by one to itself, as cp does: nothing is left to keep attributes of.
            Err(Errno::LOOP) if self.cx.plan.link == LinkMode::Symbolic => return Ok(id),
            Err(errno) => {
                return Err(self.worker.report.fail(Error::new(What::CannotStat, subject.source.path).errno(errno)));
            }
        };
        let kept = self.cx.attributes().set(
            &Keep {
                source: Object { fd: source.as_fd(), path_only: true },
                source_inode: &subject.inode,
                source_path: subject.source.path,
                dest: Object { fd: dest.1.as_fd(), path_only: true },
                dest_inode: &dest.0,
                dest_path: subject.dest.path,
                created,
                entries,
            },
            &mut self.worker.report,
        );
        if kept { Ok(id) } else { Err(Reported) }
    }
}

fn held(opened: Result<OwnedFd, Errno>) -> Result<(Inode, OwnedFd), Errno> {
    let fd = opened?;
    Ok((Inode::of(fd.as_fd())?, fd))
}

/// Whether the destination's directory is the current one: only there a relative link leads where the source path does.
fn in_current_directory(dest: Spot<'_>) -> bool {
    let path = dest.path.as_os_str().as_bytes();
    !path.contains(&b'/') || same_as_current(dest)
}

/// True also where it cannot be told: making the link will say why.
fn same_as_current(dest: Spot<'_>) -> bool {
    let current = Inode::at(CWD, OsStr::new("."));
    match (crate::walk::directory_id(dest), current) {
        (Some(dir), Ok(current)) => dir == current.id,
        _ => true,
    }
}
