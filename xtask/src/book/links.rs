//! The links of a site: each leads to a file that is there, and to a part of it that has that name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::shell::{self, Result};

/// What was looked at.
pub struct Checked {
    pub pages: usize,
    pub links: usize,
}

/// Follows the links of all pages that lead to this site.
///
/// # Errors
/// When one leads nowhere; the message names all of them.
pub fn check(site: &Path) -> Result<Checked> {
    let mut pages = BTreeMap::new();
    read(site, &mut pages)?;
    let mut wrong = Vec::new();
    let mut links = 0;
    for (page, text) in &pages {
        for link in values(text, "href").chain(values(text, "src")).filter(|link| is_inside(link)) {
            links += 1;
            if let Some(why) = objection(page, link, &pages) {
                wrong.push(format!("{}: {link}: {why}", page.strip_prefix(site).unwrap_or(page).display()));
            }
        }
    }
    if wrong.is_empty() { Ok(Checked { pages: pages.len(), links }) } else { Err(wrong.join("\n")) }
}

fn read(dir: &Path, pages: &mut BTreeMap<PathBuf, String>) -> Result {
    for path in shell::entries(dir)? {
        // All pages in one, for a printer, and what a server shows instead of a page: their links lead from elsewhere.
        let whole = path.file_name().is_some_and(|name| name == "print.html" || name == "404.html");
        if path.is_dir() {
            read(&path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "html") && !whole {
            let text = std::fs::read_to_string(&path).map_err(shell::at(&path))?;
            pages.insert(path, text);
        }
    }
    Ok(())
}

/// What the attributes of this name have as values.
fn values<'a>(text: &'a str, attribute: &str) -> impl Iterator<Item = &'a str> {
    let begin = format!(" {attribute}=\"");
    let pieces: Vec<&str> = text.split(&begin).skip(1).collect();
    pieces.into_iter().filter_map(|piece| piece.split('"').next())
}

fn is_inside(link: &str) -> bool {
    !link.contains("://") && !["mailto:", "data:", "javascript:"].iter().any(|scheme| link.starts_with(scheme))
}

fn objection(page: &Path, link: &str, pages: &BTreeMap<PathBuf, String>) -> Option<&'static str> {
    let (path, part) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => page.to_owned(),
        path => plain(&page.parent()?.join(path)),
    };
    let Some(text) = pages.get(&target) else {
        return (!target.exists()).then_some("there is no such file");
    };
    let named = part.is_empty() || text.contains(&format!("id=\"{part}\""));
    (!named).then_some("the page has no such part")
}

/// Without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(plain.pop()),
            std::path::Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_nothing_is_found_and_one_to_another_site_is_not_followed() {
        let dir = haul_testbed::temp_dir();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write(
            "a.html",
            r##"<a href="b.html#x">1</a> <a href="https://example.org/no">2</a> <a href="#y" id="y">3</a>"##,
        );
        write("b.html", r#"<h1 id="x">x</h1>"#);
        let checked = check(dir.path()).unwrap();
        assert_eq!((checked.pages, checked.links), (2, 2));
        write("c.html", r#"<a href="b.html#z">1</a> <a href="d.html">2</a>"#);
        let wrong = check(dir.path()).err().unwrap();
        assert_eq!(wrong, "c.html: b.html#z: the page has no such part\nc.html: d.html: there is no such file");
    }
}
