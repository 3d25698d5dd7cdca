//! A section that has no room of its own: its cases as tables, its details as tables and drawings.

use haul_measure::{stats, words};

use super::copies;
use super::heading::begun;
use crate::results::{Body, Results, Section};
use crate::view::{Cell, Chart, Column, Table, View};

/// The section as it is shown.
pub fn view(results: &Results, section: &Section) -> View {
    let mut view = begun(section, "");
    if !section.cases.is_empty() {
        view.summary.push(copies::measured(results, section));
        for (name, cases) in copies::groups(section) {
            view.summary.extend(copies::quickest(name, &cases));
        }
        view.charts.extend(copies::bars(section, "Time until the copier returned"));
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
    let title = name.to_owned();
    match body {
        Body::Samples { unit, series } => {
            let row = |(name, values): (&String, &Vec<f64>)| {
                let spread = stats::spread(values)?;
                let figure = |value: f64| Cell::figure(value, words::short(value));
                let count = Cell::figure(spread.count as f64, spread.count.to_string());
                Some(vec![Cell::text(name), count, figure(spread.median), figure(spread.min), figure(spread.max)])
            };
            let heads = ["values".to_owned(), format!("median, {unit}"), "least".to_owned(), "most".to_owned()];
            let mut columns = vec![Column::words("")];
            columns.extend(heads.into_iter().map(Column::figures));
            view.tables.push(Table { title, columns, rows: series.iter().filter_map(row).collect(), note: None });
        }
        Body::Grid { unit, rows, columns, values } => view.charts.push(Chart::Heat {
            title,
            unit: unit.clone(),
            rows: rows.clone(),
            columns: columns.clone(),
            values: values.clone(),
            level: None,
        }),
        Body::Latency { count, over, threshold, percentiles, longest } => {
            let mut points: Vec<(f64, f64)> = percentiles.iter().copied().filter(|point| point.0 < 100.0).collect();
            points.retain(|point| point.1.is_finite());
            view.summary.push(format!(
                "{name}: {over} of {count} took over {}; the longest took {}.",
                words::seconds(*threshold),
                words::seconds(*longest)
            ));
            let series = vec![(name.to_owned(), points)];
            let threshold = Some((*threshold, "what is counted as long".to_owned()));
            view.charts.push(Chart::Latency { title, series, threshold });
        }
        Body::Facts { rows } => {
            let columns = vec![Column::words("what"), Column::words("value"), Column::words("from where")];
            let row = |(name, value, from): &(String, String, String)| [name, value, from].map(Cell::text).to_vec();
            view.tables.push(Table { title, columns, rows: rows.iter().map(row).collect(), note: None });
        }
        Body::Strip { spans } => view.charts.push(Chart::Strip { title, spans: spans.clone() }),
        Body::Verdict { sentences, .. } => view.summary.extend(sentences.iter().cloned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{case, results, section, timed};
    use crate::results::{Body, Detail};
    use crate::view::Chart;

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
        assert!(matches!(view.charts[..], [Chart::Bars { .. }, Chart::Strip { .. }]));
    }
}
