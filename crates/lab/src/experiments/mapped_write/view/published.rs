//! The published figures, and on which side of them this place is.

use haul_measure::{stats, words};

use super::super::grid::{Manner, Test, grid_name};
use super::super::verdict::{BETWEEN, SLOW_MSYNC, SLOW_MSYNC_LEAST};
use super::super::waits::Wait;
use crate::results::Section;
use crate::view::{Cell, Claim, Published, Table};

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
pub fn published(section: &Section) -> Option<Published> {
    let mut rows = msync_rows(section);
    rows.extend(GRID.map(|published| grid_row(section, published)));
    let ours = section.samples("stall-worst", "fill");
    rows.extend(WORST.iter().enumerate().map(|(number, (good, bad))| {
        let times = [Some(*good), Some(*bad), ours.get(number).copied()].map(Cell::seconds);
        let name = Cell::text(format!("fill of a step, {}", LONGEST[number]));
        std::iter::once(name).chain(times).chain([Cell::text("")]).collect()
    }));
    let heads = "what|>good kernel|>bad kernel|>here, mapped|>here, by write(2)";
    let table = Table::new("Published figures", heads, rows)
        .noted("Rates in KiB/s at files of 512 KiB and records of 4 KiB; here 100 rounds are counted from those done.");
    let claims = vec![msync_claim(section), rewrite_claim(section), read_claim(section), fill_claim(section)];
    let by = "Red Hat's report of stalls through mmap and msync, Linux 2.6.18 (good) against 2.6.32 (bad)".to_owned();
    claims.iter().any(|claim| claim.agrees.is_some()).then_some(Published { by, table, claims })
}

fn msync_rows(section: &Section) -> Vec<Vec<Cell>> {
    let ours =
        |series: &str| Cell::seconds(stats::median(section.samples("msync", series)).map(|round| round * ROUNDS));
    let theirs =
        |name: &str, good: f64, bad: f64| [Cell::text(name), Cell::seconds(Some(good)), Cell::seconds(Some(bad))];
    let other = [Cell::text(""), Cell::text("")];
    vec![
        [theirs("100 rounds of msync", 5.33, 109.92).as_slice(), &[ours("mapped"), ours("written")]].concat(),
        [theirs("the same, on another machine", 8.6, 84.3).as_slice(), &other].concat(),
    ]
}

fn rate(section: &Section, manner: Manner, test: Test) -> Option<f64> {
    let grid = section.grid(&grid_name(manner, test))?;
    let find = |names: &[String], size: u64| names.iter().position(|name| *name == size.to_string());
    *grid.values.get(find(&grid.rows.1, CELL.0)?)?.get(find(&grid.columns.1, CELL.1)?)?
}

fn grid_row(section: &Section, (test, good, bad): (Test, f64, f64)) -> Vec<Cell> {
    let ours = [Manner::Mapped, Manner::Written].map(|manner| rate(section, manner, test));
    let rates = [Some(good), Some(bad)].into_iter().chain(ours);
    let name = Cell::text(format!("{}, KiB/s", test.name().replace('-', " ")));
    std::iter::once(name).chain(rates.map(|rate| Cell::known(rate, |rate| format!("{rate:.0}")))).collect()
}

/// A claim of which a figure decides, if there is one.
fn claim(says: &str, found: Option<(String, bool)>) -> Claim {
    let (here, agrees) = found.map_or_else(|| ("not measured".to_owned(), None), |(here, agrees)| (here, Some(agrees)));
    Claim { says: says.to_owned(), here, agrees }
}

fn msync_claim(section: &Section) -> Claim {
    let median = |name: &str| section.latency(name)?.at(50.0);
    let found = median("msync-latency").zip(median("written-latency")).map(|(mapped, written)| {
        let ratio = mapped / written.max(1e-9);
        let times = [mapped, written].map(words::seconds);
        let here = format!("{} by msync, {} by write(2): {} times", times[0], times[1], words::short(ratio));
        (here, ratio < SLOW_MSYNC || mapped - written < SLOW_MSYNC_LEAST)
    });
    claim("as on the good kernel, msync of a page takes no longer than the device needs for it", found)
}

fn rewrite_claim(section: &Section) -> Claim {
    let ratio =
        |test: Test| Some(rate(section, Manner::Mapped, test)? / rate(section, Manner::Written, test)?.max(1e-9));
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

fn read_claim(section: &Section) -> Claim {
    let rates = rate(section, Manner::Mapped, Test::Read).zip(rate(section, Manner::Written, Test::Read));
    let found = rates.map(|(mapped, read)| {
        (format!("{mapped:.0} KiB/s mapped, {read:.0} KiB/s by read(2)"), mapped > read / SLOW_MSYNC)
    });
    claim("as on both kernels, reading through a mapping is not affected", found)
}

/// Only what stood still for storage or memory is compared: what had no processor would have been as long without a mapping.
fn fill_claim(section: &Section) -> Claim {
    let still = section.series("stall-waits").filter(|(name, _)| Wait::of_name(name).is_none_or(Wait::stands_still));
    let still = still.flat_map(|(_, times)| times).copied().fold(0.0, f64::max);
    let worst = section.samples("stall-worst", "fill").first();
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
