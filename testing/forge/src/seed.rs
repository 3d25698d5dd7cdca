//! An image to begin with, and what is known of it.

use std::io;
use std::ops::Range;

use haul_guest::{ExtentSet, ReadAt};

use crate::fix::Fix;
use crate::pages::Pages;

/// What is fuzzed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Target {
    Ext,
    ExtJournal,
    Xfs,
    XfsLog,
    Btrfs,
    Ntfs,
    Fat,
    Exfat,
    Swap,
    Gpt,
    Mbr,
    Lvm,
    Qcow2,
    Vmdk,
    Vhdx,
    Vdi,
    Vhd,
}

impl Target {
    /// All, with the names of their programs.
    pub const ALL: [(&str, Target); 17] = [
        ("ext", Target::Ext),
        ("ext_journal", Target::ExtJournal),
        ("xfs", Target::Xfs),
        ("xfs_log", Target::XfsLog),
        ("btrfs", Target::Btrfs),
        ("ntfs", Target::Ntfs),
        ("fat", Target::Fat),
        ("exfat", Target::Exfat),
        ("swap", Target::Swap),
        ("gpt", Target::Gpt),
        ("mbr", Target::Mbr),
        ("lvm", Target::Lvm),
        ("qcow2", Target::Qcow2),
        ("vmdk", Target::Vmdk),
        ("vhdx", Target::Vhdx),
        ("vdi", Target::Vdi),
        ("vhd", Target::Vhd),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Target::ALL.iter().find(|(_, target)| *target == self).map_or("", |(name, _)| name)
    }
}

/// An image to begin with.
#[derive(Clone)]
pub struct Seed {
    /// What of it is read.
    pub pages: Pages,
    /// What is truly free in it; unknown for containers.
    pub free: ExtentSet,
    /// Where it is changed.
    pub places: Vec<Range<u64>>,
    /// Checksums and copies, in the order in which they are fixed.
    pub fixes: Vec<Fix>,
    /// Whether checksums guard all places: then a single change frees nothing that was not free.
    pub guarded: bool,
}

const MAGIC: &[u8] = b"haul seed 1\n";

impl Seed {
    /// As the contents of a file.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let mut put = |numbers: &[u64]| numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        put(&[self.pages.size(), u64::from(self.guarded)]);
        put(&[self.free.count() as u64]);
        self.free.iter().for_each(|extent| put(&[extent.start, extent.end()]));
        put(&[self.places.len() as u64]);
        self.places.iter().for_each(|place| put(&[place.start, place.end]));
        put(&[self.fixes.len() as u64]);
        self.fixes.iter().for_each(|fix| put(&fix.numbers()));
        put(&[self.pages.iter().count() as u64]);
        for (at, page) in self.pages.iter() {
            bytes.extend(at.to_le_bytes());
            bytes.extend(page);
        }
        bytes
    }

    /// From the contents of a file.
    ///
    /// # Errors
    /// If it is no seed.
    pub fn from_bytes(bytes: &[u8]) -> io::Result<Seed> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(io::ErrorKind::InvalidData)?;
        let mut rest = Rest(rest);
        let (size, guarded) = (rest.number()?, rest.number()? == 1);
        let mut free = ExtentSet::new();
        for _ in 0..rest.number()? {
            free.insert(rest.number()?..rest.number()?);
        }
        let places = (0..rest.number()?).map(|_| Ok(rest.number()?..rest.number()?)).collect::<io::Result<_>>()?;
        let mut fixes = Vec::new();
        for _ in 0..rest.number()? {
            let numbers = [rest.number()?, rest.number()?, rest.number()?, rest.number()?];
            fixes.push(Fix::of_numbers(numbers).ok_or(io::ErrorKind::InvalidData)?);
        }
        let mut pages = Pages::empty(size);
        for _ in 0..rest.number()? {
            let at = rest.number()?;
            pages.write(at, rest.take(4096)?);
        }
        Ok(Seed { pages, free, places, fixes, guarded })
    }
}

struct Rest<'b>(&'b [u8]);

impl<'b> Rest<'b> {
    fn take(&mut self, count: usize) -> io::Result<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> io::Result<u64> {
        let bytes = self.take(8)?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}
