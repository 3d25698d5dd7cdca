//! Images, and the programs that copy them.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Output, Stdio};

use haul_guest::ExtentSet;
use haul_guest::fs::Options;
use haul_guest::map::map;
use haul_testbed::guest::{attach, has, live_through, run as tool};
use haul_testbed::{Bed, Child, Command};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

pub const MIB: u64 = 1 << 20;

/// One of the programs in a directory, with whatever makes it copy without free space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    Haul,
    Smartcp,
}

impl Program {
    pub const BOTH: [Program; 2] = [Program::Haul, Program::Smartcp];

    pub fn command(self, dir: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
        match self {
            Program::Haul => command.arg0("haul").arg("--smart"),
            Program::Smartcp => command.arg0("smartcp"),
        };
        command.args(arguments).current_dir(dir).env("LC_ALL", "C").env_remove("POSIXLY_CORRECT").stdin(Stdio::null());
        command
    }

    /// How it ended and what it said on standard output and standard error.
    pub fn run(self, dir: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
        ended(&self.command(dir, arguments).output().expect("it can be run"))
    }

    /// Copies "disk" to "copy" and stops in the middle: when the destination has its size but for a byte, and so few bytes of
    /// data that many are missing. `prepare` makes what the destination was before; it is called for each attempt.
    pub fn stopped_midway(self, dir: &Path, options: &[&str], prepare: &dyn Fn(&Path)) -> Midway {
        let dest = dir.join("copy");
        let size = fs::metadata(dir.join("disk")).expect("it is there").len();
        let arguments = [options, &["disk", "copy"]].concat();
        for _ in 0..1000 {
            prepare(&dest);
            let mut child = self
                .command(dir, &arguments)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("it can be run");
            let there = || fs::metadata(&dest).is_ok_and(|found| found.len() == size - 1);
            // A process that was waited for must not get a signal: its number may be another's.
            let mut over = false;
            while !over && !there() {
                std::thread::yield_now();
                over = child.try_wait().expect("the child is ours").is_some();
            }
            let midway = Midway { child };
            if !over {
                midway.send(Signal::STOP);
                midway.wait_until_it_stands();
                if there() && haul_testbed::allocated(&dest) < EARLY {
                    return midway;
                }
                midway.send(Signal::CONT);
            }
            // It was quicker than we are.
            let (status, _, err) = midway.wait();
            assert_eq!(status, Some(0), "{err}");
            fs::remove_file(&dest).expect("it is there");
        }
        panic!("{self:?} is always done before it can be stopped");
    }
}

/// Less than half of what is used in the images that are copied here.
const EARLY: u64 = 6 * MIB;

/// A program that was stopped, or runs on.
pub struct Midway {
    child: Child,
}

impl Midway {
    pub fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the process is there");
    }

    /// Waits until it was stopped, or has ended.
    fn wait_until_it_stands(&self) {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&self.child)), options).expect("the child is ours");
    }

    /// Lets it go on to its end.
    pub fn end(self) -> (Option<i32>, String, String) {
        self.send(Signal::CONT);
        self.wait()
    }

    fn wait(self) -> (Option<i32>, String, String) {
        ended(&self.child.wait_with_output().expect("the child is ours"))
    }
}

fn ended(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Waits until no child of another test holds a descriptor of it.
pub fn settled(path: &Path) {
    let file = File::open(path).expect("it is there");
    while haul_sys::in_use::is_open_for_writing(file.as_fd()) == Ok(true) {
        std::thread::yield_now();
    }
}

/// An image of ext4 of `size` bytes with about 8 MiB of files, and with the rests of others in its free space. Nothing
/// where the tools are missing.
pub fn ext4(bed: &Bed, image: &Path, size: u64, seed: u64) -> Option<Image> {
    if !has("mkfs.ext4") {
        return None;
    }
    File::create(image).expect("it can be made").set_len(size).expect("it can be extended");
    tool(Command::new("mkfs.ext4").args(["-q", "-F", "-E", "lazy_itable_init=0"]).arg(image));
    let mounted = bed.mount_image("ext4", image, &[]);
    live_through(mounted.path(), 8 * MIB, seed);
    mounted.unmount();
    settled(image);
    Some(Image::of(image))
}

/// What an image holds, and what of it is free.
pub struct Image {
    pub bytes: Vec<u8>,
    pub free: ExtentSet,
}

impl Image {
    pub fn of(path: &Path) -> Image {
        let bytes = fs::read(path).expect("it is there");
        let free = map(&bytes, &Options::default()).free;
        Image { bytes, free }
    }

    /// What a copy must hold.
    pub fn copied(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for run in self.free.trimmed_to(4096).iter() {
            let range = usize::try_from(run.start).expect("fits")..usize::try_from(run.end()).expect("fits");
            bytes[range].fill(0);
        }
        bytes
    }
}

/// Compares without printing millions of bytes.
pub fn assert_holds(path: &Path, expected: &[u8], what: &str) {
    let found = fs::read(path).expect("it is there");
    assert_eq!(found.len(), expected.len(), "{what}: length");
    if found != expected {
        let first = found.iter().zip(expected).position(|(a, b)| a != b);
        panic!("{what}: differs at {first:?}");
    }
}

/// A loop device of a file, detached at the end.
pub struct Loop(pub String);

impl Loop {
    pub fn over(file: &Path, options: &[&str]) -> Loop {
        Loop(attach(file, options))
    }

    pub fn path(&self) -> &Path {
        self.0.as_ref()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // A failure shows in the list of leftovers.
        Command::new("losetup").args(["-d", &self.0]).status().map(drop).unwrap_or_default();
    }
}
