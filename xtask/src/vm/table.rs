//! What the guests found.

use std::fmt;

use crate::shell::{self, Result};

/// What one check came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// As promised.
    Right,
    /// Not as promised.
    Wrong,
    /// It could not be looked at.
    Skipped,
}

impl Verdict {
    /// What the guest calls it; what it does not say in these words is wrong.
    pub fn named(name: &str) -> Verdict {
        match name {
            "right" => Verdict::Right,
            "skipped" => Verdict::Skipped,
            _ => Verdict::Wrong,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Verdict::Right => "ok",
            Verdict::Wrong => "WRONG",
            Verdict::Skipped => "skipped",
        }
    }
}

/// One check on one kernel.
#[derive(Debug, Clone)]
pub struct Row {
    /// The kernel, as people call it.
    pub kernel: String,
    /// The group of checks.
    pub case: String,
    pub check: String,
    pub verdict: Verdict,
    /// How long it took.
    pub seconds: f64,
    /// How haul moved the bytes.
    pub chose: String,
    pub found: String,
}

impl Row {
    /// A guest that did not get to its end.
    pub fn broken(kernel: &str, why: &str) -> Row {
        Row {
            kernel: kernel.into(),
            case: "guest".into(),
            check: "runs to its end".into(),
            verdict: Verdict::Wrong,
            seconds: 0.0,
            chose: String::new(),
            found: why.into(),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { kernel, case, check, verdict, seconds, chose, found } = self;
        let word = verdict.word();
        write!(to, "| {kernel:<5}| {case:<13}| {check:<38} | {chose:<44} | {word:<7} | {seconds:>5.1} | {found} |")
    }
}

/// All rows, in the order in which they came.
#[derive(Debug, Default)]
pub struct Table {
    pub rows: Vec<Row>,
}

impl Table {
    /// Prints the rows and says whether they are all right.
    ///
    /// # Errors
    /// When a row is wrong, when there is none, or when one is skipped where nothing may be.
    pub fn judge(&self) -> Result<String> {
        println!("\n| Linux | case | check | how | | s | found |\n|---|---|---|---|---|---|---|");
        self.rows.iter().for_each(|row| println!("{row}"));
        let count = |verdict| self.rows.iter().filter(|row| row.verdict == verdict).count();
        let (right, wrong, skipped) = (count(Verdict::Right), count(Verdict::Wrong), count(Verdict::Skipped));
        let totals = format!("{right} passed, {wrong} failed, {skipped} skipped");
        println!("\nvm: {totals}");
        if wrong > 0 || right == 0 {
            // Named again in the summary: of a log that is long, often only the end is kept.
            let named = self.rows.iter().filter(|row| row.verdict == Verdict::Wrong);
            return Err(totals + &named.map(|row| format!("\n        {row}")).collect::<String>());
        }
        if skipped > 0 && shell::in_ci() {
            return Err(format!("{totals}, and in CI nothing may be skipped"));
        }
        Ok(totals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(verdicts: &[Verdict]) -> Table {
        let row = |verdict: &Verdict| Row { verdict: *verdict, ..Row::broken("6.1", "") };
        Table { rows: verdicts.iter().map(row).collect() }
    }

    #[test]
    fn what_the_guest_does_not_call_right_is_wrong() {
        assert_eq!(Verdict::named("right"), Verdict::Right);
        assert_eq!(Verdict::named("rightt"), Verdict::Wrong);
    }

    #[test]
    fn one_wrong_row_or_none_at_all_is_a_failure() {
        assert!(table(&[Verdict::Right]).judge().is_ok());
        assert!(table(&[Verdict::Right, Verdict::Wrong]).judge().is_err());
        assert!(table(&[]).judge().is_err());
    }
}
