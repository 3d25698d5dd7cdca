//! What people are to see of a section: words, tables and drawings, made from saved results alone and shown by
//! [`crate::report`] as a page, as Markdown, as CSV and on a terminal.

use haul_measure::stats::Ratio;
use haul_measure::words;
use serde::Serialize;

use crate::report::text::{self, Unit};
use crate::results::{Fact, Grid, Section};

/// One section as it is shown.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct View {
    /// The command that measures it; the anchor of the page.
    pub name: String,
    pub title: String,
    /// What the experiment asks.
    pub question: String,
    /// The answer in plain words: what was measured, and what follows.
    pub summary: Vec<String>,
    /// What was not measured, and why.
    pub not_measured: Vec<String>,
    /// What makes the figures doubtful.
    pub warnings: Vec<String>,
    #[serde(skip)]
    pub charts: Vec<Chart>,
    /// The drawing that shows the answer, for the first screen.
    #[serde(skip)]
    pub picture: Option<Chart>,
    pub tables: Vec<Table>,
    /// What others have published, and whether the direction agrees.
    pub published: Option<Published>,
}

/// Figures of others beside ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Published {
    /// Who, on what, when.
    pub by: String,
    /// Their figures, with ours in columns beside them where that makes sense.
    pub table: Table,
    pub claims: Vec<Claim>,
}

/// A direction that was published, and what was found here.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Claim {
    /// `the mapped copy is slower than the one with big buffers`.
    pub says: String,
    /// With the figures.
    pub here: String,
    /// `None` if it was not measured, or the intervals overlap.
    pub agrees: Option<bool>,
}

/// What is said here of a claim about something that was not measured.
pub const NOT_MEASURED: &str = "This was not measured here.";

impl Claim {
    /// It was measured, and the runs do not decide.
    pub(crate) fn is_undecided(&self) -> bool {
        self.agrees.is_none() && self.here != NOT_MEASURED
    }

    pub fn verdict(&self) -> &'static str {
        match self.agrees {
            Some(true) => "agrees",
            Some(false) => "does not agree",
            None => "cannot say",
        }
    }
}

/// A table.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Table {
    pub title: String,
    pub columns: Vec<Column>,
    /// Of each row as many cells as there are columns.
    pub rows: Vec<Vec<Cell>>,
    /// Below it.
    pub note: Option<String>,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Column {
    /// Its head, with the unit.
    pub name: String,
    /// Its cells are figures, and end at the right.
    pub figures: bool,
}

/// A field of a table.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Cell {
    pub text: String,
    /// The figure itself, for CSV.
    pub value: Option<f64>,
    /// How it stands out.
    pub mark: Mark,
}

/// Why a cell stands out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    #[default]
    None,
    /// The best of its group.
    Best,
    /// A wrong copy, a failure.
    Bad,
    /// Doubtful, or skipped.
    Faint,
}

/// A drawing.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Above it.
    pub title: String,
    pub kind: Kind,
}

/// What a drawing shows, and how.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Horizontal bars, in groups; shorter is better.
    Bars {
        /// What the axis is of: `time until the copier returned`.
        axis: String,
        /// Of the axis, such as `s`.
        unit: String,
        /// Names of the parts of each bar, in the order of their colours; none if no bar has parts.
        parts: Vec<String>,
        groups: Vec<BarGroup>,
    },
    /// A field of colours by row and column, each with its figure.
    Heat {
        grid: Grid,
        /// What the values are compared with, and its name; else dark is more.
        against: Option<(String, Values)>,
    },
    /// Latencies by percentile, on logarithmic axes.
    Latency {
        series: Vec<Series>,
        /// A horizontal line in seconds, and its name.
        threshold: Option<(f64, String)>,
    },
    /// The kinds of bytes of an image, from its beginning to its end: kind and bytes.
    Strip(Vec<(String, u64)>),
}

/// Figures by row and column; none where nothing was measured.
pub type Values = Vec<Vec<Option<f64>>>;

/// A name, and percentile (0 to below 100) and seconds of each point.
pub type Series = (String, Vec<(f64, f64)>);

/// Bars that belong together, the shortest first.
#[derive(Debug, Clone, PartialEq)]
pub struct BarGroup {
    pub name: String,
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bar {
    pub name: String,
    /// The length of each part, or of the one that there is: medians.
    pub lengths: Vec<f64>,
    /// Every single run, drawn as a dot.
    pub runs: Vec<f64>,
    /// A figure that follows from its length: `832 MiB/s`.
    pub rate: String,
    /// Drawn as the one that the others are compared with.
    pub base: bool,
}

impl Bar {
    pub(crate) fn length(&self) -> f64 {
        self.lengths.iter().filter(|length| length.is_finite()).sum()
    }
}

impl View {
    pub fn of(section: &Section, title: &str, question: &str) -> View {
        let (title, question) = (title.to_owned(), question.to_owned());
        View { name: section.name.clone(), title, question, ..View::default() }
    }
}

impl Chart {
    pub fn new(title: impl Into<String>, kind: Kind) -> Chart {
        Chart { title: title.into(), kind }
    }

    /// Throughput by row and column, in MiB/s whatever its unit is, and what it is compared with in the same unit.
    pub(crate) fn heat(title: impl Into<String>, mut grid: Grid, mut against: Option<(String, Values)>) -> Chart {
        if grid.unit == "KiB/s" {
            grid.unit = "MiB/s".to_owned();
            let base = against.iter_mut().flat_map(|(_, base)| base);
            for value in grid.values.iter_mut().chain(base).flatten().flatten() {
                *value /= 1024.0;
            }
        }
        Chart::new(title, Kind::Heat { grid, against })
    }

    /// Bars, of each group the shortest first. `None` if there is none.
    pub(crate) fn bars(
        title: impl Into<String>,
        [axis, unit]: [&str; 2],
        parts: Vec<String>,
        mut groups: Vec<BarGroup>,
    ) -> Option<Chart> {
        groups.retain(|group| !group.bars.is_empty());
        for group in &mut groups {
            group.bars.sort_by(|a, b| a.length().total_cmp(&b.length()));
        }
        let any = !groups.is_empty();
        let kind = Kind::Bars { axis: axis.to_owned(), unit: unit.to_owned(), parts, groups };
        any.then(|| Chart::new(title, kind))
    }
}

impl Table {
    /// A table with these heads, with `|` between them; those of figures begin with `>`.
    pub fn new(title: impl Into<String>, heads: &str, rows: impl IntoIterator<Item = Vec<Cell>>) -> Table {
        let columns = heads.split('|').map(Column::from).collect();
        Table { title: title.into(), columns, rows: rows.into_iter().collect(), note: None }
    }

    /// A table of facts.
    pub(crate) fn of_facts(title: &str, heads: &str, facts: &[Fact]) -> Table {
        let row = |(name, value, meaning): &Fact| [name, value, meaning].map(Cell::text).to_vec();
        Table::new(title, heads, facts.iter().map(row))
    }

    /// With more columns of figures at the right.
    #[must_use]
    pub(crate) fn and_figures(mut self, heads: impl IntoIterator<Item = impl Into<String>>) -> Table {
        self.columns.extend(heads.into_iter().map(|name| Column { name: name.into(), figures: true }));
        self
    }

    #[must_use]
    pub(crate) fn noted(self, note: impl Into<String>) -> Table {
        Table { note: Some(note.into()), ..self }
    }

    /// A table without rows is none.
    pub(crate) fn if_any(self) -> Option<Table> {
        Some(self).filter(|table| !table.rows.is_empty())
    }
}

impl From<&str> for Column {
    fn from(head: &str) -> Column {
        let (name, figures) = head.strip_prefix('>').map_or((head, false), |name| (name, true));
        Column { name: name.to_owned(), figures }
    }
}

impl Cell {
    /// Words.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }

    /// A figure with its text.
    pub(crate) fn figure(value: f64, text: impl Into<String>) -> Cell {
        Cell { text: text.into(), value: Some(value), mark: Mark::None }
    }

    /// A figure, or a dash where there is none.
    pub fn of(value: Option<f64>, say: impl FnOnce(f64) -> String) -> Cell {
        value.map_or_else(|| Cell::text("-"), |value| Cell::figure(value, say(value)))
    }

    /// The same, where the dash is faint.
    pub(crate) fn known(value: Option<f64>, say: impl FnOnce(f64) -> String) -> Cell {
        Cell::of(value, say).marked(if value.is_none() { Mark::Faint } else { Mark::None })
    }

    /// A time in a unit, or a faint dash.
    pub fn time(seconds: Option<f64>, unit: &Unit) -> Cell {
        Cell::known(seconds.map(|time| unit.scaled(time)), |_| seconds.map(|time| unit.say(time)).unwrap_or_default())
    }

    /// Seconds in the unit that suits them, or a faint dash.
    pub fn seconds(value: Option<f64>) -> Cell {
        Cell::known(value, words::seconds)
    }

    /// A number of things.
    pub fn count(number: usize) -> Cell {
        Cell::figure(number as f64, number.to_string())
    }

    /// A ratio with its interval, or a dash.
    pub(crate) fn ratio(ratio: Option<Ratio>) -> Cell {
        ratio.map_or_else(|| Cell::text("-"), |ratio| Cell::figure(ratio.value, text::ratio(&ratio)))
    }

    /// The same, standing out.
    #[must_use]
    pub(crate) fn marked(self, mark: Mark) -> Cell {
        Cell { mark, ..self }
    }
}
