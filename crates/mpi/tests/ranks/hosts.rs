//! Two hosts, each with its own view of what they share.

use haul_testbed::Bed;

use crate::support::hosts::Hosts;
use crate::support::{Mpi, groups};

#[test]
fn ranks_on_two_hosts_share_memory_with_their_own_host_alone_and_talk_over_the_link() {
    let Some(bed) = Bed::new() else { return };
    let hosts = Hosts::new(&bed, 2);
    for mpi in Mpi::all() {
        let before = hosts.traffic(1);
        let done = hosts.job::<&str>(mpi, 2, bed.path(), &[]).of_program(&groups(mpi)).run().is_well();
        for (rank, host) in [(0, "host1"), (1, "host1"), (2, "host2"), (3, "host2")] {
            let line = format!("rank {rank} of 4 is on {host} with 2 here");
            assert!(done.stdout.contains(&line), "{mpi:?}: no {line:?}: {done}");
        }
        let crossed = hosts.traffic(1) - before;
        assert!(crossed > 16 << 20, "{mpi:?}: {crossed} bytes crossed the link");
    }
}
