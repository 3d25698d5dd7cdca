//! Which job the launcher of this process, a batch system, says that it is a part of.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use haul_copy::plan::Job;

/// Which job a batch system says that this process is a part of, the same for all parts, and for one that it starts again.
pub fn job(variable: impl Fn(&str) -> Option<OsString>) -> Job {
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
    fn the_launcher_names_one_job_for_all_its_parts() {
        let of = |variables: &[(&str, &str)]| {
            super::job(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
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
