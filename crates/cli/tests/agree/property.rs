//! Random scenes and random options.

use std::env;
use std::fs;

use haul_agree::hunt::{Failure, Hunt, Promise, hunt};
use haul_agree::report::report;

use crate::support::{haul_as_cp, haul_as_cp_with, lacks_root, number, reference, room};

/// Most scenes and options that a person could think of, and many that nobody would.
#[test]
fn random_scenes_and_options_give_the_same_as_cp() {
    if lacks_root("random scenes") {
        return;
    }
    let room = room();
    let seed = number("HAUL_AGREE_SEED", 1);
    let default = if env::var_os("HAUL_AGREE_SEED").is_some() { 1 } else { 1500 };
    let plan = Hunt {
        promise: Promise::LikeReference,
        reference: reference(),
        tested: match env::var("HAUL_AGREE_WITH") {
            Ok(option) => haul_as_cp_with(room.path(), &option),
            Err(_) => haul_as_cp(room.path()),
        },
        in_order: Some(haul_as_cp_with(room.path(), "--jobs=1")),
        cases: number("HAUL_AGREE_CASES", default),
        seed,
        failures: number("HAUL_AGREE_FAILURES", 5) as usize,
        shrink: env::var_os("HAUL_AGREE_NO_SHRINK").is_none(),
    };
    let bag = hunt(&plan, room.path()).expect("the judge can work");
    let text: String = bag.failures.iter().map(report).collect();
    if let Some(path) = env::var_os("HAUL_AGREE_REPORT") {
        fs::write(path, &text).expect("the report can be written");
    }
    println!(
        "seeds {seed}..{}: {} compared, {} left out because cp waited, {} by the order of threads, {} failed",
        seed + plan.cases,
        bag.compared,
        bag.left_out,
        bag.by_order,
        bag.failed
    );
    assert!(bag.failures.is_empty(), "{} cases of {} failed:\n{text}", bag.failed, bag.compared);
    assert!(bag.left_out * 20 <= bag.compared + 20, "{} cases left out: too many", bag.left_out);
}

/// What is replaced by a rename has a directory that changes, and keeps its other names; what cp removes or opens first, and
/// cannot, is reported in other words; and what comes as a stream cannot be verified.
fn comes_of_renaming(failure: &Failure) -> bool {
    let streams = failure.differences.iter().any(|difference| difference.tested.contains("a second time"));
    let loses_links = failure.differences.iter().any(|difference| difference.sort.starts_with("links"));
    loses_links
        || streams
        || failure.differences.iter().all(|difference| match difference.sort.as_str() {
            "mtime-d" => true,
            "stderr" | "stdout" => difference.reference.contains("cannot") || difference.tested.contains("cannot"),
            _ => false,
        })
}

#[test]
fn random_copies_that_replace_in_one_step_are_those_of_cp() {
    if lacks_root("random scenes") {
        return;
    }
    for option in ["--atomic", "--durable=file", "--verify"] {
        let room = room();
        let plan = Hunt {
            promise: Promise::LikeReference,
            reference: reference(),
            tested: haul_as_cp_with(room.path(), option),
            in_order: None,
            cases: number("HAUL_AGREE_STAGED_CASES", 150),
            seed: number("HAUL_AGREE_SEED", 1),
            failures: 1000,
            shrink: false,
        };
        let bag = hunt(&plan, room.path()).expect("the judge can work");
        let wrong: Vec<_> = bag.failures.iter().filter(|failure| !comes_of_renaming(failure)).collect();
        let text: String = wrong.iter().map(|failure| report(failure)).collect();
        println!("{option}: {} compared, {} failed, {} not by renaming", bag.compared, bag.failed, wrong.len());
        assert!(wrong.is_empty(), "{option}: {text}");
    }
}

/// Plays random scenes by one of haul's own promises, which has to hold in all of them.
fn keeps(promise: Promise, cases: u64) {
    let room = room();
    let plan = Hunt {
        promise,
        reference: reference(),
        tested: haul_as_cp(room.path()),
        in_order: None,
        cases,
        seed: number("HAUL_AGREE_SEED", 1),
        failures: number("HAUL_AGREE_FAILURES", 5) as usize,
        shrink: env::var_os("HAUL_AGREE_NO_SHRINK").is_none(),
    };
    let bag = hunt(&plan, room.path()).expect("the judge can work");
    let text: String = bag.failures.iter().map(report).collect();
    println!("{} compared, {} left out, {} failed", bag.compared, bag.left_out, bag.failed);
    assert!(bag.failures.is_empty(), "{} cases of {} failed:\n{text}", bag.failed, bag.compared);
    assert!(bag.left_out * 20 <= bag.compared + 20, "{} cases left out: too many", bag.left_out);
}

#[test]
fn a_random_copy_does_what_its_dry_run_has_said() {
    if !lacks_root("random scenes") {
        keeps(Promise::AsForetold, number("HAUL_AGREE_DRY_CASES", 400));
    }
}

#[test]
fn a_random_move_loses_nothing() {
    if !lacks_root("random scenes") {
        keeps(Promise::Moves, number("HAUL_AGREE_MOVES", 400));
    }
}
