//! Which directories of an existing destination several threads may meet in any order.
//!
//! One thread finds out, once another has nothing to do, while the first goes on alone. Until it is known, and where it cannot be
//! known, only directories that the run made are shared.

use std::collections::HashSet;

use haul_sys::inode::FileId;
use parking_lot::RwLock;

/// How often somebody finds out for one operand: who has to stop begins anew.
const TRIES: u32 = 3;

/// What is known of the destination of the operand that is being copied.
#[derive(Default)]
pub(crate) struct Order(RwLock<State>);

enum State {
    /// So many have stopped before they knew.
    Unasked(u32),
    /// A thread finds out.
    Asked(u32),
    /// `None`: it cannot be known.
    Known(Option<Found>),
}

impl Default for State {
    fn default() -> State {
        State::Unasked(0)
    }
}

/// What stands at a destination.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Directories in which, or below which, something is written that may have another name in the tree.
    pub ordered: HashSet<FileId>,
    /// There is something besides directories.
    pub files: bool,
}

impl Order {
    /// Another operand comes.
    pub fn forget(&self) {
        *self.0.write() = State::default();
    }

    /// Whether the caller is the one to find out.
    pub fn ask(&self) -> bool {
        let may_ask = |state: &State| matches!(state, State::Unasked(tries) if *tries < TRIES);
        // Who has names to share comes here between any two of them.
        if !may_ask(&self.0.read()) {
            return false;
        }
        let mut state = self.0.write();
        let State::Unasked(tries) = *state else { return false };
        *state = State::Asked(tries + 1);
        true
    }

    /// Who is finding out stops, since somebody waits until nothing is in other hands. What is known stays known.
    pub fn take_back(&self) {
        let mut state = self.0.write();
        if let State::Asked(tries) = *state {
            *state = State::Unasked(tries);
        }
    }

    /// Whether who was asked has to go on.
    pub fn is_wanted(&self) -> bool {
        matches!(*self.0.read(), State::Asked(_))
    }

    /// What was found out, if that is still wanted.
    pub fn tell(&self, found: Option<Found>) {
        let mut state = self.0.write();
        if matches!(*state, State::Asked(_)) {
            *state = State::Known(found);
        }
    }

    /// Whether the names in an existing directory may be shared.
    pub fn may_share(&self, dir: FileId) -> bool {
        matches!(&*self.0.read(), State::Known(Some(found)) if !found.ordered.contains(&dir))
    }

    /// Whether several threads may meet existing directories.
    pub fn is_known(&self) -> bool {
        matches!(&*self.0.read(), State::Known(Some(_)))
    }

    /// Whether several threads may meet existing files.
    pub fn several_meet_files(&self) -> bool {
        matches!(&*self.0.read(), State::Known(Some(found)) if found.files)
    }
}

#[cfg(test)]
mod tests {
    use haul_sys::inode::DeviceNumber;

    use super::*;

    fn dir(inode: u64) -> FileId {
        FileId::new(DeviceNumber { major: 8, minor: 1 }, inode)
    }

    #[test]
    fn one_thread_finds_out_and_only_then_existing_directories_are_shared() {
        let order = Order::default();
        assert!(order.ask() && !order.ask());
        assert!(order.is_wanted() && !order.may_share(dir(1)));
        order.tell(Some(Found { ordered: HashSet::from([dir(2)]), files: true }));
        assert!(order.may_share(dir(1)) && !order.may_share(dir(2)));
        assert!(order.is_known() && order.several_meet_files() && !order.ask());
    }

    #[test]
    fn where_it_cannot_be_known_nothing_is_shared() {
        let order = Order::default();
        order.ask();
        order.tell(None);
        assert!(!order.may_share(dir(1)) && !order.is_known() && !order.ask());
    }

    #[test]
    fn who_finds_out_stops_for_somebody_who_waits_and_not_for_ever() {
        let order = Order::default();
        for _ in 0..TRIES {
            assert!(order.ask());
            order.take_back();
            assert!(!order.is_wanted());
        }
        assert!(!order.ask());
        order.forget();
        assert!(order.ask());
        order.tell(Some(Found::default()));
        order.take_back();
        assert!(order.is_known());
    }

    #[test]
    fn what_was_found_of_another_operand_is_not_kept() {
        let order = Order::default();
        order.ask();
        order.forget();
        order.tell(Some(Found::default()));
        assert!(!order.is_wanted() && !order.is_known() && order.ask());
    }
}
