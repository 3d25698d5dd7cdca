//! `cargo xtask vm`: haul in a guest with a kernel of its own, for what the kernel of this machine cannot.
//!
//! The guest's side is `testing/vmlab`: it is the first process there, and says what it found in lines of words
//! between tabs.

mod apt;
mod boot;
mod machine;
mod table;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

use machine::{KERNELS, Kernel, Machine};
use table::{Row, Table, Verdict};

use crate::bench::options::{Options, wants};
use crate::packages;
use crate::shell::{self, Checked, Result};

/// How large the disk is that the guest makes its filesystems on. It takes only what is written.
const SCRATCH: u64 = 6 << 30;

/// What there is to do: the kernel, the name and the sentence of each case.
struct Case {
    kernel: String,
    name: String,
    /// Whether it is quick enough for `cargo xtask test`.
    quick: bool,
    what: String,
}

/// Boots the guests, prints what they found as a table, and fails if anything was wrong.
///
/// # Errors
/// When a row is wrong or missing, or the guests cannot be made.
pub fn run(args: &[String]) -> Result {
    let options = Options::default().parse(args, &["only", "kernel", "list"])?;
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
    play(&programs, &cases).and_then(|table| table.judge()).map(drop)
}

/// The quick cases, for `cargo xtask test`.
///
/// # Errors
/// When a row is wrong or missing.
pub fn check() -> Result<Checked> {
    // Packages come from elsewhere, which is no fault of haul's.
    if let Err(why) = Machine::prepare() {
        let missing = Some(format!("NOT CHECKED: there are no virtual machines: {why}"));
        return Ok(Checked { done: "0 passed".into(), missing });
    }
    let programs = build()?;
    let mut cases = cases(&programs)?;
    cases.retain(|case| case.quick);
    play(&programs, &cases)?.judge().map(Checked::from)
}

/// Builds haul and the guest's first process; the directory where both are.
fn build() -> Result<PathBuf> {
    shell::run(shell::cargo().args(["build", "--locked", "--quiet", "--package", "haul", "--package", "haul-vmlab"]))?;
    Ok(shell::target().join("debug"))
}

fn cases(programs: &Path) -> Result<Vec<Case>> {
    let text = shell::output(shell::command(programs.join("haul-vmlab")).arg("--list"))?;
    let case = |line: &str| {
        let mut words = line.split('\t').map(str::to_owned);
        let (kernel, name) = (words.next()?, words.next()?);
        Some(Case { kernel, name, quick: words.next()? == "quick", what: words.next()? })
    };
    Ok(text.lines().filter_map(case).collect())
}

/// Boots each kernel that a case is for.
fn play(programs: &Path, cases: &[Case]) -> Result<Table> {
    let machine = Machine::prepare()?;
    let disks = Disks::make(&machine, programs)?;
    let mut table = Table::default();
    for kernel in &KERNELS {
        let names: Vec<&str> = cases.iter().filter(|case| case.kernel == kernel.name).map(|case| &*case.name).collect();
        if !names.is_empty() {
            play_on(&machine, kernel, &disks, &names, &mut table);
        }
    }
    Ok(table)
}

fn play_on(machine: &Machine, kernel: &Kernel, disks: &Disks, names: &[&str], table: &mut Table) {
    println!("booting Linux {}", kernel.name);
    let words = format!("haul.cases={}", names.join(","));
    let start = Instant::now();
    let mut whole = false;
    let ended = boot::boot(machine, kernel, &[&disks.programs, &disks.scratch], &words, |line| {
        match line.split('\t').collect::<Vec<_>>()[..] {
            ["up", release] => println!("Linux {release} was up after {:.1} s", start.elapsed().as_secs_f64()),
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
                table.rows.push(row);
            }
            ["done"] => whole = true,
            _ => println!("    {line}"),
        }
    });
    match ended {
        Ok(time) if whole => println!("Linux {}: {:.1} s", kernel.name, time.as_secs_f64()),
        Ok(_) => table.rows.push(Row::broken(kernel.name, "the guest ended before it was done; see its console")),
        Err(why) => table.rows.push(Row::broken(kernel.name, &why)),
    }
}

/// The disks of one run, which go with it.
struct Disks {
    dir: PathBuf,
    programs: PathBuf,
    scratch: PathBuf,
}

impl Disks {
    fn make(machine: &Machine, programs: &Path) -> Result<Disks> {
        let dir = machine.dir().join(format!("run-{}", std::process::id()));
        let disks = Disks { programs: dir.join("programs.img"), scratch: dir.join("scratch.img"), dir };
        let content = disks.dir.join("programs");
        shell::make_dir(&content)?;
        for name in ["haul", "haul-vmlab"] {
            let (from, to) = (programs.join(name), content.join(name));
            fs::hard_link(&from, &to).or_else(|_| shell::copy(&from, &to))?;
        }
        machine::make_disk(&disks.programs, &content, 512 << 20)?;
        let failed = shell::at(&disks.scratch);
        File::create(&disks.scratch).and_then(|file| file.set_len(SCRATCH)).map_err(failed)?;
        Ok(disks)
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        // What stays is litter below target/, and a later run has a directory of its own.
        fs::remove_dir_all(&self.dir).unwrap_or_default();
    }
}
