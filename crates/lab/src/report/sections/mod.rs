//! What each section shows.

mod async_tree;
pub mod claims;
mod compare;
mod copies;
mod heading;
mod in_kernel;
mod mapped_copy;
mod sparse_image;

#[cfg(test)]
pub(crate) mod test_support;

use crate::experiments::{mapped_write, probe, tune};
use crate::report::text::clipped;
use crate::results::{Results, Section};
use crate::view::{Cell, Chart, Claim, Column, Kind, Table, View};

pub use heading::title;

/// The five experiments, in the order in which they are run.
pub const EXPERIMENTS: [&str; 5] = ["mapped-copy", "in-kernel", "mapped-write", "async-tree", "sparse-image"];

/// The command that runs all of them.
pub const ALL: &str = "reproduce";

/// The sections in their order, each as it is shown.
pub fn views(results: &Results) -> Vec<View> {
    let results = &tamed(results);
    let sections = &results.sections;
    let mut views: Vec<View> = sections.iter().map(|section| completed(view(results, section), section)).collect();
    for (number, section) in sections.iter().enumerate() {
        let same: Vec<usize> = (0..sections.len()).filter(|other| sections[*other].name == section.name).collect();
        if same.len() > 1 {
            views[number].title.push_str(&format!(": {}", place(results, section)));
        }
        if same.len() > 1 && same.last() == Some(&number) {
            let places = same.iter().map(|other| (place(results, &sections[*other]), &views[*other]));
            let table = claims_by_place(&places.collect::<Vec<_>>());
            views[number].tables.extend(table);
        }
    }
    views
}

/// Where a section was measured, with the kind of its device: `/mnt (rotational)`.
fn place(results: &Results, section: &Section) -> String {
    let Some(place) = results.place_of(section) else { return section.place.clone() };
    let kind = match place.device.as_ref().and_then(|device| device.rotational) {
        Some(true) => "rotational",
        Some(false) => "not rotational",
        None => "no disk that the kernel knows",
    };
    // Of a copy from one directory to another.
    let from = section.settings.get("source").map(|from| format!("from {from} to ")).unwrap_or_default();
    format!("{from}{} ({kind})", place.directory)
}

/// Which of the published claims hold in which of several places.
fn claims_by_place(places: &[(String, &View)]) -> Option<Table> {
    let claims = |view: &View| view.published.clone().map_or_else(Vec::new, |published| published.claims);
    let claims: Vec<Vec<Claim>> = places.iter().map(|(_, view)| claims(view)).collect();
    let row = |(number, claim): (usize, &Claim)| {
        let verdict = |claims: &Vec<Claim>| Cell::text(claims.get(number).map_or("-", Claim::verdict));
        let says = std::iter::once(Cell::text(&claim.says));
        std::iter::once(Cell::text((number + 1).to_string())).chain(claims.iter().map(verdict)).chain(says).collect()
    };
    let table = Table::new("Which claims hold where", "claim", claims.first()?.iter().enumerate().map(row));
    let mut table = table.and_figures(places.iter().map(|(place, _)| place));
    table.columns.push(Column::from("what was published"));
    table.if_any()
}

/// How many of the published claims about a section, by its name and place, cannot be decided by the runs that there are.
pub fn undecided(results: &Results, (name, place): (&str, &str)) -> usize {
    let section = results.sections.iter().find(|section| section.name == name && section.place == place);
    let view = section.map(|section| view(results, section));
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

/// Each section has a module of its own; cases of one that a later version has are shown as a comparison.
fn view(results: &Results, section: &Section) -> View {
    let view = match section.name.as_str() {
        "mapped-copy" => mapped_copy::view,
        "in-kernel" => in_kernel::view,
        "async-tree" => async_tree::view,
        "sparse-image" => sparse_image::view,
        "mapped-write" => mapped_write::view,
        "probe" => probe::view::view,
        "tune" => tune::view::view,
        _ => compare::view,
    };
    view(results, section)
}

/// A drawing for the first screen: of several groups of bars the last, which is the one of the largest files.
fn picture(chart: &Chart) -> Chart {
    let mut chart = chart.clone();
    if let Kind::Bars { groups, .. } = &mut chart.kind {
        groups.drain(..groups.len().saturating_sub(1));
    }
    chart
}

/// What holds for all sections, whoever made the view.
fn completed(mut view: View, section: &Section) -> View {
    for reason in &section.skipped {
        if !view.not_measured.contains(reason) {
            view.not_measured.push(reason.clone());
        }
    }
    view.picture = view.picture.or_else(|| view.charts.first().map(picture));
    if !section.complete {
        view.warnings
            .insert(0, "This section is not complete: it was ended before everything was measured.".to_owned());
    }
    view
}

#[cfg(test)]
mod tests {
    use super::test_support::{case, results, section, timed};

    #[test]
    fn an_unknown_section_is_shown_with_its_cases_and_what_was_skipped() {
        let mut unknown = section("something-new");
        unknown.complete = false;
        unknown.skipped.push("the rest".to_owned());
        unknown.cases.push(case("g", "cp", 1000, &timed(1.0)));
        let view = super::views(&results(vec![unknown])).remove(0);
        assert_eq!(
            (view.title.as_str(), view.not_measured.as_slice()),
            ("something-new", &["the rest".to_owned()][..])
        );
        assert!(view.warnings[0].contains("not complete") && view.tables[0].title == "g");
    }
}
