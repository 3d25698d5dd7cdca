//! Predictions beside measurements.

use crate::config::Config;
use crate::keys;
use crate::report::{significant, table};
use crate::sim::simulate;

/// Times that were measured for a number of ranks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measured {
    /// Processes of the job.
    pub ranks: u64,
    /// Seconds of each run, in rising order; never empty.
    pub seconds: Vec<f64>,
}

impl Measured {
    /// Reads lines of `ranks,seconds`, in any order, one for each run. A line without a number at its beginning is a heading,
    /// and is left out, as are empty lines and comments (`#`).
    ///
    /// # Errors
    /// The first line that is neither, or there is none.
    pub(crate) fn read(text: &str) -> Result<Vec<Measured>, String> {
        let mut found: Vec<Measured> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.starts_with(|letter: char| letter.is_ascii_digit()) {
                continue;
            }
            let mistake = || format!("line {}: expected RANKS,SECONDS: {line}", number + 1);
            let (ranks, seconds) = line.split_once(',').ok_or_else(mistake)?;
            let ranks: u64 = ranks.trim().parse().map_err(|_| mistake())?;
            let seconds: f64 = seconds.split(',').next().unwrap_or_default().trim().parse().map_err(|_| mistake())?;
            if ranks == 0 || !seconds.is_finite() || seconds <= 0.0 {
                return Err(mistake());
            }
            match found.iter_mut().find(|measured| measured.ranks == ranks) {
                Some(measured) => measured.seconds.push(seconds),
                None => found.push(Measured { ranks, seconds: vec![seconds] }),
            }
        }
        if found.is_empty() {
            return Err("there is no line of RANKS,SECONDS".to_owned());
        }
        found.sort_by_key(|measured| measured.ranks);
        found.iter_mut().for_each(|measured| measured.seconds.sort_by(f64::total_cmp));
        Ok(found)
    }

    /// The middle of the times.
    pub(crate) fn median(&self) -> f64 {
        let middle = self.seconds.len() / 2;
        if self.seconds.len().is_multiple_of(2) {
            f64::midpoint(self.seconds[middle - 1], self.seconds[middle])
        } else {
            self.seconds[middle]
        }
    }
}

/// Predictions beside measurements.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Comparison {
    /// The measurement and the predicted seconds.
    pub rows: Vec<(Measured, f64)>,
    /// The number of ranks that the model was fitted to; its row proves nothing.
    pub fitted: Option<u64>,
}

/// Predicts what was measured.
///
/// # Errors
/// As [`simulate`].
pub(crate) fn compare(config: &Config, measured: Vec<Measured>, fitted: Option<u64>) -> Result<Comparison, String> {
    let predict = |measured: Measured| {
        let report = simulate(&Config { ranks: measured.ranks, ..config.clone() })?;
        Ok((measured, report.seconds))
    };
    Ok(Comparison { rows: measured.into_iter().map(predict).collect::<Result<_, String>>()?, fitted })
}

/// Changes the parameter `key`, a time of the processor, so that the prediction for the smallest number of ranks is
/// what was measured. Gives that number.
///
/// # Errors
/// No value of the parameter gives the measured time, or as [`simulate`].
pub(crate) fn fit(config: &mut Config, key: &str, measured: &[Measured]) -> Result<u64, String> {
    let first = measured.first().ok_or("there is nothing to fit to")?;
    let wanted = first.median();
    let predicted = |config: &mut Config, value: f64| {
        keys::set(config, key, &format!("{value}"))?;
        simulate(&Config { ranks: first.ranks, ..config.clone() }).map(|report| report.seconds)
    };
    if !["cpu-per-file", "cpu-per-byte", "cpu-per-directory"].contains(&key) {
        return Err(format!("{key} cannot be fitted; cpu-per-file, cpu-per-byte and cpu-per-directory can"));
    }
    if predicted(config, 0.0)? > wanted {
        return Err(format!("even with {key} = 0 the prediction is longer than the measured {wanted} s"));
    }
    let (mut low, mut high) = (0.0, 1e-12);
    while predicted(config, high)? < wanted {
        high *= 4.0;
        if high > 1e6 {
            return Err(format!("{key} changes nothing about the prediction"));
        }
    }
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if predicted(config, middle)? < wanted { low = middle } else { high = middle }
    }
    predicted(config, f64::midpoint(low, high))?;
    Ok(first.ranks)
}

impl Comparison {
    /// The table, as Markdown or CSV.
    pub(crate) fn table(&self, csv: bool) -> String {
        let header = ["ranks", "runs", "measured s, median (range)", "predicted s", "error %"].map(str::to_owned);
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|(measured, predicted)| self.row(measured, *predicted)).collect();
        table(&header, &rows, csv)
    }

    fn row(&self, measured: &Measured, predicted: f64) -> Vec<String> {
        let median = measured.median();
        let (least, most) = (measured.seconds[0], measured.seconds[measured.seconds.len() - 1]);
        let error = match self.fitted {
            Some(ranks) if ranks == measured.ranks => "fitted".to_owned(),
            _ => format!("{:+.1}", (predicted / median - 1.0) * 100.0),
        };
        vec![
            measured.ranks.to_string(),
            measured.seconds.len().to_string(),
            format!("{} ({}-{})", significant(median), significant(least), significant(most)),
            significant(predicted),
            error,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_are_read_and_grouped() {
        let found = Measured::read("ranks,seconds\n# a comment\n2,1.5\n1,3.0\n2,1.7,whatever\n2,1.6\n").unwrap();
        assert_eq!(found.iter().map(|measured| measured.ranks).collect::<Vec<_>>(), [1, 2]);
        assert_eq!((found[1].median(), found[1].seconds.len()), (1.6, 3));
    }

    #[test]
    fn what_is_no_measurement_is_refused_with_its_line() {
        for text in ["", "ranks,seconds\n", "1", "1,x", "0,1", "2,-1", "2,0"] {
            assert!(Measured::read(text).is_err(), "{text}");
        }
        assert!(Measured::read("1,1\n2,x\n").unwrap_err().contains("line 2"));
    }

    #[test]
    fn a_fitted_model_predicts_what_it_was_fitted_to() {
        let mut config = Config { files: 1000, ..Config::default() };
        let measured = [Measured { ranks: 1, seconds: vec![0.5] }];
        assert_eq!(fit(&mut config, "cpu-per-file", &measured), Ok(1));
        let comparison = compare(&config, measured.to_vec(), Some(1)).unwrap();
        assert!((comparison.rows[0].1 - 0.5).abs() < 1e-6);
        assert!(comparison.table(false).contains("| 1 | 1 | 0.500 (0.500-0.500) | 0.500 | fitted |"));
        assert!(fit(&mut config, "seed", &measured).is_err());
    }
}
