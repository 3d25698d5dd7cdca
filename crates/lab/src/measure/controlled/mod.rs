//! A copy by exactly the calls that are named, by one thread: what differs between two competitors of an experiment is what
//! their [`Method`]s say, and nothing else.
//!
//! haul's library chooses threads, allocation, read-ahead and page cache for each file. Here nothing chooses: a file is
//! moved by one engine of haul-io, job by job of one request each, or, by an asynchronous interface, with requests of
//! several files in flight (`flight`). Every call is counted (`recorder`), and [`proof::check`]
//! compares the counts with the method.

mod flight;
mod method;
mod pair;
pub mod proof;
pub(crate) mod readers;
mod recorder;

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_io::engine::wrap::Hooked;
use haul_io::engine::{DirectAlign, End, Job, Side, Tuning, Zeros, make_on};
use haul_measure::words;
use haul_sys::Errno;
use haul_sys::filesystem::FilesystemType;
use haul_sys::inode::Inode;
use haul_sys::kernel::{Kernel, Linux};

use self::pair::{PAGE, Pair, failed, refused};
use self::readers::Readers;
use self::recorder::{Recorder, queue_name};
use super::failure::Failure;

pub use self::method::{By, Method};
pub use self::pair::why;

/// The most that one call asks for ahead: what the kernel takes at once with the usual settings of a device.
const AHEAD: u64 = 128 << 10;

/// Copies a file or a tree of directories and regular files, and gives what [`proof::check`] reads.
///
/// # Errors
/// Whatever fails; that a call is not to be had here is a refusal.
pub fn copy(method: &Method, source: &Path, dest: &Path) -> Result<BTreeMap<String, f64>, Failure> {
    method.check()?;
    let recorder = Recorder::new(method.private);
    let kernel: Arc<dyn Kernel> = Arc::new(Hooked(recorder.clone()));
    let mut names = Vec::new();
    list(source, dest, &mut names)?;
    let mut reported = BTreeMap::<String, f64>::new();
    let request = method.request.max(1);
    let readers = Readers::start(method, source)?;
    // An asynchronous copier has requests of several files in flight, so their files are open together.
    let together = if method.queue().is_some() { flight::MOST_FILES } else { 1 };
    for names in names.chunks(together) {
        let pairs =
            names.iter().map(|(source, dest)| Pair::open(source, dest)).collect::<Result<Vec<Pair>, Failure>>()?;
        let mut add = |name: &str, value: u64| *reported.entry(name.to_owned()).or_default() += value as f64;
        for pair in &pairs {
            add("files", 1);
            add("bytes.total", pair.size);
            add("requests", pair.size.div_ceil(request));
            prepare(&*kernel, method, pair)?;
        }
        match method.queue() {
            Some(kind) => {
                reported.insert(queue_name(kind).to_owned(), 1.0);
                let whole = flight::run((&*kernel, &recorder), kind, method, &pairs)?;
                let rest = Method::new(By::ReadWrite, request);
                pairs.iter().try_for_each(|pair| move_file(&kernel, &rest, pair, pair.size / whole * whole))?;
            }
            None => pairs.iter().try_for_each(|pair| move_file(&kernel, method, pair, 0))?,
        }
    }
    let (count, bytes) = readers.end();
    reported.extend([("readers".to_owned(), count as f64), ("bytes.read-beside".to_owned(), bytes as f64)]);
    recorder.report(&mut reported);
    Ok(reported)
}

/// Makes the directories of the copy, and lists its files in the order of their names.
fn list(source: &Path, dest: &Path, names: &mut Vec<(PathBuf, PathBuf)>) -> Result<(), Failure> {
    let cannot_read = |error| Failure::Failed(words::cannot("read", source)(error));
    if !fs::symlink_metadata(source).map_err(cannot_read)?.is_dir() {
        names.push((source.into(), dest.into()));
        return Ok(());
    }
    fs::create_dir(dest).map_err(|error| Failure::Failed(words::cannot("make", dest)(error)))?;
    let entries = fs::read_dir(source).map_err(cannot_read)?;
    let mut entries: Vec<_> =
        entries.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<_>>().map_err(cannot_read)?;
    entries.sort_unstable();
    entries.iter().try_for_each(|name| list(&source.join(name), &dest.join(name), names))
}

/// Refuses copy_file_range where it shares extents: Linux asks the filesystem for a clone first. A server is asked to copy, and
/// what it does is its own affair.
fn refuse_sharing(pair: &Pair) -> Result<(), Failure> {
    let (source, dest) = (pair.source.as_fd(), pair.dest.as_fd());
    let is_remote = FilesystemType::of(dest).is_ok_and(FilesystemType::is_remote);
    match pair.size > 0 && !is_remote && Linux.clone_file(source, dest).is_ok() {
        true => Err(Failure::Refused("copy_file_range shares extents here, which is a clone and no copy".to_owned())),
        false => Ok(()),
    }
}

/// What is done to a file before its bytes are moved.
fn prepare(kernel: &dyn Kernel, method: &Method, pair: &Pair) -> Result<(), Failure> {
    if method.by == By::CopyRange {
        refuse_sharing(pair)?;
    }
    if method.preallocate && pair.size > 0 {
        kernel
            .allocate(pair.dest.as_fd(), 0, pair.size)
            .map_err(|errno| refused("no space can be allocated", errno))?;
    }
    let mut at = 0;
    while method.readahead
        && let Some(len) = NonZeroU64::new((pair.size - at).min(AHEAD))
    {
        let asked = kernel.read_ahead(pair.source.as_fd(), at, len);
        asked.map_err(|errno| refused("the source cannot be asked for ahead", errno))?;
        at += len.get();
    }
    Ok(())
}

/// Moves a file by an engine from a byte on, in jobs of one request each.
fn move_file(kernel: &Arc<dyn Kernel>, method: &Method, pair: &Pair, mut at: u64) -> Result<(), Failure> {
    let request = method.request.max(1);
    let buffer_size = usize::try_from(request).ok();
    let mut engine = make_on(Arc::clone(kernel), method.engine(), &Tuning { buffer_size, ..Tuning::default() });
    let side = |fd: &Arc<OwnedFd>, direct: bool| -> Result<Side, Failure> {
        let direct = if direct { Some(align(fd)?) } else { None };
        Ok(Side { direct, ..Side::new(Arc::clone(fd), true) })
    };
    let source = side(&pair.source, method.direct_source)?;
    let dest = side(&pair.dest, method.direct_dest)?;
    while at < pair.size {
        let (source, dest) = (source.clone(), dest.clone());
        let job = Job { source, dest, offset: at, len: (pair.size - at).min(request), zeros: Zeros::Write };
        let outcome = engine.run(&job);
        at += outcome.moved.total();
        match outcome.end {
            End::Complete => {}
            End::SourceEnd => return Err(failed(pair, Errno::NODATA)),
            End::Failed(failure) => return Err(failed(pair, failure.errno)),
            End::Refused(refusal) => return Err(Failure::Refused(format!("{}: {}", method.engine(), why(refusal)))),
        }
    }
    Ok(())
}

fn align(fd: &OwnedFd) -> Result<DirectAlign, Failure> {
    let inode = Inode::of(fd.as_fd()).map_err(|errno| Failure::Failed(words::of(&errno.into())))?;
    let known = |said: u32| if said > 0 { said } else { PAGE };
    Ok(DirectAlign { memory: known(inode.direct.0), offset: known(inode.direct.1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [By; 7] =
        [By::ReadWrite, By::Mapped, By::CopyRange, By::Splice, By::PosixAio, By::LinuxAio, By::IoUring];

    /// A tree with a file of many requests, one that ends in the middle of a page, and an empty one.
    fn source(dir: &Path) -> PathBuf {
        let source = dir.join("source");
        fs::create_dir_all(source.join("below")).unwrap();
        let bytes = |len: usize| (0..len).map(|at| (at * at % 251) as u8).collect::<Vec<u8>>();
        fs::write(source.join("large"), bytes(3 << 20)).unwrap();
        fs::write(source.join("below/odd"), bytes((1 << 20) + 4711)).unwrap();
        fs::write(source.join("below/empty"), b"").unwrap();
        source
    }

    fn methods() -> impl Iterator<Item = Method> {
        ALL.into_iter()
            .flat_map(|by| {
                let direct = !matches!(by, By::CopyRange | By::Splice);
                let plain = Method::new(by, 128 << 10);
                let past = Method { direct_source: by != By::Mapped, direct_dest: true, ..plain.clone() };
                let private = Method { private: true, ..plain.clone() };
                [
                    (by == By::Mapped).then_some(private),
                    Some(plain.clone()),
                    Some(Method { preallocate: true, readahead: true, ..plain }),
                    direct.then_some(past),
                ]
            })
            .flatten()
    }

    /// What a copy reports; `None` if this machine has no such calls, which is said.
    fn copied(method: &Method, source: &Path, dest: &Path) -> Option<BTreeMap<String, f64>> {
        match copy(method, source, dest) {
            Ok(mut reported) => {
                // The other tests of this process have threads, too.
                reported.insert("threads".to_owned(), if method.by == By::PosixAio { 3.0 } else { 1.0 });
                Some(reported)
            }
            Err(Failure::Refused(why)) => {
                haul_testbed::skip(format!("{method:?}: {why}"));
                None
            }
            Err(Failure::Failed(why)) => panic!("{method:?}: {why}"),
        }
    }

    #[test]
    fn every_method_copies_every_byte_as_it_says() {
        let dir = haul_testbed::temp_dir();
        let source = source(dir.path());
        for (number, method) in methods().enumerate() {
            let dest = dir.path().join(format!("copy-{number}"));
            let Some(reported) = copied(&method, &source, &dest) else { continue };
            for name in ["large", "below/odd", "below/empty"] {
                assert!(
                    fs::read(dest.join(name)).unwrap() == fs::read(source.join(name)).unwrap(),
                    "{method:?}: {name}"
                );
            }
            assert_eq!(proof::check(&method, &reported), Ok(()), "{method:?}: {reported:#?}");
        }
    }

    #[test]
    fn copy_file_range_is_refused_where_it_shares_extents() {
        let Some(bed) = haul_testbed::Bed::new() else { return };
        for fs in [haul_testbed::Fs::Btrfs, haul_testbed::Fs::Xfs] {
            let Some(place) = bed.mount(fs) else { continue };
            let source = source(&place);
            let refused = copy(&Method::new(By::CopyRange, 128 << 10), &source, &place.join("copy"));
            assert!(matches!(&refused, Err(Failure::Refused(why)) if why.contains("shares extents")), "{refused:?}");
            let plain = copy(&Method::new(By::ReadWrite, 128 << 10), &source, &place.join("other"));
            assert!(plain.is_ok(), "{plain:?}");
        }
    }

    #[test]
    fn a_copy_by_another_method_is_caught() {
        let dir = haul_testbed::temp_dir();
        let source = source(dir.path());
        for (number, method) in methods().enumerate() {
            let Some(reported) = copied(&method, &source, &dir.path().join(number.to_string())) else { continue };
            let mut others = vec![
                Method { request: 64 << 10, ..method.clone() },
                Method { request: 256 << 10, ..method.clone() },
                Method { preallocate: !method.preallocate, ..method.clone() },
                Method { readahead: !method.readahead, ..method.clone() },
                Method { direct_dest: !method.direct_dest, ..method.clone() },
                Method { direct_source: !method.direct_source, ..method.clone() },
                Method { readers: 1, ..method.clone() },
            ];
            if method.by == By::Mapped {
                others.push(Method { private: !method.private, ..method.clone() });
            }
            let by = ALL.into_iter().filter(|by| *by != method.by);
            others.extend(by.map(|by| Method { by, ..method.clone() }));
            for other in others {
                assert!(proof::check(&other, &reported).is_err(), "{method:?} passed for {other:?}: {reported:#?}");
            }
        }
    }

    #[test]
    fn settings_that_exclude_each_other_are_refused() {
        let dir = haul_testbed::temp_dir();
        let source = source(dir.path());
        for method in [
            Method { direct_source: true, ..Method::new(By::Mapped, 1 << 20) },
            Method { private: true, ..Method::new(By::ReadWrite, 1 << 20) },
        ] {
            let refused = copy(&method, &source, &dir.path().join("copy"));
            assert!(matches!(refused, Err(Failure::Refused(_))), "{method:?}: {refused:?}");
        }
    }

    #[test]
    fn a_second_thread_is_caught() {
        let dir = haul_testbed::temp_dir();
        let source = source(dir.path());
        let method = Method::new(By::ReadWrite, 128 << 10);
        let mut reported = copied(&method, &source, &dir.path().join("copy")).unwrap();
        reported.insert("threads".to_owned(), 2.0);
        assert_eq!(proof::check(&method, &reported), Err("2 threads were at work, not one".to_owned()));
    }
}
