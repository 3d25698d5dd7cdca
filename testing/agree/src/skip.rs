//! Visible, counted skips; with `CI=true` a skip is a failure.

use std::sync::atomic::{AtomicUsize, Ordering};

static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// Says that a test, or a part of it, cannot run here and why.
///
/// # Panics
/// When the variable `CI` is `true`: there, what is skipped is not tested at all.
pub fn skip(what: &str, why: &str) {
    let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    let message = format!("SKIPPED ({count} so far): {what}: {why}\n");
    // `eprintln` is captured with the output of a test that passes; a skip must be seen.
    if std::io::Write::write_all(&mut std::io::stderr(), message.as_bytes()).is_err() {
        panic!("cannot report: {message}");
    }
    assert!(std::env::var_os("CI").is_none_or(|value| value != "true"), "{message}");
}
