//! Results for tests.

use crate::results::{Cache, Case, Environment, Outcome, Place, Results, Run, Section};

/// Three runs of about this time.
pub fn timed(seconds: f64) -> [f64; 6] {
    [1.0, 1.01, 0.99, 1.005, 0.995, 1.0].map(|times| times * seconds)
}

/// A case with runs of these times; a tenth of each is user time, a half kernel time.
pub fn case(group: &str, competitor: &str, bytes: u64, times: &[f64]) -> Case {
    let run = |time: &f64| Run {
        returned: *time,
        durable: time * 1.5,
        user: time * 0.1,
        system: time * 0.5,
        peak_memory: 4 << 20,
        minor_faults: 300,
        ..Run::default()
    };
    Case {
        group: group.to_owned(),
        competitor: competitor.to_owned(),
        bytes,
        runs: times.iter().map(run).collect(),
        outcome: Outcome::Right,
        cache: Cache::Warm,
        ..Case::default()
    }
}

/// A section without anything in it.
pub fn section(name: &str) -> Section {
    Section { complete: true, ..Section::new(name, "target") }
}

/// Results with these sections.
pub fn results(sections: Vec<Section>) -> Results {
    let place = Place {
        directory: "/mnt".to_owned(),
        filesystem: "ext4".to_owned(),
        source: "/dev/vdb".to_owned(),
        mount_options: "rw,relatime".to_owned(),
        ..Place::default()
    };
    let mut environment = Environment { kernel: "6.12".to_owned(), cores: 2, ..Environment::default() };
    environment.places.insert("target".to_owned(), place);
    let mut results = Results::new(vec!["haul-lab".to_owned()], 1_795_366_260, environment);
    results.sections = sections;
    results.complete = true;
    results
}
