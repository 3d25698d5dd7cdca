//! The options for integrity and durability: that a copy is on its device, whole, and of an unchanged source.

use haul_copy::plan::{Backup, Checksum, Durable, IfChanged, LinkMode, Overwrite, SmartCopy, Verify};

use super::draft::{Draft, Flag};
use crate::complaint::{Complaint, misuse};
use crate::flags::Argument::{Optional, Required};
use crate::flags::Category::Safety;
use crate::flags::Effect::{Switch, Value, Word};
use crate::values::{Values, own};

/// In the order of the documentation.
pub const FLAGS: &[Flag] = &[
    Flag {
        long: "durable",
        argument: Optional("WHEN"),
        values: Values::One(&[
            own("none", "the kernel writes the copy to the device when it likes, as with cp"),
            own("flush", "everything is on the device before haul ends"),
            own("file", "each file is on the device before it gets its name"),
        ]),
        help: "when a copy is on its device; none by default",
        details: "Without WHEN, flush is meant. With flush, haul syncs the filesystems that it has written to at the \
                  end, and ext4 and XFS also in the background while it copies; a failed write is an error. With file, \
                  haul gives each regular file a temporary name (.haul- and 16 digits, in the same directory), brings \
                  it to the device together with others, and only then gives it its name. After a crash each name \
                  stands for the old file or for the whole new one. It implies --atomic. A directory gets its times \
                  and its mode when all that is in it has its name. A sync also writes the data of other programs, and \
                  haul cannot end before the sync does, even when a signal stops it. haul cannot see into a device \
                  with a volatile cache that the device does not report.",
        effect: Word("flush", |draft, word| {
            draft.plan.durable = match word {
                "none" => Durable::None,
                "file" => Durable::File,
                _ => Durable::Flush,
            }
        }),
        ..Flag::own(Safety)
    },
    Flag {
        long: "atomic",
        help: "replace each file in one step, when the new one is whole",
        details: "A program that opens the name gets the old file or the whole new one, whatever happens to haul. \
                  After a crash of the machine that holds only with --durable=file. The new file has the owner, mode, \
                  ACL and extended attributes of the old one as far as the user may set them, but for what --preserve \
                  says. It is a new file all the same: other hard links to the old one keep the old contents. A \
                  symbolic link stays; haul replaces the file that it leads to. haul writes into devices, FIFOs and \
                  the like, and merges directories as always. With --backup on a filesystem without hard links, the \
                  name stands for nothing until the copy is whole. A haul that was killed may leave files named .haul- \
                  and 16 digits.",
        effect: Switch(|draft| draft.plan.atomic = true),
        ..Flag::own(Safety)
    },
    Flag {
        long: "verify",
        argument: Optional("HOW"),
        values: Values::One(&[
            own("off", "the copy is not read again"),
            own("read", "through the page cache"),
            own("device", "from the device, once the copy is there"),
        ]),
        help: "read each copy again and compare it; off by default",
        details: "Without HOW, read is meant. haul reads the source a second time, too, from memory as far as it is \
                  there. A copy gets its name after the comparison (--atomic is implied). A copy that differs is an \
                  error that names the offset; haul keeps it as NAME.haul-mismatch. With read, the data may come from \
                  memory: that finds errors of haul, of the kernel and of the filesystem. With device, haul writes the \
                  copy to its device first (as with --durable=file) and reads it from there by direct I/O, or after \
                  the kernel has reported that no page of it is left in memory; on tmpfs that is an error. haul writes \
                  and compares a block device in place. What cannot be read twice (FIFOs and the like) is an error. It \
                  does not go with --smart, which skips bytes.",
        effect: Word("read", |draft, word| {
            draft.plan.verify = match word {
                "off" => Verify::Off,
                "device" => Verify::Device,
                _ => Verify::Read,
            }
        }),
        ..Flag::own(Safety)
    },
    Flag {
        long: "checksum",
        argument: Required("ALGORITHM"),
        values: Values::One(&[
            own("blake3", "BLAKE3, as b3sum prints it"),
            own("xxh3", "XXH3 of 128 bits, as xxhsum -H2 prints it; no proof against forgery"),
            own("sha256", "SHA-256, as sha256sum prints it"),
            own("md5", "MD5, as md5sum prints it; no proof against forgery"),
        ]),
        help: "print the digest of each file that is copied",
        details: "The digest is that of the source's bytes, which haul reads a second time right behind the copy. It \
                  goes to standard output, or to the file of --digests, when the copy has its name. A hard link to a \
                  file that was copied before has no line. It does not go with --smart, -l, -s, --attributes-only, \
                  --list-out and --move.",
        effect: Word("blake3", |draft, word| {
            draft.plan.checksum = Some(match word {
                "xxh3" => Checksum::Xxh3,
                "sha256" => Checksum::Sha256,
                "md5" => Checksum::Md5,
                _ => Checksum::Blake3,
            })
        }),
        ..Flag::own(Safety)
    },
    Flag {
        long: "digests",
        former: "manifest",
        argument: Required("FILE"),
        values: Values::File,
        help: "write the digests to FILE, for b3sum -c and the like",
        details: "Without --checksum, blake3 is meant. The names are those of the copies as the operands give them, so \
                  check them in the directory in which haul ran. FILE gets its name when everything is copied. If some \
                  files failed, it lists the good copies. A file that changed while it was copied has no line, though \
                  it is copied, unless --verify=read has compared it. haul does not copy FILE if it is in the source, and never \
                  replaces a file there.",
        effect: Value(|draft, given| {
            draft.run.digests = given.path();
            Ok(())
        }),
        ..Flag::own(Safety)
    },
    Flag {
        long: "if-changed",
        argument: Required("WHAT"),
        values: Values::One(&[
            own("retry", "copy it again, up to three times; then the copy fails"),
            own("warn", "warn and keep the copy"),
            own("fail", "the copy fails"),
            own("ignore", "do not look, as cp does"),
        ]),
        help: "what to do if a file changes while it is being copied",
        details: "Called as haul the default is warn, called as cp it is ignore. A file has changed if its size, or \
                  its time of modification or of change, is not the same after its data was read as before. The copy \
                  of an empty file shows the moment when it was opened. A program that writes through a mapping may \
                  move no time until its pages are written back; copy a snapshot of what must be consistent. A disk image \
                  is not copied again with --smart: there retry fails as fail does.",
        effect: Word("warn", |draft, word| {
            draft.plan.if_changed = match word {
                "retry" => IfChanged::Retry,
                "fail" => IfChanged::Fail,
                "ignore" => IfChanged::Ignore,
                _ => IfChanged::Warn,
            }
        }),
        ..Flag::own(Safety)
    },
    Flag {
        long: "resume",
        help: "go on where an earlier run of the same command ended",
        details: "After a signal, a power cut, a full disk or a lost mount, run the same command again. haul records \
                  what is done in a journal (.haul-resume- and 16 digits) in DIRECTORY with -t or DEST/, and beside DEST \
                  with -T or if DEST is made. It removes the journal when all is copied, and keeps it as long as \
                  anything failed. haul does not read finished files again, unless the source or the copy has changed \
                  since. For files from 128 MiB on it records every 64 MiB what is on the device, and the next run \
                  goes on there. Such a beginning stays under a temporary name (.haul-r and 26 digits). It implies \
                  --durable=file. The same command has the same operands, and the same options but for those that only \
                  say how fast. With one SOURCE, DEST must mean the same each time: with -T it is the copy; with -t, \
                  or with a slash at its end (DEST/), it is a directory that exists, and the copy goes into it. haul \
                  sets attributes of directories again, and makes links and nodes again. What is written into a device \
                  begins anew, and so does a disk image with --smart. It does not go with --backup, --link, \
                  --symbolic-link and --update=none-fail.",
        effect: Switch(|draft| draft.plan.resume = true),
        ..Flag::own(Safety)
    },
];

/// Also of `--checksum`, and so of `--digests`.
pub fn settle_verification(draft: &mut Draft) -> Result<(), Complaint> {
    let plan = &mut draft.plan;
    if draft.run.digests.is_some() {
        plan.checksum.get_or_insert(Checksum::Blake3);
    }
    if plan.checksum.is_some() && (plan.link != LinkMode::Copy || plan.attributes_only) {
        return Err(misuse(
            "--checksum and --digests do not go with -l, -s and --attributes-only, which copy no contents",
        ));
    }
    if plan.reads_again() && plan.smart != SmartCopy::Off {
        return Err(misuse("--verify and --checksum do not go with --smart, which skips bytes"));
    }
    Ok(())
}

pub fn settle_resume(draft: &mut Draft) -> Result<(), Complaint> {
    let plan = &mut draft.plan;
    if !plan.resume {
        return Ok(());
    }
    plan.durable = Durable::File;
    let against = [
        (plan.backup != Backup::None, "--backup: the backup of the first run would be lost"),
        (plan.link != LinkMode::Copy, "--link and --symbolic-link, which copy nothing"),
        (plan.overwrite == Overwrite::Refuse, "--update=none-fail: what the first run made is there"),
    ];
    match against.iter().find(|(given, _)| *given) {
        Some((_, what)) => Err(misuse(format!("--resume does not go with {what}"))),
        None => Ok(()),
    }
}
