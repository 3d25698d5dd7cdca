//! Containers, with qemu-img as the oracle.

mod bench;
mod hostile;
mod keeping;
mod reading;
mod sound;
