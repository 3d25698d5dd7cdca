//! The options for copies of which several processes do a part each, and for the lists that they share.

use std::os::unix::ffi::OsStrExt;

use haul_copy::list::{MOST_SHARDS, Shard};
use haul_copy::plan::Job;

use super::draft::{Draft, Flag};
use crate::complaint::{Complaint, misuse};
use crate::flags::Argument::Required;
use crate::flags::Category::Source;
use crate::flags::Effect::Value;
use crate::given::Given;
use crate::values::Values;

/// In the order of the documentation.
pub const FLAGS: &[Flag] = &[
    Flag {
        long: "list-out",
        former: "manifest-out",
        argument: Required("FILE"),
        values: Values::File,
        help: "list what would be copied in FILE; copy nothing",
        details: "The list has every file and directory with its size and time, as a copy with these options would \
                  find them (-r, -x, -H and -P count). DEST is given as for the copy; haul does not look at it. FILE \
                  gets its name when the list is complete. A FILE in a SOURCE does not list itself, and never replaces \
                  a file that is there. An entry that haul cannot look at is an error and is not in the list. It does \
                  not go with -L, --parents, --strip-trailing-slashes, --list, --shard, --checksum, --digests, --stats, \
                  --json, --dry-run, --move, --delete and --failures.",
        effect: Value(|draft, given| {
            draft.run.list_out = given.path();
            Ok(())
        }),
        ..Flag::own(Source)
    },
    Flag {
        long: "list",
        former: "from-manifest",
        argument: Required("FILE"),
        values: Values::File,
        help: "copy what the list in FILE names, nothing else",
        details: "FILE is a list that --list-out wrote for the same SOURCEs. A list of other SOURCEs, or one that is \
                  cut or damaged, is refused before anything is written. haul does not read directories then, so it \
                  does not copy what came later. An entry that is missing, or is another kind of file now, is an \
                  error. haul warns of a file whose size or time has changed, and copies it as it is now. It does not \
                  go with -L, --parents, --strip-trailing-slashes, --exclude-caches and --files-from.",
        effect: Value(|draft, given| {
            draft.run.list = given.path();
            Ok(())
        }),
        ..Flag::own(Source)
    },
    Flag {
        long: "shard",
        argument: Required("I/N|status"),
        help: "copy part I of N; other processes do the others",
        details: "The parts are about equal in bytes and in files. All names of one file are in one part, so hard \
                  links are kept. Run the same command with --shard=1/N to --shard=N/N, in any order, at the same time \
                  or not, on any machines that have both filesystems. Together they make the same copy as one haul. \
                  Where parts are counted from 0, write --shard=I+1/N. \
                  The part of a file follows from its name, its size and N alone. Without --list each process walks \
                  through the sources itself: nothing may change there meanwhile, and a process that finds something \
                  else than the first one refuses to copy. Each process reports at its end how many parts are done and \
                  which are missing. --shard=status reports it at any time, and exits with 1 while a part is missing. \
                  To repeat a part that has failed or was killed, run the same command again, also with --resume. A \
                  part that is done copies nothing when it runs again. If a source has changed since the first part \
                  began, the other parts refuse to copy: see --job. A file in the destination directory, or beside a \
                  DEST that is made, records what the parts have done (.haul-shards- and 16 digits). It stays as the \
                  record of the copy; remove it when the copy is complete, if you like. The last part that has \
                  anything in a directory sets the attributes of the directory; until then the directory is closed to \
                  other users. DEST is given with -T or -t, or as DEST/: see --resume. Relative SOURCEs mean the same \
                  for all parts if all run in the same directory. It does not go with -L, --parents, --backup, -i, \
                  --update=none-fail, --link, --symbolic-link, --keep-directory-symlink, --strip-trailing-slashes and \
                  --preserve=flags, with two SOURCEs of the same name, and with a DEST in a SOURCE.",
        effect: Value(set_shard),
        ..Flag::own(Source)
    },
    Flag {
        long: "job",
        argument: Required("ID"),
        help: "with --shard: which copy the part is of",
        details: "Any word, the same for all parts of one copy. The same commands with another ID copy anew, over what \
                  the copy before has made. By default it is the job of the batch system: SLURM_ARRAY_JOB_ID or \
                  SLURM_JOB_ID, PBS_JOBID without the number of the part, LSB_JOBID, or JOB_ID of Grid Engine. A part \
                  that is queued again has the same ID. Without any of them, and with an empty ID, a part belongs to \
                  the copy that was begun last. haul refuses an ID that another one has replaced. A batch job does not \
                  replace an unfinished copy of the same unchanged sources, unless this option names the job. To run a \
                  single part of that copy again, give the ID of that copy.",
        effect: Value(|draft, given| {
            draft.run.job_is_given = true;
            draft.plan.job = given.owned().filter(|id| !id.is_empty()).map_or(Job::Recorded, Job::Named);
            Ok(())
        }),
        ..Flag::own(Source)
    },
];

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

/// Lists and shards: what they do not go with.
pub fn settle_lists(draft: &Draft) -> Result<(), Complaint> {
    let (plan, run) = (&draft.plan, &draft.run);
    let (list_out, list, shard) = (run.list_out.is_some(), run.list.is_some(), plan.shard.is_some());
    if list_out && list {
        return Err(misuse("--list-out does not go with --list"));
    }
    if list_out && shard {
        return Err(misuse("--list-out does not go with --shard: a list is of everything"));
    }
    let digests = plan.checksum.is_some();
    if list_out && (digests || draft.show.stats.is_some()) {
        let option = if digests { "--checksum and --digests" } else { "--stats" };
        return Err(misuse(format!("--list-out does not go with {option}: it copies nothing")));
    }
    // What a shard does not go with is more, and named after that.
    let names = plan.names.is_some();
    let options = [(list_out, "--list-out"), (shard, "--shard"), (list, "--list"), (names, "--files-from")];
    let given = options.into_iter().find(|(given, _)| *given);
    if let (Some((_, option)), Some(what)) = (given, plan.against_lists()) {
        return Err(misuse(format!("{option} does not go with {what}")));
    }
    if run.job_is_given && !shard {
        // It was an abbreviation of --jobs once.
        return Err(misuse("--job=ID goes with --shard only; --jobs=N is the number of files copied at a time"));
    }
    Ok(())
}

/// `I/N` in decimal digits, or `I+1/N` where parts are counted from 0; nothing else.
fn shard(word: &[u8]) -> Option<Shard> {
    let number = |digits: &[u8]| -> Option<u32> {
        let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        std::str::from_utf8(digits).ok().filter(|_| plain)?.parse().ok()
    };
    let slash = word.iter().position(|byte| *byte == b'/')?;
    let number_of = match word[..slash].strip_suffix(b"+1") {
        Some(before) => number(before)?.checked_add(1)?,
        None => number(&word[..slash])?,
    };
    Shard::new(number_of, number(&word[slash + 1..])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_a_number_from_1_to_that_of_all() {
        for (word, index, count) in [
            ("1/1", 0, 1),
            ("2/7", 1, 7),
            ("07/7", 6, 7),
            ("1048576/1048576", 1_048_575, 1 << 20),
            ("0+1/3", 0, 3),
            ("2+1/3", 2, 3),
        ] {
            let shard = shard(word.as_bytes()).expect(word);
            assert_eq!((shard.index(), shard.count().get()), (index, count), "{word}");
        }
        for word in [
            "", "/", "1", "1/", "/1", "0/1", "1/0", "0/0", "2/1", "-1/2", "+1/2", "1/2/3", " 1/2", "1 /2", "a/b",
            "2+1/2", "1+2/3", "0+1+1/3", "-1+1/2",
        ] {
            assert_eq!(shard(word.as_bytes()), None, "{word}");
        }
        for word in ["1/1048577", "1/4294967296", "4294967297/2", "4294967295+1/2", "1/99999999999999999999"] {
            assert_eq!(shard(word.as_bytes()), None, "{word}");
        }
    }
}
