//! Text of others within HTML and SVG.

use super::text::shown;

/// Text in HTML: nothing of it is markup, and there is nothing in it that cannot be seen.
pub fn escaped(text: &str) -> String {
    xml(&shown(text))
}

/// Text in XML, where some characters must not be at all.
pub fn xml(text: &str) -> String {
    let never = |letter: char| letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}');
    let safe = text.replace(never, "?").replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    safe.replace('"', "&quot;").replace('\'', "&#39;")
}
