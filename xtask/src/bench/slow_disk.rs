//! `cargo xtask bench slow-disk`: a file copied to a disk of 20 MB/s, until it is unmounted, while another program writes there.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use haul_measure::stats::{self, Spread};
use haul_testbed::{Bed, SlowDisk, create_painted, first_difference, temp_dir};

use super::options::Options;
use super::report::{range, seconds};
use super::{machine, place, surroundings};
use crate::shell::{self, Result};

/// Each write of 128 KiB takes so long.
const DELAY: Duration = Duration::from_micros(6250);
/// What the other program writes, and waits for.
const BESIDE: [u8; 4096] = [7; 4096];

/// Takes the arguments after `bench slow-disk`.
pub fn options(args: &[String]) -> Result<Options> {
    let usual = Options { size: 150 << 20, runs: 3, ..Options::default() };
    usual.parse(args, &["size", "runs", "haul"])?.with_runs()
}

/// What one run took, in seconds.
struct Sample {
    returned: f64,
    unmounted: f64,
    /// Each write of the other program while the copy ran.
    beside: Vec<f64>,
}

/// Times cp, cp with a sync, and haul in turns, and prints a table.
///
/// # Errors
/// When a program fails, or a copy is wrong.
pub fn run(args: &[String]) -> Result {
    if let [beside, path] = args
        && beside == "beside"
    {
        return write_beside(Path::new(path));
    }
    let options = options(args)?;
    if options.size > 200 << 20 {
        return Err("the disk has room for 200 MiB".into());
    }
    let haul = surroundings::haul(options.haul.as_deref())?;
    place::enter_namespace()?;
    let bed = Bed::new().ok_or("slow disks need root")?;
    let sources = temp_dir();
    let source = sources.path().join("file");
    create_painted(&source, options.size);
    let programs = [
        ("cp", "cp \"$1\" \"$2\""),
        ("cp and sync", "cp \"$1\" \"$2\" && sync -f \"$2\""),
        ("haul", "\"$3\" \"$1\" \"$2\""),
        ("haul --writeback=kernel", "\"$3\" --writeback=kernel \"$1\" \"$2\""),
    ];
    println!(
        "One file of {} MiB to a disk that writes 20 MB/s, {} runs, order rotating.",
        options.size >> 20,
        options.runs
    );
    println!("{}.\n", machine::describe(&haul)?);
    let mut samples: Vec<Vec<Sample>> = programs.iter().map(|_| Vec::new()).collect();
    for round in 0..options.runs {
        for turn in 0..programs.len() {
            let at = (round + turn) % programs.len();
            let disk = SlowDisk::mount(&bed, &format!("slow-{round}-{at}"), 250 << 20, false).ok_or("no FUSE here")?;
            samples[at].push(one_run(&disk, (programs[at].1, &haul), &source)?);
        }
    }
    println!(
        "| program | returned s | unmounted after that s | both s | a synced write beside it s: median, longest |"
    );
    println!("|---|---|---|---|---|");
    for ((name, _), samples) in programs.iter().zip(&samples) {
        let figure = |of: fn(&Sample) -> f64| spread(samples.iter().map(of).collect()).map(range);
        let beside: Vec<f64> = samples.iter().flat_map(|sample| sample.beside.iter().copied()).collect();
        let beside = spread(beside)?;
        println!(
            "| {name} | {} | {} | {} | {}, {} |",
            figure(|sample| sample.returned)?,
            figure(|sample| sample.unmounted)?,
            figure(|sample| sample.returned + sample.unmounted)?,
            seconds(beside.median),
            seconds(beside.max),
        );
    }
    Ok(())
}

fn spread(figures: Vec<f64>) -> Result<Spread> {
    stats::spread(&figures).ok_or_else(|| "nothing was measured".into())
}

fn one_run(disk: &SlowDisk, (program, haul): (&str, &Path), source: &Path) -> Result<Sample> {
    let copy = disk.path().join("copy");
    surroundings::warm_memory(2 * std::fs::metadata(source).map_err(shell::at(source))?.len())?;
    disk.slow_down(DELAY);
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut other = Command::new(own);
    other.args(["bench", "slow-disk", "beside"]).arg(disk.path().join("beside"));
    let mut other = other.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    let begun = Instant::now();
    shell::run(shell::command("sh").args(["-c", program, "sh"]).arg(source).arg(&copy).arg(haul))?;
    let returned = begun.elapsed();
    drop(other.stdin.take());
    let mut beside = Vec::new();
    for line in BufReader::new(other.stdout.take().ok_or("no output")?).lines() {
        beside.extend(line.ok().and_then(|line| line.parse::<f64>().ok()));
    }
    other.wait().map_err(|error| error.to_string())?;
    // What umount(8) waits for; the other program's last write waits for some of it, too.
    shell::run(shell::command("mount").args(["-o", "remount,ro"]).arg(disk.path()))?;
    let unmounted = begun.elapsed() - returned;
    disk.hurry();
    match first_difference(source, &copy) {
        None => Ok(Sample { returned: returned.as_secs_f64(), unmounted: unmounted.as_secs_f64(), beside }),
        Some(at) => Err(format!("a WRONG COPY, from byte {at} on: {program}")),
    }
}

/// The other program: writes and syncs ten times a second until its input ends, and says how long each time took.
fn write_beside(path: &Path) -> Result {
    let (end, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap_or_default();
        end.send(()).unwrap_or_default();
    });
    let mut file = File::create(path).map_err(shell::at(path))?;
    loop {
        let begun = Instant::now();
        file.write_all(&BESIDE).and_then(|()| file.sync_all()).map_err(shell::at(path))?;
        println!("{}", begun.elapsed().as_secs_f64());
        if ended.recv_timeout(Duration::from_millis(100)).is_ok() {
            return Ok(());
        }
    }
}
