//! Lets `haul-lab tune` search on a storage that is made for it, and shows what it finds; takes minutes, as root.
//!
//! `cargo run --release -p haul-lab --example prove-tune -- far`: a filesystem in user space, where each request takes 3 ms, as over
//! a network, and 128 KiB at most go with one. With `xfs`: XFS without shared extents in a loop image. With anything else it is
//! `haul-lab`, whose parts it starts.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use haul_testbed::misbehaving::{Fault, Manner, Misbehaving, On, What};
use haul_testbed::{Bed, Fs, temp_dir};

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("far") => far(),
        Some("xfs") => xfs(),
        _ => haul_lab::app::main(),
    }
}

fn far() -> ExitCode {
    let Some(bed) = Bed::new() else { return ExitCode::FAILURE };
    let Some(far) = Misbehaving::mount(&bed, "far", Manner::default()) else { return ExitCode::FAILURE };
    for on in [On::Read, On::Write, On::Create, On::Open] {
        far.on(Fault::of(on, "").does(What::Delay(Duration::from_millis(3))));
    }
    tune(far.path(), &["--time=4m", "--files=tiny,small,medium", "--space=400M"])
}

fn xfs() -> ExitCode {
    let Some(bed) = Bed::new() else { return ExitCode::FAILURE };
    let Some(dir) = bed.mount(Fs::XfsNoReflink) else { return ExitCode::FAILURE };
    tune(&dir, &["--time=4m", "--space=4G"])
}

/// The mounts are this thread's, so it has to be a process of this one.
fn tune(dir: &Path, options: &[&str]) -> ExitCode {
    let out = temp_dir();
    let program = std::env::current_exe().expect("it is running");
    let mut command = Command::new(program);
    command.arg("tune").args(options).arg("--output").arg(out.path().join("results")).arg(dir);
    command.env("XDG_CONFIG_HOME", out.path()).env("HOME", out.path()).current_dir(out.path());
    let status = command.status().expect("it can be run");
    if let Ok(profile) = std::fs::read_to_string(out.path().join("haul/profile")) {
        println!("{profile}");
    }
    if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
