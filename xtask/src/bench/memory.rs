//! Touching memory before a timed run.

use crate::shell::{self, Result};

const PAGE: usize = 4096;

/// Touches `bytes` of memory in a process of its own, so that the pages are free and present afterwards.
///
/// A virtual machine returns free pages to its host and pays 0.25 to 1.1 GiB/s to get them back: the same warm copy
/// of 4 GiB took 9.1 s after 12 idle seconds and 2.3 to 3.3 s after this. Never more than 60% of what is available,
/// since this must not push the source out of the page cache.
///
/// # Errors
/// When the process fails.
pub fn warm(bytes: u64) -> Result {
    let available = super::machine::meminfo("MemAvailable:")?;
    let bytes = bytes.min(available / 5 * 3);
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    shell::run(shell::command(program).args(["touch-memory", &bytes.to_string()]))
}

/// The process: touches so many bytes and ends.
///
/// # Errors
/// When the argument is no number.
pub fn touch(args: &[String]) -> Result {
    let bytes: Option<usize> = args.first().and_then(|text| text.parse().ok());
    let bytes = bytes.ok_or("touch-memory wants a number of bytes")?;
    let mut memory = vec![0_u8; bytes];
    for page in memory.chunks_mut(PAGE) {
        page[0] = 1;
    }
    std::hint::black_box(&memory);
    Ok(())
}
