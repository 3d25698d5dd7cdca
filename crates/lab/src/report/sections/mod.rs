//! What each section shows.

mod async_tree;
pub mod claims;
mod compare;
mod copies;
mod generic;
mod heading;
mod in_kernel;
mod mapped_copy;
mod sparse_image;

#[cfg(test)]
pub(crate) mod test_support;

use crate::experiments::{mapped_write, probe, tune};
use crate::report::text::clipped;
use crate::results::{Results, Section};
use crate::view::View;

pub use heading::title;

/// The five experiments, in the order in which they are run.
pub const EXPERIMENTS: [&str; 5] = ["mapped-copy", "in-kernel", "mapped-write", "async-tree", "sparse-image"];

/// The sections in their order, each as it is shown.
pub fn views(results: &Results) -> Vec<View> {
    let results = &tamed(results);
    results.sections.iter().map(|section| completed(view(results, section), section)).collect()
}

/// How many of the published claims about a section cannot be decided by the runs that there are.
pub fn undecided(results: &Results, name: &str) -> usize {
    let view = results.section(name).map(|section| view(results, section));
    let claims = view.and_then(|view| view.published).map(|published| published.claims).unwrap_or_default();
    claims.iter().filter(|claim| claim.is_undecided()).count()
}

/// The most letters of a name.
const LONGEST: usize = 160;

/// The same with names that are not longer than fits a sentence. They are cut before anything is made of them, so that
/// all of a report calls one thing by one name.
fn tamed(results: &Results) -> Results {
    let mut results = results.clone();
    for case in results.sections.iter_mut().flat_map(|section| &mut section.cases) {
        case.group = clipped(&case.group, LONGEST);
        case.competitor = clipped(&case.competitor, LONGEST);
    }
    results
}

/// Each section has a room of its own here; what has none is shown by [`generic`].
fn view(results: &Results, section: &Section) -> View {
    let view = match section.name.as_str() {
        "mapped-copy" => mapped_copy::view,
        "in-kernel" => in_kernel::view,
        "async-tree" => async_tree::view,
        "sparse-image" => sparse_image::view,
        "compare" => compare::view,
        "mapped-write" => mapped_write::view,
        "probe" => probe::view::view,
        "tune" => tune::view::view,
        _ => generic::view,
    };
    view(results, section)
}

/// What holds for all sections, whoever made the view.
fn completed(mut view: View, section: &Section) -> View {
    for reason in &section.skipped {
        if !view.not_measured.contains(reason) {
            view.not_measured.push(reason.clone());
        }
    }
    if !section.complete {
        view.warnings
            .insert(0, "This section is not complete: it was ended before everything was measured.".to_owned());
    }
    view
}
