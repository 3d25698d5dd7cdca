//! Characters as the user's locale sees them, asked of the C library so that the answers are those of the other
//! programs of the system.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

/// The state of a multibyte conversion: 8 bytes in glibc and musl. Room for libraries that take more.
#[repr(C, align(8))]
struct ConversionState([u8; 128]);

// A wchar_t has 32 bits on Linux, with a sign or without: that is up to the processor.
unsafe extern "C" {
    fn mbrtowc(wide: *mut i32, bytes: *const c_char, length: usize, state: *mut ConversionState) -> usize;
    fn iswprint(wide: u32) -> c_int;
    fn wcwidth(wide: i32) -> c_int;
}

/// Every category. As with setlocale(3) and LC_ALL, the C locale holds where one of them is unknown.
#[cfg(target_env = "gnu")]
const CATEGORIES: c_int = libc::LC_ALL_MASK;
/// Every category of POSIX: the mask of all has no name in the crate libc.
#[cfg(not(target_env = "gnu"))]
const CATEGORIES: c_int = libc::LC_CTYPE_MASK
    | libc::LC_NUMERIC_MASK
    | libc::LC_TIME_MASK
    | libc::LC_COLLATE_MASK
    | libc::LC_MONETARY_MASK
    | libc::LC_MESSAGES_MASK;

/// The locale that the environment names, without making it that of the process.
#[derive(Debug)]
pub struct Locale {
    handle: libc::locale_t,
}

// SAFETY: a locale object is never written to after newlocale(3) made it, so threads may share it.
unsafe impl Send for Locale {}
// SAFETY: as above.
unsafe impl Sync for Locale {}

/// What stands at the beginning of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// A character.
    Character {
        /// Its bytes; at least one.
        length: usize,
        /// It leaves a mark on paper (or is a space).
        printable: bool,
        /// Columns that it takes on a terminal.
        columns: usize,
    },
    /// One byte that begins no character.
    Invalid,
    /// All the bytes are the beginning of a character whose end is missing.
    Incomplete,
}

/// Whether the C library tells the locale that the environment names from others.
#[cfg(target_env = "gnu")]
fn is_told_apart() -> bool {
    true
}

/// musl takes every name but C and POSIX, and none, for a locale with UTF-8.
#[cfg(not(target_env = "gnu"))]
fn is_told_apart() -> bool {
    let variables = [c"LC_ALL", c"LC_CTYPE", c"LANG"];
    // SAFETY: as newlocale(3) does, it reads the environment, which no thread of ours changes.
    let values = variables.iter().map(|name| unsafe { libc::getenv(name.as_ptr()) });
    // SAFETY: what getenv(3) returns is null or a C string of the environment.
    let mut values = values.filter(|value| !value.is_null()).map(|value| unsafe { CStr::from_ptr(value) });
    values.find(|value| !value.is_empty()).is_some_and(|value| {
        let name = value.to_string_lossy().to_ascii_lowercase();
        name.contains("utf-8") || name.contains("utf8")
    })
}

impl Locale {
    /// The locale named by LC_ALL, LC_CTYPE and LANG; `None` if that is unknown here, which means the C locale.
    pub fn from_environment() -> Option<Locale> {
        if !is_told_apart() {
            return None;
        }
        // SAFETY: the name is a C string, and no locale object is passed that the call could modify.
        let handle = unsafe { libc::newlocale(CATEGORIES, c"".as_ptr(), ptr::null_mut()) };
        if handle.is_null() {
            return None;
        }
        Some(Locale { handle })
    }

    /// Whether names are UTF-8.
    pub fn is_utf8(&self) -> bool {
        self.codeset().eq_ignore_ascii_case("UTF-8")
    }

    /// The name of the character set, as nl_langinfo(CODESET) gives it.
    pub fn codeset(&self) -> String {
        // SAFETY: the handle is a live locale object.
        let name = unsafe { libc::nl_langinfo_l(libc::CODESET, self.handle) };
        // SAFETY: nl_langinfo_l(3) returns a C string that lives as long as the locale object; it is copied at once.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }

    /// The first character of `bytes`, which must not be empty. A NUL byte is no character.
    pub fn decode(&self, bytes: &[u8]) -> Decoded {
        // SAFETY: the handle is live; the locale of the thread is put back before the function returns.
        let before = unsafe { libc::uselocale(self.handle) };
        let mut wide = 0_i32;
        let mut state = ConversionState([0; 128]);
        // SAFETY: all pointers are to live objects of at least the size that the call uses; all zeros is the initial
        // conversion state.
        let length = unsafe { mbrtowc(&raw mut wide, bytes.as_ptr().cast(), bytes.len(), &raw mut state) };
        let decoded = match length {
            usize::MAX | 0 => Decoded::Invalid,
            length if length == usize::MAX - 1 => Decoded::Incomplete,
            length => {
                // SAFETY: both functions take any value.
                let (printable, columns) = unsafe { (iswprint(wide.cast_unsigned()) != 0, wcwidth(wide)) };
                Decoded::Character { length, printable, columns: usize::try_from(columns).unwrap_or(0) }
            }
        };
        // SAFETY: `before` came from uselocale(3).
        unsafe { libc::uselocale(before) };
        decoded
    }
}

impl Drop for Locale {
    fn drop(&mut self) {
        // SAFETY: the handle came from newlocale(3) and is in use by no thread, since `convert` puts the old one back.
        unsafe { libc::freelocale(self.handle) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The locale of the name, which every system has.
    fn locale(name: &CStr) -> Locale {
        // SAFETY: as in `from_environment`.
        let handle = unsafe { libc::newlocale(CATEGORIES, name.as_ptr(), ptr::null_mut()) };
        assert!(!handle.is_null(), "{name:?} is missing");
        Locale { handle }
    }

    #[test]
    fn utf_8_is_decoded_character_by_character() {
        let utf8 = locale(c"C.UTF-8");
        let character = |length, printable, columns| Decoded::Character { length, printable, columns };
        assert!(utf8.is_utf8());
        for (bytes, expected) in [
            (&b"a\xff"[..], character(1, true, 1)),
            ("é".as_bytes(), character(2, true, 1)),
            ("漢字".as_bytes(), character(3, true, 2)),
            (b"\n", character(1, false, 0)),
            ("\u{85}".as_bytes(), character(2, false, 0)),
            (b"\xff", Decoded::Invalid),
            (b"\xc3x", Decoded::Invalid),
            (b"\xed\xa0\x80", Decoded::Invalid),
            (b"\xe6\xbc", Decoded::Incomplete),
        ] {
            assert_eq!(utf8.decode(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn the_c_locale_prints_ascii_only() {
        let plain = locale(c"C");
        assert!(!plain.is_utf8());
        for byte in 1..=255u8 {
            let printable = matches!(plain.decode(&[byte]), Decoded::Character { printable: true, .. });
            assert_eq!(printable, (0x20..0x7f).contains(&byte), "{byte:#x}");
        }
    }
}
