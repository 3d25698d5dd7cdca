//! How tables are laid out for readers, on a page and on a terminal alike: the tables themselves have a field for everything.

use serde::Serialize;

use crate::view::{Cell, Column, Mark, Table};

/// A table as it stands on a page.
#[derive(Debug, Serialize)]
pub struct Laid<'t> {
    pub title: &'t str,
    /// Without a first one that names groups, and without a last one that has no text.
    pub columns: &'t [Column],
    pub rows: Vec<Row<'t>>,
    pub note: Option<&'t str>,
}

#[derive(Debug, Serialize)]
pub struct Row<'t> {
    /// The name of a group that begins here.
    pub group: Option<&'t str>,
    pub cells: &'t [Cell],
    /// Stands behind the first cell, across all other columns.
    pub reason: Option<&'t Cell>,
}

impl<'t> Laid<'t> {
    pub fn of(table: &'t Table) -> Laid<'t> {
        let first = usize::from(is_grouped(table));
        let end = table.columns.len() - usize::from(is_bare(table));
        let mut before = None;
        let row = |row: &'t Vec<Cell>| {
            let name = row.first().map(|cell| cell.text.as_str());
            let group = name.filter(|_| first == 1 && before != name);
            before = name;
            let reason = only_a_reason(row);
            let end = if reason.is_some() { first + 1 } else { end };
            Row { group, cells: row.get(first..end).unwrap_or_default(), reason }
        };
        Laid {
            title: &table.title,
            columns: table.columns.get(first..end).unwrap_or_default(),
            rows: table.rows.iter().map(row).collect(),
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
fn only_a_reason(row: &[Cell]) -> Option<&Cell> {
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

    fn columns<'t>(laid: &Laid<'t>) -> Vec<&'t str> {
        laid.columns.iter().map(|column| column.name.as_str()).collect()
    }

    #[test]
    fn a_column_of_groups_becomes_lines_and_an_empty_last_one_is_skipped() {
        let grouped = table(&[["g", "x", "1", "2", ""], ["g", "y", "1", "2", ""], ["h", "x", "1", "2", ""]]);
        let laid = Laid::of(&grouped);
        assert_eq!(columns(&laid), ["tool", "a", "b"]);
        assert_eq!(laid.rows.iter().map(|row| row.group).collect::<Vec<_>>(), [Some("g"), None, Some("h")]);
        assert!(laid.rows.iter().all(|row| row.cells.len() == 3));
        let single = table(&[["g", "x", "1", "2", "noisy"]]);
        assert_eq!(columns(&Laid::of(&single)).len(), 5);
    }

    #[test]
    fn a_reason_stands_across_its_row() {
        let reasons = table(&[["x", "-", "-", "-", "refused"]]);
        let laid = Laid::of(&reasons);
        assert_eq!(laid.rows[0].reason.map(|cell| cell.text.as_str()), Some("refused"));
        assert_eq!((columns(&laid).len(), laid.rows[0].cells.len()), (4, 1));
        assert_eq!(only_a_reason(&table(&[["x", "-", "1", "-", "noisy"]]).rows[0]), None);
    }
}
