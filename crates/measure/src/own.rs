//! The running program, for its parts that are processes of their own: their memory is gone when they end, and is not counted to
//! what is started later.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::words;

/// This program's file.
#[derive(Debug, Clone)]
pub struct Own(PathBuf);

impl Own {
    /// The program that is running.
    pub fn running() -> Result<Own, String> {
        let path = env::current_exe();
        path.map(Own).map_err(|error| format!("cannot find this program's own file: {}", words::of(&error)))
    }

    /// Another build of it, for tests.
    pub fn at(path: impl Into<PathBuf>) -> Own {
        Own(path.into())
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// One of its parts that are not for people.
    pub fn part(&self, name: &str) -> Command {
        let mut command = Command::new(&self.0);
        command.arg(name);
        command
    }
}
