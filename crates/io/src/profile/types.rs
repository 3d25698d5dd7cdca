//! What a profile knows of storages, as data.

use std::fmt;
use std::str::FromStr;

use crate::engine::{EngineName, Role, Shares};

/// What `format` says in the file.
pub const FORMAT: &str = "haul-profile";
/// The version that is written, and the only one that is read.
pub const VERSION: i64 = 1;
/// Longer files are no profiles, in bytes.
pub const LONGEST: usize = 1 << 20;

/// The largest buffer of an entry, in bytes: several workers have one each.
pub const LARGEST_BUFFER: usize = 64 << 20;
/// The most requests in flight.
pub(crate) const DEEPEST: usize = 32;
/// The most workers at one file.
pub const MOST_WORKERS: usize = 16;
/// The most files at the same time.
pub(crate) const MOST_JOBS: usize = 256;
/// The most stripes of a file on Lustre: LOV_MAX_STRIPE_COUNT of its `lustre_user.h`.
pub(crate) const MOST_STRIPES: u16 = 2000;
/// Stripes of Lustre are multiples of so many bytes: LOV_MIN_STRIPE_SIZE.
pub(crate) const STRIPE_UNIT: u32 = 64 << 10;
/// The longest name of a pool of Lustre: LOV_MAXPOOLNAME.
pub(crate) const LONGEST_POOL: usize = 15;

/// Everything that is known of storages.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profile {
    /// In the order of the file. The first that is the place of a copy counts.
    pub places: Vec<PlaceEntry>,
}

/// What is known of one storage.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlaceEntry {
    /// The file that this was read from, for people. Not part of the text.
    pub origin: String,
    /// The directory that was measured, for people.
    pub directory: String,
    /// Which storage it is.
    pub place: Place,
    /// What was found, each for files of one size.
    pub entries: Vec<Entry>,
    /// How new files are striped, if it is Lustre. Nobody has measured that: whoever runs the storage knows it.
    pub striping: Striping,
}

/// How new files on Lustre are striped over its object storage targets. What says nothing leaves them to the default of
/// their directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Striping {
    /// As their source, if that is on Lustre, too.
    pub as_source: bool,
    /// By size. No two of them begin with the same size.
    pub by_size: Vec<Stripes>,
}

/// The stripes of files from one size on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stripes {
    /// The size of the smallest of these files, in bytes.
    pub from: u64,
    /// On how many targets a file is.
    pub count: StripeCount,
    /// Bytes on one target before the next, a multiple of 64 KiB. `None` is the default of the filesystem.
    pub size: Option<u32>,
    /// The pool whose targets are used, of ASCII letters, digits, `.`, `_` and `-`. Empty for any target.
    pub pool: String,
}

/// On how many object storage targets a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StripeCount {
    /// As many, from 1 to 2000; fewer if there are not so many.
    Of(u16),
    /// All of them.
    All,
}

/// What identifies a storage. All of it must be the same: the filesystem says which data it is, the device on what it lies.
/// A UUID alone is not enough, since copies of a disk (templates of virtual machines, backups, `dd`) have that of the original.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Type of the filesystem, as the kernel calls it: `ext4`, `fuse.sshfs`.
    pub filesystem: String,
    /// The filesystem itself: `uuid:...`; where it has none (network, FUSE) or has a new one at each mount (tmpfs), `mount:`,
    /// what is mounted, and where.
    pub id: String,
    /// The whole disk below: model and bytes. Empty if there is none.
    pub device: String,
}

/// What won for files of one size.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Of the files.
    pub class: SizeClass,
    /// Whether they were in the page cache; `None`: it was faster both ways. From [`SizeClass::Medium`] on haul can tell.
    pub source: Option<Source>,
    /// What won.
    pub setting: Setting,
    /// Files copied at the same time.
    pub jobs: Option<usize>,
    /// When, on what, and what it brought. For people, and for `haul-lab`.
    pub measured: Measured,
}

/// How an entry came about.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// The day, as `2026-11-22`.
    pub date: String,
    /// Processor, kernel, version of haul.
    pub on: String,
    /// Durable time without the entry by the time with it, on files that the entry was not chosen on: 1.2 is a fifth faster.
    pub gain: Option<f64>,
    /// Pairs of runs behind the gain.
    pub runs: Option<u32>,
}

/// How the bytes of one file are moved. What is `None` is left to haul.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Setting {
    /// Tried first, after sharing extents.
    pub engine: Option<EngineName>,
    /// Size of a buffer in bytes.
    pub buffer_size: Option<usize>,
    /// Requests in flight, for the engines that have several.
    pub depth: Option<usize>,
    /// Workers at one file, from [`SizeClass::Medium`] on.
    pub workers: Option<usize>,
}

/// Whether a source is in the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Half of it at least.
    Cached,
    /// Less than half of it.
    Cold,
}

/// Files that [`crate::strategy`] treats alike, by size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SizeClass {
    /// Below 64 KiB: one read and one write.
    Tiny,
    /// From 64 KiB: as large as it is, nothing is asked about it.
    Small,
    /// From 4 MiB: it is known whether it is cached, and several may work at it.
    Medium,
    /// From 32 MiB: it may go to the device.
    Large,
    /// From 2 GiB: it mostly does.
    Huge,
}

impl SizeClass {
    /// From the smallest to the largest.
    pub const ALL: [SizeClass; 5] =
        [SizeClass::Tiny, SizeClass::Small, SizeClass::Medium, SizeClass::Large, SizeClass::Huge];

    /// That of a file of so many bytes.
    pub fn of(size: u64) -> SizeClass {
        SizeClass::ALL.into_iter().rev().find(|class| size >= class.least()).unwrap_or(SizeClass::Tiny)
    }

    /// The smallest size in bytes, the word in the file, and the sizes for people.
    const fn row(self) -> (u64, &'static str, &'static str) {
        match self {
            SizeClass::Tiny => (0, "tiny", "below 64 KiB"),
            SizeClass::Small => (64 << 10, "small", "64 KiB to 4 MiB"),
            SizeClass::Medium => (4 << 20, "medium", "4 to 32 MiB"),
            SizeClass::Large => (32 << 20, "large", "32 MiB to 2 GiB"),
            SizeClass::Huge => (2 << 30, "huge", "from 2 GiB"),
        }
    }

    /// The smallest size in bytes.
    pub const fn least(self) -> u64 {
        self.row().0
    }

    /// The word in the file.
    pub fn as_str(self) -> &'static str {
        self.row().1
    }

    /// The sizes, for people.
    pub fn range_words(self) -> &'static str {
        self.row().2
    }
}

impl FromStr for SizeClass {
    type Err = ();

    fn from_str(word: &str) -> Result<SizeClass, ()> {
        SizeClass::ALL.into_iter().find(|class| class.as_str() == word).ok_or(())
    }
}

impl fmt::Display for SizeClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Source {
    /// The word in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Cached => "cached",
            Source::Cold => "cold",
        }
    }
}

/// Whether an entry may ask for an engine: one that copies every byte and is no oracle. Sharing extents is decided by
/// `--reflink` alone.
pub fn may_be_preferred(engine: EngineName) -> bool {
    let caps = engine.caps();
    caps.role == Role::Mover && caps.shares != Shares::Always
}

/// What a profile says of one file: by whether it is cached, which is known of larger files only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Preference {
    /// If it is.
    pub cached: Option<Setting>,
    /// If it is not.
    pub cold: Option<Setting>,
}

impl Preference {
    /// What is preferred; without knowledge only what is the same either way.
    pub fn setting(&self, source: Option<Source>) -> Option<Setting> {
        match source {
            Some(Source::Cached) => self.cached,
            Some(Source::Cold) => self.cold,
            None => self.cached.filter(|cached| self.cold == Some(*cached)),
        }
    }
}

impl Profile {
    /// The entry of a storage.
    pub fn of(&self, place: &Place) -> Option<&PlaceEntry> {
        self.places.iter().find(|entry| entry.place == *place)
    }

    /// The entry that says how new files are striped there. What was only measured on that storage does not hide another
    /// profile's.
    pub fn striping_of(&self, place: &Place) -> Option<&PlaceEntry> {
        let says = |entry: &&PlaceEntry| entry.place == *place && entry.striping != Striping::default();
        self.places.iter().find(says)
    }

    /// The smallest file that any entry says stripes of, in bytes; `None` if there is none.
    pub fn smallest_striped(&self) -> Option<u64> {
        let least = |striping: &Striping| match striping.as_source {
            true => Some(0),
            false => striping.by_size.iter().map(|stripes| stripes.from).min(),
        };
        self.places.iter().filter_map(|entry| least(&entry.striping)).min()
    }

    /// Both; where they speak of one place, this one counts.
    #[must_use]
    pub fn before(mut self, other: Profile) -> Profile {
        self.places.extend(other.places);
        self
    }

    /// Puts what was found of a storage in the place of what was known of the files that were searched for: by class and source, where
    /// no source stands for all. What is known of others stays, and how files are striped there.
    pub fn replace(&mut self, mut entry: PlaceEntry, searched: &[Searched]) {
        if let Some(old) = self.places.iter().position(|old| old.place == entry.place) {
            let old = self.places.remove(old);
            entry.striping = old.striping;
            // What is new comes first, and so counts first.
            entry.entries.extend(old.entries.into_iter().filter_map(|entry| entry.without(searched)));
            entry.entries.sort_by_key(|entry| entry.class);
        }
        self.places.retain(|old| old.place != entry.place);
        if !entry.entries.is_empty() || entry.striping != Striping::default() {
            self.places.push(entry);
        }
    }

    /// The most jobs that any entry asks for.
    pub fn most_jobs(&self) -> usize {
        let entries = self.places.iter().flat_map(|place| &place.entries);
        entries.filter_map(|entry| entry.jobs).max().unwrap_or(0)
    }
}

/// Files that were searched for: their class, and whether they were in the page cache, or all of that class.
pub type Searched = (SizeClass, Option<Source>);

impl Entry {
    /// What it still says where these files were searched for anew.
    fn without(self, searched: &[Searched]) -> Option<Entry> {
        let is_searched = |source: Source| {
            searched.iter().any(|(class, of)| *class == self.class && of.is_none_or(|only| only == source))
        };
        let left = [Source::Cached, Source::Cold].map(|source| {
            Some(source).filter(|source| self.source.is_none_or(|only| only == *source) && !is_searched(*source))
        });
        match left {
            [None, None] => None,
            [Some(_), Some(_)] => Some(self),
            [one, other] => Some(Entry { source: one.or(other), ..self }),
        }
    }
}

impl PlaceEntry {
    /// What it says of files of a size.
    pub(crate) fn preference(&self, class: SizeClass) -> Preference {
        let of = |source| {
            let fits = |entry: &&Entry| entry.class == class && entry.source.is_none_or(|only| only == source);
            self.entries.iter().find(fits).map(|entry| entry.setting).filter(|setting| *setting != Setting::default())
        };
        Preference { cached: of(Source::Cached), cold: of(Source::Cold) }
    }

    /// Files copied at the same time: a tree has files of many sizes, and the smallest gain most by it.
    pub fn jobs(&self) -> Option<usize> {
        let with_jobs = self.entries.iter().filter(|entry| entry.jobs.is_some());
        with_jobs.min_by_key(|entry| entry.class).and_then(|entry| entry.jobs)
    }
}

impl Striping {
    /// The stripes of a file of so many bytes, where those of its source are not to be had.
    pub fn of_size(&self, size: u64) -> Option<&Stripes> {
        self.by_size.iter().filter(|stripes| stripes.from <= size).max_by_key(|stripes| stripes.from)
    }
}

impl fmt::Display for Stripes {
    /// `4 stripes of 1 MiB in the pool flash`; nothing of what is left to the filesystem.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            StripeCount::Of(1) => f.write_str("1 stripe")?,
            StripeCount::Of(count) => write!(f, "{count} stripes")?,
            StripeCount::All => f.write_str("a stripe on each target")?,
        }
        if let Some(size) = self.size {
            write!(f, " of {}", self::size(u64::from(size), " ", "iB"))?;
        }
        if self.pool.is_empty() { Ok(()) } else { write!(f, " in the pool {}", self.pool) }
    }
}

impl fmt::Display for Setting {
    /// `direct, 8 MiB, 4 in flight, 2 workers`; nothing of what is left to haul.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        words.extend(self.engine.map(|engine| engine.to_string()));
        words.extend(self.buffer_size.map(|size| self::size(size as u64, " ", "iB")));
        words.extend(self.depth.map(|depth| format!("{depth} in flight")));
        words.extend(self.workers.map(|workers| format!("{workers} worker{}", if workers == 1 { "" } else { "s" })));
        f.write_str(&words.join(", "))
    }
}

/// A number of bytes in the largest unit that it is a multiple of.
pub(super) fn size(bytes: u64, space: &str, unit: &str) -> String {
    let fits = |(_, shift): &&(char, u32)| bytes > 0 && bytes.is_multiple_of(1 << shift);
    match UNITS.iter().find(fits) {
        Some((letter, shift)) => format!("{}{space}{letter}{unit}", bytes >> shift),
        None if unit.is_empty() => bytes.to_string(),
        None => format!("{bytes} bytes"),
    }
}

/// The letters behind numbers of bytes, and by how many bits they shift them: the largest first.
pub(super) const UNITS: [(char, u32); 4] = [('T', 40), ('G', 30), ('M', 20), ('K', 10)];
