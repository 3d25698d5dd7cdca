//! What the figures mean: a name that does not change, and sentences. A pure function of what was measured.
//!
//! The first line that holds decides.
//!
//! | name | holds if |
//! |---|---|
//! | `no-device` | the filesystem is in memory alone |
//! | `not-measured` | there are no figures |
//! | `waits-for-stable-pages` | stores to pages under write-back take a median of [`STALL`] or more, and [`SHARE`] of the write-back, and nothing else was seen to hold them up |
//! | `waits-for-stable-pages`, `throttled-writers`, `waits-for-memory`, `waits-for-filesystem`, `stalls` | at least [`STALLS`] fills stood still for [`STALL`] and more, or one for [`BETWEEN`]: by what took most of that time; `stalls` if nobody saw what. Waits for others than the device must be longer than who filled was without a processor |
//! | `waits-for-stable-pages` | stores to pages under write-back take [`FELT`] and more, otherwise as above |
//! | `slow-msync` | a page by msync takes [`SLOW_MSYNC`] times as long as by a synchronous write, and [`SLOW_MSYNC_LEAST`] longer |
//! | `slow-device` | a synchronous page takes a median of [`SLOW_DEVICE`] by write(2) already |
//! | `no-stalls` | otherwise |
//!
//! The thresholds come from the published figures: the longest fill on the good kernel was 8.3 ms, the shortest of the five
//! worst on the bad one 1.42 s; and its rounds of msync took twenty times as long as those of the good one.

use haul_measure::words;

use super::facts::{Facts, Rule};
use super::grid::{self, Manner, Test};
use super::part::Answer;
use super::waits::Wait;
use super::{msync, stall, under};
use crate::results::Body;

/// A fill that stood still for so many seconds is a stall. What is shorter is a hiccup, which the good kernel had as well.
pub const STALL: f64 = 10e-3;
/// One may be chance.
pub const STALLS: usize = 2;
/// But not such a long one: seconds half way, as ratios go, from the longest fill on the good kernel to the bad one's.
pub const BETWEEN: f64 = 0.108;
/// Seconds for which a store to a page under write-back may wait unnoticed.
pub const FELT: f64 = 1e-3;
/// Stores wait for the write-back if they take so much of it: 1 if they wait for all of it.
pub const SHARE: f64 = 0.25;
/// Times as long as by write(2).
pub const SLOW_MSYNC: f64 = 3.0;
/// Seconds by which it is longer; below it is what a system call and a page fault cost.
pub const SLOW_MSYNC_LEAST: f64 = 0.2e-3;
/// Seconds of a synchronous page on a slow device: a disk that has to turn, a network.
pub const SLOW_DEVICE: f64 = 10e-3;

/// Such a part of a processor, taken by other virtual machines, is worth a word.
const STOLEN: f64 = 0.05;

/// Everything that was measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// What is known of the place.
    pub facts: Facts,
    /// Page by page.
    pub msync: Option<msync::Measured>,
    /// The grid.
    pub grid: Option<grid::Measured>,
    /// Stores to pages under write-back.
    pub under: Option<under::Measured>,
    /// Files that grow.
    pub stall: Option<stall::Measured>,
    /// A part and why it was not run.
    pub skipped: Vec<(String, String)>,
}

impl Measured {
    /// Adds what a part has found.
    pub(crate) fn take(&mut self, answer: Answer) {
        match answer {
            Answer::Msync(measured) => self.msync = Some(measured),
            Answer::Grid(measured) => {
                self.skipped.extend(measured.skipped.iter().map(|why| ("grid".to_owned(), why.clone())));
                self.grid = Some(measured);
            }
            Answer::Under(measured) => self.under = Some(measured),
            Answer::Stall(measured) => self.stall = Some(measured),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub name: &'static str,
    /// For people: first what it means, then by which figures.
    pub sentences: Vec<String>,
}

impl Verdict {
    pub fn body(&self) -> Body {
        Body::Verdict { name: self.name.to_owned(), sentences: self.sentences.clone() }
    }
}

/// What it means.
pub fn judge(measured: &Measured) -> Verdict {
    let name = name(measured);
    let mut sentences = vec![meaning(name).to_owned()];
    sentences.extend(measured.stall.iter().flat_map(of_fills));
    sentences.extend(measured.under.as_ref().and_then(of_stores));
    sentences.extend(measured.msync.as_ref().and_then(of_msync));
    sentences.extend(measured.grid.as_ref().and_then(of_grid));
    sentences.push(of_facts(&measured.facts));
    sentences.extend(stable_without_stalls(name, measured));
    Verdict { name, sentences }
}

fn name(measured: &Measured) -> &'static str {
    if measured.facts.rule == Rule::NoDevice {
        return "no-device";
    }
    let (msync, under, stall) = (measured.msync.as_ref(), measured.under.as_ref(), measured.stall.as_ref());
    let count = msync.map_or(0, |msync| msync.mapped.count) + stall.map_or(0, |stall| stall.fills.count);
    if count == 0 && under.is_none_or(|under| under.stores.is_empty()) {
        return "not-measured";
    }
    let store = under.filter(|under| waits_for_write_back(under)).and_then(under::Measured::store);
    if store.is_some_and(|store| store >= STALL) {
        return "waits-for-stable-pages";
    }
    if let Some(wait) = stall.and_then(long_wait) {
        return match wait {
            Wait::StablePage => "waits-for-stable-pages",
            Wait::Throttled => "throttled-writers",
            Wait::Memory => "waits-for-memory",
            Wait::Filesystem | Wait::Page => "waits-for-filesystem",
            _ => "stalls",
        };
    }
    if store.is_some_and(|store| store >= FELT) {
        return "waits-for-stable-pages";
    }
    let Some(msync) = msync else { return "no-stalls" };
    if slow_msync(msync) {
        return "slow-msync";
    }
    if slow_device(msync) { "slow-device" } else { "no-stalls" }
}

/// Whether stores to pages under write-back waited for just that.
fn waits_for_write_back(under: &under::Measured) -> bool {
    let for_it = matches!(under.reason(), None | Some(Wait::StablePage | Wait::Unknown));
    for_it && under.waited().is_some_and(|share| share >= SHARE)
}

/// What long fills stood still for, if there are enough of them.
///
/// Where the filling thread was without a processor for a while, whoever it waited for may have been as well: then only longer waits
/// count, but for those for the device.
fn long_wait(stall: &stall::Measured) -> Option<Wait> {
    let busy = without_processor(stall);
    let long = |wait: Wait, seconds: f64| {
        let for_device = matches!(wait, Wait::StablePage | Wait::Throttled);
        wait.stands_still() && seconds >= STALL && (for_device || seconds > busy)
    };
    let waits = stall.waits.iter().filter_map(|(name, times)| Some((Wait::of_name(name)?, times)));
    let long: Vec<(Wait, Vec<f64>)> = waits
        .map(|(wait, times)| (wait, times.iter().copied().filter(|seconds| long(wait, *seconds)).collect()))
        .collect();
    let times = || long.iter().flat_map(|(_, times): &(Wait, Vec<f64>)| times);
    if times().count() < STALLS && !times().any(|seconds| *seconds >= BETWEEN) {
        return None;
    }
    let sum = |times: &[f64]| times.iter().sum::<f64>();
    long.iter().max_by(|a, b| sum(&a.1).total_cmp(&sum(&b.1))).map(|(wait, _)| *wait)
}

/// The longest that a fill took which had no processor most of the time, in seconds.
fn without_processor(stall: &stall::Measured) -> f64 {
    let times = stall.waits.get(Wait::NotOnProcessor.name()).into_iter().flatten();
    times.copied().fold(0.0, f64::max)
}

/// How many times as long a page takes by msync as by write(2).
pub fn msync_ratio(msync: &msync::Measured) -> Option<f64> {
    msync.means.map(|(mapped, written)| mapped / written.max(1e-9))
}

fn slow_msync(msync: &msync::Measured) -> bool {
    let longer = msync.means.map(|(mapped, written)| mapped - written);
    msync_ratio(msync).is_some_and(|ratio| ratio >= SLOW_MSYNC) && longer.is_some_and(|by| by >= SLOW_MSYNC_LEAST)
}

fn meaning(name: &str) -> &'static str {
    match name {
        "no-device" => {
            "Nothing can stall here: files are in memory alone, so no page is ever written back, and msync has nothing to do."
        }
        "not-measured" => "There are no figures, so nothing can be said.",
        "waits-for-stable-pages" => {
            "Writing through a mapping stalls here: a page under write-back must stay as it is, so a store to it waits \
             until it is written."
        }
        "throttled-writers" => {
            "Writing through a mapping stalls here: the kernel throttles stores, since more is changed than the device can \
             take."
        }
        "waits-for-memory" => {
            "Writing through a mapping stalls here: stores wait for memory, which has to be freed first."
        }
        "waits-for-filesystem" => {
            "Writing through a mapping stalls here: stores wait for the filesystem, for its journal, its locks or the blocks \
             that it hands out."
        }
        "stalls" => "Writing through a mapping stalls here, and what it waits for could not be seen.",
        "slow-msync" => {
            "No stores stall here, but msync does: a page takes much longer by it than by a synchronous write."
        }
        "slow-device" => {
            "Mappings are not to blame here: a synchronous page takes long by write(2) already, so the device, or what is \
             below the filesystem, is slow."
        }
        _ => "Writing through a mapping does not stall here.",
    }
}

fn of_fills(stall: &stall::Measured) -> Vec<String> {
    let fills = &stall.fills;
    if fills.count == 0 {
        return Vec::new();
    }
    let mut sentences = vec![format!(
        "Of {} fills of {} in {} growing files {} took longer than {}; the median (p50) is {}, the longest {}.",
        fills.count,
        words::bytes(stall.step),
        stall.files,
        fills.over,
        words::seconds(fills.threshold),
        words::seconds(fills.at(50.0).unwrap_or(0.0)),
        words::seconds(fills.longest)
    )];
    for (name, times) in &stall.waits {
        let Some(wait) = Wait::of_name(name) else { continue };
        let longest = times.iter().copied().fold(0.0, f64::max);
        sentences.push(format!(
            "{} of them {}: {} together, {} at most.",
            times.len(),
            wait.says(times.len()),
            words::seconds(times.iter().sum()),
            words::seconds(longest)
        ));
    }
    let pending = &stall.pending;
    let share = 100.0 * pending.writing as f64 / pending.looks.max(1) as f64;
    sentences.push(format!(
        "Meanwhile something was under write-back at {share:.0} % of the looks: {} on average, {} at most; {} at most were \
         dirty.",
        words::bytes(pending.writeback_mean),
        words::bytes(pending.writeback_most),
        words::bytes(pending.dirty_most)
    ));
    let busy = without_processor(stall);
    if busy >= STALL {
        sentences.push(format!(
            "The machine is busy: a fill had no processor for up to {}, and so may those that it waited for. Only longer \
             waits for others count.",
            words::seconds(busy)
        ));
    }
    let stolen = stall.counters.get("stolen").copied().unwrap_or(0.0);
    if stolen > STOLEN * stall.seconds {
        let stolen = words::seconds(stolen);
        sentences
            .push(format!("Other virtual machines took {stolen} of the processors: their work shows in the tail."));
    }
    sentences
}

fn of_stores(under: &under::Measured) -> Option<String> {
    let store = under.store()?;
    Some(match under.waited() {
        None => format!(
            "It is unknown whether stores wait for pages under write-back: {} times it was over too soon.",
            under.stores.len()
        ),
        Some(share) if share >= SHARE => format!(
            "Four stores to pages under write-back took {} (median of {}), {:.0} % of what was left of the write-back: \
             they wait for it{}.",
            words::seconds(store),
            under.stores.len(),
            share * 100.0,
            under
                .reason()
                .filter(|wait| *wait != Wait::StablePage)
                .map_or(String::new(), |wait| { format!(", or so it seems; a store that did {}", wait.says(1)) })
        ),
        Some(share) => format!(
            "Four stores to pages under write-back took {} (median of {}), {:.1} % of what was left of the write-back: \
             they do not wait for it.",
            words::seconds(store),
            under.stores.len(),
            share * 100.0
        ),
    })
}

fn of_msync(msync: &msync::Measured) -> Option<String> {
    let slow = if slow_device(msync) { " The device itself is slow." } else { "" };
    let (mapped, written) = msync.means?;
    Some(format!(
        "A page by msync takes {} on average, by a synchronous write {}: {} times as long.{slow}",
        words::seconds(mapped),
        words::seconds(written),
        words::short(msync_ratio(msync)?)
    ))
}

fn slow_device(msync: &msync::Measured) -> bool {
    msync.written.at(50.0).is_some_and(|page| page >= SLOW_DEVICE)
}

/// How fast mapped writing is, for each cell of the tests that write, as a multiple of plain writing.
pub fn grid_ratios(grid: &grid::Measured) -> Vec<f64> {
    let mapped = grid.cells.iter().filter(|cell| cell.manner == Manner::Mapped && cell.test.writes());
    let ratio = |cell: &grid::Cell| {
        let written = grid.cell(Manner::Written, cell.test, cell.file, cell.record)?;
        Some(cell.rate() / written.rate().max(1e-9))
    };
    mapped.filter_map(ratio).collect()
}

fn of_grid(grid: &grid::Measured) -> Option<String> {
    let mut ratios = grid_ratios(grid);
    ratios.sort_by(f64::total_cmp);
    // One cell is a matter of milliseconds, and chance enough to be the worst.
    let (median, low) = (ratios.get(ratios.len() / 2)?, ratios.get(ratios.len() / 10)?);
    let writing = Test::ALL.iter().filter(|test| test.writes()).count();
    let how = if *median >= 1.0 { "as fast" } else { "as slow" };
    let shown = if *median >= 1.0 { *median } else { 1.0 / median };
    Some(format!(
        "In the grid mapped writing is {} times {how} as plain writing (median of {} cells of {writing} tests); in the \
         slowest tenth of them it has {:.0} % of its rate at most.",
        words::short(shown),
        ratios.len(),
        low * 100.0
    ))
}

/// Why a device that demands stable pages holds up no store that anybody would notice.
fn stable_without_stalls(name: &str, measured: &Measured) -> Option<String> {
    if measured.facts.stable_pages != Some(true) || name != "no-stalls" {
        return None;
    }
    let store = measured.under.as_ref().and_then(under::Measured::store).map(words::seconds);
    let wait = store.map_or_else(|| "how long was not measured".to_owned(), |store| format!("here for {store}"));
    Some(format!(
        "Stable pages alone are no stall: only a store to a page that is being written at that moment waits, and until \
         this one write has ended ({wait}). They stall where a write takes long: on a slow device, or behind many others."
    ))
}

fn of_facts(facts: &Facts) -> String {
    let device = match (facts.rule, facts.stable_pages) {
        (Rule::NoDevice, _) => "nothing is written back".to_owned(),
        (Rule::Always, _) => "there stores wait for pages under write-back, whatever the device demands".to_owned(),
        (_, Some(true)) => "its device demands stable pages".to_owned(),
        (_, Some(false)) => "its device does not demand stable pages".to_owned(),
        (_, None) => "whether its device demands stable pages is not known".to_owned(),
    };
    format!("The filesystem is {} on Linux {}: {device}.", facts.filesystem, facts.kernel)
}

#[cfg(test)]
mod tests;
