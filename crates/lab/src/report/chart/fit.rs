//! How much room text takes, where no font is at hand.

/// The width of a text in units, in letters of this size: that of the widest of the common fonts for screens, so that in
/// another font there is room left.
pub fn width(text: &str, size: f64) -> f64 {
    text.chars().map(share).sum::<f64>() * size
}

/// The width of the widest of several texts, rounded up.
pub fn widest(texts: impl IntoIterator<Item = impl AsRef<str>>, size: f64) -> i32 {
    texts.into_iter().map(|text| width(text.as_ref(), size)).fold(0.0, f64::max).ceil() as i32
}

/// The width of a letter as a share of the size.
fn share(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | 'I' | '\'' | '|' => 0.30,
        ' ' | '.' | ',' | ':' | ';' | '!' | 'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '\\' | '-' => 0.42,
        'm' | 'M' | 'W' | '%' | '@' => 1.02,
        'w' | '+' | '<' | '>' | '=' | '~' | '#' => 0.86,
        'A'..='Z' | '&' => 0.79,
        'a'..='z' | '0'..='9' | '_' | '?' | '*' | '"' => 0.65,
        letter if letter.is_ascii() => 0.70,
        letter if (letter as u32) < 0x2e80 => 0.85,
        _ => 1.15,
    }
}

/// A text in lines that are at most this wide. Breaks between words, and within a word that is too long for a line.
pub fn wrap(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        if width(&longer, size) <= room {
            line = longer;
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        for letter in word.chars() {
            if !line.is_empty() && width(&line, size) + share(letter) * size > room {
                lines.push(std::mem::take(&mut line));
            }
            line.push(letter);
        }
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_wider_than_its_room_and_nothing_is_lost() {
        let text = "read-write 8 MiB, direct, with averyveryverylongwordthatnobodywouldwrite in it";
        for room in [20.0, 60.0, 100.0, 1000.0] {
            let lines = wrap(text, 13.0, room);
            assert!(lines.iter().all(|line| width(line, 13.0) <= room), "{room}: {lines:?}");
            assert_eq!(lines.concat().replace(' ', ""), text.replace(' ', ""));
        }
        assert_eq!(wrap("", 13.0, 10.0), [""]);
    }
}
