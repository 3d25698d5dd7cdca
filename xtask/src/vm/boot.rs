//! One life of a virtual machine.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::disks::Disks;
use super::machine::{Kernel, Machine};
use crate::shell::{self, Result};

/// A guest that says nothing for so long will not say anything any more.
const SILENCE: Duration = Duration::from_secs(240);

/// How long all cases of one kernel may take at most; a guest that hangs falls silent long before.
const AT_MOST: Duration = Duration::from_secs(60 * 60);

/// What a guest has.
pub struct Hardware<'a> {
    /// Its console is kept under this name.
    pub name: &'a str,
    pub processors: u32,
    /// In MiB.
    pub memory: u32,
    /// The disk of programs, which several may share, and the one to write to.
    pub programs: &'a Path,
    pub scratch: Option<&'a Path>,
    /// What its first process finds on the kernel's command line.
    pub words: &'a str,
    /// More arguments for QEMU, and the directory that paths in them begin at.
    pub more: Vec<OsString>,
    pub dir: &'a Path,
}

/// Boots a kernel with a disk of programs and an empty one, and hands over what the guest says, line by line.
pub fn boot(
    machine: &Machine,
    kernel: &Kernel,
    disks: &Disks,
    words: &str,
    mut heard: impl FnMut(&str),
) -> Result<Duration> {
    let Disks { dir, programs, scratch } = disks;
    let (name, scratch) = (kernel.name, Some(&**scratch));
    let hardware = Hardware { name, processors: 2, memory: 1024, programs, scratch, words, more: Vec::new(), dir };
    let mut guest = Guest::start(machine, kernel, &hardware)?;
    while let Some(line) = guest.hear(SILENCE)? {
        if guest.age() > AT_MOST {
            return Err(format!("the guest took longer than {} s", AT_MOST.as_secs()));
        }
        heard(&line);
    }
    guest.finish()
}

/// A running virtual machine. It ends with whoever watches it.
pub struct Guest {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    reader: Option<JoinHandle<()>>,
    console: PathBuf,
    started: Instant,
}

impl Guest {
    /// Switches a machine on.
    pub fn start(machine: &Machine, kernel: &Kernel, hardware: &Hardware) -> Result<Guest> {
        let console = machine.dir().join(format!("console-{}.log", hardware.name));
        let started = Instant::now();
        let mut command = qemu(machine, kernel, hardware, &console);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| format!("cannot run QEMU: {error}"))?;
        let out = child.stdout.take().ok_or("QEMU has no output")?;
        let input = child.stdin.take().ok_or("QEMU has no input")?;
        let (said, lines) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(out).split(b'\n').map_while(std::result::Result::ok) {
                // Nobody listens any more once the guest was given up.
                if said.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                    return;
                }
            }
        });
        Ok(Guest { child, input, lines, reader: Some(reader), console, started })
    }

    /// The next line that it says; `None` once it is off.
    ///
    /// # Errors
    /// When it says nothing for so long.
    pub fn hear(&mut self, silence: Duration) -> Result<Option<String>> {
        match self.lines.recv_timeout(silence) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => {
                let (time, console) = (silence.as_secs(), self.console.display());
                Err(format!("the guest said nothing for {time} s; see {console}"))
            }
        }
    }

    /// Writes a line that its first process reads.
    pub fn tell(&mut self, line: &str) -> Result {
        writeln!(self.input, "{line}").map_err(|error| format!("cannot write to the guest: {error}"))
    }

    /// How long it has been on.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits until it is off.
    ///
    /// # Errors
    /// When QEMU was not content.
    pub fn finish(mut self) -> Result<Duration> {
        if let Some(reader) = self.reader.take() {
            reader.join().map_err(|_| "the reader of the guest's lines panicked")?;
        }
        let status = self.child.wait().map_err(|error| format!("cannot wait for QEMU: {error}"))?;
        if status.success() { Ok(self.age()) } else { Err(format!("QEMU: {status}")) }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // It has ended already, unless it was given up.
        self.child.kill().unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}

fn qemu(machine: &Machine, kernel: &Kernel, hardware: &Hardware, console: &Path) -> Command {
    let mut qemu = shell::command("qemu-system-x86_64");
    qemu.args(["-accel", "tcg,thread=multi", "-cpu", kernel.processor]);
    qemu.arg("-smp").arg(hardware.processors.to_string()).arg("-m").arg(hardware.memory.to_string());
    qemu.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-device", "virtio-rng-pci"]);
    // The kernel's messages on the first line, the guest's own on the second.
    qemu.arg("-serial").arg(format!("file:{}", console.display())).args(["-serial", "stdio"]);
    qemu.arg("-kernel").arg(machine.kernel(kernel)).arg("-initrd").arg(machine.first(kernel));
    qemu.args(["-append", &format!("console=ttyS0 panic=-1 mitigations=off {}", hardware.words)]);
    let system = machine.system();
    let given = [(&*system, "snapshot=on"), (hardware.programs, "readonly=on")];
    for (disk, other) in given.into_iter().chain(hardware.scratch.map(|disk| (disk, "cache=unsafe"))) {
        qemu.arg("-drive").arg(format!("if=virtio,format=raw,file={},{other}", disk.display()));
    }
    qemu.args(&hardware.more).current_dir(hardware.dir);
    qemu
}
