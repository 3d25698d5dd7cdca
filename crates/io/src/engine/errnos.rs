//! Which answers of the kernel mean "not supported here". All others are final: EIO, ENOSPC, EDQUOT and ENOMEM above all.

use haul_sys::Errno;

/// Said of every call that a filesystem, an old kernel or a sandbox may lack.
fn unsupported(errno: Errno) -> bool {
    // EPERM and EACCES come from seccomp filters and network filesystems (and from an immutable destination, where the
    // engine that goes on gets the same answer and reports it). ETXTBSY comes from swap files.
    matches!(
        errno,
        Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL | Errno::BADF | Errno::TXTBSY | Errno::PERM | Errno::ACCESS
    )
}

/// copy_file_range cannot do it here.
pub(super) fn refuses_offload(errno: Errno) -> bool {
    // EXDEV between filesystems (Linux 5.19 and later), EBADF for O_APPEND, ENOENT from CIFS servers.
    unsupported(errno) || matches!(errno, Errno::XDEV | Errno::NOENT | Errno::NOTTY)
}

/// FICLONE and FICLONERANGE cannot do it here.
pub(super) fn refuses_clone(errno: Errno) -> bool {
    // ENOTTY where no driver knows the ioctl; EAGAIN from OpenZFS for blocks that are not on disk yet.
    unsupported(errno) || matches!(errno, Errno::XDEV | Errno::NOTTY | Errno::AGAIN)
}

/// splice cannot do it here.
pub(super) fn refuses_splice(errno: Errno) -> bool {
    unsupported(errno)
}

/// mmap cannot do it here.
pub(super) fn refuses_map(errno: Errno) -> bool {
    // ENODEV for files that cannot be mapped, EOVERFLOW for offsets that do not fit.
    unsupported(errno) || matches!(errno, Errno::NODEV | Errno::OVERFLOW)
}

/// PUNCH_HOLE cannot do it here.
pub(super) fn refuses_hole(errno: Errno) -> bool {
    unsupported(errno) || matches!(errno, Errno::NODEV | Errno::SPIPE)
}
