//! Smart copies of disk images, against a slow and simple reference.
#![forbid(unsafe_code)]

mod changing;
mod contents;
mod faults;
mod harness;
mod in_use;
mod keeping;
mod places;
mod punch;
