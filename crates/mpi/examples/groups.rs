//! Says on which host each rank is and how many ranks share its memory, and sends 16 MiB from the first rank to all others.
//!
//! The tests show with it that the hosts that they make are hosts.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use mpi::Threading;
use mpi::traits::{Communicator, Root};

const BYTES: usize = 16 << 20;

fn main() -> ExitCode {
    let Some((universe, _)) = mpi::initialize_with_threading(Threading::Funneled) else {
        eprintln!("groups: MPI is running already");
        return ExitCode::FAILURE;
    };
    let world = universe.world();
    // It must be freed before MPI ends.
    let here = world.split_shared(world.rank()).size();
    let mut bytes = vec![u8::from(world.rank() == 0); BYTES];
    world.process_at_rank(0).broadcast_into(&mut bytes[..]);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    println!("rank {} of {} is on {} with {here} here", world.rank(), world.size(), host.trim());
    drop(universe);
    if bytes.iter().all(|&byte| byte == 1) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
