//! Strips as a drawing, by a template. Each column of a strip is a stack of what is in it, so that nothing small is lost.

use std::fmt::Write as _;

use haul_guest::report::human;
use minijinja::context;
use minijinja::value::Serde;
use serde::Serialize;

use super::strip::{Counts, Kind, Picture, Strip};
use super::terminal::numbers;
use crate::report::markup::xml;
use crate::report::template;
use crate::report::text::clipped;

/// Columns of a strip; each is [`COLUMN`] wide.
const COLUMNS: usize = 460;
const COLUMN: usize = 2;
const MARGIN: usize = 20;
const LENGTH: usize = COLUMNS * COLUMN;
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

/// What the template draws of a strip.
#[derive(Serialize)]
struct Shown<'s> {
    title: &'s str,
    size: String,
    numbers: String,
    top: usize,
    /// Where the strip itself begins.
    bar: usize,
    /// Where on the disk it lies, if it is a part of it: where that begins, and how long it is.
    reach: Option<(String, String)>,
    /// The part of the columns that is of each kind.
    paths: Vec<(&'static str, String)>,
}

/// The drawing of an image of this name: a whole SVG file.
pub fn draw<'p>(picture: &'p Picture, name: &str) -> String {
    let shown = picture.strips.len().min(MOST);
    let skipped = picture.strips.len() - shown;
    let disk = picture.strips.first().map_or(0, |strip| strip.size);
    let strip = |(number, strip): (usize, &'p Strip)| {
        let (top, cells) = (HEAD + number * STEP, picture.cells(strip, COLUMNS));
        let bar = top + 26 + PLACE + 1;
        let paths = Kind::ALL.into_iter().enumerate().map(|(kind, of)| (of.name(), stacks(&cells, kind, bar)));
        let reach = (number > 0 && disk > 0).then(|| {
            let scaled = |bytes: u64| bytes as f64 / disk as f64 * LENGTH as f64;
            let (x, width) = (MARGIN as f64 + scaled(strip.reach.start), scaled(strip.reach.len).max(1.0));
            (format!("{x:.1}"), format!("{width:.1}"))
        });
        let paths = paths.filter(|(_, path)| !path.is_empty()).collect();
        Shown { title: &strip.title, size: human(strip.size), numbers: numbers(strip), top, bar, reach, paths }
    };
    let strips = picture.strips.iter().take(shown).enumerate().map(strip);
    let mut environment = template::environment(xml);
    environment.add_filter("cut", |text: &str| clipped(text, LETTERS));
    let context = context! {
        name,
        width => LENGTH + 2 * MARGIN,
        height => HEAD + shown * STEP + FOOT + if skipped > 0 { 20 } else { 0 },
        margin => MARGIN,
        kinds => Kind::ALL.map(Kind::name).to_vec(),
        strips => Serde(strips.collect::<Vec<_>>()),
        skipped,
    };
    template::fill(&environment, include_str!("drawing.svg"), context)
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
    let x = |cell: usize| MARGIN as f64 + (cell * LENGTH) as f64 / cells.len() as f64;
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

#[cfg(test)]
mod tests {
    use super::super::test_support::picture;
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
