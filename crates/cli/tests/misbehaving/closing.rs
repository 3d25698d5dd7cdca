//! Errors that come when everything seems to be written: at the close, at the sync.

use haul_testbed::misbehaving::{Fault, On, What};
use rustix::io::Errno;

use crate::scene::{DEST_ODD, Side};
use crate::trial::{CACHED, DIRECT, Expect, Play, Trial, WRITE_BACK};
use crate::{all_ways, mixed};

const ERRORS: [Errno; 3] = [Errno::NOSPC, Errno::DQUOT, Errno::IO];

#[test]
fn an_error_that_comes_only_with_the_close_is_an_error() {
    let Some(trial) = Trial::new() else { return };
    for (number, options) in all_ways().iter().enumerate() {
        let errno = ERRORS[mixed(number) % ERRORS.len()];
        // What was synced without an error is not lost with the close.
        let what = if options.contains("--durable") { What::Fail(errno) } else { What::LoseAndFail(errno) };
        let faults = [Fault::of(On::Flush, DEST_ODD).does(what)];
        for (side, manner) in [(Side::Dest, CACHED), (Side::Dest, WRITE_BACK), (Side::Both, DIRECT)] {
            let onto_old = mixed(number).is_multiple_of(2);
            trial.play(&Play { side, manner, onto_old, ..Play::new(options, &faults, Expect::Failure) });
        }
    }
    trial.finish();
}

#[test]
fn an_error_that_comes_only_with_the_sync_is_an_error() {
    let Some(trial) = Trial::new() else { return };
    for options in ["-r --durable=flush", "-r --durable=file", "-r --durable=flush --atomic", "-r --verify=device"] {
        for errno in ERRORS {
            for (side, manner) in [(Side::Dest, CACHED), (Side::Dest, WRITE_BACK), (Side::Both, DIRECT)] {
                let faults = [Fault::of(On::Sync, DEST_ODD).does(What::LoseAndFail(errno))];
                let onto_old = manner.write_back;
                let play = Play { side, manner, onto_old, ..Play::new(options, &faults, Expect::Failure) };
                trial.play(&play);
            }
        }
    }
    trial.finish();
}

#[test]
fn names_that_cannot_be_synced_are_an_error() {
    let Some(trial) = Trial::new() else { return };
    for options in ["-r --durable=flush", "-r --durable=file", "-r --durable=flush --atomic"] {
        for errno in ERRORS {
            let faults = [Fault::of(On::SyncDirectory, "copy/odd").does(What::Fail(errno))];
            trial.play(&Play { side: Side::Dest, onto_old: true, ..Play::new(options, &faults, Expect::Failure) });
        }
    }
    trial.finish();
}

#[test]
fn what_cannot_be_written_later_is_reported_at_the_latest_with_the_close() {
    let Some(trial) = Trial::new() else { return };
    for (number, options) in all_ways().iter().enumerate() {
        let errno = ERRORS[mixed(number) % ERRORS.len()];
        // Each time, and only once: the error is reported once, whoever asks.
        for fault in [Fault::of(On::Write, DEST_ODD).at(200_000), Fault::of(On::Write, DEST_ODD).at(200_000).once()] {
            let faults = [fault.does(What::Fail(errno))];
            trial.play(&Play {
                side: Side::Dest,
                manner: WRITE_BACK,
                onto_old: mixed(number).is_multiple_of(2),
                ..Play::new(options, &faults, Expect::Honesty)
            });
        }
    }
    trial.finish();
}
