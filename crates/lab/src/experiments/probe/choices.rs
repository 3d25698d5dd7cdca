//! What haul would do with files of some sizes there, and why: the library's own choice from the facts of this place.

use std::fs::{self, File};
use std::path::Path;

use haul_io::facts::Surroundings;
use haul_io::options::DataOptions;
use haul_io::strategy::{DataFacts, Steps, WORTH_ASKING, choose};
use haul_io::transfer::facts_of;
use haul_measure::words;

use crate::results::{Fact, fact};

const SIZES: [u64; 6] = [1 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20, 4 << 30];

/// What the filesystem was found not to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cannot {
    pub clone: bool,
    pub copy_range: bool,
}

pub fn all(folder: &Path, cannot: Cannot) -> Result<Vec<Fact>, String> {
    let failed = words::cannot("look at", folder);
    let (from, to) = (folder.join("from"), folder.join("to"));
    fs::write(&from, vec![1; 8192]).map_err(failed)?;
    let (source, dest) = (File::open(&from).map_err(failed)?, File::create(&to).map_err(failed)?);
    let facts = facts_of(&source.into(), &dest.into()).map_err(|errno| failed(errno.into()))?;
    fs::remove_file(&from).and_then(|()| fs::remove_file(&to)).map_err(failed)?;
    let facts =
        DataFacts { clone_is_known_to_fail: cannot.clone, copy_range_is_known_to_fail: cannot.copy_range, ..facts };
    let options = DataOptions::default();
    let mut rows = Vec::new();
    for size in SIZES {
        let asked = size >= WORTH_ASKING;
        for cached in if asked { &[true, false][..] } else { &[true] } {
            let around = facts.around.filter(|_| asked);
            let around = around.map(|around| Surroundings { cached: Some(if *cached { size } else { 0 }), ..around });
            let steps = choose(&DataFacts { size, allocated: size, around, ..facts }, &options);
            let state = match (asked, cached) {
                (false, _) => "",
                (true, true) => ", cached",
                (true, false) => ", cold",
            };
            rows.push(fact(&format!("{}{state}", words::bytes(size)), in_words(&steps), steps.reasons.join("; ")));
        }
    }
    Ok(rows)
}

/// The engines in their order, and what else was decided.
fn in_words(steps: &Steps) -> String {
    let engines: Vec<&str> = steps.engines.iter().map(|engine| engine.as_str()).collect();
    let mut words = vec![engines.join(", then ")];
    let workers = steps.workers;
    match (workers.start, workers.most) {
        (_, ..=1) => {}
        (start, most) if start == most => words.push(format!("{most} workers")),
        (start, most) => words.push(format!("{start} to {most} workers")),
    }
    words.extend(steps.preallocate.then(|| "space allocated first".to_owned()));
    words.extend(steps.read_ahead.then(|| "read ahead".to_owned()));
    words.extend(steps.forget_source.then(|| "the source leaves the page cache again".to_owned()));
    words.extend(steps.send_dest.then(|| "the copy leaves the page cache".to_owned()));
    words.join("; ")
}
