//! A destination that is, or may be, like its source already (`--update=changed`, `--update=content`).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use haul_io::transfer::Comparison;
use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::OFlags;

use crate::attributes::{Keep, side};
use crate::context::{RunContext, Worker};
use crate::decide::Existing;
use crate::error::{Error, What};
use crate::file::open::{ignores_nonblock, noatime, open_at_once, open_without_waiting};
use crate::meta::NewEntries;
use crate::plan::Preserve;
use crate::walk::Spot;
use crate::work::entry::Subject;

/// Whether the two have the same bytes, or are symbolic links of the same text. What cannot be read is taken for different: the
/// copy will say why. None if the run was cancelled meanwhile.
pub(crate) fn has_same_contents(
    worker: &mut Worker<'_>,
    subject: &mut Subject<'_>,
    existing: &Existing,
) -> Option<bool> {
    if subject.inode.kind == Kind::SymbolicLink {
        let [text, found] = [subject.source.read_link(), subject.dest.read_link()];
        return Some(text.is_ok() && text == found);
    }
    let same = compare(worker, subject, existing).unwrap_or(false);
    (!worker.cx.cancelled()).then_some(same)
}

fn compare(worker: &mut Worker<'_>, subject: &mut Subject<'_>, existing: &Existing) -> Result<bool, Errno> {
    let cx = worker.cx;
    let open = |spot: Spot<'_>, follow, seen: &Inode| {
        let (file, inode) = checked(open_to_read(spot, no_follow(follow) | noatime(cx, seen), seen), seen)?;
        Ok((Arc::new(file), inode))
    };
    let (source, inode) = match subject.opened.take() {
        Some(opened) => (Arc::new(opened), subject.inode),
        None => open(subject.source, subject.follow(), &subject.inode)?,
    };
    let (copy, found) = open(subject.dest, leads_elsewhere(existing), &existing.target)?;
    let comparison = Comparison {
        files: [&source, &copy],
        inodes: [&inode, &found],
        pace: Some(&cx.session.pace),
        cache: cx.plan.data.cache,
        stop: &|| cx.cancelled(),
    };
    worker.buffers.fit(inode.size);
    let difference = comparison.first_difference(&mut worker.buffers);
    difference.map(|difference| difference.is_none()).map_err(|(_, errno)| errno)
}

fn open_to_read(spot: Spot<'_>, flags: OFlags, seen: &Inode) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | flags;
    if ignores_nonblock(seen) { open_at_once(spot, flags) } else { open_without_waiting(spot, flags) }
}

/// Gives a destination that is like its source the attributes that it lacks.
pub(crate) fn bring_up_to_date(worker: &mut Worker<'_>, subject: &Subject<'_>, existing: &Existing) {
    if_attributes_lack(worker, subject, existing, |worker, keep| {
        let set = worker.cx.attributes().set_of_file(keep, false, &mut worker.report);
        worker.deferred.extend(set.deferred);
    });
}

/// Whether it lacks any.
pub(crate) fn lacks_attributes(worker: &mut Worker<'_>, subject: &Subject<'_>, existing: &Existing) -> bool {
    if_attributes_lack(worker, subject, existing, |_, _| ()).is_some()
}

/// Calls this with both sides, open, if the destination lacks attributes. What is wrong with them is reported.
fn if_attributes_lack<T>(
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    existing: &Existing,
    act: impl FnOnce(&mut Worker<'_>, &Keep<'_>) -> T,
) -> Option<T> {
    if worker.cx.plan.preserve == Preserve::default() || stands_unopened(worker.cx, subject, existing) {
        return None;
    }
    let flags = worker.cx.plan.preserve.flags || worker.cx.plan.preserve.project;
    let open = |spot: Spot<'_>, follow, seen: &Inode| {
        // By ioctl(2), which takes no O_PATH. file_getattr(2) does, but not before 6.17, and does not have all flags.
        let opened =
            if flags && seen.kind == Kind::Regular { open_to_read(spot, no_follow(follow), seen).ok() } else { None };
        let path_only = opened.is_none();
        let opened = opened.map_or_else(|| spot.open(OFlags::PATH | no_follow(follow), 0), Ok);
        checked(opened, seen).map(|(file, inode)| (file, path_only, inode))
    };
    let mut hold = |spot: Spot<'_>, follow, seen| match open(spot, follow, seen) {
        Err(Errno::STALE) => Err(worker.report.fail(Error::new(What::ReplacedWhileCopied, spot.path))),
        opened => worker.report.check(opened, What::CannotStat, spot.path),
    };
    let (source, source_path_only, _) = hold(subject.source, subject.follow(), &subject.inode).ok()?;
    let (copy, path_only, found) = hold(subject.dest, leads_elsewhere(existing), &existing.target).ok()?;
    let keep = Keep {
        source: side(&source, source_path_only, &subject.inode, subject.source.path),
        dest: side(&copy, path_only, &found, subject.dest.path),
        created: false,
        entries: NewEntries::UNKNOWN,
    };
    (!worker.cx.attributes().stand(&keep, &found)).then(|| act(worker, &keep))
}

/// Whether nothing is lacking, by what was seen of both and by their names alone.
fn stands_unopened(cx: RunContext<'_>, subject: &Subject<'_>, existing: &Existing) -> bool {
    let (source, dest) = (subject.source, subject.dest);
    let (Ok(from), Ok(to), Some(above)) = (source.dir(), dest.dir(), subject.level.ancestors.last()) else {
        return false;
    };
    let same_filesystems = above.devices() == [subject.inode.id.device(), existing.target.id.device()];
    if subject.follow() || leads_elsewhere(existing) || !same_filesystems {
        return false;
    }
    let keep = Keep {
        source: side(&from, true, &subject.inode, source.path),
        dest: side(&to, true, &existing.target, dest.path),
        created: false,
        entries: NewEntries::UNKNOWN,
    };
    cx.attributes().stand_unopened(&keep, [source.name, dest.name])
}

/// The copy is what a symbolic link leads to.
fn leads_elsewhere(existing: &Existing) -> bool {
    existing.entry.id != existing.target.id
}

fn no_follow(follow: bool) -> OFlags {
    if follow { OFlags::empty() } else { OFlags::NOFOLLOW }
}

/// What was opened, if it is what was seen; ESTALE if it is another file.
fn checked(opened: Result<OwnedFd, Errno>, seen: &Inode) -> Result<(OwnedFd, Inode), Errno> {
    let file = opened?;
    let inode = Inode::of(file.as_fd())?;
    if inode.is_same_file_as(seen) { Ok((file, inode)) } else { Err(Errno::STALE) }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use haul_io::strategy::SMALL;
    use haul_sys::rustix::fs::fcntl_getfl;
    use haul_testbed::temp_dir;

    use super::*;

    #[test]
    fn a_large_file_is_compared_by_reads_that_wait() {
        let dir = temp_dir();
        File::create(dir.path().join("large")).and_then(|file| file.set_len(SMALL)).unwrap();
        let parent = File::open(dir.path()).unwrap();
        let spot = Spot::new(parent.as_fd(), "large".as_ref(), "large".as_ref());
        let file = open_to_read(spot, OFlags::NOFOLLOW, &spot.inode().unwrap()).unwrap();
        assert!(!fcntl_getfl(&file).unwrap().contains(OFlags::NONBLOCK));
    }
}
