//! Running a copy and listening to it.

use std::sync::Mutex;

use haul_copy::events::{Confirm, Event, Observer, Question};
use haul_copy::meta::XattrRules;
use haul_copy::plan::Plan;
use haul_copy::run::{Cancel, Partials, Session, Summary, run};
use haul_io::pace::Pace;

type Attack<'a> = Box<dyn FnMut(&Event<'_>) + Send + 'a>;

/// Runs an attack at every event and collects what was reported.
struct Attacker<'a> {
    attack: Mutex<Attack<'a>>,
    problems: Mutex<Vec<String>>,
}

impl Observer for Attacker<'_> {
    fn event(&self, event: &Event<'_>) {
        if let Event::Problem(error) = event {
            self.problems.lock().unwrap().push(error.to_string());
        }
        (self.attack.lock().unwrap())(event);
    }
}

impl Confirm for Attacker<'_> {
    fn overwrite(&self, _: &Question<'_>) -> bool {
        true
    }
}

pub fn copy(plan: &Plan, cancel: &Cancel, attack: impl FnMut(&Event<'_>) + Send) -> (Summary, Vec<String>) {
    let attacker = Attacker { attack: Mutex::new(Box::new(attack)), problems: Mutex::default() };
    let session = Session {
        observer: &attacker,
        confirm: &attacker,
        cancel: cancel.clone(),
        pace: Pace::default(),
        partials: Partials::default(),
        xattr_rules: XattrRules::default(),
        skip_files: Vec::new(),
        shared_reads: None,
    };
    let summary = run(plan, &session);
    (summary, attacker.problems.into_inner().unwrap())
}
