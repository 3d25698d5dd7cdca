//! What is heard of a copy while it runs.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_copy::Error;
use haul_copy::error::What;
use haul_copy::events::{Event, Observer};
use haul_io::control::Progress;
use haul_io::moved::Moved;
use parking_lot::Mutex;

/// Counts, and keeps what has to be said at the end.
#[derive(Default)]
pub struct Meter {
    bytes: AtomicU64,
    files: AtomicU64,
    /// Extended attributes that could not be kept are errors.
    attributes_fail: bool,
    pub errors: Mutex<Vec<Error>>,
    pub warnings: Mutex<Vec<Error>>,
    pub digests: Mutex<Vec<(PathBuf, String)>>,
}

impl Meter {
    pub fn new(attributes_fail: bool) -> Meter {
        Meter { attributes_fail, ..Meter::default() }
    }

    /// Bytes that were moved, and entries that were begun.
    pub fn now(&self) -> (u64, u64) {
        (self.bytes.load(Ordering::Relaxed), self.files.load(Ordering::Relaxed))
    }
}

impl Observer for Meter {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Progress(moved) => self.moved(*moved),
            Event::Spared { bytes, .. } => _ = self.bytes.fetch_add(*bytes, Ordering::Relaxed),
            Event::Copying { .. } => _ = self.files.fetch_add(1, Ordering::Relaxed),
            Event::Problem(error) => self.errors.lock().push(Cow::clone(error).into_owned()),
            Event::Warning(error) if self.attributes_fail && is_of_attributes(error) => {
                self.errors.lock().push(Cow::clone(error).into_owned());
            }
            Event::Warning(error) => self.warnings.lock().push(Cow::clone(error).into_owned()),
            Event::Digest { dest, digest } => {
                self.digests.lock().push((dest.clone().into_owned(), digest.clone().into_owned()));
            }
            _ => {}
        }
    }

    fn in_order(&self) -> bool {
        false
    }

    fn follows_data(&self) -> bool {
        false
    }
}

fn is_of_attributes(error: &Error) -> bool {
    matches!(
        error.what,
        What::ListingAttributes | What::GettingAttribute | What::SettingAttribute | What::SettingAttributes
    )
}

impl Progress for Meter {
    fn moved(&self, more: Moved) {
        self.bytes.fetch_add(more.total(), Ordering::Relaxed);
    }

    fn wants_all(&self) -> bool {
        false
    }
}
