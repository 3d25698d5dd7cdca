//! Random scenes and random options.

use std::env;
use std::fs;

use haul_agree::hunt::{Hunt, hunt};
use haul_agree::report::report;

use crate::support::{REFERENCE, haul_as_cp, lacks_root, number, room};

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
        reference: REFERENCE.into(),
        tested: haul_as_cp(room.path()),
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
        "seeds {seed}..{}: {} compared, {} left out because cp waited, {} failed",
        seed + plan.cases,
        bag.compared,
        bag.left_out,
        bag.failed
    );
    assert!(bag.failures.is_empty(), "{} cases of {} failed:\n{text}", bag.failed, bag.compared);
    assert!(bag.left_out * 20 <= bag.compared + 20, "{} cases left out: too many", bag.left_out);
}
