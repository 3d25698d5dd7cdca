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
    "list-out",
    "list",
    "shard",
    "job",
    "context",
];

/// Every option in the order in which they are settled.
pub(crate) fn in_order_of_settling() -> impl Iterator<Item = &'static Flag> {
    let is_first = |flag: &&Flag| SETTLED_FIRST.contains(&flag.long);
    let first = SETTLED_FIRST.iter().filter_map(|name| FLAGS.iter().find(|flag| flag.long == *name));
    first.chain(FLAGS.iter().filter(move |flag| !is_first(flag)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::CP_ORDER;
    use crate::values::Origin;
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
    fn names_are_taken_once_and_effects_fit_arguments() {
        crate::flags::check(FLAGS);
    }

    #[test]
    fn each_option_is_settled_once() {
        let order: Vec<&str> = in_order_of_settling().map(|flag| flag.long).collect();
        assert_eq!(order.len(), FLAGS.len());
        assert_eq!(order[..SETTLED_FIRST.len()], SETTLED_FIRST);
    }
}
