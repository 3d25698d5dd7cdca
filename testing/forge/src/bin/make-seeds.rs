//! Makes the seeds of fuzzing in a directory: `make-seeds DIRECTORY`.
#![forbid(unsafe_code)]

fn main() {
    let Some(dir) = std::env::args_os().nth(1) else {
        eprintln!("Usage: make-seeds DIRECTORY");
        std::process::exit(1);
    };
    for (target, seeds) in haul_forge::make::all(dir.as_ref()) {
        println!("{target}: {seeds} seeds");
    }
}
