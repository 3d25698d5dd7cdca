//! The completion for bash.

use std::fmt::Write as _;

use haul_frontend::flags::{Argument, Flag};
use haul_frontend::values::Values;

use super::program::{NOTE, Program, takes_argument, words};

/// The script. It needs nothing of the bash-completion package.
pub(super) fn completion<D>(program: &Program<D>) -> String {
    let named = |text: &str| text.replace("haul", program.name).replace("LETTERS", &letters(program.flags));
    let (head, values, options) = (named(VALUES_HEAD), values(program.flags), named(&options(program.flags)));
    format!("# bash completion for {}. {NOTE}\n\n{head}{values}{VALUES_TAIL}{options}{}", program.name, named(TAIL))
}

/// Those of the options whose letter takes an argument.
fn letters<D>(flags: &[Flag<D>]) -> String {
    flags.iter().filter(|flag| matches!(flag.argument, Argument::Required(_))).map(|flag| flag.short).collect()
}

const VALUES_HEAD: &str = r#"# Completes the argument of option $1 that begins with $2.
_haul_value() {
    local option=$1 value=$2 head=
    case $option in
"#;

const VALUES_TAIL: &str = r#"        *) return 1 ;;
    esac
}

"#;

fn values<D>(flags: &[Flag<D>]) -> String {
    let mut text = String::new();
    for flag in flags.iter().filter(|flag| takes_argument(flag)) {
        let letter = match flag.argument {
            Argument::Required(_) if !flag.short.is_empty() => format!("|-{}", &flag.short[..1]),
            _ => String::new(),
        };
        let action = match flag.values {
            Values::Any => "COMPREPLY=()".to_owned(),
            Values::File => "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$value\")".to_owned(),
            Values::Directory => "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$value\")".to_owned(),
            Values::One(_) => {
                format!("mapfile -t COMPREPLY < <(compgen -W '{}' -- \"$value\")", words(flag).join(" "))
            }
            Values::List(_) => format!(
                "[[ $value == *,* ]] && head=${{value%,*}},\n            \
                 compopt -o nospace\n            \
                 mapfile -t COMPREPLY < <(compgen -P \"$head\" -W '{}' -- \"${{value##*,}}\")",
                words(flag).join(" ")
            ),
        };
        // Writing to a String cannot fail.
        writeln!(text, "        --{}{letter})\n            {action} ;;", flag.long).ok();
    }
    text
}

fn options<D>(flags: &[Flag<D>]) -> String {
    let mut names: Vec<String> = Vec::new();
    for flag in flags {
        names.extend(flag.short.chars().map(|letter| format!("-{letter}")));
        if flag.long.is_empty() {
            continue;
        }
        if !matches!(flag.argument, Argument::Required(_)) {
            names.push(format!("--{}", flag.long));
        }
        if takes_argument(flag) {
            names.push(format!("--{}=", flag.long));
        }
    }
    let mut text = String::from("_haul_options=(\n");
    for line in names.chunks(6) {
        // As above.
        writeln!(text, "    {}", line.join(" ")).ok();
    }
    text + ")\n"
}

const TAIL: &str = r#"
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
