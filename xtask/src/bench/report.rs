//! Medians and tables.

use std::fmt::Write;
use std::time::Duration;

use haul_measure::process::Cost;
use haul_measure::stats::{self, Spread};

/// All runs of one program at one place.
pub struct Row {
    /// The program.
    pub name: String,
    /// Its good runs.
    pub samples: Vec<Cost>,
    /// What it said if it would not copy.
    pub refused: Option<String>,
}

/// Median, smallest and largest of some figures; `None` if there are none.
pub fn spread(figures: impl IntoIterator<Item = f64>) -> Option<Spread> {
    stats::spread(&figures.into_iter().collect::<Vec<_>>())
}

/// `median (min-max)` in seconds.
pub fn range(spread: Spread) -> String {
    format!("{} ({}-{})", seconds(spread.median), seconds(spread.min), seconds(spread.max))
}

impl Row {
    /// Time until the program ended, in seconds.
    pub fn returned(&self) -> Option<Spread> {
        spread(self.samples.iter().map(|sample| sample.returned.as_secs_f64()))
    }

    /// Time until the copy was durable, in seconds.
    pub fn durable(&self) -> Option<Spread> {
        spread(self.samples.iter().map(|sample| sample.durable.as_secs_f64()))
    }
}

/// A Markdown table. Ratios are of medians, against the first row: below 1 is faster than it.
pub fn table(title: &str, rows: &[Row], limit: Option<Duration>) -> String {
    let mut text = format!("### {title}\n");
    let base = rows.first().map_or("?", |row| row.name.as_str());
    let mut line = |words: String| writeln!(text, "{words}").unwrap_or_default(); // writing to a String cannot fail
    line(format!("| program | n | returned s | durable s | CPU s | RSS MiB | returned / {base} | durable / {base} |"));
    line("|---|---|---|---|---|---|---|---|".into());
    let first = rows.first().and_then(|row| Some((row.returned()?.median, row.durable()?.median)));
    for row in rows {
        let (Some(returned), Some(durable)) = (row.returned(), row.durable()) else {
            line(format!("| {} | 0 | {} | | | | | |", row.name, row.refused.as_deref().unwrap_or("no runs")));
            continue;
        };
        let cpu = spread(row.samples.iter().map(|sample| (sample.user + sample.system).as_secs_f64()));
        let memory = row.samples.iter().map(|sample| sample.peak_memory).max().unwrap_or(0).div_ceil(1 << 20);
        let disturbed = row.samples.iter().filter(|sample| sample.is_disturbed()).count();
        let ratio =
            |own: f64, other: Option<f64>| other.map_or_else(|| "?".into(), |other| format!("{:.2}", own / other));
        line(format!(
            "| {}{} | {} | {} | {} | {} | {memory} | {} | {} |",
            row.name,
            if disturbed > 0 { format!(" ({disturbed} disturbed)") } else { String::new() },
            row.samples.len(),
            range(returned),
            range(durable),
            cpu.map_or_else(String::new, |cpu| seconds(cpu.median)),
            ratio(returned.median, first.map(|(returned, _)| returned)),
            ratio(durable.median, first.map(|(_, durable)| durable)),
        ));
    }
    if let Some(limit) = limit {
        let limit = seconds(limit.as_secs_f64());
        line(format!("| limit: fresh data, O_DIRECT, 8 MiB, depth 4 | 1 | | {limit} | | | | |"));
    }
    text
}

/// Three digits that matter.
pub fn seconds(time: f64) -> String {
    match time {
        time if time < 0.1 => format!("{time:.4}"),
        time if time < 10.0 => format!("{time:.2}"),
        time => format!("{time:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(returned: u64, durable: u64) -> Cost {
        let (returned, durable) = (Duration::from_millis(returned), Duration::from_millis(durable));
        Cost { returned, durable, user: returned, peak_memory: 2 << 20, ..Cost::default() }
    }

    #[test]
    fn ratios_are_of_medians_against_the_first_row() {
        let row = |name: &str, samples: Vec<Cost>| Row { name: name.into(), samples, refused: None };
        let rows = [
            row("cp", vec![sample(900, 2000), sample(1000, 2000), sample(9000, 9000)]),
            row("haul", vec![sample(500, 1500)]),
        ];
        let text = table("place", &rows, None);
        assert!(text.contains("| cp | 3 | 1.00 (0.90-9.00) | 2.00 (2.00-9.00) | 1.00 | 2 | 1.00 | 1.00 |"), "{text}");
        assert!(text.contains("| haul | 1 | 0.50 (0.50-0.50) | 1.50 (1.50-1.50) | 0.50 | 2 | 0.50 | 0.75 |"), "{text}");
    }

    #[test]
    fn a_program_that_refuses_has_a_row_that_says_why() {
        let rows = [Row { name: "x".into(), samples: vec![], refused: Some("exit status: 1: no".into()) }];
        assert!(table("place", &rows, None).contains("| x | 0 | exit status: 1: no |"));
    }
}
