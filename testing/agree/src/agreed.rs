//! Where haul differs from the system's cp on purpose, each with its reason. Everything else is a failure.
//! docs/compatibility.md has the differences from cp 9.10 for users.
//!
//! haul does what cp 9.10 does; these tests have the cp of Debian 12, which is 9.1. What changed in between is agreed
//! here, too: who declines a question gets exit status 1 (9.2), a backup makes way for a directory (9.6), and a few words.
//!
//! More faults of cp 9.1 never get here, because the generator does not ask for them: `--backup=simple` puts the backup
//! of `d/f` into the working directory; `--parents -p /a/b d` looks for the attributes of `a`, not `/a`; backups of
//! names of 254 bytes lose a byte. Options that newer versions gave another meaning are not asked for either.

use crate::difference::Difference;
use crate::snapshot::{Item, Snapshot, Stamp};
use crate::stage::{Call, Outcome};

/// What may be left out of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Nothing.
    Everything,
    /// All but the exit status and losses.
    StatusAndLosses,
    /// All but losses.
    Losses,
}

fn said(outcome: &Outcome, words: &str) -> bool {
    String::from_utf8_lossy(&outcome.stderr).contains(words)
}

fn has(call: &Call, long: &str) -> bool {
    call.argv.iter().any(|word| word.starts_with(long.as_bytes()))
}

/// Whether the message names one and the same path twice.
fn to_itself(outcome: &Outcome) -> bool {
    String::from_utf8_lossy(&outcome.stderr).lines().any(|line| {
        let names = line.strip_prefix("cp: ").and_then(|line| line.strip_suffix(" are the same file"));
        names.and_then(|names| names.split_once(" and ")).is_some_and(|(left, right)| left == right)
    })
}

fn backs_up(call: &Call) -> bool {
    let short =
        |word: &[u8]| word.starts_with(b"-") && !word.starts_with(b"--") && word.iter().any(|c| b"bS".contains(c));
    has(call, "--backup") || has(call, "--suffix") || call.argv.iter().any(|word| short(word))
}

/// How much of the comparison means anything.
pub(crate) fn weight(call: &Call, reference: &Outcome, tested: &Outcome) -> Weight {
    if said(reference, "into itself") || said(tested, "into itself") {
        // haul makes nothing. How far cp came before it met itself, or something else, depends on the order of the directory.
        return Weight::StatusAndLosses;
    }
    if has(call, "--par") && said(reference, "cannot create") && said(reference, "File exists") {
        // cp takes every later operand's destination for new once it has made a parent directory.
        return Weight::Losses;
    }
    if has(call, "--par") && said(reference, "cannot create directory") && said(tested, "cannot stat") {
        // The same, where haul looks first.
        return Weight::StatusAndLosses;
    }
    if said(reference, "cannot overwrite non-directory") && backs_up(call) {
        // With a backup of what stands there, the directory is copied.
        return Weight::Losses;
    }
    if said(reference, "for reading: No such file or directory") {
        // cp removed or renamed a destination through which the source was reached, and then missed the source.
        return Weight::Losses;
    }
    if to_itself(tested) && !said(reference, "are the same file") {
        // cp does not know a name again when its directory is reached through a link, and replaces the link by itself.
        return Weight::Losses;
    }
    if said(tested, "are the same file") && reference.stderr != tested.stderr && backs_up(call) {
        // The same, and cp found another name to link or copy from, or noticed only further down.
        return Weight::Losses;
    }
    let loses_permissions = || {
        let said = String::from_utf8_lossy(&reference.stderr);
        said.lines().any(|line| line.contains("preserving permissions for") && line.ends_with("/.': Permission denied"))
    };
    let loses_owner = said(reference, "/.': Permission denied") && said(reference, "failed to preserve ownership");
    if loses_owner || loses_permissions() {
        // cp takes away its own right to enter `d` and then asks for `d/.`.
        return Weight::StatusAndLosses;
    }
    Weight::Everything
}

/// Standard error in the words of cp 9.1, without what haul says more than cp.
pub fn messages(outcome: &Outcome) -> Vec<u8> {
    let more = |line: &&[u8]| line.ends_with(b"' was removed and could not be replaced");
    let lines = outcome.stderr.split(|&byte| byte == b'\n').filter(|line| !more(line));
    lines.map(in_older_words).collect::<Vec<_>>().join(&b'\n')
}

/// A message of cp 9.10 as cp 9.1 has it.
fn in_older_words(line: &[u8]) -> &[u8] {
    const DIRECTORY: &[u8] = b" with non-directory";
    if line.ends_with(b": --backup is mutually exclusive with -n or --update=none-fail") {
        return b"cp: options --backup and --no-clobber are mutually exclusive";
    }
    match line.windows(DIRECTORY.len() + 1).rposition(|words| words == [DIRECTORY, b" "].concat()) {
        Some(at) if line.starts_with(b"cp: cannot overwrite directory ") => &line[..at + DIRECTORY.len()],
        _ => line,
    }
}

/// Whether the exit statuses differ as those of cp 9.1 and 9.10 do: a file that was not replaced since the user said so
/// was not copied.
pub(crate) fn differs_by_declining(call: &Call, reference: &Outcome, tested: &Outcome) -> bool {
    reference.status == "exit 0" && tested.status == "exit 1" && declines(call, reference)
}

/// Whether an answer to one of the questions was not yes.
fn declines(call: &Call, reference: &Outcome) -> bool {
    let said = String::from_utf8_lossy(&reference.stderr);
    let questions = said.split_inclusive("? ").filter(|text| text.contains("cp: ") && text.ends_with("? ")).count();
    let mut answers = call.stdin.split(|&byte| byte == b'\n');
    let yes = |answer: Option<&[u8]>| answer.is_some_and(|answer| matches!(answer.first(), Some(b'y' | b'Y')));
    (0..questions).any(|_| !yes(answers.next()))
}

/// New files whose data could not be copied: cp leaves a stub, haul removes it.
pub(crate) fn stubs(reference: &Outcome, tested: &Outcome) -> Vec<Vec<u8>> {
    let failures = ["error writing", "error reading", "failed to clone", "error copying", "error deallocating"];
    if !failures.iter().any(|words| said(reference, words)) {
        return Vec::new();
    }
    let stub = |(path, item): &(&Vec<u8>, &Item)| {
        let new = !reference.before.contains_key(*path) || said(reference, "failed to clone") && item.size == 0;
        item.kind == 'f' && !tested.after.contains_key(*path) && new
    };
    reference.after.iter().filter(stub).map(|(path, _)| path.clone()).collect()
}

/// Drops the differences in which cp 9.1 is wrong.
pub(crate) fn drop_agreed(call: &Call, found: &mut Vec<Difference>, reference: &Outcome, tested: &Outcome) {
    let kept: Vec<Vec<u8>> = found.iter().filter(|it| kept(it, reference, tested)).map(|it| it.path.clone()).collect();
    // A mount point that is the destination itself: its time depends on what was put into it before it was looked at.
    let mounts = has(call, "-x") || has(call, "--one-file-system");
    let now = format!("{:?}", Stamp::Now);
    let unfinished = said(reference, "failed to get attributes of");
    found.retain(|difference| {
        if mounts && difference.sort == "mtime-d" && [&difference.reference, &difference.tested].contains(&&now) {
            return false;
        }
        if unfinished && made_for_nothing(difference, reference) {
            return false;
        }
        let parent_of_kept = || kept.iter().any(|path| parent(path) == &difference.path[..]);
        if leaves_set_group(difference, reference) || leaves_special_bits(difference, reference) {
            return false;
        }
        !(kept.contains(&difference.path)
            || difference.sort == "mtime-d" && parent_of_kept()
            || difference.sort == "xattr-d" && attributes_of_the_directory(difference, reference, tested))
    });
}

/// A file that is overwritten changes hands: cp leaves the old set-group-ID bit to the new group, haul takes it away before it
/// writes.
fn leaves_set_group(difference: &Difference, reference: &Outcome) -> bool {
    let mode = |text: &str| u32::from_str_radix(text, 8).unwrap_or_default();
    let owners =
        [&reference.before, &reference.after].map(|tree| tree.get(&difference.path).map(|item| (item.uid, item.gid)));
    difference.sort == "mode-f"
        && mode(&difference.reference) == mode(&difference.tested) | 0o2000
        && matches!(owners, [Some(was), Some(is)] if was != is)
}

/// A file that is overwritten and gets its source's mode: cp leaves it the special bits that the source has not.
fn leaves_special_bits(difference: &Difference, reference: &Outcome) -> bool {
    let mode = |text: &str| u32::from_str_radix(text, 8).unwrap_or_default();
    let (left, gone) = (mode(&difference.reference), mode(&difference.tested));
    let before = reference.before.get(&difference.path).map_or(0, |item| item.mode);
    difference.sort == "mode-f" && left & !gone != 0 && gone & !left == 0 && left & !gone & !(before & 0o7000) == 0
}

fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|&byte| byte == b'/').map_or(b"", |at| &path[..at])
}

/// cp removed or emptied an old file, failed to make the new one and said so; haul kept the old one.
fn kept(difference: &Difference, reference: &Outcome, tested: &Outcome) -> bool {
    let emptied =
        said(reference, "failed to clone") && matches!(&*difference.sort, "contents-f" | "mtime-f" | "xattr-f");
    (difference.sort.starts_with("extra-") || emptied)
        && reference.status == "exit 1"
        && tested.status == "exit 1"
        && tested.before.get(&difference.path).is_some_and(|before| {
            // Being looked at by this judge counts as an access.
            let untouched = |after: &Item| Item { atime: before.atime, ..after.clone() } == *before;
            tested.after.get(&difference.path).is_some_and(untouched)
        })
}

/// Parents that cp made for a source that is not there stay without attributes; haul gives them theirs.
fn made_for_nothing(difference: &Difference, reference: &Outcome) -> bool {
    matches!(&*difference.sort, "mode-d" | "mtime-d" | "atime-d" | "owner-d" | "xattr-d")
        && !reference.before.contains_key(&difference.path)
}

/// When a symbolic link to a directory is followed, cp takes extended attributes from the link, haul from the
/// directory.
fn attributes_of_the_directory(difference: &Difference, reference: &Outcome, tested: &Outcome) -> bool {
    let plain = |item: &Item| {
        let mut list = item.xattrs.clone();
        // ACLs, as everybody and as XFS shows them, are taken from the directory by both.
        list.retain(|name, _| !name.starts_with(b"system.") && !name.starts_with(b"trusted.SGI_ACL"));
        list
    };
    let of = |snapshot: &Snapshot| snapshot.get(&difference.path).map(plain);
    let links = || tested.before.values().filter(|item| item.kind == 'l').map(plain);
    let directories = || tested.before.values().filter(|item| item.kind == 'd').map(plain);
    let (left, right) = (of(&reference.after), of(&tested.after));
    links().any(|list| Some(list) == left) && directories().any(|list| Some(list) == right)
}
