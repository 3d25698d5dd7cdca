//! The published figures, and on which side of them this place is.

use haul_measure::words;

use super::super::grid::{Manner, Test, grid_name};
use super::super::verdict::{BETWEEN, SLOW_MSYNC, SLOW_MSYNC_LEAST};
use super::super::waits::Wait;
use super::cells::{maybe, time};
use super::figures::{Figures, median};
use crate::view::{Cell, Claim, Column, Mark, Published, Table};

/// Rounds of msync that were published.
const ROUNDS: f64 = 100.0;
/// The cell of the grid that was published: bytes of the file and of a record.
const CELL: (u64, u64) = (512 << 10, 4 << 10);
/// Rates in KB/s at [`CELL`], on the good kernel and on the bad one.
const GRID: [(Test, f64, f64); 5] = [
    (Test::Write, 402.0, 285.0),
    (Test::Rewrite, 34_856.0, 525.0),
    (Test::Read, 3.2e6, 1.5e6),
    (Test::RandomWrite, 2_891.0, 971.0),
    (Test::RecordRewrite, 21_572.0, 455.0),
];
/// How they are called.
const LONGEST: [&str; 5] = ["longest", "second longest", "third longest", "fourth longest", "fifth longest"];
/// The five worst fills in seconds.
const WORST: [(f64, f64); 5] = [(8.3e-3, 2.19), (3.1e-3, 1.73), (1.9e-3, 1.61), (1.8e-3, 1.43), (1.7e-3, 1.42)];

/// The figures beside ours. `None` if there is nothing of ours.
pub fn published(figures: Figures<'_>) -> Option<Published> {
    let mut rows = msync_rows(figures);
    rows.extend(GRID.map(|published| grid_row(figures, published)));
    let ours = figures.samples("stall-worst", "fill");
    rows.extend(WORST.iter().enumerate().map(|(number, (good, bad))| {
        let name = Cell::text(format!("fill of a step, {}", LONGEST[number]));
        vec![name, time(*good), time(*bad), maybe(ours.get(number).copied()), Cell::text("")]
    }));
    let mut columns = vec![Column::words("what")];
    columns.extend(["good kernel", "bad kernel", "here, mapped", "here, by write(2)"].map(Column::figures));
    let table = Table {
        title: "Published figures".to_owned(),
        columns,
        rows,
        note: Some(
            "Rates in KiB/s at files of 512 KiB and records of 4 KiB; here 100 rounds are counted from those done."
                .to_owned(),
        ),
    };
    let claims = vec![msync_claim(figures), rewrite_claim(figures), read_claim(figures), fill_claim(figures)];
    let by = "Red Hat's report of stalls through mmap and msync, Linux 2.6.18 (good) against 2.6.32 (bad)".to_owned();
    claims.iter().any(|claim| claim.agrees.is_some()).then_some(Published { by, table, claims })
}

fn msync_rows(figures: Figures<'_>) -> Vec<Vec<Cell>> {
    let ours = |series: &str| maybe(median(figures.samples("msync", series)).map(|round| round * ROUNDS));
    let other = || Cell::text("");
    vec![
        vec![Cell::text("100 rounds of msync"), time(5.33), time(109.92), ours("mapped"), ours("written")],
        vec![Cell::text("the same, on another machine"), time(8.6), time(84.3), other(), other()],
    ]
}

fn rate(figures: Figures<'_>, manner: Manner, test: Test) -> Option<f64> {
    figures.grid(&grid_name(manner, test))?.at(CELL.0, CELL.1)
}

fn grid_row(figures: Figures<'_>, (test, good, bad): (Test, f64, f64)) -> Vec<Cell> {
    let figure = |rate: f64| Cell::figure(rate, format!("{rate:.0}"));
    let ours = |manner| rate(figures, manner, test).map_or_else(|| Cell::text("-").marked(Mark::Faint), figure);
    let name = Cell::text(format!("{}, KiB/s", test.name().replace('-', " ")));
    vec![name, figure(good), figure(bad), ours(Manner::Mapped), ours(Manner::Written)]
}

/// A claim of which a figure decides, if there is one.
fn claim(says: &str, found: Option<(String, bool)>) -> Claim {
    let (here, agrees) = found.map_or_else(|| ("not measured".to_owned(), None), |(here, agrees)| (here, Some(agrees)));
    Claim { says: says.to_owned(), here, agrees }
}

fn msync_claim(figures: Figures<'_>) -> Claim {
    let median = |name: &str| figures.latency(name)?.at(50.0);
    let found = median("msync-latency").zip(median("written-latency")).map(|(mapped, written)| {
        let ratio = mapped / written.max(1e-9);
        let times = [mapped, written].map(words::seconds);
        let here = format!("{} by msync, {} by write(2): {} times", times[0], times[1], words::short(ratio));
        (here, ratio < SLOW_MSYNC || mapped - written < SLOW_MSYNC_LEAST)
    });
    claim("as on the good kernel, msync of a page takes no longer than the device needs for it", found)
}

fn rewrite_claim(figures: Figures<'_>) -> Claim {
    let ratio =
        |test: Test| Some(rate(figures, Manner::Mapped, test)? / rate(figures, Manner::Written, test)?.max(1e-9));
    let found = ratio(Test::Rewrite).zip(ratio(Test::RecordRewrite)).map(|(rewrite, record)| {
        let here = format!(
            "rewriting has {} times the rate of write(2), rewriting one record {} times",
            words::short(rewrite),
            words::short(record)
        );
        (here, rewrite.min(record) > 1.0 / SLOW_MSYNC)
    });
    claim("as on the good kernel, rewriting through a mapping does not fall far behind plain writing", found)
}

fn read_claim(figures: Figures<'_>) -> Claim {
    let rates = rate(figures, Manner::Mapped, Test::Read).zip(rate(figures, Manner::Written, Test::Read));
    let found = rates.map(|(mapped, read)| {
        (format!("{mapped:.0} KiB/s mapped, {read:.0} KiB/s by read(2)"), mapped > read / SLOW_MSYNC)
    });
    claim("as on both kernels, reading through a mapping is not affected", found)
}

/// Only what stood still for storage or memory is compared: what had no processor would have been as long without a mapping.
fn fill_claim(figures: Figures<'_>) -> Claim {
    let longest = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
    let still = figures.series("stall-waits").filter(|(name, _)| Wait::of_name(name).is_none_or(Wait::stands_still));
    let still = still.map(|(_, times)| longest(times)).fold(0.0, f64::max);
    let worst = figures.samples("stall-worst", "fill").first();
    let found = worst.map(|worst| {
        let side = if still < BETWEEN { "nearer to the good kernel" } else { "nearer to the bad kernel" };
        let held = match still {
            0.0 => "none that was counted as long waited for storage or memory".to_owned(),
            still => format!("the longest that waited for storage or memory {}", words::seconds(still)),
        };
        (format!("the longest took {}, {held}: {side}", words::seconds(*worst)), still < BETWEEN)
    });
    claim("as on the good kernel, filling 512 KiB waits for milliseconds at worst, not for seconds", found)
}
