//! The command from start to end.

use std::env;
use std::io::Write;
use std::process::ExitCode;

use haul_measure::words;
use haul_sys::process_state;

use crate::measure::one_copy;
use crate::tasks::{self, Complaint};

/// As a shell shows the end by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Runs the command with the arguments of this process. The status is 0; 1 if something could not be done or a copy was wrong; 130 if
/// the user stopped it.
pub fn main() -> ExitCode {
    process_state::restore_sigpipe();
    match tasks::run(env::args_os().skip(1)) {
        Ok(answer) => {
            let mut out = std::io::stdout().lock();
            if let Err(error) = out.write_all(answer.text.as_bytes()).and_then(|()| out.flush()) {
                complain(&format!("write error: {}", words::of(&error)));
                return ExitCode::FAILURE;
            }
            if answer.done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(Complaint::Usage(message)) => {
            complain(&message);
            eprintln!("Try 'haul-lab --help' for more information.");
            ExitCode::FAILURE
        }
        Err(Complaint::Failed(message)) => {
            complain(&message);
            ExitCode::FAILURE
        }
        Err(Complaint::Refused(message)) => {
            complain(&message);
            ExitCode::from(one_copy::REFUSED)
        }
        Err(Complaint::Stopped) => ExitCode::from(INTERRUPTED),
    }
}

fn complain(message: &str) {
    eprintln!("haul-lab: {message}");
}
