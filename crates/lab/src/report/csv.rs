//! All figures of a report as one long list, for other programs: `section,table,row,name,column,value,text`.
//!
//! There is one line for each field of each table, and behind them one for each figure of each run. `row` is the number of
//! the row within its table, from 1; `name` is what its columns of words say; `value` is the bare figure, in the unit that
//! `column` names, else in seconds or bytes, or as a share of 1; it is empty where a field is words. The unit of a table's times
//! is one that suits them; those of runs are always seconds. Lines end as RFC 4180 has it.

use super::tabular;
use super::text::shown;
use crate::results::{Results, Run};
use crate::view::{Table, View};

pub const HEAD: &str = "section,table,row,name,column,value,text";

pub fn page(views: &[View], results: &Results) -> String {
    let mut text = format!("{HEAD}\r\n");
    for view in views {
        for drawn in view.charts.iter().filter_map(tabular::of) {
            table(&mut text, &view.name, &drawn);
        }
        for shown in &view.tables {
            table(&mut text, &view.name, shown);
        }
        if let Some(published) = &view.published {
            let named = Table { title: format!("published: {}", published.table.title), ..published.table.clone() };
            table(&mut text, &view.name, &named);
            for (number, claim) in published.claims.iter().enumerate() {
                let number = (number + 1).to_string();
                line(&mut text, &[&view.name, "claims", &number, &claim.says, "verdict", "", claim.verdict()]);
            }
        }
    }
    runs(&mut text, results);
    text
}

fn table(text: &mut String, section: &str, table: &Table) {
    for (number, row) in table.rows.iter().enumerate() {
        let fields = || row.iter().zip(&table.columns).enumerate();
        let words = fields().take_while(|(place, (_, column))| !column.figures || *place == 0);
        let name: Vec<&str> = words.map(|(_, (cell, _))| cell.text.as_str()).collect();
        for (place, (cell, column)) in fields() {
            if place == 0 && !column.figures && table.columns.len() > 1 {
                continue;
            }
            let value = cell.value.map(|value| value.to_string()).unwrap_or_default();
            let number = (number + 1).to_string();
            line(text, &[section, &table.title, &number, &name.join(", "), &column.name, &value, &cell.text]);
        }
    }
}

fn runs(text: &mut String, results: &Results) {
    for section in &results.sections {
        for case in &section.cases {
            let title = format!("runs: {}", case.group);
            for (number, run) in case.runs.iter().enumerate() {
                for (column, value) in figures(run) {
                    let (number, value) = ((number + 1).to_string(), value.to_string());
                    line(text, &[&section.name, &title, &number, &case.competitor, &column, &value, ""]);
                }
            }
        }
    }
}

fn figures(run: &Run) -> Vec<(String, f64)> {
    let always = [
        ("returned, s", run.returned),
        ("durable, s", run.durable),
        ("user, s", run.user),
        ("sys, s", run.system),
        ("max RSS, B", run.peak_memory as f64),
        ("minor faults", run.minor_faults as f64),
        ("major faults", run.major_faults as f64),
        ("other load, s", run.other_load),
    ];
    let devices = [("device read, B", run.device_read), ("device written, B", run.device_written)];
    let devices = devices.into_iter().filter_map(|(name, bytes)| Some((name, bytes? as f64)));
    let figures = always.into_iter().chain(devices).map(|(name, value)| (name.to_owned(), value));
    figures.chain(run.reported.iter().map(|(name, value)| (format!("reported: {name}"), *value))).collect()
}

fn line(text: &mut String, fields: &[&str]) {
    let fields: Vec<String> = fields.iter().map(|text| field(text)).collect();
    text.push_str(&fields.join(","));
    text.push_str("\r\n");
}

/// A field. What a spreadsheet would take for a formula gets an apostrophe before it; figures do not.
fn field(text: &str) -> String {
    let mut text = shown(text);
    if text.starts_with(['=', '+', '-', '@']) && text.len() > 1 && text.parse::<f64>().is_err() {
        text.insert(0, '\'');
    }
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Cell;

    #[test]
    fn fields_are_quoted_and_are_no_formulas() {
        assert_eq!(field("a,b"), "\"a,b\"");
        assert_eq!(field("say \"x\""), "\"say \"\"x\"\"\"");
        assert_eq!(field("=1+1"), "'=1+1");
        assert_eq!(field("-1.5"), "-1.5");
        assert_eq!(field("a\r\nb"), "a??b");
    }

    #[test]
    fn each_figure_has_a_line_with_its_row_and_its_column() {
        let mut text = String::new();
        let row = vec![Cell::text("g"), Cell::text("cp"), Cell::figure(1.5, "1.50")];
        table(&mut text, "s", &Table::new("t", "group|tool|>x, s", [row]));
        assert_eq!(text, "s,t,1,\"g, cp\",tool,,cp\r\ns,t,1,\"g, cp\",\"x, s\",1.5,1.50\r\n");
    }
}
