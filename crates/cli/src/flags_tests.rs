//! The table is whole, and no name is taken twice.

use super::*;
use crate::data_flags::ENGINES;
use haul_copy::plan::EngineName;
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
        assert!(seen.insert(format!("{:?}", flag.id)));
        assert!(!(flag.short.is_empty() && flag.long.is_empty()));
        assert!(flag.long.is_empty() || seen.insert(format!("--{}", flag.long)), "--{}", flag.long);
        for letter in flag.short.chars() {
            assert!(seen.insert(format!("-{letter}")), "-{letter}");
        }
    }
}

#[test]
fn every_engine_can_be_chosen() {
    let names: Vec<&str> = ENGINES.iter().map(|choice| choice.name).collect();
    let engines = std::iter::once("auto").chain(EngineName::ALL.iter().map(|engine| engine.as_str()));
    assert_eq!(names, engines.collect::<Vec<_>>());
}
