//! The options of `haul` for copies of which several processes do a part each.

use crate::flags::Argument::Required;
use crate::flags::Category::Source;
use crate::flags::{Flag, Id, Origin, Values};

/// `--manifest-out`
pub(crate) const MANIFEST_OUT: Flag = Flag {
    long: "manifest-out",
    argument: Required("FILE"),
    values: Values::File,
    origin: Origin::Haul,
    help: "list what would be copied in FILE; copy nothing",
    details: "The list has every file and directory with its size and time, found as a copy with these options would find \
              them (-r, -x, -H and -P count). DEST is given as for the copy, and not looked at. FILE gets its name when the \
              list is complete; in a SOURCE it is not listed, and a file that is there is never replaced. What could not be \
              looked at is an error, and is left out of the list. It does not go with \
              -L and --parents.",
    ..Flag::new(Id::ManifestOut, Source)
};

/// `--from-manifest`
pub(crate) const FROM_MANIFEST: Flag = Flag {
    long: "from-manifest",
    argument: Required("FILE"),
    values: Values::File,
    origin: Origin::Haul,
    help: "copy what the list in FILE names, nothing else",
    details: "FILE was written by --manifest-out for the same SOURCEs; nothing is written if it is of others, cut or damaged. \
              Directories are not read, so what came later is not copied. What is missing, or is another kind of file now, \
              is an error; a file whose size or time has changed is told, and copied as it is now. It does not go with -L \
              and --parents.",
    ..Flag::new(Id::FromManifest, Source)
};

/// `--shard`
pub(crate) const SHARD: Flag = Flag {
    long: "shard",
    argument: Required("I/N|status"),
    values: Values::Any,
    origin: Origin::Haul,
    help: "copy part I of N; other processes do the others",
    details: "The parts are about equal in bytes and in files. All names of one file are in one part, so hard links are kept. \
              Run the same command with --shard=1/N to --shard=N/N, in any order, at the same time or not, on any machines \
              that have both filesystems; together they make the same copy as one haul. Which part a file is in follows from \
              its name and size and from N alone. Without --from-manifest each process walks through the sources itself: \
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
    ..Flag::new(Id::Shard, Source)
};

/// `--job`
pub(crate) const JOB: Flag = Flag {
    long: "job",
    argument: Required("ID"),
    values: Values::Any,
    origin: Origin::Haul,
    help: "with --shard: which copy the part is of",
    details: "Any word, the same for all parts of one copy. The same commands with another ID copy anew, over what the copy before \
              has made. By default it is the job of the batch system: SLURM_ARRAY_JOB_ID or SLURM_JOB_ID, PBS_JOBID without the \
              number of the part, LSB_JOBID, or JOB_ID of Grid Engine; a part that is queued again has the same. Without any of them, and \
              with an empty ID, a part is of whichever copy was begun last. An ID that was replaced by another one is not taken again. \
              A batch job does not take the place of a copy of the same unchanged sources that is not finished, unless its ID is \
              given with this option: give the ID of that copy to run a single part of it again.",
    ..Flag::new(Id::Job, Source)
};
