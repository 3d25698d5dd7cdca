//! Inode flags (`chattr`) and project IDs: kept only on request.

use haul_sys::Errno;
use haul_sys::inode::Kind;
use haul_sys::inode_flags::Project;
use haul_sys::object::Object;
use haul_sys::rustix::fs::IFlags;

use crate::error::{Error, What};

use super::request::{Report, Request};

/// Flags that decide how later data or entries are stored; on btrfs `C` can be set on an empty file only, on ext4 `F`
/// on an empty directory only.
const BEFORE_DATA: [(IFlags, char); 6] = [
    (IFlags::COMPRESSED, 'c'),
    (IFlags::from_bits_retain(0x400), 'm'),
    (IFlags::NOCOW, 'C'),
    (IFlags::from_bits_retain(0x0200_0000), 'x'),
    (IFlags::from_bits_retain(0x4000_0000), 'F'),
    (IFlags::TOPDIR, 'T'),
];

/// Flags that the data need not see; `S` and `D` would make the copy slow.
const AFTER_DATA: [(IFlags, char); 8] = [
    (IFlags::SECURE_REMOVAL, 's'),
    (IFlags::UNRM, 'u'),
    (IFlags::SYNC, 'S'),
    (IFlags::NODUMP, 'd'),
    (IFlags::NOATIME, 'A'),
    (IFlags::JOURNALING, 'j'),
    (IFlags::NOTAIL, 't'),
    (IFlags::DIRSYNC, 'D'),
];

/// Flags that forbid every other change.
const SEAL: [(IFlags, char); 2] = [(IFlags::APPEND, 'a'), (IFlags::IMMUTABLE, 'i')];

/// Sets what has to be there before the first byte or entry: project ID and the flags of `BEFORE_DATA`. False if
/// something could not be kept.
pub fn before_data(request: &Request<'_>, report: Report<'_>) -> bool {
    let project = !request.preserve.project || keep_project(request, report);
    let flags = !request.preserve.flags || keep_flags(request, &BEFORE_DATA, report);
    project && flags
}

/// The flags of [`AFTER_DATA`], then the seal unless that has to wait. What stood there before gets now what a new file or directory
/// got before its data, as far as the filesystem sets it there. False if something could not be kept.
pub fn after_data(request: &Request<'_>, report: Report<'_>) -> bool {
    let early = request.created || before_data(request, report);
    let late = !request.preserve.flags
        || keep_flags(request, &AFTER_DATA, report) && (request.seal_later || keep_flags(request, &SEAL, report));
    early && late
}

/// Sets the flags immutable and append-only that [`super::finish`] left out. False if they could not be kept.
pub fn seal(request: &Request<'_>, report: Report<'_>) -> bool {
    !request.preserve.flags || keep_flags(request, &SEAL, report)
}

/// Whether the flags and the project ID that [`after_data`] sets are there already.
pub(super) fn stand(request: &Request<'_>) -> bool {
    let [source, dest] = [request.source.object, request.dest.object];
    (!request.preserve.flags || flags_stand(source, dest)) && (!request.preserve.project || project_stands(request))
}

fn flags_stand(source: Object<'_>, dest: Object<'_>) -> bool {
    let all = BEFORE_DATA.iter().chain(&AFTER_DATA).chain(&SEAL);
    let mask = all.fold(0, |mask, (flag, _)| mask | flag.bits());
    let flags_of = |object: Object<'_>| match object.inode_flags() {
        Err(errno) if has_none(errno) => Ok(0),
        flags => flags.map(|flags| flags & mask),
    };
    flags_of(source).is_ok_and(|wanted| flags_of(dest) == Ok(wanted))
}

fn project_stands(request: &Request<'_>) -> bool {
    let project_of = |object: Object<'_>| match object.project() {
        Err(errno) if has_none(errno) => Ok(Project::default()),
        project => project,
    };
    project_of(request.source.object)
        .is_ok_and(|project| project_of(request.dest.object) == Ok(wanted(request, project)))
}

/// Only directories hand their project ID on.
fn wanted(request: &Request<'_>, project: Project) -> Project {
    Project { inherited: project.inherited && request.dest.inode.kind == Kind::Directory, ..project }
}

/// The filesystem, or this kind of file on it, has no such attributes.
fn has_none(errno: Errno) -> bool {
    matches!(errno, Errno::NOTTY | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::BADF | Errno::NOENT)
}

fn keep_flags(request: &Request<'_>, kept: &[(IFlags, char)], report: Report<'_>) -> bool {
    if request.links_to_source() {
        return true;
    }
    let (source, dest) = (request.source, request.dest);
    let mask = kept.iter().fold(0, |mask, (flag, _)| mask | flag.bits());
    let wanted = match source.object.inode_flags() {
        Ok(flags) => flags & mask,
        Err(errno) if has_none(errno) => return true,
        Err(errno) => return complain(request, What::PreservingFlags, "", errno, report),
    };
    let current = match dest.object.inode_flags() {
        Ok(flags) => flags,
        Err(errno) if wanted == 0 && has_none(errno) => return true,
        Err(errno) => return complain(request, What::PreservingFlags, &letters(kept, wanted), errno, report),
    };
    let refused = set_flags(dest.object, current, current & !mask | wanted, kept);
    let Some(&(_, errno)) = refused.first() else { return true };
    let bits = refused.iter().fold(0, |bits, (flag, _)| bits | flag.bits());
    complain(request, What::PreservingFlags, &letters(kept, bits), errno, report)
}

/// Sets all flags, else each one that differs for itself; gives back those that the filesystem does not take.
fn set_flags(object: Object<'_>, current: u32, wanted: u32, kept: &[(IFlags, char)]) -> Vec<(IFlags, Errno)> {
    if current == wanted || object.set_inode_flags(wanted).is_ok() && object.inode_flags() == Ok(wanted) {
        return Vec::new();
    }
    let mut refused = Vec::new();
    for &(flag, _) in kept {
        let bit = flag.bits();
        let result = object.inode_flags().and_then(|now| {
            let target = now & !bit | wanted & bit;
            if now == target {
                return Ok(());
            }
            object.set_inode_flags(target)?;
            // Some filesystems drop without a word what they do not know.
            if object.inode_flags()? & bit == wanted & bit { Ok(()) } else { Err(Errno::OPNOTSUPP) }
        });
        if let Err(errno) = result {
            refused.push((flag, errno));
        }
    }
    refused
}

fn keep_project(request: &Request<'_>, report: Report<'_>) -> bool {
    if request.links_to_source() {
        return true;
    }
    let (source, dest) = (request.source, request.dest);
    let wanted = match source.object.project() {
        Ok(project) => wanted(request, project),
        Err(errno) if has_none(errno) => return true,
        Err(errno) => return complain(request, What::PreservingProject, "", errno, report),
    };
    let result = dest
        .object
        .project()
        .and_then(|current| if current == wanted { Ok(()) } else { dest.object.set_project(wanted) });
    match result {
        Ok(()) => true,
        Err(errno) if has_none(errno) && wanted == Project::default() => true,
        Err(errno) => complain(request, What::PreservingProject, "", errno, report),
    }
}

/// Says what could not be kept. It was asked for, so the copy failed: false.
fn complain(request: &Request<'_>, what: What, detail: &str, errno: Errno, report: Report<'_>) -> bool {
    report(Error::new(what, request.dest.path).detail(detail).errno(errno));
    false
}

fn letters(kept: &[(IFlags, char)], bits: u32) -> String {
    kept.iter().filter(|(flag, _)| bits & flag.bits() != 0).map(|(_, letter)| *letter).collect()
}
