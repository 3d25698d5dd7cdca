//! Sizes of files: each a function of where the file is, from a table that has the wanted distribution.

use crate::config::Config;

/// Quantiles of the lognormal distribution that the table has. What is rarer than one in twice as many is cut off: give such
/// files as large ones.
const QUANTILES: usize = 1024;

/// The sizes that files have, each as frequent as the others.
#[derive(Debug)]
pub(crate) struct Sizes(Vec<u64>);

impl Sizes {
    pub fn new(config: &Config) -> Sizes {
        if !config.sizes.is_empty() {
            return Sizes(config.sizes.clone());
        }
        if config.sigma == 0.0 {
            return Sizes(vec![config.mean_size.round() as u64]);
        }
        let quantile = |index: usize| (config.sigma * normal((index as f64 + 0.5) / QUANTILES as f64)).exp();
        let table: Vec<f64> = (0..QUANTILES).map(quantile).collect();
        // What is cut off would be missing from the mean.
        let scale = config.mean_size * QUANTILES as f64 / table.iter().sum::<f64>();
        Sizes(table.iter().map(|size| (size * scale).round() as u64).collect())
    }

    /// Bytes of the files `from..to` of the directory, and how many of them are not empty.
    pub fn total(&self, directory: u64, from: u64, to: u64) -> (u64, u64) {
        if let [size] = self.0[..] {
            return (size * (to - from), if size > 0 { to - from } else { 0 });
        }
        let (mut bytes, mut filled) = (0, 0);
        for index in from..to {
            // The high half is the better mixed one.
            let chance = mix(directory ^ index.wrapping_mul(0x9E37_79B9_7F4A_7C15)) >> 32;
            let size = self.0[((chance * self.0.len() as u64) >> 32) as usize];
            bytes += size;
            filled += u64::from(size > 0);
        }
        (bytes, filled)
    }
}

/// A number that looks like chance and is a function of `value`.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// The quantile of the standard normal distribution, found by halving: it is asked for once in a simulation.
fn normal(share: f64) -> f64 {
    let (mut low, mut high) = (-10.0, 10.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if below(middle) < share { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// The part of the standard normal distribution below `x`: Simpson's rule over its density.
fn below(x: f64) -> f64 {
    const STEPS: usize = 200;
    let density = |t: f64| (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let step = x / STEPS as f64;
    let inner: f64 = (1..STEPS).map(|i| density(i as f64 * step) * if i % 2 == 1 { 4.0 } else { 2.0 }).sum();
    0.5 + (density(0.0) + inner + density(x)) * step / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_has_its_mean_and_its_median() {
        let config = Config { mean_size: 1e6, sigma: 1.5, ..Config::default() };
        let sizes = Sizes::new(&config);
        let mean = sizes.total(7, 0, 1_000_000).0 as f64 / 1e6;
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "{mean}");
        let median = sizes.0[QUANTILES / 2] as f64;
        // exp(-sigma^2 / 2) of the mean; what is cut off at the end moves it a little.
        assert!((median / 1e6 / (-1.125f64).exp() - 1.0).abs() < 0.1, "{median}");
    }

    #[test]
    fn the_sum_does_not_depend_on_who_adds_it_up() {
        let sizes = Sizes::new(&Config { sizes: vec![0, 10, 4096], ..Config::default() });
        let (all, filled) = sizes.total(3, 0, 1000);
        let parts = [sizes.total(3, 0, 333), sizes.total(3, 333, 1000)];
        assert_eq!((parts[0].0 + parts[1].0, parts[0].1 + parts[1].1), (all, filled));
        assert!((500..800).contains(&filled), "{filled}");
    }
}
