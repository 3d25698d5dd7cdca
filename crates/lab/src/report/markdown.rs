//! A report as Markdown, in the dialect with tables. Drawings are tables there.

use super::text::shown;
use super::{Page, template};

/// Text that means itself in Markdown, also in a field of a table.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in shown(text).chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '$' => {
                safe.push('\\');
                safe.push(letter);
            }
            other => safe.push(other),
        }
    }
    safe
}

pub fn page(page: &Page) -> String {
    template::render(include_str!("page.md"), page, "", escaped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{Cell, Mark, Table};

    #[test]
    fn a_field_of_a_table_cannot_break_it() {
        let row = vec![Cell::text("x | y\n<b> `c` *d* [e](f)"), Cell::text("1").marked(Mark::Best)];
        let mut table = Table::new("", "|>s", [row]);
        table.columns[0].name = "a|b".to_owned();
        let text = page(&Page { environment: vec![table], ..Page::default() });
        let shown = "| a\\|b | s |\n| --- | ---: |\n| x \\| y?&lt;b&gt; \\`c\\` \\*d\\* \\[e\\](f) | **1** |\n\n";
        assert!(text.ends_with(shown), "{text}");
    }
}
