//! Finds how many threads are worth while: climbs as long as the throughput rises, and steps back otherwise.

/// A rise must be this much (a factor) to be believed: less is noise, and a thread that brings less is not worth its
/// memory and the load on the machine.
const WORTH: f64 = 1.08;

/// Measurements without a change after a step that did not pay; doubled each time, up to [`LONGEST_REST`].
const FIRST_REST: u32 = 4;
const LONGEST_REST: u32 = 64;

/// How much the processors have to do while the threads work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// There is room.
    Low,
    /// They wait now and then, for the device: one thread more may fill that, and cannot cost much.
    High,
    /// More threads could only get into each other's way.
    Full,
}

/// A step, and what was before it.
#[derive(Debug, Clone, Copy)]
struct Step {
    level: usize,
    throughput: f64,
    /// It need not bring anything, if it costs nothing.
    gentle: bool,
}

/// The state of the search.
#[derive(Debug, Clone)]
pub(super) struct Climb {
    now: usize,
    most: usize,
    /// What a level that is fixed later may reach.
    ceiling: usize,
    /// The last step, as long as it is not known whether it paid.
    from: Option<Step>,
    resting: u32,
    rest: u32,
    down: bool,
    fixed: bool,
}

impl Climb {
    /// Always this level: the user said so.
    pub fn fixed(level: usize) -> Climb {
        Climb { fixed: true, ..Climb::new(level, level) }
    }

    /// Begins anew from the lowest level, unless the user said which to keep.
    pub fn start_low(&mut self) {
        if !self.fixed {
            *self = Climb::new(1, self.most).below(self.ceiling);
        }
    }

    /// The same, but that a level that is fixed later may be so high.
    #[must_use]
    pub fn below(self, ceiling: usize) -> Climb {
        Climb { ceiling: ceiling.max(self.most), ..self }
    }

    /// From now on this level, within the bounds, unless the user said which to keep.
    pub fn fix(&mut self, level: usize) {
        if !self.fixed {
            let ceiling = self.ceiling;
            *self = Climb { fixed: true, ..Climb::new(level, ceiling) };
        }
    }

    /// The highest level that there can ever be.
    pub fn ceiling(&self) -> usize {
        self.ceiling
    }

    /// Starts at a level, and never goes beyond `most`.
    pub fn new(start: usize, most: usize) -> Climb {
        let most = most.max(1);
        let now = start.clamp(1, most);
        Climb { now, most, ceiling: most, from: None, resting: 0, rest: FIRST_REST, down: false, fixed: false }
    }

    /// The level to work at.
    pub fn level(&self) -> usize {
        self.now
    }

    /// Hears the throughput at the current level and says at which to go on.
    pub fn measured(&mut self, throughput: f64, load: Load) -> usize {
        if self.fixed {
            return self.now;
        }
        if self.resting > 0 {
            self.resting -= 1;
            return self.now;
        }
        match self.from.take() {
            None if load == Load::Full && !self.down => self.look_down_later(),
            None => self.step(throughput, load),
            Some(step) if Climb::pays(&step, throughput) => {
                self.rest = FIRST_REST;
                // Where there is little room left for another one, the next measurement says whether there is any.
                if self.down || load == Load::Low {
                    self.step(throughput, load);
                }
            }
            Some(step) => {
                self.now = step.level;
                self.down = !self.down;
                self.resting = self.rest;
                self.rest = (self.rest * 2).min(LONGEST_REST);
            }
        }
        self.now
    }

    /// As after a step up that did not pay, but without having lost time over it. Neither is a step down likely to pay: on two
    /// processors each look costs a fortieth of a second of one of them.
    fn look_down_later(&mut self) {
        self.down = true;
        self.rest = LONGEST_REST;
        self.resting = self.rest;
    }

    fn pays(step: &Step, now: f64) -> bool {
        if step.gentle { now * WORTH.sqrt() > step.throughput } else { now > step.throughput * WORTH }
    }

    fn step(&mut self, throughput: f64, load: Load) {
        // Up must bring something, unless there is little to bring; down must cost nothing.
        let gentle = self.down || load != Load::Low;
        let next = match (self.down, gentle) {
            (true, _) => self.now - 1,
            (false, true) => self.now + 1,
            (false, false) => self.now + (self.now / 2).max(1),
        };
        let next = next.clamp(1, self.most);
        if next == self.now {
            // At an end of the scale: look the other way after a rest.
            self.down = !self.down;
            self.resting = self.rest;
            return;
        }
        self.from = Some(Step { level: self.now, throughput, gentle });
        self.now = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets it climb on a curve; returns the levels that it worked at.
    fn levels(mut climb: Climb, rounds: usize, throughput: impl Fn(usize) -> f64) -> Vec<usize> {
        (0..rounds)
            .map(|_| {
                let level = climb.level();
                climb.measured(throughput(level), Load::Low);
                level
            })
            .collect()
    }

    fn share_at(levels: &[usize], wanted: impl Fn(usize) -> bool) -> f64 {
        levels.iter().filter(|level| wanted(**level)).count() as f64 / levels.len() as f64
    }

    #[test]
    fn from_one_it_climbs_to_the_number_that_the_machine_bears() {
        let found = levels(Climb::new(1, 16), 400, |level| level.min(4) as f64);
        assert!(found[..8].contains(&4), "{found:?}");
        assert!(share_at(&found[20..], |level| (4..=5).contains(&level)) > 0.9, "{found:?}");
    }

    #[test]
    fn where_more_threads_are_slower_it_stays_with_one() {
        let found = levels(Climb::new(1, 16), 400, |level| 1.0 / level as f64);
        assert!(share_at(&found, |level| level == 1) > 0.9, "{found:?}");
    }

    #[test]
    fn it_does_not_climb_while_the_processors_are_busy() {
        let mut climb = Climb::new(2, 8);
        let found: Vec<usize> = (0..400).map(|_| climb.measured(climb.level() as f64, Load::Full)).collect();
        assert!(found.iter().all(|level| *level <= 2), "{found:?}");
        assert!(share_at(&found, |level| level == 2) > 0.95, "{found:?}");
        // Of the rest that it has begun there is an end.
        assert!(levels(climb, 200, |level| level as f64).contains(&8));
    }

    #[test]
    fn it_fills_what_is_left_of_the_processors_and_stops_when_they_are_full() {
        let mut climb = Climb::new(2, 16);
        let load = |level: usize| if level < 4 { Load::High } else { Load::Full };
        // Each thread more brings less than would be believed otherwise.
        let throughput = |level: usize| 100.0 + level.min(4) as f64;
        let found: Vec<usize> =
            (0..60).map(|_| climb.measured(throughput(climb.level()), load(climb.level()))).collect();
        assert_eq!(found[..6], [3, 3, 4, 4, 4, 4]);
        assert!(found.iter().all(|level| *level <= 4), "{found:?}");
    }

    #[test]
    fn a_step_that_fills_the_processors_is_the_last_one() {
        let mut climb = Climb::new(1, 16);
        let load = |level: usize| if level < 2 { Load::Low } else { Load::Full };
        let found: Vec<usize> =
            (0..200).map(|_| climb.measured(climb.level().min(2) as f64, load(climb.level()))).collect();
        assert_eq!(found[..3], [2, 2, 2]);
        assert!(found.iter().all(|level| *level <= 2), "{found:?}");
    }

    #[test]
    fn a_gentle_step_that_costs_something_is_taken_back() {
        let mut climb = Climb::new(2, 16);
        let throughput = |level: usize| 100.0 / level as f64;
        let found: Vec<usize> = (0..40).map(|_| climb.measured(throughput(climb.level()), Load::High)).collect();
        assert_eq!(found[..3], [3, 2, 2]);
        assert!(share_at(&found, |level| level == 3) < 0.2, "{found:?}");
    }

    #[test]
    fn it_comes_down_from_a_start_that_was_too_high() {
        let found = levels(Climb::new(8, 16), 400, |level| 1.0 / level as f64);
        assert!(share_at(&found[200..], |level| level <= 2) > 0.8, "{found:?}");
    }

    #[test]
    fn a_low_start_is_for_those_that_climb() {
        let (mut free, mut fixed) = (Climb::new(4, 8), Climb::fixed(4));
        free.start_low();
        fixed.start_low();
        assert_eq!((free.level(), fixed.level()), (1, 4));
    }

    #[test]
    fn a_level_is_fixed_within_the_bounds_and_never_against_the_user() {
        let (mut free, mut fixed) = (Climb::new(4, 8), Climb::fixed(4));
        free.fix(16);
        fixed.fix(2);
        assert_eq!((free.level(), fixed.level()), (8, 4));
        let mut higher = Climb::new(4, 8).below(12);
        assert!(levels(higher.clone(), 100, |level| level as f64).iter().all(|level| *level <= 8));
        higher.fix(16);
        assert_eq!(higher.level(), 12);
        free.start_low();
        assert_eq!(free.measured(1.0, Load::Low), 8);
    }

    #[test]
    fn it_never_leaves_its_bounds() {
        let found = levels(Climb::new(2, 3), 200, |level| level as f64);
        assert!(found.iter().all(|level| (1..=3).contains(level)), "{found:?}");
        assert!(levels(Climb::new(1, 1), 50, |_| 1.0).iter().all(|level| *level == 1));
    }
}
