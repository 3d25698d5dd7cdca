//! The first process of a virtual machine: runs haul on what only the guest's kernel has, and prints what it found.
//!
//! `cargo xtask vm` boots it, with the names of the cases on the kernel's command line. Each row goes out on the second
//! serial line as words between tabs. On an ordinary machine it only lists its cases.
//!
//! It **knows** disks and servers of the guest (`lab`), and haul and haul-lab as commands; each group of checks is a file
//! in `cases`. It **must not know** haul's libraries: other programs judge what haul has made. For tests only.
#![forbid(unsafe_code)]

mod cases;
mod haul;
mod lab;
mod tool;
mod tree;

use std::fs::{self, File};
use std::process::ExitCode;

use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, reboot};

use lab::Lab;

fn main() -> ExitCode {
    if std::process::id() != 1 {
        for case in cases::ALL {
            for kernel in case.kernels {
                let quick = if case.quick_on.contains(kernel) { "quick" } else { "" };
                println!("{kernel}\t{}\t{quick}\t{}", case.name, case.what);
            }
        }
        return ExitCode::SUCCESS;
    }
    if let Err(why) = live() {
        eprintln!("the guest gives up: {why}");
    }
    rustix::fs::sync();
    reboot(RebootCommand::PowerOff).unwrap_or_else(|errno| eprintln!("the guest cannot be switched off: {errno}"));
    ExitCode::FAILURE // the kernel panics then, and QEMU ends too
}

/// From the first process's first step to the last case.
fn live() -> Result<(), String> {
    for (kind, at) in
        [("proc", "/proc"), ("sysfs", "/sys"), ("tmpfs", "/run"), ("tmpfs", "/tmp"), ("tmpfs", "/tmp/guest")]
    {
        // The last is in one that was mounted just before; the others are there.
        fs::create_dir_all(at).map_err(|error| format!("{at}: {error}"))?;
        mount(kind, at, kind, MountFlags::empty(), None).map_err(|errno| format!("{at}: {errno}"))?;
    }
    tool::run("ip link set lo up")?;
    let line = File::options().write(true).open("/dev/ttyS1").map_err(|error| format!("/dev/ttyS1: {error}"))?;
    let mut lab = Lab::new(line);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").map_err(|error| error.to_string())?;
    lab.say(&["up", release.trim()]);
    let wanted = tool::word("haul.cases")?.unwrap_or_default();
    for name in wanted.split(',') {
        match cases::ALL.iter().find(|case| case.name == name) {
            Some(case) => lab.play(case.name, case.run, cases::stop_servers),
            None => return Err(format!("no case {name:?}")),
        }
    }
    lab.say(&["done"]);
    Ok(())
}
