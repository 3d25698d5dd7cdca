//! Values of options.

use std::time::Duration;

/// A number of bytes: `4096`, `64K`, `8M`, `2G`, `1T`, in units of 1024; `MiB` and the like are understood as well.
pub fn size(text: &str) -> Result<u64, String> {
    let bad = || format!("{text:?} is no size; write 512M or 2G");
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err(bad()),
    };
    let number: u64 = digits.parse().map_err(|_no_number| bad())?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0).ok_or_else(bad)
}

/// A time: `500ms`, `90`, `90s`, `10m`, `1h`.
pub fn time(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is no time; write 90s, 10m or 1h");
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 1,
        "" | "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(bad()),
    };
    let number: u64 = digits.parse().map_err(|_no_number| bad())?;
    // A year is more than anybody waits, and the clock can add it.
    let milliseconds = number.checked_mul(unit).filter(|time| (1..=31_536_000_000).contains(time)).ok_or_else(bad)?;
    Ok(Duration::from_millis(milliseconds))
}

/// Several values, with commas between them.
pub fn list<T>(text: &str, of: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    text.split(',').map(of).collect()
}

/// A number above 0.
pub fn number(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| format!("{text:?} is no number above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_1024() {
        assert_eq!(
            ["7", "64K", "8MiB", "2g", "1T"].map(|text| size(text).unwrap()),
            [7, 65536, 8 << 20, 2 << 30, 1 << 40]
        );
        for text in ["", "0", "M", "-1", "1X", "99999999T", "1 G"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_milliseconds_seconds_minutes_and_hours() {
        assert_eq!(["90", "90s", "10m", "1h"].map(|text| time(text).unwrap().as_secs()), [90, 90, 600, 3600]);
        assert_eq!(time("1500ms"), Ok(Duration::from_millis(1500)));
        for text in ["", "0", "s", "-1", "1d", "99999999999999999h"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_item_of_a_list_must_be_right() {
        assert_eq!(list("1,2", number), Ok(vec![1, 2]));
        assert!(list("1,", number).is_err() && list("", number).is_err());
    }
}
