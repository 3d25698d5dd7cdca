//! Programs that cargo installs, each in a pinned version and once, into the target directory.

use std::path::PathBuf;

use crate::shell::{self, Result};

/// A package of a program, which has its name.
pub struct Tool {
    pub name: &'static str,
    /// Pinned, so that a new release cannot break a build that was fine yesterday.
    pub version: &'static str,
    /// What `cargo install` takes beside them.
    pub arguments: &'static [&'static str],
}

impl Tool {
    /// The program, built at the first call: one to two minutes on two cores.
    ///
    /// # Errors
    /// When it cannot be fetched or built.
    pub fn program(&self) -> Result<PathBuf> {
        let Tool { name, version, arguments } = self;
        let home = shell::target().join(format!("tools/{name}-{version}"));
        let program = home.join("bin").join(name);
        if !program.exists() {
            println!("building {name} {version} (once)");
            let mut install = shell::cargo();
            install
                .args(["install", "--quiet", "--locked", "--debug", "--version", version, name, "--root"])
                .arg(&home);
            install.args(*arguments).env("CARGO_TARGET_DIR", home.join("build")).env("CARGO_PROFILE_DEV_DEBUG", "0");
            shell::run(&mut install)?;
            // Hundreds of MiB that nobody needs again.
            shell::remove(&home.join("build"))?;
        }
        Ok(program)
    }
}
