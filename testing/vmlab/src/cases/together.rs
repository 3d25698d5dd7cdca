//! Two clients of one NFS 4.2 server, which copy together. The head, one of them, plays this; the server judges.

use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use haul_testbed::Child;
use haul_testbed::guest::Noise;
use serde_json::Value;

use crate::at_work;
use crate::lab::{Found, Lab, Outcome, Trouble};
use crate::network::{on, until_there};
use crate::served::{KINDS, READY, SERVED, SHARED};
use crate::tool;

/// Before the host takes a machine that says nothing for dead.
const STUCK: Duration = Duration::from_secs(300);

/// What copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    OpenMpi,
    Mpich,
    /// Two processes that know nothing of each other.
    Shards,
}

/// One copy by both clients.
#[derive(Debug, Clone)]
struct Job {
    by: By,
    /// Below [`SHARED`] and [`SERVED`].
    source: String,
    /// The only entry of its directory.
    copy: String,
    /// For haul.
    options: String,
    /// Whether the client takes part, or all of it is done by the head.
    both: bool,
}

/// A copy at work.
struct Begun {
    line: String,
    parts: Vec<Child>,
    since: Instant,
}

/// How it ended.
struct Ended {
    right: bool,
    /// Messages and, as lines of JSON, statistics.
    said: String,
    seconds: f64,
}

impl Job {
    fn new(by: By, source: &str, copy: &str, options: &str) -> Job {
        Job { by, source: source.into(), copy: copy.into(), options: options.into(), both: true }
    }

    fn arguments(&self) -> String {
        format!("-aT --stats=json {} {SHARED}/{} {SHARED}/{}", self.options, self.source, self.copy)
    }

    /// One command line for each process that the head starts.
    fn lines(&self) -> Vec<String> {
        let arguments = self.arguments();
        match (self.by, self.both) {
            (By::OpenMpi, both) => {
                let hosts = if both { "head:2,client:2" } else { "head:2" };
                // The wire between the two, and nothing of libraries for networks that are not there.
                let networks = "--mca btl_tcp_if_include eth1 --mca oob_tcp_if_include eth1";
                let quiet = "--mca mca_base_component_show_load_errors 0 --mca pml ob1 --mca btl tcp,self,vader";
                let how = format!("--allow-run-as-root --oversubscribe --bind-to none --host {hosts}");
                let how = format!("{how} {networks} {quiet}");
                vec![format!("mpirun.openmpi {how} haul-mpi --chunk=1M {arguments}")]
            }
            (By::Mpich, both) => {
                let hosts = if both { "head,client" } else { "head" };
                let how = format!("-launcher ssh -hosts {hosts} -ppn 2 -iface eth1 -genv UCX_NET_DEVICES eth1");
                vec![format!("mpirun.mpich {how} haul-mpi-mpich --chunk=1M {arguments}")]
            }
            (By::Shards, true) => {
                vec![format!("haul --shard=1/2 {arguments}"), format!("ssh -n client haul --shard=2/2 {arguments}")]
            }
            (By::Shards, false) => {
                vec![format!("haul --shard=1/2 {arguments}"), format!("haul --shard=2/2 {arguments}")]
            }
        }
    }

    fn begin(&self) -> Result<Begun, String> {
        self.prepare()?;
        let lines = self.lines();
        let start = |line: &String| {
            let mut command = tool::command(line);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().map_err(|error| format!("{line}: {error}"))
        };
        let parts = lines.iter().map(start).collect::<Result<Vec<Child>, String>>()?;
        Ok(Begun { line: lines.join(" & "), parts, since: Instant::now() })
    }

    /// From its beginning to its end, which must be a good one.
    fn run(&self) -> Result<Ended, String> {
        self.begin()?.finish_well()
    }

    /// What other programs on the server say of the copy.
    fn judge(&self) -> Result<(), String> {
        on("server", &format!("haul-vmlab same {SERVED}/{} {SERVED}/{}", self.source, self.copy))?;
        let left = on("server", &format!("ls -A {SERVED}/{}", self.directory()))?;
        // Shards note which of them are done.
        let mut left = left.lines().filter(|name| *name != "copy" && !name.starts_with(".haul-shards-"));
        left.next().map_or(Ok(()), |name| Err(format!("left behind: {name}")))
    }

    fn directory(&self) -> std::path::Display<'_> {
        Path::new(&self.copy).parent().unwrap_or(Path::new("")).display()
    }

    fn prepare(&self) -> Result<(), String> {
        on("server", &format!("mkdir -p {SERVED}/{}", self.directory())).map(drop)
    }

    fn remove(&self) -> Result<(), String> {
        on("server", &format!("rm -rf {SERVED}/{}", self.directory())).map(drop)
    }

    /// Waits until some of the copy is there, and some of it is not.
    fn until_begun(&self, begun: &mut Begun) -> Result<(), String> {
        let there = format!("test $(find {SERVED}/{} -type f | wc -l) -gt 8", self.copy);
        tool::until("the copy begins", || on("server", &there).is_ok() || begun.ended())?;
        if begun.ended() { Err(format!("{}: it ended before anything was seen of it", begun.line)) } else { Ok(()) }
    }
}

impl Begun {
    fn ended(&mut self) -> bool {
        // What cannot be asked is gone.
        self.parts.iter_mut().all(|part| part.try_wait().map_or(true, |status| status.is_some()))
    }

    fn finish(self) -> Result<Ended, String> {
        let (mut right, mut said) = (true, String::new());
        let (over, watched) = mpsc::channel::<()>();
        let left = STUCK.saturating_sub(self.since.elapsed());
        let watcher = thread::spawn(move || match watched.recv_timeout(left) {
            Err(RecvTimeoutError::Timeout) => look_and_end(),
            _ => String::new(),
        });
        let outputs: Vec<_> = self.parts.into_iter().map(Child::wait_with_output).collect();
        drop(over);
        let stuck = watcher.join().unwrap_or_default();
        for output in outputs {
            let output = output.map_err(|error| format!("{}: {error}", self.line))?;
            right &= output.status.success();
            said += &String::from_utf8_lossy(&output.stdout);
            said += &String::from_utf8_lossy(&output.stderr);
        }
        if !stuck.is_empty() {
            return Err(format!("{}: {stuck}; it said: {said}", self.line));
        }
        Ok(Ended { right, said, seconds: self.since.elapsed().as_secs_f64() })
    }

    fn finish_well(self) -> Result<Ended, String> {
        let line = self.line.clone();
        let ended = self.finish()?;
        // Shards say how many of them are done, whether they were done before the kill, and that the server still keeps the lock
        // of a client that is gone.
        let of_shards = [" shards are done", ": this shard is done already", "; waiting for its end"];
        let is_expected = |line: &str| line.starts_with('{') || of_shards.iter().any(|words| line.contains(words));
        let messages: Vec<&str> = ended.said.lines().filter(|line| !is_expected(line)).collect();
        if ended.right && messages.is_empty() { Ok(ended) } else { Err(format!("{line}: {}", messages.join("; "))) }
    }

    /// Ends what runs on the head. Without a launcher its ranks would wait for those of a machine that is gone.
    fn kill(mut self) -> Result<(), String> {
        for part in &mut self.parts {
            part.kill().map_err(|error| format!("{}: {error}", self.line))?;
        }
        // Where nobody is left, nobody can be killed. What has started ranks on a machine that is gone has our pipes.
        for who in ["-f haul-mpi", "-f ^haul", "-x ssh"] {
            tool::run(&format!("busybox pkill -KILL {who}")).unwrap_or_default();
        }
        for part in &mut self.parts {
            part.wait().map_err(|error| format!("{}: {error}", self.line))?;
        }
        tool::until("the head has no ranks", || tool::run("busybox pgrep -f haul-mpi").is_err())
    }
}

impl Ended {
    /// What each rank of a machine has in this field of its record.
    fn of_ranks(&self, field: &str) -> Vec<(String, u64)> {
        let records = self.said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let ranks = records.filter(|record| record["record"] == "haul-mpi-rank");
        let of = |record: Value| {
            let host = record["host"].as_str().unwrap_or_default();
            (host.to_owned(), record[field].as_u64().unwrap_or_default())
        };
        ranks.map(of).collect()
    }

    fn sum(&self, machine: &str, field: &str) -> u64 {
        self.of_ranks(field).iter().filter(|(host, _)| host == machine).map(|(_, count)| count).sum()
    }

    fn shares(&self) -> String {
        let of = |machine: &str| {
            format!("{machine}: {} files, {} chunks", self.sum(machine, "files"), self.sum(machine, "chunks"))
        };
        if self.of_ranks("files").is_empty() { String::new() } else { format!("; {}, {}", of("head"), of("client")) }
    }
}

/// Says what the processes of a copy wait for that does not end, and ends those of the head.
fn look_and_end() -> String {
    let there = on("client", "haul-vmlab at-work").unwrap_or_else(|why| why);
    let said = format!("did not end in {} s. The head: {} The client: {there}", STUCK.as_secs(), at_work::threads());
    // Also where this process waits for what is left of it.
    eprintln!("{said}");
    for who in ["-f mpirun", "-f hydra", "-f haul-mpi", "-f ^haul", "-x ssh"] {
        tool::run(&format!("busybox pkill -KILL {who}")).unwrap_or_default();
    }
    said
}

/// Grows a tree on the server.
fn grow(path: &str, seed: u64) -> Result<(), String> {
    on("server", &format!("rm -rf {SERVED}/{path}"))?;
    on("server", &format!("haul-vmlab grow {seed} {SERVED}/{path}")).map(drop)
}

fn copied(job: &Job) -> Outcome {
    job.remove()?;
    if job.by == By::Mpich && !Path::new("/lab/haul-mpi-mpich").exists()
        || job.by == By::OpenMpi && !Path::new("/lab/haul-mpi").exists()
    {
        return Err(Trouble::Skipped("haul-mpi was not built".into()));
    }
    let ended = job.run()?;
    job.judge()?;
    let found = format!("equal on the server{}", ended.shares());
    job.remove()?;
    Ok(Found { chose: String::new(), found })
}

/// One large file, of which the head's first rank gives parts away.
fn one_file(by: By, kind: &str) -> Outcome {
    on("server", &format!("mkdir -p {SERVED}/{kind}/alone"))?;
    on("server", &format!("dd if=/dev/urandom of={SERVED}/{kind}/alone/large bs=1M count=48 status=none"))?;
    // In a moment it would be over before anybody asks for work, and a clone is one call.
    let options = "--limit=12M --reflink=never";
    let job = Job::new(by, &format!("{kind}/alone"), &format!("{kind}/copies/copy"), options);
    job.remove()?;
    let ended = job.run()?;
    job.judge()?;
    job.remove()?;
    let found = format!("equal{}; {:.0} s", ended.shares(), ended.seconds);
    match ended.sum("client", "chunks") {
        0 => Err(format!("the client has copied no chunk of it: {found}").into()),
        _ => Ok(Found { chose: String::new(), found }),
    }
}

/// One row, for the tests of every day.
pub fn look(lab: &mut Lab) -> Result<(), String> {
    grow("ext4/source", 7)?;
    lab.check("haul-mpi: two ranks on each of two clients", || {
        copied(&Job::new(By::OpenMpi, "ext4/source", "ext4/copies/copy", ""))
    });
    Ok(())
}

/// Each way to each filesystem, and from one to the other.
pub fn copies(lab: &mut Lab) -> Result<(), String> {
    for kind in KINDS {
        grow(&format!("{kind}/source-{kind}"), 11)?;
    }
    for (from, to) in [("ext4", "ext4"), ("xfs", "xfs"), ("ext4", "xfs")] {
        for by in [By::OpenMpi, By::Mpich, By::Shards] {
            let job = |options| Job::new(by, &format!("{from}/source-{from}"), &format!("{to}/copies/copy"), options);
            lab.check(&format!("{by:?}, {from} -> {to}"), || copied(&job("")));
            if from == to {
                lab.check(&format!("{by:?}, {from} -> {to}: --resume"), || copied(&job("--resume")));
            }
            if from == to && by != By::Shards {
                lab.check(&format!("{by:?}, {from}: chunks of one file by both clients"), || one_file(by, from));
            }
        }
    }
    Ok(())
}

/// Machines and networks that go.
pub fn faults(lab: &mut Lab) -> Result<(), String> {
    grow("ext4/source", 21)?;
    for by in [By::OpenMpi, By::Mpich, By::Shards] {
        let job = Job::new(by, "ext4/source", "ext4/copies/copy", "--resume --limit=400K");
        lab.check_with(&format!("{by:?}: a client without power; --resume by the other"), |lab| {
            client_killed(lab, &job)
        });
        lab.check_with(&format!("{by:?}: the server without power, and back"), |lab| server_killed(lab, &job));
        lab.check(&format!("{by:?}: the head without the server for a minute"), || cut(&job));
    }
    Ok(())
}

/// What haul says where another run has the journal locked.
const LOCKED: &str = "another run of this command is still at work";

fn client_killed(lab: &mut Lab, job: &Job) -> Outcome {
    job.remove()?;
    let mut begun = job.begin()?;
    job.until_begun(&mut begun)?;
    lab.ask_host("kill", "client")?;
    lab.say(&["the client is off"]);
    // Those that are left may wait for the others for ever: whoever runs a job ends it.
    begun.kill()?;
    lab.say(&["nothing is at work any more"]);
    let quick = Job { options: "--resume".into(), both: false, ..job.clone() };
    let mut ended = quick.run();
    lab.say(&[&format!("the first run has ended {}", ended.as_ref().err().map_or("well", String::as_str))]);
    tool::until("the server gives up the locks of the client, whose lease is over", || {
        let is_locked = ended.as_ref().is_err_and(|why| why.contains(LOCKED));
        if is_locked {
            ended = quick.run();
        }
        !is_locked
    })?;
    lab.say(&["the job has ended"]);
    lab.ask_host("boot", "client")?;
    let ended = ended?;
    job.judge()?;
    job.remove()?;
    until_there("client", &format!("test -e {READY}"))?;
    Ok(Found { chose: String::new(), found: format!("completed in {:.0} s, equal", ended.seconds) })
}

fn server_killed(lab: &mut Lab, job: &Job) -> Outcome {
    job.remove()?;
    let mut begun = job.begin()?;
    job.until_begun(&mut begun)?;
    lab.ask_host("kill", "server")?;
    lab.ask_host("boot", "server")?;
    until_there("server", &format!("test -e {READY}"))?;
    let ended = begun.finish_well()?;
    job.judge()?;
    job.remove()?;
    Ok(Found { chose: String::new(), found: format!("went on, {:.0} s in all, equal", ended.seconds) })
}

fn cut(job: &Job) -> Outcome {
    job.remove()?;
    let mut begun = job.begin()?;
    job.until_begun(&mut begun)?;
    tool::run("ip link set eth0 down")?;
    thread::sleep(Duration::from_secs(60));
    tool::run("ip link set eth0 up")?;
    let ended = begun.finish_well()?;
    job.judge()?;
    job.remove()?;
    Ok(Found { chose: String::new(), found: format!("went on, {:.0} s in all, equal", ended.seconds) })
}

/// How many trees, and how many of them are killed.
const TREES: u64 = 50;
const KILLS: u64 = 20;

/// Random trees, copied by one way after the other; the first ones are killed at a random moment and completed.
pub fn random(lab: &mut Lab) -> Result<(), String> {
    let (mut equal, mut late) = (0, 0);
    for seed in 1..=TREES {
        let mut noise = Noise::new(seed);
        let kind = KINDS[seed as usize % 2];
        let by = [By::OpenMpi, By::Shards, By::Mpich][seed as usize % 3];
        let source = format!("{kind}/source-{seed}");
        grow(&source, 1000 + seed)?;
        let mut job = Job::new(by, &source, &format!("{kind}/copies-{seed}/copy"), "--resume");
        let done = (|| {
            if seed <= KILLS {
                job.options = "--resume --limit=2M".into();
                let mut begun = job.begin()?;
                thread::sleep(Duration::from_millis(noise.below(8000)));
                late += u32::from(begun.ended());
                kill_one(begun, noise.below(2) == 0)?;
                job.options = "--resume".into();
            }
            job.run()?;
            job.judge()
        })();
        lab.say(&[&format!("tree {seed} by {by:?}")]);
        match done {
            Ok(()) => equal += 1,
            Err(why) => lab.check(&format!("tree {seed} by {by:?}"), || Err(why.into())),
        }
        job.remove()?;
        on("server", &format!("rm -rf {SERVED}/{source}"))?;
    }
    lab.check("random trees", || {
        let found = format!("{equal} of {TREES} equal on the server; {KILLS} killed first, {late} of these too late");
        if equal == TREES { Ok(Found { chose: String::new(), found }) } else { Err(found.into()) }
    });
    Ok(())
}

/// Kills what the head has started, or what runs on the client; the rest ends by itself, or is ended.
fn kill_one(begun: Begun, ours: bool) -> Result<(), String> {
    if !ours {
        // Where it has ended, or not begun, nobody is there to be killed.
        // Brackets, since the shell that runs this has the pattern among its arguments.
        for who in ["[h]aul-mpi", "^haul"] {
            on("client", &format!("busybox pkill -KILL -f {who}")).unwrap_or_default();
        }
    }
    begun.kill()?;
    let gone =
        || on("client", "busybox pgrep -f [h]aul-mpi").is_err() && tool::run("busybox pgrep -f haul-mpi").is_err();
    tool::until("the killed copy is gone from both machines", gone)
}
