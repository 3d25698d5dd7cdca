//! `cargo xtask test`: everything that must hold before a change goes in.

use std::time::{Duration, Instant};

use crate::leftovers::Scratch;
use crate::mpi::Mpi;
use crate::shell::{self, Checked, Result};
use crate::{book, counts, deny, dist, fuzz, layers, package, packages, python, vm};

#[derive(Default)]
struct Phases(Vec<(&'static str, Duration, Result<Checked>)>);

impl Phases {
    fn run<C: Into<Checked>>(&mut self, name: &'static str, work: impl FnOnce() -> Result<C>) {
        println!("\n==> {name}");
        let start = Instant::now();
        let verdict = work().map(C::into);
        if let Err(why) = &verdict {
            println!("{name} failed: {why}");
        }
        self.0.push((name, start.elapsed(), verdict));
    }

    fn finish(&self) -> Result {
        println!("\n==> summary");
        let mut failed = Vec::new();
        for (name, time, verdict) in &self.0 {
            let seconds = time.as_secs_f64();
            match verdict {
                Ok(Checked { done, missing }) => {
                    println!("ok      {name:<9} {seconds:>6.1} s  {done}");
                    if let Some(missing) = missing {
                        println!("        {name:<9}           {missing}");
                    }
                }
                Err(why) => {
                    println!("FAILED  {name:<9} {seconds:>6.1} s  {why}");
                    failed.push(*name);
                }
            }
        }
        let total: Duration = self.0.iter().map(|(_, time, _)| *time).sum();
        println!("{:.1} s in all", total.as_secs_f64());
        if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
    }
}

/// Runs all phases, also after one has failed, and sums up.
pub fn run(args: &[String]) -> Result {
    let mut quick = false;
    for arg in args {
        match arg.as_str() {
            "--quick" => quick = true,
            other => return Err(format!("unknown argument {other:?} of the task test")),
        }
    }
    let mut phases = Phases::default();
    if !quick {
        phases.run("packages", packages::install);
    }
    phases.run("format", || cargo(&["fmt", "--all", "--check"]));
    let mpi = Mpi::look();
    phases.run("clippy", || clippy(&mpi));
    phases.run("layers", layers::check);
    phases.run("fuzz", fuzz::check);
    if !quick {
        phases.run("deny", deny::run);
        phases.run("docs", || {
            let mut doc = shell::cargo();
            doc.args(["doc", "--locked", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
            mpi.workspace(&mut doc);
            shell::run(&mut doc).map(|()| "no warnings".to_owned())
        });
        phases.run("book", book::check);
    }
    phases.run("mpi", || mpi.build());
    tests(&mut phases, &mpi)?;
    if !quick {
        phases.run("package", || package::check(&mpi));
        phases.run("python", python::check);
        phases.run("dist", || dist::check(&mpi));
        phases.run("vm", vm::check);
    }
    phases.finish()
}

fn cargo(args: &[&str]) -> Result<String> {
    shell::run(shell::cargo().args(args)).map(|()| "clean".to_owned())
}

fn clippy(mpi: &Mpi) -> Result<String> {
    let mut command = shell::cargo();
    command.args(["clippy", "--locked", "--all-targets"]);
    mpi.workspace(&mut command);
    shell::run(command.args(["--", "-D", "warnings"])).map(|()| "clean".to_owned())
}

fn tests(phases: &mut Phases, mpi: &Mpi) -> Result {
    let scratch = Scratch::new()?;
    phases.run("tests", || {
        if !shell::is_root() {
            println!("Not root: tests that mount filesystems, change owners or make device nodes are skipped.");
        }
        let mut command = shell::cargo();
        command.args(["test", "--locked", "--no-fail-fast"]);
        mpi.workspace(&mut command);
        counts::judged(&mut command, &scratch)
    });
    phases.run("leftovers", || scratch.finish());
    Ok(())
}
