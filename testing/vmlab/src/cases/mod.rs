//! What is played. Each case begins with an empty machine.

mod alike;
mod callback;
mod cifs;
mod each;
mod faults;
mod latency;
mod measured;
mod nfs;
mod operations;
mod power;
mod smoke;
mod together;
mod uring;

use crate::lab::Lab;
use crate::tool;

/// A group of checks.
pub struct Case {
    /// For `--only`.
    pub name: &'static str,
    /// One sentence.
    pub what: &'static str,
    /// The kernels that it is for, as `cargo xtask vm` calls them.
    pub kernels: &'static [&'static str],
    /// Those of them on which `cargo xtask test` plays it.
    pub quick_on: &'static [&'static str],
    /// Whether a server and two clients of it are needed.
    pub together: bool,
    /// Plays it.
    pub run: fn(&mut Lab) -> Result<(), String>,
}

/// All cases, in the order in which they are played.
pub const ALL: &[Case] = &[
    Case {
        name: "smoke",
        what: "trees with all attributes on ext4, XFS and btrfs; every engine; staged and verified copies; a disk image",
        kernels: &["5.10", "6.1", "6.12"],
        quick_on: &["5.10"],
        together: false,
        run: smoke::run,
    },
    Case {
        name: "nfs-xfs",
        what: "NFS 4.2 on XFS, which can share extents: to, from and within; the server restarted, the server gone",
        kernels: &["6.1"],
        quick_on: &[],
        together: false,
        run: nfs::on_xfs,
    },
    Case {
        name: "nfs-ext4",
        what: "the same on ext4, which cannot",
        kernels: &["6.1"],
        quick_on: &[],
        together: false,
        run: nfs::on_ext4,
    },
    Case {
        name: "nfs-operations",
        what: "what a small file costs on NFS 4.2 in operations: copied, updated, compared, and copied by cp",
        kernels: &["6.1"],
        quick_on: &[],
        together: false,
        run: operations::run,
    },
    Case {
        name: "nfs-callback",
        what: "a server that has copied, and whose call back gets lost with its connection",
        kernels: &["6.1"],
        quick_on: &[],
        together: false,
        run: callback::run,
    },
    Case {
        name: "cifs",
        what: "CIFS (SMB 3.1.1) to Samba: to, from and within; the server killed",
        kernels: &["6.1"],
        quick_on: &[],
        together: false,
        run: cifs::run,
    },
    Case {
        name: "io-uring",
        what: "io_uring that is switched off",
        kernels: &["6.12"],
        quick_on: &["6.12"],
        together: false,
        run: uring::run,
    },
    Case {
        name: "alike-names",
        what: "moves and mirrors to where upper and lower case are alike: ext4 with casefold, XFS with version=ci, FAT",
        kernels: &["6.1"],
        quick_on: &["6.1"],
        together: false,
        run: alike::run,
    },
    Case {
        name: "dm-read",
        what: "some sectors of the source cannot be read",
        kernels: &["6.1"],
        quick_on: &[],
        together: false,
        run: faults::reading,
    },
    Case {
        name: "dm-write",
        what: "writes to the destination fail, are lost, or change on their way",
        kernels: &["6.1"],
        quick_on: &[],
        together: false,
        run: faults::writing,
    },
    Case {
        name: "dm-thin",
        what: "a thin pool without space, which tells it late",
        kernels: &["6.1"],
        quick_on: &[],
        together: false,
        run: faults::thin,
    },
    Case {
        name: "dm-power",
        what: "power cuts of the destination, from the log of dm-log-writes",
        kernels: &["6.1"],
        quick_on: &["6.1"],
        together: false,
        run: power::run,
    },
    Case {
        name: "mapped-write",
        what: "haul-lab mapped-write on equal disks; the results of two kernels are compared",
        kernels: &["5.10", "6.1", "6.12"],
        quick_on: &["5.10", "6.12"],
        together: false,
        run: measured::mapped_write,
    },
    Case {
        name: "in-kernel-xfs",
        what: "haul-lab in-kernel on NFS 4.2 on XFS: COPY and CLONE, and bytes on the wire",
        kernels: &["6.1"],
        quick_on: &[],
        together: false,
        run: measured::in_kernel_on_xfs,
    },
    Case {
        name: "in-kernel-ext4",
        what: "the same on ext4",
        kernels: &["6.1"],
        quick_on: &[],
        together: false,
        run: measured::in_kernel_on_ext4,
    },
    Case {
        name: "clients",
        what: "haul-mpi on two clients of an NFS 4.2 server",
        kernels: &["6.1"],
        quick_on: &["6.1"],
        together: true,
        run: together::look,
    },
    Case {
        name: "clients-copy",
        what: "haul-mpi with Open MPI and MPICH, and shards, on both clients, to ext4 and to XFS",
        kernels: &["6.1"],
        quick_on: &[],
        together: true,
        run: together::copies,
    },
    Case {
        name: "clients-each",
        what: "haul-mpi --each on both clients: the server is read once",
        kernels: &["6.1"],
        quick_on: &[],
        together: true,
        run: each::run,
    },
    Case {
        name: "clients-faults",
        what: "a client without power, a server without power, a network cut for a minute; --resume",
        kernels: &["6.1"],
        quick_on: &[],
        together: true,
        run: together::faults,
    },
    Case {
        name: "nfs-latency",
        what: "haul, cp and rsync on NFS 4.2 with 0, 1 and 10 ms of added latency, and with 1 to 16 jobs",
        kernels: &["6.1"],
        quick_on: &[],
        together: true,
        run: latency::small,
    },
    Case {
        name: "nfs-large",
        what: "the same of one large file: by COPY, by CLONE, between two exports, local to NFS and back",
        kernels: &["6.1"],
        quick_on: &[],
        together: true,
        run: latency::large,
    },
    Case {
        name: "clients-random",
        what: "50 random trees by haul-mpi and shards on both clients, and 20 kills",
        kernels: &["6.1"],
        quick_on: &[],
        together: true,
        run: together::random,
    },
];

/// Ends the servers that cases start, if there are any, and their client.
pub fn stop_servers() -> Result<(), String> {
    nfs::stop()?;
    if tool::run("mountpoint -q /tmp/guest/client").is_ok() {
        tool::run("umount /tmp/guest/client")?;
    }
    cifs::stop()
}
