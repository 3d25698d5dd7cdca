//! What people are to see of a section: words, tables and drawings, made from saved results alone and shown by
//! [`crate::report`] as a page, as Markdown, as CSV and on a terminal.

/// One section as it is shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// The command that measures it; the anchor of the page.
    pub name: String,
    /// For people.
    pub title: String,
    /// What the experiment asks.
    pub question: String,
    /// The answer in plain words: what was measured, and what follows.
    pub summary: Vec<String>,
    /// What was not measured, and why.
    pub not_measured: Vec<String>,
    /// What makes the figures doubtful.
    pub warnings: Vec<String>,
    /// Drawings, before the tables.
    pub charts: Vec<Chart>,
    /// The figures.
    pub tables: Vec<Table>,
    /// What others have published, and whether the direction agrees.
    pub published: Option<Published>,
}

/// Figures of others beside ours.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// Who, on what, when.
    pub by: String,
    /// Their figures, with ours in columns beside them where that makes sense.
    pub table: Table,
    /// One for each claim.
    pub claims: Vec<Claim>,
}

/// A direction that was published, and what was found here.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// `the mapped copy is slower than the one with big buffers`.
    pub says: String,
    /// With the figures.
    pub here: String,
    /// `None` if it was not measured, or the intervals overlap.
    pub agrees: Option<bool>,
}

/// A table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Above it.
    pub title: String,
    /// Of each column.
    pub columns: Vec<Column>,
    /// Of each row as many as there are columns.
    pub rows: Vec<Vec<Cell>>,
    /// Below it.
    pub note: Option<String>,
}

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its head, with the unit.
    pub name: String,
    /// Its cells are figures, and end at the right.
    pub figures: bool,
}

/// A field of a table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cell {
    /// For people.
    pub text: String,
    /// The figure itself, for CSV.
    pub value: Option<f64>,
    /// How it stands out.
    pub mark: Mark,
}

/// Why a cell stands out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mark {
    /// It does not.
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
pub enum Chart {
    /// Horizontal bars with intervals, in groups; shorter is better if the unit is a time.
    Bars {
        /// Above it.
        title: String,
        /// Of the axis, such as `s` or `MB/s`.
        unit: String,
        /// Groups in their order.
        groups: Vec<BarGroup>,
    },
    /// A field of colours by row and column, each with its figure.
    Heat {
        /// Above it.
        title: String,
        /// What the figure is.
        unit: String,
        /// What rows are, and their names.
        rows: (String, Vec<String>),
        /// What columns are, and their names.
        columns: (String, Vec<String>),
        /// By row, then column.
        values: Vec<Vec<Option<f64>>>,
        /// A value that means "the same", if values above and below it mean better and worse; else dark is more.
        level: Option<f64>,
    },
    /// Latencies by percentile, on logarithmic axes.
    Latency {
        /// Above it.
        title: String,
        /// A name, and percentile (0 to below 100) and seconds of each point.
        series: Vec<(String, Vec<(f64, f64)>)>,
        /// A horizontal line in seconds, and its name.
        threshold: Option<(f64, String)>,
    },
    /// Time or bytes split into parts, one bar for each row.
    Parts {
        /// Above it.
        title: String,
        /// `s`, `MiB` ...
        unit: String,
        /// Names of the parts, in the order of their colours.
        parts: Vec<String>,
        /// A name and the amount of each part.
        rows: Vec<(String, Vec<f64>)>,
    },
    /// The kinds of bytes of an image, from its beginning to its end.
    Strip {
        /// Above it.
        title: String,
        /// Kind and bytes.
        spans: Vec<(String, u64)>,
    },
}

/// Bars that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct BarGroup {
    /// Its name.
    pub name: String,
    /// From above.
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Its name.
    pub name: String,
    /// Its length: a median.
    pub value: f64,
    /// Least and most that was seen.
    pub range: (f64, f64),
    /// Drawn as the one that the others are compared with.
    pub base: bool,
}

impl Cell {
    /// Words.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }

    /// A figure with its text.
    pub fn figure(value: f64, text: impl Into<String>) -> Cell {
        Cell { text: text.into(), value: Some(value), mark: Mark::None }
    }

    /// The same, standing out.
    #[must_use]
    pub fn marked(self, mark: Mark) -> Cell {
        Cell { mark, ..self }
    }
}

impl Column {
    /// A column of words.
    pub fn words(name: impl Into<String>) -> Column {
        Column { name: name.into(), figures: false }
    }

    /// A column of figures.
    pub fn figures(name: impl Into<String>) -> Column {
        Column { name: name.into(), figures: true }
    }
}
