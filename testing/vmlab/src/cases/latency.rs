//! haul, cp and rsync on NFS behind a wire that delays: which number of jobs is the best, and what haul chooses by itself.

use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

use crate::lab::{Found, Lab, Outcome};
use crate::network::on;
use crate::served::{KINDS, SERVED, SHARED};
use crate::{haul, tool, tree};

/// Added to each message of the head and to each of the server, in microseconds: half of the latency each.
const DELAYS: [(&str, u32); 3] = [("no", 0), ("1 ms of", 500), ("10 ms of", 5000)];

/// Where the head has files of its own: in memory.
const LOCAL: &str = "/tmp/local";

const SMALL_FILES: u32 = 240;
const LARGE_MIB: u32 = 24;

/// How often each program has its turn.
const ROUNDS: usize = 2;

/// Copies that can be timed.
struct Work {
    name: &'static str,
    source: String,
    copy: String,
    /// Whether a number of jobs makes a difference.
    many: bool,
}

/// Small files at every latency.
pub fn small(lab: &mut Lab) -> Result<(), String> {
    run(lab, &small_works())
}

/// A large file at every latency.
pub fn large(lab: &mut Lab) -> Result<(), String> {
    run(lab, &large_works())
}

fn run(lab: &mut Lab, works: &[Work]) -> Result<(), String> {
    plant()?;
    for (words, micros) in DELAYS {
        for work in works {
            lab.check_with(&format!("{words} latency: {}", work.name), |lab| timed(lab, work, micros));
        }
    }
    // A row that went wrong may have left it.
    delay(0)
}

impl Work {
    fn new(name: &'static str, source: &str, copy: &str, many: bool) -> Work {
        Work { name, source: source.to_owned(), copy: format!("{copy}/copy"), many }
    }
}

fn small_works() -> Vec<Work> {
    let [ext4, _] = KINDS.map(|kind| format!("{SHARED}/{kind}"));
    vec![
        Work::new("small files, local to NFS", &format!("{LOCAL}/small"), &ext4, true),
        Work::new("small files, NFS to local", &format!("{ext4}/small"), LOCAL, true),
        Work::new("small files, within NFS", &format!("{ext4}/small"), &ext4, true),
    ]
}

fn large_works() -> Vec<Work> {
    let [ext4, xfs] = KINDS.map(|kind| format!("{SHARED}/{kind}"));
    vec![
        Work::new("a large file, within ext4", &format!("{ext4}/large"), &ext4, false),
        Work::new("a large file, within XFS", &format!("{xfs}/large"), &xfs, false),
        Work::new("a large file, between two exports", &format!("{ext4}/large"), &xfs, false),
        Work::new("a large file, local to NFS", &format!("{LOCAL}/large"), &ext4, false),
        Work::new("a large file, NFS to local", &format!("{ext4}/large"), LOCAL, false),
    ]
}

fn plant() -> Result<(), String> {
    let make = |root: &str| {
        let each = SMALL_FILES / 6;
        format!(
            "mkdir -p {root}/small/{{0..5}} {root}/large; \
             for d in {{0..5}}; do for f in $(seq {each}); do head -c 2000 /dev/urandom > {root}/small/$d/$f; done; done; \
             head -c {LARGE_MIB}M /dev/urandom > {root}/large/file"
        )
    };
    tool::finish("plant", tool::command("bash").args(["-c", &make(LOCAL)]))?;
    for kind in KINDS {
        tool::run(&format!("cp -a {LOCAL}/small {LOCAL}/large {SHARED}/{kind}/"))?;
    }
    Ok(())
}

/// Lets each message on the wire between the head and the server wait, on both of its ends.
fn delay(micros: u32) -> Result<(), String> {
    let line = match micros {
        // Where there is none it cannot be taken away.
        0 => "tc qdisc replace dev eth0 root pfifo".to_owned(),
        _ => format!("tc qdisc replace dev eth0 root netem delay {micros}us limit 10000"),
    };
    tool::run("modprobe sch_netem")?;
    on("server", "modprobe sch_netem")?;
    on("server", &line)?;
    tool::run(&line)
}

/// One row: the best of the rounds for each program, and how near haul's own choice is to its best.
fn timed(lab: &mut Lab, work: &Work, micros: u32) -> Outcome {
    let (from, to) = (&work.source, &work.copy);
    let mut programs = vec![
        ("cp".to_owned(), format!("cp -a {from} {to}")),
        ("rsync".to_owned(), format!("rsync -a {from}/ {to}")),
        ("haul".to_owned(), format!("haul -aT {from} {to}")),
    ];
    if work.many {
        let with = |jobs: u32| (format!("haul --jobs={jobs}"), format!("haul -aT --jobs={jobs} {from} {to}"));
        programs.extend([1, 2, 4, 8, 16].map(with));
    }
    let (mut best, mut chose) = (vec![f64::INFINITY; programs.len()], String::new());
    for round in 0..ROUNDS {
        for turn in 0..programs.len() {
            let which = (turn + round) % programs.len();
            tree::forget_cache()?;
            // The program is in memory: its size is not what is measured.
            let (program, _) = programs[which].1.split_once(' ').unwrap_or_default();
            tool::run(&format!("{program} --version"))?;
            delay(micros)?;
            let start = Instant::now();
            match programs[which].1.strip_prefix("haul ") {
                Some(arguments) => chose = haul::right(arguments)?.chose(),
                None => tool::run(&programs[which].1)?,
            }
            // What waits to be sent belongs to it.
            rustix::fs::sync();
            let seconds = start.elapsed().as_secs_f64();
            // A row can take longer than a guest may be silent.
            lab.say(&[&format!("{} took {seconds:.2} s", programs[which].0)]);
            best[which] = best[which].min(seconds);
            // Comparing takes as many questions as copying.
            delay(0)?;
            if work.many || round + 1 == ROUNDS {
                tree::same(Path::new(from), Path::new(to), tree::NFS)?;
            } else {
                // All else that is compared takes much longer than the copy of one file.
                tool::run(&format!("cmp {from}/file {to}/file"))?;
            }
            remove(to)?;
        }
    }
    let mut found = String::new();
    for ((name, _), seconds) in programs.iter().zip(&best) {
        write!(found, "{name} {seconds:.2} s, ").map_err(|error| error.to_string())?;
    }
    let fixed = best[3..].iter().copied().fold(f64::INFINITY, f64::min);
    if work.many {
        write!(found, "its own choice takes {:.2} of the best", best[2] / fixed).map_err(|error| error.to_string())?;
    }
    Ok(Found { chose, found: found.trim_end_matches(", ").to_owned() })
}

/// On the server, where that is quick.
fn remove(copy: &str) -> Result<(), String> {
    match copy.strip_prefix(SHARED) {
        Some(name) => on("server", &format!("rm -rf {SERVED}{name}")).map(drop),
        None => tool::run(&format!("rm -rf {copy}")),
    }
}
