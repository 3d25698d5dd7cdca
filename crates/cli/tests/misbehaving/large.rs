//! Files that are worth some questions and several workers: what goes wrong with them goes wrong in other code.

use haul_testbed::misbehaving::{Fault, Manner, On, What};
use haul_testbed::painted;
use rustix::io::Errno;

use crate::SETS;
use crate::scene::{DEST_ODD, SOURCE_ODD, Side};
use crate::trial::{CACHED, DIRECT, Expect, Play, Trial, WRITE_BACK};

const SIZE: usize = (5 << 20) + 77;
/// In the second half.
const PLACE: u64 = 9 << 19;

/// The ways that are chosen for large files, and those that are chosen by name only.
const WAYS: [&str; 8] = [
    "--engine=auto",
    "--cache=drop",
    "--engine=read-write --cache=drop",
    "--engine=mapped-direct",
    "--engine=direct",
    "--engine=dontcache",
    "--engine=io-uring",
    "--engine=posix-aio",
];

fn play_all(trial: &Trial, ways: &[(Side, Manner)], fault: &Fault, expect: Expect) {
    let bytes = painted(SIZE);
    for (number, way) in WAYS.iter().enumerate() {
        let options = &format!("{} {way}", SETS[number % SETS.len()]);
        let (side, manner) = ways[number / SETS.len() % ways.len()];
        let faults = std::slice::from_ref(fault);
        trial.play(&Play {
            side,
            manner,
            onto_old: number.is_multiple_of(3),
            bytes: Some(&bytes),
            ..Play::new(options, faults, expect)
        });
    }
}

#[test]
fn a_large_file_with_a_byte_that_cannot_be_moved_fails() {
    let Some(trial) = Trial::new() else { return };
    let read = Fault::of(On::Read, SOURCE_ODD).at(PLACE).does(What::Fail(Errno::IO));
    play_all(&trial, &[(Side::Source, CACHED), (Side::Source, DIRECT)], &read, Expect::Failure);
    let write = Fault::of(On::Write, DEST_ODD).at(PLACE).does(What::Fail(Errno::DQUOT));
    play_all(&trial, &[(Side::Dest, CACHED), (Side::Dest, WRITE_BACK)], &write, Expect::Failure);
    trial.finish();
}

#[test]
fn a_large_file_that_is_moved_by_short_counts_is_whole() {
    let Some(trial) = Trial::new() else { return };
    for most in [100_000, 65_535] {
        let read = Fault::of(On::Read, SOURCE_ODD).does(What::Most(most));
        play_all(&trial, &[(Side::Source, DIRECT)], &read, Expect::Success);
        let write = Fault::of(On::Write, DEST_ODD).does(What::Most(most));
        play_all(&trial, &[(Side::Dest, DIRECT), (Side::Dest, CACHED)], &write, Expect::Success);
    }
    trial.finish();
}

#[test]
fn the_size_of_a_large_file_is_a_hint() {
    let Some(trial) = Trial::new() else { return };
    let shorter = Fault::of(On::Look, SOURCE_ODD).does(What::Look(|look, _| look.size -= 600_000));
    let longer = Fault::of(On::Look, SOURCE_ODD).does(What::Look(|look, _| look.size += 600_000));
    let nothing = Fault::of(On::Look, SOURCE_ODD).does(What::Look(|look, _| look.size = 0));
    for lie in [shorter, longer, nothing] {
        play_all(&trial, &[(Side::Source, DIRECT), (Side::Both, DIRECT)], &lie, Expect::Success);
    }
    trial.finish();
}

#[test]
fn a_large_file_that_is_lost_with_the_close_is_reported() {
    let Some(trial) = Trial::new() else { return };
    let close = Fault::of(On::Flush, DEST_ODD).does(What::Fail(Errno::NOSPC));
    play_all(&trial, &[(Side::Dest, CACHED), (Side::Dest, WRITE_BACK)], &close, Expect::Failure);
    let sync = Fault::of(On::Sync, DEST_ODD).does(What::LoseAndFail(Errno::IO));
    play_all(&trial, &[(Side::Dest, CACHED), (Side::Dest, WRITE_BACK)], &sync, Expect::Failure);
    trial.finish();
}
