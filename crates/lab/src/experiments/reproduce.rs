//! `haul-lab reproduce`: the five experiments, scaled to the time and the space that there are.

use std::path::Path;
use std::time::{Duration, Instant};

use haul_measure::words;

use super::{MIB, async_tree, in_kernel, mapped_copy, mapped_write, sparse_image};
use crate::session::forecast::{self, Pace, Runs};
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

/// With less nothing would stand out from noise.
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
    /// Of the trees of `async-tree`.
    pub totals: Vec<u64>,
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
            image: scaled(1024.0, 8192.0).max(sparse_image::SMALLEST),
        })
    }
}

impl Sizes {
    fn mapped_copy(&self) -> mapped_copy::Request {
        mapped_copy::Request { size: self.file, ..mapped_copy::Request::default() }
    }

    fn in_kernel(&self) -> in_kernel::Request {
        in_kernel::Request { sizes: self.files.clone(), ..in_kernel::Request::default() }
    }

    fn async_tree(&self) -> async_tree::Request {
        async_tree::Request {
            totals: self.totals.clone(),
            // The whole matrix of sizes and numbers, and additions at its edges.
            with_additions: vec![32, 256],
            ..async_tree::Request::default()
        }
    }

    /// The runs that the claims about an experiment need; none of the one that does not go by rounds.
    fn runs(&self, name: &str) -> Vec<Runs> {
        let nowhere = Path::new("");
        match name {
            mapped_copy::NAME => forecast::all(&mapped_copy::groups(&self.mapped_copy(), nowhere)),
            in_kernel::NAME => forecast::all(&in_kernel::groups(&self.in_kernel(), nowhere)),
            async_tree::NAME => forecast::all(&async_tree::groups(&self.async_tree(), nowhere)),
            sparse_image::NAME => vec![forecast::runs(&sparse_image::competitors(self.image), self.image)],
            _ => Vec::new(),
        }
    }
}

/// The experiments whose claims a budget cannot decide.
fn short(request: &Request, pace: &Pace, budget: Duration, places: u32) -> Vec<String> {
    let Ok(sizes) = (Request { budget, ..request.clone() }).sizes() else { return vec![NAME.to_owned()] };
    let is_short = |(name, share): &&(&str, u32)| {
        let places = if [mapped_copy::NAME, async_tree::NAME].contains(name) { places } else { 1 };
        pace.time(&sizes.runs(name)) * places > budget * *share / 100
    };
    SHARES.iter().filter(is_short).map(|(name, _)| (*name).to_owned()).collect()
}

/// Runs what of it was not run yet.
pub fn run(session: &mut Session, request: &Request) -> Result<(), Halt> {
    let sizes = request.sizes()?;
    let begun = Instant::now();
    let places = session.places();
    forecast::say(session, ("budget", request.budget), |pace, budget| short(request, pace, budget, places))?;
    let mut share = 0;
    for (name, hundredths) in SHARES {
        share += hundredths;
        session.deadline = Some(begun + request.budget * share / 100);
        match name {
            mapped_copy::NAME => mapped_copy::run(session, &sizes.mapped_copy())?,
            in_kernel::NAME => in_kernel::run(session, &sizes.in_kernel())?,
            mapped_write::NAME => {
                let time = session.time_left().unwrap_or(mapped_write::USUAL_TIME).min(mapped_write::USUAL_TIME);
                let mut parts = mapped_write::Request::default().within(time);
                parts.limit(request.space / 4);
                mapped_write::run_in(session, &parts)?;
            }
            async_tree::NAME => async_tree::run(session, &sizes.async_tree())?,
            sparse_image::NAME => {
                sparse_image::run(session, &sparse_image::Request { size: sizes.image, image: None })?
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
    fn what_a_budget_cannot_decide_follows_from_the_pace() {
        let short = |run: f64, seconds: u64| {
            short(&Request::default(), &Pace { run, byte: 1e-10 }, Duration::from_secs(seconds), 1)
        };
        assert_eq!(short(1e-3, 600), [""; 0]);
        assert_eq!(short(0.3, 60), [in_kernel::NAME, async_tree::NAME]);
        assert_eq!(short(0.2, 59), [NAME], "so short a budget is refused");
        assert_eq!(short(0.2, 600), [""; 0]);
    }

    #[test]
    fn too_little_time_or_space_is_refused() {
        assert!(Request { budget: Duration::from_secs(59), ..Request::default() }.sizes().is_err());
        assert!(Request { space: LEAST_SPACE - 1, ..Request::default() }.sizes().is_err());
    }
}
