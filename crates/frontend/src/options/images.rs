//! The options for disk images.

use haul_copy::plan::SmartCopy;

use super::draft::{Draft, Flag};
use crate::complaint::{Complaint, misuse};
use crate::flags::Argument::Optional;
use crate::flags::Category::Data;
use crate::flags::Effect::{Switch, Word};
use crate::flags::Mode;
use crate::quote::Quoter;
use crate::values::{Choice, Values, own};

/// In the order of the documentation.
pub const FLAGS: &[Flag] = &[SMART, PUNCH, SNAPSHOT];

/// The arguments of `--smart`.
const SMARTS: &[Choice] = &[
    own("off", "copy every byte"),
    own("auto", "skip what is proven free, where that is possible"),
    own("require", "fail where nothing can be proven, or the image is in use"),
];

const SMART: Flag = Flag {
    long: "smart",
    argument: Optional("WHEN"),
    values: Values::One(SMARTS),
    help: "copy disk images without their guests' free space; off by default",
    details: "Without WHEN, auto is meant. The option applies to a file or block device that holds partitions or a \
              filesystem. haul does not read what the filesystems' own maps prove free. That reads as zeros in the \
              copy, so the copy has not the same bytes as the source: checksums of the whole files differ, and deleted \
              files cannot be recovered from the copy. Leave it off for forensic copies. haul copies whole what is \
              dirty, damaged, encrypted or unknown; --explain and --stats=json say which part and why. If a program \
              writes to the image during the copy, or uses it when the copy is done, haul copies what it skipped after \
              all. With auto, files below 1 MiB, images that are in use, and images with nothing free are copied as \
              without this option. A container (qcow2, VMDK, VHDX, VDI, VHD, by its name and its contents) stays the \
              same container with the same tables: what holds nothing but free bytes of its disk becomes holes of the \
              copy. haul looks at one of several files of a VMDK (disk-f001.vmdk) by the descriptor beside it \
              (disk.vmdk). Compressed data stays, and a container with internal snapshots is copied whole. With \
              require, haul fails and does not copy an image that is in use, of which it can map nothing, or of which \
              it refuses a part. With --sparse=never haul writes zeros for what is free. --engine and --readahead do \
              not apply to these copies, and no extents are shared.",
    effect: Word("auto", |draft, word| {
        draft.plan.smart = match word {
            "auto" => SmartCopy::Auto,
            "require" => SmartCopy::Require,
            _ => SmartCopy::Off,
        }
    }),
    modes: &[Mode::Punch],
    ..Flag::own(Data)
};

const PUNCH: Flag = Flag {
    long: "punch",
    help: "with --smart: free the unused space of the images named, in place",
    details: "haul copies nothing; all operands are images. What the filesystems' own maps prove free becomes holes of \
              the image file, as --smart would skip it in a copy. This cannot be undone. Of a container (qcow2, VMDK, \
              VHDX, VDI, VHD) in one file, haul deallocates what holds nothing but free bytes of its disk; the tables \
              stay. The image must be a regular file that no other process has open, on a filesystem with leases (not \
              NFS or FUSE). A process that opens it meanwhile waits, and haul stops. haul does not touch parts that \
              are dirty, damaged or unknown; with --smart=require they are an error, and haul touches nothing. Of the \
              other options only -v, --explain and --smart go with it.",
    effect: Switch(|draft| draft.modes.push(Mode::Punch)),
    modes: &[Mode::Punch],
    ..Flag::own(Data)
};

const SNAPSHOT: Flag = Flag {
    long: "snapshot",
    help: "with --smart: images are frozen snapshots, even if in use",
    details: "Without this option an image counts as in use if QEMU, VMware or a loop device has it as a disk, if it \
              is mounted, locked, or open for writing, or if the memory of a suspended machine lies beside it \
              (FILE.save of libvirt, *.vmss of VMware, Snapshots/*.sav of VirtualBox). A user who may not take leases \
              on the file (not its owner, without privileges) sees only the user's own writers. haul notices writes \
              during the copy with this option, too.",
    effect: Switch(|draft| draft.plan.snapshot = true),
    settle: settle_snapshot,
    ..Flag::own(Data)
};

fn settle_snapshot(draft: &mut Draft, _: &Quoter) -> Result<(), Complaint> {
    if draft.plan.snapshot && draft.plan.smart == SmartCopy::Off {
        return Err(misuse("--snapshot has a meaning only with --smart"));
    }
    Ok(())
}
