//! How the run of a competitor ended, as it is saved.

use std::time::Duration;

use haul_measure::process;

use crate::results::Run;

#[derive(Debug)]
pub(super) enum Ended {
    /// The program was content: what it cost, and what it wrote to standard output.
    Well(Box<Run>, String),
    /// It could not be started, failed, or was killed: its exit status, if it has one, and what happened in words.
    Badly(Option<i32>, String),
    /// It was ended after its time; in words.
    TooLong(String),
    Stopped,
}

impl Ended {
    /// In words, where the time was `timeout`.
    pub(super) fn of(ended: process::Ended, timeout: Duration) -> Ended {
        match ended {
            process::Ended::Stopped => Ended::Stopped,
            process::Ended::TooLong => Ended::TooLong(format!("over {} s", timeout.as_secs())),
            process::Ended::NotStarted(why) => Ended::Badly(None, why),
            process::Ended::Finished(one) if one.status.success() => {
                Ended::Well(Box::new((&one.cost).into()), one.said)
            }
            process::Ended::Finished(one) => {
                let last = one.complaint.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
                let why = format!("{}{}{last}", one.status, if last.is_empty() { "" } else { ": " });
                Ended::Badly(one.status.code(), why)
            }
        }
    }
}
