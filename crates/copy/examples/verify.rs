//! Copies a file or a tree, reads every copy back from its device and compares it: `cargo run --example verify -- SOURCE DEST`.
//! What went wrong is listed, up to 100 errors.
#![forbid(unsafe_code)]

use std::env::args_os;
use std::error::Error;

use haul_copy::plan::Verify;
use haul_copy::{Context, Copy};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = args_os().skip(1);
    let (Some(source), Some(dest)) = (args.next(), args.next()) else { return Err("usage: verify SOURCE DEST".into()) };
    let copy = Copy::new(source, dest).archive().verify(Verify::Device).build()?;
    match copy.run(&Context::default()) {
        Ok(summary) => println!("{} files are on the device as they are in the source", summary.stats.regular),
        Err(failed) => {
            failed.errors.iter().for_each(|error| println!("{error}"));
            return Err(failed.into());
        }
    }
    Ok(())
}
