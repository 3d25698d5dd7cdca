//! The power of the device is cut: it has done everything before its last flush, and of what came later any part.
//!
//! Each way to copy is recorded once: everything that reaches the device, in order, with all flushes. From that the
//! device is rebuilt as it may be after a cut between any two flushes. This also finds what the filesystem's own switch
//! does not: writes that rely on an order which a device does not keep.

use std::fs::File;

use haul_testbed::guest::Noise;
use haul_testbed::logged::Logged;
use haul_testbed::power::Image;
use haul_testbed::writes::WriteLog;
use haul_testbed::{Bed, Fs};

use crate::crash::{haul_knows, number};
use crate::place::{Neighbour, Place, dest};
use crate::tally::{Aftermath, Tally};
use crate::ways::{ATOMIC, FILE, FILE_BY_FILE, FLUSH, PLAIN, RESUME, RIGHT_ORDER, WRONG_ORDER, Way};

const KINDS: [Fs; 3] = [Fs::Ext4, Fs::Xfs, Fs::Btrfs];

/// One cut in so many is followed by the same copy again, and a check of the whole filesystem.
const CHECKED: usize = 5;

/// Everything that a copy did to a device.
struct Recording {
    log: WriteLog,
    /// The device before.
    image: Image,
    /// How many requests there had been when the copier ended.
    end: usize,
    ended_well: bool,
}

impl Recording {
    fn make(place: &Place<'_>, way: &Way) -> Option<Recording> {
        let disk = place.template.image("disk");
        let logged = Logged::start(disk.path())?;
        let mounted = place.bed.mount_image(place.kind.kernel_type(), logged.path(), &[]);
        let neighbour = Neighbour::start(mounted.path());
        let status = way.command(&place.source, &dest(mounted.path())).status().expect("it can be run");
        let read = || WriteLog::open(logged.log()).unwrap_or_else(|words| panic!("the log: {words}"));
        let end = read().entries().len();
        neighbour.end();
        mounted.unmount();
        // Opened before the daemon's files go.
        let log = read();
        Some(Recording { log, image: place.template.image("replay"), end, ended_well: status.success() })
    }

    /// Goes through `count` cuts, from the first flush to the last. Every fourth is where the copier had just ended.
    fn play(&self, place: &Place<'_>, way: &Way, count: u64) -> Tally {
        let seed = number("HAUL_CUTS_SEED", 1);
        let flushes = self.log.flushes();
        let last = flushes.partition_point(|flush| *flush < self.end).checked_sub(1).expect("somebody flushed");
        let mut noise = Noise::new(seed);
        let mut cuts: Vec<usize> = (0..count)
            .map(|cut| if cut % 4 == 0 { last } else { noise.below(flushes.len() as u64) as usize })
            .collect();
        cuts.sort_unstable();
        let image = File::options().write(true).open(self.image.path()).expect("the image is there");
        let (mut tally, mut done) = (Tally::default(), 0);
        for (number, flush) in cuts.into_iter().enumerate() {
            let certain = flushes[flush] + 1;
            (done..certain).for_each(|request| self.log.apply(request, &image));
            done = certain;
            let next = flushes.get(flush + 1).copied().unwrap_or(self.log.entries().len());
            // Nothing at all of the rest is a moment like others; it comes up by itself among them.
            let cut = self.image.copy("cut");
            let file = File::options().write(true).open(cut.path()).expect("the image is there");
            self.log.apply_some(certain..next, &file, &mut noise);
            drop(file);
            let mounted = cut.mount(place.bed);
            let verdict = place.judge(mounted.path());
            let again = way.again.wanted(number.is_multiple_of(CHECKED)).then(|| place.again(way, mounted.path()));
            mounted.unmount();
            if number.is_multiple_of(CHECKED) {
                cut.check().unwrap_or_else(|words| panic!("{} is damaged: {words}", place.kind.name()));
            }
            let aftermath = Aftermath { ended_well: self.ended_well && flush >= last, verdict, again };
            let about = format!("cut {number} of seed {seed}, after flush {flush} of {}", flushes.len());
            tally.add(place, way, &aftermath, &about);
        }
        tally.report(place, way);
        tally
    }
}

/// Does it on each of these filesystems, with so many cuts unless the environment says how many.
fn on_each(kinds: &[Fs], way: &Way, cuts: u64, judge: impl Fn(&Tally)) {
    let Some(bed) = Bed::new() else { return };
    for kind in kinds {
        let Some(place) = Place::new(&bed, *kind) else { continue };
        let Some(recording) = Recording::make(&place, way) else { return };
        judge(&recording.play(&place, way, number("HAUL_CUTS", cuts)));
    }
}

#[test]
fn with_durable_file_each_name_holds_the_old_or_the_whole_new_file_whatever_a_device_has_done_of_its_writes() {
    if haul_knows("--durable") {
        on_each(&KINDS, &FILE, 30, Tally::assert_kept);
        on_each(&KINDS, &FILE_BY_FILE, 8, Tally::assert_kept);
    }
}

#[test]
fn with_resume_the_same_command_finishes_a_copy_whatever_a_device_has_done_and_leaves_nothing_else() {
    on_each(&KINDS, &RESUME, 16, Tally::assert_kept);
}

#[test]
fn what_durable_flush_has_finished_is_complete_whatever_a_device_has_done_since_its_last_flush() {
    if haul_knows("--durable") {
        on_each(&KINDS, &FLUSH, 12, Tally::assert_kept);
    }
}

#[test]
fn with_atomic_no_name_goes_missing_whatever_a_device_has_done_of_its_writes() {
    if haul_knows("--atomic") {
        on_each(&KINDS, &ATOMIC, 12, Tally::assert_kept);
    }
}

#[test]
fn without_durability_a_device_without_power_loses_what_was_copied() {
    on_each(&KINDS, &PLAIN, 12, |tally| {
        tally.assert_kept();
        assert!(tally.lost > 0, "the cuts prove nothing: {tally:?}");
    });
}

#[test]
fn the_judge_passes_a_copier_that_flushes_the_device_before_it_renames() {
    on_each(&KINDS, &RIGHT_ORDER, 12, Tally::assert_kept);
}

#[test]
fn the_judge_catches_a_copier_that_renames_before_it_flushes_the_device() {
    // Btrfs commits names and data together here, since nobody but the copier has it commit.
    on_each(&[Fs::Ext4, Fs::Xfs], &WRONG_ORDER, 30, |tally| assert!(!tally.broken.is_empty(), "{tally:?}"));
}
