//! copy_file_range(2) that does not do what it should.

use haul_testbed::misbehaving::{Fault, On, What};
use haul_testbed::painted;
use rustix::io::Errno;

use crate::SETS;
use crate::scene::{SOURCE_ODD, Side};
use crate::trial::{CACHED, DIRECT, Expect, Play, Trial, ordinary};

/// Large enough for the questions that are asked about large files, and for several workers.
const LARGE: usize = (5 << 20) + 77;

fn fault(what: What) -> Fault {
    Fault::of(On::CopyRange, SOURCE_ODD).does(what)
}

/// With both engines that copy in the kernel, each set of options, past the page cache and through it.
fn play_all(trial: &Trial, bytes: &[u8], faults: &[Fault], expect: Expect) {
    for (number, set) in SETS.iter().enumerate() {
        for engine in ["auto", "copy-range"] {
            let options = &format!("{set} --engine={engine}");
            let manner = if number.is_multiple_of(2) { CACHED } else { DIRECT };
            let onto_old = engine == "auto";
            trial.play(&Play {
                side: Side::Both,
                manner,
                onto_old,
                bytes: Some(bytes),
                ..Play::new(options, faults, expect)
            });
        }
    }
}

#[test]
fn a_copy_of_nothing_makes_no_empty_file() {
    let Some(trial) = Trial::new() else { return };
    for bytes in [ordinary(), painted(LARGE)] {
        play_all(&trial, &bytes, &[fault(What::Claim(0))], Expect::Success);
        // And none that ends in the middle.
        play_all(&trial, &bytes, &[fault(What::Most(100_000)), fault(What::Claim(0)).after(1)], Expect::Success);
    }
    trial.finish();
}

#[test]
fn a_copy_of_less_than_was_asked_for_goes_on() {
    let Some(trial) = Trial::new() else { return };
    for most in [999, 4096, 200_000] {
        play_all(&trial, &ordinary(), &[fault(What::Most(most))], Expect::Success);
    }
    play_all(&trial, &painted(LARGE), &[fault(What::Most(150_000))], Expect::Success);
    trial.finish();
}

#[test]
fn where_the_kernel_does_not_copy_haul_does() {
    let Some(trial) = Trial::new() else { return };
    let refusals = [Errno::NOSYS, Errno::OPNOTSUPP, Errno::XDEV, Errno::INVAL, Errno::PERM, Errno::BADF, Errno::TXTBSY];
    for errno in refusals {
        play_all(&trial, &ordinary(), &[fault(What::Fail(errno))], Expect::Success);
        let later = [fault(What::Most(100_000)), fault(What::Fail(errno)).after(1)];
        play_all(&trial, &ordinary(), &later, Expect::Success);
    }
    trial.finish();
}

#[test]
fn an_error_in_the_middle_of_a_copy_fails_its_file_and_no_other() {
    let Some(trial) = Trial::new() else { return };
    for errno in [Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::NOMEM] {
        let faults = [fault(What::Most(100_000)), fault(What::Fail(errno)).at(200_000)];
        play_all(&trial, &ordinary(), &faults, Expect::Failure);
    }
    play_all(&trial, &painted(LARGE), &[fault(What::Fail(Errno::IO)).at(5 << 20)], Expect::Failure);
    trial.finish();
}

#[test]
fn a_copy_of_more_than_was_asked_for_is_not_believed() {
    let Some(trial) = Trial::new() else { return };
    play_all(&trial, &ordinary(), &[fault(What::Claim(1 << 30))], Expect::Honesty);
    play_all(&trial, &painted(LARGE), &[fault(What::Claim(u32::MAX))], Expect::Honesty);
    trial.finish();
}

#[test]
fn a_copy_that_was_only_claimed_is_found_by_verifying() {
    let Some(trial) = Trial::new() else { return };
    for options in ["-r --verify=read", "-r --verify=read --durable=file", "-r --verify=read --engine=copy-range"] {
        for faults in [vec![fault(What::Claim(300_001))], vec![fault(What::Claim(4096)).once()]] {
            let bytes = &ordinary();
            trial.play(&Play {
                side: Side::Both,
                manner: DIRECT,
                onto_old: true,
                bytes: Some(bytes),
                ..Play::new(options, &faults, Expect::Failure)
            });
        }
    }
    trial.finish();
}
