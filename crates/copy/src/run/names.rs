//! Other names of a file that was copied already: hard links.

use haul_sys::Errno;

use super::Run;
use super::entry::{Level, Subject, made_at};
use crate::error::{Error, What};
use crate::links::{Claim, Made, Source};

/// Files with fewer names than this are linked when the queue of names is emptied. NTFS allows 1,023 names, ext4 65,000:
/// whether one more is possible must be known while the source is at hand.
const MANY: u32 = 1000;

/// What came of giving a file another name.
pub(super) enum Linked {
    /// It has that name, or will get it with the others that wait.
    Done,
    /// It has not, which was reported.
    Failed,
    /// Its filesystem allows no more names of it. The source is claimed: what stands at the destination next is the file that
    /// other names are linked to from here on.
    Claimed,
}

impl Run<'_> {
    /// Makes the entry a name of what was made before for another name of the source.
    pub(super) fn link_to_earlier(&mut self, mut earlier: Made, subject: &Subject<'_>, level: &Level<'_>) -> Linked {
        loop {
            let linked = match self.cx.names_wait() && subject.inode.links < MANY {
                true => self.link_later(&earlier, subject),
                false => self.link_at_once(&earlier, subject, level),
            };
            let full = match linked {
                Ok(()) => return Linked::Done,
                Err(Errno::MLINK) => earlier,
                Err(errno) => {
                    let error = Error::new(What::CannotHardLink, subject.dest.path).and(earlier.path());
                    self.worker.report.problem(error.errno(errno));
                    return Linked::Failed;
                }
            };
            // Another thread may have begun another file by now.
            let forgotten = self.cx.services.links.forget_if(Source::from(&subject.inode), full.id);
            if self.table(forgotten, subject.source).is_none() {
                return Linked::Failed;
            }
            // Among peers each process begins a file of its own: the others hear only of the first one.
            let claim = level
                .dir
                .map(|dir| self.cx.services.links.claim((&subject.inode).into(), || made_at(dir, subject.dest)));
            match self.table(claim.unwrap_or(Err(Errno::STALE)), subject.source) {
                Some(Claim::Made(next)) => earlier = next,
                Some(Claim::First) => {
                    self.worker.report.warning(&Error::new(What::NoMoreLinks, full.path()).and(subject.dest.path));
                    return Linked::Claimed;
                }
                None => return Linked::Failed,
            }
        }
    }

    fn link_at_once(&mut self, made: &Made, subject: &Subject<'_>, level: &Level<'_>) -> Result<(), Errno> {
        let here = level.dir.map(|dir| dir.id);
        match self.link_now(made, subject.dest, here, subject.follow) {
            // What it is to be a name of may wait for its own.
            Err(Errno::NOENT | Errno::STALE) if self.cx.names_wait() => {
                self.give_names();
                self.link_now(made, subject.dest, here, subject.follow)
            }
            linked => linked,
        }
    }
}
