//! What people see of a probe.

use haul_io::profile::SizeClass;

use crate::results::{Fact, Results, Section};
use crate::view::{Cell, Mark, Table, View};

/// Details in their order, and their titles.
const TITLES: [(&str, &str); 5] = [
    ("filesystem", "The filesystem"),
    ("device", "The device"),
    ("machine", "The machine"),
    ("works", "What works when it is tried"),
    ("choices", "What haul would choose for a copy within this filesystem"),
];

pub fn view(results: &Results, section: &Section) -> View {
    let place = results.place_of(section);
    let of = place.map_or_else(String::new, |place| format!(" of {} ({})", place.directory, place.filesystem));
    View {
        summary: summary(section),
        not_measured: section.skipped.clone(),
        tables: TITLES.iter().filter_map(|(name, title)| table(section, name, title)).collect(),
        ..View::of(
            section,
            &format!("What haul knows{of}"),
            "What can this storage do, and what would haul choose on it?",
        )
    }
}

fn summary(section: &Section) -> Vec<String> {
    let works = section.facts("works");
    let has = |name: &str| works.iter().any(|(title, value, _)| title == name && value == "yes");
    if works.is_empty() {
        return Vec::new();
    }
    let sharing = match has("reflink") {
        true => "Copies within it share extents, and take no time, unless --reflink=never is given.",
        false => "It does not share extents: the bytes of a copy are moved.",
    };
    let past = match has("O_DIRECT") {
        true => "Large copies can go to the device past the page cache.",
        false => "Copies go through the page cache, since direct I/O is not possible or its alignment is not known.",
    };
    vec![sharing.to_owned(), past.to_owned()]
}

fn table(section: &Section, name: &str, title: &str) -> Option<Table> {
    let row = |(name, value, meaning): &Fact| {
        let mark = match value.as_str() {
            "no" | "unknown" => Mark::Faint,
            _ if meaning.contains("WRONG") => Mark::Bad,
            _ => Mark::None,
        };
        vec![Cell::text(name), Cell::text(value).marked(mark), Cell::text(meaning)]
    };
    let choices = name == "choices";
    let heads = if choices { "file|engines in their order|because" } else { "fact|value|source, or meaning" };
    let table = Table::new(title, heads, section.facts(name).iter().map(row)).if_any()?;
    let classes = || SizeClass::ALL.map(|class| format!("{class} ({})", class.range_words())).join(", ");
    let note = choices.then(|| format!("A profile can say something about files by size: {}.", classes()));
    Some(Table { note, ..table })
}
