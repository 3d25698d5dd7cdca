//! Hosts of their own on this machine: each has a name, a network, mounts, shared memory and temporary files of its own.
//!
//! A host is a process that waits for the end of a pipe, and the namespaces that it is in. When this process is gone, so
//! are they, with everything that was mounted and joined in them.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Stdio};

use haul_testbed::late::{self, LateView, Lateness};
use haul_testbed::process::WHOLE_TEST;
use haul_testbed::{Bed, Child, Command, write_script};

use super::job::{Job, Mpi};

/// From where mpirun starts ranks on the others; it has no ranks.
const HEAD: &str = "head";
const NETWORK: &str = "10.77.0";

/// One host.
struct Host {
    name: String,
    process: Child,
    _alive: ChildStdin,
}

impl Host {
    /// Starts in the mounts of the calling thread, and changes none of them.
    fn new(name: &str) -> Host {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--uts", "--ipc", "--net", "sh", "-c"]);
        command.args(["echo \"$0\" >/proc/sys/kernel/hostname && ip link set lo up && echo ready && exec cat", name]);
        command.deadline(WHOLE_TEST).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("unshare can be run");
        let alive = process.stdin.take().expect("it has a pipe");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("it has a pipe")).read_line(&mut line).expect("a pipe can be read");
        assert_eq!(line, "ready\n", "there is no host {name}");
        Host { name: name.to_owned(), process, _alive: alive }
    }

    /// The command that runs another one there.
    fn enter(&self) -> Vec<OsString> {
        let target = self.process.id().to_string();
        let words = ["nsenter", "--target", &target, "--mount", "--uts", "--ipc", "--net", "--"];
        words.map(OsString::from).into()
    }

    fn runs(&self, line: &str) {
        let words = self.enter();
        let done = Command::new(&words[0]).args(&words[1..]).args(["sh", "-ec", line]).output().expect("sh can be run");
        assert!(done.status.success(), "on {}: {line}: {}", self.name, String::from_utf8_lossy(&done.stderr));
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The pipe would do the same, a moment later.
        self.process.kill().unwrap_or_default();
        self.process.wait().map(drop).unwrap_or_default();
    }
}

/// Hosts, joined by a bridge.
pub struct Hosts {
    head: Host,
    hosts: Vec<Host>,
    /// Where each has temporary files of its own.
    own: PathBuf,
    agent: PathBuf,
}

impl Hosts {
    /// So many hosts `host1`, `host2` and so on, which see the mounts of the test bed.
    pub fn new(bed: &Bed, count: usize) -> Hosts {
        let own = bed.path().join("own");
        fs::create_dir(&own).expect("a directory");
        let head = Host::new(HEAD);
        let hosts: Vec<Host> = (1..=count).map(|number| Host::new(&format!("host{number}"))).collect();
        let names = bed.path().join("hosts");
        let mut list = format!("127.0.0.1 localhost\n{NETWORK}.1 {HEAD}\n");
        head.runs(&format!("ip link add bridge type bridge && ip address add {NETWORK}.1/24 dev bridge"));
        head.runs("ip link set bridge up");
        for (host, number) in hosts.iter().zip(2..) {
            let (link, process) = (format!("to{number}"), host.process.id());
            head.runs(&format!("ip link add {link} type veth peer name eth0 netns {process}"));
            head.runs(&format!("ip link set {link} master bridge && ip link set {link} up"));
            host.runs(&format!("ip address add {NETWORK}.{number}/24 dev eth0 && ip link set eth0 up"));
            list.push_str(&format!("{NETWORK}.{number} {}\n", host.name));
        }
        fs::write(&names, list).expect("a file");
        for host in hosts.iter().chain([&head]) {
            let (names, own) = (names.display(), own.display());
            host.runs(&format!("mount --bind {names} /etc/hosts && mount -t tmpfs tmpfs /dev/shm"));
            host.runs(&format!("mount -t tmpfs tmpfs {own}"));
        }
        let agent = bed.path().join("agent");
        write_script(&agent, agent_script(&hosts));
        Hosts { head, hosts, own, agent }
    }

    /// Mounts a late view of a directory on each of them, at the same path.
    ///
    /// `None` where that is not possible.
    pub fn late_views(&self, backing: &Path, at: &Path, lateness: Lateness) -> Option<Vec<LateView>> {
        fs::create_dir_all(at).expect("a mount point");
        let views =
            self.hosts.iter().map(|host| LateView::mount(&late::program(), &host.enter(), backing, at, lateness));
        views.collect()
    }

    /// Runs a command of the shell on each.
    pub fn each_runs(&self, line: &str) {
        self.hosts.iter().for_each(|host| host.runs(line));
    }

    /// What a command of the shell prints on a host.
    pub fn says(&self, host: usize, line: &str) -> String {
        let words = self.hosts[host].enter();
        let done = Command::new(&words[0]).args(&words[1..]).args(["sh", "-ec", line]).output().expect("sh can be run");
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    /// A job with so many ranks on each host, one host after the other.
    pub fn job<S: AsRef<std::ffi::OsStr>>(&self, mpi: Mpi, each: usize, directory: &Path, args: &[S]) -> Job {
        let job = Job::new(mpi, each * self.hosts.len(), directory, args);
        let agent = self.agent.to_str().expect("a path of the test bed is text");
        let network = format!("{NETWORK}.0/24");
        let names: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        let options: Vec<String> = match mpi {
            Mpi::Open => {
                let slots = names.iter().map(|name| format!("{name}:{each}")).collect::<Vec<_>>().join(",");
                let set = |name: &str, value: &str| ["--mca".to_owned(), name.to_owned(), value.to_owned()];
                let mut options = vec!["--host".to_owned(), slots];
                options.extend(set("plm", "rsh"));
                options.extend(set("plm_rsh_agent", agent));
                options.extend(set("pml", "ob1"));
                options.extend(set("btl", "tcp,self,vader"));
                options.extend(set("btl_tcp_if_include", &network));
                options.extend(set("oob_tcp_if_include", &network));
                options
            }
            Mpi::Mpich => {
                let each = each.to_string();
                let list = names.join(",");
                let words = ["-launcher", "ssh", "-launcher-exec", agent, "-hosts", &list, "-ppn", &each];
                words.map(str::to_owned).into()
            }
        };
        let head = self.head.enter();
        let options: Vec<OsString> = options.into_iter().map(OsString::from).collect();
        job.started_by(&head, &options).with_temporary(&self.own)
    }

    /// Bytes that a host has received and sent over its link.
    pub fn traffic(&self, host: usize) -> u64 {
        let path = format!("/proc/{}/net/dev", self.hosts[host].process.id());
        let table = fs::read_to_string(path).expect("the host is there");
        let line = table.lines().find_map(|line| line.trim_start().strip_prefix("eth0:")).expect("it has a link");
        let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        numbers[0] + numbers[8]
    }
}

/// What starts a command on a host, in the place of ssh.
fn agent_script(hosts: &[Host]) -> String {
    let case = |host: &Host| format!("{}) pid={} ;;\n", host.name, host.process.id());
    let cases: String = hosts.iter().map(case).collect();
    format!(
        "#!/bin/sh\n\
         while [ \"${{1#-}}\" != \"$1\" ]; do shift; done\n\
         host=$1\n\
         shift\n\
         case $host in\n\
         {cases}\
         *) echo \"there is no host $host\" >&2; exit 1 ;;\n\
         esac\n\
         exec nsenter --target \"$pid\" --mount --uts --ipc --net -- /bin/sh -c \"$*\"\n"
    )
}
