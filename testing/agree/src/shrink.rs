//! Makes a failing case smaller while it still fails.

use crate::case::{Case, Place};
use crate::difference::Difference;
use crate::scene::{Contents, Kind, Node, Run};

/// Attempts at most; each plays the case twice.
const ATTEMPTS: usize = 600;

/// Tries smaller and smaller cases. `fails` gives the differences when a case still fails in the same way.
pub fn shrink(
    case: Case,
    differences: Vec<Difference>,
    fails: impl Fn(&Case) -> Option<Vec<Difference>>,
) -> (Case, Vec<Difference>) {
    let mut best = (case, differences);
    let mut attempts = 0;
    loop {
        let mut progress = false;
        // Large steps first; a step that worked changes the list, so the index stays.
        let mut index = 0;
        while let Some(candidate) = smaller(&best.0, index) {
            attempts += 1;
            if attempts > ATTEMPTS {
                return best;
            }
            match candidate.and_then(|case| fails(&case).map(|differences| (case, differences))) {
                Some(better) => {
                    best = better;
                    progress = true;
                }
                None => index += 1,
            }
        }
        if !progress {
            return best;
        }
    }
}

/// The `index`th simplification: `None` when there are no more, `Some(None)` when this one changes nothing.
fn smaller(case: &Case, index: usize) -> Option<Option<Case>> {
    let nodes = case.nodes.len();
    let arguments = case.arguments.len();
    let environment = case.environment.len();
    let mut result = case.clone();
    let changed = if index < nodes {
        // From the end: children go before their parents, links before what they name.
        let gone = result.nodes.remove(nodes - 1 - index);
        let prefix = [&gone.path[..], b"/"].concat();
        result.nodes.retain(|node| !node.path.starts_with(&prefix));
        true
    } else if index < nodes + arguments {
        result.arguments.remove(index - nodes);
        true
    } else if index < nodes + arguments + environment {
        let at = index - nodes - arguments;
        let quiet = result.environment[at] == ("LC_ALL".to_owned(), "C".to_owned());
        result.environment[at] = ("LC_ALL".to_owned(), "C".to_owned());
        !quiet
    } else if index < nodes * 2 + arguments + environment {
        let at = index - nodes - arguments - environment;
        result.nodes[at] = quiet(&case.nodes[at]);
        result.nodes[at] != case.nodes[at]
    } else if index < nodes * 3 + arguments + environment {
        let at = index - nodes * 2 - arguments - environment;
        match simpler(&case.nodes[at].kind) {
            Some(kind) => {
                result.nodes[at].kind = kind;
                true
            }
            None => false,
        }
    } else {
        match index - nodes * 3 - arguments - environment {
            0 => {
                result.umask = 0o022;
                case.umask != 0o022
            }
            1 => {
                result.unprivileged = false;
                case.unprivileged
            }
            2 => {
                result.place = Place::Memory;
                case.place != Place::Memory
            }
            3 => {
                result.place = Place::Disk;
                case.place != Place::Disk && case.place != Place::Memory
            }
            4 => {
                result.stdin.clear();
                !case.stdin.is_empty()
            }
            _ => return None,
        }
    };
    Some(changed.then_some(result))
}

/// The same node with quiet metadata.
fn quiet(node: &Node) -> Node {
    Node { owner: node.owner, ..Node::new(&node.path, node.kind.clone()) }
}

fn simpler(kind: &Kind) -> Option<Kind> {
    let plain = Contents { size: 1, runs: vec![Run { offset: 0, length: 1, zeros: false }], ..Contents::default() };
    match kind {
        Kind::File(contents) if *contents != plain => Some(Kind::File(plain)),
        Kind::HardLink(_) | Kind::Fifo | Kind::Socket | Kind::Character(..) | Kind::Block(..) => {
            Some(Kind::File(plain))
        }
        Kind::MountPoint => Some(Kind::Directory),
        _ => None,
    }
}
