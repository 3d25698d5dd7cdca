//! What the kernel does during a copy, by samples of perf.

use std::ffi::OsStr;
use std::path::Path;

use haul_measure::programs;

use super::competitor::{Competitor, How, PLACE_OF_DEST, PLACE_OF_SOURCE};
use super::state::{Halt, Session};
use super::timed::time_copy;
use crate::results::Outcome;

/// What the kernel does, in the order of the figures.
pub const PARTS: [&str; 5] = ["copying memory", "journal", "allocation", "page cache", "other"];

/// Words in the names of the functions that do it: a line for each part but the last.
const WORDS: &str = include_str!("sampled.txt");

/// Makes a copy below perf: seconds of CPU time in the kernel by [`PARTS`], or why there are none. A wrong copy ends the
/// session.
pub fn sample(session: &mut Session, of: &Competitor, from: (&Path, u64)) -> Result<Result<Vec<f64>, String>, Halt> {
    let data = session.folder().join("perf.data");
    // This clock needs no counters of the processor, which virtual machines lack.
    let perf = ["perf", "record", "-q", "-g", "-e", "cpu-clock:k", "-c", "250000", "-o"].map(OsStr::new);
    let command = of.how.command(&session.own, PLACE_OF_SOURCE.as_ref(), PLACE_OF_DEST.as_ref());
    let words =
        perf.into_iter().chain([data.as_os_str(), OsStr::new("--"), command.get_program()]).chain(command.get_args());
    let how = How::Words(words.map(|word| word.to_string_lossy().into_owned()).collect());
    let timeout = session.time_left().unwrap_or(session.settings.timeout).min(session.settings.timeout);
    Ok(match time_copy(session, &how, from.0, of.cache, (from.1, timeout))? {
        Ok(_) => seconds(&data),
        // Whoever copies wrongly here does so elsewhere.
        Err(Outcome::Wrong(why)) => {
            return Err(Halt::Failed(format!("{} made a WRONG COPY below perf: {why}", of.name)));
        }
        Err(Outcome::Failed(why)) => Err(why),
        Err(other) => Err(format!("{other:?}")),
    })
}

fn seconds(data: &Path) -> Result<Vec<f64>, String> {
    let counts = sorted(&programs::output(programs::command("perf").args(["script", "-F", "ip,sym", "-i"]).arg(data))?);
    if counts[..PARTS.len() - 1].iter().sum::<u32>() == 0 {
        return Err("perf has no names of the kernel's functions (kernel.kptr_restrict may hide them)".to_owned());
    }
    Ok(counts.map(|count| f64::from(count) * 250e-6).to_vec())
}

/// Counts stacks. Each is of the part of its innermost function that has one: what that calls, it calls for this.
fn sorted(script: &str) -> [u32; PARTS.len()] {
    let part_of = |function: &str| WORDS.lines().position(|words| words.split(' ').any(|word| function.contains(word)));
    let mut counts = [0; PARTS.len()];
    for stack in script.split("\n\n").filter(|stack| !stack.trim().is_empty()) {
        counts[stack.lines().find_map(part_of).unwrap_or(PARTS.len() - 1)] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of cp and of copy_file_range on ext4 with Linux 6.18, as perf 6.1 shows them; the innermost function is first.
    const RECORDED: &str = include_str!("sampled_test.txt");

    #[test]
    fn a_stack_is_what_its_innermost_known_function_does() {
        let each: Vec<usize> = RECORDED
            .split("\n\n\n")
            .map(|stack| sorted(stack).iter().position(|count| *count == 1).expect("it is one stack"))
            .collect();
        assert_eq!(each, [0, 0, 0, 1, 2, 2, 3, 3, 4, 4]);
        assert_eq!((sorted(RECORDED), sorted("\n\n\n")), ([3, 1, 2, 2, 2], [0; 5]));
    }
}
