//! `cargo xtask book`: the documentation as a site, by mdBook, with every link followed.

mod links;

use std::path::{Path, PathBuf};

use crate::shell::{self, Result};
use crate::tools::Tool;

const TOOL: Tool =
    Tool { name: "mdbook", version: "0.5.4", arguments: &["--no-default-features", "--features", "search"] };

/// Documents of the root, and what they are called in the book.
const PAGES: &[(&str, &str)] = &[
    ("README.md", "introduction.md"),
    ("ARCHITECTURE.md", "architecture.md"),
    ("CONTRIBUTING.md", "contributing.md"),
    ("CHANGELOG.md", "changelog.md"),
    ("SECURITY.md", "security.md"),
    ("crates/python/README.md", "python.md"),
];

/// Manual pages, which are made from the tables of options.
const MANUALS: &[(&str, &str)] = &[
    ("generated/haul.1", "haul.md"),
    ("generated/smartcp.1", "smartcp.md"),
    ("generated/haul-lab.1", "haul-lab.md"),
    ("docs/man/haul-mpi.1", "haul-mpi.md"),
];

/// Makes the site in the target directory.
pub fn run() -> Result {
    println!("{}", check()?);
    Ok(())
}

/// Makes it, and follows every link.
///
/// # Errors
/// When mdBook fails, or a link leads nowhere.
pub fn check() -> Result<String> {
    let room = shell::target().join("book");
    shell::remove(&room)?;
    let pages = room.join("src");
    gather(&pages)?;
    shell::copy(&shell::root().join("docs/book.toml"), &room.join("book.toml"))?;
    shell::run(shell::command(TOOL.program()?).arg("build").arg(&room))?;
    let site = room.join("book");
    let checked = links::check(&site)?;
    Ok(format!("{}: {} pages, {} links", site.join("index.html").display(), checked.pages, checked.links))
}

/// All pages in one folder, as mdBook wants them, with links that lead from one to another there.
fn gather(pages: &Path) -> Result {
    shell::make_dir(pages)?;
    shell::run(shell::command("cp").arg("-a").arg(shell::root().join("docs/.")).arg(pages))?;
    for (document, page) in PAGES {
        shell::copy(&shell::root().join(document), &pages.join(page))?;
    }
    for page in markdown(pages)? {
        let text = std::fs::read_to_string(&page).map_err(shell::at(&page))?;
        shell::write(&page, &inside(&text))?;
    }
    shell::make_dir(&pages.join("man"))?;
    for (manual, page) in MANUALS {
        let mut mandoc = shell::command("mandoc");
        let text = shell::output(mandoc.args(["-T", "html", "-O", "fragment"]).arg(shell::root().join(manual)))?;
        // In Markdown a blank line would end what is HTML.
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let title = page.trim_end_matches(".md");
        let text = format!("# {title}(1)\n\n<div class=\"manual\">\n{}\n</div>\n", lines.join("\n"));
        shell::write(&pages.join("man").join(page), &text)?;
    }
    Ok(())
}

fn markdown(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in shell::entries(dir)? {
        match path.extension() {
            _ if path.is_dir() => found.extend(markdown(&path)?),
            Some(extension) if extension == "md" => found.push(path),
            _ => {}
        }
    }
    Ok(found)
}

/// A link from the root, or to a document there, as it is in the book.
fn inside(text: &str) -> String {
    let mut text = text.replace("](docs/", "](");
    for (document, page) in PAGES {
        for before in ["](", "](../", "](../../"] {
            let to = if before == "](../../" { "](../" } else { "](" };
            text = text.replace(&format!("{before}{document}"), &format!("{to}{page}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_of_the_book() {
        assert_eq!(inside("[a](docs/smart.md#x) [b](ARCHITECTURE.md)"), "[a](smart.md#x) [b](architecture.md)");
        assert_eq!(inside("[c](../CONTRIBUTING.md#y)"), "[c](contributing.md#y)");
        assert_eq!(inside("[d](../../README.md)"), "[d](../introduction.md)");
    }
}
