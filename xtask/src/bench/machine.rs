//! What the measurements were made on, and what else was going on.

use std::fs;
use std::path::Path;
use std::time::Duration;

use haul_measure::machine::Machine;

use crate::shell::{self, Result};

/// Lines that describe machine, kernel and programs.
///
/// # Errors
/// When a program does not tell its version.
pub fn describe(haul: &Path) -> Result<String> {
    let machine = Machine::here();
    let first = |text: String| text.lines().next().unwrap_or_default().to_owned();
    let cp = first(shell::output(shell::command("cp").arg("--version"))?);
    let own = shell::output(shell::command(haul).arg("--version")).map(first)?;
    let commit = shell::output(shell::command("git").args(["rev-parse", "--short", "HEAD"])).unwrap_or_default();
    Ok(format!(
        "{}, {} cores, {} MiB, Linux {}; {own} (commit {}); {cp}",
        machine.processor.as_deref().unwrap_or("unknown processor"),
        machine.cores,
        machine.memory >> 20,
        machine.kernel.as_deref().unwrap_or("of unknown release"),
        if commit.is_empty() { "unknown" } else { commit.trim() },
    ))
}

/// CPU time that the whole machine has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// All programs in user mode. Kernel threads, which write back what a copy left behind, use none, so a difference
    /// beyond the timed program's own is other load.
    pub user: Duration,
    /// Everything: user mode, kernel, interrupts.
    pub busy: Duration,
    /// What the hypervisor gave to other machines while this one wanted to run.
    pub stolen: Duration,
    /// What this process used in user mode itself.
    own: Duration,
}

impl Load {
    /// Since the machine was started.
    ///
    /// # Errors
    /// When /proc/stat cannot be read.
    pub fn now() -> Result<Load> {
        let table = read("/proc/stat")?;
        let fields = table.lines().next().unwrap_or_default().split_whitespace().skip(1);
        let per_second = haul_sys::rustix::param::clock_ticks_per_second().max(1);
        let time = |ticks: u64| Duration::from_millis(ticks * 1000 / per_second);
        let ticks: Vec<u64> = fields.map(|field| field.parse().unwrap_or(0)).collect();
        // user nice system idle iowait irq softirq steal
        let sum = |which: &[usize]| time(which.iter().filter_map(|index| ticks.get(*index)).sum());
        Ok(Load {
            user: sum(&[0, 1]),
            busy: sum(&[0, 1, 2, 5, 6]),
            stolen: sum(&[7]),
            own: haul_sys::process_state::Usage::of_process().user,
        })
    }

    /// What was used since an earlier look.
    pub fn since(self, earlier: Load) -> Load {
        Load {
            user: self.user.saturating_sub(earlier.user),
            busy: self.busy.saturating_sub(earlier.busy),
            stolen: self.stolen.saturating_sub(earlier.stolen),
            own: self.own.saturating_sub(earlier.own),
        }
    }

    /// Whether others used more than 5% of one core in this time, of which the timed program used `user`. The kernel
    /// counts in hundredths of a second, so less than three of them prove nothing.
    pub fn disturbs(self, user: Duration, time: Duration) -> bool {
        let other = self.user.saturating_sub(user + self.own) + self.stolen;
        other > (time / 20).max(Duration::from_millis(30))
    }
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_load_of_others_disturbs() {
        let ms = Duration::from_millis;
        let load = Load { user: ms(1100), busy: ms(3000), stolen: ms(0), own: ms(40) };
        assert!(!load.disturbs(ms(1000), ms(2000)));
        assert!(load.disturbs(ms(900), ms(2000)));
        assert!(Load { stolen: ms(100), ..load }.disturbs(ms(1000), ms(2000)));
        assert!(!Load { user: ms(25), ..load }.disturbs(ms(0), ms(10)));
    }
}
