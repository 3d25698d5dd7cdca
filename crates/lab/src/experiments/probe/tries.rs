//! What works when it is tried: engines of haul between two files, and what attributes, names and holes files can have.

use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use haul_copy::plan::EngineName;
use haul_io::engine::{DirectAlign, End, Engine, Job, Needs, Outcome, Role, Side, Tuning, Zeros, make};
use haul_measure::stop::Stop;
use haul_measure::words;
use haul_sys::Errno;
use haul_sys::inode::Inode;
use haul_sys::kernel::{Kernel, Linux};
use haul_sys::rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps, XattrFlags, fgetxattr, fsetxattr,
    futimens, linkat, makedev, mknodat, openat, renameat_with,
};

use super::choices::Cannot;
use crate::measure::controlled::why;
use crate::results::{Fact, fact};

/// Enough for every engine, and a multiple of all that direct I/O asks for.
const SIZE: usize = 1 << 20;

pub fn all(folder: &Path, stop: &Stop) -> Result<(Vec<Fact>, Cannot), String> {
    let failed = words::cannot("work in", folder);
    let mut rows = Vec::new();
    let mut cannot = Cannot::default();
    let data: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8 + 1).collect();
    let from = folder.join("from");
    fs::write(&from, &data).and_then(|()| File::open(&from)?.sync_all()).map_err(failed)?;
    for name in EngineName::ALL.into_iter().filter(|name| name.caps().role == Role::Mover) {
        if stop.is_stopped() {
            return Err("interrupted".to_owned());
        }
        let to = folder.join("to");
        let tried = engine(name, &from, &to, &data).map_err(failed)?;
        match name {
            EngineName::Clone => cannot.clone = tried.is_err(),
            EngineName::CopyRange => cannot.copy_range = tried.is_err(),
            _ => {}
        }
        let (title, about) = about(name);
        rows.push(match tried {
            Ok(how) => fact(title, "yes", format!("engine {name}: {about}{how}")),
            Err(why) => fact(title, "no", format!("engine {name}: {about}; {why}")),
        });
        fs::remove_file(&to).map_err(failed)?;
    }
    fs::remove_file(&from).map_err(failed)?;
    rows.extend(holes(folder).map_err(failed)?);
    rows.extend(attributes(folder).map_err(failed)?);
    rows.extend(names(folder).map_err(failed)?);
    Ok((rows, cannot))
}

/// What an engine is known by, and what it does.
fn about(name: EngineName) -> (&'static str, &'static str) {
    let requests = "many requests at a time";
    match name {
        EngineName::Clone => ("reflink", "extents are shared"),
        EngineName::CopyRange => ("copy_file_range", "the kernel copies"),
        EngineName::Direct => ("O_DIRECT", "past the page cache"),
        EngineName::MappedDirect => ("O_DIRECT from the page cache", "past the page cache"),
        EngineName::Dontcache => ("RWF_DONTCACHE", "leaves nothing in the page cache"),
        EngineName::IoUring => ("io_uring", requests),
        EngineName::LinuxAio => ("Linux AIO", requests),
        EngineName::PosixAio => ("POSIX AIO", requests),
        EngineName::Splice => ("splice", "through a pipe"),
        EngineName::Mapped => ("mmap of a source", "write from a mapping"),
        EngineName::ReadWrite => (name.as_str(), "by a buffer"),
        other => (other.as_str(), other.about()),
    }
}

/// Lets an engine copy a file. The words say what there is to be known; an error why it does not.
fn engine(name: EngineName, from: &Path, to: &Path, data: &[u8]) -> std::io::Result<Result<String, String>> {
    let (source, source_direct) = side(File::open(from)?)?;
    let (dest, dest_direct) = side(OpenOptions::new().read(true).write(true).create_new(true).open(to)?)?;
    let mut engine: Box<dyn Engine> = make(name, &Tuning::default());
    let job = Job { source, dest, offset: 0, len: data.len() as u64, zeros: Zeros::Write };
    let outcome = engine.run(&job);
    let direct = matches!(name.caps().needs, Needs::Direct | Needs::DirectDest);
    let how = match (direct, source_direct && dest_direct) {
        (true, false) => "; the kernel does not report its alignment",
        _ => "",
    };
    Ok(match judged(&outcome, data.len() as u64) {
        Err(why) => Err(why),
        Ok(()) if fs::read(to)? != data => Err("the copy is WRONG".to_owned()),
        Ok(()) => Ok(how.to_owned()),
    })
}

fn side(file: File) -> std::io::Result<(Side, bool)> {
    let fd = Arc::new(OwnedFd::from(file));
    let (memory, offset) = Inode::of(fd.as_fd())?.direct;
    let direct = (memory > 0 && offset > 0).then_some(DirectAlign { memory, offset });
    Ok((Side { direct, ..Side::new(fd, true) }, direct.is_some()))
}

fn judged(outcome: &Outcome, size: u64) -> Result<(), String> {
    match outcome.end {
        End::Complete | End::SourceEnd if outcome.moved.total() == size => Ok(()),
        End::Complete | End::SourceEnd => Err(format!("moved {} of {size} bytes", outcome.moved.total())),
        End::Refused(refusal) => Err(why(refusal)),
        End::Failed(failure) => Err(said(failure.errno)),
    }
}

fn said(errno: Errno) -> String {
    words::of(&errno.into())
}

/// Whether it worked, and what it means.
fn verdict(name: &str, tried: Result<(), Errno>, meaning: &str) -> Fact {
    match tried {
        Ok(()) => fact(name, "yes", meaning),
        Err(errno) => fact(name, "no", format!("{meaning}; {}", said(errno))),
    }
}

fn holes(folder: &Path) -> std::io::Result<Vec<Fact>> {
    let path = folder.join("holes");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    let fd = file.as_fd();
    let allocated = Linux.allocate(fd, 0, SIZE as u64);
    file.set_len(0)?;
    file.write_all_at(&[1; 65536], 0)?;
    file.write_all_at(&[1; 65536], SIZE as u64)?;
    file.sync_all()?;
    let sparse = file.metadata()?.blocks() * 512 < SIZE as u64;
    // A filesystem that knows no holes says that all is data.
    let found = Linux.seek_hole(fd, 0).and_then(|at| if at < SIZE as u64 { Ok(()) } else { Err(Errno::OPNOTSUPP) });
    let before = file.metadata()?.blocks();
    let punched = Linux.punch_hole(fd, 0, 65536);
    file.sync_all()?;
    let freed = file.metadata()?.blocks() < before;
    let meaning = if punched.is_ok() && freed { "and the space is free again" } else { "a range becomes a hole" };
    fs::remove_file(&path)?;
    Ok(vec![
        verdict("fallocate", allocated, "space is taken before it is written"),
        fact("sparse files", if sparse { "yes" } else { "no" }, "what was not written takes no space"),
        verdict("SEEK_HOLE", found, "holes are found without reading"),
        verdict("punch hole", punched, meaning),
    ])
}

/// An access control list as the kernel takes it: owner, a named user, group, mask and others.
fn access_list() -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] =
        [(0x01, 6, u32::MAX), (0x02, 4, 12345), (0x04, 4, u32::MAX), (0x10, 4, u32::MAX), (0x20, 4, u32::MAX)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

fn attributes(folder: &Path) -> std::io::Result<Vec<Fact>> {
    let path = folder.join("attributes");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    let set = |name: &str, value: &[u8]| {
        fsetxattr(&file, name, value, XattrFlags::empty())?;
        let mut read = vec![0; 256];
        let length = fgetxattr(&file, name, &mut read[..])?;
        if name.starts_with("user") && &read[..length] != value { Err(Errno::IO) } else { Ok(()) }
    };
    let user = set("user.haul", b"value");
    let list = set("system.posix_acl_access", &access_list());
    let born = Inode::of(file.as_fd())?.born.is_some();
    let grain = granularity(&file);
    fs::remove_file(&path)?;
    Ok(vec![
        verdict("extended attributes", user, "user.*"),
        verdict("ACLs", list, "POSIX access control lists"),
        fact("birth time", if born { "yes" } else { "no" }, "statx(STATX_BTIME)"),
        match grain {
            Ok(grain) => fact("granularity of times", grain, "a time that was set, as it is read"),
            Err(errno) => fact("granularity of times", "unknown", said(errno)),
        },
    ])
}

/// The part of a second that is kept of a time.
fn granularity(file: &File) -> Result<String, Errno> {
    let time = Timespec { tv_sec: 1_000_000_001, tv_nsec: 123_456_789 };
    futimens(file, &Timestamps { last_access: time, last_modification: time })?;
    let kept = Inode::of(file.as_fd())?.modified;
    if kept.seconds != time.tv_sec {
        return Ok("2 s or more".to_owned());
    }
    Ok(match coarsest(kept.nanoseconds) {
        1 => "1 ns".to_owned(),
        1_000_000_000 => "1 s".to_owned(),
        grain if grain >= 1_000_000 => format!("{} ms", grain / 1_000_000),
        grain if grain >= 1_000 => format!("{} us", grain / 1_000),
        grain => format!("{grain} ns"),
    })
}

/// The largest power of ten that divides it.
fn coarsest(nanoseconds: u32) -> u32 {
    (0..=9).map(|power| 10_u32.pow(power)).rfind(|grain| nanoseconds.is_multiple_of(*grain)).unwrap_or(1)
}

fn names(folder: &Path) -> std::io::Result<Vec<Fact>> {
    let dir = File::open(folder)?;
    let at = |name: &str| folder.join(name);
    fs::write(at("one"), b"1")?;
    fs::write(at("two"), b"2")?;
    let linked = linkat(&dir, "one", &dir, "linked", AtFlags::empty());
    let symbolic = std::os::unix::fs::symlink("one", at("symbolic")).map_err(|error| errno_of(&error));
    let fifo = mknodat(&dir, "fifo", FileType::Fifo, Mode::RUSR, 0);
    let node = mknodat(&dir, "node", FileType::CharacterDevice, Mode::RUSR, makedev(1, 3));
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let nameless = openat(CWD, folder, flags, Mode::RUSR).map(drop);
    let kept = match renameat_with(&dir, "one", &dir, "two", RenameFlags::NOREPLACE) {
        // It must refuse, and for this reason.
        Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno),
        Ok(()) => Err(Errno::IO),
    };
    let exchanged = renameat_with(&dir, "one", &dir, "two", RenameFlags::EXCHANGE);
    let swapped = exchanged
        .and_then(|()| if fs::read(at("one")).is_ok_and(|text| text == b"2") { Ok(()) } else { Err(Errno::IO) });
    let append = OpenOptions::new().write(true).custom_flags(OFlags::DIRECT.bits().cast_signed()).open(at("two"));
    let opened = append.map(drop).map_err(|error| errno_of(&error));
    for name in ["one", "two", "linked", "symbolic", "fifo", "node"] {
        match fs::remove_file(at(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(vec![
        verdict("open with O_DIRECT", opened, "whether or not haul can use it without knowing the alignment"),
        verdict("hard links", linked, "several names of one file"),
        verdict("symbolic links", symbolic, "links by name"),
        verdict("FIFOs", fifo, "special files"),
        verdict("device nodes", node, "takes the right to make them"),
        verdict("O_TMPFILE", nameless, "files without a name"),
        verdict("RENAME_NOREPLACE", kept, "a rename that replaces nothing"),
        verdict("RENAME_EXCHANGE", swapped, "two names change places"),
    ])
}

fn errno_of(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grain_of_a_time_is_the_largest_that_it_is_a_multiple_of() {
        assert_eq!(
            [123_456_789, 123_456_700, 123_456_000, 120_000_000, 0].map(coarsest),
            [1, 100, 1000, 10_000_000, 1_000_000_000]
        );
    }
}
