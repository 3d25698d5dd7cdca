//! The programs that copy images.

use std::path::Path;
use std::process::Command;

use crate::shell;

/// Names for `--programs`.
pub const KEYS: &[&str] = &["smart", "smart-full", "full", "cp", "qemu-img", "e2image", "partclone", "virt-sparsify"];

#[derive(Debug, Clone)]
pub struct Program {
    /// Its name in the options and in saved results.
    pub key: &'static str,
    /// Its name in the tables.
    pub name: &'static str,
    pub version: String,
    /// Its words; `IMAGE` and `COPY` stand for the paths.
    pub words: Vec<String>,
    /// It writes only into a file that has the size already.
    pub sized: bool,
}

impl Program {
    /// Whether it is smartcp, in any way of calling it.
    pub fn is_ours(&self) -> bool {
        ours(self.key)
    }

    /// The command as one would type it.
    pub fn line(&self) -> String {
        shell::line(&command(&self.words, Path::new("IMAGE"), Path::new("COPY")))
    }
}

/// The command of these words, of which `IMAGE` and `COPY` stand for the paths.
pub fn command(words: &[String], image: &Path, copy: &Path) -> Command {
    let mut command = shell::command(&words[0]);
    for word in &words[1..] {
        match word.as_str() {
            "IMAGE" => command.arg(image),
            "COPY" => command.arg(copy),
            other => command.arg(other),
        };
    }
    command
}

/// Whether a key is one of smartcp's.
pub fn ours(key: &str) -> bool {
    ["smart", "smart-full", "full"].contains(&key)
}

/// What can be measured, and what cannot and why.
pub fn all(smartcp: &Path) -> (Vec<Program>, Vec<(&'static str, &'static str)>) {
    let smartcp = smartcp.display().to_string();
    let (mut programs, mut missing) = (Vec::new(), Vec::new());
    let list: &[(&'static str, &'static str, &str, &str, &str)] = &[
        ("smart", "smartcp", &smartcp, "IMAGE COPY", "--version"),
        ("smart-full", "smartcp, sparse never", &smartcp, "-s never IMAGE COPY", "--version"),
        ("full", "smartcp, full read and write", &smartcp, "-S no -s never IMAGE COPY", "--version"),
        ("cp", "cp", "cp", "--sparse=always IMAGE COPY", "--version"),
        ("qemu-img", "qemu-img convert", "qemu-img", "convert -f raw -O raw IMAGE COPY", "--version"),
        ("e2image", "e2image", "e2image", "-ra IMAGE COPY", "-V"),
        ("partclone", "partclone.extfs", "partclone.extfs", "-b -q -F -L /dev/null -s IMAGE -O COPY", "-v"),
        ("virt-sparsify", "virt-sparsify", "virt-sparsify", "--quiet IMAGE COPY", "--version"),
    ];
    for &(key, name, program, words, version_word) in list {
        if !program.starts_with('/') && !shell::has(program) {
            missing.push((name, "it is not installed"));
            continue;
        }
        let words = std::iter::once(program).chain(words.split(' ')).map(str::to_owned).collect();
        programs.push(Program { key, name, version: version(program, version_word), words, sized: key == "partclone" });
    }
    (programs, missing)
}

/// The first line that a program says of itself, on either output.
fn version(program: &str, version_word: &str) -> String {
    let said = shell::command(program).arg(version_word).output();
    let said = said.map(|said| [said.stdout, said.stderr].concat()).unwrap_or_default();
    String::from_utf8_lossy(&said).lines().next().unwrap_or("unknown version").trim().to_owned()
}
