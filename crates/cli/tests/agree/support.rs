//! What the tests share.

use std::env;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The copier that is right by definition.
pub const REFERENCE: &str = "/bin/cp";

/// A directory for one test, reachable by every user.
pub fn room() -> TempDir {
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    tempfile::Builder::new().prefix("haul-agree-").permissions(permissions).tempdir().expect("a temporary directory")
}

/// The program under test.
pub fn haul() -> PathBuf {
    env::var_os("HAUL_UNDER_TEST").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_haul")), PathBuf::from)
}

/// The program under test by the name `cp`, in a directory that every user can reach.
pub fn haul_as_cp(room: &Path) -> PathBuf {
    let link = room.join("cp");
    // A copy, not a link: the build directory may be closed to other users.
    std::fs::copy(haul(), &link).expect("the program under test can be copied");
    link
}

/// A number from the environment.
pub fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}
