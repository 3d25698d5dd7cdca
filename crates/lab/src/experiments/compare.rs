//! `haul-lab compare`: is tool X faster than haul here, and is its copy right?

use std::path::{Path, PathBuf};

use crate::measure::cache::Wanted;
use crate::measure::one_copy;
use crate::measure::stop::Stop;
use crate::session::{Competitor, Group, Halt, How, PLACE_OF_DEST, PLACE_OF_SOURCE, Session};
use crate::words::{self, quoted};

/// The section's name.
pub const NAME: &str = "compare";

/// What is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The user's file or tree.
    pub source: PathBuf,
    /// Lines for a shell.
    pub commands: Vec<String>,
    /// Programs that are known here, by name.
    pub known: Vec<String>,
    /// Of the source.
    pub state: Wanted,
    /// Metadata is to be kept, and is compared.
    pub archive: bool,
}

impl Default for Request {
    fn default() -> Request {
        Request { source: PathBuf::new(), commands: Vec::new(), known: Vec::new(), state: Wanted::Warm, archive: false }
    }
}

/// Programs with the words for names and contents alone, and for all metadata.
const KNOWN: &[(&str, &str, &str)] = &[
    ("cp", "cp -r {source} {dest}", "cp -a {source} {dest}"),
    ("rsync", "rsync -r --links --whole-file {source}/ {dest}", "rsync -aHAX --whole-file {source}/ {dest}"),
    ("dd", "dd if={source} of={dest} bs=8M status=none", "dd if={source} of={dest} bs=8M status=none"),
    (
        "tar",
        "mkdir {dest} && tar -C {source} -cf - . | tar -C {dest} -xf -",
        "mkdir {dest} && tar -C {source} -cf - . | tar -C {dest} -xpf -",
    ),
    ("xcp", "xcp -r --no-progress {source} {dest}", "xcp -r --no-progress {source} {dest}"),
    ("cpz", "cpz -r {source} {dest}", "cpz -a {source} {dest}"),
    ("fcp", "fcp {source} {dest}", "fcp {source} {dest}"),
    ("rclone", "rclone copyto {source} {dest}", "rclone copyto --metadata {source} {dest}"),
    ("qemu-img", "qemu-img convert -O raw {source} {dest}", "qemu-img convert -O raw {source} {dest}"),
];

/// Programs that copy single files only, and those that copy trees only, by their names above.
const FILES_ONLY: &[&str] = &["dd", "qemu-img"];
const TREES_ONLY: &[&str] = &["tar"];

/// Names of the programs that are known.
pub fn known() -> Vec<String> {
    KNOWN.iter().map(|(name, ..)| (*name).to_owned()).collect()
}

impl Request {
    /// Whether it can be run at all.
    ///
    /// # Errors
    /// A message that names what is wrong.
    pub fn check(&self) -> Result<(), String> {
        std::fs::symlink_metadata(&self.source)
            .map_err(|error| format!("cannot look at {}: {}", quoted(&self.source), words::of(&error)))?;
        for name in &self.known {
            if !KNOWN.iter().any(|(known, ..)| known == name) {
                return Err(format!(
                    "unknown competitor {name:?}; known are {}, and any command with {PLACE_OF_SOURCE} and {PLACE_OF_DEST} \
                     after '--'",
                    words::list(&known())
                ));
            }
        }
        for command in &self.commands {
            if !command.contains(PLACE_OF_DEST) || !command.contains(PLACE_OF_SOURCE) {
                return Err(format!("the command {command:?} lacks {PLACE_OF_SOURCE} or {PLACE_OF_DEST}"));
            }
        }
        if self.known.is_empty() && self.commands.is_empty() {
            return Err(format!(
                "with whom? Name programs with --with, or commands after '--'; known are {}",
                words::list(&known())
            ));
        }
        Ok(())
    }
}

/// Runs what of it was not run yet.
///
/// # Errors
/// As [`Session::compete`].
pub fn run(session: &mut Session, request: &Request) -> Result<(), Halt> {
    let failed = |error: std::io::Error| format!("cannot read {}: {}", quoted(&request.source), words::of(&error));
    let bytes = bytes_below(&request.source, session.stop()).map_err(failed)?;
    if session.stop().is_stopped() {
        return Err(Halt::Stopped);
    }
    session.section(
        NAME,
        &[("source", request.source.to_string_lossy().into_owned()), ("state", request.state.as_str().to_owned())],
    )?;
    session.needs_room(2 * bytes, NAME)?;
    let source = request.source.canonicalize().map_err(failed)?;
    let name = source.file_name().map_or_else(|| "/".to_owned(), |name| name.to_string_lossy().into_owned());
    let is_tree = source.is_dir();
    let group = Group {
        name,
        source,
        make: None,
        bytes,
        judge: None,
        metadata: request.archive,
        competitors: competitors(request, is_tree),
    };
    session.compete_all(NAME, &[group])
}

fn competitors(request: &Request, is_tree: bool) -> Vec<Competitor> {
    let settings = one_copy::Settings { archive: request.archive, reflink: true, ..one_copy::Settings::default() };
    let mut all = vec![Competitor::new("haul", request.state, How::Own(settings)).as_base()];
    for (name, plain, archive) in KNOWN.iter().filter(|(name, ..)| request.known.iter().any(|wanted| wanted == name)) {
        let fits = if is_tree { !FILES_ONLY.contains(name) } else { !TREES_ONLY.contains(name) };
        if fits {
            let line = if request.archive { archive } else { plain };
            // A slash behind a file's name would ask for a directory.
            let line = if is_tree { (*line).to_owned() } else { line.replace("{source}/", PLACE_OF_SOURCE) };
            all.push(Competitor::new(*name, request.state, How::Line(line)));
        }
    }
    let lines = request.commands.iter();
    all.extend(lines.map(|line| Competitor::new(line.clone(), request.state, How::Line(line.clone()))));
    all
}

/// Bytes of the files below a path that a copy would have.
fn bytes_below(path: &Path, stop: &Stop) -> std::io::Result<u64> {
    let metadata = std::fs::symlink_metadata(path)?;
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    let mut sum = 0;
    for entry in std::fs::read_dir(path)? {
        if stop.is_stopped() {
            break;
        }
        sum += bytes_below(&entry?.path(), stop)?;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(known: &[&str], commands: &[&str]) -> Request {
        let strings = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Request {
            source: std::env::temp_dir(),
            commands: strings(commands),
            known: strings(known),
            state: Wanted::Warm,
            archive: false,
        }
    }

    #[test]
    fn an_unknown_competitor_is_refused_with_the_names_of_the_known() {
        let message = request(&["cq"], &[]).check().unwrap_err();
        assert!(message.starts_with("unknown competitor \"cq\"; known are cp, rsync"), "{message}");
    }

    #[test]
    fn a_command_without_both_places_is_refused() {
        assert!(request(&[], &["cp {source} x"]).check().is_err());
        assert!(request(&[], &[]).check().is_err());
        assert!(request(&[], &["cp {source} {dest}"]).check().is_ok());
    }

    #[test]
    fn programs_compete_only_where_they_can() {
        let names = |is_tree| {
            let all = competitors(&request(&["cp", "dd", "tar"], &[]), is_tree);
            all.into_iter().map(|one| one.name).collect::<Vec<_>>()
        };
        assert_eq!(names(true), ["haul", "cp", "tar"]);
        assert_eq!(names(false), ["haul", "cp", "dd"]);
    }
}
