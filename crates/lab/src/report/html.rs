//! A report as one page that needs nothing else: no network, no script, no font.
//!
//! Drawings are in it twice, for wide screens and for narrow ones; one of the two is shown.

use std::fmt::Write as _;

use super::chart::{self, Form, ink};
use super::layout::{self, Layout};
use super::markup::escaped;
use super::text::WRONG;
use super::{Page, tabular};
use crate::view::{Cell, Chart, Column, Mark, Published, Table, View};

/// What the page looks like.
const STYLE: &str = include_str!("page.css");

/// The page, whole.
pub fn page(page: &Page) -> String {
    let title = escaped(&page.title);
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en-GB\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"haul-lab\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n<header>\n<h1>{title}</h1>\n\
         <p class=\"lead\">{}</p>\n",
        style(),
        escaped(&page.subtitle)
    );
    notes(&mut html, &page.notes);
    html.push_str("</header>\n");
    summary(&mut html, page);
    for (number, shown) in page.views.iter().enumerate() {
        view(&mut html, shown, number);
    }
    html.push_str("<section id=\"machine\">\n<h2>What it was measured on</h2>\n");
    for shown in &page.environment {
        table(&mut html, shown, "plain");
    }
    html.push_str("</section>\n");
    let made = escaped(&format!("Made by haul-lab {}. {}", env!("CARGO_PKG_VERSION"), LEGEND));
    writeln!(html, "<footer>{made}</footer>\n</main>\n</body>\n</html>").unwrap_or_default();
    html
}

/// What every table has.
const LEGEND: &str = "Times are medians, with the least and the most in brackets. Intervals of ratios hold the true \
                      value with 95 % confidence; they are drawn anew from the runs (bootstrap). Without three runs on \
                      both sides there is no interval.";

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

fn notes(html: &mut String, notes: &[String]) {
    if notes.is_empty() {
        return;
    }
    html.push_str("<ul class=\"notes\">\n");
    for note in notes {
        let class = if note.starts_with(WRONG) { " class=\"bad\"" } else { "" };
        writeln!(html, "<li{class}>{}</li>", escaped(note)).unwrap_or_default();
    }
    html.push_str("</ul>\n");
}

/// The anchor of a section. Names are ours, but a file may have been edited.
fn anchor(name: &str, number: usize) -> String {
    let safe: String = name.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-').collect();
    format!("s{number}-{}", super::text::clipped(&safe, 40))
}

fn summary(html: &mut String, page: &Page) {
    writeln!(html, "<h2>What was measured</h2>\n<p>{}</p>\n<ul class=\"summary\">", escaped(&page.scope))
        .unwrap_or_default();
    for (number, (view, (_, words))) in page.views.iter().zip(&page.summary).enumerate() {
        let (anchor, title) = (anchor(&view.name, number), escaped(&view.title));
        writeln!(html, "<li><a href=\"#{anchor}\">{title}</a><br>{}</li>", escaped(words)).unwrap_or_default();
    }
    html.push_str("</ul>\n");
    if page.not_measured.is_empty() {
        html.push_str("<p>Everything of the plan was measured.</p>\n");
        return;
    }
    html.push_str("<h3>What was not measured</h3>\n<ul>\n");
    for (what, why) in &page.not_measured {
        writeln!(html, "<li>{}: {}</li>", escaped(what), code(why)).unwrap_or_default();
    }
    html.push_str("</ul>\n");
}

/// Text in which commands stand between backquotes.
fn code(text: &str) -> String {
    let mut html = String::new();
    for (number, part) in text.split('`').enumerate() {
        let part = escaped(part);
        match number % 2 {
            0 => html.push_str(&part),
            _ => write!(html, "<code>{part}</code>").unwrap_or_default(),
        }
    }
    html
}

fn view(html: &mut String, view: &View, number: usize) {
    let (anchor, title) = (anchor(&view.name, number), escaped(&view.title));
    writeln!(html, "<section id=\"{anchor}\">\n<h2>{title}</h2>").unwrap_or_default();
    if !view.question.is_empty() {
        writeln!(html, "<p class=\"question\">{}</p>", escaped(&view.question)).unwrap_or_default();
    }
    html.push_str("<div class=\"answer\">\n");
    for sentence in &view.summary {
        writeln!(html, "<p>{}</p>", code(sentence)).unwrap_or_default();
    }
    html.push_str("</div>\n");
    notes(html, &view.warnings);
    for chart in &view.charts {
        draw(html, chart);
    }
    if let Some(shown) = &view.published {
        published(html, shown);
    }
    figures(html, &view.tables);
    if !view.not_measured.is_empty() {
        html.push_str("<h3>Not measured here</h3>\n<ul>\n");
        for reason in &view.not_measured {
            writeln!(html, "<li>{}</li>", code(reason)).unwrap_or_default();
        }
        html.push_str("</ul>\n");
    }
    html.push_str("</section>\n");
}

/// More tables than this are folded, but for the first ones.
const MANY: usize = 8;
const UNFOLDED: usize = 2;

fn figures(html: &mut String, tables: &[Table]) {
    let (shown, folded) = tables.split_at(if tables.len() > MANY { UNFOLDED } else { tables.len() });
    if !shown.is_empty() {
        html.push_str("<h3>The figures</h3>\n");
    }
    for shown in shown {
        table(html, shown, "");
    }
    if !folded.is_empty() {
        writeln!(html, "<details>\n<summary>All figures, in {} tables</summary>", folded.len()).unwrap_or_default();
        for shown in folded {
            table(html, shown, "");
        }
        html.push_str("</details>\n");
    }
}

fn draw(html: &mut String, drawn: &Chart) {
    writeln!(html, "<figure>\n<figcaption>{}</figcaption>", escaped(tabular::title(drawn))).unwrap_or_default();
    html.push_str("<div class=\"box\">\n");
    for (form, class) in [(Form::Wide, "wide"), (Form::Narrow, "narrow")] {
        let svg = chart::draw(drawn, form);
        html.push_str(&svg.replacen("<svg ", &format!("<svg class=\"{class}\" "), 1));
    }
    html.push_str("</div>\n</figure>\n");
}

fn published(html: &mut String, published: &Published) {
    html.push_str("<h3>What others have published</h3>\n");
    writeln!(html, "<p>{}</p>", escaped(&published.by)).unwrap_or_default();
    if !published.table.rows.is_empty() {
        table(html, &published.table, "");
    }
    if published.claims.is_empty() {
        return;
    }
    html.push_str("<div class=\"block\"></div>\n<ul class=\"claims\">\n");
    for claim in &published.claims {
        let (class, verdict) = match claim.agrees {
            Some(true) => ("yes", "\u{2713} agrees"),
            Some(false) => ("no", "\u{2717} does not agree"),
            None => ("open", "? cannot say"),
        };
        writeln!(
            html,
            "<li><span class=\"says\">{}</span><br><span class=\"verdict {class}\">{verdict}.</span> {}</li>",
            escaped(&claim.says),
            escaped(&claim.here)
        )
        .unwrap_or_default();
    }
    html.push_str("</ul>\n");
}

fn table(html: &mut String, table: &Table, class: &str) {
    let name = escaped(&table.title);
    html.push_str("<div class=\"block\">\n");
    if !table.title.is_empty() {
        // Outside of the box, so that it stays where it is while the table scrolls.
        writeln!(html, "<p class=\"caption\">{name}</p>").unwrap_or_default();
    }
    writeln!(html, "<div class=\"box\" tabindex=\"0\" role=\"region\" aria-label=\"{name}\">").unwrap_or_default();
    // A column of groups becomes rows between the others; a last column without words is skipped.
    writeln!(html, "<table class=\"{class}\" aria-label=\"{name}\">").unwrap_or_default();
    let layout = Layout::of(table);
    let columns = &table.columns;
    html.push_str("<thead><tr>");
    for column in columns.iter().take(layout.end).skip(layout.first) {
        let class = if column.figures { " class=\"n\"" } else { "" };
        write!(html, "<th scope=\"col\"{class}>{}</th>", escaped(&column.name)).unwrap_or_default();
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    let mut before: Option<&[Cell]> = None;
    for row in &table.rows {
        if let Some(name) = layout.new_group(row, before) {
            let (span, name) = (layout.end - layout.first, escaped(name));
            writeln!(html, "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"{span}\">{name}</th></tr>")
                .unwrap_or_default();
        }
        html.push_str(&table_row(row, columns, layout));
        before = Some(row);
    }
    html.push_str("</tbody>\n</table>\n</div>\n");
    if let Some(note) = &table.note {
        writeln!(html, "<p class=\"under\">{}</p>", escaped(note)).unwrap_or_default();
    }
    html.push_str("</div>\n");
}

fn table_row(row: &[Cell], columns: &[Column], layout: Layout) -> String {
    let mut html = "<tr>".to_owned();
    let head = row.get(layout.first).zip(columns.get(layout.first));
    html.extend(head.map(|(cell, column)| field(cell, column, true)));
    match layout::only_a_reason(row) {
        Some(reason) => {
            let class = if reason.mark == Mark::Bad { "bad" } else { "faint" };
            let (span, text) = (layout.end - layout.first - 1, escaped(&reason.text));
            write!(html, "<td class=\"{class}\" colspan=\"{span}\"><span class=\"why\">{text}</span></td>")
                .unwrap_or_default();
        }
        None => {
            let cells = row.iter().zip(columns).take(layout.end).skip(layout.first + 1);
            html.extend(cells.map(|(cell, column)| field(cell, column, false)));
        }
    }
    html + "</tr>\n"
}

fn field(cell: &Cell, column: &Column, head: bool) -> String {
    let class = match cell.mark {
        Mark::None => "",
        Mark::Best => " best",
        Mark::Bad => " bad",
        Mark::Faint => " faint",
    };
    let class = format!("{}{class}", if column.figures { "n" } else { "w" });
    // The least and the most stand below a median.
    let text = match cell.text.split_once(" (").filter(|_| column.figures) {
        Some((median, range)) => format!("{}<small>({}</small>", escaped(median), escaped(range)),
        None => escaped(&cell.text),
    };
    let best = if cell.mark == Mark::Best { "<span class=\"hidden\"> (best)</span>" } else { "" };
    match head {
        true => format!("<th scope=\"row\" class=\"{class}\">{text}{best}</th>"),
        false => format!("<td class=\"{class}\">{text}{best}</td>"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_never_markup() {
        let hostile = "<script>alert('1')</script>&\"\u{202e}\u{0}";
        let view = View {
            name: hostile.to_owned(),
            title: hostile.to_owned(),
            summary: vec![hostile.to_owned()],
            warnings: vec![hostile.to_owned()],
            tables: vec![Table {
                title: hostile.to_owned(),
                columns: vec![Column::words(hostile)],
                rows: vec![vec![Cell::text(hostile)]],
                note: Some(hostile.to_owned()),
            }],
            charts: vec![Chart::Strip { title: hostile.to_owned(), spans: vec![(hostile.to_owned(), 7)] }],
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
        let html = field(&cell, &Column::figures("s"), false);
        assert_eq!(
            html,
            "<td class=\"n best\">1.00<small>(0.90 to 1.10)</small><span class=\"hidden\"> (best)</span></td>"
        );
    }
}
