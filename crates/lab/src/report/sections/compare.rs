//! Copiers against each other on a source of the user.

use haul_measure::{stats, words};

use super::copies;
use super::heading::begun;
use crate::results::{Results, Section};
use crate::view::View;

/// The section as it is shown.
pub fn view(results: &Results, section: &Section) -> View {
    let mut view = begun(section, "How fast does each tool copy this source, and at what cost?");
    for (name, cases) in copies::groups(section) {
        view.summary.extend(copies::quickest(name, &cases));
        if let Some(base) = copies::base(&cases) {
            view.summary.extend(against(base, &cases));
        }
    }
    view.summary.push(copies::measured(results, section));
    view.charts.extend(copies::bars(section, "Time until the copier returned"));
    copies::fill(&mut view, section);
    view
}

/// Which tools are quicker than the base, slower, or not significantly different.
fn against(base: &crate::results::Case, cases: &[&crate::results::Case]) -> Option<String> {
    let others = || cases.iter().copied().filter(|case| case.is_ranked() && !std::ptr::eq(*case, base));
    let side =
        |case| copies::ratio(Some(case), Some(base), copies::returned).and_then(|ratio: stats::Ratio| ratio.side(1.0));
    let names = |wanted: Option<std::cmp::Ordering>| {
        others().filter(|case| side(*case) == wanted).map(|case| case.competitor.clone()).collect::<Vec<_>>()
    };
    let (slower, quicker, open) =
        (names(Some(std::cmp::Ordering::Greater)), names(Some(std::cmp::Ordering::Less)), names(None));
    let mut parts = Vec::new();
    for (names, word) in [(slower, "slower"), (quicker, "quicker")] {
        if !names.is_empty() {
            let be = if names.len() == 1 { "is" } else { "are" };
            parts.push(format!("{} {be} {word} than {}", words::list(&names), base.competitor));
        }
    }
    if !open.is_empty() {
        parts.push(format!("{}: no significant difference to {}", words::list(&open), base.competitor));
    }
    (!parts.is_empty()).then(|| format!("{}.", parts.join("; ")))
}
