//! Who copies.

use crate::error::{Error, What};

/// Who copies: facts about this process that decide what the kernel lets it do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// The effective user ID.
    pub user: u32,
    /// The effective group ID.
    pub group: u32,
    /// The umask: of its bits, those of permissions.
    pub umask: u32,
    /// SELinux is enabled: `/sys/fs/selinux` is mounted.
    pub selinux: bool,
}

impl Caller {
    /// The calling thread, and those that it starts from now on. Nothing of the process is changed.
    ///
    /// # Errors
    /// [`What::UmaskUnknown`].
    pub fn this_thread() -> Result<Caller, Error> {
        use haul_sys::rustix::{fs, process};
        let status = "/proc/thread-self/status";
        Ok(Caller {
            user: process::geteuid().as_raw(),
            group: process::getegid().as_raw(),
            umask: haul_sys::umask().map_err(|errno| Error::new(What::UmaskUnknown, status).errno(errno))?,
            selinux: fs::access("/sys/fs/selinux/enforce", fs::Access::EXISTS).is_ok(),
        })
    }

    /// May give files away and write to what it does not own.
    #[inline]
    pub fn privileged(self) -> bool {
        self.user == 0
    }
}
