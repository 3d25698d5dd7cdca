//! Building what is distributed: for which processor, with which C library, and so that another folder gives the same bytes.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::auditable;
use crate::mpi::Mpi;
use crate::shell::{self, Result};

/// What a build depends on besides the sources.
pub struct Recipe {
    /// The folder of the workspace.
    pub source: PathBuf,
    /// Where cargo builds.
    pub target: PathBuf,
    /// Of cargo: `release`, or `trial`, which takes a third of the time.
    pub profile: &'static str,
    /// Also static programs of other processors than this one.
    pub crossed: bool,
    /// Where the artefacts go.
    pub into: PathBuf,
    pub stamp: Stamp,
}

/// What artefacts say of their sources.
#[derive(Clone)]
pub struct Stamp {
    /// When they were changed last, in seconds: SOURCE_DATE_EPOCH (reproducible-builds.org), or the time of the commit.
    pub seconds: String,
    /// As `haul --version` says it.
    pub commit: String,
    pub version: String,
}

impl Stamp {
    /// Of the working tree.
    ///
    /// # Errors
    /// When git does not know it.
    pub fn read() -> Result<Stamp> {
        let git = |arguments: &[&str]| -> Result<String> {
            Ok(shell::output(shell::command("git").args(arguments))?.trim().to_owned())
        };
        let seconds = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(seconds) => seconds,
            Err(_) => git(&["log", "-1", "--format=%ct"])?,
        };
        let changed = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
        let commit = git(&["rev-parse", "--short=12", "HEAD"])? + if changed { "+" } else { "" };
        Ok(Stamp { seconds, commit, version: env!("CARGO_PKG_VERSION").to_owned() })
    }
}

/// A processor and a C library that there are binaries for.
pub struct Target {
    /// As Rust names it.
    pub name: &'static str,
    pub arch: &'static str,
    /// The C compiler, for the allocator and BLAKE3.
    compiler: &'static str,
    /// What links; `None` for what rustc takes.
    linker: Option<&'static str>,
    /// Runs its programs on another processor.
    pub emulator: &'static str,
}

/// Linked statically, with musl.
pub const STATIC: &[Target] = &[
    Target {
        name: "x86_64-unknown-linux-musl",
        arch: "x86_64",
        compiler: "musl-gcc",
        linker: None,
        emulator: "qemu-x86_64-static",
    },
    Target {
        name: "aarch64-unknown-linux-musl",
        arch: "aarch64",
        compiler: "aarch64-linux-gnu-gcc",
        linker: Some("aarch64-linux-gnu-gcc"),
        emulator: "qemu-aarch64-static",
    },
];

/// For packages of this distribution.
pub const DYNAMIC: Target = Target {
    name: "x86_64-unknown-linux-gnu",
    arch: "x86_64",
    compiler: "cc",
    linker: None,
    emulator: "qemu-x86_64-static",
};

impl Target {
    /// Adds Rust's library for it.
    ///
    /// # Errors
    /// When there is no rustup, or it cannot fetch it.
    pub fn install(&self) -> Result {
        let mut add = shell::command("rustup");
        shell::run(add.args(["target", "add", self.name]))
    }

    pub fn is_native(&self) -> bool {
        self.arch == std::env::consts::ARCH
    }
}

impl Recipe {
    /// Builds programs, each from its package, with the list of what they consist of in them; returns the folder that they
    /// are in.
    ///
    /// # Errors
    /// When a compiler is missing, or they do not build.
    pub fn build(&self, target: &Target, programs: &[(&str, &str)]) -> Result<PathBuf> {
        if !shell::has(target.compiler) {
            return Err(format!("there is no {}, which compiles C for {}", target.compiler, target.name));
        }
        let mut build = auditable::cargo()?;
        build.current_dir(&self.source).args(["build", "--locked", "--profile", self.profile, "--target", target.name]);
        for (package, program) in programs {
            build.args(["--package", package, "--bin", program]);
        }
        self.hide_folders(&mut build, target)?;
        Mpi::compiler(&mut build);
        shell::run(&mut build)?;
        Ok(self.target.join(target.name).join(self.profile))
    }

    /// No name of a folder of this machine gets into the programs.
    ///
    /// # Errors
    /// When the folders of Rust are not known.
    pub fn hide_folders(&self, build: &mut Command, target: &Target) -> Result {
        let home = cargo_home()?;
        let sysroot = shell::output(shell::command("rustc").args(["--print", "sysroot"]))?;
        let named = [
            (self.source.as_path(), "/haul"),
            (self.target.as_path(), "/haul/target"),
            (home.as_path(), "/cargo"),
            (Path::new(sysroot.trim()), "/rust"),
        ];
        let pairs = |flag: &str| named.map(|(folder, name)| format!("{flag}={}={name}", folder.display()));
        let variable = target.name.replace('-', "_");
        build
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_ENCODED_RUSTFLAGS", pairs("--remap-path-prefix").join("\u{1f}"))
            .env(format!("CC_{variable}"), target.compiler)
            .env(format!("CFLAGS_{variable}"), pairs("-ffile-prefix-map").map(|flag| format!("'{flag}'")).join(" "))
            .env("CC_SHELL_ESCAPED_FLAGS", "1")
            .env(format!("CARGO_PROFILE_{}_STRIP", self.profile.to_uppercase()), "symbols")
            .env("CARGO_INCREMENTAL", "0")
            .env("SOURCE_DATE_EPOCH", &self.stamp.seconds)
            .env("HAUL_COMMIT", &self.stamp.commit);
        if let Some(linker) = target.linker {
            build.env(format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase()), linker);
        }
        Ok(())
    }
}

fn cargo_home() -> Result<PathBuf> {
    if let Some(home) = std::env::var_os("CARGO_HOME") {
        return Ok(home.into());
    }
    let home = std::env::var_os("HOME").ok_or("neither CARGO_HOME nor HOME is set")?;
    Ok(Path::new(&home).join(".cargo"))
}
