//! What must be true after a run, whatever went wrong.

use crate::Ran;
use crate::scene::{Item, ODD, Scene, Tree};

/// What is wrong with what a run has left. The faults are taken away first.
pub fn judge(scene: &Scene<'_>, ran: &Ran, options: &str) -> Vec<String> {
    scene.fs.behave();
    let mut wrong = Vec::new();
    let (seen, known) = (scene.look("copy"), scene.know("copy"));
    for (path, item) in &known {
        // The page cache may still have what was said to be lost.
        let lost = path == ODD && !ran.status.success();
        if seen.get(path) != Some(item) && !lost {
            wrong.push(format!("{path} is read as something that it is not"));
        }
    }
    if scene.look("tree") != scene.truth {
        wrong.push("the source has changed".to_owned());
    }
    let mutations = scene.fs.mutations("tree");
    if !mutations.is_empty() {
        wrong.push(format!("the source was written to: {mutations:?}"));
    }
    for path in seen.keys().filter(|path| path.contains(".haul-") && !path.contains(".haul-mismatch")) {
        wrong.push(format!("{path} is left"));
    }
    for (path, item) in &scene.truth {
        let copy = seen.get(path);
        if copy == Some(item) {
            continue;
        }
        match ran.status.code() {
            Some(0) => wrong.push(format!("exit status 0, but {path} is {}", shown(copy))),
            Some(1) if path != ODD => wrong.push(format!("{path}, with which nothing is wrong, is {}", shown(copy))),
            Some(1) => wrong.extend(judge_odd(scene, ran, options, copy)),
            _ => {}
        }
    }
    match ran.status.code() {
        Some(0) => {}
        Some(1) if ran.said.is_empty() => wrong.push("exit status 1, and nothing is said".to_owned()),
        Some(1) => {}
        _ => wrong.push(format!("it ended with {}", ran.status)),
    }
    wrong.extend(strangers(scene, &seen));
    wrong
}

/// The file that faults are about is not what it should be, and the run says that something failed.
fn judge_odd(scene: &Scene<'_>, ran: &Ran, options: &str, copy: Option<&Item>) -> Option<String> {
    // Or the directory that it is in.
    let names = ["tree", "copy"].map(|tree| [ODD, "odd"].map(|path| format!("'{}/{path}'", scene.name(tree))));
    let named = names.iter().flatten().any(|name| ran.said.contains(name));
    let old = scene.old.get(ODD);
    let whole_or_old =
        options.contains("--atomic") || options.contains("--durable=file") || options.contains("--verify");
    match copy {
        _ if !named => Some(format!("{ODD} is {}, and is not named", shown(copy))),
        _ if copy == old => None,
        // Of an old file the stub stays, and the message says so.
        Some(_) if old.is_some() && !whole_or_old && ran.said.contains("incomplete") => None,
        None if old.is_some() && !whole_or_old => None,
        _ => Some(format!("{ODD} is {}, and was {}", shown(copy), shown(old))),
    }
}

/// What stands at the destination and was in neither tree.
fn strangers(scene: &Scene<'_>, seen: &Tree) -> Vec<String> {
    let known =
        |path: &&String| scene.truth.contains_key(*path) || scene.old.contains_key(*path) || path.contains(".haul-");
    seen.keys().filter(|path| !known(path)).map(|path| format!("{path} comes from nowhere")).collect()
}

fn shown(item: Option<&Item>) -> String {
    match item {
        None => "absent".to_owned(),
        Some(Item::File(bytes)) => format!("a file of {} bytes", bytes.len()),
        Some(other) => format!("{other:?}"),
    }
}
