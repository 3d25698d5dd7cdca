//! The options of haul-mpi: those of haul, a few that mean something else here, and two of its own.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use haul_copy::plan::{CloneTree, EngineChoice, Overwrite, Plan, Reflink};
use haul_frontend::run_options::RunOptions;
use haul_frontend::size::parse_size;

/// Bytes of a chunk, if the user does not say it: some 50 ms of a quick device, so that asking for the next one does not
/// count, and few enough that nobody waits long for the last one.
const CHUNK: u64 = 64 << 20;
/// The smallest chunk: a page of the page cache, which two machines must not both write to.
const SMALLEST: u64 = 64 << 10;

/// What haul does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Own {
    /// Bytes of a chunk, if the user says so.
    chunk: Option<u64>,
    /// Each rank makes a copy of its own.
    pub each: bool,
}

impl Own {
    /// Bytes of a chunk.
    pub fn chunk(self) -> u64 {
        self.chunk.unwrap_or(CHUNK)
    }
}

/// Takes `--chunk=SIZE` and `--each` out of the arguments, and gives what is left for haul.
///
/// # Errors
/// What is wrong with them, for the user.
pub fn take_own(arguments: impl IntoIterator<Item = OsString>) -> Result<(Own, Vec<OsString>), String> {
    let (mut own, mut rest) = (Own { chunk: None, each: false }, Vec::new());
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let bytes = argument.as_bytes();
        if bytes == b"--" {
            rest.push(argument);
            rest.extend(arguments);
            break;
        }
        if let Some(size) = bytes.strip_prefix(b"--chunk=") {
            own.chunk = Some(parse_chunk(OsStr::from_bytes(size))?);
        } else if bytes == b"--chunk" {
            let size = arguments.next().ok_or("option '--chunk' requires an argument")?;
            own.chunk = Some(parse_chunk(&size)?);
        } else if bytes == b"--each" {
            own.each = true;
        } else {
            rest.push(argument);
        }
    }
    Ok((own, rest))
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
pub fn refusal(plan: &Plan, options: &RunOptions, own: Own) -> Option<&'static str> {
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
            plan.delete.is_some() && !own.each,
            "'--delete' is not possible: directories that stand at the destination belong to one process; use haul",
        ),
        (shard, "'--shard' is not possible: the processes of a job divide the work as they go"),
        (plan.moves, "'--move' is for one process: use haul"),
        (plan.clone_tree == CloneTree::Always, "'--clone-tree' is for one process: use haul"),
        (own.each && own.chunk.is_some(), "'--chunk' is for files that the ranks share, and not for '--each'"),
        (
            own.each && plan.data.engine != EngineChoice::Auto,
            "'--engine' is not possible with '--each': what another rank has read is written",
        ),
        (
            own.each && plan.data.reflink == Reflink::Always,
            "'--reflink=always' is not possible with '--each': what another rank has read is written",
        ),
        (
            own.each && options.failures.is_some(),
            "'--failures' is not possible with '--each': each rank has failures of its own",
        ),
        (options.throttling.yields, "'--yield' is not possible: each process would yield to the others"),
    ]
    .into_iter()
    .find_map(|(asked, why)| asked.then_some(why))
}

#[cfg(test)]
mod tests {
    use haul_copy::plan::Delete;

    use super::*;

    fn take(words: &[&str]) -> Result<(Own, Vec<OsString>), String> {
        take_own(words.iter().map(OsString::from))
    }

    fn chunks_of(chunk: Option<u64>) -> Own {
        Own { chunk, each: false }
    }

    #[test]
    fn its_own_option_is_taken_out_and_the_others_stay() {
        let rest = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(take(&["-a", "--chunk=1M", "x", "y"]), Ok((chunks_of(Some(1 << 20)), rest(&["-a", "x", "y"]))));
        assert_eq!(take(&["--chunk", "64K", "x", "y"]), Ok((chunks_of(Some(64 << 10)), rest(&["x", "y"]))));
        assert_eq!(take(&["x", "--", "--chunk=1M"]), Ok((chunks_of(None), rest(&["x", "--", "--chunk=1M"]))));
    }

    #[test]
    fn a_copy_for_each_rank_is_asked_for_by_name() {
        let own = |words| take(words).unwrap().0;
        assert!(own(&["-a", "--each", "x", "y"]).each && !own(&["--", "--each", "y"]).each);
    }

    #[test]
    fn what_each_rank_does_alone_may_delete_and_shares_no_chunks() {
        let own = Own { chunk: None, each: true };
        let plan = Plan { delete: Some(Delete { force: false, excluded: false, most: None }), ..Plan::default() };
        assert_eq!(refusal(&plan, &RunOptions::default(), own), None);
        assert!(refusal(&plan, &RunOptions::default(), Own { each: false, ..own }).is_some());
        let chunked = Own { chunk: Some(1 << 20), ..own };
        assert!(refusal(&plan, &RunOptions::default(), chunked).is_some_and(|why| why.contains("--chunk")));
    }

    #[test]
    fn a_chunk_that_cannot_be_is_refused() {
        for words in [&["--chunk=x"][..], &["--chunk=4K"], &["--chunk"], &["--chunk="]] {
            assert!(take(words).is_err(), "{words:?}");
        }
    }
}
