//! The names of two directories that belong together, one after the other.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::path::Path;

use haul_io::transfer::Buffers;
use haul_sys::Errno;
use haul_sys::inode::{DeviceNumber, Inode, Kind};

use crate::decide::Wanted;
use crate::plan::Dereference;
use crate::walk::Spot;

use super::entry::{self, Outcome, Rules};

/// Bytes that one thread reads of a batch while others may have nothing to do: some 50 ms of a quick device.
const SHARE: u64 = 64 << 20;

/// Two directories, and what is to be done there.
pub(super) struct Work<'a> {
    pub(super) rules: &'a Rules<'a>,
    pub(super) source: (BorrowedFd<'a>, &'a Path),
    pub(super) copy: (BorrowedFd<'a>, &'a Path),
    /// The path of the source directory below its operand.
    pub(super) below: &'a Path,
    /// Names of the copy, of which only those count that the source lacks.
    pub(super) of_copy: bool,
    /// Names that lead to other filesystems than these are left alone, and directories: something may be mounted there.
    pub(super) only_on: Option<(DeviceNumber, DeviceNumber)>,
}

/// What is reported of a name, by its position among the names.
pub(super) enum Word {
    /// The names from here on are not looked at: somebody else may begin with them at once.
    RestFrom(usize),
    /// It is none of those that were to be looked at here.
    Elsewhere(usize),
    Found(usize, Outcome),
}

impl Work<'_> {
    /// Compares what has these names on both sides. Of names that the source has, too, nothing is reported if they are of the
    /// copy. Asked to stop, it leaves the others out.
    pub(super) fn go_through(&self, names: &[&OsStr], buffers: &mut Buffers, report: &mut dyn FnMut(Word)) {
        let (mut end, mut read) = (names.len(), 0_u64);
        for (at, name) in names.iter().enumerate() {
            if at >= end || (self.rules.stop)() {
                return;
            }
            let paths = (self.source.1.join(name), self.copy.1.join(name));
            let spots = (Spot::new(self.source.0, name, &paths.0), Spot::new(self.copy.0, name, &paths.1));
            match self.is_reported_with_the_source(spots.0) {
                Ok(false) => {}
                Ok(true) => continue,
                // It must not be taken for a name that the source has, nor for one that it lacks.
                Err(_) if self.only_on.is_some() => {
                    report(Word::Elsewhere(at));
                    continue;
                }
                Err(errno) => {
                    let outcome = Outcome::failed(spots.0.path, errno);
                    report(Word::Found(at, outcome));
                    continue;
                }
            }
            if self.is_excluded(spots) {
                continue;
            }
            let outcome = match entry::inodes(self.rules, spots.0, spots.1) {
                Err(outcome) => outcome,
                Ok((one, other)) if self.is_elsewhere(&one, &other) => {
                    report(Word::Elsewhere(at));
                    continue;
                }
                Ok((one, other)) => {
                    read = read.saturating_add(self.bytes(&one, &other));
                    if read > SHARE && at + 1 < end {
                        end = at + 1;
                        report(Word::RestFrom(end));
                    }
                    entry::compare_both(self.rules, (spots.0, one), (spots.1, other), buffers)
                }
            };
            report(Word::Found(at, outcome));
        }
    }

    /// Whether a copy would leave the name alone.
    fn is_excluded(&self, (source, copy): (Spot<'_>, Spot<'_>)) -> bool {
        let plan = self.rules.plan;
        if plan.filter.is_none() && !plan.skip_offline {
            return false;
        }
        let follow = plan.dereference == Dereference::Always;
        let (wanted, path) = (Wanted::new(plan, &[]), || self.below.join(source.name));
        if self.of_copy {
            return match copy.inode_now(follow) {
                Ok(found) => !wanted.only_in_copy(found.kind, copy.name, path),
                Err(_) => wanted.unseen(copy.name, path).excluded,
            };
        }
        let leaves = |inode: &Inode| {
            wanted.below(inode, source.name, path).excluded || self.rules.leave_out(source, inode, follow)
        };
        match source.inode_now(follow) {
            Ok(inode) => leaves(&inode),
            Err(_) => wanted.unseen(source.name, path).excluded,
        }
    }

    /// Whether it is a name of the copy that the source has, too.
    fn is_reported_with_the_source(&self, source: Spot<'_>) -> Result<bool, Errno> {
        if !self.of_copy {
            return Ok(false);
        }
        match source.inode_now(false) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    fn is_elsewhere(&self, one: &Inode, other: &Inode) -> bool {
        let is_dir = one.kind == Kind::Directory || other.kind == Kind::Directory;
        self.only_on.is_some_and(|only| is_dir || only != (one.id.device(), other.id.device()))
    }

    /// What is going to be read of each side.
    fn bytes(&self, one: &Inode, other: &Inode) -> u64 {
        let both = one.kind == Kind::Regular && other.kind == Kind::Regular && one.size == other.size;
        if both && !self.rules.plan.attributes_only && one.id != other.id { one.size } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::sync::Arc;

    use haul_testbed::temp_dir;

    use super::*;
    use crate::meta::XattrRules;
    use crate::plan::Plan;

    /// What is reported of a name of the copy, where the source cannot be looked at.
    fn reports_of_extra(helps: bool) -> (usize, Vec<String>) {
        let dir = temp_dir();
        for name in ["no directory", "extra"] {
            std::fs::write(dir.path().join(name), name).unwrap();
        }
        let (plan, xattrs) = (Plan::default(), XattrRules::default());
        let (source, copy) = (File::open(dir.path().join("no directory")).unwrap(), File::open(dir.path()).unwrap());
        let device = Inode::of(copy.as_fd()).unwrap().id.device();
        let work = Work {
            rules: &Rules { plan: &plan, xattrs: &xattrs, stop: &|| false, offline: Arc::default() },
            source: (source.as_fd(), Path::new("source")),
            copy: (copy.as_fd(), Path::new("copy")),
            below: Path::new(""),
            of_copy: true,
            only_on: helps.then_some((device, device)),
        };
        let (mut elsewhere, mut problems) = (0, Vec::new());
        work.go_through(&[OsStr::new("extra")], &mut Buffers::new(), &mut |word| match word {
            Word::Elsewhere(_) => elsewhere += 1,
            Word::RestFrom(_) => panic!("nothing is read"),
            Word::Found(_, outcome) => problems.extend(outcome.problems.iter().map(ToString::to_string)),
        });
        (elsewhere, problems)
    }

    #[test]
    fn who_helps_does_not_say_of_a_source_that_it_cannot_look_at_that_it_has_a_name() {
        assert_eq!(reports_of_extra(true), (1, Vec::new()));
    }

    #[test]
    fn a_name_of_the_copy_for_which_the_source_cannot_be_asked_is_an_error() {
        let (elsewhere, problems) = reports_of_extra(false);
        assert!(elsewhere == 0 && problems.len() == 1 && problems[0].contains("source/extra"), "{problems:?}");
    }
}
