//! Competitors that copy the same source.

use std::path::{Path, PathBuf};

use haul_measure::stop::Stop;

use super::competitor::Competitor;
use super::progress::OVERHEAD;

/// The same source for all, made when it is needed.
pub struct Group<'a> {
    /// In the results: `1000 MB, cold`.
    pub name: String,
    /// The source; it is made if it is not there.
    pub source: PathBuf,
    /// Makes it; `None` if it is the user's.
    pub make: Option<Box<Making<'a>>>,
    pub bytes: u64,
    /// How many entries and bytes the user's source has; nobody may take any away.
    pub entries: Option<(u64, u64)>,
    /// Says why a copy is wrong; without it names, contents and link targets must be the same.
    pub judge: Option<&'a Judging<'a>>,
    /// And metadata, too.
    pub metadata: bool,
    pub competitors: Vec<Competitor>,
}

/// Makes a source under a name.
pub type Making<'a> = dyn Fn(&Path, &Stop) -> Result<(), String> + 'a;

/// Says why the copy of a source by somebody is wrong, if it is.
pub type Judging<'a> = dyn Fn(&Path, &Path, &Competitor, &Stop) -> Option<String> + 'a;

impl<'a> Group<'a> {
    /// With a source that is made, of which names, contents and link targets are compared.
    pub fn made(
        name: String,
        source: &Path,
        make: impl Fn(&Path, &Stop) -> Result<(), String> + 'a,
        bytes: u64,
        competitors: Vec<Competitor>,
    ) -> Group<'a> {
        let (source, make) = (source.to_owned(), Some(Box::new(make) as Box<Making>));
        Group { name, source, make, bytes, entries: None, judge: None, metadata: false, competitors }
    }

    /// What one run of everybody is worth, in bytes that are copied.
    pub(super) fn work(&self) -> f64 {
        self.competitors.len() as f64 * (self.bytes as f64 + OVERHEAD)
    }

    /// The same of those whom published claims are about.
    pub(super) fn asked(&self) -> f64 {
        self.competitors.iter().filter(|one| one.asked).count() as f64 * (self.bytes as f64 + OVERHEAD)
    }
}
