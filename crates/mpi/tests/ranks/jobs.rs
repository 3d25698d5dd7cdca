//! The test bed itself: jobs begin, end and are killed as the other tests believe.

use crate::support::{Job, Mpi, groups};
use haul_testbed::temp_dir;

#[test]
fn ranks_of_one_job_know_each_other() {
    for mpi in Mpi::all() {
        let dir = temp_dir();
        let done = Job::new::<&str>(mpi, 3, dir.path(), &[]).of_program(&groups(mpi)).run().succeeded();
        for rank in 0..3 {
            assert!(done.stdout.contains(&format!("rank {rank} of 3 is on ")), "{mpi:?}: {done}");
        }
    }
}
