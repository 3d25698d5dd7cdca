//! A small tree, and processes with a deadline that copy it.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::time::{Duration, SystemTime};

use haul_agree::snapshot::{self, Snapshot, Stamp};
use haul_testbed::{Child, Command, TempDir, temp_dir};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");
/// Seconds after which a process is killed, and the test fails.
const DEADLINE: &str = "60";
/// What batch systems set.
const LAUNCHERS: [&str; 5] = ["SLURM_ARRAY_JOB_ID", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"];

pub struct Scene {
    dir: TempDir,
}

pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits for a process that has a deadline.
pub fn ends(mut child: Child) -> ExitStatus {
    child.wait().expect("the child is ours")
}

impl Scene {
    /// `s` with six files, a directory with one more, and a symbolic link; all of another time.
    pub fn new() -> Scene {
        let scene = Scene { dir: temp_dir() };
        fs::create_dir(scene.path("s")).expect("a directory");
        fs::create_dir(scene.path("s/sub")).expect("a directory");
        for name in ["f1", "f2", "f3", "f4", "f5", "f6", "sub/f"] {
            fs::write(scene.path("s").join(name), format!("contents of {name}")).expect("a file");
            scene.age(&format!("s/{name}"), 1_500_000_000);
        }
        symlink("f1", scene.path("s/link")).expect("a link");
        scene.age("s/sub", 1_400_000_000);
        scene.age("s", 1_400_000_001);
        scene
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn age(&self, name: &str, seconds: u64) {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let file = fs::File::open(self.path(name)).expect("it is there");
        file.set_times(fs::FileTimes::new().set_modified(time)).expect("a time");
    }

    /// Other contents for a file of the source.
    pub fn change(&self, name: &str, contents: &str) {
        let path = self.path("s").join(name);
        let size = fs::read(&path).expect("it is there").len();
        let contents = contents.bytes().cycle().take(size.max(1)).collect::<Vec<u8>>();
        fs::write(path, contents).expect("it can be written");
    }

    /// An older `d`, in which two names are one file, and a link stands where there will be a file.
    pub fn lay_old(&self) {
        fs::create_dir(self.path("d")).expect("a directory");
        for name in ["f1", "f2", "f3"] {
            fs::write(self.path("d").join(name), "old").expect("a file");
            self.age(&format!("d/{name}"), 1_000_000_000);
        }
        fs::write(self.path("d/a"), "old").expect("a file");
        symlink("elsewhere", self.path("d/link")).expect("a link");
        fs::hard_link(self.path("s/f4"), self.path("s/a")).expect("a link");
    }

    /// haul, in the directory of the tree, with these variables, killed at a deadline.
    pub fn command(&self, variables: &[(&str, &str)], words: &[&str]) -> Command {
        self.command_below(&[], variables, words)
    }

    fn command_below(&self, above: &[&str], variables: &[(&str, &str)], words: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-k", "9", DEADLINE]).args(above).arg(HAUL).args(words).current_dir(self.dir.path());
        LAUNCHERS.iter().for_each(|name| _ = command.env_remove(name));
        command.envs(variables.iter().copied()).env("LC_ALL", "C").stdin(Stdio::null());
        command
    }

    pub fn run(&self, words: &[&str]) -> Output {
        self.run_with(&[], words)
    }

    pub fn run_with(&self, variables: &[(&str, &str)], words: &[&str]) -> Output {
        self.command(variables, words).output().expect("it can be run")
    }

    /// Runs it and expects nothing but success; what it says.
    pub fn must(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {}", said(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Refused with these words, and nothing is there that was not there before.
    pub fn refused(&self, words: &[&str], why: &str) {
        let before = self.look_at_all();
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {}", said(&output));
        assert!(said(&output).contains(why), "{words:?}: {}", said(&output));
        assert!(self.look_at_all() == before, "{words:?} has changed something");
    }

    pub fn status(&self, options: &[&str]) -> String {
        let output = self.run(&[options, &["-aT", "--shard=status", "s", "d"]].concat());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs it and kills it when it has begun its so-manieth call of this kind; false if it has ended before.
    pub fn killed_at(&self, call: &str, when: u32, words: &[&str]) -> bool {
        let output = self.injected(call, &format!("signal=KILL:when={when}"), words);
        // strace ends as its child did.
        use std::os::unix::process::ExitStatusExt;
        output.status.signal() == Some(9) || output.status.code() == Some(137)
    }

    /// Runs it where each call of this kind fails so; it must fail, too.
    pub fn fails_at(&self, call: &str, error: &str, words: &[&str]) {
        let output = self.injected(call, &format!("error={error}"), words);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {}", said(&output));
    }

    fn injected(&self, call: &str, what: &str, words: &[&str]) -> Output {
        let (trace, inject) = (format!("trace={call}"), format!("inject={call}:{what}"));
        let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
        let output = self.command_below(&strace, &[], words).output().expect("it can be run");
        assert!(output.status.code() != Some(124), "the deadline: {words:?}");
        output
    }

    fn look(&self, name: &str) -> Snapshot {
        let mut found = snapshot::take(&self.path(name), SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000))
            .expect("it can be read");
        for item in found.values_mut() {
            item.atime = Stamp::Now;
            item.blocks = 0;
        }
        found
    }

    /// Everything, with all times.
    pub fn look_at_all(&self) -> (Snapshot, i64) {
        let top = fs::metadata(self.path(".")).expect("it is there");
        (self.look("."), top.mtime_nsec())
    }

    /// `d` is what cp makes of `s`.
    pub fn is_complete(&self) {
        let reference = self.path("reference");
        let cp = Command::new("cp").arg("-aT").arg(self.path("s")).arg(&reference).status().expect("cp can be run");
        assert!(cp.success());
        let (expected, found) = (self.look("reference"), self.look("d"));
        fs::remove_dir_all(&reference).expect("it is there");
        let names: std::collections::BTreeSet<_> = expected.keys().chain(found.keys()).collect();
        let differs: Vec<_> = names.into_iter().filter(|name| expected.get(*name) != found.get(*name)).collect();
        for name in &differs {
            eprintln!("{}\n  {:?}\n  {:?}", name.escape_ascii(), expected.get(*name), found.get(*name));
        }
        assert!(differs.is_empty(), "the copy is not that of cp");
        let top = |name: &Path| {
            fs::metadata(name).map(|top| (top.mode(), top.mtime(), top.mtime_nsec())).expect("it is there")
        };
        assert_eq!(top(&self.path("s")), top(&self.path("d")));
        assert_eq!(self.temporary(), [""; 0]);
    }

    /// What is there of temporary files, journals and half a record.
    pub fn temporary(&self) -> Vec<String> {
        let names = self.look(".").into_keys().map(|name| String::from_utf8_lossy(&name).into_owned());
        let is_record = |last: &str| last.strip_prefix(".haul-shards-").is_some_and(|digits| digits.len() == 16);
        names
            .filter(|name| {
                let last = name.rsplit('/').next().unwrap_or(name);
                last.starts_with(".haul-") && !is_record(last)
            })
            .collect()
    }
}
