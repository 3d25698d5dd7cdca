//! The network of several machines: what the host says to this one of itself and of the others, and what it asks of them.

use std::fs;
use std::io::Write;
use std::thread;
use std::time::Duration;

use crate::tool;

/// What the host has called this machine; `None` if it is alone.
pub fn name() -> Result<Option<String>, String> {
    tool::word("haul.name")
}

/// Gives this machine its name and addresses, and lets the others in.
pub fn join(name: &str) -> Result<(), String> {
    fs::write("/proc/sys/kernel/hostname", name).map_err(|error| format!("the name of this machine: {error}"))?;
    tool::run("modprobe virtio_net")?;
    let addresses = tool::word("haul.addresses")?.ok_or("the host has passed no addresses")?;
    for (number, address) in addresses.split(',').enumerate() {
        tool::run(&format!("ip address add {address} dev eth{number}"))?;
        tool::run(&format!("ip link set eth{number} up"))?;
    }
    let mut hosts =
        fs::File::options().append(true).open("/etc/hosts").map_err(|error| format!("/etc/hosts: {error}"))?;
    let others = tool::word("haul.hosts")?.ok_or("the host has passed no other machines")?;
    for (other, address) in others.split(',').filter_map(|entry| entry.split_once(':')) {
        writeln!(hosts, "{address} {other}").map_err(|error| format!("/etc/hosts: {error}"))?;
    }
    // Terminals of its own, without which sshd starts no shell, and a directory for its unprivileged part.
    for (kind, at) in [("devpts", "/dev/pts"), ("tmpfs", "/dev/shm")] {
        fs::create_dir_all(at).map_err(|error| format!("{at}: {error}"))?;
        tool::run(&format!("mount -t {kind} {kind} {at}"))?;
    }
    fs::create_dir_all("/run/sshd").map_err(|error| format!("/run/sshd: {error}"))?;
    tool::run("/usr/sbin/sshd")
}

/// Does what others ask by ssh until the machine goes off.
pub fn wait() -> ! {
    loop {
        // What sshd leaves comes to the first process. Without anybody to wait for there is an error at once.
        if !matches!(rustix::process::wait(rustix::process::WaitOptions::empty()), Ok(Some(_))) {
            thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Runs a command on another machine; it must end well.
pub fn on(machine: &str, line: &str) -> Result<String, String> {
    tool::output(&format!("ssh -n -o ConnectTimeout=10 {machine} {line}"))
}

/// Waits until another machine does what it is asked.
pub fn until_there(machine: &str, line: &str) -> Result<(), String> {
    tool::until(&format!("{line} on {machine}"), || on(machine, line).is_ok())
}
