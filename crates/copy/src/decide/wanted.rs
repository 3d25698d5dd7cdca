//! Which entries of the sources are wanted: one answer for what copies them, lists them, compares them and counts them.
//! What compares and what counts ask only for the contents of directories: they have nothing that is left out.

use haul_sys::inode::{DeviceNumber, FileId, Inode, Kind};

use crate::plan::Plan;

/// Which entries of the sources a plan wants.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    plan: &'a Plan,
    skip_files: &'a [FileId],
}

impl<'a> Wanted<'a> {
    /// `skip_files`: files that are not copied wherever they are met.
    #[must_use]
    pub fn new(plan: &'a Plan, skip_files: &'a [FileId]) -> Wanted<'a> {
        Wanted { plan, skip_files }
    }

    /// Whether a file or directory is copied if it is met.
    #[must_use]
    pub fn entry(self, inode: &Inode) -> bool {
        !self.skip_files.contains(&inode.id)
    }

    /// Whether an operand is copied; without `recursive` a directory is not.
    #[must_use]
    pub fn operand(self, inode: &Inode) -> bool {
        self.plan.recursive || inode.kind != Kind::Directory
    }

    /// Whether what is in a directory is copied. `above` is the filesystem of the directory that it was found in, if it is no
    /// operand: with `one_file_system` a mounted one stays empty.
    #[must_use]
    pub fn contents(self, directory: &Inode, above: Option<DeviceNumber>) -> bool {
        let foreign = || above.is_some_and(|above| above != directory.id.device());
        directory.kind == Kind::Directory && !(self.plan.one_file_system && foreign())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inode(device: u32, kind: Kind) -> Inode {
        let id = FileId::new(DeviceNumber { major: 8, minor: device }, 7);
        Inode { id, kind, ..Inode::just_made(id.device()) }
    }

    #[test]
    fn a_mounted_filesystem_is_wanted_unless_the_plan_stays_on_one() {
        let plan = |one_file_system| Plan { one_file_system, ..Plan::default() };
        let mounted = inode(2, Kind::Directory);
        let above = Some(inode(1, Kind::Directory).id.device());
        assert!(Wanted::new(&plan(false), &[]).contents(&mounted, above));
        assert!(!Wanted::new(&plan(true), &[]).contents(&mounted, above));
        assert!(Wanted::new(&plan(true), &[]).contents(&mounted, Some(mounted.id.device())));
        assert!(Wanted::new(&plan(true), &[]).contents(&mounted, None), "an operand may be a mount point");
        assert!(!Wanted::new(&plan(false), &[]).contents(&inode(1, Kind::Regular), above));
    }

    #[test]
    fn what_is_left_out_is_not_wanted_wherever_it_is_met() {
        let plan = Plan::default();
        let file = inode(1, Kind::Regular);
        assert!(Wanted::new(&plan, &[]).entry(&file));
        assert!(!Wanted::new(&plan, &[file.id]).entry(&file));
    }

    #[test]
    fn a_directory_is_no_operand_unless_the_plan_is_recursive() {
        let plan = |recursive| Plan { recursive, ..Plan::default() };
        assert!(!Wanted::new(&plan(false), &[]).operand(&inode(1, Kind::Directory)));
        assert!(Wanted::new(&plan(true), &[]).operand(&inode(1, Kind::Directory)));
        assert!(Wanted::new(&plan(false), &[]).operand(&inode(1, Kind::Fifo)));
    }
}
