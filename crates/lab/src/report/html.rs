//! A report as one page that needs nothing else: no network, no script, no font.
//!
//! Drawings are in it twice, for wide screens and for narrow ones; one of the two is shown.

use super::chart::ink;
use super::markup::escaped;
use super::{Page, template};

const STYLE: &str = include_str!("page.css");

pub fn page(page: &Page) -> String {
    template::render(include_str!("page.html"), page, &style(), escaped)
}

/// The style sheet, with the colours of drawings.
fn style() -> String {
    let paper = "@media print{:root{--paper:#fff;--ink:#000;--dim:#444;--rule:#bbb;--soft:#fff;--accent:#000;\
                 --good:#0b4f28;--bad:#8a1205;--warn:#5f4000}:root{";
    format!(
        "{STYLE}:root{{{}}}\n@media(prefers-color-scheme:dark){{:root{{{}}}}}\n{paper}{}}}}}\n{}",
        ink::declarations(false),
        ink::declarations(true),
        ink::declarations(false),
        ink::rules()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart;
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
    fn every_colour_of_words_can_be_read_by_day_by_night_and_on_paper() {
        let roots: Vec<String> = style().split(":root{").skip(1).map(str::to_owned).collect();
        let mut pages = 0;
        for root in &roots {
            let declared = |name: &str| {
                let (_, rest) = root.split_once('}')?.0.split_once(name)?;
                rest.split([';', '}']).next().map(|colour| match colour.len() {
                    4 => colour.chars().flat_map(|letter| [letter, letter]).skip(1).collect(),
                    _ => colour.to_owned(),
                })
            };
            let Some(paper): Option<String> = declared("--paper:") else { continue };
            pages += 1;
            for name in ["--ink:", "--dim:", "--accent:", "--good:", "--bad:", "--warn:"] {
                let colour: String = declared(name).unwrap();
                let contrast = chart::ink::tests::contrast(&colour, &paper);
                assert!(contrast >= 4.5, "{name} {colour} on {paper}: {contrast}");
            }
        }
        assert_eq!(pages, 3);
    }

    #[test]
    fn the_best_is_told_without_its_colour() {
        let cell = Cell::figure(1.0, "1.00 (0.90 to 1.10)").marked(Mark::Best);
        let tables = vec![Table::new("", "|>s", [vec![Cell::text("cp"), cell]])];
        let views = vec![View { tables, ..View::default() }];
        let html = page(&Page { views, summary: vec![Default::default()], ..Page::default() });
        let shown = "<td class=\"n best\">1.00<small>(0.90 to 1.10)</small><span class=\"hidden\"> (best)</span></td>";
        assert!(html.contains(shown), "{html}");
    }
}
