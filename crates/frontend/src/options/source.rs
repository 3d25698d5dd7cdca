//! The options for what is copied.

use haul_copy::plan::{Dereference, SpecialFiles};

use super::draft::{Draft, Flag, Keep};
use crate::complaint::{Complaint, misuse};
use crate::flags::Category::Source;
use crate::flags::Effect::Switch;
use crate::flags::Mode;

/// In the order of the documentation.
pub const FLAGS: &[Flag] = &[
    Flag {
        short: "Rr",
        long: "recursive",
        help: "copy directories and everything below them",
        details: "Unless -H or -L says otherwise, symbolic links are then copied as links, and devices, FIFOs and \
                  sockets are made anew.",
        effect: Switch(|draft| {
            draft.plan.recursive = true;
            draft.named_contents = true;
        }),
        modes: &[Mode::Compare],
        ..Flag::cp(Source)
    },
    Flag {
        short: "P",
        long: "no-dereference",
        help: "copy symbolic links as links",
        details: "The default with -R.",
        effect: Switch(|draft| draft.dereference = Some(Dereference::Never)),
        modes: &[Mode::Compare],
        ..Flag::cp(Source)
    },
    Flag {
        short: "L",
        long: "dereference",
        help: "copy what symbolic links lead to",
        details: "The default without -R, and with -l.",
        effect: Switch(|draft| draft.dereference = Some(Dereference::Always)),
        modes: &[Mode::Compare],
        ..Flag::cp(Source)
    },
    Flag {
        short: "H",
        help: "follow symbolic links named as SOURCE, and only those",
        effect: Switch(|draft| draft.dereference = Some(Dereference::Operands)),
        modes: &[Mode::Compare],
        ..Flag::cp(Source)
    },
    Flag {
        long: "copy-contents",
        help: "read FIFOs and devices when recursive, do not make nodes",
        details: "A FIFO that nobody writes to blocks the copy. Some devices never end.",
        effect: Switch(|draft| draft.plan.special_files = SpecialFiles::Contents),
        ..Flag::cp(Source)
    },
    Flag {
        long: "skip-offline",
        help: "leave out files whose contents are on tape",
        details: "An archive (HSM) has taken their contents away, and would bring them back for who reads them, which may \
                  take hours. haul recognises such a file by its HSM state on Lustre, and on SMB by the attributes 'offline' \
                  and 'recall'. Such a file is skipped as by -n: it is counted as offline, and named with --debug and --json. \
                  What stands at its destination stays as it is, and so does, with --move, the SOURCE. --compare \
                  leaves it out, too. Where it would not be read, since its copy is up to date (-u) or a link (-l, \
                  -s), it counts as any other; but --move leaves it out then, too, and where it could rename it.",
        effect: Switch(|draft| draft.plan.skip_offline = true),
        modes: &[Mode::Compare],
        ..Flag::own(Source)
    },
    Flag {
        long: "open-noatime",
        help: "leave the times of access of sources as they are",
        details: "haul opens the files and directories that it copies or compares with O_NOATIME (open(2)), where the kernel \
                  allows that: for root, and for what belongs to who runs haul; others as usual. That spares a server \
                  a write for each file. Most filesystems are mounted with relatime or noatime and note such a time \
                  seldom or never anyway. For symbolic links the kernel has no such way; what is only looked into \
                  (--list-out, the tags of --exclude-caches, --smart; two files that haul has to read to find out whether they are the same file) is \
                  opened as usual.",
        effect: Switch(|draft| draft.plan.open_noatime = true),
        modes: &[Mode::Compare],
        ..Flag::own(Source)
    },
    Flag {
        long: "move",
        help: "move each SOURCE, as mv does; implies -a",
        details: "Where the filesystem can, haul renames: a SOURCE to a name that is free, and the files and directories in a \
                  SOURCE that is a directory and stands at the destination already. It copies the others and brings the \
                  copies to their device. Then it reads both sides and removes each source file whose copy has the same \
                  contents, and each directory that is empty. It removes nothing that was not copied or was left alone \
                  (-n, -u, -i, filters), that has changed meanwhile, or that is behind a mount point, and says so where \
                  that was not asked for. Whenever haul is killed, each file is whole on one side at least; run the same \
                  command again to go on. What the copy cannot keep is an error, and the source stays: \
                  where the destination has no extended attributes, --no-preserve=xattr gives them up. As with mv, what is \
                  renamed keeps its owner and its security context, whoever runs haul. Where the destination may take two \
                  names for one, as FAT does, haul copies, and a source stays whose copy is not listed under exactly its \
                  name. Unlike -a alone, haul replaces files, and symbolic links at their names, in one \
                  step (as --atomic, but owner, mode and attributes are those of the source). With --no-preserve, -Z, filters or -x it \
                  renames only what they leave as it is. It does not go with -b, -l, -s, -L, -H, --attributes-only, \
                  --copy-contents, --delete, --keep-directory-symlink, --parents, --smart, --verify=device, --checksum, \
                  --digests, --engine=null, --resume, --shard, --files-from, --list and --list-out.",
        effect: Switch(|draft| {
            draft.archive();
            // What would be lost without a word stays.
            draft.xattr = Keep::named(true);
            draft.plan.preserve.quiet = false;
            draft.plan.moves = true;
        }),
        ..Flag::own(Source)
    },
    Flag {
        short: "x",
        long: "one-file-system",
        help: "do not enter directories on other filesystems",
        details: "A mount point becomes an empty directory of the copy.",
        effect: Switch(|draft| draft.plan.one_file_system = true),
        modes: &[Mode::Compare],
        ..Flag::cp(Source)
    },
    Flag {
        long: "parents",
        former: "path",
        help: "append the whole path of SOURCE to DIRECTORY",
        details: "haul makes the directories that are missing on the way. The destination must be a directory.",
        effect: Switch(|draft| draft.plan.parents = true),
        ..Flag::cp(Source)
    },
    Flag {
        long: "strip-trailing-slashes",
        help: "remove slashes from the end of each SOURCE",
        details: "A symbolic link to a directory then counts as a link even with a slash after its name.",
        effect: Switch(|draft| draft.plan.strip_trailing_slashes = true),
        ..Flag::cp(Source)
    },
];

/// What moving does not go with.
pub fn settle_move(draft: &Draft) -> Result<(), Complaint> {
    let what = match (&draft.run.list_out, &draft.run.list) {
        _ if !draft.plan.moves => None,
        (Some(_), _) => Some("--list-out, which copies nothing"),
        (_, Some(_)) => Some("--list"),
        _ => draft.plan.against_moving(),
    };
    what.map_or(Ok(()), |what| Err(misuse(format!("--move does not go with {what}"))))
}

pub fn settle_dereference(draft: &mut Draft) {
    let as_links = draft.plan.recursive && !draft.hard_links;
    let default = if as_links { Dereference::Never } else { Dereference::Always };
    draft.plan.dereference = draft.dereference.unwrap_or(default);
}
