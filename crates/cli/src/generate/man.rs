//! The man page, in the language of man(7).

use haul_frontend::flags::{Argument, Category, Flag, Table};
use haul_frontend::help;

/// A command that has files about it.
pub(super) struct Program<D: 'static> {
    pub name: &'static str,
    pub flags: &'static Table<D>,
    /// The man page before the options.
    pub head: &'static str,
    /// And after them.
    pub tail: &'static str,
}

/// What to do about a file that is made and not written.
pub(super) const NOTE: &str = "Made from the table of options by crates/cli/src/generate; do not edit.";

/// The day of the last change that readers of the page should know of.
const DATE: &str = "2026-11-24";

/// The page.
pub(super) fn page<D>(program: &Program<D>) -> String {
    let (title, version) = (program.name.to_uppercase(), env!("CARGO_PKG_VERSION"));
    let mut page = format!(".\\\" {NOTE}\n.TH {title} 1 {DATE} \"haul {version}\" \"User Commands\"\n{}", program.head);
    for category in Category::ALL {
        let mut flags = program.flags.iter().filter(|flag| flag.category == category).peekable();
        if flags.peek().is_some() {
            page.push_str(&format!(".SS {}\n", escaped(category.title())));
        }
        for flag in flags {
            page.push_str(&entry(flag, program.flags));
        }
    }
    page + program.tail
}

pub(super) const HEAD: &str = r#".SH NAME
haul \- copy files and directories the fastest way that is right
.SH SYNOPSIS
.B haul
.RI [ OPTION ]...\&
.RB [ \-T ]
.I SOURCE DEST
.br
.B haul
.RI [ OPTION ]...\&
.IR SOURCE ...\&
.I DIRECTORY
.br
.B haul
.RI [ OPTION ]...\&
.B \-t
.I DIRECTORY SOURCE\fR...
.SH DESCRIPTION
.B haul
copies
.I SOURCE
to
.IR DEST ,
or each
.I SOURCE
into
.IR DIRECTORY .
It takes the options of GNU
.BR cp (1)
with the same meaning, and prints the same messages; linked to the name
.B cp
it replaces that command.
.PP
For each file it picks the fastest way that both filesystems allow: extents shared between source and copy, a copy
inside the kernel or the file server, or reading and writing.
.B \-\-explain
says which way it has taken, and why.
.PP
.B haul
removes a new file that it could not copy whole.
It names a file that it was overwriting when the copy failed: that is neither the old nor the new one.
.SH OPTIONS
Arguments that a long option requires are required by its letter, too.
An optional argument can be given to the long form only.
Long options can be abbreviated as long as they are unambiguous.
"#;

pub(super) const TAIL: &str = r#".SH EXIT STATUS
.TP
.B 0
Everything was copied.
.TP
.B 1
Something was not, or standard output could not be written.
Other files were copied all the same, unless
.B \-\-fail\-fast
was given.
With
.BR \-\-compare :
something differs.
.TP
.B 2
With
.BR \-\-compare :
something could not be looked at, or the command line is wrong.
.TP
.BR 129 ", " 130 ", " 143
SIGHUP, SIGINT (Ctrl\-C) or SIGTERM stopped the run.
Called as
.BR cp ,
the command ends by the signal itself.
It always does where nobody reads its output any more (SIGPIPE).
.SH ENVIRONMENT
.TP
.B VERSION_CONTROL
What
.B \-\-backup
means without an argument.
.TP
.B SIMPLE_BACKUP_SUFFIX
What is appended to the names of simple backups, unless
.B \-\-suffix
is given.
.TP
.B POSIXLY_CORRECT
If set, the first operand ends the options, and a copy may be written through a dangling symbolic link.
.TP
.BR LC_ALL ", " LC_CTYPE ", " LANG
Which characters of names can be shown as they are.
.TP
.BR XDG_CONFIG_HOME ", " HOME
Where the user's own profile is.
.SH FILES
.TP
.IR $XDG_CONFIG_HOME/haul/profile ", " ~/.config/haul/profile ", " /etc/haul/profile
Settings that were measured to be faster on some storages; see
.BR \-\-profile .
.TP
.I /etc/xattr.conf
Which extended attributes are not copied.
.SH EXAMPLES
.TP
Copy a tree with everything that can be kept, and show totals at the end:
.B haul \-a \-\-stats /srv/data /mnt/backup
.TP
Copy only what is newer, and say how each file was copied:
.B haul \-au \-\-explain project/ /mnt/backup/project
.TP
Make a copy that shares its blocks with the original, or none:
.B haul \-\-reflink=always disk.img snapshot.img
.SH SEE ALSO
.BR cp (1),
.BR copy_file_range (2),
.BR ioctl_ficlone (2)
"#;

fn entry<D>(flag: &Flag<D>, all: &Table<D>) -> String {
    let bold = |option: &str| format!("\\fB{}\\fR", escaped(option));
    let spelling = help::spelling(flag, bold, |argument| format!("\\fI{argument}\\fR"));
    let mut text = format!(".TP\n{spelling}\n{}\n", styled(&sentence(flag.help), all));
    if !flag.details.is_empty() {
        text.push_str(&format!("{}\n", styled(flag.details, all)));
    }
    let choices = flag.values.choices();
    if !choices.is_empty() && flag.words_at.is_none() {
        text.push_str(".RS\n");
        for choice in choices {
            let synonym = choice.synonym.map(|synonym| format!(", {}", bold(synonym))).unwrap_or_default();
            let name = bold(choice.name) + &synonym;
            text.push_str(&format!(".TP 14\n{name}\n{}\n", styled(&sentence(choice.help), all)));
        }
        text.push_str(".RE\n");
    }
    text
}

/// A description as a sentence.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    // Words of code are left as they are.
    match letters.next() {
        Some(first) if !text.starts_with("copy_file_range") => format!("{}{}.", first.to_uppercase(), letters.as_str()),
        _ => format!("{text}."),
    }
}

/// Text with its options in bold and its arguments in italics.
fn styled<D>(text: &str, all: &Table<D>) -> String {
    let words: Vec<String> = text.split(' ').map(|word| styled_word(word, all)).collect();
    // A sentence begins a line: roff sets the space between sentences.
    words.join(" ").replace(". ", ".\n")
}

fn styled_word<D>(word: &str, all: &Table<D>) -> String {
    let core = word.trim_matches(|letter: char| ",.;:()".contains(letter));
    let is_option = core.starts_with('-') && core.len() > 1;
    let is_argument = ["SOURCE", "DEST"].contains(&core)
        || all.iter().any(|flag| match flag.argument {
            Argument::Required(name) | Argument::Optional(name) => name == core,
            Argument::None => false,
        });
    let font = match (is_option, is_argument) {
        (true, _) => "\\fB",
        (_, true) => "\\fI",
        _ => return escaped(word),
    };
    // What was trimmed is around the core.
    let (before, after) = word.split_once(core).unwrap_or(("", ""));
    format!("{}{font}{}\\fR{}", escaped(before), escaped(core), escaped(after))
}

/// Text in which nothing has a meaning for roff.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}
