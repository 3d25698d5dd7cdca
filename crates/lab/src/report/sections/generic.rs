//! A section that has no room of its own: its cases as tables, its details as tables and drawings.

use haul_measure::{stats, words};

use super::copies;
use super::heading::begun;
use crate::results::{Body, Results, Section};
use crate::view::{Cell, Chart, Kind, Table, View};

pub fn view(results: &Results, section: &Section) -> View {
    let mut view = begun(section, "");
    if !section.cases.is_empty() {
        view.summary.push(copies::measured(results, section));
        view.summary.extend(section.groups().iter().filter_map(|(name, cases)| copies::quickest(name, cases)));
        view.charts.extend(copies::bars(section));
    }
    copies::fill(&mut view, section);
    for detail in &section.details {
        show(&mut view, &detail.name, &detail.body);
    }
    if view.summary.is_empty() {
        view.summary.push("It was measured; the figures are below.".to_owned());
    }
    view
}

fn show(view: &mut View, name: &str, body: &Body) {
    match body {
        Body::Samples { unit, series } => {
            let row = |(name, values): (&String, &Vec<f64>)| {
                let spread = stats::spread(values)?;
                let figures =
                    [spread.median, spread.min, spread.max].map(|value| Cell::figure(value, words::short(value)));
                Some([Cell::text(name), Cell::count(spread.count)].into_iter().chain(figures).collect())
            };
            let heads = ["values".to_owned(), format!("median, {unit}"), "least".to_owned(), "most".to_owned()];
            view.tables.push(Table::new(name, "", series.iter().filter_map(row)).and_figures(heads));
        }
        Body::Grid(grid) => view.charts.push(Chart::new(name, Kind::Heat { grid: grid.clone(), level: None })),
        Body::Latency(latency) => {
            let mut points = latency.percentiles.clone();
            points.retain(|point| point.0 < 100.0 && point.1.is_finite());
            view.summary.push(format!(
                "{name}: {} of {} took over {}; the longest took {}.",
                latency.over,
                latency.count,
                words::seconds(latency.threshold),
                words::seconds(latency.longest)
            ));
            let threshold = Some((latency.threshold, "what is counted as long".to_owned()));
            let kind = Kind::Latency { series: vec![(name.to_owned(), points)], threshold };
            view.charts.push(Chart::new(name, kind));
        }
        Body::Facts { rows } => view.tables.push(Table::of_facts(name, "what|value|from where", rows)),
        Body::Strip { spans } => view.charts.push(Chart::new(name, Kind::Strip(spans.clone()))),
        Body::Verdict { sentences, .. } => view.summary.extend(sentences.iter().cloned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{case, results, section, timed};
    use crate::results::{Body, Detail};
    use crate::view::Kind;

    #[test]
    fn a_section_without_a_view_is_shown_with_what_was_skipped() {
        let mut unknown = section("something-new");
        unknown.complete = false;
        unknown.skipped.push("the rest".to_owned());
        unknown.cases.push(case("g", "cp", 1000, &timed(1.0)));
        let spans = vec![("used".to_owned(), 7)];
        unknown.details.push(Detail { name: "strip".to_owned(), body: Body::Strip { spans } });
        let view = super::super::views(&results(vec![unknown])).remove(0);
        assert_eq!(
            (view.title.as_str(), view.not_measured.as_slice()),
            ("something-new", &["the rest".to_owned()][..])
        );
        assert!(view.warnings[0].contains("not complete") && view.tables[0].title == "g");
        let kinds: Vec<&Kind> = view.charts.iter().map(|chart| &chart.kind).collect();
        assert!(matches!(kinds[..], [Kind::Bars { .. }, Kind::Strip(_)]));
    }
}
