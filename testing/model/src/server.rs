//! What many share: servers with a queue, and processors.

use crate::clock::Nanos;

/// Serves one request at a time, in the order in which they come.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    nanos_per_unit: f64,
    free_at: Nanos,
    /// Time that it has worked.
    pub busy: Nanos,
}

impl Server {
    /// One that does `rate` units a second; with 0 everything at once.
    pub fn with_rate(rate: f64) -> Server {
        Server { nanos_per_unit: if rate > 0.0 { 1e9 / rate } else { 0.0 }, free_at: 0, busy: 0 }
    }

    /// One that takes so many seconds for a unit.
    pub fn with_cost(seconds: f64) -> Server {
        Server { nanos_per_unit: seconds * 1e9, free_at: 0, busy: 0 }
    }

    /// Whether requests take no time.
    pub fn has_no_limit(&self) -> bool {
        self.nanos_per_unit == 0.0
    }

    /// When a request that comes now will be done.
    pub fn book(&mut self, now: Nanos, units: f64) -> Nanos {
        let time = (units * self.nanos_per_unit).round() as Nanos;
        if time == 0 {
            return now;
        }
        self.busy += time;
        self.free_at = self.free_at.max(now) + time;
        self.free_at
    }
}

/// The processors of a node.
#[derive(Debug, Clone)]
pub(crate) struct Cores {
    free_at: Vec<Nanos>,
    /// How much of each is left by what runs beside the copy.
    speed: f64,
    /// Time that all of them have worked, together.
    pub busy: Nanos,
}

impl Cores {
    pub fn new(count: u64, speed: f64) -> Cores {
        Cores { free_at: vec![0; count as usize], speed, busy: 0 }
    }

    /// When so much CPU time, asked for now, will have been had: by the processor that is free first.
    pub fn book(&mut self, now: Nanos, time: Nanos) -> Nanos {
        if time == 0 {
            return now;
        }
        let time = (time as f64 / self.speed).round() as Nanos;
        self.busy += time;
        let first = self.free_at.iter_mut().min().expect("a node has a processor");
        *first = (*first).max(now) + time;
        *first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_does_one_thing_at_a_time() {
        let mut server = Server::with_rate(1000.0);
        assert_eq!(server.book(0, 2.0), 2_000_000);
        assert_eq!(server.book(1_000_000, 1.0), 3_000_000);
        assert_eq!(server.book(9_000_000, 1.0), 10_000_000);
        assert_eq!(server.busy, 4_000_000);
        assert_eq!(Server::with_rate(0.0).book(7, 1e12), 7);
    }

    #[test]
    fn two_processors_do_two_things_at_a_time() {
        let mut cores = Cores::new(2, 0.5);
        assert_eq!([cores.book(0, 5), cores.book(0, 5), cores.book(0, 5)], [10, 10, 20]);
    }
}
