//! The manual page: what `--help` says of each task, in man(7).

use std::fmt::Write;

use super::help;

/// In the order of `--help`.
const TASKS: [&str; 11] = [
    "mapped-copy",
    "in-kernel",
    "mapped-write",
    "async-tree",
    "sparse-image",
    "reproduce",
    "compare",
    "probe",
    "tune",
    "report",
    "map",
];

const BEGIN: &str = r".SH NAME
haul-lab \- measure copies on your own storage, and see what they are made of
.SH SYNOPSIS
.B haul-lab
.I TASK
.RI [ OPTION ]...\&
.IR OPERAND ...\&
.SH DESCRIPTION
.B haul-lab
times ways of copying files against each other: those that
.BR haul (1)
has, and other programs.
It also shows what a filesystem can do, which settings of haul are fastest there, and what the guests of a disk image use.
.PP
Competitors take turns, every copy that is timed is compared with its source, and a wrong one has no rank.
What is measured is saved in a folder, as results.json and as a report; what was made for it is removed.
.SH TASKS
";

const END: &str = r#".SH EXIT STATUS
.TP
.B 0
Everything was done.
.TP
.B 1
The command line is wrong, something failed, or a copy was not what it should be.
.TP
.B 130
SIGINT (Ctrl\-C), SIGTERM or SIGHUP stopped it.
What was measured is saved, and the same command with the same
.B \-\-output
goes on, where the task can.
.SH ENVIRONMENT
.TP
.BR XDG_CONFIG_HOME ", " HOME
Where
.B tune
writes the profile.
.TP
.BR NO_COLOR ", " TERM
Whether
.B map
colours its strips.
.SH SEE ALSO
.BR haul (1),
.BR smartcp (1),
.BR haul-mpi (1),
.BR perf (1)
"#;

/// The page.
pub fn page() -> String {
    let mut page = format!(
        ".\\\" Made from the help texts by crates/lab/src/tasks/manual.rs; do not edit.\n.TH HAUL-LAB 1 2026-11-27 \"haul {}\" \"User Commands\"\n{BEGIN}",
        env!("CARGO_PKG_VERSION")
    );
    for task in TASKS {
        section(&mut page, task, &help::of(task).unwrap_or_default());
    }
    page + END
}

/// One task: how it is called, what it does, its options.
fn section(page: &mut String, task: &str, text: &str) {
    add(page, format_args!(".SS {}", escaped(task)));
    let mut in_paragraph = false;
    for line in text.lines() {
        let words = line.trim_start();
        let indent = line.len() - words.len();
        if let Some(usage) = line.strip_prefix("Usage: ") {
            add(page, format_args!(".B {}\n.PP", escaped(usage)));
            in_paragraph = true;
        } else if words.is_empty() {
            in_paragraph = false;
        } else if words.starts_with("--") && indent > 0 {
            let (option, text) = words.split_once(' ').unwrap_or((words, ""));
            add(page, format_args!(".TP\n.B {}", escaped(option)));
            if !text.is_empty() {
                add(page, format_args!("{}", escaped(text.trim_start())));
            }
            in_paragraph = true;
        } else {
            if !in_paragraph {
                add(page, format_args!(".PP"));
            }
            add(page, format_args!("{}", escaped(words)));
            in_paragraph = true;
        }
    }
}

fn add(page: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    writeln!(page, "{line}").unwrap_or_default();
}

/// Text as man(7) takes it: hyphens that are typed, and no request at the beginning of a line.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace("--", "\\-\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_task_that_help_names_and_all_their_options() {
        let named: Vec<&str> = help::ALL
            .lines()
            .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        assert_eq!(named, TASKS);
        let page = page().replace("\\-", "-");
        for task in TASKS {
            let text = help::of(task).unwrap();
            for option in text.lines().filter(|line| line.starts_with("      --")) {
                let option = option.split_whitespace().next().unwrap();
                assert!(page.contains(&format!(".B {option}\n")), "{task} {option}");
            }
        }
    }

    #[test]
    fn what_roff_would_take_for_a_request_is_text() {
        assert_eq!(escaped(".profile"), "\\&.profile");
        assert_eq!(escaped("a\\b --c"), "a\\eb \\-\\-c");
    }
}
