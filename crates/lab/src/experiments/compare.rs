//! `haul-lab compare`: is tool X faster than haul here, and is its copy right?

use std::path::PathBuf;

use haul_measure::cache::Temperature;
use haul_measure::space::entries_below;
use haul_measure::stop::Stop;
use haul_measure::words::{self, quoted};

use crate::measure::one_copy;
use crate::session::{Competitor, Group, Halt, How, PLACE_OF_DEST, PLACE_OF_SOURCE, Session, compete_all};

pub const NAME: &str = "compare";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    pub source: PathBuf,
    /// Of the user, in words or as lines for a shell.
    pub commands: Vec<How>,
    pub known: Vec<String>,
    pub state: Temperature,
    /// Metadata is to be kept, and is compared.
    pub archive: bool,
}

/// Programs with the words for names and contents alone, and for all metadata.
/// All are words of a command, but for those with a pipe, which are lines. No words: it cannot do that.
const KNOWN: &[(&str, &str, &str)] = &[
    ("cp", "cp -r {source} {dest}", "cp -a {source} {dest}"),
    ("rsync", "rsync -rlD --whole-file {source}/ {dest}", "rsync -aHAX --whole-file {source}/ {dest}"),
    ("dd", "dd if={source} of={dest} bs=8M status=none", ""),
    (
        "tar",
        "mkdir {dest} && tar -C {source} -cf - . | tar -C {dest} -xf -",
        "mkdir {dest} && tar -C {source} --format=posix --xattrs --acls -cf - . | tar -C {dest} --xattrs --acls -xpf -",
    ),
    ("xcp", "xcp -r --no-progress {source} {dest}", "xcp -r --no-progress {source} {dest}"),
    ("cpz", "cpz -r {source} {dest}", "cpz -a {source} {dest}"),
    ("fcp", "fcp {source} {dest}", "fcp {source} {dest}"),
    ("rclone", "rclone copyto --links --create-empty-src-dirs {source} {dest}", ""),
    ("qemu-img", "qemu-img convert -O raw {source} {dest}", ""),
];

/// Programs that copy single files only, and those that copy trees only, by their names above.
const FILES_ONLY: &[&str] = &["dd", "qemu-img"];
const TREES_ONLY: &[&str] = &["tar"];

pub fn known() -> Vec<String> {
    KNOWN.iter().map(|(name, ..)| (*name).to_owned()).collect()
}

impl Request {
    pub(crate) fn check(&self) -> Result<(), String> {
        std::fs::symlink_metadata(&self.source).map_err(words::cannot("look at", &self.source))?;
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
            let name = command.name();
            if !name.contains(PLACE_OF_DEST) || !name.contains(PLACE_OF_SOURCE) {
                return Err(format!("the command {name:?} lacks {PLACE_OF_SOURCE} or {PLACE_OF_DEST}"));
            }
            if let How::Line(line) = command
                && place_in_quotes(line)
            {
                return Err(format!(
                    "the line {name:?} has {PLACE_OF_SOURCE} or {PLACE_OF_DEST} in quotes or behind a backslash; the names come \
                     with quotes of their own"
                ));
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

/// Whether a shell would see a place within quotes, where names with quotes of their own would be other names.
fn place_in_quotes(line: &str) -> bool {
    let mut quote = None;
    let mut escaped = false;
    for (at, letter) in line.char_indices() {
        let here = line[at..].starts_with(PLACE_OF_SOURCE) || line[at..].starts_with(PLACE_OF_DEST);
        if here && (quote.is_some() || escaped) {
            return true;
        }
        match letter {
            _ if escaped => escaped = false,
            '\\' if quote != Some('\'') => escaped = true,
            '\'' | '"' if quote == Some(letter) => quote = None,
            '\'' | '"' if quote.is_none() => quote = Some(letter),
            _ => {}
        }
    }
    false
}

/// The room that copies need, in bytes and so many files: what `du` would say, and not what `ls` does.
pub fn room(request: &Request, stop: &Stop) -> Result<u64, String> {
    let failed = words::cannot("read", &request.source);
    let (entries, bytes) = entries_below(&request.source, stop).map_err(failed)?;
    Ok(bytes.saturating_add(entries.saturating_mul(BLOCK)).saturating_mul(2))
}

/// Runs what of it was not run yet. The source is named by its real path.
pub fn run(session: &mut Session, request: &Request) -> Result<(), Halt> {
    let failed = words::cannot("read", &request.source);
    let entries = entries_below(&request.source, &session.stop).map_err(failed)?;
    session.halt_if_stopped()?;
    let settings = [
        ("source", request.source.to_string_lossy().into_owned()),
        ("entries", entries.0.to_string()),
        ("bytes", entries.1.to_string()),
        ("state", request.state.as_str().to_owned()),
    ];
    let section = session.section(NAME, &settings)?;
    if settings.iter().any(|(name, value)| section.settings.get(*name) != Some(value)) {
        return Err(Halt::Failed(format!(
            "{} has changed since the results were begun; name another folder with --output",
            quoted(&request.source)
        )));
    }
    session.source_is(&request.source)?;
    let (competitors, skipped) = competitors(request, request.source.is_dir());
    for what in skipped {
        session.skip(NAME, what)?;
    }
    if competitors.len() < 2 {
        let why = "nobody is left to compete with haul: some copy only files or only trees, or not all metadata";
        return Err(Halt::Failed(why.to_owned()));
    }
    let name = request.source.file_name().map_or_else(|| "/".to_owned(), |name| name.to_string_lossy().into_owned());
    let group = Group {
        name,
        source: request.source.clone(),
        make: None,
        bytes: entries.1,
        entries: Some(entries),
        judge: None,
        metadata: request.archive,
        competitors,
    };
    compete_all(session, NAME, &[group])
}

/// Which tools compete, and why others do not.
fn competitors(request: &Request, is_tree: bool) -> (Vec<Competitor>, Vec<String>) {
    let settings = one_copy::Settings { archive: request.archive, reflink: true, ..one_copy::Settings::default() };
    let mut all = vec![Competitor::new("haul", request.state, How::Own(settings)).into_base()];
    let mut skipped = Vec::new();
    for (name, plain, archive) in KNOWN.iter().filter(|(name, ..)| request.known.iter().any(|wanted| wanted == name)) {
        let line = if request.archive { *archive } else { *plain };
        let why = match is_tree {
            true if FILES_ONLY.contains(name) => Some("copies files only"),
            false if TREES_ONLY.contains(name) => Some("copies trees only"),
            _ if line.is_empty() => Some("does not keep all metadata"),
            _ => None,
        };
        if let Some(why) = why {
            skipped.push(format!("{name} {why}"));
            continue;
        }
        // A slash behind a file's name would ask for a directory.
        let line = if is_tree { line.to_owned() } else { line.replace("{source}/", PLACE_OF_SOURCE) };
        let how = match line.contains('|') {
            true => How::Line(line),
            false => How::Words(line.split(' ').map(str::to_owned).collect()),
        };
        all.push(Competitor::new(*name, request.state, how));
    }
    all.extend(request.commands.iter().map(|how| Competitor::new(how.name(), request.state, how.clone())));
    (all, skipped)
}

/// What an entry takes at least, in bytes.
const BLOCK: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn request(known: &[&str], commands: &[&str]) -> Request {
        let strings = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Request {
            source: std::env::temp_dir(),
            commands: commands.iter().map(|line| How::Line((*line).to_owned())).collect(),
            known: strings(known),
            state: Temperature::Warm,
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
    fn a_place_within_quotes_is_refused() {
        for line in
            ["cp '{source}' {dest}", "cp {source} \"{dest}\"", "cp {source} \"x {dest}\"", "cp {source} \\{dest}"]
        {
            assert!(request(&[], &[line]).check().is_err(), "{line}");
        }
        assert!(request(&[], &["x='a\"b' cp \"it's\" {source} {dest}"]).check().is_ok());
    }

    #[test]
    fn programs_compete_only_where_they_can() {
        let names = |is_tree| {
            let (all, skipped) = competitors(&request(&["cp", "dd", "tar"], &[]), is_tree);
            assert_eq!(skipped.len(), 1);
            all.into_iter().map(|one| one.name).collect::<Vec<_>>()
        };
        assert_eq!(names(true), ["haul", "cp", "tar"]);
        assert_eq!(names(false), ["haul", "cp", "dd"]);
    }
}
