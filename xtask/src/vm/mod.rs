//! `cargo xtask vm`: haul in a guest with a kernel of its own, for what the kernel of this machine cannot.
//!
//! The guest's side is `testing/vmlab`: it is the first process there, and says what it found in lines of words
//! between tabs.

mod boot;
mod disks;
mod group;
mod machine;
mod measured;
mod table;

use std::path::{Path, PathBuf};
use std::time::Instant;

use disks::{Disks, PROGRAMS};
use group::Group;
use machine::{KERNELS, Kernel, Machine};
use measured::Saved;
use table::{Row, Table, Verdict};

use crate::bench::options::{Options, wants};
use crate::mpi::Mpi;
use crate::packages;
use crate::shell::{self, Checked, Result};

/// Tells the guest to measure at length.
const LONG: &str = "haul.long=1";

/// What there is to do: the kernel, the name and the sentence of each case.
struct Case {
    kernel: String,
    name: String,
    /// Whether it is quick enough for `cargo xtask test`.
    quick: bool,
    /// Whether several machines play it together.
    together: bool,
    what: String,
}

/// Boots the guests, prints what they found as a table, and fails if anything was wrong.
pub fn run(args: &[String]) -> Result {
    if let Some(("pair", kernels)) = args.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return pair(kernels);
    }
    let options = Options::default().parse(args, &["only", "kernel", "list", "haul"])?;
    packages::install_for_vm()?;
    let programs = build()?;
    let mut cases = cases(&programs)?;
    cases.retain(|case| wants(&options.only, &case.name) && wants(&options.kernels, &case.kernel));
    if options.list {
        cases.iter().for_each(|case| println!("{:<5} {:<16} {}", case.kernel, case.name, case.what));
        return Ok(());
    }
    if cases.is_empty() {
        return Err("no such case; see `cargo xtask vm --list`".into());
    }
    // Of all cases, measuring would take many minutes, and its reports would be hundreds of lines.
    let long = !options.only.is_empty();
    let played = play(&programs, options.haul.as_deref(), &cases, if long { LONG } else { "" })?;
    let judged = played.table.judge();
    measured::list(&programs, &played.saved, long)?;
    judged.map(drop)
}

/// `mapped-write` at length in the guests of two kernels, the later one compared with the earlier one of the arguments.
fn pair(args: &[String]) -> Result {
    let names: Vec<&str> = if args.is_empty() { vec!["5.10", "6.12"] } else { args.iter().map(|arg| &**arg).collect() };
    if names.len() != 2 || KERNELS.iter().filter(|kernel| names.contains(&kernel.name)).count() != 2 {
        let known: Vec<&str> = KERNELS.iter().map(|kernel| kernel.name).collect();
        return Err(format!("vm pair wants two kernels, of {}", known.join(", ")));
    }
    packages::install_for_vm()?;
    let programs = build()?;
    let mut cases = cases(&programs)?;
    cases.retain(|case| case.name == "mapped-write" && names.contains(&&*case.kernel));
    let played = play(&programs, None, &cases, LONG)?;
    played.table.judge()?;
    measured::show(&programs, &played.saved, &names)
}

/// The quick cases, for `cargo xtask test`.
pub fn check() -> Result<Checked> {
    // Packages come from elsewhere, which is no fault of haul's.
    if let Err(why) = Machine::prepare() {
        let missing = Some(format!("NOT CHECKED: there are no virtual machines: {why}"));
        return Ok(Checked { done: "0 passed".into(), missing });
    }
    let programs = build()?;
    let mut cases = cases(&programs)?;
    cases.retain(|case| case.quick);
    play(&programs, None, &cases, "")?.table.judge().map(Checked::from)
}

/// Builds what the guests run, with haul-mpi where there is MPI; the directory where they are.
fn build() -> Result<PathBuf> {
    let programs = PROGRAMS.iter().flat_map(|(package, program)| ["--package", package, "--bin", program]);
    shell::run(shell::cargo().args(["build", "--locked", "--quiet"]).args(programs))?;
    Mpi::look().build()?;
    Ok(shell::target().join("debug"))
}

fn cases(programs: &Path) -> Result<Vec<Case>> {
    let text = shell::output(shell::command(programs.join("haul-vmlab")).arg("--list"))?;
    let case = |line: &str| {
        let mut words = line.split('\t').map(str::to_owned);
        let (kernel, name) = (words.next()?, words.next()?);
        let (quick, together) = (words.next()? == "quick", words.next()? == "together");
        Some(Case { kernel, name, quick, together, what: words.next()? })
    };
    Ok(text.lines().filter_map(case).collect())
}

/// How often a guest is booted at most, if its kernel stops before it runs anything.
const BOOTS: usize = 3;

/// What the guests found, and measured.
#[derive(Default)]
struct Played {
    table: Table,
    saved: Vec<Saved>,
}

impl Played {
    /// A line that the guest said.
    fn hear(&mut self, machine: &Machine, kernel: &Kernel, line: &str) {
        match line.split('\t').collect::<Vec<_>>()[..] {
            ["row", case, check, verdict, seconds, chose, found] => {
                let row = Row {
                    kernel: kernel.name.into(),
                    case: case.into(),
                    check: check.into(),
                    verdict: Verdict::named(verdict),
                    seconds: seconds.parse().unwrap_or_default(),
                    chose: chose.into(),
                    found: found.into(),
                };
                println!("{row}");
                self.table.rows.push(row);
            }
            ["results", case, text] => match Saved::keep(machine.dir(), kernel.name, case, text) {
                Ok(one) => self.saved.push(one),
                Err(why) => self.table.rows.push(Row::broken(kernel.name, &why)),
            },
            _ => println!("    {line}"),
        }
    }
}

/// Boots each kernel that a case is for, with these words for the guest, and with `haul` if that is another build of it.
fn play(programs: &Path, haul: Option<&Path>, cases: &[Case], words: &str) -> Result<Played> {
    let machine = Machine::prepare()?;
    let disks = Disks::make(&machine, programs, haul)?;
    let mut played = Played::default();
    for (kernel, together) in KERNELS.iter().flat_map(|kernel| [(kernel, false), (kernel, true)]) {
        let here = cases.iter().filter(|case| case.kernel == kernel.name && case.together == together);
        let names: Vec<&str> = here.map(|case| &*case.name).collect();
        if !names.is_empty() {
            let words = format!("haul.cases={} {words}", names.join(","));
            play_on(&machine, kernel, together, &disks, &words, &mut played)?;
        }
    }
    measured::compare(programs, &played.saved, &mut played.table);
    Ok(played)
}

/// Where the guest's kernel does not come to run anything (an emulated processor at times misses that code was changed beside it,
/// and the kernel stops with "int3"), it is booted again: that says nothing about haul.
fn play_on(
    machine: &Machine,
    kernel: &Kernel,
    together: bool,
    disks: &Disks,
    words: &str,
    played: &mut Played,
) -> Result {
    for boots_left in (0..BOOTS).rev() {
        println!("booting Linux {}{}", kernel.name, if together { " on several machines" } else { "" });
        disks.empty_scratch()?;
        let (mut up, mut whole) = (false, false);
        let start = Instant::now();
        let hear = |line: &str| match line.split('\t').collect::<Vec<_>>()[..] {
            ["up", release] => {
                up = true;
                println!("Linux {release} was up after {:.1} s", start.elapsed().as_secs_f64());
            }
            ["done"] => whole = true,
            _ => played.hear(machine, kernel, line),
        };
        let ended = if together {
            Group::new(machine, kernel, disks, words).play(hear)
        } else {
            boot::boot(machine, kernel, disks, words, hear)
        };
        match ended {
            Ok(time) if whole => println!("Linux {}: {:.1} s", kernel.name, time.as_secs_f64()),
            Ok(_) if !up && boots_left > 0 => {
                println!("Linux {} ended before it was up; see its console", kernel.name);
                continue;
            }
            Ok(_) => {
                let why = "the guest ended before it was done; see its console";
                played.table.rows.push(Row::broken(kernel.name, why));
            }
            Err(why) => played.table.rows.push(Row::broken(kernel.name, &why)),
        }
        break;
    }
    Ok(())
}
