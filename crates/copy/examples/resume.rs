//! Copies a tree so that the same command goes on where it was interrupted: `cargo run --example resume -- SOURCE DEST`.
//! Kill it, and start it again.
#![forbid(unsafe_code)]

use std::env::args_os;
use std::error::Error;

use haul_copy::{Context, Copy};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = args_os().skip(1);
    let (Some(source), Some(dest)) = (args.next(), args.next()) else { return Err("usage: resume SOURCE DEST".into()) };
    let copy = Copy::new(source, dest).archive().resume(true).build()?;
    let stats = copy.run(&Context::default())?.stats;
    println!("{} files, of which {} were there already", stats.regular + stats.resumed_files, stats.resumed_files);
    Ok(())
}
