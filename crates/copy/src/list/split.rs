//! Dividing a list among shards, and the order in which lists are compared and divided: it depends on what is in them and not
//! on who made them.
//!
//! The entries in that order are cut into units: runs of neighbours, of a thousandth or so of the work, that end
//! where a directory ends if they can. Names of one file are one piece in the unit of the first of them. The units are sorted
//! by bytes and dealt out in rounds of one for each shard; in each round the one with the most entries goes to the shard with
//! the fewest. Two shards differ in bytes by no more than the largest unit: what one round brings to their difference is at
//! most what the largest of it is above the smallest, and those differences add up to that of the first and the last. They
//! differ in entries by no more than the largest unit for another reason: who is ahead gets no more than who is behind.

use std::collections::HashMap;
use std::num::NonZero;
use std::os::unix::ffi::OsStrExt;

use haul_sys::inode::{FileId, Kind};

use super::file_list::{FileList, Index, Node, Operand};

/// The most entries of a unit, but for files with more names than that.
const MOST_IN_UNIT: u64 = 1000;
/// The most shards: a state file has a byte for each, and a split two numbers.
pub const MOST_SHARDS: u32 = 1 << 20;
/// How many units a shard gets at least, if there are as many entries.
const UNITS_FOR_EACH: u64 = 16;

/// One of several parts of a copy that are done by processes of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which one, from 0 on.
    index: u32,
    count: NonZero<u32>,
}

impl Shard {
    /// Number `number` of `count`, counted from 1; `None` if there is no such shard.
    pub fn new(number: u32, count: u32) -> Option<Shard> {
        let count = NonZero::new(count).filter(|count| count.get() <= MOST_SHARDS)?;
        let index = number.checked_sub(1).filter(|index| *index < count.get())?;
        Some(Shard { index, count })
    }

    /// Which one, from 0 on.
    pub fn index(self) -> u32 {
        self.index
    }

    /// How many there are.
    pub fn count(self) -> NonZero<u32> {
        self.count
    }
}

/// How much there is to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Entries of all kinds.
    pub entries: u64,
    /// Bytes of regular files, each once.
    pub bytes: u64,
}

/// Which shard each entry belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    shards: Vec<u32>,
    work: Vec<Work>,
    largest: Work,
    digest: [u8; 16],
}

impl Assignment {
    /// The shard of an entry, from 0 on.
    ///
    /// # Panics
    /// If the list had no such entry.
    pub(crate) fn shard_of(&self, at: Index) -> u32 {
        self.shards[at as usize]
    }

    /// What each shard has to do.
    pub fn work(&self) -> &[Work] {
        &self.work
    }

    /// The most entries and the most bytes of any unit: how far two shards are apart at most.
    pub fn largest_unit(&self) -> Work {
        self.largest
    }

    /// The same for two lists of the same files, unchanged, that are divided in the same way, and for no others.
    pub fn digest(&self) -> [u8; 16] {
        self.digest
    }
}

/// A run of entries that stay together.
#[derive(Clone, Copy)]
struct Unit {
    /// The first piece.
    start: usize,
    end: usize,
    work: Work,
}

/// What cannot be divided: one entry, or all names of a file.
struct Pieces {
    /// In canonical order; each begins with the first of its entries.
    firsts: Vec<Index>,
    /// The other names of files, by the first.
    others: HashMap<Index, Vec<Index>>,
}

/// Divides the list among so many shards. The result depends on the names, kinds and sizes in the list, on which names are
/// those of one file, and on the number; on nothing else. Its digest also depends on the times in the list.
pub fn split(list: &FileList, count: NonZero<u32>) -> Assignment {
    let order = canonical(list);
    let pieces = pieces(list, &order);
    let units = units(list, &pieces, count);
    let largest = units.iter().fold(Work::default(), |most, unit| Work {
        entries: most.entries.max(unit.work.entries),
        bytes: most.bytes.max(unit.work.bytes),
    });
    let (dealt, work) = deal(&units, count);
    let mut shards = vec![0; list.len()];
    for (unit, shard) in units.iter().zip(dealt) {
        for first in &pieces.firsts[unit.start..unit.end] {
            shards[*first as usize] = shard;
            for other in pieces.others.get(first).into_iter().flatten() {
                shards[*other as usize] = shard;
            }
        }
    }
    let digest = digest_of_split(list, &order, &shards, count);
    Assignment { shards, work, largest, digest }
}

fn pieces(list: &FileList, order: &[Index]) -> Pieces {
    let mut first_name: HashMap<FileId, Index> = HashMap::new();
    let mut pieces = Pieces { firsts: Vec::with_capacity(order.len()), others: HashMap::new() };
    for at in order {
        let entry = list.entry(*at);
        let first = match entry.id {
            Some(id) if entry.kind != Kind::Directory => *first_name.entry(id).or_insert(*at),
            _ => *at,
        };
        match first == *at {
            true => pieces.firsts.push(first),
            false => pieces.others.entry(first).or_default().push(*at),
        }
    }
    pieces
}

fn units(list: &FileList, pieces: &Pieces, count: NonZero<u32>) -> Vec<Unit> {
    let of_piece = |first: Index| {
        let entry = list.entry(first);
        let others = pieces.others.get(&first).map_or(0, |others| others.len() as u64);
        Work { entries: 1 + others, bytes: if entry.kind == Kind::Regular { entry.size } else { 0 } }
    };
    let bytes = pieces.firsts.iter().fold(0u64, |sum, first| sum.saturating_add(of_piece(*first).bytes));
    let wanted = UNITS_FOR_EACH * u64::from(count.get());
    let most = Work { entries: (list.len() as u64 / wanted).clamp(1, MOST_IN_UNIT), bytes: (bytes / wanted).max(1) };
    let mut units: Vec<Unit> = Vec::new();
    for (at, first) in pieces.firsts.iter().enumerate() {
        let work = of_piece(*first);
        let begins = list.kind(*first) == Kind::Directory;
        match units.last_mut() {
            Some(unit) if unit.takes(work, most, begins) => {
                unit.end = at + 1;
                unit.work = unit.work.and(work);
            }
            _ => units.push(Unit { start: at, end: at + 1, work }),
        }
    }
    units
}

fn digest_of_split(list: &FileList, order: &[Index], shards: &[u32], count: NonZero<u32>) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&count.get().to_le_bytes());
    let mut position = vec![0u32; order.len()];
    let mut record = Vec::with_capacity(256);
    for (number, at) in (0u32..).zip(order) {
        position[*at as usize] = number;
        let name = list.name(*at).as_bytes();
        record.clear();
        record.extend(position[list.entries[*at as usize].parent as usize].to_le_bytes());
        record.extend(shards[*at as usize].to_le_bytes());
        record.extend((name.len() as u64).to_le_bytes());
        record.push(u8::from(list.kind(*at) == Kind::Directory));
        record.extend(name);
        push_state(list, *at, &mut record);
        hasher.update(&record);
    }
    let mut digest = [0; 16];
    digest.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    digest
}

/// What tells one state of a file from another. The times of FIFOs, sockets and devices change by their use.
fn push_state(list: &FileList, at: Index, record: &mut Vec<u8>) {
    let node = &list.entries[at as usize];
    if !matches!(node.kind, Kind::Regular | Kind::Directory | Kind::SymbolicLink) {
        return;
    }
    record.extend(node.size.to_le_bytes());
    for time in [node.modified, node.changed] {
        record.extend(time.seconds.to_le_bytes());
        record.extend(time.nanoseconds.to_le_bytes());
    }
}

impl Unit {
    /// Whether a piece may be added. Half a unit ends where a directory begins.
    fn takes(&self, work: Work, most: Work, begins_directory: bool) -> bool {
        let sum = self.work.and(work);
        let fits = sum.entries <= most.entries && sum.bytes <= most.bytes;
        let half = self.work.entries * 2 >= most.entries || self.work.bytes >= most.bytes / 2 && self.work.bytes > 0;
        fits && !(begins_directory && half)
    }
}

impl Work {
    fn and(self, other: Work) -> Work {
        Work { entries: self.entries + other.entries, bytes: self.bytes.saturating_add(other.bytes) }
    }
}

/// Gives the units away; which shard each gets, and how much each has then.
fn deal(units: &[Unit], count: NonZero<u32>) -> (Vec<u32>, Vec<Work>) {
    let mut work = vec![Work::default(); count.get() as usize];
    let mut dealt = vec![0; units.len()];
    let mut by_bytes: Vec<usize> = (0..units.len()).collect();
    by_bytes.sort_unstable_by_key(|unit| (std::cmp::Reverse(units[*unit].work.bytes), *unit));
    let mut behind: Vec<u32> = (0..count.get()).collect();
    for round in by_bytes.chunks_mut(work.len()) {
        round.sort_unstable_by_key(|unit| {
            let work = units[*unit].work;
            (std::cmp::Reverse(work.entries), std::cmp::Reverse(work.bytes), *unit)
        });
        behind.sort_unstable_by_key(|shard| {
            let work = work[*shard as usize];
            (work.entries, work.bytes, *shard)
        });
        for (unit, shard) in round.iter().zip(&behind) {
            dealt[*unit] = *shard;
            let sum = &mut work[*shard as usize];
            *sum = sum.and(units[*unit].work);
        }
    }
    (dealt, work)
}

/// The entries in each directory, without one list for each.
struct Children {
    /// Where those of a directory begin; one more than there are entries.
    starts: Vec<Index>,
    all: Vec<Index>,
}

impl Children {
    fn of(list: &FileList) -> Children {
        let mut starts = vec![0; list.len() + 1];
        for at in 0..list.next_index() {
            if let Some(parent) = list.parent(at) {
                starts[parent as usize + 1] += 1;
            }
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut all = vec![0; starts.last().map_or(0, |count| *count as usize)];
        let mut next = starts.clone();
        for at in 0..list.next_index() {
            if let Some(parent) = list.parent(at) {
                let position = &mut next[parent as usize];
                all[*position as usize] = at;
                *position += 1;
            }
        }
        Children { starts, all }
    }

    fn in_directory_mut(&mut self, at: Index) -> &mut [Index] {
        &mut self.all[self.starts[at as usize] as usize..self.starts[at as usize + 1] as usize]
    }
}

/// Puts the entries of each directory in the order of their names, byte by byte, what is no directory before directories.
/// Two lists of one tree are the same then, in whichever order it was walked.
pub fn sort(list: &mut FileList) {
    let order = canonical(list);
    let mut position = vec![0; order.len()];
    for (new, old) in (0..).zip(&order) {
        position[*old as usize] = new;
    }
    let mut sorted = FileList::default();
    for old in &order {
        let node = list.entries[*old as usize];
        sorted.names.extend_from_slice(list.name(*old).as_bytes());
        let name_end = sorted.names.len() as u64;
        sorted.entries.push(Node { parent: position[node.parent as usize], name_end, ..node });
    }
    sorted.ids = list.ids.iter().map(|(old, id)| (position[*old as usize], *id)).collect();
    sorted.ids.sort_unstable_by_key(|(at, _)| *at);
    // Operands stay where they are, and so do the borders between them.
    sorted.operands = list.operands.iter().map(Operand::clone).collect();
    *list = sorted;
}

/// The numbers of all entries in that order.
fn canonical(list: &FileList) -> Vec<Index> {
    let mut children = Children::of(list);
    let mut order = Vec::with_capacity(list.len());
    let mut stack = Vec::new();
    for operand in list.operands.iter().filter(|operand| operand.end > operand.first) {
        stack.push(operand.first);
        while let Some(at) = stack.pop() {
            order.push(at);
            let inside = children.in_directory_mut(at);
            let is_directory = |at: Index| list.kind(at) == Kind::Directory;
            inside.sort_unstable_by(|a, b| {
                (is_directory(*a), list.name(*a).as_bytes(), a).cmp(&(is_directory(*b), list.name(*b).as_bytes(), b))
            });
            stack.extend(inside.iter().rev());
        }
    }
    order
}
