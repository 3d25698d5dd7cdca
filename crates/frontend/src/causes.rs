//! What went wrong in a run, by its causes: ten thousand lines about one full disk say no more than one with a number.

use std::collections::HashMap;

use haul_copy::error::{Error, What};
use haul_sys::Errno;

use crate::quote::Quoter;
use crate::words;

/// So many messages about one cause are printed, unless all are wanted.
pub const MOST: u64 = 20;

/// Lines of the table.
const LINES: usize = 12;

/// Errors by operation and by what the kernel said, both of which there are not many.
#[derive(Debug, Default)]
pub struct Causes {
    all: HashMap<(What, Option<Errno>), Cause>,
    errors: u64,
}

#[derive(Debug)]
struct Cause {
    errors: u64,
    /// How many errors came before its first one.
    since: u64,
    first: Error,
}

/// What to print of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Print {
    /// The message.
    Whole,
    /// The message, and that those that come are only counted.
    Last,
    /// Nothing.
    Counted,
}

impl Causes {
    /// Counts one.
    pub fn add(&mut self, error: &Error) -> Print {
        let since = self.errors;
        self.errors += 1;
        let first = || Cause { errors: 0, since, first: error.clone() };
        let cause = self.all.entry((error.what, error.errno)).or_insert_with(first);
        cause.errors += 1;
        match cause.errors {
            MOST => Print::Last,
            few if few < MOST => Print::Whole,
            _ => Print::Counted,
        }
    }

    /// The causes, the most frequent first, if there were so many errors that nobody wants to count them.
    pub fn table(&self, quoter: &Quoter) -> Option<Vec<u8>> {
        if self.errors <= MOST {
            return None;
        }
        let mut rows: Vec<_> = self.all.values().collect();
        rows.sort_by_key(|cause| (std::cmp::Reverse(cause.errors), cause.since));
        let mut text = format!("{} errors, by the first of each kind:\n", self.errors).into_bytes();
        for cause in rows.iter().take(LINES) {
            text.extend(format!("{:>8}  ", cause.errors).as_bytes());
            text.extend(words::message(&cause.first, quoter));
            text.push(b'\n');
        }
        let others: u64 = rows.iter().skip(LINES).map(|cause| cause.errors).sum();
        if others > 0 {
            text.extend(format!("{others:>8}  others\n").as_bytes());
        }
        text.pop();
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(number: u64) -> Error {
        Error::new(What::CannotOpen, format!("d/{number}")).errno(Errno::ACCESS)
    }

    #[test]
    fn of_one_cause_the_first_are_printed_and_the_others_counted() {
        let mut causes = Causes::default();
        let print: Vec<Print> = (0..MOST + 3).map(|number| causes.add(&denied(number))).collect();
        assert_eq!(print[..MOST as usize - 1], [Print::Whole; MOST as usize - 1]);
        assert_eq!(print[MOST as usize - 1..], [Print::Last, Print::Counted, Print::Counted, Print::Counted]);
        assert_eq!(causes.add(&Error::new(What::CannotOpen, "x").errno(Errno::IO)), Print::Whole, "another cause");
    }

    #[test]
    fn the_table_has_each_cause_once_the_most_frequent_first() {
        let mut causes = Causes::default();
        let quoter = Quoter::from_environment();
        assert_eq!(causes.add(&Error::new(What::Writing, "full").errno(Errno::NOSPC)), Print::Whole);
        assert_eq!(causes.table(&quoter), None, "one error needs no table");
        for number in 0..30 {
            causes.add(&denied(number));
        }
        let table = String::from_utf8(causes.table(&quoter).expect("there are many")).expect("plain words");
        let expected = "31 errors, by the first of each kind:\n      30  cannot open 'd/0' for reading: Permission denied\n       \
                        1  error writing 'full': No space left on device";
        assert_eq!(table.replace(['‘', '’'], "'"), expected);
    }
}
