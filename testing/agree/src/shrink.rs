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
    let mut result = case.clone();
    simplifications(case).nth(index)?(&mut result);
    Some((result != *case).then_some(result))
}

type Simplification = Box<dyn Fn(&mut Case)>;

fn simplifications(case: &Case) -> impl Iterator<Item = Simplification> {
    fn each(
        indices: impl Iterator<Item = usize>,
        change: fn(&mut Case, usize),
    ) -> impl Iterator<Item = Simplification> {
        indices.map(move |at| -> Simplification { Box::new(move |case| change(case, at)) })
    }
    let nodes = || 0..case.nodes.len();
    // From the end: children go before their parents, links before what they name.
    let without_node = each(nodes().rev(), |case, at| {
        let gone = case.nodes.remove(at);
        let prefix = [&gone.path[..], b"/"].concat();
        case.nodes.retain(|node| !node.path.starts_with(&prefix));
    });
    let without_argument = each(0..case.arguments.len(), |case, at| drop(case.arguments.remove(at)));
    let in_locale_c = each(0..case.environment.len(), |case, at| {
        case.environment[at] = ("LC_ALL".to_owned(), "C".to_owned());
    });
    let quiet_node = each(nodes(), |case, at| case.nodes[at] = quiet(&case.nodes[at]));
    let simpler_kind = each(nodes(), |case, at| {
        if let Some(kind) = simpler(&case.nodes[at].kind) {
            case.nodes[at].kind = kind;
        }
    });
    let rest: [fn(&mut Case); 5] = [
        |case| case.umask = 0o022,
        |case| case.unprivileged = false,
        |case| case.place = Place::Memory,
        |case| {
            if case.place != Place::Memory {
                case.place = Place::Disk;
            }
        },
        |case| case.stdin.clear(),
    ];
    let rest = rest.into_iter().map(|change| -> Simplification { Box::new(change) });
    without_node.chain(without_argument).chain(in_locale_c).chain(quiet_node).chain(simpler_kind).chain(rest)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_shrinks_to_what_makes_it_fail() {
        for seed in 0..20 {
            let case = Case::random(seed);
            let wanted = case.nodes[0].path.clone();
            let fails = |case: &Case| case.nodes.iter().any(|node| node.path == wanted).then(Vec::new);
            let small = shrink(case, Vec::new(), fails).0;
            assert_eq!((small.nodes.len(), small.arguments.len(), small.stdin.len()), (1, 0, 0), "seed {seed}");
            assert_eq!(small.nodes[0], quiet(&small.nodes[0]), "seed {seed}");
            assert_eq!((small.umask, small.unprivileged, small.place), (0o022, false, Place::Memory), "seed {seed}");
        }
    }
}
