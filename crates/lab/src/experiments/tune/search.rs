//! Finds which of many settings is the fastest, with few runs: all are tried a little, those that fall behind are dropped, and
//! the rest are tried more. Pure but for what it is given.

use std::collections::BTreeMap;

use super::judge::{self, Pair};

/// What a run of one candidate has given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Trial {
    /// Durable seconds of a copy that was compared with its source.
    Right(f64),
    /// The copy is not the source, or there is none. It never runs again.
    Wrong,
    /// The setting makes no difference here. It never runs again.
    Idle,
    /// There is no time for another run, or the user wants no more.
    NoTime,
}

/// Tries candidates; number 0 are the defaults.
pub trait Trials {
    /// One run of a candidate in a round. Asked for one at a time, in an order that rotates.
    fn run(&mut self, candidate: usize, round: usize) -> Trial;
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    /// The best candidate that beat the defaults by more than the noise.
    pub winner: Option<usize>,
    /// The best of those that are left, whether or not it is faster than the defaults.
    pub best: Option<usize>,
    /// Pairs of times of each candidate with the defaults of the same round.
    pub pairs: BTreeMap<usize, Vec<Pair>>,
    pub wrong: Vec<usize>,
    /// The defaults themselves failed: nothing can be said.
    pub defaults_failed: bool,
    /// It ended before its end.
    pub cut_short: bool,
}

/// Of those that are left only one in so many goes on.
const KEEP_ONE_IN: usize = 3;
/// Rounds of the first stages; the last is repeated until one candidate is left.
const ROUNDS: [usize; 2] = [2, 2];
/// The last candidate is compared with the defaults in so many rounds altogether.
const LAST: usize = 8;
/// This many times as slow as the defaults in its first round is out at once: nothing but chance could bring it back.
const HOPELESS: f64 = 4.0;

/// About how many runs it takes to find the best of so many candidates, with those of the defaults.
pub fn expected_runs(candidates: usize) -> usize {
    let (mut left, mut runs, mut rounds) = (candidates, 0, 0);
    while left > 1 {
        runs += (left + 1) * stage(rounds);
        rounds += stage(rounds);
        left = left.div_ceil(KEEP_ONE_IN);
    }
    runs + 2 * LAST.saturating_sub(rounds)
}

/// Rounds of the stage that begins after so many.
fn stage(done: usize) -> usize {
    let stage = done / ROUNDS[0];
    ROUNDS.get(stage).copied().unwrap_or(ROUNDS[ROUNDS.len() - 1])
}

/// Searches among the candidates 1 to `candidates`.
pub fn search(candidates: usize, trials: &mut dyn Trials) -> Found {
    let mut search = Search { left: (1..=candidates).collect(), round: 0, found: Found::default(), trials };
    while search.left.len() > 1 && search.play(stage(search.round)) {
        search.thin();
    }
    let missing = LAST.saturating_sub(search.round);
    if search.left.len() == 1 && !search.found.cut_short && !search.found.defaults_failed {
        search.play(missing);
    }
    let mut found = search.found;
    let faster = |a: &usize, b: &usize| found.gain(*a).total_cmp(&found.gain(*b));
    found.best = search.left.iter().copied().filter(|candidate| !found.pairs(*candidate).is_empty()).max_by(faster);
    found.winner = found.best.filter(|best| !found.defaults_failed && judge::wins(found.pairs(*best)));
    found
}

impl Found {
    pub fn pairs(&self, candidate: usize) -> &[Pair] {
        self.pairs.get(&candidate).map_or(&[], Vec::as_slice)
    }

    /// 0 if nothing is known of it.
    pub fn gain(&self, candidate: usize) -> f64 {
        judge::gain(self.pairs(candidate)).unwrap_or(0.0)
    }
}

struct Search<'a> {
    left: Vec<usize>,
    round: usize,
    found: Found,
    trials: &'a mut dyn Trials,
}

impl Search<'_> {
    /// So many rounds of all that are left, and of the defaults. `false` if the search cannot go on.
    fn play(&mut self, rounds: usize) -> bool {
        for _ in 0..rounds {
            if !self.play_round() {
                return false;
            }
            self.round += 1;
        }
        true
    }

    fn play_round(&mut self) -> bool {
        let mut order: Vec<usize> = std::iter::once(0).chain(self.left.iter().copied()).collect();
        let len = order.len();
        // So that nobody is always first, or always behind the same one.
        order.rotate_left(self.round % len);
        if (self.round / len) % 2 == 1 {
            order.reverse();
        }
        let mut times = BTreeMap::new();
        for candidate in order {
            match self.trials.run(candidate, self.round) {
                Trial::Right(time) => drop(times.insert(candidate, time)),
                Trial::Wrong | Trial::Idle if candidate == 0 => {
                    self.found.defaults_failed = true;
                    return false;
                }
                Trial::Wrong => {
                    self.found.wrong.push(candidate);
                    self.left.retain(|left| *left != candidate);
                }
                Trial::Idle => self.left.retain(|left| *left != candidate),
                Trial::NoTime => {
                    self.found.cut_short = true;
                    // Pairs that are whole count all the same.
                    self.count(&times);
                    return false;
                }
            }
        }
        self.count(&times);
        if self.round == 0 {
            let found = &self.found;
            self.left.retain(|left| found.gain(*left) * HOPELESS > 1.0);
        }
        !self.left.is_empty()
    }

    fn count(&mut self, times: &BTreeMap<usize, f64>) {
        let Some(defaults) = times.get(&0) else { return };
        for (candidate, time) in times.iter().filter(|(candidate, _)| **candidate != 0) {
            self.found.pairs.entry(*candidate).or_default().push((*defaults, *time));
        }
    }

    /// Leaves the best.
    fn thin(&mut self) {
        let mut ranked: Vec<(f64, usize)> = self.left.iter().map(|left| (self.found.gain(*left), *left)).collect();
        // Of equals the earlier one, which is nearer to the defaults.
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        ranked.truncate(self.left.len().div_ceil(KEEP_ONE_IN));
        self.left = ranked.into_iter().map(|(_, candidate)| candidate).collect();
        self.left.sort_unstable();
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
