//! Two hosts, each with its own view of what they share.

use std::fs;
use std::time::Duration;

use haul_testbed::late::{self, LateView, Lateness};
use haul_testbed::{Bed, Fs};

use crate::support::hosts::Hosts;
use crate::support::tree::{MIXED, SMALL, assert_equal, grow, place, remove};
use crate::support::{Mpi, chance, groups, haul_copies, rows};

/// Long enough for a name to be missing when somebody wants it, and no test waits long.
const SOON: Lateness = Lateness { believed: Duration::from_millis(400), delay: Duration::ZERO };

/// MPICH 4.0.2 of Debian 12 starts ranks on these hosts and sends between them, but its MPI_Finalize does not end: one rank
/// waits for libfabric, all others wait for that one. So what is here is shown with Open MPI.
const ON_HOSTS: [Mpi; 1] = [Mpi::Open];

#[test]
fn ranks_on_two_hosts_share_memory_with_their_own_host_alone_and_talk_over_the_link() {
    let Some(bed) = Bed::new() else { return };
    let hosts = Hosts::new(&bed, 2);
    for mpi in ON_HOSTS {
        let before = hosts.traffic(1);
        let done = hosts.job::<&str>(mpi, 2, bed.path(), &[]).of_program(&groups(mpi)).run().succeeded();
        for (rank, host) in [(0, "host1"), (1, "host1"), (2, "host2"), (3, "host2")] {
            let line = format!("rank {rank} of 4 is on {host} with 2 here");
            assert!(done.stdout.contains(&line), "{mpi:?}: no {line:?}: {done}");
        }
        let crossed = hosts.traffic(1) - before;
        assert!(crossed > 16 << 20, "{mpi:?}: {crossed} bytes crossed the link");
    }
}

#[test]
fn a_copy_by_one_process_through_a_late_view_keeps_everything() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    let at = bed.path().join("view");
    fs::create_dir(&at).expect("a mount point");
    grow(&mut chance(12), &dir, MIXED);
    let Some(_view) = LateView::mount(&late::program(), &[], &dir, &at, SOON) else { return };
    for name in ["reference", "result"] {
        fs::create_dir(dir.join(name)).expect("a directory");
    }
    haul_copies(&dir, &["-a", "source", "reference"]);
    haul_copies(&at, &["-a", "source", "result"]);
    assert_equal(&dir.join("reference"), &dir.join("result"), "through the view");
}

#[test]
fn two_hosts_with_a_late_view_each_copy_what_one_process_copies() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    let mut rng = chance(13);
    grow(&mut rng, &dir, MIXED);
    fs::create_dir(dir.join("reference")).expect("a directory");
    haul_copies(&dir, &["-a", "source", "reference"]);
    let hosts = Hosts::new(&bed, 2);
    let view = bed.path().join("view");
    let Some(_views) = hosts.late_views(&dir, &view, SOON) else { return };
    let ways: &[&[&str]] = &[&[], &["--verify"], &["--resume"]];
    for mpi in ON_HOSTS {
        for options in ways {
            let chunk = format!("--chunk={}", rng.u64(16..=1024) << 12);
            let words = [&["-aT", "--stats", &chunk], *options, &["source", "result"]].concat();
            let (before, context) = (hosts.traffic(1), format!("{mpi:?} {words:?}"));
            let done = hosts.job(mpi, 2, &view, &words).run().succeeded();
            assert!(hosts.traffic(1) > before, "{context}: nothing crossed the link");
            let names: Vec<String> = rows(&done).into_iter().map(|row| row.host).collect();
            assert_eq!(names, ["host1", "host1", "host2", "host2"], "{context}: {done}");
            // The views are still mounted: nothing may be pending.
            assert_equal(&dir.join("reference/source"), &dir.join("result"), &context);
            remove(&dir.join("result"));
        }
    }
}

#[test]
fn hosts_that_do_not_share_the_destination_are_refused_and_nothing_is_written_on_any() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    grow(&mut chance(14), &dir, SMALL);
    fs::create_dir(dir.join("result")).expect("a directory");
    let hosts = Hosts::new(&bed, 2);
    hosts.each_runs(&format!("mount -t tmpfs tmpfs {}/result", dir.display()));
    for mpi in ON_HOSTS {
        let done = hosts.job(mpi, 1, &dir, &["-a", "source", "result"]).run().failed_with(64);
        done.says(&["haul-mpi: ", "destination", "not shared"]);
        for host in 0..2 {
            assert_eq!(hosts.says(host, &format!("ls -A {}/result", dir.display())), "", "{mpi:?}, host {host}");
        }
    }
}
