//! The options of haul-mpi: those of haul, a few that mean something else here, and one of its own.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use haul_copy::plan::{CloneTree, Overwrite, Plan};
use haul_frontend::run_options::RunOptions;
use haul_frontend::size::parse_size;

/// Bytes of a chunk, if the user does not say it: some 50 ms of a quick device, so that asking for the next one does not
/// count, and few enough that nobody waits long for the last one.
const CHUNK: u64 = 64 << 20;
/// The smallest chunk: a page of the page cache, which two machines must not both write to.
const SMALLEST: u64 = 64 << 10;

/// Takes `--chunk=SIZE` out of the arguments: in bytes, and what is left for haul.
///
/// # Errors
/// What is wrong with it, for the user.
pub fn take_chunk(arguments: impl IntoIterator<Item = OsString>) -> Result<(u64, Vec<OsString>), String> {
    let (mut chunk, mut rest) = (CHUNK, Vec::new());
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let bytes = argument.as_bytes();
        if bytes == b"--" {
            rest.push(argument);
            rest.extend(arguments);
            break;
        }
        if let Some(size) = bytes.strip_prefix(b"--chunk=") {
            chunk = parse_chunk(OsStr::from_bytes(size))?;
        } else if bytes == b"--chunk" {
            let size = arguments.next().ok_or("option '--chunk' requires an argument")?;
            chunk = parse_chunk(&size)?;
        } else {
            rest.push(argument);
        }
    }
    Ok((chunk, rest))
}

fn parse_chunk(size: &OsStr) -> Result<u64, String> {
    let shown = size.to_string_lossy();
    let bytes = parse_size(size.as_bytes()).ok_or_else(|| format!("'{shown}' is no size for --chunk"))?;
    if bytes < SMALLEST {
        return Err(format!("--chunk={shown} is too small: two machines must not write to one page; 64K is the least"));
    }
    Ok(bytes)
}

/// What haul can do and several processes cannot do together, if the user asks for any of it.
pub fn refusal(plan: &Plan, options: &RunOptions) -> Option<&'static str> {
    let (list, shard, digests) = (options.list_out.is_some(), plan.shard.is_some(), options.digests.is_some());
    let asks = plan.overwrite == Overwrite::Ask;
    [
        (asks, "'--interactive' is not possible: the processes of a job have no terminal to ask at"),
        (
            options.throttling.control.is_some(),
            "'--control' is not possible: the processes of a job do not read one file at one time",
        ),
        (
            options.reads_input,
            "'-' for standard input is not possible: the processes of a job do not have one standard input",
        ),
        (digests, "'--digests' is not possible: use --checksum alone and redirect the output of the job"),
        (plan.dry_run, "'--dry-run' is for one process: use haul"),
        (list, "'--list-out' is for one process: use haul"),
        (
            plan.delete.is_some(),
            "'--delete' is not possible: directories that stand at the destination belong to one process; use haul",
        ),
        (shard, "'--shard' is not possible: the processes of a job divide the work as they go"),
        (plan.moves, "'--move' is for one process: use haul"),
        (plan.clone_tree == CloneTree::Always, "'--clone-tree' is for one process: use haul"),
        (options.throttling.yields, "'--yield' is not possible: each process would yield to the others"),
    ]
    .into_iter()
    .find_map(|(asked, why)| asked.then_some(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(words: &[&str]) -> Result<(u64, Vec<OsString>), String> {
        take_chunk(words.iter().map(OsString::from))
    }

    #[test]
    fn its_own_option_is_taken_out_and_the_others_stay() {
        let rest = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(take(&["-a", "--chunk=1M", "x", "y"]), Ok((1 << 20, rest(&["-a", "x", "y"]))));
        assert_eq!(take(&["--chunk", "64K", "x", "y"]), Ok((64 << 10, rest(&["x", "y"]))));
        assert_eq!(take(&["x", "--", "--chunk=1M"]), Ok((CHUNK, rest(&["x", "--", "--chunk=1M"]))));
    }

    #[test]
    fn a_chunk_that_cannot_be_is_refused() {
        for words in [&["--chunk=x"][..], &["--chunk=4K"], &["--chunk"], &["--chunk="]] {
            assert!(take(words).is_err(), "{words:?}");
        }
    }
}
