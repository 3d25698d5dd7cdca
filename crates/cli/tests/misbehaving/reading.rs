//! A source that cannot be read as it should be.

use std::time::Duration;

use haul_testbed::misbehaving::{Fault, On, What};
use rustix::io::Errno;

use crate::scene::{SOURCE_ODD, Side};
use crate::trial::{CACHED, DIRECT, Expect, Play, Trial};
use crate::{all_ways, mixed, some_ways};

/// The first page, one in the middle, and the last byte.
const PLACES: [u64; 3] = [100, 150_000, 300_000];

#[test]
fn a_byte_that_cannot_be_read_fails_its_file_and_no_other() {
    let Some(trial) = Trial::new() else { return };
    for (number, options) in all_ways().iter().enumerate() {
        let place = PLACES[mixed(number) % PLACES.len()];
        let fault = |on| Fault::of(on, SOURCE_ODD).at(place).does(What::Fail(Errno::IO));
        let faults = [fault(On::Read), fault(On::CopyRange)];
        for (side, manner) in [(Side::Source, CACHED), (Side::Both, DIRECT)] {
            let onto_old = mixed(number).is_multiple_of(2);
            trial.play(&Play { side, manner, onto_old, ..Play::new(options, &faults, Expect::Failure) });
        }
    }
    trial.finish();
}

#[test]
fn a_file_that_cannot_be_opened_fails_and_no_other() {
    let Some(trial) = Trial::new() else { return };
    for errno in [Errno::IO, Errno::ACCESS, Errno::NOENT, Errno::MFILE, Errno::STALE] {
        for (options, on) in some_ways().iter().zip([On::Open, On::Look].iter().cycle()) {
            let faults = [Fault::of(*on, SOURCE_ODD).does(What::Fail(errno))];
            trial.play(&Play { onto_old: true, ..Play::new(options, &faults, Expect::Failure) });
        }
    }
    trial.finish();
}

#[test]
fn reads_that_give_less_than_was_asked_for_make_a_whole_copy() {
    let Some(trial) = Trial::new() else { return };
    for (number, options) in all_ways().iter().enumerate() {
        // One byte less than a page, a few sectors, and almost everything.
        let most = [4095, 1536, 130_000][mixed(number) % 3];
        let faults = [Fault::of(On::Read, SOURCE_ODD).does(What::Most(most))];
        let side = [Side::Source, Side::Both][mixed(number) % 2];
        trial.play(&Play { side, manner: DIRECT, ..Play::new(options, &faults, Expect::Success) });
    }
    trial.finish();
}

#[test]
fn slow_reads_are_merely_slow() {
    let Some(trial) = Trial::new() else { return };
    for options in &some_ways() {
        let faults = [
            Fault::of(On::Read, SOURCE_ODD).does(What::Delay(Duration::from_millis(5))),
            Fault::of(On::Look, SOURCE_ODD).does(What::Delay(Duration::from_millis(5))),
        ];
        trial.play(&Play::new(options, &faults, Expect::Success));
    }
    trial.finish();
}

#[test]
fn an_error_at_the_close_of_a_source_does_not_matter() {
    let Some(trial) = Trial::new() else { return };
    for options in &some_ways() {
        let faults = [Fault::of(On::Flush, SOURCE_ODD).does(What::Fail(Errno::IO))];
        trial.play(&Play::new(options, &faults, Expect::Success));
    }
    trial.finish();
}
