//! The shards of a copy: of which job this process is one, and what they have done, for the user.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use haul_copy::plan::{Job, Plan};
use haul_copy::run::{self, ShardReport};
use haul_frontend::exit;
use haul_frontend::report::Report;
use haul_frontend::words;

/// Reports what the shards of a job have done, and whether this one is to be run again: on standard error where standard output
/// is a list of digests.
pub fn report(shards: &ShardReport, is_list: bool, report: &Report) {
    if !shards.own_is_done {
        report.complain(&not_done(&shards.record, report));
    }
    match is_list {
        true => report.complain(summary(shards).as_bytes()),
        false => report.screen().print((summary(shards) + "\n").as_bytes()),
    }
}

/// `--shard=status`: 0 if all are done, 1 if one is missing or nothing can be said.
pub fn status(plan: &Plan, report: &Report) -> u8 {
    let complete = match run::shard_status(plan) {
        Ok(Some(shards)) => {
            let other = match &plan.job {
                Job::Named(id) => Some(id.as_encoded_bytes().escape_ascii().to_string()).filter(|id| *id != shards.job),
                Job::Recorded | Job::Launched(_) => None,
            };
            match &other {
                Some(id) => {
                    let of = if shards.job.is_empty() { "one without an ID".to_owned() } else { shards.job.clone() };
                    report.complain(format!("job {id} is unknown; the last one is {of}").as_bytes());
                }
                None => report.screen().print((summary(&shards) + "\n").as_bytes()),
            }
            other.is_none() && shards.missing.is_empty()
        }
        Ok(None) => {
            report.screen().print(b"no shard of this copy has begun\n");
            false
        }
        Err(error) => {
            report.complain(&words::message(&error, report.quoter()));
            false
        }
    };
    if report.finish() && complete { exit::SUCCESS } else { exit::FAILURE }
}

/// `k of N shards are done`, and which are missing.
fn summary(shards: &ShardReport) -> String {
    let job = if shards.job.is_empty() { String::new() } else { format!("job {}: ", shards.job) };
    let done = shards.count - u32::try_from(shards.missing.len()).unwrap_or(shards.count).min(shards.count);
    let all = format!("{job}{done} of {} shards are done", shards.count);
    match shards.missing.is_empty() {
        true => format!("{all}: the copy is complete"),
        false => format!(
            "{all}; missing: {}; until the last one has ended, directories may be closed to others",
            ranges(&shards.missing)
        ),
    }
}

/// `1-3, 7`
fn ranges(numbers: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let shown = |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    runs.iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// What is said of a shard that is to be run again.
fn not_done(state: &Path, report: &Report) -> Vec<u8> {
    let state = report.quoter().path(state);
    [b"this shard is not done; run the same command again to repeat it (record: ", &state[..], b")"].concat()
}

/// Which job a batch system says that this process is a part of, the same for all parts, and for one that it starts again.
pub(crate) fn launched_job(variable: impl Fn(&str) -> Option<OsString>) -> Job {
    let given = |name: &str| variable(name).filter(|value| !value.is_empty());
    // JOB_ID alone may be anybody's.
    let grid_engine = || given("SGE_TASK_ID").and_then(|_| given("JOB_ID"));
    let id = given("SLURM_ARRAY_JOB_ID")
        .or_else(|| given("SLURM_JOB_ID"))
        .or_else(|| given("PBS_JOBID").map(|id| without_index(&id)))
        .or_else(|| given("LSB_JOBID"))
        .or_else(grid_engine);
    id.map_or(Job::Recorded, Job::Launched)
}

/// `1234[5].server`, which PBS calls one part of `1234[].server`.
fn without_index(id: &OsStr) -> OsString {
    let bytes = id.as_bytes();
    let index = |from, to| bytes.iter().position(|byte| *byte == from).zip(bytes.iter().position(|byte| *byte == to));
    match index(b'[', b']') {
        Some((start, end)) if start < end => OsString::from_vec([&bytes[..=start], &bytes[end..]].concat()),
        _ => id.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_among_missing_shards_are_ranges() {
        assert_eq!(ranges(&[7]), "7");
        assert_eq!(ranges(&[1, 2, 3, 7, 9, 10]), "1-3, 7, 9-10");
        assert_eq!(ranges(&[u32::MAX - 1, u32::MAX]), format!("{}-{}", u32::MAX - 1, u32::MAX));
    }

    #[test]
    fn the_launcher_names_one_job_for_all_its_parts() {
        let of = |variables: &[(&str, &str)]| {
            launched_job(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
        };
        let job = |id: &str| Job::Launched(id.into());
        assert_eq!(of(&[]), Job::Recorded);
        assert_eq!(of(&[("SLURM_ARRAY_JOB_ID", "100"), ("SLURM_JOB_ID", "107")]), job("100"));
        assert_eq!(of(&[("SLURM_ARRAY_JOB_ID", ""), ("SLURM_JOB_ID", "107")]), job("107"));
        assert_eq!(of(&[("PBS_JOBID", "1234[5].server")]), job("1234[].server"));
        assert_eq!(of(&[("PBS_JOBID", "1234.server")]), job("1234.server"));
        assert_eq!(of(&[("PBS_JOBID", "]1234[")]), job("]1234["));
        assert_eq!(of(&[("LSB_JOBID", "7"), ("LSB_JOBINDEX", "3")]), job("7"));
        assert_eq!(of(&[("JOB_ID", "9"), ("SGE_TASK_ID", "2")]), job("9"));
        assert_eq!(of(&[("JOB_ID", "anything")]), Job::Recorded);
    }
}
