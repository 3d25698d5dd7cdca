//! A batch system on this machine: Slurm's controller, and four nodes, each a daemon of its own, with all in namespaces
//! that go with it: processes, network, mounts and shared memory.
//!
//! The first job of each system is job 1, and the names of its sockets and of its shared memory are made of that: no two
//! systems may see each other's.

use std::fmt::Write;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haul_testbed::process::WHOLE_TEST;
use haul_testbed::{Child, Command, TempDir, skip, temp_dir};

const NODES: usize = 4;
/// The port of the controller; those of the nodes come after it. Nobody else is in that network.
const PORT: usize = 6817;
/// Ranks do not talk over the loopback: Open MPI leaves it out.
const NETWORK: &str = "ip link set lo up; ip link add eth0 type veth peer name eth1; \
    ip address add 10.77.0.1/24 dev eth0; ip link set eth0 up; ip link set eth1 up";
/// A job that names variables of its own gets the environment of a login, too: not with what this machine's root sets up in one.
const LOGIN: &str = "for profile in ~/.profile ~/.bash_profile ~/.bash_login; do \
    if [ -e \"$profile\" ]; then mount --bind /dev/null \"$profile\"; fi; done";
/// How long anything may take here: a step starts in a second or two.
const PATIENCE: Duration = Duration::from_secs(120);

/// The batch system. Its commands are run with [`Slurm::command`].
pub struct Slurm {
    dir: TempDir,
    daemons: Child,
}

impl Slurm {
    /// Starts one, with nodes that are ready; `None` without root.
    ///
    /// # Panics
    /// If it does not get ready.
    pub fn start() -> Option<Slurm> {
        if !rustix::process::geteuid().is_root() {
            skip("Slurm's daemons want to be root");
            return None;
        }
        let dir = temp_dir();
        for name in ["state", "spool", "programs", "root/here"] {
            fs::create_dir_all(dir.path().join(name)).expect("a directory");
        }
        for node in 1..=NODES {
            fs::create_dir_all(dir.path().join(format!("tmp/node{node}"))).expect("a directory");
        }
        fs::write(dir.path().join("slurm.conf"), configuration(dir.path())).expect("a file");
        let nodes: String = (1..=NODES).fold(String::new(), |mut line, node| {
            write!(line, "slurmd -D -f \"$0\" -N node{node} & ").expect("a String takes everything");
            line
        });
        // The shell is the first process of its namespace: all others end with it.
        let script = format!(
            "echo machine >/proc/sys/kernel/hostname; {NETWORK}; {LOGIN}; \
             mount -t tmpfs tmpfs /dev/shm; slurmctld -D -f \"$0\" & {nodes} wait"
        );
        let log = File::create_new(dir.path().join("log")).expect("a file");
        let mut daemons = Command::new("unshare");
        daemons.args(["--pid", "--fork", "--kill-child", "--mount-proc", "--uts", "--ipc", "--net"]);
        daemons.args(["sh", "-ec", &script]);
        daemons.arg(dir.path().join("slurm.conf")).env("PATH", with_sbin());
        daemons.stdout(log.try_clone().expect("a descriptor")).stderr(log).deadline(WHOLE_TEST);
        let daemons = daemons.spawn().expect("unshare can be run");
        let slurm = Slurm { dir, daemons };
        slurm.until("its nodes are ready", || {
            let states =
                slurm.command("sinfo").args(["--noheader", "--Node", "--format=%T"]).output().expect("sinfo runs");
            (String::from_utf8_lossy(&states.stdout).matches("idle\n").count() == NODES).then_some(())
        });
        Some(slurm)
    }

    /// The directory that stands for `/` in examples; `here` in it is the one that they are run in.
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// The directory in which programs are found first.
    pub fn programs(&self) -> PathBuf {
        self.dir.path().join("programs")
    }

    /// A command that is to know of this system. It runs in the network of the daemons, and sees the machine's processes.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.daemons.id().to_string(), "--uts", "--ipc", "--net", "--", program]);
        command.env("SLURM_CONF", self.dir.path().join("slurm.conf")).env("LC_ALL", "C");
        // As the documentation says. Without it a rank may leave MPI_Init too soon, and end another by its first message.
        command.env("SLURM_PMIX_FENCE", "tree");
        command.env("PATH", format!("{}:{}", self.programs().display(), with_sbin()));
        command.current_dir(self.root().join("here"));
        command
    }

    /// Runs a line of a shell there, and gives what it has printed.
    ///
    /// # Panics
    /// If it fails.
    #[track_caller]
    pub fn runs(&self, line: &str) -> String {
        let done = self.command("sh").args(["-ec", line]).output().expect("sh can be run");
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{line}: {}\n{out}{err}\n{}", done.status, self.log());
        out.into_owned()
    }

    /// What scontrol(1) says of a job.
    pub fn shows(&self, job: &str) -> String {
        self.runs(&format!("scontrol --oneliner show job {job}"))
    }

    /// Waits until all of a job has ended, and wants it to have ended well.
    ///
    /// # Panics
    /// If it has not.
    #[track_caller]
    pub fn is_done(&self, job: &str) {
        let states = self.until("the job has ended", || {
            let shown = self.shows(job);
            let states: Vec<String> =
                shown.split_whitespace().filter_map(|word| word.strip_prefix("JobState=")).map(str::to_owned).collect();
            let goes_on = ["PENDING", "RUNNING", "COMPLETING", "CONFIGURING"];
            (!states.iter().any(|state| goes_on.contains(&state.as_str()))).then_some(states)
        });
        let all_well = states.iter().all(|state| state == "COMPLETED");
        assert!(all_well, "{}\n{}\n{}", self.shows(job), self.output(), self.log());
    }

    /// Waits until the nodes have forgotten the first step of a job: what starts it again must not meet its sockets.
    #[track_caller]
    pub fn until_forgotten(&self, job: &str) {
        let step = format!("{job}.0");
        self.until("the nodes forget the step", || {
            let nodes = (1..=NODES).flat_map(|node| {
                fs::read_dir(self.dir.path().join(format!("spool/node{node}"))).expect("a node has it").flatten()
            });
            let mut names = nodes.map(|entry| entry.file_name());
            (!names.any(|name| name.to_string_lossy().contains(&step))).then_some(())
        });
    }

    /// Waits for something.
    ///
    /// # Panics
    /// If it does not come.
    #[track_caller]
    pub fn until<T>(&self, what: &str, mut found: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = found() {
                return found;
            }
            assert!(Instant::now() < deadline, "not in time: {what}\n{}\n{}", self.output(), self.log());
            // Nothing tells of it; the daemons want the processors.
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What jobs have written where they were submitted.
    pub fn output(&self) -> String {
        let here = fs::read_dir(self.root().join("here")).expect("it can be read").flatten();
        let logs = here.filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.starts_with("slurm-") || name.ends_with(".log")
        });
        logs.filter_map(|log| fs::read(log.path()).ok())
            .map(|text| String::from_utf8_lossy(&text).into_owned())
            .collect()
    }

    fn log(&self) -> String {
        let text = fs::read(self.dir.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// Nothing of the machine's own configuration; no secret between the daemons, since nobody else reaches them.
fn configuration(dir: &Path) -> String {
    let nodes: String = (1..=NODES).fold(String::new(), |mut lines, node| {
        let node = format_args!("node{node} NodeHostname=machine NodeAddr=127.0.0.1 Port={}", PORT + node);
        writeln!(lines, "NodeName={node} CPUs=16 RealMemory=65536 State=UNKNOWN").expect("a String takes everything");
        lines
    });
    format!(
        "ClusterName=test\n\
         SlurmctldHost=machine(127.0.0.1)\n\
         SlurmctldPort={PORT}\n\
         AuthType=auth/none\n\
         CredType=cred/none\n\
         SlurmUser=root\n\
         SlurmdUser=root\n\
         StateSaveLocation={dir}/state\n\
         SlurmdSpoolDir={dir}/spool/%n\n\
         SlurmctldPidFile={dir}/slurmctld.pid\n\
         SlurmdPidFile={dir}/%n.pid\n\
         TmpFS={dir}/tmp/%n\n\
         MailProg=/bin/true\n\
         ProctrackType=proctrack/linuxproc\n\
         TaskPlugin=task/none\n\
         SwitchType=switch/none\n\
         MpiDefault=none\n\
         SelectType=select/cons_tres\n\
         SelectTypeParameters=CR_CPU\n\
         SlurmdParameters=config_overrides\n\
         SchedulerParameters=sched_interval=1\n\
         {nodes}\
         PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n",
        dir = dir.display()
    )
}

/// Where Debian has daemons.
fn with_sbin() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}
