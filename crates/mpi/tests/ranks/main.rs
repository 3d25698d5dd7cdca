//! haul-mpi: several ranks copy and compare what one process does, with each implementation of MPI.
//!
//! `HAUL_MPI_MPICH` is the program that was built with MPICH; `HAUL_MPI_SEED` chooses other trees, ranks and moments.
#![forbid(unsafe_code)]

mod support;

mod compare;
mod each;
mod engines;
mod errors;
mod hosts;
mod jobs;
mod killed;
mod launch;
mod memory;
mod slurm;
mod trees;
mod unequal;
