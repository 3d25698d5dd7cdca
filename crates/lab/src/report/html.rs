//! A report as one page that needs nothing else: no network, no script, no font.

use super::markup::escaped;
use super::{Page, template};

const STYLE: &str = include_str!("page.css");

pub fn page(page: &Page) -> String {
    template::render(include_str!("page.html"), page, STYLE, escaped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{Cell, Chart, Kind, Mark, Table, View};

    #[test]
    fn names_are_never_markup() {
        let hostile = "<script>alert('1')</script>&\"\u{202e}\u{0}";
        let view = View {
            name: hostile.to_owned(),
            title: hostile.to_owned(),
            summary: vec![hostile.to_owned()],
            warnings: vec![hostile.to_owned()],
            tables: vec![Table::new(hostile, hostile, [vec![Cell::text(hostile)]]).noted(hostile)],
            charts: vec![Chart::new(hostile, Kind::Strip(vec![(hostile.to_owned(), 7)]))],
            ..View::default()
        };
        let html = page(&Page {
            title: hostile.to_owned(),
            notes: vec![hostile.to_owned()],
            summary: vec![(hostile.to_owned(), hostile.to_owned())],
            views: vec![view],
            ..Page::default()
        });
        assert!(!html.contains("<script") && html.contains("&lt;script&gt;"), "{html}");
        assert!(!html.contains(['\u{202e}', '\0']), "{html}");
        assert!(html.contains("id=\"s0-scriptalert1script\"") && html.contains("href=\"#s0-scriptalert1script\""));
    }

    #[test]
    fn a_page_asks_for_nothing_from_elsewhere() {
        let html = page(&Page::default());
        for word in ["src=", "url(", "@import", "<link", "<script"] {
            assert!(!html.contains(word), "{word}");
        }
        assert!(html.contains("default-src 'none'"));
    }

    #[test]
    fn the_first_screen_has_a_sentence_and_a_picture_of_each_section() {
        let picture = || Some(Chart::new("What is where", Kind::Strip(vec![("used".to_owned(), 1 << 30)])));
        let view = |title: &str| View { title: title.to_owned(), picture: picture(), ..View::default() };
        let summary = ["mapped", "in the kernel"].map(|name| (String::new(), format!("It is quicker {name}.")));
        let html = page(&Page { views: vec![view("A"), view("B")], summary: summary.to_vec(), ..Page::default() });
        let (first, rest) = html.split_once("<h2>What was measured</h2>").unwrap();
        let cards: Vec<&str> = first.split("<li>\n<h2>").skip(1).collect();
        assert_eq!((cards.len(), rest.matches("role=\"img\"").count()), (2, 0), "{html}");
        for (card, words) in cards.iter().zip(["It is quicker mapped.", "It is quicker in the kernel."]) {
            let label = "role=\"img\" aria-label=\"What is where. used, bytes 1 GiB, share 100 %.\"";
            assert!(card.contains(&format!("<p>{words}</p>")) && card.matches(label).count() == 1, "{card}");
        }
    }

    /// As the Web Content Accessibility Guidelines define it.
    fn luminance(colour: &str) -> f64 {
        let part = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    /// The contrast of two colours, from 1 to 21.
    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn words_can_be_read_on_what_they_stand_on_by_day_by_night_and_on_paper() {
        let roots: Vec<&str> = STYLE.split(":root{").skip(1).collect();
        assert_eq!(roots.len(), 3);
        let mut pairs: Vec<(String, String)> =
            ["ink", "dim", "accent", "good", "bad", "warn"].map(|words| (words.to_owned(), "paper".to_owned())).into();
        pairs.push(("dim".to_owned(), "empty".to_owned()));
        pairs.extend((0..7).map(|part| (if part == 0 { "q0".to_owned() } else { "q".to_owned() }, format!("p{part}"))));
        pairs.extend((0..9).map(|field| (format!("g{field}"), format!("f{field}"))));
        for root in &roots {
            // Drawings have the same colours on paper as by day.
            let declared = |name: &str| {
                let of = |root: &str| {
                    let (_, rest) = root.split_once('}')?.0.split_once(&format!("--{name}:"))?;
                    rest.split([';', '}']).next().map(|colour| match colour.len() {
                        4 => colour.chars().flat_map(|letter| [letter, letter]).skip(1).collect::<String>(),
                        _ => colour.to_owned(),
                    })
                };
                of(root).or_else(|| of(roots[0])).unwrap()
            };
            for (words, ground) in &pairs {
                let contrast = contrast(&declared(words), &declared(ground));
                assert!(contrast >= 4.5, "{words} on {ground}: {contrast}");
            }
        }
    }

    #[test]
    fn the_best_is_marked_without_its_colour() {
        let cell = Cell::figure(1.0, "1.00 (0.90 to 1.10)").marked(Mark::Best);
        let tables = vec![Table::new("", "|>s", [vec![Cell::text("cp"), cell]])];
        let views = vec![View { tables, ..View::default() }];
        let html = page(&Page { views, summary: vec![Default::default()], ..Page::default() });
        let shown = "<td data-of=\"s\" class=\"n best\">1.00<small>(0.90 to 1.10)</small><span class=\"hidden\"> (best)</span></td>";
        assert!(html.contains(shown), "{html}");
    }
}
