//! Lines of a terminal, one after the other in one place, as a drawing. Pure.

use std::fmt::Write;
use std::time::Duration;

use crate::shell::Result;

/// What the last line showed from a moment on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub from: Duration,
    pub text: String,
}

/// How long the last frame stays.
const PAUSE: Duration = Duration::from_secs(4);

const LETTER: f64 = 8.43;
const LINE: f64 = 22.0;
const MARGIN: f64 = 16.0;

/// Takes what came to the terminal: carriage returns begin the line anew, and escape sequences erase what was there.
pub fn add(frames: &mut Vec<Frame>, came: &str, at: Duration) {
    for part in came.split(['\r', '\n']) {
        let text = part.replace("\u{1b}[K", "");
        if !text.trim().is_empty() {
            frames.push(Frame { from: at, text });
        }
    }
}

/// SVG 1.1 with styles: it moves where styles are animated, and elsewhere shows the last line. Light or dark, as the page is.
///
/// # Errors
/// When no frame has a bar.
pub fn draw(command: &str, columns: usize, frames: &[Frame]) -> Result<String> {
    let Some((last, before)) = frames.split_last().filter(|_| frames.iter().any(|frame| frame.text.contains("[#")))
    else {
        return Err("the copy ended before there was a bar".into());
    };
    let start = frames[0].from;
    let whole = (last.from + PAUSE).saturating_sub(start).as_secs_f64();
    let share = |at: Duration| 100.0 * at.saturating_sub(start).as_secs_f64() / whole;
    let (width, height) = (columns as f64 * LETTER + 2.0 * MARGIN, 2.0 * LINE + 2.0 * MARGIN);
    let mut svg = String::new();
    let mut line = |text: String| writeln!(svg, "{text}").unwrap_or_default(); // writing to a String cannot fail
    line(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"ui-monospace,SFMono-Regular,Menlo,DejaVu Sans Mono,monospace\" font-size=\"14\">"
    ));
    line(format!("<title>{}</title>", escaped(&format!("{command}: {}", last.text))));
    line("<style>".into());
    line("rect{fill:#f6f8fa;stroke:#d0d7de}text{fill:#1f2328;white-space:pre}.prompt{fill:#59636e}".into());
    line(
        "@media(prefers-color-scheme:dark){rect{fill:#0d1117;stroke:#3d444d}text{fill:#e6edf3}.prompt{fill:#9198a1}}"
            .into(),
    );
    for (number, frame) in before.iter().enumerate() {
        let (from, to) = (share(frame.from), share(frames[number + 1].from));
        line(format!(
            "#f{number}{{opacity:0;animation:k{number} {whole:.2}s steps(1) infinite}}\
             @keyframes k{number}{{0%{{opacity:0}}{from:.3}%{{opacity:1}}{to:.3}%{{opacity:0}}}}"
        ));
    }
    let from = share(last.from);
    line(format!(
        "#last{{animation:k {whole:.2}s steps(1) infinite}}@keyframes k{{0%{{opacity:0}}{from:.3}%{{opacity:1}}}}"
    ));
    line("</style>".into());
    line(format!("<rect x=\"0.5\" y=\"0.5\" width=\"{:.0}\" height=\"{:.0}\" rx=\"6\"/>", width - 1.0, height - 1.0));
    let text = |id: &str, row: f64, text: &str| {
        let length = text.chars().count() as f64 * LETTER;
        format!(
            "<text{id} x=\"{MARGIN}\" y=\"{:.0}\" textLength=\"{length:.1}\">{}</text>",
            MARGIN + row * LINE + 16.0,
            escaped(text)
        )
    };
    line(text(" class=\"prompt\"", 0.0, &format!("$ {command}")));
    for (number, frame) in before.iter().enumerate() {
        line(text(&format!(" id=\"f{number}\""), 1.0, &frame.text));
    }
    line(text(" id=\"last\"", 1.0, &last.text));
    line("</svg>".into());
    Ok(svg)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Vec<Frame> {
        let mut frames = Vec::new();
        let at = Duration::from_millis;
        add(&mut frames, "\r\u{1b}[Kcopying [##--]  50%\r\u{1b}[K", at(1000));
        add(&mut frames, "9 files & <all>\r\n", at(2000));
        frames
    }

    #[test]
    fn each_line_that_was_shown_is_a_frame() {
        let frames = frames();
        let texts: Vec<&str> = frames.iter().map(|frame| frame.text.as_str()).collect();
        assert_eq!(texts, ["copying [##--]  50%", "9 files & <all>"]);
    }

    #[test]
    fn the_last_line_is_seen_where_nothing_moves() {
        let svg = draw("haul a b", 80, &frames()).unwrap();
        assert!(svg.contains("#f0{opacity:0;") && svg.contains("9 files &amp; &lt;all&gt;</text>"), "{svg}");
        // One second of five.
        assert!(svg.contains("@keyframes k0{0%{opacity:0}0.000%{opacity:1}20.000%{opacity:0}}"), "{svg}");
    }

    #[test]
    fn a_copy_without_a_bar_is_no_picture() {
        assert!(draw("haul a b", 80, &frames()[1..]).is_err());
    }
}
