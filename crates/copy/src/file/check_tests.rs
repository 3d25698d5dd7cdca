use std::fs::File;

use haul_io::verify::Blocks;
use haul_sys::rustix::pipe::pipe;

use super::*;
use crate::context::test_support::{Bench, Ran, file_data};
use crate::plan::{Checksum, Plan};

/// What came of a copy that was read again: its digest, or why there is none.
type Outcome = Result<Option<String>, Option<Error>>;

/// Copies `a` to `b`, which is open like this, and reads it again.
fn check(bench: &Bench, dest: impl Into<OwnedFd>) -> Ran<Outcome> {
    let sides = [File::open(bench.source_path("a")).unwrap().into(), dest.into()];
    let inodes = sides.each_ref().map(|fd: &OwnedFd| Inode::of(fd.as_fd()).unwrap());
    bench.run(|worker| {
        let job = file_data(sides, inodes.each_ref());
        let read = move_and_check(worker, &job);
        let checked = read.and_then(|read| settle_check(&job, read)).map_err(|broken| broken.error)?;
        Ok(checked.mismatch.map(|at| format!("differs at {}", at.offset)).or(checked.digest))
    })
}

fn for_writing(bench: &Bench) -> File {
    File::create(bench.dest_path("b")).unwrap()
}

fn for_both(bench: &Bench) -> File {
    File::options().create(true).truncate(true).read(true).write(true).open(bench.dest_path("b")).unwrap()
}

fn verified() -> Bench {
    Bench::new(Plan { verify: Verify::Read, ..Plan::default() }).source("a", "new")
}

/// The MD5 of `new`.
const DIGEST: &str = "22af645d1859cb5ca6da0c484f1f37ea";

#[test]
fn a_copy_that_is_like_its_source_passes() {
    let bench = verified();
    for dest in [for_writing(&bench), for_both(&bench)] {
        let ran = check(&bench, dest);
        ran.says(&[]);
        assert_eq!((ran.value, bench.tree()), (Ok(None), vec!["b: new".into()]));
    }
}

#[test]
fn a_copy_that_differs_from_its_source_is_found() {
    let mut bench = verified();
    bench.kernel.spoil = true;
    assert_eq!(check(&bench, for_both(&bench)).value, Ok(Some("differs at 0".into())));
}

#[test]
fn a_copy_that_cannot_be_opened_to_be_read_fails() {
    let mut bench = verified();
    bench.kernel.reopen_to_read = Some(Errno::ACCESS);
    let ran = check(&bench, for_writing(&bench));
    let error = Error::new(What::ReadingBack, "b").errno(Errno::ACCESS);
    assert_eq!((ran.value, ran.moves), (Err(Some(error)), 0), "and before anything is written");
    assert_eq!(check(&bench, for_both(&bench)).value, Ok(None), "this one can be read as it is");
}

#[test]
fn a_source_that_cannot_be_read_again_fails() {
    let mut bench = verified();
    bench.kernel.pread = Some(Errno::IO);
    let error = Error::new(What::ReadingAgain, "a").errno(Errno::IO);
    assert_eq!(check(&bench, for_both(&bench)).value, Err(Some(error)));
}

#[test]
fn a_stream_cannot_be_verified() {
    let bench = verified();
    let (_reader, writer) = pipe().unwrap();
    let ran = check(&bench, writer);
    assert_eq!((ran.value, ran.moves), (Err(Some(Error::new(What::CannotReadAgain, "b"))), 0));
}

#[test]
fn a_digest_needs_nothing_of_the_copy() {
    let mut bench = Bench::new(Plan { checksum: Some(Checksum::Md5), ..Plan::default() }).source("a", "new");
    bench.kernel.reopen_to_read = Some(Errno::ACCESS);
    let (_reader, writer) = pipe().unwrap();
    assert_eq!(check(&bench, writer).value, Ok(Some(DIGEST.into())));
}

#[test]
fn nothing_is_read_again_unless_asked() {
    let mut bench = Bench::new(Plan::default()).source("a", "new");
    bench.kernel.pread = Some(Errno::IO);
    assert_eq!(check(&bench, for_writing(&bench)).value, Ok(None));
    assert_eq!(bench.tree(), ["b: new"]);
}

/// Judges `b`, which has its name, by what was found of it.
fn judge(bench: &Bench, checked: &Checked) -> Ran<bool> {
    let dest = File::open(bench.dest_path("b")).unwrap();
    let inode = Inode::of(dest.as_fd()).unwrap();
    bench.run(|worker| judge_in_place(worker, dest.as_fd(), &inode, Path::new("b"), checked))
}

#[test]
fn a_copy_in_place_that_differs_is_reported() {
    let bench = verified().dest("b", "half");
    let mismatch = Mismatch { offset: 7, source: 1, dest: 2 };
    let ran = judge(&bench, &Checked { mismatch: Some(mismatch), ..Checked::default() });
    ran.says(&[&format!(r#"error: the copy "b" differs from its source {}"#, mismatch.describe())]);
    assert_eq!((ran.value, bench.tree()), (false, vec!["b: half".into()]));
    assert!(judge(&bench, &Checked::default()).value);
}

/// What was found of a copy that is to be read from its device.
fn by_blocks() -> Checked {
    Checked { blocks: Some(Blocks { size: 1 << 20, hashes: vec![1], total: 4 }), ..Checked::default() }
}

#[test]
fn a_copy_in_place_is_read_back_after_its_sync() {
    let mut bench = verified().dest("b", "half");
    judge(&bench, &by_blocks());
    assert_eq!(bench.kernel.synced(), ["a file, with [b: half]"]);
    bench.kernel.sync = Some(Errno::IO);
    let ran = judge(&bench, &by_blocks());
    ran.says(&[&format!(r#"error: error reading back "b" to verify it: {}"#, Errno::IO)]);
    assert!(!ran.value);
}
