//! The start of a command without the runtime of Rust, which prepares what a copy of one small file has no use for.

use std::panic::catch_unwind;

/// The status of a program in Rust that a panic ended, or that could not begin.
const PANICKED: u8 = 101;

/// Makes `main` of a program without the runtime (`#![no_main]`), which runs a function that gives the exit status. The C
/// library must be one that gives the arguments to the standard library before `main`, as that of GNU does.
///
/// The runtime would do the same, and read /proc/self/maps for a message about a stack that overflows (without it, such a
/// process ends by SIGSEGV) and give SIGPIPE another disposition: a fourteenth of the time in which one small file is copied.
#[macro_export]
macro_rules! main {
    ($command:path) => {
        #[unsafe(no_mangle)] // of this name there is no other in a program without the runtime
        extern "C" fn main() -> i32 {
            $crate::entry::run($command)
        }
    };
}

/// Runs a command and gives the status to end with, for [`main!`](crate::main). What the command left in the buffer of
/// `std::io::stdout` is not written.
pub fn run(command: fn() -> u8) -> i32 {
    let status = if open_standard_descriptors() {
        // The hook has said what happened.
        catch_unwind(command).unwrap_or(PANICKED)
    } else {
        PANICKED
    };
    status.into()
}

/// Opens /dev/null in the place of standard descriptors that are closed: a file that is opened must not become the one
/// to which messages go. False if that cannot be done.
fn open_standard_descriptors() -> bool {
    [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO].into_iter().all(|descriptor| {
        // SAFETY: fcntl with F_GETFD takes any number and only reads.
        let is_open = unsafe { libc::fcntl(descriptor, libc::F_GETFD) } >= 0;
        // SAFETY: the path is a C string. No descriptor of anybody is touched: the lowest number that is free is this one.
        is_open || unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) } == descriptor
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_that_of_the_command_or_of_a_panic() {
        assert_eq!([run(|| 0), run(|| 2), run(|| panic!("on purpose"))], [0, 2, 101]);
    }
}
