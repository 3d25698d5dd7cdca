//! How late a view is.

use std::time::Duration;

/// How late a view is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lateness {
    /// How long names and attributes are believed.
    pub believed: Duration,
    /// How long the answer to each request takes.
    pub delay: Duration,
}

impl Lateness {
    /// Names and attributes are believed for so long; requests take no time.
    pub fn of(believed: Duration) -> Lateness {
        Lateness { believed, delay: Duration::ZERO }
    }

    /// As arguments of the program.
    pub(super) fn words(self) -> [String; 2] {
        [self.believed.as_micros().to_string(), self.delay.as_micros().to_string()]
    }

    /// From the arguments of the program; `None` where one is no number.
    pub fn parse(believed: &str, delay: &str) -> Option<Lateness> {
        let time = |word: &str| word.parse().ok().map(Duration::from_micros);
        Some(Lateness { believed: time(believed)?, delay: time(delay)? })
    }
}
