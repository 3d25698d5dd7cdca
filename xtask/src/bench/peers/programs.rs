//! The options of each peer for each kind of copy.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::install::{BEFORE, Peer};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A directory, contents only.
    Tree,
    /// A directory with all metadata.
    Archive,
    /// A regular file.
    File,
    /// A regular file whose holes should stay holes.
    Sparse,
    /// A small file, many times one after another.
    Starts,
    /// A directory of equal files, with the asynchronous engines.
    Matrix,
    /// A directory with all metadata, over one of the same names.
    Overwrite,
    /// The same, of what is newer.
    Newer,
    /// The same, of what differs in size or time.
    Changed,
    /// The same, of what differs in its bytes.
    Content,
    /// The same, of what differs in size or time, and what the source does not have goes.
    Mirror,
    /// An empty directory, over one with everything.
    Delete,
}

impl Shape {
    /// Whether modes, owners and times have to be kept.
    pub fn keeps_all(self) -> bool {
        matches!(self, Shape::Archive) || self.finds_tree()
    }

    /// Whether a tree stands at the destination.
    pub fn finds_tree(self) -> bool {
        use Shape::{Changed, Content, Delete, Mirror, Newer, Overwrite};
        matches!(self, Overwrite | Newer | Changed | Content | Mirror | Delete)
    }
}

/// A peer, the kind of copy, and the words after the program's name.
type Line = (&'static str, Shape, &'static [&'static str]);

/// Stands for the source.
const S: &str = "{source}";
/// Stands for the destination, which does not exist yet and has the same name as the source.
const D: &str = "{dest}";
/// Stands for the directory that the source is in.
const FROM: &str = "{from}";
/// Stands for the name that source and destination have.
const NAME: &str = "{name}";
/// Stands for the directory that the destination will be in.
const INTO: &str = "{into}";
/// Stands for the program, where it is not the first word.
const PROGRAM: &str = "{program}";
/// As the first word, stands for a shell; the other words follow as its arguments.
const SHELL: &str = "{shell}";

const PIPE: &str = r#""$0" -C "$1" -cf - "$2" | "$0" -C "$3" -xf -"#;
const PIPE_ALL: &str = r#""$0" -C "$1" --acls --xattrs --xattrs-include='*' --numeric-owner -cf - "$2" |
    "$0" -C "$3" --acls --xattrs --xattrs-include='*' --numeric-owner -p -xf -"#;
const PIPE_SPARSE: &str = r#""$0" -C "$1" -S -cf - "$2" | "$0" -C "$3" -xf -"#;

const LINES: &[Line] = &[
    ("cp", Shape::Tree, &["-r", S, D]),
    ("haul", Shape::Tree, &["-r", S, D]),
    ("uutils", Shape::Tree, &["-r", S, D]),
    ("xcp", Shape::Tree, &["-r", "--no-progress", S, D]),
    ("cpz", Shape::Tree, &[S, D]),
    ("fcp", Shape::Tree, &[S, D]),
    ("rsync", Shape::Tree, &["-r", "{source}/", D]),
    ("rclone", Shape::Tree, &["copy", "--config=", "--create-empty-src-dirs", S, D]),
    ("tar", Shape::Tree, &[SHELL, "-c", PIPE, PROGRAM, FROM, NAME, INTO]),
    ("cp", Shape::Archive, &["-a", S, D]),
    ("haul", Shape::Archive, &["-a", S, D]),
    ("uutils", Shape::Archive, &["-a", S, D]),
    ("xcp", Shape::Archive, &["-r", "--ownership", "--no-progress", S, D]),
    ("cpz", Shape::Archive, &[S, D]),
    ("fcp", Shape::Archive, &[S, D]),
    ("rsync", Shape::Archive, &["-aHAX", "{source}/", D]),
    ("rclone", Shape::Archive, &["copy", "--config=", "--metadata", "--links", "--create-empty-src-dirs", S, D]),
    ("tar", Shape::Archive, &[SHELL, "-c", PIPE_ALL, PROGRAM, FROM, NAME, INTO]),
    ("cp", Shape::File, &[S, D]),
    ("haul", Shape::File, &[S, D]),
    ("uutils", Shape::File, &[S, D]),
    ("xcp", Shape::File, &["--no-progress", S, D]),
    ("cpz", Shape::File, &[S, D]),
    ("fcp", Shape::File, &[S, D]),
    ("rsync", Shape::File, &[S, D]),
    ("rclone", Shape::File, &["copyto", "--config=", S, D]),
    ("dd", Shape::File, &["bs=8M", "if={source}", "of={dest}"]),
    ("dd", Shape::File, &["bs=8M", "iflag=direct", "oflag=direct", "if={source}", "of={dest}"]),
    ("cp", Shape::Sparse, &[S, D]),
    ("haul", Shape::Sparse, &[S, D]),
    ("uutils", Shape::Sparse, &[S, D]),
    ("xcp", Shape::Sparse, &["--no-progress", S, D]),
    ("tar", Shape::Sparse, &[SHELL, "-c", PIPE_SPARSE, PROGRAM, FROM, NAME, INTO]),
    ("qemu-img", Shape::Sparse, &["convert", "-f", "raw", "-O", "raw", S, D]),
    ("dd", Shape::Sparse, &["bs=64k", "conv=sparse", "if={source}", "of={dest}"]),
    ("cp", Shape::Starts, &[S, D]),
    ("haul", Shape::Starts, &[S, D]),
    ("uutils", Shape::Starts, &[S, D]),
    ("xcp", Shape::Starts, &["--no-progress", S, D]),
    ("cpz", Shape::Starts, &[S, D]),
    ("fcp", Shape::Starts, &[S, D]),
    ("rsync", Shape::Starts, &[S, D]),
    ("rclone", Shape::Starts, &["copyto", "--config=", S, D]),
    ("dd", Shape::Starts, &["if={source}", "of={dest}"]),
    ("cp", Shape::Matrix, &["-r", S, D]),
    ("haul", Shape::Matrix, &["-r", S, D]),
    ("cp", Shape::Overwrite, &["-aT", S, D]),
    ("haul", Shape::Overwrite, &["-aT", S, D]),
    ("rsync", Shape::Overwrite, &["-a", "--ignore-times", "{source}/", D]),
    ("cp", Shape::Newer, &["-auT", S, D]),
    ("haul", Shape::Newer, &["-auT", S, D]),
    ("rsync", Shape::Newer, &["-a", "{source}/", D]),
    ("rsync", Shape::Changed, &["-a", "{source}/", D]),
    ("haul", Shape::Changed, &["-aT", "--update=changed", S, D]),
    ("rsync", Shape::Content, &["-ac", "{source}/", D]),
    ("haul", Shape::Content, &["-aT", "--update=content", S, D]),
    ("rsync", Shape::Mirror, &["-a", "--delete", "{source}/", D]),
    ("haul", Shape::Mirror, &["--mirror", S, D]),
    ("rsync", Shape::Delete, &["-a", "--delete", "{source}/", D]),
    ("haul", Shape::Delete, &["-aT", "--delete=force", S, D]),
];

/// A program with its options, to which source and destination are given for each run.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its name in the tables: the peer and its options.
    pub name: String,
    pub peer: Peer,
    pub task: Task,
}

/// What a program of the tables does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    Copy(Vec<String>),
    /// Copies nothing: writes as much fresh data as fast as the device can.
    Limit,
}

/// The programs for a kind of copy, first the one that the others are compared with: cp, or rsync where cp has no such thing. haul is timed once more with each of these options, and so is the other build of
/// it without them, if it is among the peers; `limit` adds the limit of the device.
pub fn of(shape: Shape, peers: &[Peer], options: &[String], limit: bool) -> Vec<Program> {
    let mut programs = Vec::new();
    for &(name, _, words) in LINES.iter().filter(|line| line.1 == shape) {
        let Some(peer) = peers.iter().find(|peer| peer.name == name) else { continue };
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        programs.push(Program { name: shown(name, &words), peer: peer.clone(), task: Task::Copy(words.clone()) });
        if name != "haul" {
            continue;
        }
        if let Some(before) = peers.iter().find(|peer| peer.name == BEFORE) {
            programs.push(Program {
                name: shown(BEFORE, &words),
                peer: before.clone(),
                task: Task::Copy(words.clone()),
            });
        }
        for option in options {
            let with: Vec<String> = [option].into_iter().chain(&words).cloned().collect();
            programs.push(Program { name: shown(name, &with), peer: peer.clone(), task: Task::Copy(with) });
        }
    }
    if let Some(fio) = peers.iter().find(|peer| peer.name == "fio").filter(|_| limit) {
        programs.push(Program { name: "device limit (fio)".into(), peer: fio.clone(), task: Task::Limit });
    }
    programs
}

/// The peer and its options, without what stands for names and without options that only keep it quiet.
fn shown(peer: &str, words: &[String]) -> String {
    let mut shown = vec![peer];
    if words.first().is_some_and(|word| word == SHELL) {
        shown.push(match words.get(2).map(String::as_str) {
            Some(PIPE_ALL) => "--acls --xattrs pipe",
            Some(PIPE_SPARSE) => "-S pipe",
            _ => "pipe",
        });
        return shown.join(" ");
    }
    let quiet = ["--no-progress", "--config="];
    shown.extend(words.iter().map(String::as_str).filter(|word| !word.contains('{') && !quiet.contains(word)));
    shown.join(" ")
}

impl Program {
    /// Whether it is haul with its own choice of everything: with the options of the kind of copy alone.
    pub fn is_haul(&self) -> bool {
        let Task::Copy(words) = &self.task else { return false };
        self.peer.name == "haul" && LINES.iter().any(|(name, _, plain)| *name == "haul" && words == plain)
    }

    /// The words of a command that copies `source` to `dest`; empty for what copies nothing.
    pub fn words(&self, source: &Path, dest: &Path) -> Vec<OsString> {
        let Task::Copy(words) = &self.task else { return Vec::new() };
        let parent = |path: &Path| path.parent().map_or_else(PathBuf::new, Path::to_owned);
        let name = source.file_name().map(PathBuf::from).unwrap_or_default();
        let values = [
            (S, source.to_owned()),
            (D, dest.to_owned()),
            (FROM, parent(source)),
            (NAME, name),
            (INTO, parent(dest)),
            (PROGRAM, self.peer.program.clone()),
            (SHELL, "sh".into()),
        ];
        let filled = words.iter().map(|word| {
            let value = values.iter().find(|(key, _)| word.contains(key));
            let Some((key, value)) = value else { return word.into() };
            let (before, after) = word.split_once(key).unwrap_or_default();
            let mut filled = OsString::from(before);
            filled.push(value);
            filled.push(after);
            filled
        });
        let mut all: Vec<OsString> = Vec::new();
        if words.first().is_none_or(|word| word != SHELL) {
            all.push(self.peer.program.clone().into());
        }
        all.extend(filled);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(name: &'static str) -> Peer {
        Peer { name, program: format!("/bin/{name}").into(), version: "1".into(), version_words: &[] }
    }

    fn line(program: &Program) -> String {
        let words = program.words(Path::new("/a/x"), Path::new("/b/0/x"));
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_are_filled_in() {
        let programs = of(Shape::File, &[peer("cp"), peer("dd")], &[], false);
        assert_eq!(line(&programs[0]), "/bin/cp /a/x /b/0/x");
        assert_eq!(line(&programs[1]), "/bin/dd bs=8M if=/a/x of=/b/0/x");
        assert_eq!(programs[2].name, "dd bs=8M iflag=direct oflag=direct");
        let tar = of(Shape::Sparse, &[peer("tar")], &[], false);
        assert_eq!(tar[0].name, "tar -S pipe");
        assert!(line(&tar[0]).ends_with("/bin/tar /a x /b/0"), "{}", line(&tar[0]));
        let rsync = of(Shape::Tree, &[peer("rsync")], &[], false);
        assert_eq!(line(&rsync[0]), "/bin/rsync -r /a/x/ /b/0/x");
    }

    #[test]
    fn haul_with_options_is_timed_beside_haul_as_it_is() {
        let options = ["--engine=direct".into(), "--durable".into()];
        let programs = of(Shape::Matrix, &[peer("cp"), peer("haul"), peer("fio")], &options, true);
        let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, ["cp -r", "haul -r", "haul --engine=direct -r", "haul --durable -r", "device limit (fio)"]);
        assert_eq!(programs.iter().map(Program::is_haul).collect::<Vec<_>>(), [false, true, false, false, false]);
        assert_eq!(line(&programs[2]), "/bin/haul --engine=direct -r /a/x /b/0/x");
        let update = of(Shape::Changed, &[peer("cp"), peer("haul"), peer("rsync")], &options[1..], false);
        assert_eq!(update.iter().map(Program::is_haul).collect::<Vec<_>>(), [false, true, false]);
    }

    #[test]
    fn another_build_of_haul_gets_the_options_of_haul() {
        let programs = of(Shape::Archive, &[peer("cp"), peer("haul"), peer(BEFORE)], &[], false);
        assert_eq!(
            programs.iter().map(line).collect::<Vec<_>>()[1..],
            ["/bin/haul -a /a/x /b/0/x", "/bin/before -a /a/x /b/0/x"]
        );
        assert_eq!(programs[2].name, "before -a");
        assert!(!programs[2].is_haul());
    }

    #[test]
    fn every_peer_of_the_table_can_be_installed_and_does_something() {
        let known = super::super::install::names();
        for (name, ..) in LINES {
            assert!(known.contains(name), "{name}");
        }
        for name in known.into_iter().filter(|name| *name != "fio") {
            assert!(LINES.iter().any(|line| line.0 == name), "{name}");
        }
    }
}
