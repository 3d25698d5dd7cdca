//! What becomes of a panic: no parser should have one, and none may end a copy.

use std::cell::Cell;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::thread;

use crate::refusal::Refusal;

thread_local! {
    /// Whether a panic of this thread is caught here.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Does `work`; a panic in it is a refusal. Nothing is printed of it: the report says it.
///
/// The first call puts a panic hook in front of the one that is there, which keeps quiet about these panics alone. A fuzzer
/// hears of them all the same.
///
/// # Errors
/// Those of `work`, or [`Refusal::Internal`]. Then nothing that `work` has changed may be used any more.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, Refusal>) -> Result<T, Refusal> {
    static HOOK: Once = Once::new();
    // Hooks cannot be changed by a thread that panics already.
    if !thread::panicking() {
        HOOK.call_once(|| {
            let next = panic::take_hook();
            panic::set_hook(Box::new(move |panic| {
                if !GUARDED.try_with(Cell::get).unwrap_or(false) {
                    next(panic);
                }
            }));
        });
    }
    let before = GUARDED.replace(!cfg!(fuzzing));
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    done.unwrap_or(Err(Refusal::Internal))
}

/// [`guarded`] for what reads.
///
/// # Errors
/// Those of `work`, or of the kind "other".
pub(crate) fn guarded_io<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    guarded(|| Ok(work())).unwrap_or_else(|refusal| Err(io::Error::other(refusal.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_refusal() {
        assert_eq!(guarded(|| Ok(1)), Ok(1));
        assert_eq!(guarded(|| Err::<(), _>(Refusal::corrupt("it"))), Err(Refusal::corrupt("it")));
        assert_eq!(guarded(|| -> Result<(), _> { panic!("inside") }), Err(Refusal::Internal));
        assert!(guarded_io(|| -> io::Result<()> { panic!("inside") }).is_err());
        assert!(!GUARDED.get());
    }

    #[test]
    fn a_guard_in_a_guard_ends_alone() {
        let outer = guarded(|| {
            assert_eq!(guarded(|| -> Result<(), _> { panic!("inside") }), Err(Refusal::Internal));
            assert!(GUARDED.get());
            Ok(())
        });
        assert_eq!(outer, Ok(()));
    }
}
