//! The table of engines. A new engine is a file with `CAPS` and `make`, and a row here: `--engine`, its help, the choice by
//! `strategy` and the conformance tests know it then.

use std::fmt;
use std::sync::Arc;

use haul_sys::kernel::{Kernel, Linux};

use super::caps::Caps;
use super::contract::Engine;
use super::tuning::Tuning;
use super::{clone, copy_range, direct, dontcache, mapped, mapped_direct, null, queued, read_write, reference, splice};

/// One engine.
struct Row {
    name: EngineName,
    /// The name that users write.
    word: &'static str,
    /// What it does, for `--help`.
    about: &'static str,
    caps: Caps,
    make: fn(Arc<dyn Kernel>, &Tuning) -> Box<dyn Engine>,
}

/// Makes the names and the table of `Name: CAPS, make, "word", "what it does";`.
macro_rules! engines {
    ($($name:ident: $caps:path, $make:path, $word:literal, $about:literal;)*) => {
        /// The engines by name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum EngineName {
            $(#[doc = $about] $name,)*
        }

        /// In the order of the names.
        const TABLE: &[Row] = &[$(Row {
            name: EngineName::$name,
            word: $word,
            about: $about,
            caps: $caps,
            make: $make,
        },)*];
    };
}

engines! {
    Reference: reference::CAPS, reference::make, "reference",
        "one small buffer, nothing clever: the one that the others are compared with";
    ReadWrite: read_write::CAPS, read_write::make, "read-write",
        "read and write with a buffer of any size";
    CopyRange: copy_range::CAPS, copy_range::make, "copy-range",
        "copy_file_range, inside the kernel or the file server";
    Clone: clone::CAPS, clone::make, "clone",
        "share extents with FICLONE and FICLONERANGE";
    Splice: splice::CAPS, splice::make, "splice",
        "splice through a pipe";
    Mapped: mapped::CAPS, mapped::make, "mapped",
        "write straight from 8 MiB mappings of the source";
    MappedDirect: mapped_direct::CAPS, mapped_direct::make, "mapped-direct",
        "O_DIRECT writes straight from mappings of the source";
    Direct: direct::CAPS, direct::make, "direct",
        "O_DIRECT, past the page cache, where the sides allow it";
    IoUring: queued::CAPS, queued::io_uring, "io-uring",
        "io_uring: many requests at a time, O_DIRECT where the sides allow it";
    LinuxAio: queued::CAPS_OF_LINUX_AIO, queued::linux_aio, "linux-aio",
        "io_submit: the same with O_DIRECT only, also where io_uring is forbidden";
    PosixAio: queued::CAPS, queued::posix_aio, "posix-aio",
        "aio_read and aio_write: the same by threads of the C library";
    Dontcache: dontcache::CAPS, dontcache::make, "dontcache",
        "read and write that leave nothing in the page cache (RWF_DONTCACHE, Linux 6.14)";
    Null: null::CAPS, null::make, "null",
        "move nothing: measures the overhead of the rest";
}

impl EngineName {
    /// Every engine, in the order in which the documentation lists them.
    pub const ALL: [EngineName; TABLE.len()] = {
        let mut all = [TABLE[0].name; TABLE.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = TABLE[at].name;
            at += 1;
        }
        all
    };

    const fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// The engine with the name that users write.
    pub fn named(word: &str) -> Option<EngineName> {
        EngineName::ALL.into_iter().find(|engine| engine.as_str() == word)
    }

    /// The name that users write.
    pub const fn as_str(self) -> &'static str {
        self.row().word
    }

    /// What it does, in a few words.
    pub const fn about(self) -> &'static str {
        self.row().about
    }

    /// What it can do. The largest job of one that was made with some tuning may be smaller.
    pub const fn caps(self) -> &'static Caps {
        &self.row().caps
    }
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Makes an engine.
pub fn make(name: EngineName, tuning: &Tuning) -> Box<dyn Engine> {
    make_on(Arc::new(Linux), name, tuning)
}

/// Makes an engine that works on the given kernel, which tests replace.
pub fn make_on(kernel: Arc<dyn Kernel>, name: EngineName, tuning: &Tuning) -> Box<dyn Engine> {
    (name.row().make)(kernel, tuning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::caps::{Needs, PageCache, Role, Shares, Way};

    #[test]
    fn every_engine_is_made_as_its_row_says() {
        for (at, name) in EngineName::ALL.into_iter().enumerate() {
            assert_eq!((name as usize, EngineName::named(name.as_str())), (at, Some(name)));
            let made = make(name, &Tuning::default()).caps();
            assert_eq!(Caps { max_job: name.caps().max_job, ..made }, *name.caps(), "{name}");
            assert!(made.max_job > 0 && !name.about().is_empty(), "{name}");
        }
    }

    #[test]
    fn what_an_engine_can_do_contradicts_nothing() {
        for name in EngineName::ALL {
            let caps = name.caps();
            let shares = caps.shares == Shares::Always;
            assert_eq!((shares, shares), (caps.way == Way::Cloned, caps.needs == Needs::SharedExtents), "{name}");
            assert!(caps.shares == Shares::Never || !caps.sees_bytes, "{name}: what is shared is not seen");
            let direct = matches!(caps.needs, Needs::Direct | Needs::DirectDest);
            assert!(!direct || caps.page_cache == PageCache::Bypassed, "{name}");
        }
        let fallbacks = EngineName::ALL.into_iter().filter(|name| name.caps().takes_everything());
        let movers: Vec<EngineName> = fallbacks.filter(|name| name.caps().role == Role::Mover).collect();
        assert_eq!(movers, [EngineName::ReadWrite], "what all others fall through to");
    }
}
