//! Files that are not what they are said to be: sizes, space and inode numbers that are not true, and looks that fail.

use haul_testbed::misbehaving::{Fault, Lie, On, What};
use rustix::io::Errno;

use crate::scene::{DEST_ODD, SOURCE_ODD, Side};
use crate::trial::{DIRECT, Expect, Play, Trial};
use crate::{ENGINES, all_ways, some_ways};

/// Plays a lie in each way, and each of them with each engine.
fn play_all(trial: &Trial, lies: &[Lie], expect: Expect) {
    for (number, options) in all_ways().iter().enumerate() {
        let (engine, set) = (number % ENGINES.len(), number / ENGINES.len());
        let lie = lies[(engine + set / 2) % lies.len()];
        let side = [Side::Source, Side::Both][set % 2];
        let faults = [Fault::of(On::Look, SOURCE_ODD).does(What::Look(lie))];
        trial.play(&Play { side, manner: DIRECT, ..Play::new(options, &faults, expect) });
    }
}

#[test]
fn a_size_of_nothing_or_too_little_is_a_hint() {
    let Some(trial) = Trial::new() else { return };
    play_all(&trial, &[|look, _| look.size = 0, |look, _| look.size -= 100_000], Expect::Success);
    trial.finish();
}

#[test]
fn a_size_of_nothing_with_no_space_is_a_hint() {
    let Some(trial) = Trial::new() else { return };
    play_all(&trial, &[|look, _| (look.size, look.blocks) = (0, 0)], Expect::Success);
    trial.finish();
}

#[test]
fn a_size_that_is_too_large_adds_nothing() {
    let Some(trial) = Trial::new() else { return };
    play_all(&trial, &[|look, _| look.size += 1, |look, _| look.size += 100_000], Expect::Success);
    trial.finish();
}

#[test]
fn space_that_is_not_true_is_a_hint() {
    let Some(trial) = Trial::new() else { return };
    play_all(
        &trial,
        &[|look, _| look.blocks = 0, |look, _| look.blocks = 8, |look, _| look.blocks *= 1000],
        Expect::Success,
    );
    trial.finish();
}

#[test]
fn a_file_that_changes_its_inode_number_is_copied_or_named() {
    let Some(trial) = Trial::new() else { return };
    let lies: [Lie; 3] = [
        |look, turn| look.inode += 1000 * u64::from(turn),
        |look, turn| look.inode += u64::from(turn % 2) << 33,
        |look, turn| look.inode += u64::from(turn / 4),
    ];
    for options in &some_ways() {
        for lie in lies {
            for (path, side) in [(SOURCE_ODD, Side::Source), (DEST_ODD, Side::Dest)] {
                let faults = [Fault::of(On::Look, path).does(What::Look(lie))];
                trial.play(&Play { side, ..Play::new(options, &faults, Expect::Honesty) });
            }
        }
    }
    trial.finish();
}

#[test]
fn a_look_that_fails_fails_its_file_and_no_other() {
    let Some(trial) = Trial::new() else { return };
    for options in ["-r", "-a", "-a --atomic", "-a --durable=file", "-a --verify=read"] {
        for (path, side) in [(SOURCE_ODD, Side::Source), (DEST_ODD, Side::Dest)] {
            for nth in 0..8 {
                let faults = [Fault::of(On::Look, path).after(nth).once().does(What::Fail(Errno::IO))];
                trial.play(&Play { side, onto_old: nth % 2 == 0, ..Play::new(options, &faults, Expect::Honesty) });
            }
        }
    }
    trial.finish();
}
