//! Names of files that are not whole, in the directory of the final ones.
//!
//! One has a prefix by which the same command finds what a run of it has left that was killed, and a number that nobody can
//! foresee: that of the run, and 40 bits. Two files that are being made have the same with a chance of one in a million; then
//! one of them fails.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use haul_sys::Errno;

/// Hexadecimal digits of a number.
const DIGITS: usize = 16;
/// Bits of a number below those of the run.
const RUN: u32 = 40;

/// The temporary names of one run.
pub struct TemporaryNames {
    prefix: String,
    /// The run, in the numbers that it gives away; how many those are; and what they are made of.
    run: u64,
    given: AtomicU64,
    secret: RandomState,
}

impl TemporaryNames {
    /// Names that begin with this.
    pub fn new(prefix: String) -> TemporaryNames {
        let run = RandomState::new().build_hasher().finish() >> RUN;
        TemporaryNames { prefix, run, given: AtomicU64::new(0), secret: RandomState::new() }
    }

    /// Names that no other run looks for.
    pub fn anybodys() -> TemporaryNames {
        TemporaryNames::new(".haul-".to_owned())
    }

    /// Another number.
    pub fn number(&self) -> u64 {
        let mut hasher = self.secret.build_hasher();
        hasher.write_u64(self.given.fetch_add(1, Ordering::Relaxed));
        self.run << RUN | hasher.finish() >> (64 - RUN)
    }

    /// The name with this number.
    pub fn with_number(&self, number: u64) -> OsString {
        OsString::from(format!("{}{number:0DIGITS$x}", self.prefix))
    }

    /// Another name.
    pub fn another(&self) -> OsString {
        self.with_number(self.number())
    }

    /// The number in such a name, whichever run has given it.
    pub fn number_of(&self, name: &[u8]) -> Option<u64> {
        number_behind(name.strip_prefix(self.prefix.as_bytes())?)
    }

    /// Whether this run has given the number.
    pub fn is_own(&self, number: u64) -> bool {
        number >> RUN == self.run
    }
}

/// The number that is all of this.
pub(crate) fn number_behind(digits: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.len() == DIGITS)?;
    u64::from_str_radix(digits, 16).ok()
}

/// Makes something under a random name that is free, and returns the name.
///
/// # Errors
/// That of `make`, but for EEXIST unless no name is free after many tries.
pub fn temporary_name(names: &TemporaryNames, make: impl Fn(&OsStr) -> Result<(), Errno>) -> Result<OsString, Errno> {
    for _ in 0..10_000 {
        let name = names.another();
        match make(&name) {
            Ok(()) => return Ok(name),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::EXIST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_name_has_its_number_and_its_owner() {
        let [one, other] = [(); 2].map(|()| TemporaryNames::new(".haul-x".into()));
        let name = one.another();
        let number = one.number_of(name.as_bytes()).expect("it is one");
        assert_eq!(one.with_number(number), name);
        assert_eq!((one.is_own(number), other.is_own(number)), (true, false));
        assert_eq!(other.number_of(name.as_bytes()), Some(number), "a later run of the same command");
        assert_ne!(one.another(), name);
        for foreign in ["", ".haul-x", ".haul-y0123456789abcdef", ".haul-x0123456789abcdef0", ".haul-x0123456789abcdeg"]
        {
            assert_eq!(one.number_of(foreign.as_bytes()), None, "{foreign}");
        }
    }
}
