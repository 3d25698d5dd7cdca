//! Directories whose listing is not true.

use haul_testbed::misbehaving::{Fault, FileType, Listed, On, What};
use rustix::io::Errno;

use crate::SETS;
use crate::scene::Side;
use crate::trial::{Expect, Play, Trial};

fn play_all(trial: &Trial, faults: &[Fault], expect: Expect) {
    for set in SETS {
        for jobs in ["--jobs=1", "--jobs=4"] {
            for side in [Side::Source, Side::Both] {
                let options = &format!("{set} {jobs}");
                let onto_old = jobs == "--jobs=1";
                trial.play(&Play { side, onto_old, ..Play::new(options, faults, expect) });
            }
        }
    }
}

#[test]
fn a_listing_that_fails_is_an_error_wherever_it_fails() {
    let Some(trial) = Trial::new() else { return };
    // At the beginning, before the first name and after the last.
    for (entry, errno) in [(0, Errno::IO), (2, Errno::ACCESS), (3, Errno::IO), (3, Errno::NOENT)] {
        let list = |what| Fault::of(On::List, "tree/odd").does(what);
        let faults = [list(What::Most(1)), list(What::Fail(errno)).at(entry)];
        play_all(&trial, &faults, Expect::Failure);
    }
    trial.finish();
}

#[test]
fn a_directory_that_cannot_be_opened_is_an_error() {
    let Some(trial) = Trial::new() else { return };
    play_all(&trial, &[Fault::of(On::OpenDirectory, "tree/odd").does(What::Fail(Errno::IO))], Expect::Failure);
    trial.finish();
}

#[test]
fn a_name_that_is_listed_twice_is_copied_well() {
    let Some(trial) = Trial::new() else { return };
    let twice: fn(&mut Vec<Listed>) = |entries| entries.push(entries[2].clone());
    play_all(&trial, &[Fault::of(On::List, "tree/odd").does(What::List(twice))], Expect::Honesty);
    play_all(&trial, &[Fault::of(On::List, "tree").does(What::List(twice))], Expect::Honesty);
    trial.finish();
}

#[test]
fn a_type_that_is_not_true_is_a_hint() {
    let Some(trial) = Trial::new() else { return };
    let lies: [fn(&mut Vec<Listed>); 4] = [
        |entries| entries.iter_mut().for_each(|entry| entry.kind = FileType::Directory),
        |entries| entries.iter_mut().for_each(|entry| entry.kind = FileType::RegularFile),
        |entries| entries.iter_mut().for_each(|entry| entry.kind = FileType::Symlink),
        |entries| entries.iter_mut().for_each(|entry| entry.kind = FileType::NamedPipe),
    ];
    for lie in lies {
        play_all(&trial, &[Fault::of(On::List, "tree").does(What::List(lie))], Expect::Success);
    }
    trial.finish();
}

#[test]
fn an_inode_number_in_a_listing_is_a_hint() {
    let Some(trial) = Trial::new() else { return };
    let lies: [fn(&mut Vec<Listed>); 2] = [
        |entries| entries.iter_mut().for_each(|entry| entry.inode = 7),
        |entries| entries.iter_mut().for_each(|entry| entry.inode = u64::MAX),
    ];
    for lie in lies {
        play_all(&trial, &[Fault::of(On::List, "tree").does(What::List(lie))], Expect::Success);
    }
    trial.finish();
}

#[test]
fn a_name_that_is_listed_and_not_there_is_an_error() {
    let Some(trial) = Trial::new() else { return };
    let ghost: fn(&mut Vec<Listed>) = |entries| {
        let name = "ghost".into();
        entries.push(Listed { name, ..entries[2].clone() });
    };
    play_all(&trial, &[Fault::of(On::List, "tree/odd").does(What::List(ghost))], Expect::Failure);
    trial.finish();
}
