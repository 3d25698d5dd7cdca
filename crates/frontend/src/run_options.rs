//! How the command itself runs a copy: what the user asks for that is not in the plan.

use std::ffi::OsStr;
use std::path::PathBuf;

use crate::throttle::Throttling;

/// Everything but the plan and what is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// `--limit`, `--control`, `--yield` and `--priority`.
    pub throttling: Throttling,
    /// `--digests`: where the digests go.
    pub digests: Option<PathBuf>,
    /// `--failures`: where the names go of what could not be copied.
    pub failures: Option<PathBuf>,
    /// A zero byte ends each of them, and not a line break.
    pub zero_ends_names: bool,
    /// `--list-out`: where the list of what would be copied goes.
    pub list_out: Option<PathBuf>,
    /// `--list`: the list of what is copied.
    pub list: Option<PathBuf>,
    /// `--job`, also with an empty ID.
    pub job_is_given: bool,
    /// `--shard=status`.
    pub shard_status: bool,
    /// Standard input is read: patterns come from there.
    pub reads_input: bool,
    /// `--profile`.
    pub profiles: Profiles,
}

/// Which profiles are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Profiles {
    /// The user's own, and the system's.
    #[default]
    Usual,
    /// None.
    None,
    /// This one.
    Named(PathBuf),
}

impl Profiles {
    /// What the argument of `--profile` means.
    pub(crate) fn of_argument(argument: &OsStr) -> Profiles {
        if argument == "none" { Profiles::None } else { Profiles::Named(PathBuf::from(argument)) }
    }
}
