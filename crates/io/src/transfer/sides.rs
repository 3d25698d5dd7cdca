//! The two open files as engines see them.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use haul_sys::inode::Inode;
use haul_sys::kernel::{Kernel, Linux};

use crate::engine::{DirectAlign, Side};

use crate::strategy::{DataFacts, Steps};

/// One side, with the alignment that O_DIRECT needs there.
pub fn side(fd: &Arc<OwnedFd>, inode: &Inode, seekable: bool) -> Side {
    Side { direct: direct_align(inode), ..Side::new(Arc::clone(fd), seekable) }
}

/// What O_DIRECT needs of a file; `None` where the kernel does not say.
pub fn direct_align(inode: &Inode) -> Option<DirectAlign> {
    let (memory, offset) = inode.direct;
    (memory > 0 && offset > 0).then_some(DirectAlign { memory, offset })
}

/// Gives each side an open file of its own for direct I/O, where an engine will want it and several may be at work. Where
/// that is not possible (a new file whose mode forbids to write it, no /proc) they turn a flag, and there is one.
pub fn open_for_direct(source: &mut Side, dest: &mut Side, steps: &Steps, facts: &DataFacts) {
    if facts.around.is_none() {
        return;
    }
    let wanted = |of: fn((bool, bool)) -> bool| steps.engines.iter().any(|name| of(name.caps().direct_files()));
    let give = |side: &mut Side| {
        if side.direct.is_some() && side.seekable {
            side.direct_fd = Linux.reopen_direct(side.as_fd()).ok().map(Arc::new);
        }
    };
    if wanted(|(source, _)| source) {
        give(source);
    }
    if wanted(|(_, dest)| dest) {
        give(dest);
    }
}
