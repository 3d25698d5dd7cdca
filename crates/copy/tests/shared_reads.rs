//! Sources that other processes read, too.
#![forbid(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use haul_copy::Context;
use haul_copy::meta::XattrRules;
use haul_copy::plan::{IfChanged, Plan};
use haul_copy::run::{Partials, Session, SharedReads, Summary, run};
use haul_io::engine::ByteSource;
use haul_sys::inode::Inode;
use haul_testbed::{TempDir, painted, temp_dir};

const KIB: usize = 1 << 10;

/// What others have of each file: as many `e` as are asked for. Does something when it is asked for the first time.
struct Others<'a> {
    asked: Mutex<Vec<(PathBuf, u64)>>,
    first: Option<&'a (dyn Fn() + Sync)>,
}

#[derive(Debug)]
struct Letters;

impl ByteSource for Letters {
    fn read(&self, buffer: &mut [u8], _: u64) -> Option<NonZeroUsize> {
        buffer.fill(b'e');
        NonZeroUsize::new(buffer.len())
    }
}

impl SharedReads for Others<'_> {
    fn of(&self, source: &Path, inode: &Inode) -> Option<Arc<dyn ByteSource>> {
        let mut asked = self.asked.lock().unwrap();
        if let Some(first) = self.first.filter(|_| asked.is_empty()) {
            first();
        }
        asked.push((source.to_owned(), inode.size));
        Some(Arc::new(Letters))
    }
}

fn copy(plan: &Plan, others: &Others<'_>) -> Summary {
    let context = Context::default();
    let session = Session {
        observer: context.observer,
        confirm: context.confirm,
        cancel: context.cancel.clone(),
        pace: context.pace.clone(),
        partials: Partials::default(),
        xattr_rules: XattrRules::default(),
        skip_files: Vec::new(),
        shared_reads: Some(others),
    };
    run(plan, &session)
}

/// A tree with a small file and a large one, and a plan for its copy.
fn tree() -> (TempDir, Plan) {
    let dir = temp_dir();
    let source = dir.path().join("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("small"), painted(64 * KIB - 1)).unwrap();
    fs::write(source.join("large"), painted(2048 * KIB + 5)).unwrap();
    let destination = haul_copy::plan::Destination::Exactly(dir.path().join("copy").into());
    let plan = Plan { sources: vec![source.into()], destination, recursive: true, ..Plan::default() };
    (dir, plan)
}

#[test]
fn what_others_have_of_files_from_64_kib_on_is_asked_of_them_also_to_overwrite() {
    let (dir, plan) = tree();
    let read = |name: &str| fs::read(dir.path().join("copy").join(name)).unwrap();
    for again in [false, true] {
        if again {
            File::create(dir.path().join("copy/large")).unwrap().write_all(b"old").unwrap();
        }
        let others = Others { asked: Mutex::default(), first: None };
        assert!(!copy(&plan, &others).failed);
        assert!(read("small") == painted(64 * KIB - 1));
        assert!(read("large") == vec![b'e'; 2048 * KIB + 5]);
        let expected = (dir.path().join("source/large"), 2048 * KIB as u64 + 5);
        assert_eq!(others.asked.into_inner().unwrap(), [expected]);
    }
}

#[test]
fn a_source_that_changes_meanwhile_is_read_again_by_this_process_alone() {
    let (dir, plan) = tree();
    let source = dir.path().join("source/large");
    let change = || {
        OpenOptions::new().append(true).open(&source).unwrap().write_all(b"more").unwrap();
    };
    let others = Others { asked: Mutex::default(), first: Some(&change) };
    let summary = copy(&Plan { if_changed: IfChanged::Retry, ..plan }, &others);
    assert!(!summary.failed);
    assert!(fs::read(dir.path().join("copy/large")).unwrap() == fs::read(&source).unwrap());
}
