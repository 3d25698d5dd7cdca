//! A destination that cannot be written as it should be.

use std::time::Duration;

use haul_testbed::misbehaving::{Fault, On, What};
use rustix::io::Errno;

use crate::scene::{DEST_ODD, SOURCE_ODD, Side};
use crate::trial::{CACHED, DIRECT, Expect, Play, Trial, WRITE_BACK, ordinary};
use crate::{all_ways, mixed, some_ways};

const PLACES: [u64; 3] = [100, 150_000, 300_000];

#[test]
fn a_byte_that_cannot_be_written_fails_its_file_and_no_other() {
    let Some(trial) = Trial::new() else { return };
    for (number, options) in all_ways().iter().enumerate() {
        let place = PLACES[mixed(number) % PLACES.len()];
        let errno = [Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::FBIG][mixed(number) % 4];
        let faults = [
            Fault::of(On::Write, DEST_ODD).at(place).does(What::Fail(errno)),
            Fault::of(On::CopyRange, SOURCE_ODD).at(place).does(What::Fail(errno)),
        ];
        for (side, manner) in [(Side::Dest, CACHED), (Side::Both, DIRECT), (Side::Dest, WRITE_BACK)] {
            let onto_old = mixed(number).is_multiple_of(2);
            trial.play(&Play { side, manner, onto_old, ..Play::new(options, &faults, Expect::Failure) });
        }
    }
    trial.finish();
}

#[test]
fn writes_that_take_less_than_was_given_make_a_whole_copy() {
    let Some(trial) = Trial::new() else { return };
    for (number, options) in all_ways().iter().enumerate() {
        let most = [4095, 1536, 100_000][mixed(number) % 3];
        let faults = [Fault::of(On::Write, DEST_ODD).does(What::Most(most))];
        let (side, manner) = [(Side::Dest, DIRECT), (Side::Both, DIRECT), (Side::Dest, CACHED)][mixed(number) % 3];
        let onto_old = mixed(number).is_multiple_of(2);
        trial.play(&Play { side, manner, onto_old, ..Play::new(options, &faults, Expect::Success) });
    }
    trial.finish();
}

#[test]
fn writes_that_take_nothing_end_with_an_error() {
    let Some(trial) = Trial::new() else { return };
    for options in &some_ways() {
        let faults = [Fault::of(On::Write, DEST_ODD).at(150_000).does(What::Most(0))];
        trial.play(&Play {
            side: Side::Dest,
            manner: DIRECT,
            onto_old: true,
            ..Play::new(options, &faults, Expect::Failure)
        });
    }
    trial.finish();
}

#[test]
fn slow_writes_are_merely_slow() {
    let Some(trial) = Trial::new() else { return };
    for options in &some_ways() {
        let slow = |on| Fault::of(on, DEST_ODD).does(What::Delay(Duration::from_millis(5)));
        let faults = [slow(On::Write), slow(On::Flush), slow(On::Sync), slow(On::Rename)];
        trial.play(&Play { side: Side::Dest, ..Play::new(options, &faults, Expect::Success) });
    }
    trial.finish();
}

#[test]
fn where_no_space_can_be_allocated_and_no_hole_be_made_bytes_are_written() {
    let Some(trial) = Trial::new() else { return };
    let mut bytes = ordinary();
    bytes[100_000..200_000].fill(0);
    for options in &some_ways() {
        for errno in [Errno::OPNOTSUPP, Errno::NOSYS] {
            for more in ["--preallocate=always --sparse=never", "--sparse=always"] {
                let faults = [Fault::of(On::Allocate, DEST_ODD).does(What::Fail(errno))];
                let options = &format!("{options} {more}");
                trial.play(&Play {
                    side: Side::Dest,
                    onto_old: true,
                    bytes: Some(&bytes),
                    ..Play::new(options, &faults, Expect::Success)
                });
            }
        }
    }
    trial.finish();
}

/// What is said of renames.
const STAGED: [&str; 4] = ["-r --atomic", "-r --durable=file", "-r --verify=read", "-r --verify=device"];

#[test]
fn a_file_that_cannot_be_made_or_named_fails_and_no_other() {
    let Some(trial) = Trial::new() else { return };
    for (options, on) in STAGED.iter().flat_map(|options| [(options, On::Create), (options, On::Rename)]) {
        for errno in [Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::ACCESS] {
            for onto_old in [false, true] {
                let faults = [
                    Fault::of(on, DEST_ODD).does(What::Fail(errno)),
                    // A second way to a name.
                    Fault::of(On::Link, DEST_ODD).does(What::Fail(errno)),
                ];
                trial.play(&Play { side: Side::Dest, onto_old, ..Play::new(options, &faults, Expect::Failure) });
            }
        }
    }
    trial.finish();
}

#[test]
fn a_filesystem_that_knows_no_flags_of_renames_gets_whole_files_all_the_same() {
    let Some(trial) = Trial::new() else { return };
    for options in STAGED {
        for links in [true, false] {
            let mut faults = vec![Fault::of(On::Rename, DEST_ODD).at(1).does(What::Fail(Errno::INVAL))];
            faults.extend((!links).then(|| Fault::of(On::Link, DEST_ODD).does(What::Fail(Errno::PERM))));
            trial.play(&Play { side: Side::Dest, ..Play::new(options, &faults, Expect::Success) });
        }
    }
    trial.finish();
}
