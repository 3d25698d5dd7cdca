//! The completion for zsh.

use haul_frontend::flags::{Argument, Flag};
use haul_frontend::values::Values;

use super::program::{NOTE, Program, words};

/// The function file.
pub(super) fn completion<D>(program: &Program<D>) -> String {
    let specs: Vec<String> = program.flags.iter().flat_map(specs).map(|spec| format!("  {spec} \\\n")).collect();
    format!("#compdef {}\n# {NOTE}\n\n_arguments -s -S \\\n{}  '*:file:_files'\n", program.name, specs.concat())
}

/// What `_arguments` gets for an option: for each way to write it, since only the long one may take an argument.
fn specs<D>(flag: &Flag<D>) -> Vec<String> {
    let mut forms: Vec<String> = flag.short.chars().map(|letter| format!("-{letter}")).collect();
    if !flag.long.is_empty() {
        forms.push(format!("--{}", flag.long));
    }
    // One form is enough, but lists may be given several times.
    let exclude = if matches!(flag.values, Values::List(_)) { String::new() } else { format!("({})", forms.join(" ")) };
    let help = escaped(flag.help);
    let spec = |form: &String| {
        let long = form.starts_with("--");
        let argument = match flag.argument {
            Argument::Required(name) => format!(":{name}:{}", action(flag)),
            Argument::Optional(name) if long => format!("::{name}:{}", action(flag)),
            _ => String::new(),
        };
        let joint = match flag.argument {
            Argument::Required(_) if long => "=",
            Argument::Required(_) => "+",
            Argument::Optional(_) if long => "=-",
            _ => "",
        };
        format!("'{exclude}{form}{joint}[{help}]{argument}'")
    };
    forms.iter().map(spec).collect()
}

fn action<D>(flag: &Flag<D>) -> String {
    match flag.values {
        Values::Any => " ".to_owned(),
        Values::Directory => "_directories".to_owned(),
        Values::File => "_files".to_owned(),
        Values::List(_) => format!("_sequence compadd - {}", words(flag).join(" ")),
        Values::One(choices) => {
            let words = choices.iter().map(|choice| format!("{}\\:\"{}\"", choice.name, escaped(choice.help)));
            format!("(({}))", words.collect::<Vec<_>>().join(" "))
        }
    }
}

/// Text for a place between brackets within single quotes.
fn escaped(text: &str) -> String {
    text.replace('\'', "'\\''").replace('[', "\\[").replace(']', "\\]").replace(':', "\\:")
}
