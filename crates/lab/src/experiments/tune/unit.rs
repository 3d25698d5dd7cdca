//! What is searched for: a setting for files of one size, in one state.

use haul_io::profile::{SizeClass, Source};
use haul_measure::cache::Temperature;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    pub class: SizeClass,
    /// Whether they are cached when a copy begins.
    pub states: States,
}

/// States of the sources of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum States {
    /// By turns: haul does not ask, so a setting has to win both ways together.
    Both,
    /// Only this one, which haul can recognise.
    One(Source),
    /// Always cached: here files are in memory anyway. A setting is for files in any state.
    AlwaysCached,
}

impl Unit {
    /// For these classes, the smallest files first.
    pub fn all(classes: &[SizeClass], can_be_cold: bool) -> Vec<Unit> {
        let mut all = Vec::new();
        for class in SizeClass::ALL.into_iter().filter(|class| classes.contains(class)) {
            let states: &[States] = match (can_be_cold, class) {
                (false, _) => &[States::AlwaysCached],
                (true, SizeClass::Tiny | SizeClass::Small) => &[States::Both],
                (true, _) => &[States::One(Source::Cold), States::One(Source::Cached)],
            };
            all.extend(states.iter().map(|states| Unit { class, states: *states }));
        }
        all
    }

    /// The state of the source in a round.
    pub fn state(&self, round: usize) -> Temperature {
        match self.states {
            States::Both if round % 2 == 1 => Temperature::Cold,
            States::One(Source::Cold) => Temperature::Cold,
            _ => Temperature::Warm,
        }
    }

    /// Which sources an entry is about.
    pub fn source(&self) -> Option<Source> {
        match self.states {
            States::One(source) => Some(source),
            States::Both | States::AlwaysCached => None,
        }
    }

    /// `files of 64 KiB to 4 MiB, cold`.
    pub fn words(&self) -> String {
        let state = match self.states {
            States::Both => "cached and cold",
            States::One(source) => source.as_str(),
            States::AlwaysCached => "in memory",
        };
        format!(
            "files {}, {state}",
            match self.class {
                SizeClass::Tiny | SizeClass::Huge => self.class.range_words().to_owned(),
                _ => format!("of {}", self.class.range_words()),
            }
        )
    }
}
