//! The format of a saved list.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `haul\0mf2`: the last digit is the version |
//! | records | see below |
//! | 1 | `.`: the end |
//! | number | how many entries there are |
//! | 32 | BLAKE3 of everything before |
//!
//! A number is written in groups of seven bits, the lowest first, with the highest bit of all bytes but the last; no longer
//! than it must be. A number with a sign is doubled, and made odd if it is negative. Bytes are a number and as many bytes.
//!
//! | record | what follows |
//! |---|---|
//! | `O`, an operand | bytes: the path; 0, or 1 and: the number of the inode, seconds (signed) and nanoseconds of its birth |
//! | `f d l p s c b ?`, an entry | how many directories it is further out than what is in the last entry (not for the first of an operand); bytes: the name (not for that either); size; seconds (signed) and nanoseconds of the change of its contents, and of that of the inode; 0, or 1 and: major and minor number of the device and the number of the inode |

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;

use haul_sys::inode::{DeviceNumber, FileId, Kind, Time};

use super::file_list::{Entry, FileList, Index, MOST_NAME, Misplaced, Root};

const MAGIC: &[u8; 8] = b"haul\0mf2";
/// How the magic of every version begins.
const FAMILY: &[u8] = b"haul\0mf";
/// Bytes of the checksum.
const SUM: usize = 32;
const OPERAND: u8 = b'O';
const END: u8 = b'.';
/// Bytes that are read or written at a time.
const BUFFER: usize = 1 << 16;

const KINDS: [(u8, Kind); 8] = [
    (b'f', Kind::Regular),
    (b'd', Kind::Directory),
    (b'l', Kind::SymbolicLink),
    (b'p', Kind::Fifo),
    (b's', Kind::Socket),
    (b'c', Kind::CharacterDevice),
    (b'b', Kind::BlockDevice),
    (b'?', Kind::Unknown),
];

/// Why a file cannot be read as a list.
#[derive(Debug)]
pub enum LoadError {
    /// What reading said.
    Io(io::Error),
    /// It does not begin like one.
    Foreign,
    /// Another version of haul has written it.
    Version,
    /// It ends at this byte, before its end.
    Cut(u64),
    /// What stands at this byte cannot stand there.
    Damaged(u64, &'static str),
    /// It is not what was written.
    Checksum,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Io(error) => error.fmt(f),
            LoadError::Foreign => f.write_str("it is not a file list of haul"),
            LoadError::Version => f.write_str("another version of haul has written it"),
            LoadError::Cut(at) => write!(f, "it is cut off at byte {at}"),
            LoadError::Damaged(at, why) => write!(f, "it is damaged at byte {at}: {why}"),
            LoadError::Checksum => f.write_str("it is damaged: its checksum is wrong"),
        }
    }
}

impl std::error::Error for LoadError {}

/// Writes the list.
///
/// # Errors
/// What writing says.
pub fn save(list: &FileList, to: &mut dyn Write) -> io::Result<()> {
    let mut writer = Writer { to, hasher: blake3::Hasher::new(), buffer: Vec::with_capacity(BUFFER + 1024) };
    write_records(list, &mut writer)?;
    writer.flush()?;
    let sum = *writer.hasher.finalize().as_bytes();
    to.write_all(&sum)?;
    to.flush()
}

fn write_records(list: &FileList, to: &mut Writer<'_>) -> io::Result<()> {
    to.bytes(MAGIC)?;
    for operand in &list.operands {
        to.bytes(&[OPERAND])?;
        to.text(&operand.path)?;
        to.number(operand.root.is_some().into())?;
        if let Some(root) = operand.root {
            to.number(root.inode)?;
            to.time(root.born)?;
        }
        let mut last = None;
        for at in operand.first..operand.end {
            write_entry(list, to, at, last)?;
            last = Some(at);
        }
    }
    to.bytes(&[END])?;
    to.number(list.len() as u64)
}

fn write_entry(list: &FileList, to: &mut Writer<'_>, at: Index, last: Option<Index>) -> io::Result<()> {
    let entry = list.entry(at);
    let kind = KINDS.iter().find(|(_, kind)| *kind == entry.kind).map_or(b'?', |(letter, _)| *letter);
    to.bytes(&[kind])?;
    if let (Some(mut above), Some(parent)) = (last, list.parent(at)) {
        let mut up = 0;
        while above != parent
            && let Some(next) = list.parent(above)
        {
            above = next;
            up += 1;
        }
        to.number(up)?;
        to.text(list.name(at).as_bytes())?;
    }
    to.number(entry.size)?;
    to.time(entry.modified)?;
    to.time(entry.changed)?;
    to.number(entry.id.is_some().into())?;
    if let Some(id) = entry.id {
        to.number(id.device().major.into())?;
        to.number(id.device().minor.into())?;
        to.number(id.inode())?;
    }
    Ok(())
}

/// Reads a list. The same bytes would be written for it.
///
/// # Errors
/// Why it is none; never a panic, and no more memory than a few times what was read.
pub fn load(from: &mut dyn Read) -> Result<FileList, LoadError> {
    let mut reader =
        Reader { from, hasher: blake3::Hasher::new(), buffer: vec![0; BUFFER], at: 0, filled: 0, before: 0 };
    reader.magic()?;
    let mut list = FileList::default();
    let mut last = None;
    loop {
        let start = reader.position();
        match reader.byte()? {
            OPERAND => {
                let path = reader.text()?;
                if path.contains(&0) {
                    return Err(LoadError::Damaged(start, "a zero in the path of an operand"));
                }
                let root = match reader.flag()? {
                    true => Some(Root { inode: reader.number()?, born: reader.time()? }),
                    false => None,
                };
                list.add_operand(OsStr::from_bytes(&path), root);
                last = None;
            }
            END => break,
            letter => {
                let kind = KINDS.iter().find(|(known, _)| *known == letter).map(|(_, kind)| *kind);
                let kind = kind.ok_or(LoadError::Damaged(start, "an unknown kind of record"))?;
                last = Some(reader.entry(&mut list, kind, last, start)?);
            }
        }
    }
    let at = reader.position();
    if reader.number()? != list.len() as u64 {
        return Err(LoadError::Damaged(at, "another number of entries"));
    }
    reader.end()?;
    list.names.shrink_to_fit();
    list.entries.shrink_to_fit();
    Ok(list)
}

/// The checksum as words: the same for two lists only if they are the same.
pub fn digest_text(list: &FileList) -> String {
    let mut writer = Writer { to: &mut io::sink(), hasher: blake3::Hasher::new(), buffer: Vec::new() };
    // Nothing can go wrong where nothing is written.
    let written = write_records(list, &mut writer).and_then(|()| writer.flush());
    written.map_or_else(|error| error.to_string(), |()| writer.hasher.finalize().to_hex().to_string())
}

/// Says which list it is, not what is in it.
impl fmt::Debug for FileList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileList({} entries, {})", self.len(), digest_text(self))
    }
}

/// The bytes of a list with the checksum that they should have; for tests of what is read then.
pub fn fix_checksum(bytes: &[u8]) -> Vec<u8> {
    let body = &bytes[..bytes.len().saturating_sub(SUM)];
    [body, blake3::hash(body).as_bytes()].concat()
}

struct Writer<'a> {
    to: &'a mut dyn Write,
    hasher: blake3::Hasher,
    buffer: Vec<u8>,
}

impl Writer<'_> {
    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() < BUFFER { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hasher.update(&self.buffer);
        self.to.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    fn number(&mut self, mut number: u64) -> io::Result<()> {
        while number >= 0x80 {
            self.buffer.push(number as u8 & 0x7f | 0x80);
            number >>= 7;
        }
        self.bytes(&[number as u8])
    }

    fn text(&mut self, text: &[u8]) -> io::Result<()> {
        self.number(text.len() as u64)?;
        self.bytes(text)
    }

    fn time(&mut self, time: Time) -> io::Result<()> {
        self.number((time.seconds << 1 ^ time.seconds >> 63) as u64)?;
        self.number(time.nanoseconds.into())
    }
}

struct Reader<'a> {
    from: &'a mut dyn Read,
    hasher: blake3::Hasher,
    buffer: Vec<u8>,
    /// What was taken out of the buffer, and what is in it.
    at: usize,
    filled: usize,
    /// Bytes that were in it before.
    before: u64,
}

impl Reader<'_> {
    fn position(&self) -> u64 {
        self.before + self.at as u64
    }

    /// The next byte, if there is one.
    fn next(&mut self) -> Result<Option<u8>, LoadError> {
        if self.at == self.filled {
            self.hasher.update(&self.buffer[..self.at]);
            self.before += self.at as u64;
            (self.at, self.filled) = (0, 0);
            self.filled = loop {
                match self.from.read(&mut self.buffer) {
                    Ok(count) => break count,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(LoadError::Io(error)),
                }
            };
            if self.filled == 0 {
                return Ok(None);
            }
        }
        self.at += 1;
        Ok(Some(self.buffer[self.at - 1]))
    }

    fn byte(&mut self) -> Result<u8, LoadError> {
        let at = self.position();
        self.next()?.ok_or(LoadError::Cut(at))
    }

    fn magic(&mut self) -> Result<(), LoadError> {
        for (at, byte) in MAGIC.iter().enumerate() {
            match self.next()? {
                Some(found) if found == *byte => {}
                Some(_) | None if at < FAMILY.len() => return Err(LoadError::Foreign),
                Some(_) => return Err(LoadError::Version),
                None => return Err(LoadError::Cut(at as u64)),
            }
        }
        Ok(())
    }

    fn number(&mut self) -> Result<u64, LoadError> {
        let start = self.position();
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(LoadError::Damaged(start, "a number that is too large"));
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                let longer = byte == 0 && shift > 0;
                return if longer {
                    Err(LoadError::Damaged(start, "a number with zeros before it"))
                } else {
                    Ok(number)
                };
            }
        }
        Err(LoadError::Damaged(start, "a number that is too long"))
    }

    fn small(&mut self, most: u32, what: &'static str) -> Result<u32, LoadError> {
        let start = self.position();
        let number = self.number()?;
        u32::try_from(number).ok().filter(|number| *number <= most).ok_or(LoadError::Damaged(start, what))
    }

    fn flag(&mut self) -> Result<bool, LoadError> {
        Ok(self.small(1, "neither yes nor no")? == 1)
    }

    fn text(&mut self) -> Result<Vec<u8>, LoadError> {
        let length = self.small(MOST_NAME as u32, "a name that is too long")?;
        let mut text = Vec::new();
        for _ in 0..length {
            text.push(self.byte()?);
        }
        Ok(text)
    }

    fn time(&mut self) -> Result<Time, LoadError> {
        let seconds = self.number()?;
        let seconds = (seconds >> 1) as i64 ^ -((seconds & 1) as i64);
        Ok(Time { seconds, nanoseconds: self.small(999_999_999, "more nanoseconds than a second has")? })
    }

    fn entry(&mut self, list: &mut FileList, kind: Kind, last: Option<Index>, start: u64) -> Result<Index, LoadError> {
        let misplaced = |why: Misplaced| LoadError::Damaged(start, why.message());
        let position = match last {
            Some(last) => {
                let mut above = last;
                for _ in 0..self.number()? {
                    above = list.parent(above).ok_or(misplaced(Misplaced::Parent))?;
                }
                Some((above, self.text()?))
            }
            None => None,
        };
        let size = self.number()?;
        let (modified, changed) = (self.time()?, self.time()?);
        let id = match self.flag()? {
            true => {
                let major = self.small(u32::MAX, "an impossible device")?;
                let minor = self.small(u32::MAX, "an impossible device")?;
                Some(FileId::new(DeviceNumber { major, minor }, self.number()?))
            }
            false => None,
        };
        let entry = Entry { kind, size, modified, changed, id };
        match position {
            Some((parent, name)) => list.add(parent, OsStr::from_bytes(&name), &entry),
            None => list.add_root(&entry),
        }
        .map_err(misplaced)
    }

    /// Compares the checksum, behind which nothing may be.
    fn end(&mut self) -> Result<(), LoadError> {
        self.hasher.update(&self.buffer[..self.at]);
        let found = *self.hasher.finalize().as_bytes();
        // From here on it does not count.
        let mut same = true;
        for byte in found {
            same &= self.byte()? == byte;
        }
        if !same {
            return Err(LoadError::Checksum);
        }
        let at = self.position();
        match self.next()? {
            Some(_) => Err(LoadError::Damaged(at, "more than a file list")),
            None => Ok(()),
        }
    }
}
