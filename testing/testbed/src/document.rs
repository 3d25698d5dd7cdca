//! What haul's documentation says, for the tests that hold the programs to it.

use std::fs;
use std::path::Path;

/// The page `name` of `docs/`, as it is now. It is read while a test runs, because no package may include a file that
/// lies outside of it.
///
/// # Panics
/// If it cannot be read.
pub fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
