//! How far every rank is, for somebody who asks while the job runs (SIGUSR1). Pure.

use std::time::{Duration, Instant};

use haul_frontend::size::human_size;
use serde::{Deserialize, Serialize};

/// How long rank 0 waits for answers: a rank answers between two messages, unless its machine is in trouble.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Ranks that are named because they have not answered.
const NAMED: usize = 8;

/// How far one rank is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Bytes that are done.
    pub bytes: u64,
    /// Entries that were begun.
    pub entries: u64,
    /// Errors so far.
    pub errors: u64,
}

/// The answers of all ranks to one question.
#[derive(Debug)]
pub struct Survey {
    asked: Instant,
    answers: Vec<Option<Standing>>,
}

impl Survey {
    /// Of so many ranks; rank 0 asks, and knows its own answer.
    pub fn new(ranks: usize, own: Standing) -> Survey {
        let mut answers = vec![None; ranks];
        if let Some(first) = answers.first_mut() {
            *first = Some(own);
        }
        Survey { asked: Instant::now(), answers }
    }

    /// A rank has answered.
    pub fn hear(&mut self, rank: usize, standing: Standing) {
        if let Some(answer) = self.answers.get_mut(rank) {
            *answer = Some(standing);
        }
    }

    /// Nobody is waited for any more.
    pub fn is_over(&self) -> bool {
        self.answers.iter().all(Option::is_some) || self.asked.elapsed() >= PATIENCE
    }

    /// Lines for the user, a time after the start of the job. `totals`: bytes and entries that there are, if that is known;
    /// `label`: how messages name a rank.
    pub fn report(&self, after: Duration, totals: Option<(u64, u64)>, label: &dyn Fn(usize) -> String) -> Vec<String> {
        let heard: Vec<(usize, Standing)> =
            self.answers.iter().enumerate().filter_map(|(rank, answer)| Some((rank, (*answer)?))).collect();
        let sum = heard.iter().fold(Standing::default(), |sum, (_, one)| Standing {
            bytes: sum.bytes + one.bytes,
            entries: sum.entries + one.entries,
            errors: sum.errors + one.errors,
        });
        let seconds = after.as_secs_f64().max(0.001);
        // A rate need not be exact to the byte.
        let rate = human_size((sum.bytes as f64 / seconds) as u64);
        let done = match totals {
            Some((bytes, entries)) => format!(
                "{} of {entries} entries, {} of {}, {rate}/s, {} left",
                sum.entries,
                human_size(sum.bytes),
                human_size(bytes),
                left(after, sum, (bytes, entries)).map_or("unknown time".to_owned(), clock)
            ),
            None => format!("{} entries, {}, {rate}/s", sum.entries, human_size(sum.bytes)),
        };
        let errors = if sum.errors == 1 { "1 error".to_owned() } else { format!("{} errors", sum.errors) };
        let mut lines = vec![format!("after {}: {done}, {errors}", clock(after))];
        if let Some((rank, slowest)) = heard.iter().min_by_key(|(_, one)| (one.bytes, one.entries))
            && heard.len() > 1
        {
            let done = human_size(slowest.bytes);
            lines.push(format!("least was done by {}: {} entries, {done}", label(*rank), slowest.entries));
        }
        let silent: Vec<usize> =
            self.answers.iter().enumerate().filter(|(_, answer)| answer.is_none()).map(|(rank, _)| rank).collect();
        if !silent.is_empty() {
            let named: Vec<String> = silent.iter().take(NAMED).map(|rank| label(*rank)).collect();
            let more = silent.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            lines.push(format!("no answer in {} s from {}{more}", PATIENCE.as_secs(), named.join(", ")));
        }
        lines
    }
}

/// By what has come so far, of bytes if there are any.
fn left(after: Duration, done: Standing, (bytes, entries): (u64, u64)) -> Option<Duration> {
    let (done, all) = if bytes > 0 { (done.bytes, bytes) } else { (done.entries, entries) };
    let part = all.saturating_sub(done) as f64 / done as f64;
    Duration::try_from_secs_f64(after.as_secs_f64() * part).ok()
}

/// "1:02:03", or "2:03" below an hour.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(rank: usize) -> String {
        format!("rank {rank} on node{rank}")
    }

    #[test]
    fn the_report_has_the_sum_and_who_has_done_least() {
        let mut survey = Survey::new(3, Standing { bytes: 3 << 30, entries: 300, errors: 0 });
        assert!(!survey.is_over());
        survey.hear(1, Standing { bytes: 1 << 30, entries: 10, errors: 1 });
        survey.hear(2, Standing { bytes: 2 << 30, entries: 20, errors: 1 });
        assert!(survey.is_over());
        let after = Duration::from_secs(3723);
        assert_eq!(
            survey.report(after, None, &label),
            [
                "after 1:02:03: 330 entries, 6.0 GiB, 1.7 MiB/s, 2 errors",
                "least was done by rank 1 on node1: 10 entries, 1.0 GiB",
            ]
        );
        let lines = survey.report(after, Some((12 << 30, 600)), &label);
        assert!(
            lines[0].contains("330 of 600 entries, 6.0 GiB of 12.0 GiB") && lines[0].contains(" 1:02:03 left"),
            "{lines:?}"
        );
    }

    #[test]
    fn ranks_that_do_not_answer_are_named() {
        let survey = Survey::new(12, Standing::default());
        let lines = survey.report(Duration::from_secs(5), Some((0, 0)), &label);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].contains("unknown time left, 0 errors"), "{lines:?}");
        assert!(lines[1].starts_with("no answer in 2 s from rank 1 on node1, ") && lines[1].ends_with(", and 3 more"));
    }
}
