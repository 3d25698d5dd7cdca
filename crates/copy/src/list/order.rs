//! The order in which lists are compared and split: it depends on what is in them and not on who made them.

use std::os::unix::ffi::OsStrExt;

use haul_sys::inode::Kind;

use super::file_list::{FileList, Index, Node, Operand};

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
pub(super) fn canonical(list: &FileList) -> Vec<Index> {
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
