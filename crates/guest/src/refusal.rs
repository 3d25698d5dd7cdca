//! Why a region is copied whole.

use std::fmt;
use std::io;

/// Why a parser proves nothing free. No error: the region counts as used, and the report carries the words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The filesystem was not unmounted cleanly, or holds changes that its map does not show.
    Dirty(String),
    /// A format, a feature or a layout that is not understood well enough to prove anything.
    Unsupported(String),
    /// Contradicts itself or its checksums.
    Corrupt(String),
    /// Would cost more memory, reads or steps than [`Budget`](crate::Budget) allows; names what ran out.
    Budget(&'static str),
    /// The image could not be read, or ends too early.
    Unreadable(String),
    /// Its parser failed: a mistake in this program, met by bytes that nobody thought of.
    Internal,
}

impl Refusal {
    /// A [`Refusal::Dirty`].
    pub fn dirty(why: impl Into<String>) -> Refusal {
        Refusal::Dirty(why.into())
    }

    /// A [`Refusal::Unsupported`].
    pub fn unsupported(why: impl Into<String>) -> Refusal {
        Refusal::Unsupported(why.into())
    }

    /// A [`Refusal::Corrupt`].
    pub fn corrupt(why: impl Into<String>) -> Refusal {
        Refusal::Corrupt(why.into())
    }

    /// The same, with the words of a [`Refusal::Corrupt`] put into others that say where it is.
    pub(crate) fn located(self, place: impl FnOnce(String) -> String) -> Refusal {
        match self {
            Refusal::Corrupt(why) => Refusal::Corrupt(place(why)),
            other => other,
        }
    }
}

/// Refuses with `why` if there is a `doubt`.
pub(crate) fn refuse_if(doubt: bool, why: impl FnOnce() -> Refusal) -> Result<(), Refusal> {
    if doubt { Err(why()) } else { Ok(()) }
}

macro_rules! refusing {
    ($($name:ident $of:ident;)*) => {$(
        #[doc = concat!("Refuses with a [`Refusal::", stringify!($of), "`] if there is a `doubt`.")]
        pub(crate) fn $name(doubt: bool, why: impl fmt::Display) -> Result<(), Refusal> {
            refuse_if(doubt, || Refusal::$of(why.to_string()))
        }
    )*};
}

refusing! {
    corrupt_if Corrupt;
    dirty_if Dirty;
    unsupported_if Unsupported;
}

/// Refuses with a [`Refusal::Budget`] if there is `too_much` of something.
pub(crate) fn over_budget_if(too_much: bool, what: &'static str) -> Result<(), Refusal> {
    refuse_if(too_much, || Refusal::Budget(what))
}

/// What should be there, and may not.
pub(crate) trait OrRefuse<T> {
    /// Refuses with a [`Refusal::Corrupt`] if it is not there, for which alone the words are put together.
    fn or_corrupt(self, why: impl fmt::Display) -> Result<T, Refusal>;
}

impl<T> OrRefuse<T> for Option<T> {
    fn or_corrupt(self, why: impl fmt::Display) -> Result<T, Refusal> {
        self.ok_or_else(|| Refusal::corrupt(why.to_string()))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Dirty(why) => write!(f, "not cleanly unmounted: {why}"),
            Refusal::Unsupported(why) => write!(f, "not supported: {why}"),
            Refusal::Corrupt(why) => write!(f, "damaged: {why}"),
            Refusal::Budget(what) => write!(f, "too much to look at: {what}"),
            Refusal::Unreadable(why) => write!(f, "cannot be read: {why}"),
            Refusal::Internal => write!(f, "internal error"),
        }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        Refusal::Unreadable(error.to_string())
    }
}
