//! A report on a terminal: plain letters, in the width that there is.

use std::fmt::Write as _;

use super::text::{clipped, shown};
use super::{Page, tabular};
use crate::view::{BarGroup, Cell, Chart, Mark, Published, Table, View};
use crate::words::short;

/// The narrowest and the widest that is used.
pub const NARROWEST: usize = 40;
/// The widest.
pub const WIDEST: usize = 10_000;
/// The most letters of a name of a row.
const NAME: usize = 40;

/// The report in lines of at most `width` letters, but for words that are longer.
pub fn page(page: &Page, width: usize) -> String {
    let width = width.clamp(NARROWEST, WIDEST);
    let mut text = format!("{}\n", shown(&page.title));
    paragraph(&mut text, &page.subtitle, "", width);
    text.push('\n');
    for note in &page.notes {
        paragraph(&mut text, note, "! ", width);
    }
    head(&mut text, "What was measured", '=');
    for (view, (_, words)) in page.views.iter().zip(&page.summary) {
        paragraph(&mut text, &format!("{}: {words}", view.title), "- ", width);
    }
    if !page.not_measured.is_empty() {
        head(&mut text, "What was not measured", '-');
        for (what, why) in &page.not_measured {
            paragraph(&mut text, &format!("{what}: {why}"), "- ", width);
        }
    }
    for view in &page.views {
        section(&mut text, view, width);
    }
    head(&mut text, "What it was measured on", '=');
    for shown in &page.environment {
        table(&mut text, shown, width);
    }
    text.push_str("\n* the best of its group   ! a wrong copy or a failure   (least to most)\n");
    text
}

fn head(text: &mut String, title: &str, line: char) {
    let title = shown(title);
    let line: String = std::iter::repeat_n(line, letters(&title)).collect();
    write!(text, "\n{title}\n{line}\n").unwrap_or_default();
}

/// How many columns a text takes: letters of East Asia take two.
fn letters(text: &str) -> usize {
    text.chars().map(|letter| if (letter as u32) < 0x1100 { 1 } else { 2 }).sum()
}

/// Words in lines, the first behind `mark`, the others as far in.
fn paragraph(text: &mut String, words: &str, mark: &str, width: usize) {
    let mut line = mark.to_owned();
    let indent = " ".repeat(mark.len());
    let mut used = mark.len();
    let mut first = true;
    for word in shown(words).split(' ') {
        if !first && used + 1 + letters(word) > width {
            writeln!(text, "{line}").unwrap_or_default();
            (line, used, first) = (indent.clone(), indent.len(), true);
        }
        if !first {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += letters(word);
        first = false;
    }
    writeln!(text, "{line}").unwrap_or_default();
}

fn section(text: &mut String, view: &View, width: usize) {
    head(text, &view.title, '=');
    if !view.question.is_empty() {
        paragraph(text, &view.question, "", width);
        text.push('\n');
    }
    for sentence in &view.summary {
        paragraph(text, sentence, "", width);
    }
    for warning in &view.warnings {
        paragraph(text, warning, "! ", width);
    }
    for chart in &view.charts {
        match (chart, tabular::of(chart)) {
            (Chart::Bars { title, unit, groups }, _) => bars(text, title, unit, groups, width),
            (_, Some(drawn)) => table(text, &drawn, width),
            (_, None) => {}
        }
    }
    for shown in &view.tables {
        table(text, shown, width);
    }
    if let Some(shown) = &view.published {
        published(text, shown, width);
    }
    if !view.not_measured.is_empty() {
        head(text, "Not measured here", '-');
        for reason in &view.not_measured {
            paragraph(text, reason, "- ", width);
        }
    }
}

fn published(text: &mut String, published: &Published, width: usize) {
    head(text, "What others have published", '-');
    paragraph(text, &published.by, "", width);
    table(text, &published.table, width);
    text.push('\n');
    for claim in &published.claims {
        let verdict = match claim.agrees {
            Some(true) => "[agrees]        ",
            Some(false) => "[does not agree]",
            None => "[cannot say]    ",
        };
        paragraph(text, &format!("{}. {}", claim.says, claim.here), &format!("{verdict} "), width.max(60));
    }
}

fn bars(text: &mut String, title: &str, unit: &str, groups: &[BarGroup], width: usize) {
    write!(text, "\n{}\n", shown(title)).unwrap_or_default();
    let all = || groups.iter().flat_map(|group| &group.bars);
    let names = all().map(|bar| letters(&name(&bar.name))).max().unwrap_or(0);
    let room = width.saturating_sub(names + 16 + letters(unit)).clamp(4, 60);
    for group in groups {
        if !group.name.is_empty() {
            writeln!(text, "{}", shown(&group.name)).unwrap_or_default();
        }
        let most = group.bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
        for bar in &group.bars {
            let length = (bar.value / most * room as f64).round().clamp(1.0, room as f64) as usize;
            let sign = if bar.base { "=" } else { "#" };
            let label = padded(&name(&bar.name), names, false);
            let drawn = sign.repeat(length);
            writeln!(text, "  {label} {drawn} {} {unit}", short(bar.value)).unwrap_or_default();
        }
    }
}

fn name(text: &str) -> String {
    clipped(&shown(text), NAME)
}

fn padded(text: &str, width: usize, right: bool) -> String {
    let space = " ".repeat(width.saturating_sub(letters(text)));
    if right { space + text } else { text.to_owned() + &space }
}

fn cell_text(cell: &Cell) -> String {
    match cell.mark {
        Mark::Best => format!("*{}", shown(&cell.text)),
        Mark::Bad => format!("!{}", shown(&cell.text)),
        _ => shown(&cell.text),
    }
}

/// A table; if it is too wide, its columns come in several pieces, each with the first column.
fn table(text: &mut String, table: &Table, width: usize) {
    if table.rows.is_empty() {
        return;
    }
    if !table.title.is_empty() {
        write!(text, "\n{}\n", shown(&table.title)).unwrap_or_default();
    }
    let field = |row: &[Cell], column: usize| {
        let text = row.get(column).map(cell_text).unwrap_or_default();
        if column == 0 { clipped(&text, NAME) } else { text }
    };
    let widths: Vec<usize> = (0..table.columns.len())
        .map(|column| {
            let cells = table.rows.iter().map(|row| letters(&field(row, column))).max().unwrap_or(0);
            cells.max(table.columns.get(column).map_or(0, |head| letters(&shown(&head.name))))
        })
        .collect();
    for piece in pieces(&widths, width) {
        let heads = piece.iter().filter_map(|column| Some((*column, shown(&table.columns.get(*column)?.name))));
        text.push_str(&line(heads, table, &widths));
        for row in &table.rows {
            text.push_str(&line(piece.iter().map(|column| (*column, field(row, *column))), table, &widths));
        }
    }
    if let Some(note) = &table.note {
        paragraph(text, note, "  ", width);
    }
}

fn line(fields: impl Iterator<Item = (usize, String)>, table: &Table, widths: &[usize]) -> String {
    let fields: Vec<String> = fields
        .map(|(column, text)| {
            let figures = table.columns.get(column).is_some_and(|head| head.figures);
            padded(&text, widths.get(column).copied().unwrap_or(0), figures)
        })
        .collect();
    format!("  {}\n", fields.join("  ").trim_end())
}

/// Which columns stand beside each other.
fn pieces(widths: &[usize], width: usize) -> Vec<Vec<usize>> {
    let first = widths.first().copied().unwrap_or(0);
    let mut pieces = Vec::new();
    let mut piece = vec![0];
    let mut used = 2 + first;
    for (column, wide) in widths.iter().enumerate().skip(1) {
        if piece.len() > 1 && used + 2 + wide > width {
            pieces.push(std::mem::replace(&mut piece, vec![0]));
            used = 2 + first;
        }
        piece.push(column);
        used += 2 + wide;
    }
    pieces.push(piece);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Column;

    #[test]
    fn a_table_that_is_too_wide_comes_in_pieces_with_its_names() {
        let mut text = String::new();
        let wide = Table {
            title: "t".to_owned(),
            columns: vec![Column::words("who"), Column::figures("first figure"), Column::figures("second figure")],
            rows: vec![vec![Cell::text("cp"), Cell::text("1"), Cell::text("2").marked(Mark::Best)]],
            note: None,
        };
        table(&mut text, &wide, 26);
        assert_eq!(text, "\nt\n  who  first figure\n  cp              1\n  who  second figure\n  cp              *2\n");
        text.clear();
        table(&mut text, &wide, 80);
        assert_eq!(text, "\nt\n  who  first figure  second figure\n  cp              1             *2\n");
    }

    #[test]
    fn words_are_broken_at_the_width_and_nothing_a_terminal_obeys_is_printed() {
        let mut text = String::new();
        paragraph(&mut text, "one two three \u{1b}[31mfour", "- ", 12);
        assert_eq!(text, "- one two\n  three\n  ?[31mfour\n");
    }
}
