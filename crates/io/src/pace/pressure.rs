//! What the kernel's pressure-stall figures say about the needs of others.

use std::time::Duration;

/// What the kernel's counters have come to at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    /// When it was taken, since some fixed point.
    pub at: Duration,
    /// Time during which somebody waited for input or output (`some` of io.pressure).
    pub io_stalled: Duration,
    /// Time during which somebody waited for a processor (`some` of cpu.pressure).
    pub cpu_stalled: Duration,
    /// Time that our own threads waited for a processor, summed over the threads.
    pub own_cpu_wait: Duration,
}

/// Shares of time, from 0 to 1, in which others had to wait.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pressure {
    /// For input or output.
    pub io: f64,
    /// For a processor.
    pub cpu: f64,
}

impl Pressure {
    /// What three samples say: `begin` to `silence` is a time of work, `silence` to `end` one in which we did nothing.
    ///
    /// A copy waits for input and output all the time, which says nothing about others, so that figure is taken from the
    /// silence: whoever waits then is not us. Processors are the other way round: those who need one are served as soon as
    /// we are silent, so that figure is taken from the time of work, less what our own threads have waited, which is at
    /// least what they contributed to it.
    pub fn of_others(begin: &Sample, silence: &Sample, end: &Sample) -> Pressure {
        let io = share(end.io_stalled.saturating_sub(silence.io_stalled), end.at.saturating_sub(silence.at));
        let stalled = silence.cpu_stalled.saturating_sub(begin.cpu_stalled);
        let own = silence.own_cpu_wait.saturating_sub(begin.own_cpu_wait);
        let cpu = share(stalled.saturating_sub(own), silence.at.saturating_sub(begin.at));
        Pressure { io, cpu }
    }

    /// The larger of both.
    pub fn worst(&self) -> f64 {
        self.io.max(self.cpu)
    }
}

fn share(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() { 0.0 } else { (part.as_secs_f64() / whole.as_secs_f64()).min(1.0) }
}

/// The total of the line `some` in a file of /proc/pressure or a cgroup's *.pressure. `None` if there is none.
pub fn parse_stalled(text: &str) -> Option<Duration> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = line.split_whitespace().find_map(|word| word.strip_prefix("total="))?;
    Some(Duration::from_micros(total.parse().ok()?))
}

/// The time that a thread has waited for a processor: the second number of its schedstat.
pub fn parse_run_delay(text: &str) -> Option<Duration> {
    Some(Duration::from_nanos(text.split_whitespace().nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u64, io: u64, cpu: u64, own: u64) -> Sample {
        let time = Duration::from_millis;
        Sample { at: time(at), io_stalled: time(io), cpu_stalled: time(cpu), own_cpu_wait: time(own) }
    }

    #[test]
    fn the_totals_are_read_as_the_kernel_writes_them() {
        let text = "some avg10=0.90 avg60=1.17 avg300=0.96 total=802057305\n\
                    full avg10=0.89 avg60=1.13 avg300=0.84 total=206993310\n";
        assert_eq!(parse_stalled(text), Some(Duration::from_micros(802_057_305)));
        assert_eq!(parse_run_delay("97976 1234 1\n"), Some(Duration::from_nanos(1234)));
        for wrong in ["", "full avg10=0.00 total=1\n", "some total=x\n", "some avg10=0.00\n"] {
            assert_eq!(parse_stalled(wrong), None, "{wrong:?}");
        }
        assert_eq!(parse_run_delay("1"), None);
    }

    #[test]
    fn our_own_waiting_for_the_disk_is_no_pressure() {
        let pressure = Pressure::of_others(&sample(0, 0, 0, 0), &sample(450, 450, 0, 0), &sample(500, 450, 0, 0));
        assert_eq!(pressure, Pressure { io: 0.0, cpu: 0.0 });
    }

    #[test]
    fn who_waits_for_the_disk_while_we_are_silent_is_somebody_else() {
        let pressure = Pressure::of_others(&sample(0, 0, 0, 0), &sample(450, 450, 0, 0), &sample(500, 475, 0, 0));
        assert_eq!(pressure.io, 0.5);
    }

    #[test]
    fn our_own_waiting_for_a_processor_is_taken_off() {
        let of = |own| Pressure::of_others(&sample(0, 0, 0, 0), &sample(400, 0, 200, own), &sample(450, 0, 200, own));
        assert_eq!(of(0).cpu, 0.5);
        assert_eq!(of(100).cpu, 0.25);
        assert_eq!(of(900).cpu, 0.0, "several threads waited at the same time");
    }

    #[test]
    fn a_share_is_never_more_than_one_and_nothing_is_divided_by_zero() {
        let pressure = Pressure::of_others(&sample(0, 0, 0, 0), &sample(10, 0, 90, 0), &sample(20, 90, 90, 0));
        assert_eq!(pressure, Pressure { io: 1.0, cpu: 1.0 });
        let still = sample(5, 5, 5, 5);
        assert_eq!(Pressure::of_others(&still, &still, &still).worst(), 0.0);
    }
}
