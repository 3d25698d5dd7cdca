//! haul, called as `cp`, against the system's cp: same command line, same scene, same result.
//!
//! `HAUL_UNDER_TEST` names another program to judge; `HAUL_AGREE_CASES` and `HAUL_AGREE_SEED` play more random cases
//! or repeat one.
#![forbid(unsafe_code)]

mod bad_input;
mod changing;
mod deep;
mod equals;
mod judge;
mod odd_files;
mod output;
mod property;
mod races;
mod rsync;
mod same_file;
mod signals;
mod support;
