//! Nothing outside of the trees is read or written, whatever is swapped while they are copied.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use haul_testbed::{Bed, Command, Fs};

use crate::attack::Attack;
use crate::outside::{Outside, leaked};
use crate::scene::{Files, Scene};
use crate::{ended, haul, number, run};

/// Which tree is attacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    /// One that haul makes.
    New,
    /// One that stands there before.
    Existing(Files),
}

const BOTH: &[&str] = &[
    "-a",
    "-r --jobs=4",
    "-a --atomic",
    "-a --durable=file",
    "-a --verify=read",
    "-a --checksum=xxh3",
    "-r --engine=mapped",
    "-a --sparse=always --reflink=never",
    "--move -x",
    "--move --no-preserve=links --jobs=4",
];

const EXISTING: &[(&str, Files)] = &[
    ("-a", Files::Written),
    ("-r --jobs=4", Files::Written),
    ("-a --update", Files::Written),
    ("-a --parents", Files::Written),
    ("-rf", Files::Written),
    ("--compare -r", Files::Written),
    ("-a --atomic", Files::Replaced),
    ("-a --durable=file", Files::Replaced),
    ("-a --verify=read", Files::Replaced),
    ("-a --atomic --jobs=4", Files::Replaced),
    ("-a --delete=force", Files::Written),
    ("-r --delete=force --jobs=4", Files::Written),
    ("-a --delete=force --atomic", Files::Replaced),
    ("-a --remove-destination", Files::Removed),
    ("-a --backup=numbered", Files::Removed),
    ("-a --backup=simple --atomic", Files::Removed),
    ("-r --remove-destination --jobs=4", Files::Removed),
    ("--move -x --jobs=4", Files::Removed),
    ("--move --no-preserve=links", Files::Removed),
];

/// Plays one set of options until there were enough swaps; gives swaps, runs, and runs without an error.
fn under_attack(place: &Path, options: &str, side: Side) -> (u64, u64, u64) {
    let scene = Scene { room: place.to_owned() };
    let outside = Outside::new(&place.join("outside"));
    let (tree, moves, existing) = match side {
        Side::Source => (place.join("s"), scene.source_moves(), false),
        Side::New => (place.join("d/s"), scene.dest_moves(Files::Written), false),
        Side::Existing(files) => (place.join("d/s"), scene.dest_moves(files), true),
    };
    let attack = &Attack::new(moves, place.join("park/fifo"));
    let context = format!("{options}, {side:?}");
    let (enough, mut runs, mut good) = (number("HAUL_SWAPS", 1500), 0, 0);
    std::thread::scope(|scope| {
        let calm = attack.calm();
        let seed = number("HAUL_SWAPS_SEED", 1);
        scope.spawn(move || attack.run(seed));
        let mut calm = Some(calm);
        let rounds = || {
            while runs < (enough / 500).max(5) || attack.swaps() < enough {
                scene.lay(&outside, &tree, existing);
                if options.contains("--delete") {
                    scene.take_from_source();
                }
                let reader = attack.hold_fifo();
                drop(calm.take());
                let mut command = Command::new(haul());
                // What leads to an operand is a path of the user's, and is followed.
                let operand = if options.contains("--parents") { "s/." } else { "s" };
                command.args(options.split(' ')).args([operand, "d/"]);
                let status = run(command, place, &place.join("said"));
                calm = Some(attack.calm());
                drop(reader);
                let said = || std::fs::read_to_string(place.join("said")).unwrap_or_default();
                // A comparison ends with 2 where something could not be looked at.
                let in_trouble = options.starts_with("--compare") && status.code() == Some(2);
                assert!(ended(status) || in_trouble, "{context}: {status}: {}", said());
                runs += 1;
                good += u64::from(status.success());
                let leaks = leaked(&place.join("d"), matches!(side, Side::Existing(_)));
                assert!(leaks.is_empty(), "{context}: {leaks:?}");
                let seen = outside.seen();
                assert!(seen.is_empty(), "{context}, run {runs}: somebody was outside: {seen:?}: {}", said());
            }
        };
        let result = catch_unwind(AssertUnwindSafe(rounds));
        attack.stop();
        drop(calm.take());
        result.unwrap_or_else(|panic| resume_unwind(panic));
    });
    outside.assert_untouched(&context);
    (attack.swaps(), runs, good)
}

fn play(sets: impl Iterator<Item = (&'static str, Side)>) {
    let Some(bed) = Bed::new() else { return };
    let mut total = [0; 3];
    for (index, (options, side)) in sets.enumerate() {
        // On a filesystem with a device of its own some questions are skipped, so each second set has one.
        let fs = if index % 2 == 0 { Fs::Tmpfs } else { Fs::Ext4 };
        let Some(disk) = bed.mount(fs) else { continue };
        let place = disk.join(index.to_string());
        std::fs::create_dir(&place).expect("a directory");
        let (swaps, runs, good) = under_attack(&place, options, side);
        println!("{side:?} {} {options}: {swaps} swaps, {runs} runs, {good} without an error", fs.name());
        for (sum, number) in total.iter_mut().zip([swaps, runs, good]) {
            *sum += number;
        }
    }
    println!("{} swaps, {} runs, {} without an error", total[0], total[1], total[2]);
}

#[test]
fn nothing_outside_of_the_source_is_read_whatever_is_swapped_in_it() {
    play(BOTH.iter().map(|options| (*options, Side::Source)));
}

#[test]
fn nothing_outside_of_a_new_destination_is_touched_whatever_is_swapped_in_it() {
    play(BOTH.iter().map(|options| (*options, Side::New)));
}

#[test]
fn nothing_outside_of_an_existing_destination_is_touched_whatever_is_swapped_in_it() {
    play(EXISTING.iter().map(|(options, files)| (*options, Side::Existing(*files))));
}

#[test]
fn the_witness_sees_whoever_goes_outside() {
    let Some(bed) = Bed::new() else { return };
    let Some(disk) = bed.mount(Fs::Tmpfs) else { return };
    let root = disk.join("outside");
    for deed in ["cat X/deep/x", "ls X/deep", "touch X/deep/new", "chmod 600 X/file0", "echo >> X/file0", "rm X/a"] {
        let outside = Outside::new(&root);
        assert!(outside.seen().is_empty());
        let command = deed.replace('X', root.to_str().expect("a plain name"));
        let done = Command::new("sh").args(["-c", &format!("{command} > /dev/null")]).status().expect("sh can be run");
        assert!(done.success() && !outside.seen().is_empty(), "{deed}");
    }
    assert_eq!(leaked(&root.join("only-outside"), false).len(), 4, "owner, name, attribute and contents");
}
