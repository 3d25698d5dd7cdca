//! A source that says something wrong of its holes.

use haul_testbed::misbehaving::{Fault, On, Search, What, Whence};
use haul_testbed::painted;
use rustix::io::Errno;

use crate::scene::{SOURCE_ODD, Side};
use crate::trial::{CACHED, DIRECT, Expect, Play, Trial};
use crate::{all_ways, mixed};

const KIB: u64 = 1 << 10;
/// Data, a hole, data, and a hole up to the end.
const DATA: [(u64, u64); 2] = [(0, 64 * KIB), (192 * KIB, 256 * KIB)];
const SIZE: u64 = 320 * KIB + 1;

fn sparse() -> Vec<u8> {
    let mut bytes = painted(SIZE as usize);
    bytes[64 << 10..192 << 10].fill(0);
    bytes[256 << 10..].fill(0);
    bytes
}

fn truth(whence: Whence, offset: u64, size: u64) -> Result<u64, Errno> {
    if offset >= size {
        return Err(Errno::NXIO);
    }
    match whence {
        Whence::Data => DATA.iter().find(|data| offset < data.1).map(|data| offset.max(data.0)).ok_or(Errno::NXIO),
        Whence::Hole => Ok(DATA.iter().find(|data| data.0 <= offset && offset < data.1).map_or(offset, |data| data.1)),
    }
}

/// Odd answers that do not deny any data.
const ODD_ANSWERS: [Search; 9] = [
    // The next data, where there is none, is far behind the end.
    |whence, offset, size| truth(whence, offset, size).or(Ok(size + (1 << 40))),
    // Holes are behind the end.
    |whence, offset, size| if whence == Whence::Hole { Ok(size + 12_345) } else { truth(whence, offset, size) },
    // The hole begins where the data was said to begin.
    |whence, offset, size| if whence == Whence::Hole { Ok(offset) } else { truth(whence, offset, size) },
    // Everything begins at the beginning.
    |_, _, _| Ok(0),
    // Data is before the place from where on it is looked for.
    |whence, offset, size| {
        truth(whence, offset, size).map(|at| if whence == Whence::Data { at.min(offset) / 2 } else { at })
    },
    |whence, offset, size| if whence == Whence::Hole { Err(Errno::NXIO) } else { truth(whence, offset, size) },
    |whence, offset, size| if whence == Whence::Hole { Err(Errno::INVAL) } else { truth(whence, offset, size) },
    |_, _, _| Err(Errno::INVAL),
    |_, _, _| Err(Errno::NOSYS),
];

/// Answers that deny data that is there.
const LIES: [Search; 4] = [
    |whence, _, size| if whence == Whence::Data { Err(Errno::NXIO) } else { Ok(size) },
    |whence, offset, size| if whence == Whence::Data { Ok(size + 4096) } else { Ok(offset + 4096) },
    |whence, offset, size| truth(whence, offset, size).map(|at| if whence == Whence::Data { at + 4096 } else { at }),
    |whence, offset, size| {
        truth(whence, offset, size)
            .map(|at| if whence == Whence::Hole && at > offset { offset + 4096 } else { at + 16384 })
    },
];

fn play(trial: &Trial, options: &str, number: usize, what: What, expect: Expect) {
    let faults = [Fault::of(On::Seek, SOURCE_ODD).does(what)];
    let (side, manner) = [(Side::Source, CACHED), (Side::Both, CACHED), (Side::Source, DIRECT)][mixed(number) % 3];
    let onto_old = number.is_multiple_of(2);
    trial.play(&Play { side, manner, onto_old, bytes: Some(&sparse()), ..Play::new(options, &faults, expect) });
}

#[test]
fn odd_answers_about_holes_that_deny_no_data_make_a_whole_copy() {
    let Some(trial) = Trial::new() else { return };
    for (number, options) in all_ways().iter().enumerate() {
        for round in 0..2 {
            let answer = ODD_ANSWERS[(mixed(number) + 4 * round) % ODD_ANSWERS.len()];
            play(&trial, options, number, What::Seek(answer), Expect::Success);
        }
    }
    trial.finish();
}

#[test]
fn data_that_is_said_to_be_a_hole_is_found_by_verifying() {
    let Some(trial) = Trial::new() else { return };
    for (number, options) in all_ways().iter().enumerate().filter(|(_, options)| options.contains("--verify")) {
        for lie in LIES {
            play(&trial, options, number, What::Seek(lie), Expect::Honesty);
        }
    }
    trial.finish();
}

#[test]
fn data_that_is_said_to_be_a_hole_is_copied_where_there_are_to_be_no_holes() {
    let Some(trial) = Trial::new() else { return };
    for (number, options) in all_ways().iter().enumerate() {
        let options = &format!("{options} --sparse=never");
        let lie = LIES[mixed(number) % LIES.len()];
        play(&trial, options, number, What::Seek(lie), Expect::Success);
    }
    // They need not be asked for holes at all, but others are: so the lie is one.
    play(&trial, "-r --verify=read", 0, What::Seek(LIES[0]), Expect::Failure);
    trial.finish();
}

#[test]
fn an_error_while_looking_for_holes_is_an_error() {
    let Some(trial) = Trial::new() else { return };
    for (number, options) in all_ways().iter().enumerate() {
        play(&trial, options, number, What::Fail(Errno::IO), Expect::Failure);
    }
    trial.finish();
}
