//! `haul-lab reproduce`: the five experiments, scaled to the time and the space that there are.

use std::time::{Duration, Instant};

use haul_measure::words;

use super::{MIB, async_tree, in_kernel, mapped_copy, mapped_write, sparse_image};
use crate::session::{Halt, Session};

pub const NAME: &str = "reproduce";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub budget: Duration,
    /// Bytes that may be written at the same time.
    pub space: u64,
}

impl Default for Request {
    fn default() -> Request {
        Request { budget: Duration::from_secs(600), space: 8 << 30 }
    }
}

/// With less nothing could be told from noise.
const LEAST_TIME: Duration = Duration::from_secs(60);
const LEAST_SPACE: u64 = 512 * MIB;

/// Shares of the time in hundredths. What an experiment leaves goes to those after it.
const SHARES: [(&str, u32); 5] = [
    (mapped_copy::NAME, 18),
    (in_kernel::NAME, 17),
    (mapped_write::NAME, 17),
    (async_tree::NAME, 28),
    (sparse_image::NAME, 15),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    /// Of the file of `mapped-copy`.
    pub file: u64,
    /// Of the files of `in-kernel`.
    pub files: Vec<u64>,
    /// Of the trees of `async-tree`, and numbers of their files.
    pub totals: Vec<u64>,
    /// Numbers of files of `async-tree`.
    pub counts: Vec<u64>,
    pub image: u64,
}

impl Request {
    /// Sizes that fit: the published ones times one factor, which is 1/2 to 1/8 of them with 10 minutes and 8 GiB.
    pub fn sizes(&self) -> Result<Sizes, String> {
        if self.budget < LEAST_TIME {
            return Err(format!(
                "a budget of {} s is too short; the least is {} s",
                self.budget.as_secs(),
                LEAST_TIME.as_secs()
            ));
        }
        if self.space < LEAST_SPACE {
            return Err(format!(
                "{} are too little; the least is {}",
                words::bytes(self.space),
                words::bytes(LEAST_SPACE)
            ));
        }
        let usual = Request::default();
        let scale =
            (self.budget.as_secs_f64() / usual.budget.as_secs_f64()).min(self.space as f64 / usual.space as f64);
        let scaled = |mib: f64, most: f64| ((mib * scale).clamp(8.0, most)).round() as u64 * MIB;
        let all = |mib: &[f64], factor: f64| {
            let mut sizes: Vec<u64> = mib.iter().map(|size| scaled(size * factor, *size)).collect();
            sizes.dedup();
            sizes
        };
        Ok(Sizes {
            file: scaled(500.0, 1000.0),
            files: all(&[512.0, 1024.0, 1536.0, 2048.0], 0.25),
            totals: all(&[100.0, 500.0, 1000.0, 2000.0], 0.25),
            counts: vec![32, 64, 128, 256],
            image: scaled(1024.0, 8192.0).max(sparse_image::SMALLEST),
        })
    }
}

/// Runs what of it was not run yet.
pub fn run(session: &mut Session, request: &Request) -> Result<(), Halt> {
    let sizes = request.sizes()?;
    session.needs_room(request.space.min(4 * sizes.image), NAME)?;
    let begun = Instant::now();
    let mut share = 0;
    for (name, hundredths) in SHARES {
        share += hundredths;
        if session.results.section(name).is_some_and(|section| section.complete) {
            continue;
        }
        session.deadline = Some(begun + request.budget * share / 100);
        match name {
            mapped_copy::NAME => {
                let request = mapped_copy::Request { size: sizes.file, ..mapped_copy::Request::default() };
                mapped_copy::run(session, &request)?;
            }
            in_kernel::NAME => {
                let request = in_kernel::Request { sizes: sizes.files.clone(), ..in_kernel::Request::default() };
                in_kernel::run(session, &request)?;
            }
            mapped_write::NAME => {
                let time = session.time_left().unwrap_or(mapped_write::USUAL_TIME).min(mapped_write::USUAL_TIME);
                let mut parts = mapped_write::Request::default().within(time);
                parts.limit(request.space / 4);
                mapped_write::run_in(session, &parts)?;
            }
            async_tree::NAME => {
                let request = async_tree::Request {
                    totals: sizes.totals.clone(),
                    files: sizes.counts.clone(),
                    // The whole matrix of sizes and numbers, and additions at its edges.
                    with_additions: vec![32, 256],
                    ..async_tree::Request::default()
                };
                async_tree::run(session, &request)?;
            }
            sparse_image::NAME => {
                let request = sparse_image::Request { size: sizes.image, image: None };
                sparse_image::run(session, &request)?;
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_time_and_space_the_sizes_are_the_published_ones() {
        let plenty = Request { budget: Duration::from_secs(86400), space: 1 << 40 }.sizes().unwrap();
        assert_eq!((plenty.file, plenty.image), (1000 * MIB, 8 << 30));
        assert_eq!(plenty.files, [512, 1024, 1536, 2048].map(|size| size * MIB));
        assert_eq!(plenty.totals, [100, 500, 1000, 2000].map(|size| size * MIB));
    }

    #[test]
    fn sizes_fit_into_the_space() {
        for space in [LEAST_SPACE, 2 << 30, 8 << 30, 100 << 30] {
            let sizes = Request { space, ..Request::default() }.sizes().unwrap();
            let largest = sizes.files.iter().chain(&sizes.totals).chain([&sizes.file]).max().copied().unwrap();
            assert!(3 * largest <= space && 4 * sizes.image <= space, "{space}: {sizes:?}");
        }
    }

    #[test]
    fn too_little_time_or_space_is_refused() {
        assert!(Request { budget: Duration::from_secs(59), ..Request::default() }.sizes().is_err());
        assert!(Request { space: LEAST_SPACE - 1, ..Request::default() }.sizes().is_err());
    }
}
