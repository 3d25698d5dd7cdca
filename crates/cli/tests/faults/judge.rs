//! What must be true of the destination after a run, whatever failed.

use haul_agree::snapshot::{Item, Snapshot};

use crate::scene::{DEST, SOURCE, Scene, Sides};
use crate::sets::Set;
use crate::trace::{Fault, Ran};

/// Kind, bytes and link targets: what makes a copy a copy.
const CONTENTS: &[&str] = &["kind", "contents"];
/// What the name of a journal begins with.
const JOURNAL: &str = ".haul-resume-";

/// Judges the run in which a call failed.
pub fn judge(set: &Set, fault: &Fault, scene: &Scene, now: &Sides, ran: &Ran) -> Vec<String> {
    let mut wrong = of_every_run(set, scene, now);
    if ran.succeeded() && set.moves() && !now.source.is_empty() {
        wrong.push("exit status 0, but something of the source is left".to_owned());
    }
    if ran.succeeded() {
        for (path, fields) in differences(&scene.expected.dest, &now.dest) {
            if !is_accepted_success(set, fault, &fields) {
                wrong.push(format!("exit status 0, but {} differs in {fields:?}", shown(&path)));
            }
        }
    } else if ran.failed() {
        wrong.extend(of_failure(set, fault, scene, now, ran));
    } else {
        wrong.push(format!("it {}", ran.text()));
    }
    wrong
}

/// Judges the same command, without a fault, on what the first run has left.
pub fn judge_second(set: &Set, scene: &Scene, now: &Sides, ran: &Ran) -> Vec<String> {
    let mut wrong = of_every_run(set, scene, now);
    if !ran.succeeded() {
        wrong.push(format!("the second run: {}", ran.text()));
        return wrong;
    }
    for (path, mut fields) in differences(&scene.expected.dest, &now.dest) {
        // What exists keeps its attributes, unless the user wants those of the source.
        fields.retain(|field| set.keeps_all() || CONTENTS.contains(field));
        // The second run makes backups of its own.
        let is_backup = path.windows(2).any(|two| two == b".~");
        if !fields.is_empty() && !is_backup {
            wrong.push(format!("after the second run {} differs in {fields:?}", shown(&path)));
        }
    }
    wrong
}

/// Judges a copy in which nothing failed by its source. What only the destination had before is left alone.
pub fn equals_source(set: &Set, before: &Sides, after: &Sides) -> Vec<String> {
    let mut wrong = Vec::new();
    for (path, item) in &before.source {
        let mut fields = after.dest.get(path).map_or(vec!["all"], |copy| differing(item, copy));
        fields.retain(|field| set.keeps_all() || CONTENTS.contains(field) || *field == "all");
        // An attribute that only the destination had stays.
        let had_others = before.dest.get(path).is_some_and(|old| !old.xattrs.is_empty());
        fields.retain(|field| !(had_others && *field == "xattr"));
        if !fields.is_empty() {
            wrong.push(format!("{} differs from its source in {fields:?}", shown(path)));
        }
    }
    wrong
}

fn of_every_run(set: &Set, scene: &Scene, now: &Sides) -> Vec<String> {
    let mut wrong = Vec::new();
    for (path, fields) in differences(&scene.before.source, &now.source) {
        if set.moves() && is_moved(scene, now, &path) {
            continue;
        }
        wrong.push(format!("the source was changed: {} in {fields:?}", path.escape_ascii()));
    }
    let temporary = |path: &&Vec<u8>| path.split(|byte| *byte == b'/').any(|name| name.starts_with(b".haul-"));
    for path in now.dest.keys().filter(temporary) {
        wrong.push(format!("a temporary file is left: {}", shown(path)));
    }
    wrong
}

/// Whether it is whole at the destination where it is not at the source. Directories have other times when something has left
/// them, and files fewer names.
fn is_moved(scene: &Scene, now: &Sides, path: &[u8]) -> bool {
    let Some(item) = scene.before.source.get(path) else { return false };
    match now.source.get(path) {
        Some(left) => differing(item, left).iter().all(|field| ["mtime", "links"].contains(field)),
        None => now.dest.get(path).is_some_and(|moved| !differing(item, moved).iter().any(|it| CONTENTS.contains(it))),
    }
}

/// What may be lost although the run says that all is well: what cp, too, does not count.
fn is_accepted_success(set: &Set, fault: &Fault, fields: &[&str]) -> bool {
    // `-a` keeps extended attributes where that is possible, and says nothing where it is not. Who insists gets an error.
    set.keeps_all() && !set.insists_on_attributes() && fault.name.contains("xattr") && fields == ["xattr"]
}

/// Whether it did nothing, since it could not keep a journal.
fn is_refused(stderr: &str) -> bool {
    stderr.contains("; nothing was copied") || stderr.contains("another run of this command is still at work")
}

/// Exit status 1: whatever is not right must be known from what was said.
fn of_failure(set: &Set, fault: &Fault, scene: &Scene, now: &Sides, ran: &Ran) -> Vec<String> {
    let (old, expected) = (&scene.before.dest, &scene.expected.dest);
    let mut wrong = Vec::new();
    if is_refused(&ran.stderr) {
        let changed = differences(old, &now.dest);
        return changed
            .iter()
            .map(|(path, fields)| format!("{} was changed by a refused command ({fields:?})", shown(path)))
            .collect();
    }
    let names_a_side = [SOURCE, DEST, JOURNAL].iter().any(|name| ran.stderr.contains(&format!("'{name}")));
    if !names_a_side && !names_an_attribute(fault, &ran.stderr) {
        wrong.push("it failed, and names nothing".to_owned());
    }
    for (path, mut fields) in differences(expected, &now.dest) {
        // The time of a directory says when something was made in it, unless it is the source's.
        let is_directory = expected.get(&path).is_some_and(|item| item.kind == 'd');
        fields.retain(|field| set.keeps_all() || !is_directory || *field != "mtime");
        if fields.is_empty() {
            continue;
        }
        let (was, is) = (old.get(&path), now.dest.get(&path));
        let untouched = was.zip(is).is_some_and(|(was, is)| differing(was, is).is_empty());
        let problem = match is {
            _ if untouched && (is_known(&ran.stderr, &path) || !expected.contains_key(&path)) => None,
            _ if untouched => Some("was not replaced, which was not said"),
            None if was.is_some() && !is_said(&ran.stderr, DEST, &path) => Some("was lost, which was not said"),
            None if !is_known(&ran.stderr, &path) => Some("is missing, which was not said"),
            None => None,
            Some(_) if !expected.contains_key(&path) => Some("is neither the source's nor the old one"),
            Some(_) if fields.iter().any(|field| CONTENTS.contains(field)) => {
                (was.is_none() || !is_said_to_be_incomplete(&ran.stderr, &path)).then_some("is a half copy")
            }
            Some(_) => {
                let said = is_said(&ran.stderr, SOURCE, &path) || is_said(&ran.stderr, DEST, &path);
                let accepted = is_accepted_failure(set, fault, expected, &path, &fields, &ran.stderr);
                (!said && !accepted).then_some("has not the source's attributes, which was not said")
            }
        };
        if let Some(problem) = problem {
            wrong.push(format!("exit status 1, and {} {problem} ({fields:?})", shown(&path)));
        }
    }
    wrong
}

/// What need not be said of a file whose data is right.
fn is_accepted_failure(
    set: &Set,
    fault: &Fault,
    expected: &Snapshot,
    path: &[u8],
    fields: &[&str],
    stderr: &str,
) -> bool {
    // Where several threads copy, the call may have failed in more than one of them.
    if names_an_attribute(fault, stderr) || is_accepted_success(set, fault, fields) {
        return true;
    }
    // The number of names of a file whose other name is missing, which is said there.
    let group = expected.get(path).map(|item| &item.first_name);
    let others = expected.iter().filter(|(_, item)| Some(&item.first_name) == group);
    fields == ["links"] && others.into_iter().any(|(other, _)| is_known(stderr, other))
}

/// Messages about one attribute name that and not the file, as those of cp do.
fn names_an_attribute(fault: &Fault, stderr: &str) -> bool {
    fault.name.contains("xattr") && stderr.contains("attribute '")
}

/// Paths in which two trees differ, with the fields; "all" if one has nothing there.
fn differences(left: &Snapshot, right: &Snapshot) -> Vec<(Vec<u8>, Vec<&'static str>)> {
    let mut found = Vec::new();
    for (path, item) in left {
        let fields = right.get(path).map_or(vec!["all"], |other| differing(item, other));
        if !fields.is_empty() {
            found.push((path.clone(), fields));
        }
    }
    found.extend(right.keys().filter(|path| !left.contains_key(*path)).map(|path| (path.clone(), vec!["all"])));
    found
}

fn differing(left: &Item, right: &Item) -> Vec<&'static str> {
    let fields = [
        ("kind", (left.kind, left.device) != (right.kind, right.device)),
        ("contents", (left.size, &left.contents) != (right.size, &right.contents)),
        ("mode", left.mode != right.mode),
        ("owner", (left.uid, left.gid) != (right.uid, right.gid)),
        ("mtime", left.mtime != right.mtime),
        ("xattr", left.xattrs != right.xattrs),
        ("links", (left.links, &left.first_name) != (right.links, &right.first_name)),
    ];
    fields.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
}

/// Whether a message names this file on one side.
fn is_said(stderr: &str, side: &str, path: &[u8]) -> bool {
    stderr.contains(&format!("'{}'", on(side, path)))
}

/// Whether a message names this file, on either side, or says of a directory that it is in more than that it has not its
/// attributes. For a backup, the file that it is of.
fn is_known(stderr: &str, path: &[u8]) -> bool {
    let text = path.escape_ascii().to_string();
    let file = text.split(".~").next().unwrap_or(&text).as_bytes();
    let of_attributes = |line: &&str| line.contains("preserv") || line.contains("attribute");
    let of_contents: String = stderr.lines().filter(|line| !of_attributes(line)).collect();
    let either = |text: &str, path: &[u8]| is_said(text, SOURCE, path) || is_said(text, DEST, path);
    let above = (0..file.len()).filter(|end| *end == 0 || file[*end] == b'/');
    either(stderr, file) || above.into_iter().any(|end| either(&of_contents, &file[..end]))
}

fn is_said_to_be_incomplete(stderr: &str, path: &[u8]) -> bool {
    let name = format!("'{}'", on(DEST, path));
    stderr.lines().any(|line| line.contains(&name) && line.contains("incomplete"))
}

fn shown(path: &[u8]) -> String {
    on(DEST, path)
}

fn on(side: &str, path: &[u8]) -> String {
    if path.is_empty() { side.to_owned() } else { format!("{side}/{}", path.escape_ascii()) }
}
