//! One life of the virtual machine.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::machine::{Kernel, Machine};
use crate::shell::{self, Result};

/// A guest that says nothing for so long will not say anything any more.
const SILENCE: Duration = Duration::from_secs(240);

/// How long one boot may take at most.
const AT_MOST: Duration = Duration::from_secs(1500);

/// Boots a kernel with a disk of programs and an empty one, and hands over what the guest says, line by line.
pub fn boot(
    machine: &Machine,
    kernel: &Kernel,
    disks: &[&Path],
    words: &str,
    mut heard: impl FnMut(&str),
) -> Result<Duration> {
    let console = machine.dir().join(format!("console-{}.log", kernel.name));
    let start = Instant::now();
    let mut command = qemu(machine, kernel, disks, words, &console);
    let child = command.stdout(Stdio::piped()).spawn().map_err(|error| format!("cannot run QEMU: {error}"))?;
    let mut guest = Guest(child);
    let (said, lines) = mpsc::channel();
    let out = guest.0.stdout.take().ok_or("QEMU has no output")?;
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(out).split(b'\n').map_while(std::result::Result::ok) {
            // Nobody listens any more once the guest was given up.
            if said.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                return;
            }
        }
    });
    loop {
        match lines.recv_timeout(SILENCE) {
            Ok(_) if start.elapsed() > AT_MOST => {
                return Err(format!("the guest took longer than {} s", AT_MOST.as_secs()));
            }
            Ok(line) => heard(&line),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!("the guest said nothing for {} s; see {}", SILENCE.as_secs(), console.display()));
            }
        }
    }
    reader.join().map_err(|_| "the reader of the guest's lines panicked")?;
    let status = guest.0.wait().map_err(|error| format!("cannot wait for QEMU: {error}"))?;
    if status.success() { Ok(start.elapsed()) } else { Err(format!("QEMU: {status}")) }
}

/// Ends with whoever watches it.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        // It has ended already, unless it was given up.
        self.0.kill().unwrap_or_default();
        self.0.wait().map(drop).unwrap_or_default();
    }
}

fn qemu(machine: &Machine, kernel: &Kernel, disks: &[&Path], words: &str, console: &Path) -> Command {
    let mut qemu = shell::command("qemu-system-x86_64");
    // Without cmpxchg16b: Linux 6.12 allocates memory by it, and dies of how QEMU 7.2 emulates that.
    qemu.args(["-accel", "tcg,thread=multi", "-cpu", "max,-cx16", "-smp", "2", "-m", "1024"]);
    qemu.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-device", "virtio-rng-pci"]);
    // The kernel's messages on the first line, the guest's own on the second.
    qemu.arg("-serial").arg(format!("file:{}", console.display())).args(["-serial", "stdio"]);
    qemu.arg("-kernel").arg(machine.kernel(kernel)).arg("-initrd").arg(machine.first(kernel));
    qemu.args(["-append", &format!("console=ttyS0 panic=-1 mitigations=off {words}")]);
    let system = machine.system();
    for (disk, other) in
        std::iter::once((system.as_path(), "snapshot=on")).chain(disks.iter().map(|disk| (*disk, "cache=unsafe")))
    {
        qemu.arg("-drive").arg(format!("if=virtio,format=raw,file={},{other}", disk.display()));
    }
    qemu
}
