//! Reports made by templates (minijinja).

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Value, context};
use serde::Serialize;

use super::chart::{self, Drawing};
use super::layout::Laid;
use super::text::{WRONG, clipped};
use super::{Page, tabular};
use crate::view::{Table, View};

/// What a template needs of a section besides its view.
#[derive(Serialize)]
struct Section<'p> {
    view: &'p View,
    anchor: String,
    /// What it found, in a sentence.
    words: &'p str,
    picture: Option<Drawing<'p>>,
    charts: Vec<Drawing<'p>>,
    /// Drawings as tables.
    drawn: Vec<Table>,
    tables: Vec<Laid<'p>>,
    published: Option<Laid<'p>>,
}

impl Section<'_> {
    fn of<'p>(view: &'p View, number: usize, words: &'p str) -> Section<'p> {
        // Names are ours, but a file may have been edited.
        let safe: String = view.name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        Section {
            view,
            anchor: format!("s{number}-{}", clipped(&safe, 40)),
            words,
            picture: view.picture.as_ref().map(chart::draw),
            charts: view.charts.iter().map(chart::draw).collect(),
            drawn: view.charts.iter().filter_map(tabular::of).collect(),
            tables: view.tables.iter().map(Laid::of).collect(),
            published: view.published.as_ref().map(|published| Laid::of(&published.table)),
        }
    }
}

/// Text in which commands stand between backquotes.
fn code(text: &str, escape: fn(&str) -> String) -> String {
    let part = |(number, part): (usize, &str)| match number % 2 {
        0 => escape(part),
        _ => format!("<code>{}</code>", escape(part)),
    };
    text.split('`').enumerate().map(part).collect()
}

/// What fills templates. Everything that is put into one is escaped by `escape`, but what is said to be safe.
pub fn environment(escape: fn(&str) -> String) -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build();
    environment.set_syntax(syntax.expect("the delimiters are the usual ones"));
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_formatter(move |out, _, value| {
        let text = value.to_string();
        Ok(out.write_str(&if value.is_safe() { text } else { escape(&text) })?)
    });
    environment.add_filter("code", move |text: &str| Value::from_safe_string(code(text, escape)));
    environment
}

/// Fills a template of this program.
pub fn fill(environment: &Environment, template: &str, context: Value) -> String {
    // Tests fill in all that the templates ask for.
    environment.render_str(template, context).expect("the template is right")
}

/// Makes a page by a template.
pub fn render(template: &str, page: &Page, style: &str, escape: fn(&str) -> String) -> String {
    let mut environment = environment(escape);
    environment.add_global("WRONG", WRONG);
    let sections = page.views.iter().zip(&page.summary).enumerate();
    let sections = sections.map(|(number, (view, (_, words)))| Section::of(view, number, words));
    let context = context! {
        page => Serde(page),
        sections => Serde(sections.collect::<Vec<_>>()),
        environment => Serde(page.environment.iter().map(Laid::of).collect::<Vec<_>>()),
        style => Value::from_safe_string(style.to_owned()),
        version => env!("CARGO_PKG_VERSION"),
    };
    fill(&environment, template, context)
}
