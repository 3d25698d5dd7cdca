//! A profile as its text.

use std::fmt::Write as _;

use super::types::{Entry, FORMAT, PlaceEntry, Profile, StripeCount, Stripes, VERSION, size};

const HEAD: &str = "\
# Settings that were faster on these storages than haul's own choice; see --profile in haul(1).
# `haul-lab tune` writes this file anew: comments go, what is known of other storages stays.
";

/// The text that [`super::parse`] reads.
pub fn to_text(profile: &Profile) -> String {
    let mut text = format!("{HEAD}\nformat = {FORMAT:?}\nversion = {VERSION}\n");
    for place in &profile.places {
        push_place(&mut text, place);
    }
    text
}

fn push_place(text: &mut String, place: &PlaceEntry) {
    text.push_str("\n[[place]]\n");
    let words = [
        ("directory", &place.directory),
        ("filesystem", &place.place.filesystem),
        ("id", &place.place.id),
        ("device", &place.place.device),
    ];
    for (key, value) in words {
        push(text, key, Some(quoted(value)));
    }
    for entry in &place.entries {
        push_entry(text, entry);
    }
    if place.striping.as_source {
        text.push_str("\n[[place.stripes]]\nas = \"source\"\n");
    }
    for stripes in &place.striping.by_size {
        push_stripes(text, stripes);
    }
}

fn push_stripes(text: &mut String, stripes: &Stripes) {
    text.push_str("\n[[place.stripes]]\n");
    let bytes = |bytes: u64| quoted(&size(bytes, "", ""));
    push(text, "from", Some(stripes.from).filter(|from| *from > 0).map(bytes));
    match stripes.count {
        StripeCount::Of(count) => push(text, "count", Some(count)),
        StripeCount::All => push(text, "count", Some(quoted("all"))),
    }
    push(text, "size", stripes.size.map(u64::from).map(bytes));
    push(text, "pool", Some(&stripes.pool).filter(|pool| !pool.is_empty()).map(|pool| quoted(pool)));
}

fn push_entry(text: &mut String, entry: &Entry) {
    text.push_str("\n[[place.files]]\n");
    let words = |word: &str| Some(word).filter(|word| !word.is_empty()).map(quoted);
    // Writing to a String cannot fail.
    writeln!(text, "size = {} # {}", quoted(entry.class.as_str()), entry.class.range_words()).unwrap_or_default();
    push(text, "source", entry.source.and_then(|source| words(source.as_str())));
    push(text, "engine", entry.setting.engine.and_then(|engine| words(engine.as_str())));
    push(text, "buffer", entry.setting.buffer_size.map(|bytes| quoted(&size(bytes as u64, "", ""))));
    push(text, "depth", entry.setting.depth);
    push(text, "workers", entry.setting.workers);
    push(text, "jobs", entry.jobs);
    push(text, "date", words(&entry.measured.date));
    push(text, "on", words(&entry.measured.on));
    push(text, "gain", entry.measured.gain.filter(|gain| gain.is_finite()).map(|gain| format!("{gain:?}")));
    push(text, "runs", entry.measured.runs.filter(|runs| *runs > 0));
}

fn push(text: &mut String, key: &str, value: Option<impl std::fmt::Display>) {
    if let Some(value) = value {
        writeln!(text, "{key} = {value}").unwrap_or_default();
    }
}

/// A string of TOML. Control characters, which no reader of profiles takes, become question marks.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => quoted.push('?'),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}
