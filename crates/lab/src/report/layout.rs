//! How tables are laid out for readers, on a page and on a terminal alike: the tables themselves have a field for everything.

use serde::Serialize;

use crate::view::{Cell, Column, Mark, Table};

/// Which columns of a table stand beside each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The first: 1 if column 0 names groups, which become lines between the rows.
    pub first: usize,
    /// Behind the last: a last column without text is skipped.
    pub end: usize,
}

impl Layout {
    pub fn of(table: &Table) -> Layout {
        let end = table.columns.len() - usize::from(is_bare(table));
        Layout { first: usize::from(is_grouped(table)), end }
    }

    /// The group of a row, if the table has groups and it is not that of the row before.
    pub fn new_group<'t>(&self, row: &'t [Cell], before: Option<&'t [Cell]>) -> Option<&'t str> {
        let name = |row: &'t [Cell]| row.first().map(|cell| cell.text.as_str());
        (self.first == 1 && before.and_then(name) != name(row)).then(|| name(row)).flatten()
    }
}

/// A table as it stands on a page.
#[derive(Debug, Serialize)]
pub struct Laid<'t> {
    title: &'t str,
    columns: &'t [Column],
    rows: Vec<Row<'t>>,
    note: Option<&'t str>,
}

#[derive(Debug, Serialize)]
struct Row<'t> {
    /// The name of a group that begins here.
    group: Option<&'t str>,
    cells: &'t [Cell],
    /// Stands behind the first cell, across all other columns.
    reason: Option<&'t Cell>,
}

impl<'t> Laid<'t> {
    pub fn of(table: &'t Table) -> Laid<'t> {
        let layout = Layout::of(table);
        let before = std::iter::once(None).chain(table.rows.iter().map(|row| Some(row.as_slice())));
        let row = |(row, before): (&'t Vec<Cell>, Option<&'t [Cell]>)| {
            let reason = only_a_reason(row);
            let end = if reason.is_some() { layout.first + 1 } else { layout.end };
            let cells = row.get(layout.first..end).unwrap_or_default();
            Row { group: layout.new_group(row, before), cells, reason }
        };
        Laid {
            title: &table.title,
            columns: table.columns.get(layout.first..layout.end).unwrap_or_default(),
            rows: table.rows.iter().zip(before).map(row).collect(),
            note: table.note.as_deref(),
        }
    }
}

/// Whether the first of two columns of words says the same in rows that follow each other.
fn is_grouped(table: &Table) -> bool {
    let words = table.columns.iter().take(2).filter(|column| !column.figures).count() == 2;
    let name = |row: &[Cell]| row.first().map(|cell| cell.text.clone());
    words && table.columns.len() > 2 && table.rows.windows(2).any(|rows| matches!(rows, [a, b] if name(a) == name(b)))
}

/// What the last column of a row says, if the row has nothing else to say: why there are no figures.
pub fn only_a_reason(row: &[Cell]) -> Option<&Cell> {
    let nothing = |cell: &Cell| cell.mark == Mark::Faint && cell.text == "-";
    let between = row.get(1..row.len().checked_sub(1)?)?;
    row.last().filter(|_| between.len() > 1 && between.iter().all(nothing))
}

/// Whether the last column has nothing to say that is not said across its row.
fn is_bare(table: &Table) -> bool {
    let said = |row: &Vec<Cell>| only_a_reason(row).is_none() && row.last().is_none_or(|cell| !cell.text.is_empty());
    table.columns.len() > 3 && !table.rows.iter().any(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[[&str; 5]]) -> Table {
        let cell = |text: &&str| Cell::text(*text).marked(if *text == "-" { Mark::Faint } else { Mark::None });
        let names = ["group", "tool", "a", "b", "notes"];
        Table {
            columns: names.map(|name| Column { name: name.to_owned(), figures: name.len() == 1 }).to_vec(),
            rows: rows.iter().map(|row| row.iter().map(cell).collect()).collect(),
            ..Table::default()
        }
    }

    #[test]
    fn a_column_of_groups_becomes_lines_and_an_empty_last_one_is_skipped() {
        let grouped = table(&[["g", "x", "1", "2", ""], ["g", "y", "1", "2", ""], ["h", "x", "1", "2", ""]]);
        let layout = Layout::of(&grouped);
        assert_eq!(layout, Layout { first: 1, end: 4 });
        let rows = &grouped.rows;
        let groups = [layout.new_group(&rows[0], None), layout.new_group(&rows[1], Some(&rows[0]))];
        assert_eq!((groups, layout.new_group(&rows[2], Some(&rows[1]))), ([Some("g"), None], Some("h")));
        assert_eq!(Layout::of(&table(&[["g", "x", "1", "2", "noisy"]])), Layout { first: 0, end: 5 });
    }

    #[test]
    fn a_reason_stands_across_its_row() {
        let reasons = table(&[["x", "-", "-", "-", "refused"]]);
        assert_eq!(only_a_reason(&reasons.rows[0]).map(|cell| cell.text.as_str()), Some("refused"));
        assert_eq!(Layout::of(&reasons), Layout { first: 0, end: 4 });
        assert_eq!(only_a_reason(&table(&[["x", "-", "1", "-", "noisy"]]).rows[0]), None);
    }
}
