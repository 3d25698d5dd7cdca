//! Strips as a drawing. Each column of a strip is a stack of what is in it, so that nothing small is lost.

use std::fmt::Write as _;

use haul_guest::report::human;

use super::strip::{Counts, Kind, Picture, Strip};
use super::terminal::numbers;

/// Columns of a strip; each is [`COLUMN`] wide.
const COLUMNS: usize = 460;
const COLUMN: usize = 2;
const MARGIN: usize = 20;
const WIDTH: usize = COLUMNS * COLUMN + 2 * MARGIN;
/// Height of a strip, of the line above it that shows where on the disk it lies, and of everything of a strip.
const HEIGHT: u64 = 28;
const PLACE: usize = 3;
const STEP: usize = 92;
/// Above the first strip, and below the last.
const HEAD: usize = 64;
const FOOT: usize = 16;
/// The most letters of a line.
const LETTERS: usize = 110;
/// The most strips that are drawn; what is not drawn is counted.
const MOST: usize = 200;

/// Colours of the kinds, of text, of what is less important, and of the paper: by day and by night.
const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:var(--ink)}
.t{font-size:16px;font-weight:600}.s{fill:var(--dim);font-size:12px}.p{fill:var(--dim)}
.paper{fill:var(--paper)}.frame{fill:none;stroke:var(--dim)}
.used{fill:var(--used)}.opaque{fill:var(--opaque)}.zero{fill:var(--zero)}.free{fill:var(--free)}.hole{fill:var(--hole)}
svg{--paper:#fff;--ink:#1b1f24;--dim:#656d76;--used:#2f66b1;--opaque:#8a5aa8;--zero:#e0b13c;--free:#9ad3a5;--hole:#e8eaed}
@media(prefers-color-scheme:dark){svg{--paper:#14171b;--ink:#e6e9ed;--dim:#9aa3ad;--used:#5b95e0;--opaque:#b183cf;\
--zero:#d8a72b;--free:#3f7f50;--hole:#2b3037}}
";

/// The drawing of an image of this name: a whole SVG file.
pub fn draw(picture: &Picture, name: &str) -> String {
    let shown = picture.strips.len().min(MOST);
    let skipped = picture.strips.len() - shown;
    let height = HEAD + shown * STEP + FOOT + if skipped > 0 { 20 } else { 0 };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n<title>{name}</title>\n<style>\n{STYLE}</style>\n\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n",
        name = escaped(name)
    );
    text(&mut svg, MARGIN, 26, "t", name);
    legend(&mut svg);
    let size = picture.strips.first().map_or(0, |strip| strip.size);
    for (number, strip) in picture.strips.iter().take(shown).enumerate() {
        let place = (number > 0).then_some(size);
        draw_strip(&mut svg, picture, strip, HEAD + number * STEP, place);
    }
    if skipped > 0 {
        text(&mut svg, MARGIN, HEAD + shown * STEP + 16, "s", &format!("{skipped} more regions are not drawn"));
    }
    svg.push_str("</svg>\n");
    svg
}

fn legend(svg: &mut String) {
    for (number, kind) in Kind::ALL.into_iter().enumerate() {
        let x = MARGIN + number * 100;
        put(svg, &format!("<rect class=\"{}\" x=\"{x}\" y=\"38\" width=\"14\" height=\"14\"/>", kind.name()));
        put(svg, &format!("<rect class=\"frame\" x=\"{x}\" y=\"38\" width=\"14\" height=\"14\"/>"));
        text(svg, x + 20, 50, "l", kind.name());
    }
}

/// `disk` is the size of the whole disk, if the strip is a part of it.
fn draw_strip(svg: &mut String, picture: &Picture, strip: &Strip, top: usize, disk: Option<u64>) {
    put(svg, &format!("<g><title>{}: {}</title>", escaped(&strip.title), escaped(&numbers(strip))));
    text(svg, MARGIN, top + 18, "l", &format!("{} ({})", cut(&strip.title, LETTERS), human(strip.size)));
    let mut bar = top + 26;
    if let Some(disk) = disk.filter(|disk| *disk > 0) {
        // Where it lies on the disk.
        let length = COLUMNS * COLUMN;
        let scaled = |bytes: u64| bytes as f64 / disk as f64 * length as f64;
        let (x, width) = (MARGIN as f64 + scaled(strip.reach.start), scaled(strip.reach.len).max(1.0));
        put(svg, &format!("<rect class=\"p\" x=\"{x:.1}\" y=\"{bar}\" width=\"{width:.1}\" height=\"{PLACE}\"/>"));
    }
    bar += PLACE + 1;
    let cells = picture.cells(strip, COLUMNS);
    for (number, kind) in Kind::ALL.into_iter().enumerate() {
        let path = stacks(&cells, number, bar);
        if !path.is_empty() {
            put(svg, &format!("<path class=\"{}\" d=\"{path}\"/>", kind.name()));
        }
    }
    let width = COLUMNS * COLUMN;
    put(svg, &format!("<rect class=\"frame\" x=\"{MARGIN}\" y=\"{bar}\" width=\"{width}\" height=\"{HEIGHT}\"/>"));
    text(svg, MARGIN, bar + HEIGHT as usize + 16, "s", &numbers(strip));
    put(svg, "</g>");
}

/// The part of each column that is of one kind, equal neighbours joined.
fn stacks(cells: &[Counts], kind: usize, bar: usize) -> String {
    // From the bottom up, and to the top exactly, whatever is rounded.
    let span = |cell: &Counts| {
        let all = cell.iter().sum::<u64>().max(1);
        let height = |bytes: u64| (u128::from(HEIGHT) * u128::from(bytes) * 10).div_ceil(u128::from(all)) as u64;
        let below: u64 = cell.iter().take(kind).sum();
        let with = below + cell.get(kind).copied().unwrap_or(0);
        (height(below), height(with))
    };
    let mut path = String::new();
    let spans: Vec<(u64, u64)> = cells.iter().map(span).collect();
    // A strip of few bytes has few cells, and they are wide.
    let x = |cell: usize| MARGIN as f64 + (cell * COLUMNS * COLUMN) as f64 / cells.len() as f64;
    let mut from = 0;
    for run in spans.chunk_by(|a, b| a == b) {
        let to = from + run.len();
        if let Some((low, high)) = run.first().filter(|(low, high)| low < high) {
            let y = bar as f64 + (HEIGHT * 10 - high) as f64 / 10.0;
            let (width, height) = (x(to) - x(from), (high - low) as f64 / 10.0);
            write!(path, "M{:.1} {y:.1}h{width:.1}v{height:.1}h-{width:.1}z", x(from)).unwrap_or_default();
        }
        from = to;
    }
    path
}

fn put(svg: &mut String, line: &str) {
    svg.push_str(line);
    svg.push('\n');
}

fn text(svg: &mut String, x: usize, y: usize, class: &str, words: &str) {
    put(svg, &format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>", escaped(&cut(words, LETTERS))));
}

/// The beginning of a text that is too long.
fn cut(words: &str, letters: usize) -> String {
    match words.char_indices().nth(letters) {
        None => words.to_owned(),
        Some((end, _)) => format!("{}...", words.get(..end).unwrap_or_default()),
    }
}

/// Text in XML, where some characters must not be at all.
fn escaped(words: &str) -> String {
    let mut text = String::with_capacity(words.len());
    for letter in words.chars() {
        match letter {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            '\'' => text.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => text.push('?'),
            other if other.is_control() => text.push('?'),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::strip::tests::picture;
    use super::*;

    /// Whether every tag is closed in its order and every attribute is quoted; no more of XML is used.
    fn assert_well_formed(svg: &str) {
        let mut open = Vec::new();
        let mut rest = svg;
        while let Some((before, after)) = rest.split_once('<') {
            assert!(!before.contains('>') || open.last() == Some(&"style"), "{before}");
            for entity in before.split('&').skip(1) {
                let name = entity.split_once(';').expect("an entity ends").0;
                assert!(["amp", "lt", "gt", "quot", "#39"].contains(&name), "{name}");
            }
            let (tag, behind) = after.split_once('>').expect("a tag ends");
            rest = behind;
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name));
                continue;
            }
            let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
            assert_eq!(attributes.matches('"').count() % 2, 0, "{tag}");
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        assert!(open.is_empty() && rest == "\n", "{open:?}");
        assert!(!svg.chars().any(|letter| letter.is_control() && letter != '\n'));
    }

    #[test]
    fn a_drawing_is_well_formed_whatever_names_are() {
        let hostile = "]]></title><script>alert('1')</script>&\"\u{0}\u{1b}\u{fffe}";
        let drawn = draw(&picture(hostile), hostile);
        assert_well_formed(&drawn);
        assert!(!drawn.contains("<script") && drawn.contains("&lt;script&gt;"));
        assert_well_formed(&draw(&picture(&"ä<".repeat(400)), "image"));
    }

    #[test]
    fn a_drawing_has_strips_sizes_and_a_legend() {
        let drawn = draw(&picture("GPT partition 1"), "disk.img");
        for words in [
            ">disk.img</text>",
            ">the whole disk (80.0 MiB)</text>",
            ">GPT partition 1: ext4, mapped (48.0 MiB)</text>",
            ">used 26.0 MiB, zero 2.00 MiB, free 16.0 MiB, hole 4.00 MiB</text>",
        ] {
            assert!(drawn.contains(words), "{words}\n{drawn}");
        }
        for kind in Kind::ALL {
            assert!(drawn.contains(&format!(">{}</text>", kind.name())));
            assert!(drawn.contains(&format!("<path class=\"{}\"", kind.name())));
        }
    }

    #[test]
    fn every_column_is_filled_from_bottom_to_top() {
        let cells = [[1, 0, 0, 2, 0], [0, 0, 0, 0, 7]];
        assert_eq!(stacks(&cells, 0, 0), "M20.0 18.6h460.0v9.4h-460.0z");
        assert_eq!(stacks(&cells, 3, 0), "M20.0 0.0h460.0v18.6h-460.0z");
        assert_eq!(stacks(&cells, 4, 0), "M480.0 0.0h460.0v28.0h-460.0z");
    }
}
