//! A report as Markdown, in the dialect with tables. Drawings are tables there.

use std::fmt::Write as _;

use super::text::shown;
use super::{Page, tabular};
use crate::view::{Cell, Chart, Mark, Published, Table, View};

/// Text that means itself in Markdown, also in a field of a table.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in shown(text).chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '$' => {
                safe.push('\\');
                safe.push(letter);
            }
            other => safe.push(other),
        }
    }
    safe
}

/// The report.
pub fn page(page: &Page) -> String {
    let mut text = format!("# {}\n\n{}\n\n", escaped(&page.title), escaped(&page.subtitle));
    list(&mut text, "", page.notes.iter().map(|note| escaped(note)));
    write!(text, "## What was measured\n\n{}\n\n", escaped(&page.scope)).unwrap_or_default();
    let measured = page.views.iter().zip(&page.summary);
    list(&mut text, "", measured.map(|(view, (_, words))| format!("**{}**: {}", escaped(&view.title), escaped(words))));
    let missing = page.not_measured.iter().map(|(what, why)| format!("{}: {}", escaped(what), escaped(why)));
    list(&mut text, "### What was not measured", missing);
    for view in &page.views {
        section(&mut text, view);
    }
    text.push_str("## What it was measured on\n\n");
    for shown in &page.environment {
        table(&mut text, shown);
    }
    text
}

fn list(text: &mut String, head: &str, items: impl Iterator<Item = String>) {
    let items: Vec<String> = items.collect();
    if items.is_empty() {
        return;
    }
    if !head.is_empty() {
        write!(text, "{head}\n\n").unwrap_or_default();
    }
    for item in items {
        writeln!(text, "- {item}").unwrap_or_default();
    }
    text.push('\n');
}

fn section(text: &mut String, view: &View) {
    write!(text, "## {}\n\n", escaped(&view.title)).unwrap_or_default();
    if !view.question.is_empty() {
        write!(text, "_{}_\n\n", escaped(&view.question)).unwrap_or_default();
    }
    for sentence in &view.summary {
        write!(text, "{}\n\n", escaped(sentence)).unwrap_or_default();
    }
    list(text, "", view.warnings.iter().map(|warning| escaped(warning)));
    for drawn in view.charts.iter().filter_map(tabular::of) {
        table(text, &drawn);
    }
    for chart in view.charts.iter().filter(|chart| matches!(chart, Chart::Bars { .. }) && view.tables.is_empty()) {
        write!(text, "{}\n\n", escaped(&super::chart::label(chart))).unwrap_or_default();
    }
    if let Some(shown) = &view.published {
        published(text, shown);
    }
    for shown in &view.tables {
        table(text, shown);
    }
    list(text, "### Not measured here", view.not_measured.iter().map(|reason| escaped(reason)));
}

fn published(text: &mut String, published: &Published) {
    write!(text, "### What others have published\n\n{}\n\n", escaped(&published.by)).unwrap_or_default();
    table(text, &published.table);
    let claims = published.claims.iter().map(|claim| {
        let verdict = match claim.agrees {
            Some(true) => "agrees",
            Some(false) => "does not agree",
            None => "cannot say",
        };
        format!("{}: **{verdict}**. {}", escaped(&claim.says), escaped(&claim.here))
    });
    list(text, "", claims);
}

fn table(text: &mut String, table: &Table) {
    if table.rows.is_empty() {
        return;
    }
    if !table.title.is_empty() {
        write!(text, "**{}**\n\n", escaped(&table.title)).unwrap_or_default();
    }
    let heads: Vec<String> = table.columns.iter().map(|column| escaped(&column.name)).collect();
    writeln!(text, "| {} |", heads.join(" | ")).unwrap_or_default();
    let rules: Vec<&str> = table.columns.iter().map(|column| if column.figures { "---:" } else { "---" }).collect();
    writeln!(text, "| {} |", rules.join(" | ")).unwrap_or_default();
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(field).collect();
        writeln!(text, "| {} |", cells.join(" | ")).unwrap_or_default();
    }
    text.push('\n');
    if let Some(note) = &table.note {
        write!(text, "{}\n\n", escaped(note)).unwrap_or_default();
    }
}

fn field(cell: &Cell) -> String {
    let text = escaped(&cell.text);
    match cell.mark {
        Mark::Best | Mark::Bad if !text.is_empty() => format!("**{text}**"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Column;

    #[test]
    fn a_field_of_a_table_cannot_break_it() {
        let mut text = String::new();
        table(
            &mut text,
            &Table {
                title: String::new(),
                columns: vec![Column::words("a|b"), Column::figures("s")],
                rows: vec![vec![Cell::text("x | y\n<b> `c` *d* [e](f)"), Cell::text("1").marked(Mark::Best)]],
                note: None,
            },
        );
        assert_eq!(text, "| a\\|b | s |\n| --- | ---: |\n| x \\| y?&lt;b&gt; \\`c\\` \\*d\\* \\[e\\](f) | **1** |\n\n");
    }
}
