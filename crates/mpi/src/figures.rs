//! What each process has done, on its way to rank 0 and to the user.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use haul_copy::plan::EngineName;
use haul_copy::run::Summary;
use haul_copy::stats::{EngineStats, Stats};
use haul_frontend::record;
use haul_frontend::show::StatsFormat;
use haul_frontend::size::human_size;
use haul_io::moved::Moved;
use haul_sys::process_state::Usage;
use serde::{Deserialize, Serialize};

/// The account of one process.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Account {
    /// Its number.
    pub rank: usize,
    /// The machine that it runs on.
    pub host: String,
    /// Something that was asked for was not done, or could not be written down.
    pub failed: bool,
    cancelled: bool,
    /// The signal that it got, if that was one that stops the job.
    pub signal: Option<i32>,
    damaged: Vec<Vec<u8>>,
    journal: Option<Vec<u8>>,
    /// In the order of the fields of [`Stats`].
    counts: Vec<u64>,
    /// How many entries each rule of the filter has decided about.
    rule_hits: Vec<u64>,
    moved: [u64; 4],
    /// Seconds of walking, of data, of metadata and of waiting for the device.
    spent: [f64; 4],
    engines: Vec<(String, u64, u64, [u64; 4])>,
    /// Seconds of the processor in user and in system mode.
    pub user: f64,
    system: f64,
    /// Most memory that it had, in bytes.
    memory: u64,
    /// Seconds from the beginning of its run to the end.
    time: f64,
    /// Bytes of sources that came from other ranks.
    received: u64,
}

impl Account {
    /// Of this process.
    pub fn new(rank: usize, host: &str, summary: &Summary, failed: bool, usage: &Usage, time: Duration) -> Account {
        let stats = &summary.stats;
        let engines = stats.engines.iter();
        Account {
            rank,
            host: host.to_owned(),
            // A rank that was stopped may have skipped something that all others were done with.
            failed: failed
                || summary.failed && !summary.failed_elsewhere
                || summary.cancelled
                || !summary.damaged.is_empty(),
            cancelled: summary.cancelled,
            signal: None,
            damaged: summary.damaged.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect(),
            journal: summary.journal.as_ref().map(|path| path.as_os_str().as_bytes().to_vec()),
            counts: counts(stats),
            rule_hits: stats.rule_hits.clone(),
            moved: ways(&stats.moved),
            spent: [stats.walk_time, stats.data_time, stats.metadata_time, stats.sync_time]
                .map(|time| time.as_secs_f64()),
            engines: engines
                .map(|(name, engine)| (name.as_str().to_owned(), engine.files, engine.refusals, ways(&engine.moved)))
                .collect(),
            user: usage.user.as_secs_f64(),
            system: usage.system.as_secs_f64(),
            memory: usage.peak_memory,
            time: time.as_secs_f64(),
            received: 0,
        }
    }

    /// With so many bytes of sources from other ranks.
    pub fn with_received(self, received: u64) -> Account {
        Account { received, ..self }
    }

    /// Of a process that got this signal, or none.
    pub fn with_signal(self, signal: Option<i32>) -> Account {
        Account { signal, ..self }
    }

    /// As a summary of a run. What disk images were found to be is reported where they were copied.
    pub fn summary(&self) -> Summary {
        let path = |bytes: &Vec<u8>| PathBuf::from(OsString::from_vec(bytes.clone()));
        let mut stats = Stats { moved: moved(self.moved), rule_hits: self.rule_hits.clone(), ..Stats::default() };
        for (count, sent) in stats.counters_mut().into_iter().zip(&self.counts) {
            *count = *sent;
        }
        let spent = self.spent.map(|time| Duration::try_from_secs_f64(time).unwrap_or_default());
        [stats.walk_time, stats.data_time, stats.metadata_time, stats.sync_time] = spent;
        stats.engines = self
            .engines
            .iter()
            .filter_map(|(name, files, refusals, by)| {
                let stats = EngineStats { files: *files, refusals: *refusals, moved: moved(*by) };
                EngineName::ALL.iter().find(|known| known.as_str() == name).map(|name| (*name, stats))
            })
            .collect::<BTreeMap<_, _>>();
        Summary {
            failed: self.failed,
            cancelled: self.cancelled,
            damaged: self.damaged.iter().map(path).collect(),
            journal: self.journal.as_ref().map(path),
            stats,
            ..Summary::default()
        }
    }

    /// Adds what the kernel counts of this process to that of all.
    pub fn add_to(&self, usage: &mut Usage) {
        usage.user += Duration::try_from_secs_f64(self.user).unwrap_or_default();
        usage.system += Duration::try_from_secs_f64(self.system).unwrap_or_default();
        usage.peak_memory = usage.peak_memory.max(self.memory);
    }
}

/// The counters of a run. What is known of single images stays behind, but for their number.
fn counts(stats: &Stats) -> Vec<u64> {
    let left_out = stats.images_left_out + stats.images.len() as u64;
    Stats { images_left_out: left_out, ..stats.clone() }.counters().to_vec()
}

fn ways(moved: &Moved) -> [u64; 4] {
    [moved.cloned, moved.offloaded, moved.written, moved.holes]
}

fn moved([cloned, offloaded, written, holes]: [u64; 4]) -> Moved {
    Moved { cloned, offloaded, written, holes }
}

/// One line for each process.
pub fn show(format: StatsFormat, accounts: &[Account]) -> String {
    match format {
        StatsFormat::Text => table(accounts),
        StatsFormat::Json => accounts.iter().map(json).collect(),
    }
}

/// For people.
fn table(accounts: &[Account]) -> String {
    let mut text = String::from(
        "rank  host              files   dirs      bytes  given  taken  chunks    wall s   user s   sys s     memory\n",
    );
    for account in accounts {
        let stats = account.summary().stats;
        let host: String = account.host.chars().take(16).collect();
        // Writing to a String cannot fail.
        writeln!(
            text,
            "{:>4}  {host:<16} {:>6} {:>6} {:>10} {:>6} {:>6} {:>7} {:>9.3} {:>8.3} {:>7.3} {:>10}",
            account.rank,
            stats.regular,
            stats.directories,
            human_size(stats.moved.total()),
            stats.given_away,
            stats.work_units,
            stats.chunks,
            account.time,
            account.user,
            account.system,
            human_size(account.memory),
        )
        .unwrap_or_default();
    }
    for account in accounts.iter().filter(|account| account.received > 0) {
        let received = human_size(account.received);
        writeln!(text, "rank {} received {received} of the sources from other ranks", account.rank).unwrap_or_default();
    }
    text
}

/// One process, for programs (`--stats=json`).
#[derive(Serialize)]
struct RankRecord<'a> {
    record: &'static str,
    version: u32,
    rank: usize,
    host: &'a str,
    failed: bool,
    files: u64,
    directories: u64,
    bytes: u64,
    given_away: u64,
    work_units: u64,
    chunks: u64,
    received_bytes: u64,
    errors: u64,
    wall_seconds: f64,
    user_seconds: f64,
    system_seconds: f64,
    peak_memory_bytes: u64,
}

/// One record of one process.
fn json(account: &Account) -> String {
    let stats = account.summary().stats;
    record::line(&RankRecord {
        record: "haul-mpi-rank",
        version: 1,
        rank: account.rank,
        host: &account.host,
        failed: account.failed,
        files: stats.regular,
        directories: stats.directories,
        bytes: stats.moved.total(),
        given_away: stats.given_away,
        work_units: stats.work_units,
        chunks: stats.chunks,
        received_bytes: account.received,
        errors: stats.errors,
        wall_seconds: account.time,
        user_seconds: account.user,
        system_seconds: account.system,
        peak_memory_bytes: account.memory,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_arrives_as_it_was_sent() {
        let mut stats = Stats { regular: 3, errors: 1, work_units: 4, chunks: 9, ..Stats::default() };
        stats.moved = Moved { cloned: 1, offloaded: 2, written: 3, holes: 4 };
        stats.engines.insert(EngineName::CopyRange, EngineStats { files: 3, moved: stats.moved, refusals: 1 });
        let damaged = vec![PathBuf::from(OsString::from_vec(b"bad\xff".to_vec()))];
        let summary = Summary { failed: true, damaged, stats, ..Summary::default() };
        let usage = Usage::default();
        let sent = Account::new(2, "node", &summary, false, &usage, Duration::from_secs(1));
        let bytes = serde_json::to_vec(&sent).unwrap();
        let arrived = serde_json::from_slice::<Account>(&bytes).unwrap().summary();
        assert_eq!((arrived.failed, &arrived.damaged), (true, &summary.damaged));
        assert_eq!(arrived.stats, summary.stats);
        assert!(table(&[sent]).contains("node"));
    }

    #[test]
    fn a_rank_has_not_failed_because_another_one_has() {
        let account = |summary: &Summary| {
            Account::new(0, "node", summary, false, &Usage::default(), Duration::from_secs(1)).failed
        };
        let failed = Summary { failed: true, ..Summary::default() };
        assert!(account(&failed) && !account(&Summary { failed_elsewhere: true, ..failed }));
    }

    #[test]
    fn words_of_the_table_stand_apart_however_long_they_are() {
        let stats = Stats { regular: 12_345_678, directories: 1_234_567, chunks: 12_345_678, ..Stats::default() };
        let moved = Moved { written: 1000 << 10, ..Moved::default() };
        let summary = Summary { stats: Stats { moved, ..stats }, ..Summary::default() };
        let sent = Account::new(12_345, "a-name-of-a-host", &summary, false, &Usage::default(), Duration::from_secs(1));
        let table = table(&[Account { memory: 1000 << 20, ..sent }]);
        let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
        let expected = "12345 a-name-of-a-host 12345678 1234567 1000.0 KiB 0 0 12345678 1.000 0.000 0.000 1000.0 MiB";
        assert_eq!(row.join(" "), expected);
    }
}
