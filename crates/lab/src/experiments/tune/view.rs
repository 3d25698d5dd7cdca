//! What people see of a tuning.

use std::collections::BTreeMap;

use haul_measure::{stats, words};

use super::{CONFIRMATION, DEFAULTS, judge};
use crate::results::{Body, Case, Fact, Outcome, Results, Section};
use crate::view::{Cell, Mark, Table, View};

pub fn view(results: &Results, section: &Section) -> View {
    let verdict = match section.detail("verdict") {
        Some(Body::Verdict { sentences, .. }) => sentences.clone(),
        _ => vec!["The search was not finished, and nothing was written.".to_owned()],
    };
    let place = results.place_of(section);
    let title = place.map_or_else(String::new, |place| format!(" in {} ({})", place.directory, place.filesystem));
    View {
        summary: verdict,
        not_measured: section.skipped.clone(),
        warnings: warnings(section),
        tables: [chosen(section), confirmed(section)].into_iter().flatten().chain(searched(section)).collect(),
        ..View::of(
            section,
            &format!("Settings for copies{title}"),
            "Is there a setting that beats haul's own choice on this storage?",
        )
    }
}

/// Wrong copies, above all.
fn warnings(section: &Section) -> Vec<String> {
    let shown = |case: &Case| match &case.outcome {
        Outcome::Wrong(why) => Some(format!("{}, {}: the copy is WRONG: {why}", case.group, case.competitor)),
        Outcome::Failed(why) => Some(format!("{}, {}: {why}", case.group, case.competitor)),
        _ => None,
    };
    section.cases.iter().filter_map(shown).collect()
}

fn chosen(section: &Section) -> Option<Table> {
    let Some(Body::Facts { rows }) = section.detail("chosen") else { return None };
    let row = |(files, setting, why): &Fact| {
        let mark = if setting == DEFAULTS || setting == "not tuned" { Mark::None } else { Mark::Best };
        vec![Cell::text(files), Cell::text(setting).marked(mark), Cell::text(why)]
    };
    Some(Table::new("What was chosen", "files|setting|why", rows.iter().map(row)))
}

/// Pairs of durable times with the defaults of the same round.
fn pairs(defaults: &Case, case: &Case) -> Vec<judge::Pair> {
    defaults.runs.iter().zip(&case.runs).map(|(defaults, run)| (defaults.durable, run.durable)).collect()
}

fn confirmed(section: &Section) -> Option<Table> {
    let mut rows = Vec::new();
    for (name, cases) in section.groups().into_iter().filter(|(name, _)| name.ends_with(CONFIRMATION)) {
        let Some(defaults) = cases.iter().find(|case| case.base) else { continue };
        for case in cases.iter().filter(|case| !case.base) {
            let pairs = pairs(defaults, case);
            let gain = judge::gain(&pairs).unwrap_or(0.0);
            let mark = if judge::wins(&pairs) { Mark::Best } else { Mark::Faint };
            rows.push(vec![
                Cell::text(name.trim_end_matches(CONFIRMATION)),
                Cell::text(&case.competitor),
                time(&defaults.figures(|run| run.durable)),
                time(&case.figures(|run| run.durable)),
                time(&defaults.figures(|run| run.returned)),
                time(&case.figures(|run| run.returned)),
                Cell::figure(gain, words::short(gain)).marked(mark),
                Cell::count(pairs.len()),
            ]);
        }
    }
    let heads =
        "files|setting|>defaults, durable|>setting, durable|>defaults, returned|>setting, returned|>gain|>pairs";
    Table::new("On fresh files, which the setting was not chosen on", heads, rows)
        .noted("Medians; the gain is the median of the ratios of durable times, pair by pair.")
        .if_any()
}

fn searched(section: &Section) -> Vec<Table> {
    let table = |(name, cases): (&str, Vec<&Case>)| {
        let defaults = cases.iter().find(|case| case.base)?;
        let gains: BTreeMap<&str, f64> = cases
            .iter()
            .filter(|case| !case.base)
            .filter_map(|case| Some((case.competitor.as_str(), judge::gain(&pairs(defaults, case))?)))
            .collect();
        let mut cases = cases.clone();
        let key = |case: &Case| {
            if case.base { f64::INFINITY } else { gains.get(case.competitor.as_str()).copied().unwrap_or(0.0) }
        };
        cases.sort_by(|a, b| key(b).total_cmp(&key(a)));
        let row = |case: &&Case| {
            let gain = match (&case.outcome, gains.get(case.competitor.as_str())) {
                (Outcome::Wrong(_), _) => Cell::text("wrong").marked(Mark::Bad),
                (Outcome::Failed(_), _) => Cell::text("failed").marked(Mark::Bad),
                (_, Some(gain)) => Cell::figure(*gain, words::short(*gain)),
                (_, None) => Cell::text(""),
            };
            let [durable, returned] = [case.figures(|run| run.durable), case.figures(|run| run.returned)];
            vec![Cell::text(&case.competitor), time(&durable), time(&returned), gain, Cell::count(case.runs.len())]
        };
        let heads = "setting|>durable|>returned|>gain|>runs";
        let note = format!("{} in each copy. What falls behind is not run again.", words::bytes(defaults.bytes));
        Some(Table::new(format!("The search: {name}"), heads, cases.iter().map(row)).noted(note))
    };
    section.groups().into_iter().filter(|(name, _)| !name.ends_with(CONFIRMATION)).filter_map(table).collect()
}

fn time(seconds: &[f64]) -> Cell {
    Cell::seconds(stats::median(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Cache, Detail, Environment, Run};

    fn case(group: &str, competitor: &str, durable: &[f64], outcome: Outcome) -> Case {
        Case {
            group: group.to_owned(),
            competitor: competitor.to_owned(),
            base: competitor == DEFAULTS,
            parameters: BTreeMap::new(),
            cache: Cache::Warm,
            bytes: 1 << 20,
            runs: durable.iter().map(|durable| Run { durable: *durable, ..Run::default() }).collect(),
            outcome,
            warnings: Vec::new(),
        }
    }

    #[test]
    fn the_gain_on_fresh_files_is_shown_and_wrong_copies_are_warned_about() {
        let mut section = Section::new("tune", "directory");
        let fresh = format!("small{CONFIRMATION}");
        section.cases = vec![
            case("small", DEFAULTS, &[2.0, 2.0], Outcome::Right),
            case("small", "mapped", &[1.0, 1.0], Outcome::Right),
            case("small", "splice", &[], Outcome::Wrong("f0 differs".to_owned())),
            case(&fresh, DEFAULTS, &[1.2; 7], Outcome::Right),
            case(&fresh, "mapped", &[1.0; 7], Outcome::Right),
        ];
        let chosen = Body::Facts { rows: vec![("small".to_owned(), "mapped".to_owned(), "faster".to_owned())] };
        section.details.push(Detail { name: "chosen".to_owned(), body: chosen });
        let view = view(&Results::new(Vec::new(), 0, Environment::default()), &section);
        assert_eq!(view.tables.len(), 3);
        assert_eq!(view.tables[1].rows[0][6], Cell::figure(1.2, "1.2").marked(Mark::Best));
        assert!(view.warnings[0].contains("WRONG"));
        assert!(view.tables.iter().all(|table| table.rows.iter().all(|row| row.len() == table.columns.len())));
        assert_eq!(view.tables[2].rows[0][0].text, DEFAULTS, "above what is compared with them");
    }
}
