//! Somebody who copies, and the command that does it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Command, Stdio};

use haul_measure::cache::{self, Temperature};
use haul_measure::own::Own;
use haul_measure::programs;

use crate::measure::controlled::proof;
use crate::measure::one_copy;
use crate::results::Run;

/// Stands for the source in a command.
pub const PLACE_OF_SOURCE: &str = "{source}";
/// Stands for the name of the copy.
pub const PLACE_OF_DEST: &str = "{dest}";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Competitor {
    /// In the results.
    pub name: String,
    /// The others are compared with this one.
    pub base: bool,
    /// A published claim is about it: where time is short the others are run less often.
    pub asked: bool,
    pub parameters: BTreeMap<String, String>,
    pub cache: Temperature,
    pub how: How,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    Own(one_copy::Settings),
    /// By words, of which those for source and destination are replaced, also within others.
    Words(Vec<String>),
    /// By a line for a shell, in which they are quoted.
    Line(String),
}

impl Competitor {
    pub fn new(name: impl Into<String>, cache: Temperature, how: How) -> Competitor {
        Competitor { name: name.into(), base: false, asked: false, parameters: BTreeMap::new(), cache, how }
    }

    /// The one that the others are compared with.
    #[must_use]
    pub fn into_base(self) -> Competitor {
        Competitor { base: true, ..self }
    }

    /// One that a published claim is about.
    #[must_use]
    pub fn into_asked(self) -> Competitor {
        Competitor { asked: true, ..self }
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Competitor {
        self.parameters.insert(name.to_owned(), value.to_string());
        self
    }
}

impl How {
    /// The words as a user would write them.
    pub fn name(&self) -> String {
        match self {
            How::Own(_) => "haul".to_owned(),
            How::Words(words) => words.join(" "),
            How::Line(line) => line.clone(),
        }
    }

    pub(super) fn command(&self, own: &Own, source: &Path, dest: &Path) -> Command {
        match self {
            How::Own(settings) => {
                let mut command = own.part(one_copy::PART);
                command.args(settings.arguments(source, dest));
                command
            }
            How::Words(words) => {
                let (source, dest) = (source.as_os_str().as_bytes(), dest.as_os_str().as_bytes());
                let mut words = words.iter().map(|word| replaced(word, source, dest));
                let mut command = Command::new(words.next().unwrap_or_default());
                command.args(words);
                command
            }
            How::Line(line) => {
                let quoted = |path: &Path| quoted_for_shell(path.as_os_str().as_bytes());
                let mut command = Command::new("sh");
                command.arg("-c").arg(replaced(line, &quoted(source), &quoted(dest)));
                command
            }
        }
    }

    /// Whether a run did what it is named after, by the calls that it counted. Nobody knows that of other programs.
    pub(super) fn took_effect(&self, run: &Run) -> Result<(), String> {
        match self {
            How::Own(one_copy::Settings { method: Some(method), .. }) => proof::check(method, &run.reported),
            How::Own(one_copy::Settings { image: Some(_), queued, .. }) => {
                let workers = run.reported.get("workers").copied().unwrap_or_default();
                match (workers > 0.0) == *queued {
                    true => Err(format!("its image went through {workers} parallel workers")),
                    false => Ok(()),
                }
            }
            How::Own(_) | How::Words(_) | How::Line(_) => Ok(()),
        }
    }

    /// The program, whose file is to be in memory when the clock starts.
    fn program(&self, own: &Own) -> Option<OsString> {
        match self {
            How::Own(_) => Some(own.path().into()),
            How::Words(words) => words.first().map(OsString::from),
            // The first word of most lines.
            How::Line(line) => line.split_whitespace().next().map(OsString::from),
        }
    }

    /// The words that may name a program: of a line those that a shell would see, without looking closely.
    fn words(&self, own: &Own) -> Vec<OsString> {
        match self {
            How::Own(_) => vec![own.path().into()],
            How::Words(words) => words.iter().map(OsString::from).collect(),
            How::Line(line) => {
                let apart = |letter: char| letter.is_whitespace() || ";&|()`'\"".contains(letter);
                std::iter::once("sh").chain(line.split(apart)).map(OsString::from).collect()
            }
        }
    }

    /// Brings all programs of a command into memory. Where nobody knows what one would do if it were started, that is only its file.
    pub(super) fn load(&self, own: &Own) {
        let known = self.version(own).and_then(|_| self.program(own));
        for name in self.words(own).into_iter().filter(|name| !name.is_empty() && Some(name) != known.as_ref()) {
            if let Some(path) = programs::find(&name).and_then(|path| path.canonicalize().ok()) {
                cache::prepare(&path, Temperature::Warm).ok(); // it is no worse than any other cold program then
            }
        }
    }

    /// The first line of what a program says of its version, for programs that are known to do so and nothing else.
    pub(super) fn version(&self, own: &Own) -> Option<String> {
        let program = self.program(own)?;
        let name = Path::new(&program).file_name()?.to_str()?.to_owned();
        if !matches!(self, How::Own(_)) && !SAY_THEIR_VERSION.contains(&name.as_str()) {
            return None;
        }
        let mut command = Command::new(program);
        command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null());
        let output = command.output().ok().filter(|output| output.status.success())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
    }
}

/// Programs that print their version when asked for it with `--version`.
const SAY_THEIR_VERSION: &[&str] =
    &["cp", "dd", "tar", "rsync", "cpz", "xcp", "fcp", "qemu-img", "haul", "rclone", "install", "cat", "pv"];

/// A text with both paths in their places; what is put in is not looked at again.
fn replaced(text: &str, source: &[u8], dest: &[u8]) -> OsString {
    let with_dest = |part: &str| part.split(PLACE_OF_DEST).map(str::as_bytes).collect::<Vec<_>>().join(dest);
    OsString::from_vec(text.split(PLACE_OF_SOURCE).map(with_dest).collect::<Vec<_>>().join(source))
}

fn quoted_for_shell(path: &[u8]) -> Vec<u8> {
    let quoted = path.split(|byte| *byte == b'\'').collect::<Vec<_>>().join(&b"'\\''"[..]);
    [b"'", &quoted[..], b"'"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_where_their_places_are_and_are_never_read_again() {
        assert_eq!(replaced("a {source}b{dest} {other}", b"{dest}", b"D"), "a {dest}bD {other}");
    }

    #[test]
    fn every_word_of_a_line_that_is_a_program_is_found() {
        let own = Own::running().unwrap();
        let programs = |how: How| -> Vec<String> {
            let words = how.words(&own).into_iter().filter(|word| !word.is_empty() && programs::find(word).is_some());
            words.map(|word| word.to_string_lossy().into_owned()).collect()
        };
        let line = "cp -r {source} {dest};(tar -cf - x|cat) && sync";
        assert_eq!(programs(How::Line(line.to_owned())), ["sh", "cp", "tar", "cat", "sync"]);
        let words = ["nice", "-n", "5", "cp", "{source}", "{dest}"].map(str::to_owned).to_vec();
        assert_eq!(programs(How::Words(words)), ["nice", "cp"]);
    }

    #[test]
    fn an_image_that_took_another_way_is_not_what_it_says() {
        for (queued, workers, right) in [(true, 0.0, true), (true, 2.0, false), (false, 2.0, true), (false, 0.0, false)]
        {
            let settings = one_copy::Settings { image: Some((true, true)), queued, ..one_copy::Settings::default() };
            let run = Run { reported: BTreeMap::from([("workers".to_owned(), workers)]), ..Run::default() };
            assert_eq!(How::Own(settings).took_effect(&run).is_ok(), right, "{queued} {workers}");
        }
    }

    #[test]
    fn a_shell_gets_a_name_as_it_is() {
        let name = b"it's; rm -rf \"$HOME\" `x`\n";
        let line = [b"printf %s ".as_slice(), &quoted_for_shell(name)].concat();
        let output = haul_testbed::Command::new("sh").arg("-c").arg(OsString::from_vec(line)).output().unwrap();
        assert_eq!(output.stdout, name);
    }
}
