//! The completion for fish.

use haul_frontend::flags::{Argument, Flag};
use haul_frontend::values::Values;

use super::program::{NOTE, Program, words};

/// The script.
pub(super) fn completion<D>(program: &Program<D>) -> String {
    let lines: Vec<String> = program.flags.iter().flat_map(|flag| lines(flag, program.name)).collect();
    format!("# fish completion for {}. {NOTE}\n\n{}\n", program.name, lines.join("\n"))
}

fn lines<D>(flag: &Flag<D>, name: &str) -> Vec<String> {
    let help = flag.help.replace('\'', "\\'");
    let required = matches!(flag.argument, Argument::Required(_));
    let line = |form: String, with_argument: bool| {
        let argument = if with_argument { arguments(flag) } else { String::new() };
        format!("complete -c {name} {form}{argument} -d '{help}'")
    };
    let mut lines: Vec<String> = Vec::new();
    let mut letters = flag.short.chars();
    // A letter and a name that take the same argument are one completion.
    if let (Some(letter), true) = (letters.clone().next(), !flag.long.is_empty() && !is_optional(flag)) {
        lines.push(line(format!("-s {letter} -l {}", flag.long), required));
        letters.next();
    } else if !flag.long.is_empty() {
        lines.push(line(format!("-l {}", flag.long), true));
    }
    lines.extend(letters.map(|letter| line(format!("-s {letter}"), required)));
    lines
}

fn is_optional<D>(flag: &Flag<D>) -> bool {
    matches!(flag.argument, Argument::Optional(_))
}

fn arguments<D>(flag: &Flag<D>) -> String {
    let required = if matches!(flag.argument, Argument::Required(_)) { " -r" } else { "" };
    match flag.values {
        _ if flag.argument == Argument::None => String::new(),
        Values::Any => format!("{required} -f"),
        Values::File => format!("{required} -F"),
        Values::Directory => format!("{required} -f -a '(__fish_complete_directories)'"),
        Values::List(_) => format!("{required} -f -a '(__fish_append , {})'", words(flag).join(" ")),
        Values::One(choices) => {
            let words = choices.iter().map(|choice| format!("{}\\t\"{}\"", choice.name, choice.help));
            format!("{required} -f -a '{}'", words.collect::<Vec<_>>().join(" "))
        }
    }
}
