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
    // Without an interval nothing is known, and with one there may be no side.
    let side = |case| {
        let ratio = copies::ratio(Some(case), Some(base), copies::RETURNED)?;
        ratio.interval.map(|_| ratio.side(1.0))
    };
    let names = |wanted: Option<Option<Ordering>>| {
        others().filter(|case| side(*case) == wanted).map(|case| case.competitor.clone()).collect::<Vec<_>>()
    };
    let mut parts = Vec::new();
    for (side, word) in [(Ordering::Greater, "slower"), (Ordering::Less, "quicker")] {
        let names = names(Some(Some(side)));
        if !names.is_empty() {
            let be = if names.len() == 1 { "is" } else { "are" };
            parts.push(format!("{} {be} {word} than {}", words::list(&names), base.competitor));
        }
    }
    for (open, what) in [(Some(None), "no significant difference to"), (None, "too few runs to rank against")] {
        let names = names(open);
        if !names.is_empty() {
            parts.push(format!("{}: {what} {}", words::list(&names), base.competitor));
        }
    }
    (!parts.is_empty()).then(|| format!("{}.", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{case, section, timed};
    use super::*;

    #[test]
    fn who_has_too_few_runs_is_neither_quicker_nor_level() {
        let mut section = section("compare");
        for (name, times) in
            [("haul", &timed(1.0)[..]), ("slow", &timed(2.0)), ("level", &timed(1.0)), ("few", &[0.1; 5])]
        {
            section.cases.push(case("g", name, 1000, times));
        }
        let cases: Vec<&Case> = section.cases.iter().collect();
        let said = against(cases[0], &cases).unwrap();
        let parts = "slow is slower than haul; level: no significant difference to haul; few: too few runs to rank against haul.";
        assert_eq!(said, parts);
    }
}
