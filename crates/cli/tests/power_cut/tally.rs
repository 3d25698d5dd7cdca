//! What was found after many cuts.

use crate::crash::judge::Verdict;
use crate::crash::report;
use crate::place::Place;
use crate::ways::{Again, Promise, Way};

/// What one cut left behind.
pub struct Aftermath {
    /// The copier had said that all is well.
    pub ended_well: bool,
    /// What stands at the destination; in words if that cannot be read.
    pub verdict: Result<Verdict, String>,
    /// The same after the same copy was made again.
    pub again: Option<Result<Verdict, String>>,
}

/// Counts over many cuts.
#[derive(Debug, Default)]
pub struct Tally {
    pub cuts: usize,
    pub ended_well: usize,
    /// Names that were not as a completed copy leaves them, over the cuts after a good end.
    pub lost: usize,
    /// Names with neither the old nor the new contents, over all cuts.
    pub torn: usize,
    /// Cuts that broke the promise.
    pub broken: Vec<String>,
    old: usize,
    new: usize,
    temporary: usize,
    unlike: usize,
}

impl Tally {
    /// Adds one; `about` says which it was.
    pub fn add(&mut self, place: &Place<'_>, way: &Way, aftermath: &Aftermath, about: &str) {
        self.cuts += 1;
        self.ended_well += usize::from(aftermath.ended_well);
        if let Ok(verdict) = &aftermath.verdict {
            self.old += verdict.old;
            self.new += verdict.new;
            self.torn += verdict.torn.len();
            self.temporary += verdict.temporary.len();
            self.unlike += verdict.unlike.len();
            if aftermath.ended_well {
                self.lost += verdict.lost(place.untouched());
            }
        }
        if let Some(objection) = objection(place, way, aftermath) {
            let when = if aftermath.ended_well { "it had ended well" } else { "it had not ended well" };
            self.broken.push(format!("{} on {}, {about}; {when}\n{objection}", way.name, place.kind.name()));
        }
    }

    /// Prints the figures.
    pub fn report(&self, place: &Place<'_>, way: &Way) {
        let Tally { cuts, ended_well, lost, torn, broken, old, new, temporary, unlike } = self;
        report(&format!(
            "power cuts: {}, {}: {cuts} cuts, {ended_well} after a good end; names: {old} old, {new} new ({unlike} with other \
             attributes), {torn} torn, {temporary} temporary, {lost} lost after a good end; {} cuts broke the promise",
            place.kind.name(),
            way.name,
            broken.len()
        ));
    }

    /// No promise was broken.
    #[track_caller]
    pub fn assert_kept(&self) {
        let shown: Vec<&str> = self.broken.iter().take(5).map(String::as_str).collect();
        assert!(shown.is_empty(), "{} of {} cuts:\n{}", self.broken.len(), self.cuts, shown.join("\n"));
    }
}

/// Why what was left behind is not what was promised.
fn objection(place: &Place<'_>, way: &Way, aftermath: &Aftermath) -> Option<String> {
    let complete = |verdict: &Verdict| verdict.against_complete(place.untouched(), way.again == Again::Clean);
    let first = |verdict: &Verdict| match way.promise {
        Promise::Nothing => None,
        Promise::Names => verdict.against_missing(),
        Promise::AtEnd if !aftermath.ended_well => None,
        Promise::AtEnd => verdict.against_complete(place.untouched(), true),
        Promise::Always if !aftermath.ended_well => verdict.against_old_or_new(),
        Promise::Always => verdict.against_complete(place.untouched(), true),
    };
    let objection = match &aftermath.verdict {
        _ if way.promise == Promise::Nothing => None,
        Ok(verdict) => first(verdict),
        Err(words) => Some(words.clone()),
    };
    let again = || match aftermath.again.as_ref()? {
        Ok(verdict) => complete(verdict).map(|words| format!("made again: {words}")),
        Err(words) => Some(words.clone()),
    };
    objection.or_else(again)
}
