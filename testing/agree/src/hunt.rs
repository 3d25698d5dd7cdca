//! Plays many cases and reports the smallest form of each failure.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::case::Case;
use crate::compare::compare;
use crate::difference::Difference;
use crate::foretold;
use crate::moved;
use crate::scene::Kind;
use crate::shrink::shrink;
use crate::stage::{Call, Stage};

/// How long the reference may take; a case that takes longer waits for something and is left out.
const REFERENCE_LIMIT: Duration = Duration::from_secs(2);
/// How long the program under test may take.
const TESTED_LIMIT: Duration = Duration::from_secs(10);

/// What the copier under test has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// What the reference does.
    LikeReference,
    /// What it has said itself, in a dry run.
    AsForetold,
    /// To move, and to lose nothing.
    Moves,
}

/// What to play.
#[derive(Debug, Clone)]
pub struct Hunt {
    /// What is asked of it.
    pub promise: Promise,
    /// The copier that is right by definition.
    pub reference: PathBuf,
    /// The copier under test.
    pub tested: PathBuf,
    /// The same with one thread, which takes names in the order of the reference.
    pub in_order: Option<PathBuf>,
    /// Cases to play.
    pub cases: u64,
    /// Seed of the first case; the others follow.
    pub seed: u64,
    /// Different failures to look for before giving up.
    pub failures: usize,
    /// Seek the smallest case for each failure.
    pub shrink: bool,
}

/// A failing case in its smallest form.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The case.
    pub case: Case,
    /// What differs.
    pub differences: Vec<Difference>,
    /// How many of the played cases failed in the same way.
    pub count: u64,
}

/// What a hunt found.
#[derive(Debug, Default)]
pub struct Bag {
    /// Cases in which both copiers could be compared.
    pub compared: u64,
    /// Cases left out because the reference waited for something.
    pub left_out: u64,
    /// Cases that differ by which of several names of one file was met first, and do not with one thread.
    pub by_order: u64,
    /// Cases that failed.
    pub failed: u64,
    /// One of each sort.
    pub failures: Vec<Failure>,
}

/// Plays one case with both programs; `None` when the reference did not end.
pub fn judge(stage: &Stage, case: &Case, hunt: &Hunt) -> io::Result<Option<Vec<Difference>>> {
    match hunt.promise {
        Promise::AsForetold => return foretold::judge(stage, case, &hunt.tested, TESTED_LIMIT),
        Promise::Moves => return moved::judge(stage, case, &hunt.tested, TESTED_LIMIT),
        Promise::LikeReference => {}
    }
    let mut attempts = 0;
    loop {
        let reference = stage.play(case, &hunt.reference, REFERENCE_LIMIT)?;
        if reference.timed_out || reference.too_deep {
            return Ok(None);
        }
        let tested = stage.play(case, &hunt.tested, TESTED_LIMIT)?;
        let found = compare(&Call::of(case), &reference, &tested);
        attempts += 1;
        // ext4 gives the number of a deleted file to a new one after a minute, so the same scene may be built with
        // numbers in another order, and what is said in that order differs with right.
        if found.is_empty() || reference.order == tested.order || attempts == ATTEMPTS {
            return Ok(Some(found));
        }
    }
}

/// Whether the differences are of which of several names of one file was met first: it is what a symbolic link leads to, and
/// the other ones become links to it, also from a directory that is finished. Threads have no order.
fn comes_of_order(stage: &Stage, case: &Case, hunt: &Hunt, differences: &[Difference]) -> io::Result<bool> {
    let Some(in_order) = &hunt.in_order else { return Ok(false) };
    let several_names = case.nodes.iter().any(|node| matches!(node.kind, Kind::HardLink(_)));
    let sorts = |difference: &Difference| match difference.sort.as_str() {
        "contents-l" => true,
        "stderr" => difference.tested.contains("cannot create hard link"),
        sort => sort.starts_with("missing-") || sort.starts_with("links-"),
    };
    if !several_names || !differences.iter().all(sorts) {
        return Ok(false);
    }
    let hunt = Hunt { tested: in_order.clone(), ..hunt.clone() };
    Ok(judge(stage, case, &hunt)?.is_some_and(|differences| differences.is_empty()))
}

/// So often a case is played whose two scenes are not in one order.
const ATTEMPTS: usize = 20;

/// Failures with equal signatures are taken for the same bug.
fn signature(differences: &[Difference]) -> String {
    let mut sorts: Vec<&str> = differences.iter().map(|difference| difference.sort.as_str()).collect();
    sorts.sort_unstable();
    sorts.dedup();
    sorts.join(" ")
}

/// Plays the cases on a thread per processor, below `home`. Needs root.
pub fn hunt(hunt: &Hunt, home: &Path) -> io::Result<Bag> {
    let threads = thread::available_parallelism()?.get();
    let next = AtomicU64::new(0);
    let enough = AtomicBool::new(false);
    let bag = Mutex::new((Bag::default(), BTreeMap::<String, Failure>::new()));
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|index| {
                let home = home.join(format!("thread{index}"));
                let (next, enough, bag) = (&next, &enough, &bag);
                // Some command lines nest directories as deep as a path can be long.
                let builder = thread::Builder::new().stack_size(256 << 20);
                builder.spawn_scoped(scope, move || work(hunt, &home, next, enough, bag))
            })
            .collect::<io::Result<_>>()?;
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the judge panicked; see above")))
        })
    })?;
    let (mut bag, failures) = bag.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    bag.failures = failures.into_values().collect();
    bag.failures.sort_by_key(|failure| std::cmp::Reverse(failure.count));
    Ok(bag)
}

fn work(
    hunt: &Hunt,
    home: &Path,
    next: &AtomicU64,
    enough: &AtomicBool,
    bag: &Mutex<(Bag, BTreeMap<String, Failure>)>,
) -> io::Result<()> {
    let stage = Stage::new(home, true)?;
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= hunt.cases || enough.load(Ordering::Relaxed) {
            return Ok(());
        }
        let case = Case::random(hunt.seed.wrapping_add(index));
        let trouble = |error: io::Error| io::Error::new(error.kind(), format!("seed {}: {error}", case.seed));
        let verdict = judge(&stage, &case, hunt).map_err(trouble)?;
        let by_order = match &verdict {
            Some(differences) if !differences.is_empty() => {
                comes_of_order(&stage, &case, hunt, differences).map_err(trouble)?
            }
            _ => false,
        };
        let unseen = {
            let mut guard = bag.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let (bag, failures) = &mut *guard;
            let Some(differences) = verdict else {
                bag.left_out += 1;
                continue;
            };
            bag.compared += 1;
            bag.by_order += u64::from(by_order);
            if differences.is_empty() || by_order {
                continue;
            }
            bag.failed += 1;
            match failures.get_mut(&signature(&differences)) {
                Some(failure) => {
                    failure.count += 1;
                    None
                }
                None => {
                    let failure = Failure { case: case.clone(), differences: differences.clone(), count: 1 };
                    failures.insert(signature(&differences), failure);
                    enough.fetch_or(failures.len() >= hunt.failures, Ordering::Relaxed);
                    Some(differences)
                }
            }
        };
        if let Some(differences) = unseen.filter(|_| hunt.shrink) {
            let wanted = signature(&differences);
            let (case, differences) = shrink(case, differences, |case| match judge(&stage, case, hunt) {
                Ok(Some(differences)) if signature(&differences) == wanted => Some(differences),
                _ => None,
            });
            let mut guard = bag.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if let Some(failure) = guard.1.get_mut(&wanted) {
                (failure.case, failure.differences) = (case, differences);
            }
        }
    }
}
