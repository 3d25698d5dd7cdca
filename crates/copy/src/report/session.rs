//! What a run needs besides the plan.

use haul_io::pace::Pace;
use haul_sys::inode::FileId;

use crate::control::{Cancel, Control};
use crate::events::{Confirm, Observer};
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
    pub leave_out: Vec<FileId>,
}

impl Session<'_> {
    /// What moves bytes obeys and reports to.
    pub(crate) fn control(&self) -> Control<'_> {
        Control { observer: self.observer, cancel: &self.cancel, pace: &self.pace }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use crate::context::test_support::Bench;
    use crate::events::Event;
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

    #[test]
    fn what_moves_bytes_reports_to_the_observer_of_the_session() {
        let bench = Bench::new(Plan::default());
        let event = Event::Removed(Cow::Borrowed("a".as_ref()));
        bench.run(|cx, _| cx.session.control().observer.event(&event)).says(&["removed a"]);
    }
}
