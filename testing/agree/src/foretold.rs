//! Whether a dry run foretells what the same command then does: entry by entry, error by error, and without touching anything.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::case::Case;
use crate::difference::Difference;
use crate::moved;
use crate::options::{Words, begins};
use crate::paths::{behind, followed, operands, resolved, whole, within};
use crate::scene::build;
use crate::snapshot::{Item, Snapshot};
use crate::stage::{Call, Outcome, Stage};

/// What cp lacks; one of them, or none, is added to each command line.
const MORE: [&str; 10] = [
    "",
    "",
    "--update=changed",
    "--update=content",
    "--atomic",
    "--exclude=a*",
    "--delete",
    "--delete=force --atomic",
    "--move",
    "--move --exclude=a*",
];

/// The end of a message.
const UNSURE_OF_NAMES: &str = "names that differ in upper and lower case may be one name there";

/// What else a command line may have that deletes.
const BESIDE_DELETE: [&str; 12] = [
    "-f",
    "--force",
    "-u",
    "-v",
    "--verbose",
    "-x",
    "--one-file-system",
    "-p",
    "--preserve=",
    "--no-preserve=",
    "--sparse=",
    "--remove-destination",
];

/// The words of a case beside `more`. Only of one directory haul deletes in the copy, so of such a case the scene and these options
/// are played.
fn own_words(case: &Case, more: &str) -> Vec<Vec<u8>> {
    if !more.starts_with("--delete") {
        return case.argv();
    }
    let goes = |words: &&Words| words.len() == 1 && begins(&words[0], &BESIDE_DELETE);
    let options = case.arguments.iter().filter(goes).flatten().cloned();
    options.chain(["-rT", "s", "d"].map(Into::into)).collect()
}

/// Runs a case dry and then in earnest, each on a scene of its own; `None` if that did not end.
pub(crate) fn judge(
    stage: &Stage,
    case: &Case,
    program: &Path,
    limit: Duration,
) -> io::Result<Option<Vec<Difference>>> {
    let more = MORE[case.seed as usize % MORE.len()];
    let with = |first: &str| {
        let added: Vec<&str> = first.split(' ').chain(more.split(' ')).filter(|word| !word.is_empty()).collect();
        if more.starts_with("--move") {
            return moved::call(case, &added);
        }
        let added = added.into_iter().map(|word| word.as_bytes().to_vec());
        Call { argv: added.chain(own_words(case, more)).collect(), ..Call::of(case) }
    };
    let play = |call: &Call| stage.perform(case.place, &|work| build(work, &case.nodes), call, program, limit);
    let dry = play(&with("--dry-run"))?;
    let done = play(&with(""))?;
    if done.timed_out || done.too_deep {
        return Ok(None);
    }
    Ok(Some(differences(&with(""), &dry, &done)))
}

fn differences(call: &Call, dry: &Outcome, done: &Outcome) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut add = |sort: &str, path: &[u8], done: String, dry: String| {
        found.push(Difference { sort: sort.to_owned(), path: path.to_vec(), reference: done, tested: dry });
    };
    if dry.timed_out {
        add("hang", b"", "ended".to_owned(), "was killed after the time limit".to_owned());
        return found;
    }
    untouched(dry, &mut add);
    // A link of the source may lead to what the run makes.
    let meets_itself = String::from_utf8_lossy(&done.stderr).contains("into itself");
    if !meets_itself && !changes_own_sources(call, done) {
        // Attributes that cannot be set, as an example, nobody foresees; then nothing more goes.
        let has_stopped = String::from_utf8_lossy(&done.stderr).contains("so no more was deleted");
        // What was made for one operand may be closed to a later one.
        let meet = sources_meet(call, done);
        if !has_stopped && !meet {
            errors(call, dry, done, &mut add);
        }
        if meet && call.argv.iter().any(|word| word.starts_with(b"--par")) {
            return found;
        }
        let deletes = call.argv.iter().any(|word| word.starts_with(b"--delete"));
        entries(deletes, dry, done, &mut add);
    }
    found
}

/// Whether an operand was, or had in it, something that the run itself has changed, for an earlier operand or for this one. What
/// becomes of that nobody can foresee without doing it.
fn changes_own_sources(call: &Call, done: &Outcome) -> bool {
    // That sources go is what a move does.
    let moves = call.argv.iter().any(|word| word == b"--move");
    let goes = |path: &Vec<u8>| moves && !done.after.contains_key(path);
    let sources = operands(call).0;
    if moves && sources_meet(call, done) {
        return true;
    }
    sources.into_iter().any(|path| {
        let found = resolved(path, &done.before);
        let inner = found.as_ref().and_then(|found| {
            let link = done.before.get(found).filter(|item| item.kind == 'l')?;
            behind(found, link, &done.before)
        });
        [found, inner].into_iter().flatten().any(|dir| changed(done).any(|path| within(path, &dir) && !goes(path)))
    })
}

/// Whether the way to a source leads through an earlier one or what that would make, or an earlier one is in it.
fn sources_meet(call: &Call, done: &Outcome) -> bool {
    let sources = operands(call).0;
    let places: Vec<Option<Vec<u8>>> = sources.iter().map(|path| resolved(path, &done.before)).collect();
    // Each directory on the way to a source, and the source.
    let way = |path: &[u8]| {
        let ends = (0..=path.len()).filter(|end| path.get(*end).is_none_or(|byte| *byte == b'/'));
        ends.filter_map(|end| resolved(&path[..end], &done.before)).collect::<Vec<_>>()
    };
    (1..sources.len()).any(|at| {
        let way = way(sources[at]);
        let is_missing = places[at].as_ref().is_none_or(|place| !done.before.contains_key(place));
        let has = |earlier| places[at].as_ref().is_some_and(|place| within(earlier, place));
        is_missing
            || places[..at]
                .iter()
                .flatten()
                .any(|earlier| has(earlier) || way.iter().any(|place| within(place, earlier)))
    })
}

/// What is new, gone or another file after a run.
fn changed(done: &Outcome) -> impl Iterator<Item = &Vec<u8>> {
    let essence = |item: &Item| (item.kind, item.size, item.contents.clone());
    done.before
        .keys()
        .chain(done.after.keys())
        .filter(move |path| done.before.get(*path).map(essence) != done.after.get(*path).map(essence))
}

/// Nothing may have changed. The judge itself reads files, so times of access say nothing; nor do blocks, which a filesystem may
/// give late.
fn untouched(dry: &Outcome, add: &mut impl FnMut(&str, &[u8], String, String)) {
    let quiet = |tree: &Snapshot, path: &Vec<u8>| {
        tree.get(path).map(|item| Item { atime: item.mtime, blocks: 0, ..item.clone() })
    };
    let paths: BTreeSet<&Vec<u8>> = dry.before.keys().chain(dry.after.keys()).collect();
    for path in paths {
        let (before, after) = (quiet(&dry.before, path), quiet(&dry.after, path));
        if before != after {
            add("touched", path, format!("{before:?}"), format!("{after:?}"));
        }
    }
}

/// What a dry run reports the copy reports, too. What only the copy reports nobody could foresee.
fn errors(call: &Call, dry: &Outcome, done: &Outcome, add: &mut impl FnMut(&str, &[u8], String, String)) {
    let asked = dry.stdout.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"ask "));
    let count = |outcome: &Outcome| {
        let mut lines = BTreeMap::new();
        let text = String::from_utf8_lossy(&outcome.stderr).into_owned();
        // A question has no line end.
        let text = text.replace("? cp: ", "?\ncp: ");
        text.lines().filter(|line| !line.ends_with("? ") && !line.ends_with('?')).for_each(|line| {
            *lines.entry(line.to_owned()).or_insert(0_usize) += 1;
        });
        lines
    };
    let (foreseen, reported) = (count(dry), count(done));
    // What one operand would make is not compared with what another would put in its place.
    let compares = call.argv.iter().any(|word| word.starts_with(b"--update=c"));
    let may_be_alike = |line: &str| compares && line.contains("will not overwrite just-created");
    // Two things may be wrong with one entry.
    let act = |line: &str| line.rsplit_once(": ").map_or(line, |(act, _)| act).to_owned();
    let acts: BTreeSet<String> = reported.keys().map(|line| act(line)).collect();
    // A device that is not there is found out when it is opened, which comes before the copy is made.
    let lacks_device = reported.keys().any(|line| line.ends_with("No such device or address"));
    let is_false = |line: &&String| {
        let is_of_copy = lacks_device && line.contains("cannot create regular file");
        // What a link leads to may be made before it is met.
        let dangles = line.contains("not writing through dangling symlink");
        !acts.contains(&act(line)) && !may_be_alike(line) && !line.contains(UNSURE_OF_NAMES) && !is_of_copy && !dangles
    };
    for line in foreseen.keys().filter(is_false) {
        add("false-alarm", b"", "nothing".to_owned(), line.clone());
    }
    let deletes = call.argv.iter().any(|word| word.starts_with(b"--delete"));
    let removes = deletes || call.argv.iter().any(|word| word == b"--move");
    let cannot_delete =
        |line: &str| removes && ["cannot remove ", "not removing "].iter().any(|words| line.contains(words));
    // What fails where the user says yes is not foreseen where nobody is asked.
    let unforeseen =
        |line: &&String| !asked && !foreseen.contains_key(*line) && !is_unforeseeable(line) && !cannot_delete(line);
    for line in reported.keys().filter(unforeseen) {
        add("unforeseen", b"", line.clone(), "nothing".to_owned());
    }
    let same_errors = foreseen.keys().eq(reported.keys());
    if same_errors && !asked && dry.status != done.status {
        add("exit", b"", done.status.clone(), dry.status.clone());
    }
}

/// What filesystems, attributes and devices refuse when they are asked.
fn is_unforeseeable(line: &str) -> bool {
    let words = [
        "preserv",
        "setting ",
        "getting attribute ",
        "failed to ",
        "error ",
        "was overwritten",
        "could not be replaced",
        // Who may make nodes, and link to files of others.
        "Operation not permitted",
        // A FIFO that nobody reads.
        "No such device or address",
    ];
    words.iter().any(|word| line.contains(word))
}

/// What a dry run says of entries, by their paths in the snapshots.
#[derive(Default)]
struct Said {
    made: BTreeSet<Vec<u8>>,
    /// With all that is in them.
    renamed: BTreeSet<Vec<u8>>,
    asked: BTreeSet<Vec<u8>>,
    skipped: BTreeSet<Vec<u8>>,
    deleted: BTreeSet<Vec<u8>>,
    backups: BTreeSet<Vec<u8>>,
    /// Two operands have something of one name, and what becomes of the first one nobody has foreseen.
    again: bool,
    /// A line that could not be understood.
    odd: Option<String>,
}

impl Said {
    fn of(dry: &Outcome) -> Said {
        let mut said = Said::default();
        for line in dry.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            if line.starts_with(b"dry run: ") || line.starts_with(b"enter directory ") {
                continue;
            }
            if said.add(line, &dry.before).is_none() {
                said.odd = Some(String::from_utf8_lossy(line).into_owned());
            }
        }
        said
    }

    fn add(&mut self, line: &[u8], before: &Snapshot) -> Option<()> {
        let words: [&[u8]; 11] = [
            b"delete directory ",
            b"delete ",
            b"make directory ",
            b"copy ",
            b"replace ",
            b"ask ",
            b"link ",
            b"symlink ",
            b"rename ",
            b"skip ",
            b"set attributes of ",
        ];
        let word = words.into_iter().find(|word| line.starts_with(word))?;
        let (mut path, mut rest) = unquoted(&line[word.len()..])?;
        if let Some(after) = rest.strip_prefix(b" -> ") {
            (path, rest) = unquoted(after)?;
        }
        if let Some(after) = rest.strip_prefix(b" (backup: ") {
            let (backup, _) = unquoted(after)?;
            self.backups.insert(self.resolved(&backup, before)?);
        }
        let path = self.resolved(&path, before)?;
        if word == b"rename " {
            self.renamed.insert(path.clone());
        }
        let of = match word {
            b"skip " | b"set attributes of " => &mut self.skipped,
            b"ask " => &mut self.asked,
            b"delete " | b"delete directory " => &mut self.deleted,
            _ => &mut self.made,
        };
        self.again |= !of.insert(path);
        Some(())
    }

    /// What has made way for a directory leads nowhere any more.
    fn resolved(&self, path: &[u8], before: &Snapshot) -> Option<Vec<u8>> {
        followed(&whole(path)?, |path| before.get(path).filter(|_| !self.made.contains(path)))
    }

    fn changes(&self, path: &Vec<u8>) -> bool {
        [&self.made, &self.asked, &self.backups].iter().any(|set| set.contains(path))
            || self.renamed.iter().any(|dir| within(path, dir))
    }
}

fn entries(deletes: bool, dry: &Outcome, done: &Outcome, add: &mut impl FnMut(&str, &[u8], String, String)) {
    let said = Said::of(dry);
    if let Some(line) = said.odd {
        add("odd-line", b"", "nothing".to_owned(), line);
        return;
    }
    if said.again {
        return;
    }
    let shown = |item: Option<&Item>| item.map_or("nothing".to_owned(), |item| format!("{item:?}"));
    // A link that leads nowhere yet may be written through.
    let links = said.made.iter().chain(&said.asked).filter_map(|path| {
        let link = done.before.get(path).filter(|item| item.kind == 'l')?;
        behind(path, link, &done.before)
    });
    let through: BTreeSet<Vec<u8>> = links.collect();
    // The same file under another name, or behind a link, is written with the one that is named.
    let written: BTreeSet<&Vec<u8>> = said
        .made
        .iter()
        .chain(&said.asked)
        .filter_map(|path| {
            let item = done.before.get(path)?;
            let behind = (item.kind == 'l').then(|| behind(path, item, &done.before)).flatten();
            Some(behind.and_then(|path| done.before.get(&path)).map_or(&item.first_name, |item| &item.first_name))
        })
        .collect();
    // What a copy makes may show it how names are on a filesystem; a dry run may lack that, and then finds nothing in the way
    // that could go.
    let is_unsure = String::from_utf8_lossy(&dry.stderr).contains(UNSURE_OF_NAMES);
    for (path, after) in done.after.iter().filter(|_| !is_unsure) {
        let before = done.before.get(path);
        let differs = before.is_none_or(|before| {
            (before.kind, before.size, &before.contents, before.device)
                != (after.kind, after.size, &after.contents, after.device)
        });
        let by_other_name = before.is_some_and(|before| written.contains(&before.first_name));
        if differs && !said.changes(path) && !by_other_name && !through.contains(path) {
            add("unsaid", path, format!("{} -> {}", shown(before), shown(Some(after))), "nothing".to_owned());
        }
    }
    if deletes && !is_unsure {
        // What is removed may have been in the way of another.
        let is_directory = |tree: &Snapshot, path: &Vec<u8>| tree.get(path).map(|item| item.kind == 'd');
        let gone =
            done.before.keys().filter(|path| is_directory(&done.before, path) != is_directory(&done.after, path));
        let gone: BTreeSet<Vec<u8>> = gone.cloned().collect();
        let is_shut =
            |dir: &[u8]| done.before.get(dir).is_some_and(|item| item.kind == 'd' && item.mode & 0o500 != 0o500);
        // What is in a directory that its owner would have to open is not named.
        let is_behind = |path: &Vec<u8>| said.deleted.iter().any(|dir| is_shut(dir) && within(path, dir));
        // What takes the place of another may not come.
        let failed = |path: &Vec<u8>| done.status != "exit 0" && said.changes(path);
        for path in gone.difference(&said.deleted).filter(|path| !is_behind(path) && !failed(path)) {
            add("undeleted", path, "gone".to_owned(), "nothing".to_owned());
        }
        for path in said.deleted.difference(&gone).filter(|_| done.status == "exit 0") {
            add("not-deleted", path, shown(done.after.get(path)), "delete".to_owned());
        }
    }
    for path in said.made.iter().filter(|path| !done.after.contains_key(*path)) {
        if done.status == "exit 0" {
            add("not-done", path, "nothing".to_owned(), "would be made".to_owned());
        }
    }
    for path in said.skipped.iter().filter(|path| !said.changes(path)) {
        let of = |tree: &Snapshot| tree.get(path).map(|item| (item.kind, item.size, item.contents.clone()));
        if of(&done.before) != of(&done.after) {
            add("not-skipped", path, shown(done.after.get(path)), "skip".to_owned());
        }
    }
}

/// A name out of its quotes, and what comes after it.
fn unquoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut name = Vec::new();
    let mut rest = text;
    loop {
        rest = match rest {
            [b'\'', after @ ..] => {
                let end = after.iter().position(|byte| *byte == b'\'')?;
                name.extend(&after[..end]);
                &after[end + 1..]
            }
            [b'"', after @ ..] => {
                let end = after.iter().position(|byte| *byte == b'"')?;
                name.extend(&after[..end]);
                &after[end + 1..]
            }
            [b'$', b'\'', after @ ..] => escaped(after, &mut name)?,
            [b'\\', byte, after @ ..] => {
                name.push(*byte);
                after
            }
            _ if rest.len() == text.len() => return None,
            rest => return Some((name, rest)),
        };
    }
}

/// What stands in `$'...'`, from behind the first quote to behind the last.
fn escaped<'t>(text: &'t [u8], name: &mut Vec<u8>) -> Option<&'t [u8]> {
    let mut rest = text;
    loop {
        rest = match rest {
            [b'\'', after @ ..] => return Some(after),
            [b'\\', digits @ ..] if digits.len() >= 3 && digits[..3].iter().all(|byte| (b'0'..b'8').contains(byte)) => {
                name.push(digits[..3].iter().fold(0, |number: u8, digit| number.wrapping_mul(8) + (digit - b'0')));
                &digits[3..]
            }
            [b'\\', letter, after @ ..] => {
                name.push(match letter {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'a' => 7,
                    b'b' => 8,
                    b'v' => 11,
                    b'f' => 12,
                    other => *other,
                });
                after
            }
            [byte, after @ ..] => {
                name.push(*byte);
                after
            }
            [] => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_out_of_their_quotes() {
        for (text, name, rest) in [
            (&b"'a b' -> 'c'"[..], &b"a b"[..], &b" -> 'c'"[..]),
            (b"\"it's\": older", b"it's", b": older"),
            (b"'a'$'\\n\\377''b'", b"a\n\xffb", b""),
            (b"'a'\\''b')", b"a'b", b")"),
        ] {
            assert_eq!(unquoted(text), Some((name.to_vec(), rest)));
        }
        assert_eq!(unquoted(b"bare"), None);
    }
}
