//! Text of others within HTML and SVG.

use super::text::shown;

/// Text in HTML: nothing of it is markup, and there is nothing in it that cannot be seen.
pub fn escaped(text: &str) -> String {
    xml(&shown(text))
}

/// Text in XML, where some characters must not be at all.
pub fn xml(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => safe.push('?'),
            other if other.is_control() => safe.push('?'),
            other => safe.push(other),
        }
    }
    safe
}
