//! `--manifest-out`, `--from-manifest`, `--shard` and `--job`; and which job the launcher of this process says that it is of.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use haul_copy::manifest::{MOST_SHARDS, Shard};
use haul_copy::plan::Job;

use super::{Complaint, Draft, fatal, misuse};
use crate::flags::{Flag, Id};

impl Draft<'_> {
    /// Any of the four.
    pub(super) fn parts(&mut self, flag: &Flag, value: &OsStr) -> Result<(), Complaint> {
        match flag.id {
            Id::ManifestOut => self.run.list_out = Some(PathBuf::from(value)),
            Id::FromManifest => self.run.list = Some(PathBuf::from(value)),
            Id::Job => {
                self.run.job_is_given = true;
                self.plan.job = if value.is_empty() { Job::Recorded } else { Job::Named(value.to_owned()) };
            }
            _ if value == "status" => {
                self.run.shard_status = true;
                // Which one does not matter; the rest of the command line is that of all.
                self.plan.shard = Shard::new(1, 1);
            }
            _ => {
                self.run.shard_status = false;
                let shard = shard(value.as_bytes()).ok_or_else(|| {
                    let quoted = self.quoter.always(value.as_bytes());
                    let wanted = format!(": I/N or status is wanted, with I from 1 to N, and N up to {MOST_SHARDS}");
                    fatal([b"invalid --shard argument ", &quoted[..], wanted.as_bytes()].concat())
                })?;
                self.plan.shard = Some(shard);
            }
        }
        Ok(())
    }

    /// What they need of each other and of other options.
    pub(super) fn settle_parts(&self) -> Result<(), Complaint> {
        let (out, from) = (self.run.list_out.is_some(), self.run.list.is_some());
        let name = match (out, from, self.plan.shard.is_some()) {
            (true, true, _) => return Err(misuse("--manifest-out does not go with --from-manifest")),
            (true, _, true) => return Err(misuse("--manifest-out does not go with --shard: a list is of everything")),
            (_, _, true) => "--shard",
            (true, ..) => "--manifest-out",
            (_, true, _) => "--from-manifest",
            _ => return self.no_job(),
        };
        match self.plan.against_lists() {
            Some(what) => Err(misuse(format!("{name} does not go with {what}"))),
            None if name == "--shard" => Ok(()),
            None => self.no_job(),
        }
    }

    fn no_job(&self) -> Result<(), Complaint> {
        match self.run.job_is_given {
            false => Ok(()),
            // It was an abbreviation of --jobs once.
            true => Err(misuse("--job=ID goes with --shard only; --jobs=N is the number of files copied at a time")),
        }
    }
}

/// Which job a batch system says that this process is a part of, the same for all parts, and for one that it starts again.
pub fn launched(variable: impl Fn(&str) -> Option<OsString>) -> Job {
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

/// `I/N` in decimal digits, nothing else.
fn shard(word: &[u8]) -> Option<Shard> {
    let number = |digits: &[u8]| -> Option<u32> {
        let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        std::str::from_utf8(digits).ok().filter(|_| plain)?.parse().ok()
    };
    let slash = word.iter().position(|byte| *byte == b'/')?;
    Shard::new(number(&word[..slash])?, number(&word[slash + 1..])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launcher_names_one_job_for_all_its_parts() {
        let of = |variables: &[(&str, &str)]| {
            launched(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
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

    #[test]
    fn a_shard_is_a_number_from_1_to_that_of_all() {
        for (word, index, count) in
            [("1/1", 0, 1), ("2/7", 1, 7), ("07/7", 6, 7), ("1048576/1048576", 1_048_575, 1 << 20)]
        {
            let shard = shard(word.as_bytes()).expect(word);
            assert_eq!((shard.index(), shard.count().get()), (index, count), "{word}");
        }
        for word in
            ["", "/", "1", "1/", "/1", "0/1", "1/0", "0/0", "2/1", "-1/2", "+1/2", "1/2/3", " 1/2", "1 /2", "a/b"]
        {
            assert_eq!(shard(word.as_bytes()), None, "{word}");
        }
        for word in ["1/1048577", "1/4294967296", "4294967297/2", "1/99999999999999999999"] {
            assert_eq!(shard(word.as_bytes()), None, "{word}");
        }
    }
}
