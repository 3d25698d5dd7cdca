//! What the process gets from outside besides its arguments.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use haul_copy::images;
use haul_sys::filesystem::FilesystemType;
use haul_sys::rustix::fs::statfs;

/// A security module that labels files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Security {
    /// None.
    None,
    /// SELinux.
    Selinux,
    /// SMACK.
    Smack,
}

impl Security {
    /// The one that this machine runs.
    pub(crate) fn of_machine() -> Security {
        let mounted = |path: &str, kind| statfs(path).is_ok_and(|found| FilesystemType::from(&found) == kind);
        if mounted("/sys/fs/selinux", FilesystemType::SELINUX) && Path::new("/etc/selinux/config").exists() {
            Security::Selinux
        } else if mounted("/sys/fs/smackfs", FilesystemType::SMACK) {
            Security::Smack
        } else {
            Security::None
        }
    }
}

/// Environment variables that options depend on, and the security module.
#[derive(Debug, Clone)]
pub struct Environment {
    /// POSIXLY_CORRECT is set.
    pub posixly_correct: bool,
    /// VERSION_CONTROL.
    pub version_control: Option<OsString>,
    /// SIMPLE_BACKUP_SUFFIX.
    pub backup_suffix: Option<OsString>,
    /// The security module; asked for only when an option needs it.
    pub security: fn() -> Security,
    /// Where libvirt saves the user's machines; asked for only when an option needs it.
    pub saved_machines: fn() -> Vec<PathBuf>,
}

impl Environment {
    /// That of this process.
    pub fn of_process() -> Environment {
        Environment {
            posixly_correct: env::var_os("POSIXLY_CORRECT").is_some(),
            version_control: env::var_os("VERSION_CONTROL"),
            backup_suffix: env::var_os("SIMPLE_BACKUP_SUFFIX"),
            security: Security::of_machine,
            saved_machines,
        }
    }
}

/// Where libvirt saves the machines of the user's session, by HOME and XDG_CONFIG_HOME.
pub fn saved_machines() -> Vec<PathBuf> {
    images::saved_machines(env::var_os("HOME"), env::var_os("XDG_CONFIG_HOME"))
}
