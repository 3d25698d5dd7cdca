//! Numbers with units, as people write them.

/// A number of things or bytes: `100000`, `1e9`, `64M` (powers of 1024).
///
/// # Errors
/// What is wrong with the text.
pub fn count(text: &str) -> Result<u64, String> {
    let value = rate(text)?;
    if value.fract() == 0.0 && value < 2f64.powi(63) {
        Ok(value as u64)
    } else {
        Err(format!("{text}: not a whole number"))
    }
}

/// A rate, a share or a size that need not be whole: `2.5e5`, `10G` (powers of 1024). Finite and not negative.
///
/// # Errors
/// What is wrong with the text.
pub fn rate(text: &str) -> Result<f64, String> {
    let (digits, unit) = match text.trim().chars().last() {
        Some('K') => (&text.trim()[..text.trim().len() - 1], 1024f64),
        Some('M') => (&text.trim()[..text.trim().len() - 1], 1024f64.powi(2)),
        Some('G') => (&text.trim()[..text.trim().len() - 1], 1024f64.powi(3)),
        Some('T') => (&text.trim()[..text.trim().len() - 1], 1024f64.powi(4)),
        _ => (text.trim(), 1.0),
    };
    number(digits, text).map(|value| value * unit)
}

/// A time in seconds: `0.02`, `20ms`, `5us`, `3ns`.
///
/// # Errors
/// What is wrong with the text.
pub fn seconds(text: &str) -> Result<f64, String> {
    let trimmed = text.trim();
    let units = [("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("s", 1.0)];
    let (digits, unit) = units
        .iter()
        .find_map(|(name, unit)| trimmed.strip_suffix(name).map(|digits| (digits, *unit)))
        .unwrap_or((trimmed, 1.0));
    number(digits, text).map(|value| value * unit)
}

/// Ranks and how many times they are slower: `3:4` or `3:4,7:2`.
///
/// # Errors
/// What is wrong with the text.
pub fn factors(text: &str) -> Result<Vec<(u64, f64)>, String> {
    let parts = text.split(',').filter(|part| !part.trim().is_empty());
    parts
        .map(|part| {
            let (rank, factor) = part.split_once(':').ok_or_else(|| format!("{part}: expected RANK:FACTOR"))?;
            Ok((count(rank)?, rate(factor)?))
        })
        .collect()
}

/// Counts with commas between them.
///
/// # Errors
/// What is wrong with the text.
pub fn counts(text: &str) -> Result<Vec<u64>, String> {
    text.split(',').filter(|part| !part.trim().is_empty()).map(count).collect()
}

fn number(digits: &str, text: &str) -> Result<f64, String> {
    match digits.trim().parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err(format!("{text}: not a number that can be used here")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_their_units() {
        assert_eq!(count("1e9"), Ok(1_000_000_000));
        assert_eq!(count("64M"), Ok(64 << 20));
        assert_eq!(seconds("20ms"), Ok(0.02));
        assert_eq!(seconds("3"), Ok(3.0));
        assert_eq!(factors("3:4, 7:2.5"), Ok(vec![(3, 4.0), (7, 2.5)]));
        assert_eq!(counts("1,2,4"), Ok(vec![1, 2, 4]));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", "-1", "nan", "inf", "1.5", "x", "1e40"] {
            assert!(count(text).is_err(), "{text}");
        }
        assert!(factors("3").is_err());
    }
}
