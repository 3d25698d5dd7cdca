//! `haul --smart` and `smartcp` where a disk image or its copy could come to harm: places that are the image itself,
//! destinations with a past, full filesystems, images that change, signals.
#![forbid(unsafe_code)]

mod changes;
mod harness;
mod onto_itself;
mod places;
mod trees;
