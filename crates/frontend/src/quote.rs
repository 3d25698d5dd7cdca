//! Names in messages, quoted byte for byte as GNU's programs quote them, so that they can be pasted into a shell.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use haul_sys::locale::{Decoded, Locale};

/// Quotes names for one locale.
#[derive(Debug)]
pub struct Quoter {
    /// Asked for when the first byte beyond ASCII is met: most runs never need it.
    locale: OnceLock<Option<Locale>>,
    ask: fn() -> Option<Locale>,
}

/// A part of a name, as a message shows it.
enum Piece<'a> {
    /// A character that is shown as it is.
    Plain(&'a [u8]),
    /// `'`.
    Apostrophe,
    /// A byte that is shown by a letter or its octal number.
    Escaped(u8),
}

impl Quoter {
    /// For the locale of LC_ALL, LC_CTYPE and LANG.
    pub(crate) fn from_environment() -> Quoter {
        Quoter { locale: OnceLock::new(), ask: Locale::from_environment }
    }

    /// The same in every locale, for programs.
    pub fn plain() -> Quoter {
        Quoter { locale: OnceLock::new(), ask: || None }
    }

    fn locale(&self) -> Option<&Locale> {
        self.locale.get_or_init(self.ask).as_ref()
    }

    /// The name in quotes, as the shell reads them: GNU's style `shell-escape-always`.
    pub fn always(&self, name: &[u8]) -> Vec<u8> {
        let simple = |byte: &u8| (0x20..0x7f).contains(byte) && *byte != b'\'';
        if name.iter().all(simple) {
            return [b"'", name, b"'"].concat();
        }
        let pieces = self.pieces(name);
        let has_apostrophe = pieces.iter().any(|piece| matches!(piece, Piece::Apostrophe));
        if has_apostrophe && fits_double_quotes(&pieces) {
            return [b"\"", name, b"\""].concat();
        }
        in_single_quotes(&pieces)
    }

    /// A path in quotes, as [`Quoter::always`] has them.
    pub fn path(&self, path: &Path) -> Vec<u8> {
        self.always(path.as_os_str().as_bytes())
    }

    /// The name, in quotes only if a shell needs them or it contains a colon: GNU's style `shell-escape`.
    pub fn if_needed(&self, name: &[u8]) -> Vec<u8> {
        let special = |byte: &u8| b" !\"$&()*;<=>[^`|?\\':".contains(byte);
        let alone = matches!(name, b"{" | b"}" | b"");
        let first = matches!(name.first(), Some(b'#' | b'~'));
        let escaped = || self.pieces(name).iter().any(|piece| matches!(piece, Piece::Escaped(_)));
        if alone || first || name.iter().any(special) || escaped() { self.always(name) } else { name.to_owned() }
    }

    /// The text in the quotation marks of the locale, for words that are no file names.
    pub fn text(&self, text: &[u8]) -> Vec<u8> {
        let codeset = self.locale().map(Locale::codeset).unwrap_or_default();
        let (left, right): (&[u8], &[u8]) = match codeset.to_ascii_uppercase().as_str() {
            "UTF-8" => ("‘".as_bytes(), "’".as_bytes()),
            "GB18030" => (b"\xa1\xae", b"\xa1\xaf"),
            _ => (b"'", b"'"),
        };
        let mut quoted = left.to_owned();
        for piece in self.pieces(text) {
            match piece {
                Piece::Plain(b"\\") => quoted.extend(b"\\\\"),
                Piece::Plain(character) if character == right => quoted.extend([b"\\", right].concat()),
                Piece::Plain(character) => quoted.extend(character),
                Piece::Apostrophe if right == b"'" => quoted.extend(b"\\'"),
                Piece::Apostrophe => quoted.push(b'\''),
                Piece::Escaped(byte) => quoted.extend(escape(byte)),
            }
        }
        quoted.extend(right);
        quoted
    }

    /// The end of a name, with nothing in it that could move the cursor, in at most so many columns of a terminal.
    pub fn tail(&self, name: &[u8], columns: usize) -> Vec<u8> {
        let mut kept: Vec<Vec<u8>> = Vec::new();
        let mut used = 0;
        let pieces: Vec<(Vec<u8>, usize)> = self.pieces(name).iter().map(|piece| self.shown(piece)).collect();
        let total: usize = pieces.iter().map(|(_, width)| width).sum();
        let room = if total > columns { columns.saturating_sub(3) } else { columns };
        for (bytes, width) in pieces.into_iter().rev() {
            if used + width > room {
                break;
            }
            used += width;
            kept.push(bytes);
        }
        if total > columns {
            kept.push(b"...".to_vec());
        }
        kept.reverse();
        kept.concat()
    }

    /// Text with nothing in it that commands a terminal: what is no letter, no line break and no blank is shown as C writes
    /// it in a string.
    pub(crate) fn harmless<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        if text.iter().all(|byte| matches!(byte, b'\n' | 0x20..0x7f)) {
            return Cow::Borrowed(text);
        }
        let mut shown = Vec::with_capacity(text.len() + 16);
        for piece in self.pieces(text) {
            match piece {
                Piece::Escaped(b'\n') => shown.push(b'\n'),
                piece => shown.extend(self.shown(&piece).0),
            }
        }
        Cow::Owned(shown)
    }

    /// What a piece looks like on a terminal, and its width.
    fn shown(&self, piece: &Piece<'_>) -> (Vec<u8>, usize) {
        match piece {
            Piece::Apostrophe => (b"'".to_vec(), 1),
            Piece::Escaped(byte) => {
                let bytes = escape(*byte);
                let width = bytes.len();
                (bytes, width)
            }
            Piece::Plain(character @ [_]) => (character.to_vec(), 1),
            Piece::Plain(character) => {
                let width = match self.locale().map(|locale| locale.decode(character)) {
                    Some(Decoded::Character { columns, .. }) => columns,
                    _ => character.len(),
                };
                (character.to_vec(), width)
            }
        }
    }

    fn pieces<'a>(&self, name: &'a [u8]) -> Vec<Piece<'a>> {
        let mut pieces = Vec::with_capacity(name.len());
        let mut rest = name;
        while let Some(first) = rest.first() {
            let length = match first {
                b'\'' => {
                    pieces.push(Piece::Apostrophe);
                    1
                }
                0x20..0x7f => {
                    pieces.push(Piece::Plain(&rest[..1]));
                    1
                }
                0..0x20 | 0x7f => {
                    pieces.push(Piece::Escaped(*first));
                    1
                }
                0x80.. => self.beyond_ascii(rest, &mut pieces),
            };
            rest = &rest[length..];
        }
        pieces
    }

    /// Adds the character that `rest` begins with; returns how many bytes that were.
    fn beyond_ascii<'a>(&self, rest: &'a [u8], pieces: &mut Vec<Piece<'a>>) -> usize {
        let (length, printable) = match self.locale().map_or(Decoded::Invalid, |locale| locale.decode(rest)) {
            Decoded::Character { length, printable, .. } => (length, printable),
            Decoded::Invalid => (1, false),
            Decoded::Incomplete => (rest.len(), false),
        };
        if printable {
            pieces.push(Piece::Plain(&rest[..length]));
        } else {
            pieces.extend(rest[..length].iter().map(|byte| Piece::Escaped(*byte)));
        }
        length
    }
}

/// Whether everything means itself between double quotes, in shells and in C alike. GNU is stricter than a shell.
fn fits_double_quotes(pieces: &[Piece<'_>]) -> bool {
    pieces.iter().enumerate().all(|(index, piece)| match piece {
        Piece::Plain(b"#" | b"~") => index == 0,
        Piece::Plain([byte]) => byte.is_ascii_alphanumeric() || b"%+,-./:]_@ ".contains(byte) || *byte >= 0x80,
        Piece::Plain(_) | Piece::Apostrophe => true,
        Piece::Escaped(_) => false,
    })
}

fn in_single_quotes(pieces: &[Piece<'_>]) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    // GNU looks at a name with an apostrophe twice, and the second time believes that it is still behind the escape
    // that the name ends with. The words are compared byte for byte, so haul does the same.
    let has_apostrophe = pieces.iter().any(|piece| matches!(piece, Piece::Apostrophe));
    let mut escaping = has_apostrophe && matches!(pieces.last(), Some(Piece::Escaped(_)));
    for piece in pieces {
        match piece {
            Piece::Plain(character) => {
                if escaping {
                    quoted.extend(b"''");
                }
                quoted.extend(*character);
                escaping = false;
            }
            Piece::Apostrophe => {
                quoted.extend(b"'\\''");
                escaping = false;
            }
            Piece::Escaped(byte) => {
                if !escaping {
                    quoted.extend(b"'$'");
                }
                quoted.extend(escape(*byte));
                escaping = true;
            }
        }
    }
    quoted.push(b'\'');
    quoted
}

/// A byte as C writes it in a string.
fn escape(byte: u8) -> Vec<u8> {
    let letter = match byte {
        0x07 => b'a',
        0x08 => b'b',
        0x09 => b't',
        0x0a => b'n',
        0x0b => b'v',
        0x0c => b'f',
        0x0d => b'r',
        _ => return format!("\\{byte:03o}").into_bytes(),
    };
    vec![b'\\', letter]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_c_locale() -> Quoter {
        Quoter { locale: OnceLock::from(None), ask: || None }
    }

    #[test]
    fn names_are_quoted_only_where_a_shell_needs_it() {
        let quoter = in_c_locale();
        for (name, quoted) in [
            ("a", "a"),
            ("a b", "'a b'"),
            ("", "''"),
            ("a:b", "'a:b'"),
            ("~a", "'~a'"),
            ("a~", "a~"),
            ("{", "'{'"),
            ("a{}", "a{}"),
        ] {
            assert_eq!(quoter.if_needed(name.as_bytes()), quoted.as_bytes(), "{name}");
        }
        assert_eq!(quoter.if_needed(b"\xff"), b"''$'\\377'");
    }

    #[test]
    fn a_name_on_the_terminal_keeps_its_end_and_cannot_move_the_cursor() {
        let quoter = in_c_locale();
        assert_eq!(quoter.tail(b"a/b\x1b[2J", 20), b"a/b\\033[2J");
        assert_eq!(quoter.tail(b"directory/file", 8), b".../file");
        assert_eq!(quoter.tail(b"file", 4), b"file");
    }
}
