//! Many runs, and what was wrong with them.

use std::cell::{Cell, RefCell};
use std::io::Write;

use haul_testbed::misbehaving::{Fault, Manner};
use haul_testbed::{Bed, painted};

use crate::Ran;
use crate::judge::judge;
use crate::scene::{Scene, Side};

/// What a run must come to, besides being honest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// The fault can be got over.
    Success,
    /// The fault cannot be got over, or must be reported.
    Failure,
    /// Either.
    Honesty,
}

/// One run.
#[derive(Clone, Copy)]
pub struct Play<'a> {
    pub side: Side,
    pub manner: Manner,
    pub options: &'a str,
    pub onto_old: bool,
    /// Contents of the odd file; the [`ordinary`] ones if none are given.
    pub bytes: Option<&'a [u8]>,
    pub faults: &'a [Fault],
    pub expect: Expect,
}

impl<'a> Play<'a> {
    /// To a new destination, with the faults at the source.
    pub fn new(options: &'a str, faults: &'a [Fault], expect: Expect) -> Play<'a> {
        Play { side: Side::Source, manner: CACHED, options, onto_old: false, bytes: None, faults, expect }
    }
}

/// The runs of one test.
pub struct Trial {
    bed: Bed,
    runs: Cell<u32>,
    met: Cell<u32>,
    wrong: RefCell<Vec<String>>,
}

/// Several requests of the kernel, and no multiple of a page.
pub fn ordinary() -> Vec<u8> {
    painted(300_001)
}

/// Through the page cache.
pub const CACHED: Manner = Manner { direct_io: false, write_back: false };
/// Past the page cache.
pub const DIRECT: Manner = Manner { direct_io: true, write_back: false };
/// What is written stays in the page cache for a while.
pub const WRITE_BACK: Manner = Manner { direct_io: false, write_back: true };

impl Trial {
    /// `None`, after a skip, where mounts are not permitted.
    pub fn new() -> Option<Trial> {
        Some(Trial { bed: Bed::new()?, runs: Cell::default(), met: Cell::default(), wrong: RefCell::default() })
    }

    /// Builds a scene of its own for a run.
    pub fn scene(&self, way: (Side, Manner), bytes: &[u8], onto_old: bool) -> Option<Scene<'_>> {
        let scene = Scene::build(&self.bed, self.runs.get(), way, bytes, onto_old)?;
        self.runs.set(self.runs.get() + 1);
        Some(scene)
    }

    /// Copies once, judges, and remembers what was wrong.
    pub fn play(&self, play: &Play<'_>) {
        let bytes = play.bytes.map_or_else(ordinary, <[u8]>::to_vec);
        let Some(scene) = self.scene((play.side, play.manner), &bytes, play.onto_old) else { return };
        let ran = scene.copy(play.options, play.faults);
        let met = scene.fs.met() > 0;
        let wrong = judge(&scene, &ran, play.options);
        let old = if play.onto_old { " onto an old tree" } else { "" };
        let Play { side, manner, options, .. } = play;
        self.settle(&format!("{options}{old}, {side:?}, {manner:?}"), met, wrong, &ran, play.expect);
    }

    /// Remembers what was wrong with a run, and whether it came to what it must.
    pub fn settle(&self, what: &str, met: bool, mut wrong: Vec<String>, ran: &Ran, expect: Expect) {
        self.met.set(self.met.get() + u32::from(met));
        let success = ran.status.success();
        if met && expect == Expect::Success && !success {
            wrong.push("it failed".to_owned());
        }
        if met && expect == Expect::Failure && success {
            wrong.push("it succeeded".to_owned());
        }
        if !wrong.is_empty() {
            let (text, ended, said) = (wrong.join("\n    "), ran.status, ran.said.trim_end());
            self.wrong.borrow_mut().push(format!("{what}:\n    {text}\n    {ended}: {said}"));
        }
    }

    /// Says how many runs there were.
    ///
    /// # Panics
    /// If something was wrong, or no run met its fault.
    pub fn finish(self) {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("?");
        let line = format!("{name}: {} runs, {} met a fault\n", self.runs.get(), self.met.get());
        // Straight to the descriptor: what a passing test prints is swallowed otherwise.
        std::io::stderr().write_all(line.as_bytes()).expect("standard error is there");
        let wrong = self.wrong.borrow();
        assert!(wrong.is_empty(), "{} of {} runs:\n{}", wrong.len(), self.runs.get(), wrong.join("\n"));
        assert!(self.runs.get() == 0 || self.met.get() > 0, "no run has met its fault");
    }
}
