//! Sizes as people write and read them.

/// A number with an optional unit: `K`, `M`, `G`, `T` (also `KiB` and so on) are powers of 1024, `KB` and so on powers
/// of 1000. `None` if it is no such number or does not fit in 64 bits.
pub fn parse_size(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number: u64 = std::str::from_utf8(&text[..digits]).ok()?.parse().ok()?;
    let (unit, rest) = match &text[digits..] {
        [] => return Some(number),
        [unit, rest @ ..] => (unit, rest),
    };
    let base: u64 = match rest {
        b"" | b"iB" => 1024,
        b"B" => 1000,
        _ => return None,
    };
    let power = 1 + b"KMGT".iter().position(|known| known.eq_ignore_ascii_case(unit))?;
    number.checked_mul(base.pow(u32::try_from(power).ok()?))
}

/// The same with an optional fraction after a point: `1.5G`. A part of a byte is left out.
pub fn parse_decimal_size(text: &[u8]) -> Option<u64> {
    let Some(point) = text.iter().position(|byte| *byte == b'.') else { return parse_size(text) };
    let (whole, rest) = (&text[..point], &text[point + 1..]);
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (fraction, unit) = rest.split_at(digits);
    // More digits than these mean nothing.
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 18 || !whole.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let one = parse_size(&[b"1", unit].concat())?;
    let fraction = u128::from(parse_size(fraction)?) * u128::from(one) / 10u128.pow(u32::try_from(digits).ok()?);
    parse_size(&[whole, unit].concat())?.checked_add(u64::try_from(fraction).ok()?)
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
            assert_eq!(parse_decimal_size(text.as_bytes()), size, "{text}");
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
