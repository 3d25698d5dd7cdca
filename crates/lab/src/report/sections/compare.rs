//! Copiers against each other on a source of the user.

use std::cmp::Ordering;

use haul_measure::words;

use super::copies;
use super::heading::begun;
use crate::results::{Case, Results, Section};
use crate::view::View;

pub fn view(results: &Results, section: &Section) -> View {
    let mut view = begun(section, "How fast does each tool copy this source, and at what cost?");
    for (name, cases) in section.groups() {
        view.summary.extend(copies::quickest(name, &cases));
        view.summary.extend(copies::base(&cases).and_then(|base| against(base, &cases)));
    }
    view.summary.push(copies::measured(results, section));
    view.charts.extend(copies::bars(&section.groups()));
    copies::fill(&mut view, section);
    view
}

/// Which tools are quicker than the base, slower, or not significantly different.
fn against(base: &Case, cases: &[&Case]) -> Option<String> {
    let others = || cases.iter().copied().filter(|case| case.is_ranked() && !std::ptr::eq(*case, base));
    let side = |case| copies::ratio(Some(case), Some(base), copies::RETURNED).and_then(|ratio| ratio.side(1.0));
    let names = |wanted: Option<Ordering>| {
        others().filter(|case| side(*case) == wanted).map(|case| case.competitor.clone()).collect::<Vec<_>>()
    };
    let mut parts = Vec::new();
    for (side, word) in [(Ordering::Greater, "slower"), (Ordering::Less, "quicker")] {
        let names = names(Some(side));
        if !names.is_empty() {
            let be = if names.len() == 1 { "is" } else { "are" };
            parts.push(format!("{} {be} {word} than {}", words::list(&names), base.competitor));
        }
    }
    let open = names(None);
    if !open.is_empty() {
        parts.push(format!("{}: no significant difference to {}", words::list(&open), base.competitor));
    }
    (!parts.is_empty()).then(|| format!("{}.", parts.join("; ")))
}
