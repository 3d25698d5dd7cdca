//! A source that changes while it is copied.

use haul_testbed::misbehaving::{Fault, Lie, On, What};

use crate::judge::judge;
use crate::scene::{SOURCE_ODD, Side};
use crate::trial::{CACHED, DIRECT, Expect, Trial, ordinary};
use crate::{ENGINES, mixed};

type Change = fn(&mut Vec<u8>);

/// It grows, shrinks, is written to, and only its times move.
const CHANGES: [Change; 4] = [
    |bytes| bytes.extend_from_slice(&[7; 5000]),
    |bytes| bytes.truncate(200_000),
    |bytes| bytes[250_000..].fill(7),
    |_| {},
];

fn says_so(said: &str) -> bool {
    said.contains("odd/file' changed while it was being copied")
}

/// Copies while the source changes at its second read. With `warned`, the change must be reported; otherwise the copy is judged
/// by the source as it is in the end.
fn play(trial: &Trial, options: &str, number: usize, faults: &[Fault], expect: Expect, warned: bool) {
    let (side, manner) = [(Side::Source, CACHED), (Side::Source, DIRECT), (Side::Both, CACHED)][mixed(number) % 3];
    let Some(mut scene) = trial.scene((side, manner), &ordinary(), number.is_multiple_of(2)) else { return };
    let ran = scene.copy(options, faults);
    let met = scene.fs.met() > 0;
    scene.accept_changes();
    let mut wrong = Vec::new();
    if warned && ran.status.success() {
        // Which bytes it has, nobody knows.
        wrong.extend((met && !says_so(&ran.said)).then(|| "the change is not reported".to_owned()));
    } else {
        wrong.extend(judge(&scene, &ran, options));
    }
    trial.settle(&format!("{options}, {side:?}, {manner:?}"), met, wrong, &ran, expect);
}

fn second_read(change: Change) -> Fault {
    Fault::of(On::Read, SOURCE_ODD).after(1).once().does(What::Change(change))
}

fn with_each_engine(mut run: impl FnMut(usize, &str, Change)) {
    // What the kernel copies is not read.
    for (number, engine) in ENGINES.iter().filter(|engine| !["auto", "copy-range"].contains(engine)).enumerate() {
        for change in CHANGES {
            run(number, engine, change);
        }
    }
}

#[test]
fn a_change_is_reported_by_default() {
    let Some(trial) = Trial::new() else { return };
    with_each_engine(|number, engine, change| {
        play(&trial, &format!("-r --engine={engine}"), number, &[second_read(change)], Expect::Honesty, true);
    });
    trial.finish();
}

#[test]
fn a_change_fails_the_copy_if_it_is_to() {
    let Some(trial) = Trial::new() else { return };
    with_each_engine(|number, engine, change| {
        let atomic = if number.is_multiple_of(2) { " --atomic" } else { "" };
        let options = format!("-r --if-changed=fail --engine={engine}{atomic}");
        play(&trial, &options, number, &[second_read(change)], Expect::Failure, false);
    });
    trial.finish();
}

#[test]
fn a_file_that_changed_is_copied_again_as_it_is_then() {
    let Some(trial) = Trial::new() else { return };
    with_each_engine(|number, engine, change| {
        let verify = ["", " --verify=read", " --atomic", " --durable=file"][number % 4];
        let options = format!("-r --if-changed=retry --engine={engine}{verify}");
        // A mapping of a file that is cut short ends with an error.
        let expect = if engine.starts_with("mapped") { Expect::Honesty } else { Expect::Success };
        play(&trial, &options, number, &[second_read(change)], expect, false);
    });
    trial.finish();
}

#[test]
fn a_file_that_does_not_stop_changing_is_not_copied() {
    let Some(trial) = Trial::new() else { return };
    with_each_engine(|number, engine, _| {
        let options = format!("-r --if-changed=retry --engine={engine}");
        let faults = [Fault::of(On::Read, SOURCE_ODD).at(100).does(What::Change(CHANGES[number % 2 * 3]))];
        play(&trial, &options, number, &faults, Expect::Failure, false);
    });
    trial.finish();
}

#[test]
fn a_change_of_a_file_that_seems_to_have_no_space_is_reported() {
    let Some(trial) = Trial::new() else { return };
    with_each_engine(|number, engine, change| {
        let no_blocks: Lie = |look, _| look.blocks = 0;
        let faults = [second_read(change), Fault::of(On::Look, SOURCE_ODD).does(What::Look(no_blocks))];
        let options = format!("-r --if-changed=fail --engine={engine}");
        play(&trial, &options, number, &faults, Expect::Failure, false);
    });
    trial.finish();
}
