//! The words of a dry run: a line for each entry, and the totals.

use std::collections::BTreeMap;

use haul_copy::events::{Action, Planned, Reason};

use crate::quote::Quoter;
use crate::size::human_size;
use crate::words::arrow;

/// The action, as programs read it.
pub(crate) fn word(action: Action) -> Option<&'static str> {
    Some(match action {
        Action::MakeDirectory => "make_directory",
        Action::EnterDirectory => "enter_directory",
        Action::Copy => "copy",
        Action::Replace => "replace",
        Action::Ask => "ask",
        Action::Link => "link",
        Action::SymbolicLink => "symbolic_link",
        Action::Rename => "rename",
        Action::CloneTree => "clone_tree",
        Action::SetAttributes => "set_attributes",
        Action::Skip => "skip",
        Action::Delete => "delete",
        Action::DeleteDirectory => "delete_directory",
        _ => return None,
    })
}

/// What a copy would do about one entry; `None` of a directory that it would only enter, unless each step is wanted.
pub(crate) fn line(planned: &Planned<'_>, verbose: bool, quoter: &Quoter) -> Option<Vec<u8>> {
    let action: &[u8] = match planned.action {
        Action::MakeDirectory => b"make directory ",
        Action::EnterDirectory if verbose => b"enter directory ",
        Action::EnterDirectory => return None,
        Action::Copy => b"copy ",
        Action::Replace => b"replace ",
        Action::Ask => b"ask ",
        Action::Link => b"link ",
        Action::SymbolicLink => b"symlink ",
        Action::Rename => b"rename ",
        Action::CloneTree => b"clone tree ",
        Action::SetAttributes => b"set attributes of ",
        Action::Skip => b"skip ",
        Action::Delete => b"delete ",
        Action::DeleteDirectory => b"delete directory ",
        _ => return None,
    };
    let mut line = action.to_vec();
    match planned.action {
        Action::MakeDirectory
        | Action::EnterDirectory
        | Action::SetAttributes
        | Action::Skip
        | Action::Delete
        | Action::DeleteDirectory => line.extend(quoter.path(&planned.dest)),
        _ => line.extend(arrow(&planned.source, &planned.dest, quoter)),
    }
    if let Some(backup) = &planned.backup {
        line.extend([&b" (backup: "[..], &quoter.path(backup), b")"].concat());
    }
    let mut before: &[u8] = b": ";
    if let Some(reason) = planned.reason.and_then(reason_words) {
        line.extend([before, reason.as_bytes()].concat());
        before = b"; ";
    }
    if let Some(other) = &planned.other_name {
        line.extend([before, b"same file as ", &quoter.path(other)].concat());
    }
    line.push(b'\n');
    Some(line)
}

/// Why something is replaced, or stays; `None` where nothing was compared.
pub(crate) fn reason_words(reason: Reason) -> Option<&'static str> {
    Some(match reason {
        Reason::Older => "older",
        Reason::SizeDiffers => "size differs",
        Reason::TimeDiffers => "time differs",
        Reason::ContentsDiffer => "contents differ",
        Reason::TypeDiffers => "type differs",
        Reason::NotOlder => "not older",
        Reason::SameSizeAndTime => "same size and time",
        Reason::SameContents => "same contents",
        Reason::SameType => "same type",
        Reason::Finished => "finished",
        Reason::Exists => "exists",
        Reason::SameFile => "same file",
        Reason::Offline => "offline",
        // That something is replaced is said already.
        _ => return None,
    })
}

/// How often each action would be done, and with how many bytes.
#[derive(Debug, Default)]
pub(crate) struct Totals(BTreeMap<Action, (u64, u64)>);

impl Totals {
    /// Counts what would be done about one entry.
    pub fn add(&mut self, planned: &Planned<'_>) {
        let (count, bytes) = self.0.entry(planned.action).or_default();
        *count += 1;
        *bytes = bytes.saturating_add(planned.size);
    }

    /// All of it in one line.
    pub fn line(&self) -> String {
        let of = |(action, (count, bytes)): (&Action, &(u64, u64))| {
            let (before, after) = match action {
                Action::MakeDirectory if *count == 1 => ("make", " directory"),
                Action::MakeDirectory => ("make", " directories"),
                Action::Copy => ("copy", ""),
                Action::Replace => ("replace", ""),
                Action::Ask => ("ask about", ""),
                Action::Link => ("link", ""),
                Action::SymbolicLink => ("symlink", ""),
                Action::Rename => ("rename", ""),
                Action::CloneTree if *count == 1 => ("clone", " tree"),
                Action::CloneTree => ("clone", " trees"),
                Action::SetAttributes => ("set attributes of", ""),
                Action::Skip => ("skip", ""),
                Action::Delete => ("delete", ""),
                Action::DeleteDirectory if *count == 1 => ("delete", " directory"),
                Action::DeleteDirectory => ("delete", " directories"),
                _ => return None,
            };
            let size = if *bytes > 0 { format!(" ({})", human_size(*bytes)) } else { String::new() };
            Some(format!("{before} {count}{after}{size}"))
        };
        let parts: Vec<String> = self.0.iter().filter_map(of).collect();
        let parts = if parts.is_empty() { "nothing to do".to_owned() } else { parts.join(", ") };
        format!("dry run: {parts}; nothing was written\n")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn planned(action: Action) -> Planned<'static> {
        let [source, dest] = ["a", "b"].map(|name| Path::new(name).into());
        Planned { action, source, dest, reason: None, backup: None, other_name: None, size: 0 }
    }

    #[test]
    fn a_line_says_what_and_why() {
        let quoter = Quoter::plain();
        let said = |planned: &Planned<'_>| {
            line(planned, false, &quoter).map(|line| String::from_utf8_lossy(&line).into_owned())
        };
        assert_eq!(said(&planned(Action::Copy)).as_deref(), Some("copy 'a' -> 'b'\n"));
        assert_eq!(said(&planned(Action::EnterDirectory)), None);
        let replace = Planned { reason: Some(Reason::SizeDiffers), ..planned(Action::Replace) };
        assert_eq!(said(&replace).as_deref(), Some("replace 'a' -> 'b': size differs\n"));
        let backed_up = Planned { backup: Some(Path::new("b~").into()), ..replace };
        assert_eq!(said(&backed_up).as_deref(), Some("replace 'a' -> 'b' (backup: 'b~'): size differs\n"));
        let skip = Planned { reason: Some(Reason::SameSizeAndTime), ..planned(Action::Skip) };
        assert_eq!(said(&skip).as_deref(), Some("skip 'b': same size and time\n"));
        assert_eq!(said(&planned(Action::DeleteDirectory)).as_deref(), Some("delete directory 'b'\n"));
        let link = Planned { other_name: Some(Path::new("c").into()), ..planned(Action::Link) };
        assert_eq!(said(&link).as_deref(), Some("link 'a' -> 'b': same file as 'c'\n"));
    }

    #[test]
    fn totals_are_one_line() {
        let mut totals = Totals::default();
        assert_eq!(totals.line(), "dry run: nothing to do; nothing was written\n");
        for action in [Action::Copy, Action::Copy, Action::Skip, Action::MakeDirectory, Action::EnterDirectory] {
            totals.add(&Planned { size: if action == Action::Copy { 512 } else { 0 }, ..planned(action) });
        }
        let said = format!("make 1 directory, copy 2 ({}), skip 1", human_size(1024));
        assert_eq!(totals.line(), format!("dry run: {said}; nothing was written\n"));
        for action in [Action::Delete, Action::Delete, Action::DeleteDirectory] {
            totals.add(&planned(action));
        }
        assert_eq!(totals.line(), format!("dry run: {said}, delete 2, delete 1 directory; nothing was written\n"));
    }
}
