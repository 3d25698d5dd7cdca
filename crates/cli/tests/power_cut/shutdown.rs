//! The power is cut by the filesystem's own switch, at random moments.

use std::time::Duration;

use haul_testbed::guest::Noise;
use haul_testbed::{Bed, Fs, power};

use crate::crash::moment::{self, Moment};
use crate::crash::{haul_knows, number};
use crate::place::{Neighbour, Place, dest};
use crate::tally::{Aftermath, Tally};
use crate::ways::{ATOMIC, FILE, FILE_BY_FILE, FLUSH, NO_SYNC, PLAIN, RESUME, RIGHT_ORDER, WRONG_ORDER, Way};

/// What has a switch.
const KINDS: [Fs; 2] = [Fs::Ext4, Fs::Xfs];

/// One cut in so many is followed by the same copy again, and a check of the whole filesystem.
const CHECKED: u64 = 5;

/// How a copy is interrupted, but for the moment.
#[derive(Debug)]
struct Manner {
    moment: Moment,
    /// Somebody else syncs meanwhile.
    neighbour: bool,
    /// The copier dies with the power; otherwise it meets the errors, and may not say that all is well.
    killed: bool,
}

impl Manner {
    fn random(noise: &mut Noise, length: Duration) -> Manner {
        Manner { moment: Moment::random(noise, length), neighbour: noise.below(4) != 0, killed: noise.below(2) == 0 }
    }
}

/// Copies, cuts and looks at what is left.
fn cut(place: &Place<'_>, way: &Way, manner: &Manner, checked: bool) -> Aftermath {
    let image = place.template.image("cut");
    let mounted = image.mount(place.bed);
    let root = mounted.path();
    let neighbour = manner.neighbour.then(|| Neighbour::start(root));
    let mut child = way.command(&place.source, &dest(root)).spawn().expect("it can be run");
    manner.moment.wait(&mut child, &dest(root));
    power::cut(root);
    if manner.killed {
        child.kill().expect("the child is ours");
    }
    let status = moment::end(&mut child);
    let synced = neighbour.map_or(0, Neighbour::end);
    mounted.unmount();
    let mounted = image.mount(place.bed);
    let verdict = place.judge(mounted.path());
    let found = Neighbour::found(mounted.path());
    assert!(found >= synced, "what was synced is lost, with the cut itself: {found} instead of {synced}");
    let again = way.again.wanted(checked).then(|| place.again(way, mounted.path()));
    mounted.unmount();
    if checked {
        image.check().unwrap_or_else(|words| panic!("{} is damaged: {words}", place.kind.name()));
    }
    Aftermath { ended_well: status.success(), verdict, again }
}

/// How long a copy takes if nobody interrupts it, which must give what is promised.
fn length(place: &Place<'_>, way: &Way) -> Duration {
    moment::length(|run| {
        let image = place.template.image("whole");
        let mounted = image.mount(place.bed);
        let status = run(&mut way.command(&place.source, &dest(mounted.path())));
        assert!(status.success(), "{}: {status}", way.name);
        let verdict = place.judge(mounted.path()).expect("the destination can be read");
        assert_eq!(verdict.against_complete(place.untouched(), true), None, "{}, without any cut", way.name);
        mounted.unmount();
    })
}

/// Cuts this many times, unless `enough` has been seen.
fn cuts(place: &Place<'_>, way: &Way, count: u64, enough: impl Fn(&Tally) -> bool) -> Tally {
    let seed = number("HAUL_CUTS_SEED", 1);
    let length = length(place, way);
    let mut tally = Tally::default();
    for cut_number in 0..count {
        let mut noise = Noise::new((seed << 32) + cut_number + 1);
        // The generator's first number says more of the seed than it should.
        noise.number();
        let mut manner = Manner::random(&mut noise, length);
        // However few there are, one comes after the end and one before.
        match cut_number {
            0 => manner.moment = Moment::AtEnd,
            1 => manner.moment = Moment::After(Duration::ZERO),
            _ => {}
        }
        let aftermath = cut(place, way, &manner, cut_number.is_multiple_of(CHECKED));
        tally.add(place, way, &aftermath, &format!("cut {cut_number} of seed {seed}, {manner:?}"));
        if enough(&tally) {
            break;
        }
    }
    tally.report(place, way);
    tally
}

/// Does it on each filesystem that has a switch.
fn on_each(way: &Way, count: u64, enough: impl Fn(&Tally) -> bool, judge: impl Fn(&Tally)) {
    let Some(bed) = Bed::new() else { return };
    for kind in KINDS {
        let Some(place) = Place::new(&bed, kind) else { continue };
        judge(&cuts(&place, way, count, &enough));
    }
}

/// Cuts this many times, or as often as the environment says, and sees the promise kept each time.
fn promise_is_kept(way: &Way, cuts: u64) {
    on_each(way, number("HAUL_CUTS", cuts), |_| false, Tally::assert_kept);
}

#[test]
fn with_durable_file_each_name_holds_the_old_or_the_whole_new_file_whenever_the_power_is_cut() {
    if haul_knows("--durable") {
        promise_is_kept(&FILE, 24);
        promise_is_kept(&FILE_BY_FILE, 8);
    }
}

#[test]
fn with_resume_the_same_command_finishes_a_copy_after_a_power_cut_and_leaves_nothing_else() {
    promise_is_kept(&RESUME, 16);
}

#[test]
fn what_durable_flush_has_finished_is_complete_after_a_power_cut() {
    if haul_knows("--durable") {
        promise_is_kept(&FLUSH, 12);
    }
}

#[test]
fn with_atomic_no_name_goes_missing_in_a_power_cut() {
    if haul_knows("--atomic") {
        promise_is_kept(&ATOMIC, 12);
    }
}

#[test]
fn without_durability_a_power_cut_takes_what_was_copied() {
    let cuts = number("HAUL_CUTS", 12);
    on_each(
        &PLAIN,
        cuts,
        |_| false,
        |tally| {
            tally.assert_kept();
            assert!(tally.lost > 0, "the cuts prove nothing: {tally:?}");
        },
    );
}

#[test]
fn the_judge_passes_a_copier_that_syncs_before_it_renames() {
    promise_is_kept(&RIGHT_ORDER, 8);
}

#[test]
fn the_judge_catches_a_copier_that_renames_before_it_syncs() {
    on_each(&WRONG_ORDER, 500, |tally| tally.torn > 0, |tally| assert!(!tally.broken.is_empty(), "{tally:?}"));
}

#[test]
fn the_judge_catches_a_copier_that_ends_before_anything_is_on_the_device() {
    on_each(&NO_SYNC, 500, |tally| tally.lost > 0, |tally| assert!(!tally.broken.is_empty(), "{tally:?}"));
}
