//! What else the machine was doing.

use std::fs;
use std::time::Duration;

use haul_sys::process_state::Usage;
use haul_sys::rustix::param::clock_ticks_per_second;

/// The kernel counts in hundredths of a second, so three of them are as good as none.
const GRAIN: Duration = Duration::from_millis(30);

/// CPU time that the whole machine has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// All programs in user mode. Kernel threads, which write back what a copy left behind, use none.
    user: Duration,
    /// Everything: user mode, kernel, interrupts.
    busy: Duration,
    /// What the hypervisor gave to other machines while this one wanted to run.
    stolen: Duration,
    /// What this process used in user mode itself.
    own: Duration,
}

impl Load {
    /// Since the machine was started. Where /proc is missing nobody else does anything.
    pub fn now() -> Load {
        let table = fs::read_to_string("/proc/stat").unwrap_or_default();
        Load { own: Usage::of_process().user, ..Load::parse(&table, clock_ticks_per_second()) }
    }

    fn parse(table: &str, per_second: u64) -> Load {
        let fields = table.lines().next().unwrap_or_default().split_whitespace().skip(1);
        let ticks: Vec<u64> = fields.map(|field| field.parse().unwrap_or(0)).collect();
        let sum = |which: &[usize]| {
            let ticks: u64 = which.iter().filter_map(|index| ticks.get(*index)).sum();
            Duration::from_millis(ticks.saturating_mul(1000) / per_second.max(1))
        };
        // user nice system idle iowait irq softirq steal
        Load { user: sum(&[0, 1]), busy: sum(&[0, 1, 2, 5, 6]), stolen: sum(&[7]), own: Duration::ZERO }
    }

    /// CPU time of everybody since an earlier look, kernel threads included.
    pub fn of_all(self, earlier: Load) -> Duration {
        self.busy.saturating_sub(earlier.busy)
    }

    /// CPU time of other programs in user mode, and of other machines, since an earlier look, in which the timed program used
    /// `user`. Zero where it is below the grain of the kernel's clock.
    pub(crate) fn of_others(self, earlier: Load, user: Duration) -> Duration {
        let all = self.user.saturating_sub(earlier.user) + self.stolen.saturating_sub(earlier.stolen);
        let known = user + self.own.saturating_sub(earlier.own);
        Some(all.saturating_sub(known)).filter(|others| *others > GRAIN).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_others_did_counts() {
        let before = Load::parse("cpu  100 10 5 9 9 0 0 7 0 0\n", 100);
        let after = Load::parse("cpu  300 10 25 9 9 0 1 17 0 0\n", 100);
        assert_eq!(after.of_others(before, Duration::from_secs(1)), Duration::from_millis(1100));
        assert_eq!(after.of_others(before, Duration::from_millis(2080)), Duration::ZERO);
        assert_eq!(after.of_all(before), Duration::from_millis(2210));
    }
}
