//! One run of haul-mpi with several ranks, which leaves no process behind.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use haul_testbed::{Child, Command, TempDir, skip, temp_dir};
use rustix::process::{Pid, Signal, kill_process};

/// Seconds. No job here takes so long, unless it hangs; `HAUL_MPI_LIMIT` is for those who cannot wait.
const LIMIT: u64 = 120;
/// By this variable of the environment every process of a job is known, whatever session or namespace it is in.
const MARK: &str = "HAUL_MPI_TEST_JOB";
/// What Open MPI and MPICH call the number of a rank.
const RANK: [&str; 2] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK"];

/// An implementation of MPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mpi {
    Open,
    Mpich,
}

impl Mpi {
    /// Those that haul-mpi was built with: Open MPI by cargo, MPICH by `cargo xtask test`, which says where it is.
    pub fn all() -> Vec<Mpi> {
        let mut all = vec![Mpi::Open];
        match std::env::var_os("HAUL_MPI_MPICH") {
            Some(_) => all.push(Mpi::Mpich),
            None => skip("no build with MPICH: HAUL_MPI_MPICH does not say where it is (cargo xtask test does)"),
        }
        all
    }

    /// The haul-mpi that was built with it.
    ///
    /// # Panics
    /// If it was built with another one: then each rank would believe to be alone.
    pub fn program(self) -> PathBuf {
        let (path, library, compiler) = match self {
            Mpi::Open => (PathBuf::from(env!("CARGO_BIN_EXE_haul-mpi")), "libmpi.so", "mpicc.openmpi"),
            Mpi::Mpich => {
                let path = std::env::var_os("HAUL_MPI_MPICH").expect("all() has looked at it");
                (PathBuf::from(path), "libmpich.so", "mpicc.mpich")
            }
        };
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
        let links = bytes.windows(library.len()).any(|part| part == library.as_bytes());
        assert!(
            links,
            "{} is not linked with {library}: build it with MPICC={compiler}, after `cargo clean -p mpi-sys`",
            path.display()
        );
        path
    }

    fn runner(self, scratch: &Path) -> Vec<OsString> {
        // The end of this process is that of mpirun, and the end of mpirun that of its ranks.
        let mut words: Vec<OsString> = ["setpriv", "--pdeathsig", "KILL"].map(OsString::from).into();
        match self {
            Mpi::Open => {
                let options = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-q"];
                words.extend(options.map(OsString::from));
                // What a killed rank leaves of shared memory goes with the directory.
                words.extend(["--mca".into(), "btl_vader_backing_directory".into(), scratch.into()]);
            }
            Mpi::Mpich => words.push("mpirun.mpich".into()),
        }
        words
    }

    /// What it calls the directory that a rank starts in.
    fn directory_option(self) -> &'static str {
        match self {
            Mpi::Open => "--wdir",
            Mpi::Mpich => "-wdir",
        }
    }
}

/// Ranks that are started alike.
#[derive(Debug, Clone)]
pub struct Part {
    ranks: usize,
    /// A command that starts haul-mpi, such as `prlimit --fsize=1`; it must exec.
    starter: Vec<OsString>,
    directory: Option<PathBuf>,
    args: Vec<OsString>,
}

impl Part {
    /// So many ranks with these words after the name of haul-mpi.
    pub fn new<S: AsRef<std::ffi::OsStr>>(ranks: usize, args: &[S]) -> Part {
        let args = args.iter().map(|arg| arg.as_ref().to_owned()).collect();
        Part { ranks, starter: Vec::new(), directory: None, args }
    }

    /// Started by another command.
    pub fn by<S: AsRef<std::ffi::OsStr>>(mut self, starter: &[S]) -> Part {
        self.starter = starter.iter().map(|word| word.as_ref().to_owned()).collect();
        self
    }

    /// Started in a directory of its own.
    pub fn within(mut self, directory: &Path) -> Part {
        self.directory = Some(directory.to_owned());
        self
    }
}

/// A job before it is started.
#[derive(Debug, Clone)]
pub struct Job {
    mpi: Mpi,
    directory: PathBuf,
    parts: Vec<Part>,
    program: Option<PathBuf>,
    /// A command before mpirun, to start it elsewhere; it must exec.
    head: Vec<OsString>,
    /// Options of mpirun.
    options: Vec<OsString>,
    /// Where its own files go, if not into a directory that goes with it.
    temporary: Option<PathBuf>,
}

impl Job {
    /// So many equal ranks, started in `directory`.
    pub fn new<S: AsRef<std::ffi::OsStr>>(mpi: Mpi, ranks: usize, directory: &Path, args: &[S]) -> Job {
        Job::of(mpi, directory, vec![Part::new(ranks, args)])
    }

    /// Ranks that differ.
    pub fn of(mpi: Mpi, directory: &Path, parts: Vec<Part>) -> Job {
        Job {
            mpi,
            directory: directory.to_owned(),
            parts,
            program: None,
            head: Vec::new(),
            options: Vec::new(),
            temporary: None,
        }
    }

    /// Runs mpirun by another command, and with more options.
    pub fn started_by<S: AsRef<std::ffi::OsStr>>(mut self, head: &[S], options: &[S]) -> Job {
        self.head = head.iter().map(|word| word.as_ref().to_owned()).collect();
        self.options = options.iter().map(|word| word.as_ref().to_owned()).collect();
        self
    }

    /// With another directory for temporary files: the same path on all hosts, and a directory of its own on each.
    pub fn with_temporary(mut self, directory: &Path) -> Job {
        self.temporary = Some(directory.to_owned());
        self
    }

    /// Runs another program than haul-mpi.
    pub fn of_program(mut self, program: &Path) -> Job {
        self.program = Some(program.to_owned());
        self
    }

    /// Starts it.
    ///
    /// # Panics
    /// If mpirun cannot be started.
    pub fn start(&self) -> Running {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let scratch = temp_dir();
        let temporary = self.temporary.as_deref().unwrap_or(scratch.path());
        let mut words: Vec<OsString> = self.head.clone();
        words.extend(self.mpi.runner(temporary));
        words.extend(self.options.iter().cloned());
        let program = self.program.clone().unwrap_or_else(|| self.mpi.program());
        for (at, part) in self.parts.iter().enumerate() {
            if at > 0 {
                words.push(":".into());
            }
            words.extend(["-n".into(), part.ranks.to_string().into(), self.mpi.directory_option().into()]);
            words.push(part.directory.as_ref().unwrap_or(&self.directory).into());
            words.extend(part.starter.iter().cloned());
            words.push(program.clone().into());
            words.extend(part.args.iter().cloned());
        }
        let (stdout, stderr) = (scratch.path().join("stdout"), scratch.path().join("stderr"));
        let file = |path: &Path| File::create_new(path).expect("a file for what the job prints");
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(&self.directory).stdin(Stdio::null());
        command.stdout(file(&stdout)).stderr(file(&stderr));
        // Open MPI makes sockets below it, whose addresses have room for 107 bytes.
        command.env("LC_ALL", "C").env("TMPDIR", temporary).env(MARK, &mark);
        let limit = Duration::from_secs(super::number("HAUL_MPI_LIMIT", LIMIT));
        let deadline = Instant::now() + limit;
        // It is judged by that, and by what else is left of it then.
        let child =
            command.deadline(2 * limit).spawn().unwrap_or_else(|error| panic!("cannot start {words:?}: {error}"));
        Running { child, mark, stdout, stderr, deadline, words, _scratch: scratch }
    }

    /// Runs it to its end.
    pub fn run(&self) -> Outcome {
        self.start().end()
    }
}

/// A job that runs. Dropped, it is killed.
pub struct Running {
    child: Child,
    mark: String,
    stdout: PathBuf,
    stderr: PathBuf,
    deadline: Instant,
    words: Vec<OsString>,
    _scratch: TempDir,
}

impl Running {
    /// The process of a rank, as soon as it is haul-mpi; `None` if the job has ended before.
    pub fn rank(&mut self, rank: usize) -> Option<Pid> {
        let wanted: Vec<String> = RANK.iter().map(|name| format!("{name}={rank}")).collect();
        loop {
            let ended = self.ended();
            let found = marked(&self.mark).into_iter().find(|process| {
                process.name.starts_with("haul-mpi") && process.environment.iter().any(|word| wanted.contains(word))
            });
            match found {
                Some(process) => return Some(process.pid),
                None if ended => return None,
                None => self.yield_now(),
            }
        }
    }

    /// Waits until something is so. `false` if the job has ended before.
    ///
    /// # Panics
    /// If neither happens in time.
    pub fn until(&mut self, mut is_so: impl FnMut() -> bool) -> bool {
        loop {
            if self.ended() {
                return false;
            }
            if is_so() {
                return true;
            }
            self.yield_now();
        }
    }

    /// Waits until the job has printed this. `false` if it has ended before.
    pub fn until_said(&mut self, words: &str) -> bool {
        let paths = [self.stdout.clone(), self.stderr.clone()];
        let said = move || {
            let mut texts = paths.iter().filter_map(|path| fs::read(path).ok());
            texts.any(|text| String::from_utf8_lossy(&text).contains(words))
        };
        self.until(said)
    }

    /// Kills a rank, without a chance to tidy up. `false` if the job has ended before.
    pub fn kill_rank(&mut self, rank: usize) -> bool {
        self.rank(rank).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
    }

    fn ended(&mut self) -> bool {
        self.child.try_wait().expect("the child is ours").is_some()
    }

    fn yield_now(&self) {
        assert!(Instant::now() < self.deadline, "the job hangs: {:?}\n{}", self.words, self.said());
        thread::yield_now();
    }

    fn said(&self) -> String {
        let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        format!("standard output:\n{}standard error:\n{}", read(&self.stdout), read(&self.stderr))
    }

    /// Waits for its end, and kills what is left of it then.
    pub fn end(mut self) -> Outcome {
        let mut timed_out = false;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("the child is ours") {
                break status;
            }
            if Instant::now() > self.deadline {
                timed_out = true;
                self.kill_all();
            }
            // A rank must not wait for a processor because of this.
            thread::sleep(Duration::from_millis(2));
        };
        // mpirun may end a moment before the daemons of other hosts and before the last rank is gone.
        let left = self.left(Duration::from_secs(60));
        let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).expect("it was made")).into_owned();
        let (stdout, stderr) = (read(&self.stdout), read(&self.stderr));
        let line = self.words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        Outcome { line, code: status.code(), signal: status.signal(), timed_out, stdout, stderr, left }
    }

    /// What is still there after so long, at most.
    fn left(&self, patience: Duration) -> Vec<String> {
        let deadline = Instant::now() + patience;
        loop {
            let left = marked(&self.mark);
            if left.is_empty() || Instant::now() > deadline {
                return left.into_iter().map(|process| format!("{} {:?}", process.name, process.pid)).collect();
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn kill_all(&self) {
        for process in marked(&self.mark) {
            // It may have ended by itself.
            let _gone = kill_process(process.pid, Signal::KILL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !marked(&self.mark).is_empty() && Instant::now() < deadline {
            self.kill_all();
            thread::sleep(Duration::from_millis(2));
        }
        // It has ended, one way or the other.
        self.child.wait().map(drop).unwrap_or_default();
    }
}

/// What a job did.
#[derive(Debug)]
pub struct Outcome {
    /// What was run.
    line: String,
    /// The exit status of mpirun.
    pub code: Option<i32>,
    /// What killed mpirun.
    pub signal: Option<i32>,
    pub timed_out: bool,
    pub stdout: String,
    pub stderr: String,
    /// Processes that did not end with mpirun.
    pub left: Vec<String>,
}

impl Outcome {
    /// It copied everything.
    #[track_caller]
    pub fn succeeded(self) -> Outcome {
        assert!(!self.timed_out && self.code == Some(0) && self.left.is_empty(), "the job failed: {self}");
        self
    }

    /// It ended by itself, and said so.
    #[track_caller]
    pub fn failed_with(self, code: i32) -> Outcome {
        assert!(!self.timed_out && self.code == Some(code) && self.left.is_empty(), "wanted status {code}: {self}");
        self
    }

    /// A line of standard error has all these words.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Outcome {
        let has = |line: &str| words.iter().all(|word| line.contains(word));
        assert!(self.stderr.lines().any(has), "no line says {words:?}: {self}");
        self
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Outcome { line, code, signal, timed_out, stdout, stderr, left } = self;
        writeln!(f, "{line}\nstatus {code:?}, signal {signal:?}, timed out: {timed_out}, left behind: {left:?}")?;
        write!(f, "standard output:\n{stdout}standard error:\n{stderr}")
    }
}

/// A living process of a job.
struct Process {
    pid: Pid,
    name: String,
    environment: Vec<String>,
}

/// All processes that a job has started and that have not ended.
fn marked(mark: &str) -> Vec<Process> {
    let wanted = format!("{MARK}={mark}");
    let own = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    let process = |entry: fs::DirEntry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        if own != 0 && entry.metadata().ok()?.uid() != own {
            return None;
        }
        // Processes end while they are looked at; one that waits for its parent has nothing to read.
        let environment = fs::read(entry.path().join("environ")).ok()?;
        let words = environment.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
        let environment: Vec<String> = words.collect();
        let name = fs::read_to_string(entry.path().join("comm")).ok()?.trim_end().to_owned();
        environment.contains(&wanted).then_some(Process { pid, name, environment })
    };
    entries.filter_map(process).collect()
}
