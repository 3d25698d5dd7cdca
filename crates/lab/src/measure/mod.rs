//! Measuring so that one is not fooled.
//!
//! * A run is a process of its own; what it used is what the kernel counted for it and its children.
//! * Memory is touched right before each run: a virtual machine gives free pages back to its host, and touching them again
//!   costs seconds.
//! * Warm and cold are states that are made and then looked at.
//! * The time to return and the time until the copy is on its device are two figures.
//! * Every copy is compared with its source.
//! * Everything is made below one folder, which goes when this process ends, however it ends.

pub mod cache;
pub mod device;
pub mod load;
pub mod memory;
pub mod one_copy;
pub mod place;
pub mod process;
pub mod room;
pub mod sources;
pub mod stop;
pub mod verify;
pub mod workspace;

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// This program, for the parts that are processes of their own.
#[derive(Debug, Clone)]
pub struct Own(PathBuf);

impl Own {
    /// The program that is running.
    ///
    /// # Errors
    /// If the system does not say where it is.
    pub fn running() -> Result<Own, String> {
        env::current_exe()
            .map(Own)
            .map_err(|error| format!("cannot find this program's own file: {}", haul_measure::words::of(&error)))
    }

    /// Another build of it, for tests.
    pub fn at(path: impl Into<PathBuf>) -> Own {
        Own(path.into())
    }

    /// Its file.
    pub fn path(&self) -> &std::path::Path {
        &self.0
    }

    /// One of its parts that are not for people.
    pub fn part(&self, name: &str) -> Command {
        let mut command = Command::new(&self.0);
        command.arg(name);
        command
    }
}
