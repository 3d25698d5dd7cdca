//! What differs between two outcomes, and which differences are agreed.

use std::collections::BTreeMap;

pub use crate::difference::Difference;

use crate::agreed::{Weight, differs_by_declining, drop_agreed, messages, stubs, weight};
use crate::snapshot::{Item, Snapshot};
use crate::stage::{Call, Outcome};

/// Compares what the reference did with what the program under test did.
pub fn compare(call: &Call, reference: &Outcome, tested: &Outcome) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut add = |sort: &str, path: &[u8], left: String, right: String| {
        let known = found.iter().any(|other: &Difference| other.sort == sort && other.path == path);
        if left != right && !known {
            found.push(Difference { sort: sort.to_owned(), path: path.to_vec(), reference: left, tested: right });
        }
    };
    if tested.timed_out {
        add("hang", b"", "ended".to_owned(), "was killed after the time limit".to_owned());
        return found;
    }
    if tested.too_deep {
        add("too-deep", b"", "ended".to_owned(), "made paths that are too long".to_owned());
        return found;
    }
    let weight = weight(call, reference, tested);
    if weight != Weight::Losses && !differs_by_declining(call, reference, tested) {
        add("exit", b"", reference.status.clone(), tested.status.clone());
    }
    if weight != Weight::Everything {
        losses(reference, tested, &mut add);
        return found;
    }
    if !same_lines(&messages(reference), &messages(tested)) {
        add("stderr", b"", text(&reference.stderr), text(&tested.stderr));
    }
    if !same_lines(&reference.stdout, &tested.stdout) {
        add("stdout", b"", text(&reference.stdout), text(&tested.stdout));
    }
    files(reference, tested, &mut add);
    drop_agreed(call, &mut found, reference, tested);
    found
}

/// Compares the scenes file by file.
fn files(reference: &Outcome, tested: &Outcome, add: &mut impl FnMut(&str, &[u8], String, String)) {
    let stubs = stubs(reference, tested);
    for (path, left) in &reference.after {
        match tested.after.get(path) {
            Some(right) => items(path, left, right, reference, &stubs, add),
            None if stubs.contains(path) => {}
            None => add(&format!("missing-{}", left.kind), path, describe(left), "nothing".to_owned()),
        }
    }
    for (path, right) in &tested.after {
        if !reference.after.contains_key(path) {
            add(&format!("extra-{}", right.kind), path, "nothing".to_owned(), describe(right));
        }
    }
}

/// Where the result depends on the order: nothing that was there, and is there after cp, may be gone.
fn losses(reference: &Outcome, tested: &Outcome, add: &mut impl FnMut(&str, &[u8], String, String)) {
    let lost = |path: &&Vec<u8>| reference.after.contains_key(*path) && !tested.after.contains_key(*path);
    for path in tested.before.keys().filter(lost) {
        add("lost", path, "is there".to_owned(), "nothing".to_owned());
    }
}

/// Equal, or equal but for the order: two copiers may list a directory in different orders.
fn same_lines(left: &[u8], right: &[u8]) -> bool {
    left == right || {
        let sorted = |bytes: &[u8]| {
            // A question has no line end.
            let bytes = String::from_utf8_lossy(bytes).replace("? cp: ", "?\ncp: ");
            let mut lines: Vec<String> = bytes.split('\n').map(str::to_owned).collect();
            lines.sort();
            lines
        };
        sorted(left) == sorted(right)
    }
}

fn items(
    path: &[u8],
    left: &Item,
    right: &Item,
    reference: &Outcome,
    stubs: &[Vec<u8>],
    add: &mut impl FnMut(&str, &[u8], String, String),
) {
    let kind = left.kind;
    if kind != right.kind {
        add("type", path, describe(left), describe(right));
        return;
    }
    let mut field = |name: &str, left: String, right: String| add(&format!("{name}-{kind}"), path, left, right);
    field(
        "contents",
        format!("{} bytes, {}", left.size, digest(left)),
        format!("{} bytes, {}", right.size, digest(right)),
    );
    field("mode", format!("{:o}", left.mode), format!("{:o}", right.mode));
    field("owner", format!("{}:{}", left.uid, left.gid), format!("{}:{}", right.uid, right.gid));
    field("device", format!("{:x}", left.device), format!("{:x}", right.device));
    field("mtime", format!("{:?}", left.mtime), format!("{:?}", right.mtime));
    if !reference.before.contains_key(path) {
        field("atime", format!("{:?}", left.atime), format!("{:?}", right.atime));
    }
    if stubs.is_empty() {
        field("links", format!("{} {}", left.links, left.first_name.escape_ascii()), {
            format!("{} {}", right.links, right.first_name.escape_ascii())
        });
    }
    field("xattr", attributes(&left.xattrs), attributes(&right.xattrs));
    if let Some(problem) = blocks(reference, left, right) {
        field("blocks", left.blocks.to_string(), format!("{} ({problem})", right.blocks));
    }
}

/// Allocation must be no larger than the reference's, or than the source's, where that has holes, and be whole for
/// `--sparse=never`.
fn blocks(reference: &Outcome, left: &Item, right: &Item) -> Option<&'static str> {
    /// Blocks that hold the extent list count too, and depend on the order of writing.
    const SLACK: u64 = 16;
    let whole = |item: &Item| item.blocks * 512 >= item.size;
    let source = || reference.before.values().filter(|item| item.contents == left.contents).map(|item| item.blocks);
    if left.kind != 'f' {
        None
    } else if reference.fills_holes && whole(left) && !whole(right) {
        Some("holes despite --sparse=never")
    } else if !reference.fills_holes
        && !whole(left)
        && right.blocks > left.blocks.max(source().max().unwrap_or(0)) + SLACK
    {
        Some("larger than cp's and the source")
    } else {
        None
    }
}

fn digest(item: &Item) -> String {
    match item.kind {
        'f' => item.contents.iter().map(|byte| format!("{byte:02x}")).collect(),
        _ => item.contents.escape_ascii().to_string(),
    }
}

fn attributes(list: &BTreeMap<Vec<u8>, Vec<u8>>) -> String {
    let show = |(name, value): (&Vec<u8>, &Vec<u8>)| format!("{}={}", name.escape_ascii(), value.escape_ascii());
    list.iter().map(show).collect::<Vec<_>>().join(" ")
}

fn describe(item: &Item) -> String {
    let Item { kind, mode, uid, gid, size, links, mtime, .. } = item;
    format!("{kind} {mode:o} {uid}:{gid} {size} bytes {links} links {mtime:?} {}", digest(item))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The scene after a run, for a reader.
pub fn listing(snapshot: &Snapshot) -> String {
    snapshot.iter().map(|(path, item)| format!("{} {}\n", path.escape_ascii(), describe(item))).collect()
}
