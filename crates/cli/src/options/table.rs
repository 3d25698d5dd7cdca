//! All options of haul.

use super::draft::{Draft, Flag};
use super::{
    attributes, data, destination, existing, extents, images, links, output, safety, shards, source, throttling,
};
use crate::flags::{concat, count};

/// In the order of the documentation within their categories.
const GROUPS: &[&[Flag]] = &[
    source::FLAGS,
    shards::FLAGS,
    destination::FLAGS,
    existing::FLAGS,
    links::FLAGS,
    attributes::FLAGS,
    extents::FLAGS,
    images::FLAGS,
    data::FLAGS,
    throttling::FLAGS,
    safety::FLAGS,
    output::FLAGS,
];

/// Every option.
pub static FLAGS: &[Flag] = &concat::<Draft, { count(GROUPS) }>(GROUPS);

/// The options that are settled first, in this order: of two complaints the user sees the one that GNU cp has, and what one of
/// them settles the next ones know. All others follow in the order of the table.
const SETTLED_FIRST: [&str; 13] = [
    "link",
    "update",
    "reflink",
    "snapshot",
    "backup",
    "dereference",
    "verify",
    "resume",
    "manifest-out",
    "from-manifest",
    "shard",
    "job",
    "context",
];

/// Every option in the order in which they are settled.
pub fn in_order_of_settling() -> impl Iterator<Item = &'static Flag> {
    let is_first = |flag: &&Flag| SETTLED_FIRST.contains(&flag.long);
    let first = SETTLED_FIRST.iter().filter_map(|name| FLAGS.iter().find(|flag| flag.long == *name));
    first.chain(FLAGS.iter().filter(move |flag| !is_first(flag)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{Argument, CP_ORDER, Effect};
    use crate::values::{Origin, Values};
    use std::collections::HashSet;

    #[test]
    fn the_table_has_cps_long_options_and_no_others_of_that_age() {
        let ours: HashSet<&str> =
            FLAGS.iter().filter(|f| f.origin == Origin::Cp && !f.long.is_empty()).map(|f| f.long).collect();
        let mut cps: HashSet<&str> = CP_ORDER.into();
        assert!(cps.remove("path"));
        assert_eq!(ours, cps);
    }

    #[test]
    fn no_name_is_taken_twice() {
        let mut seen = HashSet::new();
        for flag in FLAGS {
            assert!(!(flag.short.is_empty() && flag.long.is_empty()));
            assert!(flag.long.is_empty() || seen.insert(format!("--{}", flag.long)), "--{}", flag.long);
            for letter in flag.short.chars() {
                assert!(seen.insert(format!("-{letter}")), "-{letter}");
            }
        }
    }

    #[test]
    fn the_effect_fits_the_argument() {
        for flag in FLAGS {
            let fits = match flag.effect {
                Effect::Switch(_) => flag.argument == Argument::None,
                Effect::Word(without, _) => {
                    let known = flag.values.choices().iter().any(|choice| choice.name == without);
                    known && matches!(flag.values, Values::One(_)) && flag.argument != Argument::None
                }
                Effect::Value(_) => flag.argument != Argument::None,
            };
            assert!(fits, "-{} --{}", flag.short, flag.long);
        }
    }

    #[test]
    fn each_option_is_settled_once() {
        let order: Vec<&str> = in_order_of_settling().map(|flag| flag.long).collect();
        assert_eq!(order.len(), FLAGS.len());
        assert_eq!(order[..SETTLED_FIRST.len()], SETTLED_FIRST);
    }
}
