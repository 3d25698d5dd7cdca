//! What a container or another program would do to us, for tests.

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

use crate::syscall::outcome;

/// Forbids a system call to the calling thread and all that it starts, for good: it gives EPERM, as in a container.
///
/// # Errors
/// What prctl(2) says: EINVAL where the kernel has no seccomp filters.
pub fn forbid(call: libc::c_long) -> Result<(), Errno> {
    let call = u32::try_from(call).map_err(|_| Errno::INVAL)?;
    let statement = |code: u32, k: u32, jt, jf| libc::sock_filter { code: code as u16, jt, jf, k };
    // The number of the call is the first word that a filter sees.
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call, 0, 1),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0, 0),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: plain numbers are passed.
    outcome(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())?;
    // SAFETY: the program and its statements live until the kernel has copied them, which is when the call returns.
    outcome(unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) }.into())
}

/// Takes a read lease, which is granted only while nobody has the file open for writing. It ends with the descriptor.
///
/// # Errors
/// EAGAIN if somebody has; EACCES without CAP_LEASE for a file of somebody else.
pub fn take_read_lease(file: &impl AsFd) -> Result<(), Errno> {
    // SAFETY: the descriptor is borrowed, so it is open, and plain numbers are passed.
    outcome(unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) }.into())
}

/// io_uring_setup(2), for [`forbid`].
pub const IO_URING_SETUP: libc::c_long = libc::SYS_io_uring_setup;
