//! What cases work with: disks to make filesystems on, and rows to say what they found.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::haul::Run;
use crate::tool;

/// Where the device mapper shows its disks.
const MAPPER: &str = "/dev/mapper";

/// The empty disk of this machine.
const SCRATCH: &str = "/dev/vdc";

/// Sectors of 512 bytes in a MiB.
pub const MIB_SECTORS: u64 = 2048;

/// Something right, and how it came about.
#[derive(Debug, Default)]
pub struct Found {
    /// How haul moved the bytes.
    pub chose: String,
    /// What was found.
    pub found: String,
}

impl Found {
    /// What was found after one run of haul.
    pub fn new(run: &Run, found: impl Into<String>) -> Found {
        Found { chose: run.chose(), found: found.into() }
    }
}

/// Why there is nothing right to tell.
#[derive(Debug)]
pub enum Trouble {
    /// It is not as it should be.
    Wrong(String),
    /// This kernel or system cannot show it.
    Skipped(String),
}

impl From<String> for Trouble {
    fn from(words: String) -> Trouble {
        Trouble::Wrong(words)
    }
}

impl From<&str> for Trouble {
    fn from(words: &str) -> Trouble {
        Trouble::Wrong(words.into())
    }
}

/// How a check ended.
pub type Outcome = Result<Found, Trouble>;

/// The machine, as one case after the other has it.
pub struct Lab {
    line: File,
    case: &'static str,
    next_sector: u64,
}

impl Lab {
    /// A machine that talks on this line.
    pub fn new(line: File) -> Lab {
        Lab { line, case: "", next_sector: 0 }
    }

    /// One line of words to the host.
    pub fn say(&mut self, words: &[&str]) {
        let words: Vec<String> = words.iter().map(|word| word.replace(['\t', '\n', '\r'], " ")).collect();
        // Nobody hears that the line is broken; the host misses its rows then.
        writeln!(self.line, "{}", words.join("\t")).unwrap_or_default();
    }

    /// Asks the host for what one machine cannot do to another: `kill` or `boot` it.
    pub fn ask_host(&mut self, wish: &str, machine: &str) -> Result<(), String> {
        self.say(&["host", wish, machine]);
        let mut answer = String::new();
        BufReader::new(&self.line).read_line(&mut answer).map_err(|error| format!("the host's answer: {error}"))?;
        if answer.trim() == "done" { Ok(()) } else { Err(format!("the host answered {answer:?}")) }
    }

    /// What a case has measured, in JSON, for the host to keep.
    pub fn send(&mut self, results: &str) {
        self.say(&["results", self.case, results]);
    }

    /// One case from its beginning to an empty machine; `stop` ends the servers that cases start.
    pub fn play(
        &mut self,
        case: &'static str,
        run: fn(&mut Lab) -> Result<(), String>,
        stop: fn() -> Result<(), String>,
    ) {
        self.case = case;
        let start = Instant::now();
        if let Err(why) = run(self) {
            self.row("can be played", start, Err(Trouble::Wrong(why)));
        }
        if let Err(why) = stop().and_then(|()| self.clear()) {
            self.row("leaves nothing behind", start, Err(Trouble::Wrong(why)));
        }
    }

    /// One row of the table.
    pub fn check(&mut self, name: &str, work: impl FnOnce() -> Outcome) {
        let start = Instant::now();
        let outcome = work();
        self.row(name, start, outcome);
    }

    /// One row about work that asks something of the host.
    pub fn check_with(&mut self, name: &str, work: impl FnOnce(&mut Lab) -> Outcome) {
        let start = Instant::now();
        let outcome = work(self);
        self.row(name, start, outcome);
    }

    fn row(&mut self, name: &str, start: Instant, outcome: Outcome) {
        let (verdict, chose, found) = match outcome {
            Ok(Found { chose, found }) => ("right", chose, found),
            Err(Trouble::Wrong(why)) => ("wrong", String::new(), why),
            Err(Trouble::Skipped(why)) => ("skipped", String::new(), why),
        };
        let seconds = format!("{:.1}", start.elapsed().as_secs_f64());
        self.say(&["row", self.case, name, verdict, &seconds, &chose, &found]);
    }

    /// A disk of its own for this case, which nobody has written to in it.
    pub fn disk(&mut self, name: &str, mib: u64) -> Result<Disk, String> {
        let disk = Disk { name: name.into(), start: self.next_sector, sectors: mib * MIB_SECTORS };
        self.next_sector += disk.sectors;
        disk.create(&disk.plain(0, disk.sectors))?;
        Ok(disk)
    }

    /// A device that is made by another table.
    pub fn device(&self, name: &str, sectors: u64, table: &str) -> Result<Disk, String> {
        let disk = Disk { name: name.into(), start: 0, sectors };
        disk.create(table)?;
        Ok(disk)
    }

    /// A mounted filesystem of its own for this case.
    pub fn mounted(&mut self, kind: &str, name: &str, mib: u64) -> Result<PathBuf, String> {
        let disk = self.disk(name, mib)?;
        disk.format(kind)?;
        disk.mount(kind)
    }

    /// Takes away all that cases leave, but for servers.
    fn clear(&mut self) -> Result<(), String> {
        let mounts = fs::read_to_string("/proc/self/mounts").map_err(|error| error.to_string())?;
        let points: Vec<&str> = mounts.lines().filter_map(|line| line.split(' ').nth(1)).collect();
        for point in points.iter().rev().filter(|point| point.starts_with("/tmp/guest/")) {
            tool::run(&format!("umount {point}"))?;
        }
        tool::run("dmsetup remove_all --noudevsync")?;
        for entry in fs::read_dir("/tmp/guest").map_err(|error| error.to_string())?.flatten() {
            fs::remove_dir_all(entry.path()).map_err(|error| format!("{}: {error}", entry.path().display()))?;
        }
        self.next_sector = 0;
        Ok(())
    }
}

/// A piece of the machine's empty disk, behind a table of the device mapper that can be exchanged.
#[derive(Debug, Clone)]
pub struct Disk {
    /// Its name for the device mapper.
    pub name: String,
    start: u64,
    /// Its size in sectors of 512 bytes.
    pub sectors: u64,
}

impl Disk {
    fn create(&self, table: &str) -> Result<(), String> {
        tool::feed(&format!("dmsetup create --noudevrules --noudevsync {}", self.name), table)?;
        tool::run(&format!("dmsetup mknodes {}", self.name))
    }

    /// Its device node.
    pub fn path(&self) -> PathBuf {
        Path::new(MAPPER).join(&self.name)
    }

    /// The line of a table for a range of sectors in which the disk is as it should be.
    pub fn plain(&self, from: u64, to: u64) -> String {
        format!("{from} {} linear {SCRATCH} {}\n", to - from, self.start + from)
    }

    /// The same behind another target: `flakey` and its arguments after the offset.
    pub fn behind(&self, from: u64, to: u64, target: &str, words: &str) -> String {
        format!("{from} {} {target} {SCRATCH} {} {words}\n", to - from, self.start + from)
    }

    /// Exchanges the table while the disk may be in use.
    pub fn become_as(&self, table: &str) -> Result<(), String> {
        tool::feed(&format!("dmsetup load {}", self.name), table)?;
        // Whoever writes meanwhile waits. The filesystem is not asked to sync: that is what cases are about.
        tool::run(&format!("dmsetup suspend --nolockfs --noflush {}", self.name))?;
        tool::run(&format!("dmsetup resume --noudevrules --noudevsync {}", self.name))
    }

    /// Makes an empty filesystem.
    pub fn format(&self, kind: &str) -> Result<(), String> {
        let options = match kind {
            "ext4" => "-q -F -E lazy_itable_init=1,nodiscard",
            "xfs" => "-q -f -K -m reflink=1",
            "btrfs" => "-q -f -K",
            other => return Err(format!("no mkfs for {other}")),
        };
        tool::run(&format!("mkfs.{kind} {options} {}", self.path().display()))
    }

    /// Mounts it below `/tmp/guest`.
    pub fn mount(&self, kind: &str) -> Result<PathBuf, String> {
        let at = Path::new("/tmp/guest").join(&self.name);
        fs::create_dir_all(&at).map_err(|error| format!("{}: {error}", at.display()))?;
        tool::run(&format!("mount -t {kind} {} {}", self.path().display(), at.display()))?;
        Ok(at)
    }
}
