//! The concurrency tuner: finds how many threads are worth while, for a tree and for one file.
//!
//! It hears the throughput and says how many to go on with. It knows no clock, no thread and no file, so that a table
//! of throughputs tests it. Both users have the same search; what their measurements are like makes the [`Rule`].
//!
//! * **The first number** of a tree is that of the processors ([`Tuner::of_tree`]), one if a disk with moving heads
//!   is below ([`Tuner::start_low`]), or eight at least if a network is between ([`Tuner::start_remote`]); of a file it
//!   is what `strategy` says ([`Tuner::of_file`]). `--jobs` and profiles fix it.
//! * **A step** is kept if it pays. After one that did not, the tuner rests, longer each time.
//! * **Where little CPU time is left** ([`Load::High`]) a tree tries one thread more, and keeps it if it costs
//!   nothing; where none is left ([`Load::Full`]) it tries none.

use std::time::Duration;

/// How much the processors have to do while the threads work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// There is room.
    Low,
    /// They wait now and then, for the device: one thread more may fill that, and cannot cost much.
    High,
    /// More threads could only get into each other's way.
    Full,
}

/// What is worth while, and how often to look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// A rise must be this much (a factor) to be believed: less is noise, and a thread that brings less is not worth its
    /// memory and the load on the machine.
    worth: f64,
    /// Measurements without a change after a step that did not pay, doubled each time.
    first_rest: u32,
    longest_rest: u32,
    /// What a step is compared with: the moving average of the rest before it, or else the one measurement before it.
    averages: bool,
    /// Fewer threads must bring as much as more would have to. Otherwise they need only cost nothing.
    fewer_must_gain: bool,
    /// Steps up are as wide as half of what there is. Otherwise all are of one thread.
    wide_steps: bool,
    /// At an end of the scale the other way is tried at once. Otherwise after a rest.
    turns_at_once: bool,
}

/// The threads of a tree: each measurement is short, and what thousands of files take is much alike.
const TREE: Rule = Rule {
    worth: 1.08,
    first_rest: 4,
    longest_rest: 64,
    averages: false,
    fewer_must_gain: false,
    wide_steps: true,
    turns_at_once: false,
};

/// The workers of one file: few, and devices have moods.
const FILE: Rule = Rule {
    worth: 1.10,
    first_rest: 8,
    longest_rest: u32::MAX,
    averages: true,
    fewer_must_gain: true,
    wide_steps: false,
    turns_at_once: true,
};

/// Where a server answers, threads mostly wait for it, whatever the number of processors here: a tree begins with so many.
const FIRST_REMOTE: usize = 8;
/// And may have so many.
pub const MOST_REMOTE: usize = 32;

/// A step that is not known yet to have paid.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// What there was before it.
    level: usize,
    throughput: f64,
    /// It need not bring anything, if it costs nothing.
    gentle: bool,
}

/// The state of the search: a level is tried, and kept if it pays; then the next one in the same direction. What did not pay
/// is not tried again for a while, and that for ever longer.
#[derive(Debug, Clone)]
pub struct Tuner {
    rule: Rule,
    now: usize,
    most: usize,
    /// What a level that is fixed later may reach.
    ceiling: usize,
    /// Throughput at the level that stands.
    standing: Option<f64>,
    /// The last step, as long as it is not known whether it paid.
    from: Option<Step>,
    resting: u32,
    rest: u32,
    down: bool,
    fixed: bool,
    /// It began as suits a server.
    remote: bool,
}

impl Tuner {
    /// For the threads of a tree, of which as many as `affordable` can be had. It starts with one for each processor. A level that
    /// is fixed later, or found where a server has the files, may be as high as `ceiling`.
    pub fn of_tree(cores: usize, affordable: usize, ceiling: usize) -> Tuner {
        let tuner = Tuner::new(TREE, cores, (4 * cores).clamp(4, 32).min(affordable));
        Tuner { ceiling: ceiling.min(affordable).max(tuner.most), ..tuner }
    }

    /// For the workers of one file: starts with so many, and never goes beyond `most`.
    pub fn of_file(start: usize, most: usize) -> Tuner {
        Tuner::new(FILE, start, most)
    }

    /// Always this level: the user said so.
    pub fn fixed(level: usize) -> Tuner {
        Tuner { fixed: true, ..Tuner::new(TREE, level, level) }
    }

    fn new(rule: Rule, start: usize, most: usize) -> Tuner {
        let most = most.max(1);
        Tuner {
            rule,
            now: start.clamp(1, most),
            most,
            ceiling: most,
            standing: None,
            from: None,
            resting: 0,
            rest: rule.first_rest,
            down: false,
            fixed: false,
            remote: false,
        }
    }

    /// Begins anew from the lowest level, unless the user said which to keep.
    pub fn start_low(&mut self) {
        if !self.fixed {
            *self = Tuner { ceiling: self.ceiling, ..Tuner::new(self.rule, 1, self.most) };
        }
    }

    /// Begins anew with as many threads as suit a server behind a network, unless it did already or the user said which to keep.
    pub fn start_remote(&mut self) {
        if self.may_start_remote() {
            let most = self.most.max(MOST_REMOTE.min(self.ceiling));
            let tuner = Tuner::new(self.rule, self.now.max(FIRST_REMOTE), most);
            *self = Tuner { ceiling: self.ceiling, remote: true, ..tuner };
        }
    }

    /// Whether the level is found by search, and that has not begun as suits a server.
    pub fn may_start_remote(&self) -> bool {
        !self.fixed && !self.remote
    }

    /// From now on this level, within the bounds, unless the user said which to keep.
    pub fn fix(&mut self, level: usize) {
        if !self.fixed {
            *self = Tuner { fixed: true, ..Tuner::new(self.rule, level, self.ceiling) };
        }
    }

    /// The level to work at.
    pub fn level(&self) -> usize {
        self.now
    }

    /// The highest level that there can ever be.
    pub fn ceiling(&self) -> usize {
        self.ceiling
    }

    /// Hears the throughput at the current level and says at which to go on.
    pub fn measured(&mut self, throughput: f64, load: Load) -> usize {
        if !self.fixed {
            match self.from.take() {
                None => self.rest_or_step(throughput, load),
                Some(step) if self.pays(&step, throughput) => self.keep(throughput, load),
                Some(step) => self.step_back(&step),
            }
        }
        self.now
    }

    fn rest_or_step(&mut self, throughput: f64, load: Load) {
        let standing = self.standing.filter(|_| self.rule.averages);
        self.standing = Some(standing.map_or(throughput, |standing| standing.mul_add(0.5, throughput * 0.5)));
        let before = self.resting;
        self.resting = before.saturating_sub(1);
        // An average is there when the rest ends. One measurement to compare with has to be made then.
        let is_over = if self.rule.averages { self.resting == 0 } else { before == 0 };
        match (is_over, load) {
            (false, _) => {}
            (true, Load::Full) if !self.down => self.look_down_later(),
            (true, _) => self.step(load),
        }
    }

    fn pays(&self, step: &Step, now: f64) -> bool {
        let worth = self.rule.worth;
        if step.gentle { now * worth.sqrt() > step.throughput } else { now >= step.throughput * worth }
    }

    fn keep(&mut self, throughput: f64, load: Load) {
        self.standing = Some(throughput);
        self.rest = self.rule.first_rest;
        // Where there is little room left for another one, the next measurement says whether there is any.
        if self.down || load == Load::Low {
            self.step(load);
        }
    }

    fn step_back(&mut self, step: &Step) {
        self.now = step.level;
        self.down = !self.down;
        self.resting = self.rest;
        self.rest = self.rest.saturating_mul(2).min(self.rule.longest_rest);
    }

    /// As after a step up that did not pay, but without having lost time over it. Neither is a step down likely to pay: on two
    /// processors each look costs a fortieth of a second of one of them.
    fn look_down_later(&mut self) {
        self.down = true;
        self.rest = self.rule.longest_rest;
        self.resting = self.rest;
    }

    fn step(&mut self, load: Load) {
        let mut next = self.next(load);
        if next == self.now {
            // At an end of the scale.
            self.down = !self.down;
            if !self.rule.turns_at_once {
                self.resting = self.rest;
                return;
            }
            next = self.next(load);
        }
        let (true, Some(throughput)) = (next != self.now, self.standing) else { return };
        self.from = Some(Step { level: self.now, throughput, gentle: self.is_gentle(load) });
        self.now = next;
    }

    /// Up must bring something, unless there is little to bring.
    fn is_gentle(&self, load: Load) -> bool {
        load != Load::Low || (self.down && !self.rule.fewer_must_gain)
    }

    fn next(&self, load: Load) -> usize {
        let wide = self.rule.wide_steps && load == Load::Low;
        let next = match self.down {
            true => self.now - 1,
            false => self.now + if wide { (self.now / 2).max(1) } else { 1 },
        };
        next.clamp(1, self.most)
    }
}

/// A figure is made of at least so many bytes and so much time.
const WINDOW_BYTES: u64 = 64 << 20;
const WINDOW_TIME: Duration = Duration::from_millis(40);
/// And of so many pieces, since each is counted when it is done.
const WINDOW_PIECES: u64 = 16;

/// Makes measurements of the bytes that are moved in pieces.
#[derive(Debug, Clone)]
pub struct Meter {
    window: u64,
    bytes: u64,
    since: Duration,
}

impl Meter {
    /// For pieces of so many bytes.
    pub fn new(piece: u64) -> Meter {
        Meter { window: WINDOW_BYTES.max(piece.saturating_mul(WINDOW_PIECES)), bytes: 0, since: Duration::ZERO }
    }

    /// `bytes` more were moved; `now` is the time since the beginning. Bytes per second, if that is enough to say.
    pub fn moved(&mut self, bytes: u64, now: Duration) -> Option<f64> {
        self.bytes += bytes;
        let time = now.saturating_sub(self.since);
        if self.bytes < self.window || time < WINDOW_TIME {
            return None;
        }
        let rate = self.bytes as f64 / time.as_secs_f64();
        (self.bytes, self.since) = (0, now);
        Some(rate)
    }
}

#[cfg(test)]
mod tests;
