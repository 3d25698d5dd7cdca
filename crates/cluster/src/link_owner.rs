//! Files of several names: one process owns each, and says who makes the copy.
//!
//! The link owner of a source file is found by a hash of its identity, so the tables of all processes together are one large
//! one, and none of them has to hold it all. A link owner knows which process has made a file, and that one knows where.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};

use haul_fs::links::pages::{Key, Pages, Record};
use haul_sys::Errno;

use crate::messages::{LinkOwner, Message};

/// Pages of 4 KiB in memory: 16 MiB, enough for some 250,000 files; the others are in a nameless file.
const PAGES_IN_MEMORY: usize = 4096;

pub struct OwnedLinks {
    /// Which process has made it, by source file.
    pub made: Pages,
    /// What is being made, by whom, and who waits for it. Each thread of the job makes or waits for one file at most.
    pending: HashMap<Key, Pending>,
    /// Where pages go that are not in memory.
    pub room: Option<OwnedFd>,
    /// The pages are not to be trusted any more, and why.
    broken: Option<Errno>,
}

struct Pending {
    by: usize,
    waiting: VecDeque<(usize, u64)>,
}

impl OwnedLinks {
    pub fn new() -> OwnedLinks {
        OwnedLinks { made: Pages::new(PAGES_IN_MEMORY), pending: HashMap::new(), room: None, broken: None }
    }

    /// A name of this file was met. The answer, and to whom, unless that has to wait.
    pub fn claim(&mut self, key: Key, from: usize, token: u64) -> Option<(usize, Message)> {
        if let Some(pending) = self.pending.get_mut(&key) {
            pending.waiting.push_back((from, token));
            return None;
        }
        let answer = match self.broken.map_or_else(|| self.made.get(&key), Err) {
            Ok(Some(record)) => LinkOwner::Rank(record.dir),
            Ok(None) => {
                self.pending.insert(key, Pending { by: from, waiting: VecDeque::new() });
                LinkOwner::You
            }
            Err(errno) => self.is_broken(errno),
        };
        Some((from, Message::Claimed { token, answer }))
    }

    /// What was claimed was made, or was not: then the next one makes it.
    pub fn settle(&mut self, key: Key, from: usize, made: bool) -> Vec<(usize, Message)> {
        let Some(mut pending) = self.pending.remove(&key).filter(|pending| pending.by == from) else {
            return Vec::new();
        };
        if !made {
            let Some((next, token)) = pending.waiting.pop_front() else { return Vec::new() };
            self.pending.insert(key, Pending { by: next, ..pending });
            return vec![(next, Message::Claimed { token, answer: LinkOwner::You })];
        }
        // There are fewer processes than that.
        let rank = u32::try_from(from).unwrap_or(u32::MAX);
        let record = Record { key, dir: rank, name: "".into(), id: None };
        let stored = match (&self.room, self.broken) {
            (_, Some(errno)) => Err(errno),
            (Some(room), None) => self.made.put(&record, room.as_fd()),
            (None, None) => Err(Errno::NOENT),
        };
        let answer = match stored {
            Ok(()) => LinkOwner::Rank(rank),
            Err(errno) => self.is_broken(errno),
        };
        pending.waiting.into_iter().map(|(to, token)| (to, Message::Claimed { token, answer })).collect()
    }

    fn is_broken(&mut self, errno: Errno) -> LinkOwner {
        self.broken = Some(errno);
        LinkOwner::Broken(errno.raw_os_error())
    }
}

#[cfg(test)]
mod tests {
    use haul_fs::links::pages::KEY;
    use haul_sys::rustix::fs::{CWD, Mode, OFlags, openat};

    use super::*;

    const FILE: Key = [7; KEY];

    fn owned() -> OwnedLinks {
        let room = openat(CWD, "/tmp", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        OwnedLinks { room: Some(room), ..OwnedLinks::new() }
    }

    fn answer(answers: &[(usize, Message)]) -> Vec<(usize, LinkOwner)> {
        let of = |message: &Message| match message {
            Message::Claimed { answer, .. } => *answer,
            other => panic!("{other:?}"),
        };
        answers.iter().map(|(to, message)| (*to, of(message))).collect()
    }

    #[test]
    fn the_first_who_claims_a_file_makes_it_and_the_others_hear_who_did() {
        let mut links = owned();
        let first = links.claim(FILE, 3, 1).unwrap();
        assert_eq!(answer(&[first]), [(3, LinkOwner::You)]);
        assert!(links.claim(FILE, 4, 2).is_none() && links.claim(FILE, 0, 3).is_none());
        assert_eq!(answer(&links.settle(FILE, 3, true)), [(4, LinkOwner::Rank(3)), (0, LinkOwner::Rank(3))]);
        let later = links.claim(FILE, 5, 9).unwrap();
        assert_eq!(answer(&[later]), [(5, LinkOwner::Rank(3))]);
    }

    #[test]
    fn what_one_could_not_make_the_next_one_makes() {
        let mut links = owned();
        links.claim(FILE, 1, 1).unwrap();
        links.claim(FILE, 2, 2);
        links.claim(FILE, 3, 3);
        assert_eq!(answer(&links.settle(FILE, 1, false)), [(2, LinkOwner::You)]);
        assert_eq!(answer(&links.settle(FILE, 2, true)), [(3, LinkOwner::Rank(2))]);
    }

    #[test]
    fn only_who_makes_a_file_can_say_that_it_is_made() {
        let mut links = owned();
        links.claim(FILE, 1, 1).unwrap();
        links.claim(FILE, 2, 2);
        assert!(links.settle([8; KEY], 1, true).is_empty());
    }
}
