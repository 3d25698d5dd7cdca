//! The completions of the shells.

use std::fmt::Write as _;

use haul_frontend::flags::{Argument, Flag};
use haul_frontend::values::Values;

use super::man::{NOTE, Program};

/// The script for bash. It needs nothing of the bash-completion package.
pub(super) fn bash<D>(program: &Program<D>) -> String {
    let letters: String = program.flags.iter().filter(|flag| is_required(flag)).map(|flag| flag.short).collect();
    let named = |text: &str| text.replace("haul", program.name).replace("LETTERS", &letters);
    let values: String = program.flags.iter().filter(|flag| flag.argument != Argument::None).map(bash_value).collect();
    let (head, options, tail) = (named(BASH_HEAD), named(&bash_options(program)), named(BASH_TAIL));
    format!("# bash completion for {}. {NOTE}\n\n{head}{values}{BASH_VALUES_TAIL}{options}{tail}", program.name)
}

const BASH_HEAD: &str = r#"# Completes the argument of option $1 that begins with $2.
_haul_value() {
    local option=$1 value=$2 head=
    case $option in
"#;

const BASH_VALUES_TAIL: &str = r#"        *) return 1 ;;
    esac
}

"#;

fn bash_value<D>(flag: &Flag<D>) -> String {
    let letter = match flag.short.get(..1) {
        Some(letter) if is_required(flag) => format!("|-{letter}"),
        _ => String::new(),
    };
    let action = match flag.values {
        Values::Any => "COMPREPLY=()".to_owned(),
        Values::File => "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$value\")".to_owned(),
        Values::Directory => "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$value\")".to_owned(),
        Values::One(_) => format!("mapfile -t COMPREPLY < <(compgen -W '{}' -- \"$value\")", words(flag)),
        Values::List(_) => format!(
            "[[ $value == *,* ]] && head=${{value%,*}},\n            \
             compopt -o nospace\n            \
             mapfile -t COMPREPLY < <(compgen -P \"$head\" -W '{}' -- \"${{value##*,}}\")",
            words(flag)
        ),
    };
    format!("        --{}{letter})\n            {action} ;;\n", flag.long)
}

fn bash_options<D>(program: &Program<D>) -> String {
    let mut names: Vec<String> = Vec::new();
    for flag in program.flags.iter() {
        let unfinished = flag.argument != Argument::None && !flag.long.is_empty();
        names.extend(forms(flag).into_iter().filter(|form| !(is_required(flag) && form.starts_with("--"))));
        names.extend(unfinished.then(|| format!("--{}=", flag.long)));
    }
    let mut text = String::from("_haul_options=(\n");
    for line in names.chunks(6) {
        // Writing to a String cannot fail.
        writeln!(text, "    {}", line.join(" ")).ok();
    }
    text + ")\n"
}

const BASH_TAIL: &str = r#"
_haul() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev= before= i
    ((COMP_CWORD >= 1)) && prev=${COMP_WORDS[COMP_CWORD - 1]}
    ((COMP_CWORD >= 2)) && before=${COMP_WORDS[COMP_CWORD - 2]}
    COMPREPLY=()
    # bash takes `=` for a word of its own.
    if [[ $cur == = && $prev == --* ]]; then
        _haul_value "$prev" "" && return
    elif [[ $prev == = && $before == --* ]]; then
        _haul_value "$before" "$cur" && return
    elif [[ $prev == -[LETTERS] ]]; then
        _haul_value "$prev" "$cur" && return
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} == -- ]] && return
    done
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "${_haul_options[*]}" -- "$cur")
        [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
    fi
}

complete -o bashdefault -o default -F _haul haul
"#;

/// The script for fish.
pub(super) fn fish<D>(program: &Program<D>) -> String {
    let lines: Vec<String> = program.flags.iter().flat_map(|flag| fish_lines(flag, program.name)).collect();
    format!("# fish completion for {}. {NOTE}\n\n{}\n", program.name, lines.join("\n"))
}

fn fish_lines<D>(flag: &Flag<D>, name: &str) -> Vec<String> {
    let help = flag.help.replace('\'', "\\'");
    let line = |form: String, with_argument: bool| {
        let argument = if with_argument { fish_argument(flag) } else { String::new() };
        format!("complete -c {name} {form}{argument} -d '{help}'")
    };
    let mut lines: Vec<String> = Vec::new();
    let mut letters = flag.short.chars();
    // A letter and a name that take the same argument are one completion.
    let is_optional = matches!(flag.argument, Argument::Optional(_));
    if let (Some(letter), true) = (letters.clone().next(), !flag.long.is_empty() && !is_optional) {
        lines.push(line(format!("-s {letter} -l {}", flag.long), is_required(flag)));
        letters.next();
    } else if !flag.long.is_empty() {
        lines.push(line(format!("-l {}", flag.long), true));
    }
    lines.extend(letters.map(|letter| line(format!("-s {letter}"), is_required(flag))));
    lines
}

fn fish_argument<D>(flag: &Flag<D>) -> String {
    let action = match flag.values {
        _ if flag.argument == Argument::None => return String::new(),
        Values::Any => " -f".to_owned(),
        Values::File => " -F".to_owned(),
        Values::Directory => " -f -a '(__fish_complete_directories)'".to_owned(),
        Values::List(_) => format!(" -f -a '(__fish_append , {})'", words(flag)),
        Values::One(choices) => {
            let words = choices.iter().map(|choice| format!("{}\\t\"{}\"", choice.name, choice.help));
            format!(" -f -a '{}'", words.collect::<Vec<_>>().join(" "))
        }
    };
    if is_required(flag) { format!(" -r{action}") } else { action }
}

/// The function file for zsh.
pub(super) fn zsh<D>(program: &Program<D>) -> String {
    let specs: String = program.flags.iter().flat_map(zsh_specs).map(|spec| format!("  {spec} \\\n")).collect();
    format!("#compdef {}\n# {NOTE}\n\n_arguments -s -S \\\n{specs}  '*:file:_files'\n", program.name)
}

/// What `_arguments` gets for an option: for each way to write it, since only the long one may take an argument.
fn zsh_specs<D>(flag: &Flag<D>) -> Vec<String> {
    let forms = forms(flag);
    // One form is enough, but lists may be given several times.
    let exclude = if matches!(flag.values, Values::List(_)) { String::new() } else { format!("({})", forms.join(" ")) };
    let help = escaped(flag.help);
    let spec = |form: &String| {
        let long = form.starts_with("--");
        let (joint, argument) = match flag.argument {
            Argument::Required(name) => (if long { "=" } else { "+" }, format!(":{name}:{}", zsh_action(flag))),
            Argument::Optional(name) if long => ("=-", format!("::{name}:{}", zsh_action(flag))),
            _ => ("", String::new()),
        };
        format!("'{exclude}{form}{joint}[{help}]{argument}'")
    };
    forms.iter().map(spec).collect()
}

fn zsh_action<D>(flag: &Flag<D>) -> String {
    match flag.values {
        Values::Any => " ".to_owned(),
        Values::Directory => "_directories".to_owned(),
        Values::File => "_files".to_owned(),
        Values::List(_) => format!("_sequence compadd - {}", words(flag)),
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

/// Whether the option cannot be without an argument.
fn is_required<D>(flag: &Flag<D>) -> bool {
    matches!(flag.argument, Argument::Required(_))
}

/// The ways to write the option, as `-b` and `--backup`.
fn forms<D>(flag: &Flag<D>) -> Vec<String> {
    let long = (!flag.long.is_empty()).then(|| format!("--{}", flag.long));
    flag.short.chars().map(|letter| format!("-{letter}")).chain(long).collect()
}

/// The words of the option, without their synonyms.
fn words<D>(flag: &Flag<D>) -> String {
    flag.values.choices().iter().map(|choice| choice.name).collect::<Vec<_>>().join(" ")
}
