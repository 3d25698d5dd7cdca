//! Requests that hang.

use haul_testbed::misbehaving::{Fault, On, What};
use rustix::process::Signal;

use crate::Ran;
use crate::scene::{DEST_ODD, SOURCE_ODD, Scene, Side};
use crate::trial::{CACHED, DIRECT, Expect, Trial, ordinary};

/// Where it hangs: in the source or at the destination.
const HANGS: [(On, &str, Side); 9] = [
    (On::Read, SOURCE_ODD, Side::Source),
    (On::Open, SOURCE_ODD, Side::Source),
    (On::Look, SOURCE_ODD, Side::Source),
    (On::List, "tree/odd", Side::Source),
    (On::Create, DEST_ODD, Side::Dest),
    (On::Write, DEST_ODD, Side::Dest),
    (On::Flush, DEST_ODD, Side::Dest),
    (On::Sync, DEST_ODD, Side::Dest),
    (On::Rename, DEST_ODD, Side::Dest),
];

/// Starts a copy that hangs, sends the signals, and waits for its end; then nothing hangs any more.
fn stop<'a>(trial: &'a Trial, hang: (On, &str, Side), options: &str, signals: &[Signal]) -> Option<(Scene<'a>, Ran)> {
    let manner = if options.contains("atomic") { DIRECT } else { CACHED };
    let scene = trial.scene((hang.2, manner), &ordinary(), false)?;
    let running = scene.start(options, &[Fault::of(hang.0, hang.1).does(What::Block)]);
    scene.fs.wait_until_blocked();
    for signal in signals {
        running.send(*signal);
    }
    let ran = scene.end_by_signal(running);
    scene.fs.behave();
    Some((scene, ran))
}

#[test]
fn a_second_signal_ends_a_copy_that_hangs() {
    let Some(trial) = Trial::new() else { return };
    for hang in HANGS {
        for options in ["-r", "-r --atomic", "-r --durable=file"] {
            let staged = options != "-r";
            if (hang.0 == On::Rename && !staged) || (hang.0 == On::Sync && !options.contains("durable")) {
                continue;
            }
            let Some((scene, ran)) = stop(&trial, hang, options, &[Signal::INT, Signal::TERM]) else { continue };
            let wrong = wrong_after(&scene, &ran, &[130, 143]);
            trial.settle(&format!("{options}: {hang:?}"), true, wrong, &ran, Expect::Honesty);
        }
    }
    trial.finish();
}

#[test]
fn one_signal_ends_a_copy_that_hangs() {
    let Some(trial) = Trial::new() else { return };
    for hang in [HANGS[0], HANGS[5]] {
        let Some((scene, ran)) = stop(&trial, hang, "-r", &[Signal::TERM]) else { continue };
        let wrong = wrong_after(&scene, &ran, &[143]);
        trial.settle(&format!("{hang:?}"), true, wrong, &ran, Expect::Honesty);
    }
    trial.finish();
}

#[test]
fn a_copy_that_hung_goes_on_when_the_filesystem_does() {
    let Some(trial) = Trial::new() else { return };
    for hang in HANGS {
        let options = "-r --durable=file";
        let Some(scene) = trial.scene((hang.2, CACHED), &ordinary(), true) else { continue };
        let running = scene.start(options, &[Fault::of(hang.0, hang.1).does(What::Block)]);
        scene.fs.wait_until_blocked();
        scene.fs.behave();
        let ran = scene.end(running);
        let wrong = crate::judge::judge(&scene, &ran, options);
        trial.settle(&format!("{hang:?}"), true, wrong, &ran, Expect::Success);
    }
    trial.finish();
}

/// What is wrong after a run that was stopped: its status is one of these, the source is as it was, and what has its name at
/// the destination is whole.
fn wrong_after(scene: &Scene<'_>, ran: &Ran, statuses: &[i32]) -> Vec<String> {
    let mut wrong = Vec::new();
    if !ran.status.code().is_some_and(|code| statuses.contains(&code)) {
        wrong.push("the status does not name the signal".to_owned());
    }
    if scene.look("tree") != scene.truth || !scene.fs.mutations("tree").is_empty() {
        wrong.push("the source has changed".to_owned());
    }
    for (path, item) in scene.look("copy") {
        if scene.truth.get(&path) != Some(&item) {
            wrong.push(format!("{path} is left"));
        }
    }
    wrong
}
