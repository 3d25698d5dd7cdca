//! The descriptor of a VMDK: lines of `key = "value"`, and one line for each extent.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::bytes::sum;
use crate::refusal::{OrRefuse, Refusal, corrupt_if, over_budget_if, refuse_if, unsupported_if};

/// The largest descriptor, in bytes.
pub(super) const LARGEST: u64 = 1 << 20;

/// The most extents that a disk may have. A disk of 8 TiB in files of 2 GB has 4000.
const EXTENTS: usize = 4096;

/// How many bytes from the first NUL to the last byte that is none may be there. Where a new CID has fewer digits than the
/// one before, QEMU writes a shorter text over the longer one, and the last bytes of that stay.
const LEFT_OVER: usize = 16;

/// Whether these first bytes of a file begin a descriptor.
pub fn is_descriptor(start: &[u8]) -> bool {
    start.starts_with(b"# Disk DescriptorFile")
}

/// What an extent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Bytes of a file.
    Flat,
    /// A hosted sparse extent.
    Sparse,
    /// Nothing; it reads as zero.
    Zero,
}

/// One extent of a disk.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExtentLine {
    pub sectors: u64,
    pub kind: Kind,
    /// Its file, a plain name; only [`Kind::Zero`] has none.
    pub file: Option<OsString>,
    /// Where it starts in its file, in sectors.
    pub offset: u64,
}

/// What a descriptor says, as far as it matters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub extents: Vec<ExtentLine>,
}

impl Descriptor {
    /// Reads a descriptor, which ends at the first NUL byte.
    pub fn parse(text: &[u8]) -> Result<Descriptor, Refusal> {
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        let last = text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let text = text.get(..end).unwrap_or_default();
        let other = last.saturating_sub(end) > LEFT_OVER || !is_descriptor(text);
        corrupt_if(other, "the descriptor of a VMDK is no text")?;
        let (mut extents, mut parent) = (Vec::new(), None);
        for line in text.split(|byte| *byte == b'\n') {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            if is_extent(line) {
                over_budget_if(extents.len() == EXTENTS, "extents of a VMDK")?;
                extents.push(extent(line)?);
            } else if let Some((key, value)) = assignment(line) {
                match key.as_slice() {
                    b"parentcid" if parent.is_none() => parent = Some(value.to_ascii_lowercase()),
                    b"parentcid" => return Err(Refusal::corrupt("a VMDK has two parents")),
                    b"parentfilenamehint" => return Err(Refusal::unsupported("VMDK with a parent")),
                    PARENT_ID => unsupported_if(is_id(value), "VMDK with a parent")?,
                    key if key.starts_with(b"encryption") => {
                        return Err(Refusal::unsupported("encrypted VMDK"));
                    }
                    _ => {}
                }
            }
        }
        unsupported_if(parent.as_deref() != Some(b"ffffffff"), "VMDK with a parent")?;
        corrupt_if(extents.is_empty(), "a VMDK without extents")?;
        extents.iter().try_fold(0, |all, extent: &ExtentLine| sum(all, extent.sectors))?;
        Ok(Descriptor { extents })
    }
}

/// What a descriptor says of the parent of its disk, if it has one: how its descriptor is named, if it says that.
pub fn parent(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let value = |wanted: &[u8]| {
        let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter_map(assignment);
        lines.find(|(key, _)| key == wanted).map(|(_, value)| value)
    };
    let hint = value(b"parentfilenamehint");
    let has_parent = hint.is_some()
        || value(b"parentcid").is_some_and(|id| !id.eq_ignore_ascii_case(b"ffffffff"))
        || value(PARENT_ID).is_some_and(is_id);
    // Other letters may be in any encoding.
    let name = hint.filter(|hint| hint.is_ascii());
    has_parent.then(|| name.map(<[u8]>::to_vec).into_iter().collect())
}

/// What VirtualBox calls a parent, and nothing else does: its identity, or zeros.
const PARENT_ID: &[u8] = b"ddb.uuid.parent";

fn is_id(value: &[u8]) -> bool {
    value.iter().any(|byte| byte.is_ascii_hexdigit() && *byte != b'0')
}

/// `key = value`, the key in small letters, the value without quotes.
fn assignment(line: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let equals = line.iter().position(|byte| *byte == b'=')?;
    let (key, value) = (line.get(..equals)?, line.get(equals + 1..)?);
    let value = value.trim_ascii();
    let bare = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(value);
    Some((key.trim_ascii().to_ascii_lowercase(), bare))
}

fn is_extent(line: &[u8]) -> bool {
    let word = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    [&b"RW"[..], b"RDONLY", b"NOACCESS"].contains(&word)
}

/// `RW 4192256 SPARSE "name"`, `RW 81920 FLAT "name" 0`, `RW 100 ZERO`.
fn extent(line: &[u8]) -> Result<ExtentLine, Refusal> {
    let wrong = || Refusal::corrupt("an extent of a VMDK is not understood");
    // A name may hold anything but a quote.
    let mut quoted = line.splitn(3, |byte| *byte == b'"');
    let before = quoted.next().unwrap_or_default();
    let name = quoted.next();
    let after = match (name, quoted.next()) {
        (None, _) => &[][..],
        (Some(_), Some(after)) if !after.contains(&b'"') => after,
        _ => return Err(wrong()),
    };
    let mut words = before.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    unsupported_if(words.next() == Some(b"NOACCESS"), "a VMDK extent without access")?;
    let sectors = number(words.next().ok_or_else(wrong)?)?;
    let kind = words.next().ok_or_else(wrong)?;
    refuse_if(words.next().is_some(), wrong)?;
    let mut behind = after.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let offset = behind.next().map(number).transpose()?;
    refuse_if(behind.next().is_some(), wrong)?;
    let (kind, offset) = match (kind, offset) {
        (b"FLAT", Some(offset)) => (Kind::Flat, offset),
        (b"FLAT" | b"VMFS", None | Some(0)) => (Kind::Flat, 0),
        (b"SPARSE", None | Some(0)) => (Kind::Sparse, 0),
        (b"ZERO", None) if name.is_none() => {
            return Ok(ExtentLine { sectors, kind: Kind::Zero, file: None, offset: 0 });
        }
        _ => {
            let kind = String::from_utf8_lossy(kind).into_owned();
            return Err(Refusal::unsupported(format!("VMDK extents of type {kind}")));
        }
    };
    let file = Some(plain(name.ok_or_else(wrong)?)?);
    Ok(ExtentLine { sectors, kind, file, offset })
}

fn number(word: &[u8]) -> Result<u64, Refusal> {
    let digits = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(word).ok().filter(|_| digits).and_then(|word| word.parse().ok());
    number.or_corrupt("a number in the descriptor of a VMDK")
}

/// A name of a file in the same directory, and nothing else.
fn plain(name: &[u8]) -> Result<OsString, Refusal> {
    let outside = name.iter().any(|byte| matches!(byte, b'/' | b'\\' | 0));
    let misplaced = outside || name.is_empty() || name == b"." || name == b".." || name.len() > 255;
    unsupported_if(misplaced, "a VMDK with an extent outside its directory")?;
    Ok(OsStr::from_bytes(name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(body: &str) -> Result<Descriptor, Refusal> {
        Descriptor::parse(format!("# Disk DescriptorFile\nversion=1\nCID=1\n{body}\n\0\0\0").as_bytes())
    }

    #[test]
    fn all_that_a_flat_disk_says_is_understood() {
        let body =
            "parentCID=ffffffff\r\ncreateType=\"custom\"\nRW 63 FLAT \"a b.vmdk\" 128\nRW 7 ZERO\nRDONLY 9 VMFS \"c\"";
        let extents = parsed(body).unwrap().extents;
        let line = |sectors, kind, file: Option<&str>, offset| ExtentLine {
            sectors,
            kind,
            file: file.map(OsString::from),
            offset,
        };
        let expected = [
            line(63, Kind::Flat, Some("a b.vmdk"), 128),
            line(7, Kind::Zero, None, 0),
            line(9, Kind::Flat, Some("c"), 0),
        ];
        assert_eq!(extents, expected);
    }

    #[test]
    fn names_outside_the_directory_are_refused() {
        for name in ["/etc/shadow", "../a", "..", ".", "", "a/b", "c:\\a", &"n".repeat(256)] {
            let refused = parsed(&format!("parentCID=ffffffff\nRW 1 FLAT \"{name}\" 0"));
            assert!(refused.is_err(), "{name}");
        }
    }

    #[test]
    fn disks_with_a_parent_or_in_cipher_are_refused() {
        let flat = "RW 1 FLAT \"a\" 0";
        assert!(parsed(&format!("parentCID=ffffffff\n{flat}")).is_ok());
        assert!(parsed(flat).is_err(), "a parent may be anywhere");
        assert!(parsed(&format!("parentCID=12345678\n{flat}")).is_err());
        assert!(parsed(&format!("parentCID=ffffffff\nparentFileNameHint=\"b\"\n{flat}")).is_err());
        assert!(parsed(&format!("parentCID=ffffffff\nddb.uuid.parent=\"0a-0\"\n{flat}")).is_err(), "of VirtualBox");
        assert!(parsed(&format!("parentCID=ffffffff\nddb.uuid.parent=\"00-0\"\n{flat}")).is_ok());
        assert!(parsed(&format!("parentCID=ffffffff\nparentCID=12345678\n{flat}")).is_err());
        assert!(parsed(&format!("parentCID=ffffffff\nencryption.keySafe = \"x\"\n{flat}")).is_err());
    }

    #[test]
    fn extents_that_are_not_understood_are_refused() {
        for line in [
            "RW 1 SESPARSE \"a\"",
            "RW 1 VMFSSPARSE \"a\"",
            "RW 1 VMFSRDM \"a\"",
            "NOACCESS 1 ZERO",
            "RW 1 ZERO \"a\"",
            "RW 1 FLAT",
            "RW x FLAT \"a\" 0",
            "RW -1 FLAT \"a\" 0",
            "RW 1 FLAT \"a\" 0 0",
            "RW 1 FLAT \"a\"b\" 0",
            "RW 1 FLAT \"a",
            "RW 1 SPARSE \"a\" 5",
            "RW 18446744073709551616 FLAT \"a\" 0",
            "RW 18446744073709551615 ZERO\nRW 2 ZERO",
            "RW",
        ] {
            assert!(parsed(&format!("parentCID=ffffffff\n{line}")).is_err(), "{line}");
        }
    }

    #[test]
    fn only_the_rest_of_a_longer_descriptor_may_be_behind_one() {
        let with = |rest: &[u8]| {
            let mut text = b"# Disk DescriptorFile\nparentCID=ffffffff\nRW 1 FLAT \"a\" 0\n".to_vec();
            text.extend(rest);
            Descriptor::parse(&text)
        };
        assert!(with(b"\0\n\0\0").is_ok(), "as QEMU leaves it after a CID of 7 digits");
        assert_eq!(with(b"\0RW 1 ZERO\n\0").unwrap().extents.len(), 1);
        assert!(with(b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0x").is_err());
    }
}
