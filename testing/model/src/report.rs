//! What a simulation has found, and how it is shown.

use std::fmt::Write as _;

/// The kinds of messages, in the order of [`Report::messages`].
pub(crate) const MESSAGES: [&str; 8] = ["want", "no", "work unit", "chunk", "done", "hard link", "error", "end"];

/// Messages on a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flow {
    /// All of them.
    pub total: u64,
    /// In the second that had most.
    pub peak: u64,
}

/// What a simulation has found. Shares are of 1, of the time that the copy took.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Processes.
    pub ranks: u64,
    /// Nodes that they were on.
    pub nodes: u64,
    /// Threads of each rank.
    pub threads: u64,
    /// From the start of the job until all ranks know how it has ended.
    pub seconds: f64,
    /// Regular files copied, without large ones.
    pub files: u64,
    /// Large files copied.
    pub large_files: u64,
    /// Directories made.
    pub directories: u64,
    /// Bytes copied.
    pub bytes: u64,
    /// How busy the metadata servers were, on average.
    pub metadata_busy: f64,
    /// And the busiest of them.
    pub metadata_busiest: f64,
    /// How much of the read bandwidth was used.
    pub read_busy: f64,
    /// How much of the write bandwidth was used.
    pub write_busy: f64,
    /// How busy the processors were, without communication.
    pub processors_busy: f64,
    /// How busy the busiest communication thread was with messages.
    pub communication_busiest: f64,
    /// Part of the time that a thread had nothing to do, on average.
    pub idle: f64,
    /// And on the rank that had least to do.
    pub idle_most: f64,
    /// From the last finished directory until the end.
    pub end_seconds: f64,
    /// Messages by kind, see `MESSAGES`; those that say how far a rank is are not among them.
    pub messages: [u64; 8],
    /// Messages that say how far a rank is.
    pub progress_messages: u64,
    /// From and to rank 0, without those that say how far a rank is.
    pub at_rank_0: Flow,
    /// Into and out of the node whose network link had most.
    pub busiest_node: Flow,
    /// Most requests for work that waited at one rank.
    pub longest_queue: u64,
    /// Most bytes that one rank needed for directories, names and counts.
    pub memory: u64,
    /// Bytes of a rank's part of the table of hard links.
    pub link_table: u64,
    /// Directories and files that were not finished; anything but 0 would be a mistake of the model.
    pub left_over: u64,
    /// Events of the simulation.
    pub events: u64,
}

impl Report {
    /// Files per second.
    pub(crate) fn files_per_second(&self) -> f64 {
        (self.files + self.large_files) as f64 / self.seconds
    }

    /// Bytes per second.
    pub(crate) fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.seconds
    }

    /// Messages of all kinds, without those that say how far a rank is.
    pub fn messages_together(&self) -> u64 {
        self.messages.iter().sum()
    }

    /// All of it, one line for each figure.
    pub fn text(&self) -> String {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let per_second =
            |flow: Flow| format!("{} ({:.1}/s, at most {}/s)", flow.total, flow.total as f64 / self.seconds, flow.peak);
        let mut text = String::new();
        let mut line = |name: &str, value: String| writeln!(text, "{name:<34}{value}").expect("writing to a string");
        line("ranks, nodes, threads of a rank", format!("{}, {}, {}", self.ranks, self.nodes, self.threads));
        line("seconds", significant(self.seconds));
        line("files", format!("{} and {} large", self.files, self.large_files));
        line("directories", self.directories.to_string());
        line("bytes", self.bytes.to_string());
        line("files/s", significant(self.files_per_second()));
        line("bytes/s", scaled(self.bytes_per_second()));
        line(
            "metadata servers busy",
            format!("{}, the busiest {}", percent(self.metadata_busy), percent(self.metadata_busiest)),
        );
        line("read, write bandwidth used", format!("{}, {}", percent(self.read_busy), percent(self.write_busy)));
        line("processors busy", percent(self.processors_busy));
        line("threads without work", format!("{}, most {}", percent(self.idle), percent(self.idle_most)));
        line("busiest communication thread", percent(self.communication_busiest));
        line("end of the job, seconds", significant(self.end_seconds));
        for (name, count) in MESSAGES.iter().zip(self.messages) {
            line(&format!("messages: {name}"), count.to_string());
        }
        line("messages: progress", self.progress_messages.to_string());
        line("messages at rank 0", per_second(self.at_rank_0));
        line("messages of the busiest node", per_second(self.busiest_node));
        line("longest queue of requests", self.longest_queue.to_string());
        line("memory of a rank, bytes, at most", self.memory.to_string());
        line("hard link table of a rank, bytes", self.link_table.to_string());
        line("events simulated", self.events.to_string());
        text
    }
}

/// What stands in a column of a sweep, by the report and the first of all.
type Cell = fn(&Report, &Report) -> String;

/// The columns of a sweep.
const COLUMNS: &[(&str, Cell)] = &[
    ("ranks", |report, _| report.ranks.to_string()),
    ("nodes", |report, _| report.nodes.to_string()),
    ("seconds", |report, _| significant(report.seconds)),
    ("times faster", |report, first| significant(first.seconds / report.seconds)),
    ("files/s", |report, _| significant(report.files_per_second())),
    ("bytes/s", |report, _| scaled(report.bytes_per_second())),
    ("metadata busy %", |report, _| format!("{:.0}", report.metadata_busy * 100.0)),
    ("write used %", |report, _| format!("{:.0}", report.write_busy * 100.0)),
    ("idle %", |report, _| format!("{:.1}", report.idle * 100.0)),
    ("messages", |report, _| report.messages_together().to_string()),
    ("at rank 0, /s, peak", |report, _| report.at_rank_0.peak.to_string()),
    ("busiest node, /s, peak", |report, _| report.busiest_node.peak.to_string()),
    ("memory of a rank, KiB", |report, _| (report.memory.div_ceil(1024)).to_string()),
];

/// A table of several runs, each compared with the first: Markdown, or CSV.
pub(crate) fn sweep_table(reports: &[Report], csv: bool) -> String {
    let Some(first) = reports.first() else { return String::new() };
    let header: Vec<String> = COLUMNS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let rows: Vec<Vec<String>> =
        reports.iter().map(|report| COLUMNS.iter().map(|(_, cell)| cell(report, first)).collect()).collect();
    table(&header, &rows, csv)
}

/// A table as Markdown or CSV.
pub(crate) fn table(header: &[String], rows: &[Vec<String>], csv: bool) -> String {
    let mut text = String::new();
    if csv {
        for row in std::iter::once(header).chain(rows.iter().map(Vec::as_slice)) {
            let cells: Vec<String> =
                row.iter().map(|cell| if cell.contains(',') { format!("\"{cell}\"") } else { cell.clone() }).collect();
            writeln!(text, "{}", cells.join(",")).expect("writing to a string");
        }
        return text;
    }
    writeln!(text, "| {} |\n|{}", header.join(" | "), "---:|".repeat(header.len())).expect("writing to a string");
    for row in rows {
        writeln!(text, "| {} |", row.join(" | ")).expect("writing to a string");
    }
    text
}

/// A number with three digits that count.
pub(crate) fn significant(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    match digits {
        3.. => format!("{value:.0}"),
        _ => format!("{value:.*}", (2 - digits).clamp(0, 9) as usize),
    }
}

/// A rate of bytes with a unit: powers of 1000.
fn scaled(value: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match units.iter().find(|(unit, _)| value >= *unit) {
        Some((unit, name)) => format!("{} {name}", significant(value / unit)),
        None => significant(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_count() {
        for (value, text) in [(0.0, "0.00"), (0.012_345, "0.0123"), (1.0, "1.00"), (99.94, "99.9"), (12_345.6, "12346")]
        {
            assert_eq!(significant(value), text);
        }
        assert_eq!(scaled(2.5e9), "2.50 G");
    }
}
