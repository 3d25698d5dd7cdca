//! The command `haul-model`: predicts how long a copy by many machines takes.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match haul_model::cli::run(std::env::args_os().skip(1)) {
        Ok(text) => match std::io::stdout().write_all(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(why) => {
            eprintln!("haul-model: {why}");
            ExitCode::FAILURE
        }
    }
}
