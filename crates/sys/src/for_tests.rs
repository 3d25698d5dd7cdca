//! What tests do to processes and filesystems, and what containers and other programs would do to ours.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::syscall::outcome;

/// Starts the command with the default action for every signal and with none blocked, whatever this process ignores: under
/// nohup(1), and in the background of a shell without job control, tests inherit signals that are ignored. The kernel kills
/// the process when the thread that started it ends.
pub fn start_fresh(command: &mut Command) -> &mut Command {
    let prepare = || {
        for signal in 1..=libc::SIGRTMAX() {
            // SAFETY: SIG_DFL is no function, so nothing of this process can be called. What cannot be set gives EINVAL:
            // SIGKILL and SIGSTOP always have their default actions, and 32 and 33 are the C library's own.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        // SAFETY: all-zero is a valid signal set, and sigemptyset makes it an empty one.
        let mut none: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set lives on this stack, and the null pointer says that the old mask is not wanted.
        let unblocked = unsafe {
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut())
        };
        // SAFETY: plain numbers are passed.
        let bound = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        if unblocked == 0 && bound == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec the closure makes system calls that are async-signal-safe, and neither allocates nor
    // takes a lock.
    unsafe { command.pre_exec(prepare) }
}

/// Gives the calling thread its own copy of the mounts (and with it its own current directory, root and umask).
///
/// Threads and processes started by this thread afterwards share them. Unlike most attributes of a process this one
/// belongs to a single thread, so other threads go on with the old mounts.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN, and what else unshare(2) says.
pub fn unshare_mounts() -> Result<(), Errno> {
    // SAFETY: unshare is unsafe because CLONE_FILES would pull descriptors from under other threads. CLONE_NEWNS
    // (which brings CLONE_FS along) leaves the descriptor table shared and touches no memory.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }
}

/// The kernel declares it as one that is read from, and reads its argument all the same.
const SHUTDOWN: Opcode = opcode::read::<u32>(b'X', 125);

/// Do not even write what the journal has collected.
const NO_LOG_FLUSH: u32 = 2;

/// Cuts the power of the filesystem that this descriptor is on, for as long as it is mounted: what is not on its device now
/// never gets there, and every access fails. Mounted again, it is as after a power cut, but for what a device has in a
/// cache of its own.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN; ENOTTY where the filesystem has no such switch (ext4, XFS and F2FS have one).
pub fn cut_power(on: &impl AsFd) -> Result<(), Errno> {
    // SAFETY: the argument of this request is a pointer to a 32-bit number, which lives until the call returns.
    unsafe { ioctl(on, Setter::<SHUTDOWN, u32>::new(NO_LOG_FLUSH)) }
}

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

/// As the kernel has it.
const F_SETSIG: libc::c_int = 10;

/// Takes a read lease, which is granted only while nobody has the file open for writing. It ends with the descriptor. Who breaks it
/// causes SIGURG, which by itself has no effect.
///
/// # Errors
/// EAGAIN if somebody has; EACCES without CAP_LEASE for a file of somebody else.
pub fn take_read_lease(file: &impl AsFd) -> Result<(), Errno> {
    let set = |command, value: libc::c_int| {
        // SAFETY: the descriptor is borrowed, so it is open, and plain numbers are passed.
        outcome(unsafe { libc::fcntl(file.as_fd().as_raw_fd(), command, value) }.into())
    };
    set(F_SETSIG, libc::SIGURG).and_then(|()| set(libc::F_SETLEASE, libc::F_RDLCK))
}

/// io_uring_setup(2), for [`forbid`].
pub const IO_URING_SETUP: libc::c_long = libc::SYS_io_uring_setup;
