//! The text of `--help` and `--version`.

use std::ffi::OsStr;

use haul_io::engine::EngineName;

use crate::flags::{Argument, Category, Flag, Table};
use crate::options::FLAGS;

/// The column in which the descriptions of `--help` begin.
const COLUMN: usize = 32;

/// How the options of a flag are written, as `-S, --suffix=SUFFIX`; what options and arguments look like, the caller says.
pub fn spelling<D>(flag: &Flag<D>, option: impl Fn(&str) -> String, argument: impl Fn(&str) -> String) -> String {
    let mut forms: Vec<String> = flag.short.chars().map(|letter| option(&format!("-{letter}"))).collect();
    if !flag.long.is_empty() {
        let argument = match flag.argument {
            Argument::None => String::new(),
            Argument::Required(name) => format!("={}", argument(name)),
            Argument::Optional(name) => format!("[={}]", argument(name)),
        };
        forms.push(option(&format!("--{}", flag.long)) + &argument);
    }
    forms.join(", ")
}

/// The text of `--help` under this name.
pub fn help(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    let text = format!(
        "Usage: {name} [OPTION]... [-T] SOURCE DEST\n  \
           or:  {name} [OPTION]... SOURCE... DIRECTORY\n  \
           or:  {name} [OPTION]... -t DIRECTORY SOURCE...\n\
         Copy SOURCE to DEST, or each SOURCE into DIRECTORY.\n"
    );
    text + &options(&FLAGS)
}

/// All options of a command by their headings, and the words that they take.
pub fn options<D>(flags: &Table<D>) -> String {
    let mut text = String::new();
    for category in Category::ALL {
        let mut flags = flags.iter().filter(|flag| flag.category == category).peekable();
        if flags.peek().is_some() {
            text.push_str(&format!("\n{}:\n", category.title()));
        }
        flags.for_each(|flag| text.push_str(&entry(flag)));
    }
    text + &words(flags)
}

fn entry<D>(flag: &Flag<D>) -> String {
    let indent = if flag.short.is_empty() { "      " } else { "  " };
    let option = format!("{indent}{}", spelling(flag, str::to_owned, str::to_owned));
    match option.len() + 2 > COLUMN {
        true => format!("{option}\n{:COLUMN$}{}\n", "", flag.help),
        false => format!("{option:<COLUMN$}{}\n", flag.help),
    }
}

/// The words that options take.
fn words<D>(flags: &Table<D>) -> String {
    let mut text = String::from("\nWords that options take:\n");
    for flag in flags.iter().filter(|flag| !flag.values.choices().is_empty()) {
        let names = flag.values.choices().iter().map(|choice| match choice.synonym {
            Some(synonym) => format!("{} ({synonym})", choice.name),
            None => choice.name.to_owned(),
        });
        let names: Vec<String> = names.collect();
        text.push_str(&wrapped(&format!("--{}", flag.long), &names));
    }
    text
}

/// A label and words separated by commas, in lines of less than 80 columns.
fn wrapped(label: &str, words: &[String]) -> String {
    const INDENT: usize = 19;
    let mut text = String::new();
    let mut line = format!("  {label:<width$}", width = INDENT - 2);
    for (index, word) in words.iter().enumerate() {
        let separator = if index + 1 < words.len() { ", " } else { "" };
        if line.len() + word.len() + separator.len() > 79 {
            text.push_str(line.trim_end());
            text.push('\n');
            line = " ".repeat(INDENT);
        }
        line.push_str(word);
        line.push_str(separator);
    }
    text + &line + "\n"
}

/// The text of `--version` of this program: name and version, of which build it is, and what it was built with.
pub fn version(program: &str) -> String {
    let commit = match env!("HAUL_BUILD_COMMIT") {
        "" => "unknown",
        commit => commit,
    };
    let linked = if cfg!(target_feature = "crt-static") { "static" } else { "dynamic" };
    let allocator = if cfg!(target_env = "musl") { ", mimalloc" } else { "" };
    let checks = if cfg!(debug_assertions) { ", debug" } else { "" };
    let engines: Vec<String> = EngineName::ALL.iter().map(ToString::to_string).collect();
    format!(
        "{program} {}\n\
         Commit: {commit}\n\
         Build: {}, {linked}{allocator}{checks}, {}\n\
         Engines: {}\n\
         License: MIT OR Apache-2.0\n",
        env!("CARGO_PKG_VERSION"),
        env!("HAUL_BUILD_TARGET"),
        env!("HAUL_BUILD_COMPILER"),
        engines.join(" "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_option_once_in_80_columns() {
        let text = help(OsStr::new("haul"));
        for flag in FLAGS.iter() {
            let spelling = spelling(flag, str::to_owned, str::to_owned);
            assert_eq!(
                text.lines().filter(|line| line.trim_start().starts_with(&spelling)).count(),
                1,
                "-{} --{}",
                flag.short,
                flag.long
            );
        }
        for line in text.lines() {
            assert!(line.len() < 100, "{line}");
        }
    }
}
