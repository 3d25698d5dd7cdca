//! Which command the program was called as.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The command, by the name of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persona {
    /// `cp`: a drop-in, with cp's defaults.
    Cp,
    /// `smartcp`: disk images.
    Smartcp,
    /// Any other name.
    Haul,
}

impl Persona {
    /// That of a program's name, which may be a path.
    pub fn of(name: &OsStr) -> Persona {
        match Path::new(name).file_name().map(OsStr::as_bytes) {
            Some(b"cp") => Persona::Cp,
            Some(b"smartcp") => Persona::Smartcp,
            _ => Persona::Haul,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_ends_in_cp_is_cp() {
        for (name, persona) in [
            ("cp", Persona::Cp),
            ("/usr/bin/cp", Persona::Cp),
            ("haul", Persona::Haul),
            ("./cpx", Persona::Haul),
            ("cp/haul", Persona::Haul),
        ] {
            assert_eq!(Persona::of(OsStr::new(name)), persona, "{name}");
        }
    }
}
