//! Times by number of threads, and what follows from them. Pure.

use std::fmt::Write;

use super::super::peers::record::{Row, Table};
use super::super::report::{range, seconds};
use crate::shell::Result;
use haul_measure::stats::Spread;

/// What counts as scaling.
const EFFICIENT: f64 = 0.8;

/// The times of one workload.
pub struct Curve {
    pub name: String,
    pub cores: usize,
    /// By number of threads.
    pub points: Vec<Point>,
    /// With the number that haul chooses while it copies.
    auto: Option<Point>,
    /// Runs beside which the machine did something else.
    disturbed: usize,
}

pub struct Point {
    pub threads: usize,
    time: Spread,
    /// User and system time, in seconds.
    cpu: f64,
}

impl Curve {
    /// Of a table whose rows are haul with and without `-jN`.
    ///
    /// # Errors
    /// When one was not timed.
    pub fn new(name: String, cores: usize, table: &Table) -> Result<Curve> {
        let mut curve = Curve { name, cores, points: Vec::new(), auto: None, disturbed: 0 };
        for row in &table.rows {
            let point = point(row).ok_or_else(|| format!("{} was not timed", row.name))?;
            match point.threads {
                0 => curve.auto = Some(point),
                _ => curve.points.push(point),
            }
            curve.disturbed += row.samples.iter().filter(|sample| sample.disturbed).count();
        }
        if curve.points.is_empty() { Err("no number of threads was timed".into()) } else { Ok(curve) }
    }

    /// How much faster than with one thread.
    pub fn speed_up(&self, point: &Point) -> f64 {
        self.points[0].time.median / point.time.median
    }

    /// The share of the cores in use that this is worth.
    fn efficiency(&self, point: &Point) -> f64 {
        self.speed_up(point) / point.threads.min(self.cores) as f64
    }

    fn best(&self) -> &Point {
        self.points.iter().min_by(|a, b| a.time.median.total_cmp(&b.time.median)).unwrap_or(&self.points[0])
    }

    /// A Markdown table.
    pub fn table(&self, place: &str, title: &str) -> String {
        let mut text = format!("### {}: {title}\n\n{place}\n\n", self.name);
        let mut line = |words: String| writeln!(text, "{words}").unwrap_or_default(); // writing to a String cannot fail
        line("| threads | seconds | speed-up | efficiency | CPU s | against one thread |".into());
        line("|---|---|---|---|---|---|".into());
        let first = self.points[0].cpu.max(f64::MIN_POSITIVE);
        let rows = self.points.iter().map(|point| (point.threads.to_string(), point, Some(self.efficiency(point))));
        for (threads, point, efficiency) in rows.chain(self.auto.iter().map(|point| ("auto".to_owned(), point, None))) {
            line(format!(
                "| {threads} | {} | {:.2} | {} | {} | {:.2} |",
                range(point.time),
                self.speed_up(point),
                efficiency.map_or_else(String::new, |share| format!("{:.0} %", 100.0 * share)),
                seconds(point.cpu),
                point.cpu / first,
            ));
        }
        text
    }

    /// In a sentence: how far it scales, and how near to the best haul's own choice and the most threads are.
    pub fn verdict(&self) -> String {
        let best = self.best();
        let scales = self.points.iter().take_while(|point| point.threads <= self.cores);
        let efficient = scales.filter(|point| self.efficiency(point) >= EFFICIENT).map(|point| point.threads).max();
        let mut text = format!(
            "{}: at least 80 % efficiency up to {} of {} cores; best with {} threads ({:.2} times one)",
            self.name,
            efficient.unwrap_or(1),
            self.cores,
            best.threads,
            self.speed_up(best),
        );
        let against_best = |point: &Point| point.time.median / best.time.median;
        if let Some(auto) = &self.auto {
            text += &format!("; auto takes {:.2} times as long as the best", against_best(auto));
        }
        if let Some(most) = self.points.last() {
            text += &format!("; {} threads {:.2}", most.threads, against_best(most));
        }
        if self.disturbed > 0 {
            text += &format!("; {} runs were disturbed", self.disturbed);
        }
        text
    }
}

/// `None` where it was not timed; 0 threads is haul's own choice.
fn point(row: &Row) -> Option<Point> {
    let threads = row.name.split(' ').find_map(|word| word.strip_prefix("-j")?.parse().ok()).unwrap_or(0);
    Some(Point { threads, time: row.returned()?, cpu: row.cpu()?.median })
}

#[cfg(test)]
mod tests {
    use super::super::super::peers::record::tests::{row, table};
    use super::super::super::peers::target::Target;
    use super::*;

    fn curve() -> Curve {
        let rows = vec![
            row("haul -a", &[(2.2, 3.0)]),
            row("haul -j1 -a", &[(8.0, 9.0)]),
            row("haul -j2 -a", &[(4.0, 5.0)]),
            row("haul -j4 -a", &[(2.0, 3.0)]),
            row("haul -j8 -a", &[(2.5, 3.0)]),
        ];
        Curve::new("tmpfs, many".into(), 4, &table("many", Target::default(), rows)).unwrap()
    }

    #[test]
    fn efficiency_is_the_speed_up_by_the_cores_in_use() {
        let curve = curve();
        let efficiencies: Vec<f64> = curve.points.iter().map(|point| curve.efficiency(point)).collect();
        assert_eq!(efficiencies, [1.0, 1.0, 1.0, 0.8]);
    }

    #[test]
    fn the_verdict_compares_the_own_choice_and_the_most_threads_with_the_best() {
        assert_eq!(
            curve().verdict(),
            "tmpfs, many: at least 80 % efficiency up to 4 of 4 cores; best with 4 threads (4.00 times one); \
             auto takes 1.10 times as long as the best; 8 threads 1.25"
        );
    }

    #[test]
    fn what_was_not_timed_is_an_error() {
        let rows = vec![row("haul -j1 -a", &[])];
        assert!(Curve::new("x".into(), 4, &table("many", Target::default(), rows)).is_err());
    }
}
