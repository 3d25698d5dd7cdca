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
    own("auto", "leave out what is proven free, where that is possible"),
    own("require", "fail where nothing can be proven, or the image is in use"),
];

const SMART: Flag = Flag {
    long: "smart",
    argument: Optional("WHEN"),
    values: Values::One(SMARTS),
    help: "copy disk images without their guests' free space; off by default",
    details: "Without WHEN, auto is meant. In a file or block device that holds partitions or a filesystem, what the \
              filesystems' own maps prove free is not read and reads as zeros in the copy, so that is not the same \
              bytes as the source: checksums of the whole files differ, and deleted files cannot be recovered from \
              the copy. For forensic copies leave it off. What is dirty, damaged, encrypted or unknown is copied \
              whole, and --explain and --stats=json say which part and why. If somebody writes to the image while it is being \
              copied, or uses it when the copy is done, what was left out is copied after all. With auto, files below 1 MiB, images \
              that are in use, and what has nothing free are copied as without this option. \
              A container (qcow2, VMDK, VHDX, VDI, VHD, by its name and its contents) stays the same container with the \
              same tables: what holds nothing but free bytes of its disk becomes holes of the copy. One of several files \
              of a VMDK (disk-f001.vmdk) is looked at by the descriptor beside it (disk.vmdk). What is compressed \
              stays, and a container with internal snapshots is copied whole. \
              With require, an image that is in use, of which nothing could be mapped, or of which a part is refused \
              is not copied, and haul fails. With --sparse=never zeros are written for what is free. --engine and \
              --readahead do not apply to what is copied in this way, and no extents are shared.",
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
    details: "Nothing is copied, and all operands are images. What the filesystems' own maps prove free becomes holes of \
              the image file, as --smart would leave it out of a copy; it cannot be undone. Of a container (qcow2, VMDK, VHDX, VDI, VHD) in one file, what \
              holds nothing but free bytes of its disk is given back, and its tables stay. The image must be a \
              regular file that no other process has open, on a filesystem with leases (not NFS or FUSE); \
              who opens it meanwhile waits, and haul stops. Parts that are dirty, damaged or unknown are not touched; with \
              --smart=require they are an error, and nothing is. Of the other options only -v, --explain and --smart \
              go with it.",
    effect: Switch(|draft| draft.modes.push(Mode::Punch)),
    modes: &[Mode::Punch],
    ..Flag::own(Data)
};

const SNAPSHOT: Flag = Flag {
    long: "snapshot",
    help: "with --smart: images are frozen snapshots, whoever has them open",
    details: "Without this option an image is in use that QEMU, VMware or a loop device has as a disk, that is mounted, \
              locked, or open for writing, or beside which the memory of a suspended machine lies (FILE.save of libvirt, \
              *.vmss of VMware, Snapshots/*.sav of VirtualBox). Who may not take leases on the file (others than its owner, \
              without privileges) sees only the writers of his own. Writes meanwhile are noticed with this option, too.",
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
