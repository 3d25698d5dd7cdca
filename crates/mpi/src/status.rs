//! The exit status of a job, beside those that haul has: a script can tell what another try is good for.

use std::ffi::OsStr;

use haul_frontend::exit;

/// The job ended before it had tried everything, and not by a signal: a rank could not go on. With `--resume` another job
/// goes on.
pub const INCOMPLETE: u8 = 3;
/// Nothing was tried: the command line is wrong, the ranks do not fit together, another job is at work on the same copy, or a rank
/// cannot use what the options name.
/// EX_USAGE of sysexits.h.
pub const REFUSED: u8 = 64;

/// The status where nothing is tried; who asks for a comparison gets that of a comparison that could not be made.
pub fn refused(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> u8 {
    match exit::misuse(arguments) {
        exit::FAILURE => REFUSED,
        trouble => trouble,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_copy_is_no_copy_with_errors_and_a_refused_comparison_no_difference() {
        assert_eq!(refused(["-a", "x", "y"]), 64);
        assert_eq!(refused(["--compare", "x", "y"]), 2);
    }
}
