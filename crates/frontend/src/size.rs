//! Sizes and rates as people write and read them. The options of all commands read them here.

/// A number with an optional unit: `K`, `M`, `G`, `T` (also `KiB` and so on) are powers of 1024, `KB` and so on powers
/// of 1000. `None` if it is no such number or does not fit in 64 bits.
pub fn parse_size(text: &[u8]) -> Option<u64> {
    parse(text, false)
}

/// The same a second, with an optional fraction after a point (`1.5G`), of which a part of a byte is dropped. `0` and
/// `none` are no limit, which is the inner `None`; less than one is no rate.
pub(crate) fn parse_rate(text: &[u8]) -> Option<Option<u64>> {
    if text == b"none" {
        return Some(None);
    }
    let is_nothing = !text.iter().any(|byte| matches!(byte, b'1'..=b'9'));
    match parse(text, true)? {
        0 if is_nothing => Some(None),
        0 => None,
        rate => Some(Some(rate)),
    }
}

fn parse(text: &[u8], with_fraction: bool) -> Option<u64> {
    let (whole, rest) = split_digits(text);
    let (fraction, unit) = match rest {
        [b'.', rest @ ..] if with_fraction => split_digits(rest),
        unit => (&rest[..0], unit),
    };
    let unit = unit_of(unit)?;
    let whole = number(whole)?.checked_mul(unit)?;
    if rest.first() != Some(&b'.') {
        return Some(whole);
    }
    // More digits than these mean nothing.
    let digits = u32::try_from(fraction.len()).ok().filter(|digits| *digits <= 18)?;
    let fraction = u128::from(number(fraction)?) * u128::from(unit) / 10u128.pow(digits);
    whole.checked_add(u64::try_from(fraction).ok()?)
}

fn split_digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count())
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// How many bytes a unit is; 1 without any.
fn unit_of(text: &[u8]) -> Option<u64> {
    let [letter, rest @ ..] = text else { return Some(1) };
    let base: u64 = match rest {
        b"" | b"iB" => 1024,
        b"B" => 1000,
        _ => return None,
    };
    let power = 1 + b"KMGT".iter().position(|known| known.eq_ignore_ascii_case(letter))?;
    Some(base.pow(u32::try_from(power).ok()?))
}

/// A count of bytes with three digits or a little more, for people.
pub fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would be printed as 1024.0.
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_understood() {
        for (text, size) in [
            ("1", Some(1)),
            ("8M", Some(8 << 20)),
            ("8m", Some(8 << 20)),
            ("8MiB", Some(8 << 20)),
            ("8MB", Some(8_000_000)),
            ("1T", Some(1 << 40)),
            ("", None),
            ("M", None),
            ("1Mi", None),
            ("1X", None),
            ("-1", None),
            ("1 M", None),
            ("18446744073709551616", None),
            ("18446744073709551615K", None),
        ] {
            assert_eq!(parse_size(text.as_bytes()), size, "{text}");
        }
    }

    #[test]
    fn fractions_of_units_are_understood() {
        for (text, size) in [
            ("1.5G", Some(3 << 29)),
            ("0.25KB", Some(250)),
            ("8M", Some(8 << 20)),
            ("1.9", Some(1)),
            ("0.000000000000000001T", Some(0)),
            ("1.", None),
            (".5M", None),
            ("1.5.5M", None),
            ("1.5X", None),
            ("-1.5M", None),
            ("1.-5M", None),
            ("18446744073709551615.5K", None),
        ] {
            assert_eq!(parse(text.as_bytes(), true), size, "{text}");
        }
    }

    #[test]
    fn a_rate_may_be_no_limit() {
        for (text, rate) in [
            ("1.5K", Some(Some(1536))),
            ("none", Some(None)),
            ("0", Some(None)),
            ("0.0K", Some(None)),
            ("0.1", None),
            ("", None),
        ] {
            assert_eq!(parse_rate(text.as_bytes()), rate, "{text}");
        }
    }

    #[test]
    fn sizes_are_short() {
        for (size, text) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1_048_575, "1.0 MiB"), (u64::MAX, "16.0 EiB")]
        {
            assert_eq!(human_size(size), text);
        }
    }
}
