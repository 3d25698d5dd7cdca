//! Extended attributes that are refused, or grow while they are read.

use std::ffi::OsStr;

use haul_testbed::misbehaving::{Fault, On, What};
use rustix::io::Errno;

use crate::Ran;
use crate::judge::judge;
use crate::scene::{DEST_ODD, ODD, SOURCE_ODD, Scene, Side};
use crate::trial::{CACHED, Expect, Trial, ordinary};

/// Copies a file with attributes on both sides; `more` says what else is wrong.
fn play(
    trial: &Trial,
    options: &str,
    faults: &[Fault],
    expect: Expect,
    more: impl FnOnce(&Scene<'_>, &Ran) -> Option<String>,
) {
    let Some(scene) = trial.scene((Side::Both, CACHED), &ordinary(), false) else { return };
    for (name, value) in [("user.first", &b"1"[..]), ("user.second", &[b'2'; 200])] {
        scene.fs.add_attribute(&format!("tree/{ODD}"), name, value);
    }
    let ran = scene.copy(options, faults);
    let met = scene.fs.met() > 0;
    let mut wrong = judge(&scene, &ran, options);
    wrong.extend(more(&scene, &ran));
    trial.settle(options, met, wrong, &ran, expect);
}

/// A file that has not all attributes is named, and has its contents all the same.
fn is_named(scene: &Scene<'_>, ran: &Ran) -> Option<String> {
    let whole = scene.fs.contents(&format!("copy/{ODD}")).is_some();
    let named = ran.said.contains(ODD) || ran.said.contains("'user.");
    (!whole || !named).then(|| format!("named: {named}, whole: {whole}"))
}

/// Those that keep attributes where that is possible, and say nothing where it is not.
const QUIET: [&str; 3] = ["-a", "-a --atomic", "-a --durable=file"];
/// Those that insist.
const STRICT: [&str; 2] = ["-a --preserve=xattr", "-r --preserve=xattr --jobs=4"];

const ERRORS: [Errno; 6] = [Errno::OPNOTSUPP, Errno::PERM, Errno::NOSPC, Errno::DQUOT, Errno::IO, Errno::TOOBIG];

/// Attributes of users only. ACLs are permissions, and those are always insisted on.
const REFUSING: [(On, &str); 2] = [(On::SetAttribute, DEST_ODD), (On::GetAttribute, SOURCE_ODD)];

#[test]
fn attributes_that_are_refused_fail_no_copy_by_default() {
    let Some(trial) = Trial::new() else { return };
    for (on, path) in REFUSING {
        for errno in ERRORS {
            for options in QUIET {
                let faults = [Fault::of(on, path).at(0).does(What::Fail(errno))];
                play(&trial, options, &faults, Expect::Success, |_, _| None);
            }
        }
    }
    trial.finish();
}

#[test]
fn attributes_that_are_refused_are_reported_where_required() {
    let Some(trial) = Trial::new() else { return };
    for (on, path) in REFUSING {
        for errno in ERRORS {
            for options in STRICT {
                let faults = [Fault::of(on, path).at(0).does(What::Fail(errno))];
                play(&trial, options, &faults, Expect::Failure, is_named);
            }
        }
    }
    trial.finish();
}

#[test]
fn acls_that_are_refused_are_reported() {
    let Some(trial) = Trial::new() else { return };
    for (on, path) in REFUSING {
        for errno in [Errno::PERM, Errno::NOSPC, Errno::IO] {
            for options in QUIET.iter().chain(&STRICT) {
                let faults = [Fault::of(on, path).at(1).does(What::Fail(errno))];
                play(&trial, options, &faults, Expect::Honesty, |_, _| None);
            }
        }
    }
    trial.finish();
}

#[test]
fn a_source_that_does_not_know_of_attributes_has_none() {
    let Some(trial) = Trial::new() else { return };
    for errno in [Errno::OPNOTSUPP, Errno::NOSYS] {
        for options in QUIET.iter().chain(&STRICT) {
            let faults = [Fault::of(On::ListAttributes, SOURCE_ODD).does(What::Fail(errno))];
            play(&trial, options, &faults, Expect::Success, |_, _| None);
        }
    }
    trial.finish();
}

#[test]
fn a_list_of_attributes_that_fails_is_reported_where_required() {
    let Some(trial) = Trial::new() else { return };
    for errno in [Errno::PERM, Errno::IO, Errno::TOOBIG] {
        for options in STRICT {
            let faults = [Fault::of(On::ListAttributes, SOURCE_ODD).does(What::Fail(errno))];
            play(&trial, options, &faults, Expect::Failure, is_named);
        }
    }
    trial.finish();
}

#[test]
fn one_attribute_that_is_refused_does_not_lose_the_others() {
    let Some(trial) = Trial::new() else { return };
    for options in QUIET.iter().chain(&STRICT) {
        let faults = [Fault::of(On::SetAttribute, DEST_ODD).at(0).once().does(What::Fail(Errno::PERM))];
        play(&trial, options, &faults, Expect::Honesty, |scene, _| {
            let kept = scene.fs.attributes(&format!("copy/{ODD}")).keys().any(|name| name == "user.second");
            (!kept).then(|| "the other attribute is lost".to_owned())
        });
    }
    trial.finish();
}

#[test]
fn attributes_that_grow_while_they_are_read_are_read_again() {
    let Some(trial) = Trial::new() else { return };
    for grow in [1, 300, 5000] {
        for options in QUIET.iter().chain(&STRICT) {
            let faults = [Fault::of(On::GetAttribute, SOURCE_ODD).at(0).does(What::Grow(grow))];
            play(&trial, options, &faults, Expect::Success, |scene, _| {
                let kept = scene.fs.attributes(&format!("copy/{ODD}"));
                let kept = kept.get(OsStr::new("user.second")).map(|value| value.starts_with(&[b'2'; 200]));
                (kept != Some(true)).then(|| "the attribute is lost".to_owned())
            });
        }
    }
    trial.finish();
}

#[test]
fn names_that_grow_while_they_are_listed_are_listed_again() {
    let Some(trial) = Trial::new() else { return };
    for options in QUIET.iter().chain(&STRICT) {
        let faults = [Fault::of(On::ListAttributes, SOURCE_ODD).does(What::Grow(100))];
        play(&trial, options, &faults, Expect::Honesty, |scene, _| {
            let kept = scene.fs.attributes(&format!("copy/{ODD}"));
            (kept.len() < 2).then(|| format!("attributes are lost, all but {kept:?}"))
        });
    }
    trial.finish();
}
