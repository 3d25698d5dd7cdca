//! A report on a terminal: plain letters, in the width that there is.

use std::fmt::Write as _;

use textwrap::core::display_width;
use textwrap::{Options, WordSeparator, WordSplitter};

use super::layout::{Laid, Row};
use super::text::{Digits, clipped, shown};
use super::{Page, tabular};
use crate::view::{Bar, BarGroup, Cell, Column, Kind, Mark, Published, Table, View};

/// The narrowest and the widest that is used.
pub const NARROWEST: usize = 40;
pub const WIDEST: usize = 10_000;
/// The most letters of a name of a row.
const NAME: usize = 40;

/// Where nobody says how wide it is to be.
const USUAL: usize = 100;

/// The report in lines of at most `width` letters, but for words that are longer.
pub fn page(page: &Page, width: Option<usize>) -> String {
    let width = width.unwrap_or(USUAL).clamp(NARROWEST, WIDEST);
    let mut text = format!("{}\n", shown(&page.title));
    paragraph(&mut text, &page.subtitle, "", width);
    text.push('\n');
    for note in &page.notes {
        paragraph(&mut text, note, "! ", width);
    }
    head(&mut text, "What was measured", '=');
    paragraph(&mut text, &page.scope, "", width);
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
    let line: String = std::iter::repeat_n(line, display_width(&title)).collect();
    write!(text, "\n{title}\n{line}\n").unwrap_or_default();
}

/// Words in lines, the first behind `mark`, the others as far in.
fn paragraph(text: &mut String, words: &str, mark: &str, width: usize) {
    let indent = " ".repeat(mark.len());
    let options = Options::new(width).initial_indent(mark).subsequent_indent(&indent).break_words(false);
    let options = options.word_separator(WordSeparator::AsciiSpace).word_splitter(WordSplitter::NoHyphenation);
    writeln!(text, "{}", textwrap::fill(&shown(words), options)).unwrap_or_default();
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
        match (&chart.kind, tabular::of(chart)) {
            (_, Some(drawn)) => table(text, &drawn, width),
            (Kind::Bars { unit, groups, .. }, None) => bars(text, &chart.title, unit, groups, width),
            (_, None) => {}
        }
    }
    if let Some(shown) = &view.published {
        published(text, shown, width);
    }
    for shown in &view.tables {
        table(text, shown, width);
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
        let verdict = format!("{:16}", format!("[{}]", claim.verdict()));
        paragraph(text, &format!("{}. {}", claim.says, claim.here), &format!("{verdict} "), width.max(60));
    }
}

fn bars(text: &mut String, title: &str, unit: &str, groups: &[BarGroup], width: usize) {
    write!(text, "\n{}\n", shown(title)).unwrap_or_default();
    let all = || groups.iter().flat_map(|group| &group.bars);
    let names = all().map(|bar| display_width(&name(&bar.name))).max().unwrap_or(0);
    let rates = all().map(|bar| bar.rate.len()).max().unwrap_or(0);
    let room = width.saturating_sub(names + 16 + display_width(unit) + rates).clamp(4, 60);
    for group in groups {
        if !group.name.is_empty() {
            writeln!(text, "{}", shown(&group.name)).unwrap_or_default();
        }
        let digits = Digits::of(group.bars.iter().map(Bar::length));
        let most = group.bars.iter().map(Bar::length).fold(f64::MIN_POSITIVE, f64::max);
        for bar in &group.bars {
            let length = (bar.length() / most * room as f64).round().clamp(1.0, room as f64) as usize;
            let sign = if bar.base { "=" } else { "#" };
            let label = padded(&name(&bar.name), names, false);
            let drawn = sign.repeat(length);
            let line = format!("  {label} {drawn} {} {unit} {}", digits.say(bar.length()), bar.rate);
            writeln!(text, "{}", line.trim_end()).unwrap_or_default();
        }
    }
}

fn name(text: &str) -> String {
    clipped(&shown(text), NAME)
}

fn padded(text: &str, width: usize, right: bool) -> String {
    let space = " ".repeat(width.saturating_sub(display_width(text)));
    if right { space + text } else { text.to_owned() + &space }
}

fn cell_text(cell: &Cell) -> String {
    match cell.mark {
        Mark::Best => format!("*{}", shown(&cell.text)),
        Mark::Bad => format!("!{}", shown(&cell.text)),
        _ => shown(&cell.text),
    }
}

/// A table; if it is too wide, its columns come in several pieces, each with the names of the rows.
fn table(text: &mut String, table: &Table, width: usize) {
    if table.rows.is_empty() {
        return;
    }
    if !table.title.is_empty() {
        write!(text, "\n{}\n", shown(&table.title)).unwrap_or_default();
    }
    let wide = Wide::of(Laid::of(table));
    let mut columns: Vec<usize> = (0..wide.widths.len()).collect();
    let sum: usize = wide.widths.iter().map(|width| 2 + width).sum();
    // Words at the end that do not fit stand below.
    let words = |column: &usize| !wide.table.columns[*column].figures;
    let below = columns.last().copied().filter(|column| sum > width && columns.len() > 2 && words(column));
    if below.is_some() {
        columns.pop();
    }
    for (number, piece) in wide.pieces(&columns, width).iter().enumerate() {
        wide.piece(text, piece, number == 0);
    }
    for row in &wide.table.rows {
        let remark = below.and_then(|column| row.cells.get(column)).filter(|cell| !cell.text.is_empty());
        if let Some(remark) = remark {
            paragraph(text, &format!("{}: {}", field(row, 0), shown(&remark.text)), "  - ", width);
        }
    }
    if let Some(note) = &table.note {
        paragraph(text, note, "  ", width);
    }
}

fn field(row: &Row, column: usize) -> String {
    let text = row.cells.get(column).map(cell_text).unwrap_or_default();
    if column == 0 { clipped(&text, NAME) } else { text }
}

/// A table with the widths of its columns, each as its widest field. A reason stands across its row and makes no column wide.
struct Wide<'t> {
    table: Laid<'t>,
    widths: Vec<usize>,
}

impl<'t> Wide<'t> {
    fn of(table: Laid<'t>) -> Wide<'t> {
        let width = |(column, head): (usize, &Column)| {
            let cells = table.rows.iter().map(|row| display_width(&field(row, column)));
            cells.max().unwrap_or(0).max(display_width(&shown(&head.name)))
        };
        let widths = table.columns.iter().enumerate().map(width).collect();
        Wide { table, widths }
    }

    /// Which columns stand beside each other.
    fn pieces(&self, columns: &[usize], width: usize) -> Vec<Vec<usize>> {
        let Some((first, others)) = columns.split_first() else { return Vec::new() };
        let mut pieces = Vec::new();
        let mut piece = vec![*first];
        let mut used = 2 + self.widths[*first];
        for column in others {
            if piece.len() > 1 && used + 2 + self.widths[*column] > width {
                pieces.push(std::mem::replace(&mut piece, vec![*first]));
                used = 2 + self.widths[*first];
            }
            piece.push(*column);
            used += 2 + self.widths[*column];
        }
        pieces.push(piece);
        pieces
    }

    /// Some columns of all rows; reasons stand in the first piece only.
    fn piece(&self, text: &mut String, columns: &[usize], with_reasons: bool) {
        text.push_str(&self.line(columns, |column| shown(&self.table.columns[column].name)));
        for row in &self.table.rows {
            if let Some(group) = row.group {
                writeln!(text, " {}", clipped(&shown(group), 2 * NAME)).unwrap_or_default();
            }
            match row.reason {
                Some(reason) if with_reasons => {
                    let name = padded(&field(row, 0), self.widths[0], false);
                    writeln!(text, "  {name}  {}", cell_text(reason)).unwrap_or_default();
                }
                Some(_) => {}
                None => text.push_str(&self.line(columns, |column| field(row, column))),
            }
        }
    }

    fn line(&self, columns: &[usize], field: impl Fn(usize) -> String) -> String {
        let padded =
            |column: &usize| padded(&field(*column), self.widths[*column], self.table.columns[*column].figures);
        let fields: Vec<String> = columns.iter().map(padded).collect();
        format!("  {}\n", fields.join("  ").trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_is_too_wide_comes_in_pieces_with_its_names() {
        let mut text = String::new();
        let row = vec![Cell::text("cp"), Cell::text("1"), Cell::text("2").marked(Mark::Best)];
        let wide = Table::new("t", "tool|>first figure|>second figure", [row]);
        table(&mut text, &wide, 26);
        assert_eq!(
            text,
            "\nt\n  tool  first figure\n  cp               1\n  tool  second figure\n  cp               *2\n"
        );
        text.clear();
        table(&mut text, &wide, 80);
        assert_eq!(text, "\nt\n  tool  first figure  second figure\n  cp               1             *2\n");
    }

    #[test]
    fn words_are_broken_at_the_width_and_nothing_a_terminal_obeys_is_printed() {
        let mut text = String::new();
        paragraph(&mut text, "one two three \u{1b}[31mfour", "- ", 12);
        assert_eq!(text, "- one two\n  three\n  ?[31mfour\n");
    }
}
