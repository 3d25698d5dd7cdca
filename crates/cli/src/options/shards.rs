//! `--manifest-out`, `--from-manifest` and `--shard`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use haul_copy::manifest::{MOST_SHARDS, Shard};

use super::{Complaint, Draft, fatal, misuse};
use crate::flags::{Flag, Id};

impl Draft<'_> {
    /// Any of the three.
    pub(super) fn parts(&mut self, flag: &Flag, value: &OsStr) -> Result<(), Complaint> {
        match flag.id {
            Id::ManifestOut => self.manners.manifest_out = Some(PathBuf::from(value)),
            Id::FromManifest => self.manners.from_manifest = Some(PathBuf::from(value)),
            _ => {
                let shard = shard(value.as_bytes()).ok_or_else(|| {
                    let quoted = self.quoter.always(value.as_bytes());
                    let wanted = format!(": I/N is wanted, with I from 1 to N, and N up to {MOST_SHARDS}");
                    fatal([b"invalid --shard argument ", &quoted[..], wanted.as_bytes()].concat())
                })?;
                self.plan.shard = Some(shard);
            }
        }
        Ok(())
    }

    /// What they need of each other and of other options.
    pub(super) fn settle_parts(&self) -> Result<(), Complaint> {
        let (out, from) = (self.manners.manifest_out.is_some(), self.manners.from_manifest.is_some());
        let name = match (out, from, self.plan.shard.is_some()) {
            (true, true, _) => return Err(misuse("--manifest-out does not go with --from-manifest")),
            (true, _, true) => return Err(misuse("--manifest-out does not go with --shard: a list is of everything")),
            (_, _, true) => "--shard",
            (true, ..) => "--manifest-out",
            (_, true, _) => "--from-manifest",
            _ => return Ok(()),
        };
        match self.plan.against_lists() {
            Some(what) => Err(misuse(format!("{name} does not go with {what}"))),
            None => Ok(()),
        }
    }
}

/// `I/N` in decimal digits, nothing else.
fn shard(word: &[u8]) -> Option<Shard> {
    let number = |digits: &[u8]| -> Option<u32> {
        let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        std::str::from_utf8(digits).ok().filter(|_| plain)?.parse().ok()
    };
    let slash = word.iter().position(|byte| *byte == b'/')?;
    Shard::new(number(&word[..slash])?, number(&word[slash + 1..])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_a_number_from_1_to_that_of_all() {
        for (word, index, count) in
            [("1/1", 0, 1), ("2/7", 1, 7), ("07/7", 6, 7), ("1048576/1048576", 1_048_575, 1 << 20)]
        {
            let shard = shard(word.as_bytes()).expect(word);
            assert_eq!((shard.index(), shard.count().get()), (index, count), "{word}");
        }
        for word in
            ["", "/", "1", "1/", "/1", "0/1", "1/0", "0/0", "2/1", "-1/2", "+1/2", "1/2/3", " 1/2", "1 /2", "a/b"]
        {
            assert_eq!(shard(word.as_bytes()), None, "{word}");
        }
        for word in ["1/1048577", "1/4294967296", "4294967297/2", "1/99999999999999999999"] {
            assert_eq!(shard(word.as_bytes()), None, "{word}");
        }
    }
}
