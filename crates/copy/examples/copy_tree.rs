//! Copies a tree and shows how far it is: `cargo run --example copy_tree -- SOURCE DEST`.
#![forbid(unsafe_code)]

use std::env::args_os;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_copy::events::{Event, Observer};
use haul_copy::{Context, Copy};

/// Bytes from one line to the next.
const STEP: u64 = 100 << 20;

#[derive(Default)]
struct Progress(AtomicU64);

impl Observer for Progress {
    fn event(&self, event: &Event<'_>) {
        if let Event::Progress(moved) = event {
            let before = self.0.fetch_add(moved.total(), Ordering::Relaxed);
            let now = before + moved.total();
            if before / STEP < now / STEP {
                println!("{} MiB", now >> 20);
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = args_os().skip(1);
    let (Some(source), Some(dest)) = (args.next(), args.next()) else {
        return Err("usage: copy_tree SOURCE DEST".into());
    };
    let copy = Copy::new(source, dest).archive().build()?;
    let summary = copy.run(&Context { observer: &Progress::default(), ..Context::default() })?;
    println!("{} files, {} directories", summary.stats.regular, summary.stats.directories);
    Ok(())
}
