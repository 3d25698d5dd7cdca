//! Strips of characters.

use std::env;
use std::fmt::Write as _;
use std::io::IsTerminal;

use haul_guest::report::human;
use haul_sys::locale::Locale;
use haul_sys::rustix::termios::tcgetwinsize;

use super::strip::{Counts, Kind, Picture, Strip};

/// The most columns of a strip.
pub const WIDEST: usize = 10_000;
/// Columns where there is no terminal.
const USUAL: usize = 80;

/// What a strip is shown on.
#[derive(Debug, Clone, Copy)]
pub struct Screen {
    /// Where there is a terminal.
    pub columns: Option<usize>,
    /// Colours are shown and welcome.
    pub colours: bool,
    /// Characters beyond ASCII are shown.
    pub utf8: bool,
}

impl Screen {
    /// Standard output.
    pub fn here() -> Screen {
        let size = tcgetwinsize(std::io::stdout()).ok();
        let wished = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let able = env::var_os("TERM").is_none_or(|term| term != "dumb") && std::io::stdout().is_terminal();
        Screen {
            columns: size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0),
            colours: wished && able,
            utf8: Locale::from_environment().is_some_and(|locale| locale.is_utf8()),
        }
    }
}

/// What stands for each kind, with and without UTF-8, and its colour. Without colours the characters say so.
fn sign(kind: Kind) -> (char, char, &'static str) {
    match kind {
        Kind::Used => ('█', '#', "34"),
        Kind::Opaque => ('▓', '%', "35"),
        Kind::Zero => ('░', '0', "33"),
        Kind::Free => ('▁', '_', "32"),
        Kind::Hole => ('·', '.', "90"),
    }
}

/// Draws the strips and their legend. `width` is that of a strip in columns.
pub fn draw(picture: &Picture, width: Option<usize>, screen: Screen) -> String {
    let width = width.or(screen.columns).unwrap_or(USUAL).clamp(1, WIDEST);
    let mut text = String::new();
    for strip in &picture.strips {
        // Writing to a string cannot fail.
        writeln!(text, "{} ({})", strip.title, human(strip.size)).unwrap_or_default();
        let cells = picture.cells(strip, width);
        text.push_str(&row(&cells, screen));
        writeln!(text, "\n{}\n", numbers(strip)).unwrap_or_default();
    }
    if let Some(first) = picture.strips.first() {
        let legend: Vec<String> = Kind::ALL.map(|kind| format!("{} {}", cell(kind, screen), kind.name())).into();
        let each = human(first.size.div_ceil(width as u64));
        writeln!(text, "{}; most of each cell (of the first strip: {each})", legend.join("  ")).unwrap_or_default();
    }
    text
}

/// `used 1.00 MiB, free 2.00 MiB`.
pub(super) fn numbers(strip: &Strip) -> String {
    let counted = Kind::ALL.into_iter().zip(strip.counts).filter(|(_, bytes)| *bytes > 0);
    counted.map(|(kind, bytes)| format!("{} {}", kind.name(), human(bytes))).collect::<Vec<_>>().join(", ")
}

/// What most bytes of a cell are; of equals the one that weighs more.
fn most(cell: &Counts) -> Kind {
    let largest = cell.iter().copied().max().unwrap_or(0);
    Kind::ALL.into_iter().zip(cell).find(|(_, bytes)| **bytes == largest).map_or(Kind::Used, |(kind, _)| kind)
}

fn character(kind: Kind, screen: Screen) -> char {
    let (drawn, ascii, _) = sign(kind);
    if screen.utf8 { drawn } else { ascii }
}

fn cell(kind: Kind, screen: Screen) -> String {
    coloured(kind, &character(kind, screen).to_string(), screen)
}

fn coloured(kind: Kind, text: &str, screen: Screen) -> String {
    if screen.colours { format!("\x1b[{}m{text}\x1b[0m", sign(kind).2) } else { text.to_owned() }
}

/// Cells of one kind in a row share their colour.
fn row(cells: &[Counts], screen: Screen) -> String {
    let kinds: Vec<Kind> = cells.iter().map(most).collect();
    let runs = kinds.chunk_by(|a, b| a == b);
    let drawn = runs.filter_map(|run| {
        let kind = *run.first()?;
        Some(coloured(kind, &character(kind, screen).to_string().repeat(run.len()), screen))
    });
    drawn.collect()
}

#[cfg(test)]
mod tests {
    use super::super::test_support::picture;
    use super::*;

    fn plain(colours: bool, utf8: bool) -> Screen {
        Screen { columns: Some(40), colours, utf8 }
    }

    #[test]
    fn a_disk_is_drawn_in_strips() {
        let drawn = draw(&picture("GPT partition 1"), None, plain(false, false));
        let expected = "\
the whole disk (80.0 MiB)
#####_____..___#####0####%%%%%00%%%.....
used 28.0 MiB, opaque 16.0 MiB, zero 6.00 MiB, free 16.0 MiB, hole 14.0 MiB

start of the disk: framework (2.00 MiB)
########################################
used 2.00 MiB

GPT partition 1: ext4, mapped (48.0 MiB)
#######________..._____#########0#######
used 26.0 MiB, zero 2.00 MiB, free 16.0 MiB, hole 4.00 MiB

GPT partition 2: unknown (30.0 MiB)
%%%%%%%%%%%%%000000%%%%%%%%.............
opaque 16.0 MiB, zero 4.00 MiB, hole 10.0 MiB

# used  % opaque  0 zero  _ free  . hole; most of each cell (of the first strip: 2.00 MiB)
";
        assert_eq!(drawn, expected, "\n{drawn}");
    }

    #[test]
    fn colours_come_only_where_they_are_welcome() {
        let picture = picture("GPT partition 1");
        let coloured = draw(&picture, Some(8), plain(true, true));
        assert!(coloured.contains("\x1b[34m█\x1b[0m\x1b[32m▁▁\x1b[0m"), "{coloured}");
        assert!(!draw(&picture, Some(8), plain(false, true)).contains('\x1b'));
        assert!(draw(&picture, Some(8), plain(false, false)).is_ascii());
    }

    #[test]
    fn names_of_the_image_cannot_command_the_terminal() {
        let drawn = draw(&picture("a\x1b[2J\u{202e}\u{9b}b\n"), Some(8), plain(false, true));
        assert!(drawn.contains("a?[2J??b?: ext4, mapped"), "{drawn}");
    }
}
