//! The engines of one thread, made when they are needed first.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::wrap::{Hooked, Tally};
use crate::engine::{self, Engine, Tuning};

use crate::engine::EngineName;

/// Engines by name and tuning, and how many requests they make.
#[derive(Default)]
pub(super) struct Engines {
    made: BTreeMap<(EngineName, Tuning), Box<dyn Engine>>,
    tally: Tally,
}

impl Engines {
    pub(super) fn get(&mut self, name: EngineName, mut tuning: Tuning) -> &mut dyn Engine {
        let tally = &self.tally;
        tuning.buffer_size = tuning.buffer_size.or(name.caps().kept_buffer);
        let make = || engine::make_on(Arc::new(Hooked(tally.clone())), name, &tuning);
        self.made.entry((name, tuning)).or_insert_with(make).as_mut()
    }

    /// Requests that they have made since this was asked last.
    pub(super) fn take_requests(&mut self) -> u64 {
        self.tally.take()
    }
}
