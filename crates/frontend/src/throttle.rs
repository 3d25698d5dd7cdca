//! Throttling: rate limits, yielding to other programs, priorities, and the file that changes the first two while a copy
//! runs.

use std::path::PathBuf;

use haul_io::pace::{Limit, Pace};
use haul_sys::Errno;
use haul_sys::priority::{IoPriority, set_io_priority, set_nice};

use crate::errno::strerror;
use crate::size::{human_size, parse_rate};

/// What the command line says about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Throttling {
    /// `--limit`.
    pub limit: Limit,
    /// `--control`.
    pub control: Option<PathBuf>,
    /// `--yield`.
    pub yields: bool,
    /// `--priority`.
    pub priority: Option<Priority>,
}

impl Throttling {
    /// Gives the priority, if there is one, to this thread and to those that it starts from now on.
    ///
    /// # Errors
    /// The message.
    pub fn apply_priority(&self) -> Result<(), String> {
        let applied = self.priority.map_or(Ok(()), Priority::apply);
        applied.map_err(|errno| format!("cannot set the priority: {}", strerror(errno)))
    }
}

/// How urgent the copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// This nice value, and the I/O level that the kernel derives from it.
    Nice(i8),
    /// Only what nobody else wants.
    Idle,
}

impl Priority {
    /// `idle`, or a number from -20 to 19.
    pub fn parse(text: &str) -> Option<Priority> {
        if text == "idle" {
            return Some(Priority::Idle);
        }
        text.parse().ok().filter(|nice| (-20..=19).contains(nice)).map(Priority::Nice)
    }

    /// Gives it to this thread and to those that it starts from now on.
    ///
    /// # Errors
    /// What the kernel says, EACCES if it takes privileges.
    pub fn apply(self) -> Result<(), Errno> {
        let (nice, io) = match self {
            Priority::Idle => (19, IoPriority::Idle),
            // As the kernel does for threads that nothing else was said about; 0 to 7.
            Priority::Nice(nice) => (nice, IoPriority::BestEffort(((nice + 20) / 5).unsigned_abs())),
        };
        set_nice(i32::from(nice))?;
        set_io_priority(io)
    }
}

/// `RATE[,IOPS]`: bytes and operations a second; `0` or `none` is no limit.
pub(crate) fn parse_limit(text: &[u8]) -> Option<Limit> {
    let mut parts = text.split(|byte| *byte == b',');
    let bytes = parse_rate(parts.next()?)?;
    let operations = parts.next().map_or(Some(None), parse_rate)?;
    parts.next().is_none().then_some(Limit { bytes, operations })
}

/// What a control file says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// `limit=RATE[,IOPS]`.
    pub limit: Option<Limit>,
    /// `yield=on` or `yield=off`.
    pub yields: Option<bool>,
}

impl Settings {
    /// Words with white space between them; `#` begins a comment. The last word about a thing counts.
    ///
    /// # Errors
    /// The first word that means nothing; then none of them counts.
    pub fn parse(text: &str) -> Result<Settings, String> {
        let mut settings = Settings::default();
        let uncommented = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        for word in uncommented.flat_map(str::split_whitespace) {
            match word.split_once('=') {
                Some(("limit", limit)) => {
                    let limit = parse_limit(limit.as_bytes()).ok_or_else(|| word.to_owned())?;
                    settings.limit = Some(limit);
                }
                Some(("yield", "on")) => settings.yields = Some(true),
                Some(("yield", "off")) => settings.yields = Some(false),
                _ => return Err(word.to_owned()),
            }
        }
        Ok(settings)
    }
}

/// What holds a run back just now, for people; `None` if nothing does.
pub(crate) fn pace_words(pace: &Pace) -> Option<String> {
    let limit = pace.limit();
    let bytes = limit.bytes.map(|rate| format!("{}/s", human_size(rate)));
    let operations = limit.operations.map(|rate| format!("{rate} operations/s"));
    let words: Vec<String> = bytes.into_iter().chain(operations).collect();
    match (words.is_empty(), pace.is_yielding()) {
        (true, false) => None,
        (true, true) => Some("none; yields to other programs".to_owned()),
        (false, false) => Some(words.join(", ")),
        (false, true) => Some(words.join(", ") + "; yields to other programs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(bytes: u64, operations: u64) -> Limit {
        let some = |number| Some(number).filter(|number| *number > 0);
        Limit { bytes: some(bytes), operations: some(operations) }
    }

    #[test]
    fn limits_are_read_like_other_sizes() {
        for (text, expected) in [
            ("50M", Some(limit(50 << 20, 0))),
            ("1.5G", Some(limit(3 << 29, 0))),
            ("1MB,200", Some(limit(1_000_000, 200))),
            ("0", Some(Limit::NONE)),
            ("none", Some(Limit::NONE)),
            ("none,20", Some(limit(0, 20))),
            ("1K,none", Some(limit(1024, 0))),
            ("", None),
            ("1,", None),
            (",1", None),
            ("1,2,3", None),
            ("fast", None),
            ("-1", None),
            ("1 M", None),
        ] {
            assert_eq!(parse_limit(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn priorities_are_nice_values_or_idle() {
        for (text, expected) in [
            ("0", Some(Priority::Nice(0))),
            ("-20", Some(Priority::Nice(-20))),
            ("19", Some(Priority::Nice(19))),
            ("idle", Some(Priority::Idle)),
            ("20", None),
            ("-21", None),
            ("", None),
            ("low", None),
        ] {
            assert_eq!(Priority::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn a_control_file_changes_what_it_names() {
        let both = Settings { limit: Some(limit(1 << 20, 100)), yields: Some(true) };
        assert_eq!(Settings::parse("# slow at noon\nlimit=1M,100 # here\n\n  yield=on"), Ok(both));
        assert_eq!(Settings::parse(""), Ok(Settings::default()));
        let off = Settings { limit: Some(Limit::NONE), yields: Some(false) };
        assert_eq!(Settings::parse("limit=1M yield=on limit=none yield=off"), Ok(off));
    }

    #[test]
    fn a_control_file_with_a_mistake_changes_nothing() {
        for (text, word) in [
            ("limit=1M speed=2", "speed=2"),
            ("limit=x", "limit=x"),
            ("yield=maybe", "yield=maybe"),
            ("yield", "yield"),
            ("jobs=4", "jobs=4"),
        ] {
            assert_eq!(Settings::parse(text), Err(word.to_owned()), "{text}");
        }
    }

    #[test]
    fn the_pace_is_reported_in_words() {
        let pace = Pace::default();
        assert_eq!(pace_words(&pace), None);
        pace.set_limit(limit(50 << 20, 100));
        assert_eq!(pace_words(&pace).as_deref(), Some("50.0 MiB/s, 100 operations/s"));
        pace.set_limit(Limit::NONE);
        pace.set_yielded(Some(Limit::NONE));
        assert_eq!(pace_words(&pace).as_deref(), Some("none; yields to other programs"));
    }
}
