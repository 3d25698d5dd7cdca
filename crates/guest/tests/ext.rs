//! ext2, ext3 and ext4 that were unmounted, in every layout.

mod support;
#[path = "support/ext.rs"]
mod tools;

use std::path::Path;

use haul_guest::fs::ext::Ext;
use haul_guest::{ExtentSet, Refusal};
use haul_testbed::guest::{Noise, digests, flush, live_through, run, write_noise};
use haul_testbed::{Bed, Command, temp_dir};
use support::{copy_without, free, open};
use tools::{assert_healthy, free_by_dumpe2fs, look, make};

const MIB: u64 = 1 << 20;

/// Asserts everything of one layout: a filesystem with a past is copied without its free bytes, and nothing is lost.
fn assert_copied(bed: &Bed, mib: u64, options: &[&str]) {
    let dir = temp_dir();
    let image = dir.path().join("image");
    make(&image, mib, options);
    let mounted = bed.mount_image("ext4", &image, &[]);
    live_through(mounted.path(), mib * MIB / 4, mib);
    let files = digests(mounted.path());
    mounted.unmount();
    assert!(files.len() > 50, "{options:?}: too few files");
    assert_copy_is_right(bed, &image, options, |copied| {
        assert_eq!(copied, &files, "{options:?}");
    });
}

fn assert_copy_is_right(
    bed: &Bed,
    image: &Path,
    options: &[&str],
    check: impl Fn(&std::collections::BTreeMap<std::path::PathBuf, (u64, u64)>),
) -> ExtentSet {
    let found = free(&Ext, &open(image)).unwrap_or_else(|refusal| panic!("{options:?}: {refusal}"));
    let known = free_by_dumpe2fs(image);
    let wrong = found.free.without(&known);
    assert!(wrong.is_empty(), "{options:?}: not free: {wrong:?}");
    let missed = known.without(&found.free);
    assert!(missed.is_empty(), "{options:?}: {} of {} free bytes missed", missed.bytes(), known.bytes());
    let copy = image.with_extension("copy");
    copy_without(image, &found.free, &copy);
    assert_healthy(&copy);
    let mounted = look(bed, &copy);
    check(&digests(mounted.path()));
    mounted.unmount();
    let mounted = bed.mount_image("ext4", &copy, &[]);
    check(&digests(mounted.path()));
    mounted.unmount();
    assert_healthy(&copy);
    std::fs::remove_file(&copy).unwrap();
    found.free
}

fn assert_all_copied(mib: u64, layouts: &[&[&str]]) {
    if !tools::tools() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    for options in layouts {
        assert_copied(&bed, mib, options);
    }
}

#[test]
fn ext2_and_ext3_lose_no_file() {
    assert_all_copied(
        96,
        &[
            &["-t", "ext2"],
            &["-t", "ext2", "-b", "1024"],
            &["-t", "ext2", "-b", "2048", "-r", "1", "-O", "none"],
            &["-t", "ext3"],
            &["-t", "ext3", "-b", "1024", "-O", "^resize_inode"],
            &["-t", "ext3", "-b", "1024", "-I", "128", "-O", "^sparse_super,^resize_inode"],
        ],
    );
}

#[test]
fn ext4_loses_no_file_whatever_its_checksums() {
    assert_all_copied(
        96,
        &[
            &["-t", "ext4"],
            &["-t", "ext4", "-b", "4096", "-g", "4096"],
            &["-t", "ext4", "-g", "4096", "-b", "4096", "-O", "^metadata_csum,uninit_bg"],
            &["-t", "ext4", "-b", "1024", "-O", "^metadata_csum,^uninit_bg"],
            &["-t", "ext4", "-O", "metadata_csum_seed"],
            &["-t", "ext4", "-b", "2048", "-O", "^64bit"],
            &["-t", "ext4", "-O", "^has_journal"],
            &["-t", "ext4", "-O", "mmp,ea_inode,inline_data"],
            &["-t", "ext4", "-O", "encrypt,verity,large_dir,fast_commit,stable_inodes"],
            &["-t", "ext4", "-O", "orphan_file"],
        ],
    );
}

#[test]
fn ext4_loses_no_file_wherever_its_groups_keep_their_metadata() {
    assert_all_copied(
        96,
        &[
            &["-t", "ext4", "-b", "1024", "-O", "^flex_bg"],
            &["-t", "ext4", "-b", "1024", "-G", "4"],
            &["-t", "ext4", "-b", "1024", "-g", "1024", "-O", "meta_bg,^resize_inode"],
            &["-t", "ext4", "-b", "2048", "-g", "1024", "-O", "meta_bg,^resize_inode,^flex_bg"],
            &["-t", "ext4", "-b", "1024", "-O", "sparse_super2,^resize_inode"],
            &["-t", "ext4", "-b", "1024", "-O", "^sparse_super,^resize_inode"],
            &["-t", "ext4", "-b", "4096", "-g", "2048", "-O", "^resize_inode", "-N", "20000", "-I", "512"],
        ],
    );
}

#[test]
fn ext4_with_clusters_loses_no_file() {
    assert_all_copied(
        192,
        &[
            &["-t", "ext4", "-O", "bigalloc", "-b", "4096", "-C", "65536"],
            &["-t", "ext4", "-O", "bigalloc", "-b", "1024", "-C", "16384"],
            &["-t", "ext4", "-O", "bigalloc,^64bit,^metadata_csum,uninit_bg", "-b", "1024", "-C", "4096"],
        ],
    );
}

#[test]
fn groups_that_were_never_used_are_free_but_for_their_metadata() {
    if !tools::tools() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let layouts: [(u64, &[&str]); 9] = [
        (400, &["-t", "ext4", "-b", "4096", "-g", "4096"]),
        (400, &["-t", "ext4", "-b", "4096", "-g", "4096", "-O", "^metadata_csum,uninit_bg"]),
        (400, &["-t", "ext4", "-b", "4096", "-g", "4096", "-O", "^metadata_csum,uninit_bg,^flex_bg,^64bit"]),
        (400, &["-t", "ext4", "-b", "1024", "-O", "^flex_bg"]),
        (400, &["-t", "ext4", "-b", "1024", "-O", "meta_bg,^resize_inode"]),
        (400, &["-t", "ext4", "-b", "1024", "-O", "sparse_super2,^resize_inode"]),
        (400, &["-t", "ext4", "-b", "4096", "-g", "4096", "-O", "^sparse_super,^resize_inode"]),
        (400, &["-t", "ext4", "-O", "bigalloc", "-b", "1024", "-C", "16384"]),
        (1200, &["-t", "ext4", "-O", "bigalloc", "-b", "4096", "-C", "8192"]),
    ];
    for (mib, options) in layouts {
        let dir = temp_dir();
        let image = dir.path().join("image");
        make(&image, mib, options);
        let dump = run(Command::new("dumpe2fs").arg(&image));
        assert!(dump.contains("BLOCK_UNINIT"), "{options:?}: no group is uninitialised");
        let mounted = bed.mount_image("ext4", &image, &[]);
        let mut noise = Noise::new(1);
        for number in 0..20 {
            write_noise(&mounted.path().join(format!("{number}")), noise.below(300_000), &mut noise);
        }
        flush(mounted.path());
        let files = digests(mounted.path());
        mounted.unmount();
        assert_copy_is_right(&bed, &image, options, |copied| assert_eq!(copied, &files, "{options:?}"));
    }
}

#[test]
fn a_filesystem_that_is_frozen_is_mapped() {
    if !tools::tools() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let (image, live) = (dir.path().join("image"), dir.path().join("live"));
    make(&image, 96, &["-t", "ext4"]);
    let mounted = bed.mount_image("ext4", &image, &[]);
    live_through(mounted.path(), 20 * MIB, 3);
    let files = digests(mounted.path());
    run(Command::new("fsfreeze").arg("-f").arg(mounted.path()));
    std::fs::copy(&image, &live).unwrap();
    run(Command::new("fsfreeze").arg("-u").arg(mounted.path()));
    mounted.unmount();
    assert_copy_is_right(&bed, &live, &["frozen"], |copied| assert_eq!(copied, &files));
}

#[test]
fn a_filesystem_that_was_grown_or_shrunk_is_mapped() {
    if !tools::tools() || !haul_testbed::guest::has("resize2fs") {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let layouts: [&[&str]; 4] = [
        &["-t", "ext4", "-b", "1024"],
        &["-t", "ext4", "-b", "1024", "-O", "^resize_inode"],
        &["-t", "ext3", "-b", "1024"],
        &["-t", "ext4", "-b", "1024", "-O", "meta_bg,^resize_inode"],
    ];
    for options in layouts {
        let dir = temp_dir();
        let image = dir.path().join("image");
        make(&image, 64, options);
        let mounted = bed.mount_image("ext4", &image, &[]);
        live_through(mounted.path(), 12 * MIB, 5);
        let files = digests(mounted.path());
        mounted.unmount();
        for mib in [147, 61] {
            if mib > 64 {
                std::fs::OpenOptions::new().write(true).open(&image).unwrap().set_len(mib * MIB).unwrap();
            }
            run(Command::new("e2fsck").arg("-fp").arg(&image));
            run(Command::new("resize2fs").arg(&image).arg(format!("{mib}M")));
            assert_copy_is_right(&bed, &image, options, |copied| assert_eq!(copied, &files, "{options:?}"));
        }
    }
}

/// An image of a mounted filesystem whose blocks were all written a moment before.
fn live_image(bed: &Bed, image: &Path, options: &[&str]) -> std::collections::BTreeMap<std::path::PathBuf, (u64, u64)> {
    let disk = image.with_extension("disk");
    make(&disk, 48, options);
    let mounted = bed.mount_image("ext4", &disk, &["noatime"]);
    live_through(mounted.path(), 12 * MIB, 7);
    flush(mounted.path());
    run(Command::new("cp").arg("--sparse=always").arg(&disk).arg(image));
    let files = digests(mounted.path());
    mounted.unmount();
    files
}

#[test]
fn one_without_a_journal_is_mapped_while_mounted_if_whole() {
    if !tools::tools() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    for options in [&["-t", "ext2"][..], &["-t", "ext4", "-O", "^has_journal"]] {
        let dir = temp_dir();
        let image = dir.path().join("image");
        let files = live_image(&bed, &image, options);
        let found = free(&Ext, &open(&image)).unwrap_or_else(|refusal| panic!("{options:?}: {refusal}"));
        assert_eq!(found.evidence[1], "not cleanly unmounted, but whole");
        assert!(found.free.is_subset_of(&free_by_dumpe2fs(&image)));
        let copy = dir.path().join("copy");
        copy_without(&image, &found.free, &copy);
        // It marks it as clean, which counts as a change.
        let checked = Command::new("e2fsck").arg("-fp").arg(&copy).status().unwrap();
        assert!(checked.code().is_some_and(|code| code <= 1), "{options:?}: {checked}");
        let mounted = look(&bed, &copy);
        assert_eq!(digests(mounted.path()), files, "{options:?}");
        mounted.unmount();
        // A bitmap that the kernel had not written yet: blocks of files are free in it.
        let bitmap = tools::places(&image).1[0].start;
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&image).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[0; 64], bitmap + 64).unwrap();
        assert!(matches!(free(&Ext, &open(&image)), Err(Refusal::Corrupt(_))), "{options:?}");
    }
}
