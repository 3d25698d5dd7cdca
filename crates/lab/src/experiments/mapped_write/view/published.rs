//! The published figures, and on which side of them this place is.

use haul_measure::{stats, words};

use super::super::grid::{Manner, Test, grid_name};
use super::super::verdict::{BETWEEN, SLOW_MSYNC, SLOW_MSYNC_LEAST};
use super::super::waits::Wait;
use crate::report::sections::claims::{Said, Source};
use crate::results::Section;
use crate::view::{Cell, Claim, Published};

/// Rounds of msync that were published.
const ROUNDS: f64 = 100.0;
/// The cell of the grid that was published: bytes of the file and of a record.
const CELL: (u64, u64) = (512 << 10, 4 << 10);
/// How many of the worst fills were.
const WORST: usize = 5;

/// Ours in a row, through a mapping and by write(2): none, or one that was not measured.
type Ours = [Option<Option<f64>>; 2];

/// The figures beside ours. `None` if there is nothing of ours.
pub fn published(section: &Section) -> Option<Published> {
    let published = Source::of("mapped-write");
    let round = |series: &str| Some(stats::median(section.samples("msync", series)).map(|round| round * ROUNDS));
    // The kernel counts CPU time in steps that are longer than a round takes of it.
    let cpu = |time: &str| {
        ["mapped", "written"].map(|side| {
            let rounds = section.samples("msync-cpu", &format!("{side} {time}"));
            Some((!rounds.is_empty()).then(|| rounds.iter().sum::<f64>() / rounds.len() as f64 * ROUNDS))
        })
    };
    let rounds = [[round("mapped"), round("written")], cpu("user"), cpu("sys")];
    let rates = Test::ALL.map(|test| [Manner::Mapped, Manner::Written].map(|manner| Some(rate(section, manner, test))));
    let worst = section.samples("stall-worst", "fill");
    let worst = (0..WORST).map(|number| [Some(worst.get(number).copied()), None]);
    // Each was published of two places, the longest fills of one.
    let ours = [rounds, rounds].into_iter().flatten().chain(rates).chain(rates).chain(worst);
    let row = |((name, theirs), ours): (&(String, Vec<Option<f64>>), Ours)| {
        let say = if name.contains("KiB/s") { |rate| format!("{rate:.0}") } else { words::seconds };
        let theirs = theirs.iter().map(|figure| Cell::known(*figure, say));
        // What is not asked for here stays empty.
        let ours = ours.map(|figure| figure.map_or_else(|| Cell::text(""), |figure| Cell::known(figure, say)));
        std::iter::once(Cell::text(name)).chain(theirs).chain(ours).collect()
    };
    let table = published
        .table(published.rows.iter().zip(ours).map(row))
        .noted("Rates in KiB/s at files of 512 KiB and records of 4 KiB; here 100 rounds are counted from those done.");
    let found = [pages(section), rewrites(section), reads(section), fills(section)];
    let claim = |(said, found): (&Said, Option<(String, bool)>)| {
        let (here, agrees) = found.unzip();
        said.decided(Some(here.unwrap_or_else(|| "not measured".to_owned())), agrees)
    };
    let claims: Vec<Claim> = published.claims.iter().zip(found).map(claim).collect();
    claims.iter().any(|claim| claim.agrees.is_some()).then(|| published.with(table, claims))
}

fn rate(section: &Section, manner: Manner, test: Test) -> Option<f64> {
    let grid = section.grid(&grid_name(manner, test))?;
    let find = |names: &[String], size: u64| names.iter().position(|name| *name == size.to_string());
    *grid.values.get(find(&grid.rows.1, CELL.0)?)?.get(find(&grid.columns.1, CELL.1)?)?
}

/// What is found here of a page by msync, and whether that agrees; the others are alike.
fn pages(section: &Section) -> Option<(String, bool)> {
    let median = |name: &str| section.latency(name)?.at(50.0);
    median("msync-latency").zip(median("written-latency")).map(|(mapped, written)| {
        let ratio = mapped / written.max(1e-9);
        let times = [mapped, written].map(words::seconds);
        let here = format!("{} by msync, {} by write(2): {} times", times[0], times[1], words::short(ratio));
        (here, ratio < SLOW_MSYNC || mapped - written < SLOW_MSYNC_LEAST)
    })
}

fn rewrites(section: &Section) -> Option<(String, bool)> {
    let ratio =
        |test: Test| Some(rate(section, Manner::Mapped, test)? / rate(section, Manner::Written, test)?.max(1e-9));
    ratio(Test::Rewrite).zip(ratio(Test::RecordRewrite)).map(|(rewrite, record)| {
        let here = format!(
            "rewriting has {} times the rate of write(2), rewriting one record {} times",
            words::short(rewrite),
            words::short(record)
        );
        (here, rewrite.min(record) > 1.0 / SLOW_MSYNC)
    })
}

fn reads(section: &Section) -> Option<(String, bool)> {
    let rates = rate(section, Manner::Mapped, Test::Read).zip(rate(section, Manner::Written, Test::Read));
    rates.map(|(mapped, read)| {
        (format!("{mapped:.0} KiB/s mapped, {read:.0} KiB/s by read(2)"), mapped > read / SLOW_MSYNC)
    })
}

/// Only what stood still for storage or memory is compared: what had no processor would have been as long without a mapping.
fn fills(section: &Section) -> Option<(String, bool)> {
    let still = section.series("stall-waits").filter(|(name, _)| Wait::of_name(name).is_none_or(Wait::stands_still));
    let still = still.flat_map(|(_, times)| times).copied().fold(0.0, f64::max);
    let worst = section.samples("stall-worst", "fill").first();
    worst.map(|worst| {
        let side = if still < BETWEEN { "nearer to the good kernel" } else { "nearer to the bad kernel" };
        let held = match still {
            0.0 => "none that was counted as long waited for storage or memory".to_owned(),
            still => format!("the longest that waited for storage or memory {}", words::seconds(still)),
        };
        (format!("the longest took {}, {held}: {side}", words::seconds(*worst)), still < BETWEEN)
    })
}
