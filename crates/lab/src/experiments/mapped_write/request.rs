//! What is to be measured, and how it is made to fit into time and space.

use std::time::Duration;

use haul_measure::words;

use super::part::Task;
use super::{grid, msync, stall, under};

/// What is to be measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Page by page: 100 rounds of 512 KiB, within 20 s.
    pub msync: msync::Settings,
    /// Files from 64 KiB to 32 MiB, records from 4 KiB to 2 MiB, within 64 MiB and 25 s.
    pub grid: grid::Settings,
    /// Stores to pages under write-back: 20 times with 8 MiB, within 5 s.
    pub under: under::Settings,
    /// 50 files that grow to 2 GiB together, within 25 s.
    pub stall: stall::Settings,
}

impl Request {
    /// The same, made to fit into a time, of which each part takes its share (3, 4, 1 and 4 of 12). Files grow for all that
    /// the other parts leave; nothing else gets longer.
    #[must_use]
    pub(crate) fn within(mut self, time: Duration) -> Request {
        let of = |shares: u32, usual: Duration| usual.min(time * shares / 12);
        self.msync.time = of(3, self.msync.time);
        self.grid.time = of(4, self.grid.time);
        self.under.time = of(1, self.under.time);
        self.stall.time = time.saturating_sub(self.msync.time + self.grid.time + self.under.time);
        self
    }

    /// Files grow to this space together, and no others take more.
    pub(crate) fn grow_to(&mut self, space: u64) {
        self.stall.space = space;
        self.limit(space);
    }

    /// No files take more than the space together.
    pub(crate) fn limit(&mut self, space: u64) {
        self.grid.space = self.grid.space.min(space);
        self.under.size = self.under.size.min(space);
        self.msync.size = self.msync.size.min(space / 2);
        self.stall.space = self.stall.space.min(space);
    }

    /// The parts with the times that they may take.
    pub fn parts(&self) -> [(&'static str, Task, Duration); 4] {
        [
            ("msync", Task::Msync(self.msync.clone()), self.msync.time),
            ("grid", Task::Grid(self.grid.clone()), self.grid.time),
            ("under", Task::Under(self.under.clone()), self.under.time),
            ("stall", Task::Stall(self.stall.clone()), self.stall.time),
        ]
    }

    /// Parts for which there is no space, and parts that are to take no time.
    pub(crate) fn too_small(&self) -> Vec<(String, String)> {
        let least = [
            ("msync", self.msync.size, 64 << 10, self.msync.time),
            ("grid", self.grid.space, 128 << 10, self.grid.time),
            ("under", self.under.size, 64 << 10, self.under.time),
            ("stall", self.stall.space, self.stall.segment, self.stall.time),
        ];
        let why = |(name, space, least, time): (&str, u64, u64, Duration)| {
            let why = match (time.is_zero(), space < least) {
                (true, _) => "no time was given to it".to_owned(),
                (_, true) => format!("it needs {}, and may use {}", words::bytes(least), words::bytes(space)),
                _ => return None,
            };
            Some((name.to_owned(), why))
        };
        least.into_iter().filter_map(why).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(seconds: u64, space: u64) -> Request {
        let mut request = Request::default().within(Duration::from_secs(seconds));
        request.limit(space);
        request
    }

    #[test]
    fn the_usual_request_fits_into_a_time_and_a_space() {
        let request = within(60, 100 << 20);
        let times = [request.msync.time, request.grid.time, request.under.time, request.stall.time];
        assert_eq!(times.map(|time| time.as_secs()), [15, 20, 5, 20]);
        assert_eq!((request.stall.space, request.grid.space), (100 << 20, 64 << 20));
        let usual = Request::default();
        let longer = Duration::from_secs(3600) - usual.msync.time - usual.grid.time - usual.under.time;
        let stall = stall::Settings { time: longer, ..usual.stall.clone() };
        assert_eq!(within(3600, u64::MAX), Request { stall, ..usual });
    }

    #[test]
    fn files_grow_as_far_as_the_user_says() {
        let mut request = Request::default();
        request.grow_to(16 << 30);
        assert_eq!((request.stall.space, request.grid.space), (16 << 30, Request::default().grid.space));
        request.grow_to(1 << 20);
        assert_eq!((request.stall.space, request.grid.space), (1 << 20, 1 << 20));
    }

    #[test]
    pub fn parts_without_space_or_time_are_skipped_and_named() {
        let request = within(12, 1 << 20);
        let skipped = request.too_small();
        assert_eq!(skipped.len(), 1);
        assert_eq!(skipped[0], ("stall".to_owned(), "it needs 4 MiB, and may use 1 MiB".to_owned()));
        let skipped = within(0, 1 << 30).too_small();
        assert_eq!(skipped.len(), 4);
    }
}
