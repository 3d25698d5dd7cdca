//! The first process of a virtual machine: runs haul on what only the guest's kernel has, and prints what it found.
//!
//! `cargo xtask vm` boots it, with the names of the cases on the kernel's command line. Each row goes out on the second
//! serial line as words between tabs. On an ordinary machine it only lists its cases.
//!
//! It **knows** disks and servers of the guest (`lab`), and haul and haul-lab as commands; each group of checks is a file
//! in `cases`. It **must not know** haul's libraries: other programs judge what haul has made. For tests only.
#![forbid(unsafe_code)]

mod at_work;
mod cases;
mod haul;
mod lab;
mod network;
mod served;
mod server;
mod tool;
mod tree;

use std::fs::{self, File};
use std::path::Path;
use std::process::ExitCode;

use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, reboot};

use lab::Lab;

fn main() -> ExitCode {
    if std::process::id() != 1 {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        return match ask(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("{why}");
                ExitCode::FAILURE
            }
        };
    }
    if let Err(why) = live() {
        eprintln!("the guest gives up: {why}");
    }
    rustix::fs::sync();
    reboot(RebootCommand::PowerOff).unwrap_or_else(|errno| eprintln!("the guest cannot be switched off: {errno}"));
    ExitCode::FAILURE // the kernel panics then, and QEMU ends too
}

/// What a process that is not the first does: lists the cases for the host, or helps on a machine that plays none.
fn ask(arguments: &[&str]) -> Result<(), String> {
    match arguments {
        ["--list"] => {
            for case in cases::ALL {
                for kernel in case.kernels {
                    let quick = if case.quick_on.contains(kernel) { "quick" } else { "" };
                    let together = if case.together { "together" } else { "" };
                    println!("{kernel}\t{}\t{quick}\t{together}\t{}", case.name, case.what);
                }
            }
            Ok(())
        }
        ["at-work"] => {
            println!("{}", at_work::threads());
            Ok(())
        }
        ["mount"] => served::mount(),
        ["grow", seed, root] => tree::grow(Path::new(root), seed.parse().map_err(|error| format!("{seed}: {error}"))?),
        ["same", source, copy] => tree::same(Path::new(source), Path::new(copy), tree::NFS),
        _ => Err("haul-vmlab knows --list, at-work, mount, grow SEED DIRECTORY and same SOURCE COPY".into()),
    }
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
    let name = network::name()?;
    if let Some(name) = &name {
        network::join(name)?;
    }
    // What is written to it must not come back as an answer.
    tool::run("stty -F /dev/ttyS1 raw -echo")?;
    let line =
        File::options().read(true).write(true).open("/dev/ttyS1").map_err(|error| format!("/dev/ttyS1: {error}"))?;
    let mut lab = Lab::new(line);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").map_err(|error| error.to_string())?;
    lab.say(&["up", release.trim()]);
    match name.as_deref() {
        Some("server") => {
            served::begin(&mut lab)?;
            network::wait()
        }
        Some("client") => {
            served::mount()?;
            network::wait()
        }
        Some(_) => {
            network::until_there("server", &format!("test -e {}", served::READY))?;
            network::until_there("client", &format!("test -e {}", served::READY))?;
            served::mount()?;
        }
        None => {}
    }
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
