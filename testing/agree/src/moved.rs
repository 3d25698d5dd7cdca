//! Whether a move loses nothing: what stood in a source stands there still, or where it was to go.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::case::Case;
use crate::difference::Difference;
use crate::options::{Words, begins};
use crate::paths::{behind, operands, resolved, within};
use crate::scene::build;
use crate::snapshot::{Item, Snapshot};
use crate::stage::{Call, Outcome, Stage};

/// What else a move may be asked for, by how the words begin.
const OPTIONS: [&str; 24] = [
    "-f",
    "--force",
    "-n",
    "--no-clobber",
    "-u",
    "--update",
    "-v",
    "--verbose",
    "-t",
    "--target-directory=",
    "-T",
    "--no-target-directory",
    "-x",
    "--one-file-system",
    "-i",
    "--interactive",
    "-p",
    "--preserve",
    "--no-preserve",
    "--sparse",
    "--reflink",
    "--remove-destination",
    "--strip-trailing-slashes",
    "--archive",
];

/// What lets a source stay though nothing went wrong.
const LEAVES: [&str; 7] = ["-n", "--no-c", "-u", "--update", "-x", "--one", "-i"];

/// Plays a case as a move; `None` if its paths became too long.
pub(crate) fn judge(
    stage: &Stage,
    case: &Case,
    program: &Path,
    limit: Duration,
) -> io::Result<Option<Vec<Difference>>> {
    let call = call(case, &["--move"]);
    let done = stage.perform(case.place, &|work| build(work, &case.nodes), &call, program, limit)?;
    Ok((!done.too_deep).then(|| differences(&call, &done)))
}

/// The case as a move, with these words before its own.
pub(crate) fn call(case: &Case, first: &[&str]) -> Call {
    let words = case.arguments.iter().filter(|words| is_played(words)).flatten().cloned();
    let first = first.iter().map(|word| word.as_bytes().to_vec());
    let mut call = Call { argv: first.chain(words).collect(), ..Call::of(case) };
    // All words that are no options are operands.
    call.environment.retain(|(name, _)| name != "POSIXLY_CORRECT");
    call
}

fn is_played(words: &Words) -> bool {
    // A value that is a word of its own would be an operand to the judge.
    let is_option = |word: &Vec<u8>| begins(word, &OPTIONS) && (words.len() == 1 || word == b"-t");
    words.first().is_some_and(|word| !word.starts_with(b"-") || word == b"--" || is_option(word))
}

/// One source of a move.
struct Moved {
    /// Where it stood.
    path: Vec<u8>,
    /// Where it may have gone.
    to: Vec<Vec<u8>>,
}

fn differences(call: &Call, done: &Outcome) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut add = |sort: &str, path: &[u8], before: String, after: String| {
        found.push(Difference { sort: sort.to_owned(), path: path.to_vec(), reference: before, tested: after });
    };
    if done.timed_out {
        add("hang", b"", "ended".to_owned(), "was killed after the time limit".to_owned());
        return found;
    }
    let Some((sources, targets)) = sources(call, &done.before) else { return found };
    let whole = done.status == "exit 0" && !call.argv.iter().any(|word| begins(word, &LEAVES));
    let keeps = whole && !call.argv.iter().any(|word| word.starts_with(b"--no-p"));
    let attributes = |item: &Item| {
        // As mv does, who may not give files away keeps what is moved to another filesystem.
        let owner = (call.user == 0).then_some((item.uid, item.gid, item.mode & 0o6000));
        let mut xattrs = item.xattrs.clone();
        // Only root is shown the trusted ones; XFS keeps there what it shows as ACLs, too.
        let hidden: &[u8] = if call.user == 0 { b"trusted.SGI_ACL_" } else { b"trusted." };
        xattrs.retain(|name, _| !name.starts_with(hidden));
        (owner, item.mode & 0o1777, item.mtime, xattrs)
    };
    for (path, before) in &done.before {
        let of = || sources.iter().filter(|moved| within(path, &moved.path));
        if of().next().is_none() {
            let outside = !targets.iter().any(|target| within(path, target));
            if outside && done.after.get(path).map(essence) != Some(essence(before)) {
                add("touched", path, format!("{before:?}"), format!("{:?}", done.after.get(path)));
            }
            continue;
        }
        if whole && done.after.contains_key(path) {
            add("stays", path, "gone".to_owned(), format!("{:?}", done.after.get(path)));
        }
        let goals = of().flat_map(|moved| moved.to.iter().map(|to| [to, &path[moved.path.len()..]].concat()));
        let there = goals.filter_map(|goal| done.after.get(&goal)).filter(|after| essence(after) == essence(before));
        // By chance there may be such a one in both places.
        let arrived = there.max_by_key(|after| attributes(after) == attributes(before));
        let stands = done.after.get(path).filter(|after| essence(after) == essence(before));
        match arrived {
            None if stands.is_none() => add("lost", path, format!("{before:?}"), "nowhere".to_owned()),
            Some(after) if keeps && before.kind != 'd' && attributes(after) != attributes(before) => {
                add("not-kept", path, format!("{before:?}"), format!("{after:?}"));
            }
            _ => {}
        }
    }
    found
}

/// What makes an entry what it is.
fn essence(item: &Item) -> (char, u64, &[u8], u64) {
    (item.kind, item.size, &item.contents, item.device)
}

/// Sources, each with where it may have gone, and what stands where they go; none if one may be in the other, or if something
/// may go where another source stands.
fn sources(call: &Call, before: &Snapshot) -> Option<(Vec<Moved>, Vec<Vec<u8>>)> {
    let (operands, target) = operands(call);
    let named = resolved(target?, before)?;
    let led = before.get(&named).filter(|item| item.kind == 'l').and_then(|link| behind(&named, link, before));
    let targets: Vec<Vec<u8>> = [Some(named), led].into_iter().flatten().collect();
    let mut sources = Vec::new();
    for operand in operands {
        let Some(path) = resolved(operand, before) else { continue };
        if targets.iter().any(|target| within(target, &path) || within(&path, target)) {
            return None;
        }
        if !before.contains_key(&path) {
            continue;
        }
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let to = targets.iter().flat_map(|target| [target.clone(), [target, &b"/"[..], name].concat()]).collect();
        sources.push(Moved { path, to });
    }
    Some((sources, targets))
}
