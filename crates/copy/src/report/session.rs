//! What a run needs besides the plan.

use haul_io::control::{Cancel, Control, Progress};
use haul_io::moved::Moved;
use haul_io::pace::Pace;
use haul_sys::inode::FileId;

use crate::events::{Confirm, Event, Observer};
use crate::meta;
use crate::publish::Partials;

/// What a run needs besides the plan.
pub struct Session<'a> {
    /// Hears everything.
    pub observer: &'a dyn Observer,
    /// Is asked before a file is overwritten (`-i`).
    pub confirm: &'a dyn Confirm,
    /// Stops the run. Whoever cancels a run that may be waiting for its [`Pace`] wakes that, too.
    pub cancel: Cancel,
    /// How fast it may go.
    pub pace: Pace,
    /// Destinations that are being written, for a front end that must exit while the run is stuck in the kernel.
    pub partials: Partials,
    /// Which extended attributes are not copied: `/etc/xattr.conf`, or the built-in rules.
    pub xattr_rules: meta::XattrRules,
    /// Files in the sources that are not copied: those that the caller writes there itself.
    pub skip_files: Vec<FileId>,
}

impl Session<'_> {
    /// What moves bytes obeys and reports to.
    pub(crate) fn control(&self) -> Control<'_> {
        Control { progress: self, cancel: &self.cancel, pace: &self.pace }
    }
}

impl Progress for Session<'_> {
    fn moved(&self, more: Moved) {
        self.observer.event(&Event::Progress(more));
    }

    fn wants_all(&self) -> bool {
        self.observer.in_order()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::context::test_support::Bench;
    use crate::events::Question;
    use crate::plan::Plan;

    #[test]
    fn what_moves_bytes_is_stopped_with_the_session() {
        let bench = Bench::new(Plan::default());
        let ran = bench.run(|cx, _| {
            let control = cx.session.control();
            let before = control.cancel.is_cancelled();
            cx.session.cancel.cancel();
            (before, control.cancel.is_cancelled())
        });
        assert_eq!(ran.value, (false, true));
    }

    /// Counts the bytes that it hears of.
    #[derive(Default)]
    struct Bytes(AtomicU64);

    impl Observer for Bytes {
        fn event(&self, event: &Event<'_>) {
            if let Event::Progress(more) = event {
                self.0.fetch_add(more.total(), Ordering::Relaxed);
            }
        }

        fn in_order(&self) -> bool {
            false
        }
    }

    impl Confirm for Bytes {
        fn overwrite(&self, _: &Question<'_>) -> bool {
            true
        }
    }

    #[test]
    fn what_moves_bytes_reports_to_the_observer_of_the_session() {
        let bytes = Bytes::default();
        let session = Session {
            observer: &bytes,
            confirm: &bytes,
            cancel: Cancel::default(),
            pace: Pace::default(),
            partials: Partials::default(),
            xattr_rules: meta::XattrRules::default(),
            skip_files: Vec::new(),
        };
        let progress = session.control().progress;
        progress.moved(Moved { written: 7, ..Moved::default() });
        assert_eq!((bytes.0.load(Ordering::Relaxed), progress.wants_all()), (7, false));
    }
}
