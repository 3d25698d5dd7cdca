//! How things are said.

use std::io;
use std::path::Path;

/// What an error says, without its number.
pub fn of(error: &io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(code) => text.strip_suffix(&format!(" (os error {code})")).unwrap_or(&text).to_owned(),
        None => text,
    }
}

/// What is said when something cannot be done to a path, `what` being that.
pub fn cannot<'a, E: Into<io::Error>>(what: &'a str, path: &'a Path) -> impl Fn(E) -> String + Copy + 'a {
    move |error| format!("cannot {what} {}: {}", quoted(path), of(&error.into()))
}

/// A path in messages.
pub fn quoted(path: &Path) -> String {
    format!("{path:?}")
}

/// A number of bytes in binary units, with three digits at most: `8 MiB`, `1.5 GiB`, `77 B`.
pub fn bytes(count: u64) -> String {
    let mut value = count as f64;
    let mut unit = 0;
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", short(value), units[unit])
}

/// A number of bytes that no other number is written as: in the largest unit that it is a whole number of.
pub fn exactly(count: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let found = units.into_iter().find(|(shift, _)| count > 0 && count.is_multiple_of(1 << shift));
    found.map_or_else(|| format!("{count} B"), |(shift, unit)| format!("{} {unit}", count >> shift))
}

/// Seconds in the unit that suits them: `1.23 s`, `45.6 ms`, `7.89 us`.
pub fn seconds(time: f64) -> String {
    match time {
        time if time == 0.0 || time.abs() >= 1.0 => format!("{} s", short(time)),
        time if time.abs() >= 1e-3 => format!("{} ms", short(time * 1e3)),
        time => format!("{} us", short(time * 1e6)),
    }
}

/// Three digits that count, or all before the point.
pub fn short(value: f64) -> String {
    let size = value.abs();
    let text = match size {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Names one after another: `a, b and c`.
pub fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_the_unit_that_suits_them() {
        assert_eq!(
            [0, 77, 1023, 1024, 8 << 20, 3 << 29].map(bytes),
            ["0 B", "77 B", "1023 B", "1 KiB", "8 MiB", "1.5 GiB"]
        );
        assert_eq!([0.0, 1.234, 99.96, 0.0456, 7.89e-6].map(seconds), ["0 s", "1.23 s", "100 s", "45.6 ms", "7.89 us"]);
    }

    #[test]
    fn two_sizes_never_have_one_name() {
        assert_eq!([8 << 20, 1_000_001, 3 << 29].map(exactly), ["8 MiB", "1000001 B", "1536 MiB"]);
    }

    #[test]
    fn the_last_of_a_list_is_joined_by_and() {
        let names = ["a", "b", "c"].map(str::to_owned);
        assert_eq!([0, 1, 2, 3].map(|count| list(&names[..count])), ["", "a", "a and b", "a, b and c"]);
    }
}
