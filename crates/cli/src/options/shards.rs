//! The options for copies of which several processes do a part each, and for the lists that they share.

use std::os::unix::ffi::OsStrExt;

use haul_copy::list::{MOST_SHARDS, Shard};
use haul_copy::plan::{Job, Plan};

use super::draft::{Draft, Flag};
use crate::complaint::{Complaint, misuse};
use crate::flags::Argument::Required;
use crate::flags::Category::Source;
use crate::flags::Effect::Value;
use crate::given::Given;
use crate::quote::Quoter;
use crate::values::Values;

/// In the order of the documentation.
pub const FLAGS: &[Flag] = &[LIST_OUT, LIST, SHARD, JOB];

const LIST_OUT: Flag = Flag {
    long: "list-out",
    former: "manifest-out",
    argument: Required("FILE"),
    values: Values::File,
    help: "list what would be copied in FILE; copy nothing",
    details: "The list has every file and directory with its size and time, found as a copy with these options would find \
              them (-r, -x, -H and -P count). DEST is given as for the copy, and not looked at. FILE gets its name when the \
              list is complete; in a SOURCE it is not listed, and a file that is there is never replaced. What could not be \
              looked at is an error, and is left out of the list. It does not go with \
              -L and --parents.",
    effect: Value(|draft, given| {
        draft.run.list_out = given.path();
        Ok(())
    }),
    settle: settle_list_out,
    ..Flag::own(Source)
};

fn settle_list_out(draft: &mut Draft, _: &Quoter) -> Result<(), Complaint> {
    if draft.run.list_out.is_none() {
        return Ok(());
    }
    if draft.run.list.is_some() {
        return Err(misuse("--list-out does not go with --list"));
    }
    if draft.plan.shard.is_some() {
        return Err(misuse("--list-out does not go with --shard: a list is of everything"));
    }
    goes_with_list("--list-out", &draft.plan)
}

const LIST: Flag = Flag {
    long: "list",
    former: "from-manifest",
    argument: Required("FILE"),
    values: Values::File,
    help: "copy what the list in FILE names, nothing else",
    details: "FILE was written by --list-out for the same SOURCEs; nothing is written if it is of others, cut or damaged. \
              Directories are not read, so what came later is not copied. What is missing, or is another kind of file now, \
              is an error; a file whose size or time has changed is told, and copied as it is now. It does not go with -L \
              and --parents.",
    effect: Value(|draft, given| {
        draft.run.list = given.path();
        Ok(())
    }),
    settle: settle_list,
    ..Flag::own(Source)
};

fn settle_list(draft: &mut Draft, _: &Quoter) -> Result<(), Complaint> {
    // What a shard does not go with is more, and named after that.
    let is_all = draft.plan.shard.is_none();
    if draft.run.list.is_some() && is_all { goes_with_list("--list", &draft.plan) } else { Ok(()) }
}

const SHARD: Flag = Flag {
    long: "shard",
    argument: Required("I/N|status"),
    values: Values::Any,
    help: "copy part I of N; other processes do the others",
    details: "The parts are about equal in bytes and in files. All names of one file are in one part, so hard links are kept. \
              Run the same command with --shard=1/N to --shard=N/N, in any order, at the same time or not, on any machines \
              that have both filesystems; together they make the same copy as one haul. Which part a file is in follows from \
              its name and size and from N alone. Without --list each process walks through the sources itself: \
              nothing may change there meanwhile, and one that finds something else than the first did refuses to copy. \
              Each says at its end how many are done and which are missing; --shard=status says it at any time, and exits with 1 while any is \
              missing. A part that has failed or was killed is run again by the same command, also with --resume; one that is \
              done copies nothing when it is run again, also when all are done. If a source has changed since the first part \
              began, the others refuse to copy: see --job. What the parts have done is noted in a file (.haul-shards- and 16 \
              digits) in the destination directory, or beside a DEST that is made. It stays as the record of the copy, and may be \
              removed when that is complete. Directories get their last attributes from the last part that has anything in \
              them; until then they are closed to other users. DEST is given with -T or -t, or as DEST/: see --resume. Relative SOURCEs mean the same for all if all run in the same directory. It does not go with -L, \
              --parents, --backup, -i, --update=none-fail, --link, --symbolic-link, --keep-directory-symlink, \
              --strip-trailing-slashes and --preserve=flags, with two SOURCEs of the same name, and with a DEST in a SOURCE.",
    effect: Value(set_shard),
    settle: settle_shard,
    ..Flag::own(Source)
};

fn set_shard(draft: &mut Draft, given: &Given<'_>) -> Result<(), Complaint> {
    draft.run.shard_status = given.text() == "status";
    draft.plan.shard = if draft.run.shard_status {
        // Which one does not matter; the rest of the command line is that of all.
        Shard::new(1, 1)
    } else {
        let wanted = || format!(": I/N or status is wanted, with I from 1 to N, and N up to {MOST_SHARDS}");
        Some(shard(given.text().as_bytes()).ok_or_else(|| given.invalid(&wanted()))?)
    };
    Ok(())
}

fn settle_shard(draft: &mut Draft, _: &Quoter) -> Result<(), Complaint> {
    if draft.plan.shard.is_some() { goes_with_list("--shard", &draft.plan) } else { Ok(()) }
}

const JOB: Flag = Flag {
    long: "job",
    argument: Required("ID"),
    values: Values::Any,
    help: "with --shard: which copy the part is of",
    details: "Any word, the same for all parts of one copy. The same commands with another ID copy anew, over what the copy before \
              has made. By default it is the job of the batch system: SLURM_ARRAY_JOB_ID or SLURM_JOB_ID, PBS_JOBID without the \
              number of the part, LSB_JOBID, or JOB_ID of Grid Engine; a part that is queued again has the same. Without any of them, and \
              with an empty ID, a part is of whichever copy was begun last. An ID that was replaced by another one is not taken again. \
              A batch job does not take the place of a copy of the same unchanged sources that is not finished, unless its ID is \
              given with this option: give the ID of that copy to run a single part of it again.",
    effect: Value(|draft, given| {
        draft.run.job_is_given = true;
        draft.plan.job = given.owned().filter(|id| !id.is_empty()).map_or(Job::Recorded, Job::Named);
        Ok(())
    }),
    settle: settle_job,
    ..Flag::own(Source)
};

fn settle_job(draft: &mut Draft, _: &Quoter) -> Result<(), Complaint> {
    if draft.run.job_is_given && draft.plan.shard.is_none() {
        // It was an abbreviation of --jobs once.
        return Err(misuse("--job=ID goes with --shard only; --jobs=N is the number of files copied at a time"));
    }
    Ok(())
}

/// A complaint if the plan has something that a list cannot give, or a shard cannot do.
fn goes_with_list(option: &str, plan: &Plan) -> Result<(), Complaint> {
    plan.against_lists().map_or(Ok(()), |what| Err(misuse(format!("{option} does not go with {what}"))))
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
