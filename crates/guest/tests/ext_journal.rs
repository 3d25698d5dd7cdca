//! ext3 and ext4 that were copied while mounted: the journal must be replayed.

mod support;
#[path = "support/ext.rs"]
mod tools;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use haul_guest::Refusal;
use haul_guest::fs::Findings;
use haul_guest::fs::ext::Ext;
use haul_testbed::guest::{Noise, digests, live_through, run, write_noise};
use haul_testbed::{Bed, Command, TempDir, temp_dir};
use support::{copy_without, free, open};
use tools::{assert_healthy, free_by_dumpe2fs, make, replay};

const MIB: u64 = 1 << 20;

/// A filesystem that was copied while it was mounted and its journal full.
struct Live {
    dir: TempDir,
    image: PathBuf,
    /// What its files are.
    files: BTreeMap<PathBuf, (u64, u64)>,
}

fn flush_file(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

/// Makes one: 100 files are written and flushed one by one, others are deleted; the filesystem as a whole is not flushed, so its
/// bitmaps are in the journal alone.
fn live(bed: &Bed, options: &[&str], mount: &[&str], mib: u64) -> Live {
    let dir = temp_dir();
    let (image, copy) = (dir.path().join("image"), dir.path().join("live"));
    make(&image, mib, options);
    // Without access times nothing is written that the test does not write, also not in the middle of the copying.
    let mounted = bed.mount_image("ext4", &image, &[mount, &["noatime"]].concat());
    live_through(mounted.path(), mib * MIB / 5, 1);
    let mut noise = Noise::new(2);
    let root = mounted.path();
    for number in 0..100 {
        let path = root.join(format!("flushed-{number}"));
        write_noise(&path, noise.below(100_000) + 1, &mut noise);
        flush_file(&path);
        // Deleted directories make revocations, and what they leave is used again.
        if number % 4 == 0 {
            let dir = root.join(format!("dir-{number}"));
            fs::create_dir(&dir).unwrap();
            write_noise(&dir.join("file"), 10_000, &mut noise);
            flush_file(&dir.join("file"));
            fs::remove_dir_all(&dir).unwrap();
            fs::remove_file(root.join(format!("keep/small-{number}"))).unwrap_or_default();
        }
    }
    flush_file(&root.join("flushed-99"));
    flush_file(root);
    let files = digests(root);
    fs::copy(&image, &copy).unwrap();
    mounted.unmount();
    fs::remove_file(&image).unwrap();
    Live { dir, image: copy, files }
}

/// Copies it without what is proven free, lets the kernel replay the journal, and asserts that nothing is lost.
fn assert_copied(bed: &Bed, live: &Live, what: &str) -> Findings {
    let found = free(&Ext, &open(&live.image)).unwrap_or_else(|refusal| panic!("{what}: {refusal}"));
    let copy = live.dir.path().join("copy");
    copy_without(&live.image, &found.free, &copy);
    let mounted = bed.mount_image("ext4", &copy, &[]);
    let copied = digests(mounted.path());
    let bad = live.files.iter().filter(|(path, digest)| copied.get(*path) != Some(digest)).count();
    assert_eq!(bad, 0, "{what}: files that are wrong, of {}", live.files.len());
    assert_eq!(copied.len(), live.files.len(), "{what}");
    mounted.unmount();
    assert_healthy(&copy);
    // The replayed filesystem itself must call free what was skipped.
    let replayed = live.dir.path().join("replayed");
    fs::copy(&live.image, &replayed).unwrap();
    replay(&replayed);
    let known = free_by_dumpe2fs(&replayed);
    let wrong = found.free.without(&known);
    assert!(wrong.is_empty(), "{what}: not free after the replay: {wrong:?}");
    let missed = known.without(&found.free).bytes();
    // What the journal frees is kept too.
    assert!(missed <= known.bytes() / 10, "{what}: {missed} of {} free bytes missed", known.bytes());
    fs::remove_file(&replayed).unwrap();
    fs::remove_file(&copy).unwrap();
    found
}

fn assert_all_copied(layouts: &[(&[&str], &[&str])]) {
    if !tools::tools() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    for (options, mount) in layouts {
        let live = live(&bed, options, mount, 96);
        let dump = run(Command::new("dumpe2fs").arg("-h").arg(&live.image));
        assert!(dump.contains("needs_recovery"), "{options:?}: nothing to replay");
        let found = assert_copied(&bed, &live, &format!("{options:?} {mount:?}"));
        println!("{options:?} {mount:?}: {:?}, {} MiB free", found.evidence, found.free.bytes() / MIB);
    }
}

#[test]
fn flushed_files_of_a_mounted_ext4_are_not_lost() {
    assert_all_copied(&[
        (&["-t", "ext4"], &[]),
        (&["-t", "ext4", "-b", "4096", "-g", "4096"], &[]),
        (&["-t", "ext4", "-b", "1024"], &[]),
        (&["-t", "ext4", "-O", "^metadata_csum"], &[]),
        (&["-t", "ext4", "-b", "1024", "-O", "^metadata_csum,^uninit_bg,^64bit,^extent"], &[]),
    ]);
}

#[test]
fn flushed_files_of_a_mounted_ext4_are_not_lost_whatever_its_journal_holds() {
    assert_all_copied(&[
        (&["-t", "ext4"], &["data=journal"]),
        (&["-t", "ext4", "-b", "1024"], &["data=journal"]),
        (&["-t", "ext4", "-O", "^metadata_csum"], &["journal_checksum"]),
        (&["-t", "ext4"], &["data=writeback,journal_async_commit"]),
        (&["-t", "ext4", "-O", "bigalloc", "-b", "1024", "-C", "16384"], &[]),
        (&["-t", "ext4", "-O", "orphan_file,metadata_csum_seed"], &[]),
    ]);
}

#[test]
fn flushed_files_of_a_mounted_ext3_are_not_lost() {
    assert_all_copied(&[
        (&["-t", "ext3"], &[]),
        (&["-t", "ext3", "-b", "1024"], &[]),
        (&["-t", "ext3", "-b", "1024"], &["data=journal"]),
        (&["-t", "ext3"], &["journal_checksum"]),
    ]);
}

#[test]
fn a_filesystem_is_mapped_at_any_moment_and_wherever_its_log_has_come_to() {
    if !tools::tools() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    for options in [&["-t", "ext4", "-b", "1024"], &["-t", "ext3", "-b", "1024"]] {
        let dir = temp_dir();
        let (image, copy) = (dir.path().join("image"), dir.path().join("live"));
        make(&image, 40, options);
        let mounted = bed.mount_image("ext4", &image, &["noatime"]);
        live_through(mounted.path(), 8 * MIB, 1);
        let mut noise = Noise::new(4);
        for moment in 0..8 {
            // Some 60 transactions: two moments are more than a log of 1024 blocks.
            for number in 0..60 {
                let path = mounted.path().join(format!("{number}"));
                write_noise(&path, noise.below(40_000) + 1, &mut noise);
                flush_file(&path);
            }
            fs::remove_file(mounted.path().join(format!("{moment}"))).unwrap();
            flush_file(mounted.path());
            let files = digests(mounted.path());
            fs::copy(&image, &copy).unwrap();
            let live = Live { dir: temp_dir(), image: copy.clone(), files };
            assert_copied(&bed, &live, &format!("{options:?}, moment {moment}"));
        }
        mounted.unmount();
    }
}

#[test]
fn a_mounted_ext4_whose_fast_commits_are_replaced_by_full_ones_loses_nothing() {
    if !tools::tools() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let live = live(&bed, &["-t", "ext4", "-O", "fast_commit"], &[], 96);
    match free(&Ext, &open(&live.image)) {
        Ok(_) => drop(assert_copied(&bed, &live, "fast commits")),
        // A log that goes round is not followed where fast commits are behind it, nor one that is just being written.
        Err(refusal) => assert!(matches!(refusal, Refusal::Dirty(_) | Refusal::Unsupported(_)), "{refusal}"),
    }
}
