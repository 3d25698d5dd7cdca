//! Bitmaps of ext2, ext3 and ext4 that no checksum guards: what an inode uses is not free, whatever they say.

mod support;
#[path = "support/ext.rs"]
mod tools;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

use haul_guest::Refusal;
use haul_guest::fs::ext::Ext;
use haul_testbed::guest::{Noise, run};
use haul_testbed::{Bed, Command, temp_dir};
use support::{free, open, within};
use tools::{fact, free_by_dumpe2fs, make};

/// The most blocks of one layout that are tried.
const TRIED: u64 = 120;

/// Writes a block at each of these offsets, with holes between them.
fn write_at(path: &Path, offsets: impl Iterator<Item = u64>) {
    let file = File::create(path).unwrap();
    for offset in offsets {
        file.write_all_at(&[7; 1024], offset).unwrap();
    }
}

/// One of each kind of inode, with as few blocks as possible.
fn fill(root: &Path) {
    fs::write(root.join("small"), [7; 100]).unwrap();
    fs::write(root.join("with attributes"), [7; 100]).unwrap();
    fs::write(root.join("empty"), []).unwrap();
    // Blocks that are named by the inode, and through one, two and three others; or a few extents.
    write_at(&root.join("far"), [0, 20, 400, 5 << 10, 90 << 10, 200 << 10].into_iter().map(|at| at << 10));
    // So many extents that they need a tree of two levels.
    write_at(&root.join("torn"), (0..400).map(|number| number << 12));
    symlink("x".repeat(100), root.join("long link")).unwrap();
    symlink("short", root.join("short link")).unwrap();
    run(Command::new("mkfifo").arg(root.join("pipe")));
    run(Command::new("mknod").arg(root.join("device")).args(["c", "4", "5"]));
    let dir = root.join("dir");
    fs::create_dir(&dir).unwrap();
    for number in 0..90 {
        fs::write(dir.join(format!("{number}-{}", "n".repeat(100))), []).unwrap();
    }
    fs::write(root.join("deleted"), [7; 30_000]).unwrap();
    File::open(root).unwrap().sync_all().unwrap();
    fs::remove_file(root.join("deleted")).unwrap();
}

fn debugfs(image: &Path, commands: &[String]) {
    let script = image.with_extension("script");
    fs::write(&script, commands.join("\n") + "\n").unwrap();
    let done = Command::new("debugfs").arg("-w").arg("-f").arg(&script).arg(image).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// The free blocks of a group, as dumpe2fs counts them.
fn free_of_group(dump: &str, group: u64) -> u64 {
    let (_, rest) = dump.split_once(&format!("\nGroup {group}: ")).unwrap();
    let line = rest.lines().find(|line| line.contains(" free blocks, ")).unwrap();
    line.trim().split(' ').next().unwrap().parse().unwrap()
}

/// Clears the bit of one used block after the other, and makes all counts and checksums agree with it.
fn assert_no_cleared_bit_is_believed(bed: &Bed, options: &[&str]) {
    let dir = temp_dir();
    let image = dir.path().join("image");
    make(&image, 16, &[options, &["-N", "400"]].concat());
    let mounted = bed.mount_image("ext4", &image, &["noatime"]);
    fill(mounted.path());
    mounted.unmount();
    debugfs(&image, &[format!("ea_set \"with attributes\" user.haul {}", "v".repeat(300))]);
    tools::assert_healthy(&image);
    let found = free(&Ext, &open(&image)).unwrap_or_else(|refusal| panic!("{options:?}: {refusal}"));
    let truly_free = free_by_dumpe2fs(&image);
    assert_eq!(found.free, truly_free, "{options:?}");
    let dump = run(Command::new("dumpe2fs").arg(&image));
    let fact = |name| fact(&dump, name).unwrap();
    let (block, blocks, first) = (fact("Block size"), fact("Block count"), fact("First block"));
    let (per_group, all) = (fact("Blocks per group"), fact("Free blocks"));
    let mut used: Vec<u64> = (first..blocks).filter(|number| !truly_free.contains(number * block)).collect();
    let mut noise = Noise::new(1);
    let mut by_inodes = 0;
    for _ in 0..TRIED.min(used.len() as u64) {
        let number = used.swap_remove(noise.below(used.len() as u64) as usize);
        let group = (number - first) / per_group;
        let before = free_of_group(&dump, group);
        let counts = |more: u64| {
            [
                format!("set_bg {group} free_blocks_count {}", before + more),
                format!("set_bg {group} checksum calc"),
                format!("set_super_value free_blocks_count {}", all + more),
            ]
        };
        debugfs(&image, &[&[format!("freeb {number}")][..], &counts(1)].concat());
        match free(&Ext, &open(&image)) {
            Err(Refusal::Corrupt(why)) if why.contains("an inode of") => by_inodes += 1,
            Err(Refusal::Corrupt(_)) => {}
            other => panic!("{options:?}, block {number}: {other:?}"),
        }
        debugfs(&image, &[&[format!("setb {number}")][..], &counts(0)].concat());
    }
    assert!(free(&Ext, &open(&image)).is_ok());
    println!("{options:?}: {by_inodes} of {TRIED} seen by the inodes alone");
    assert!(by_inodes > TRIED / 8, "{options:?}");
}

fn assert_none_is_believed(layouts: &[&[&str]]) {
    if !tools::tools() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    for options in layouts {
        assert_no_cleared_bit_is_believed(&bed, options);
    }
}

#[test]
fn a_used_block_of_ext2_or_ext3_that_its_bitmap_calls_free_is_not_believed() {
    assert_none_is_believed(&[
        &["-t", "ext3", "-b", "1024", "-I", "128", "-J", "size=1"],
        &["-t", "ext2", "-b", "1024", "-g", "2048"],
        &["-t", "ext2", "-b", "4096", "-r", "0", "-O", "none"],
    ]);
}

#[test]
fn a_used_block_of_ext4_without_checksums_of_bitmaps_that_its_bitmap_calls_free_is_not_believed() {
    assert_none_is_believed(&[
        &["-t", "ext4", "-b", "1024", "-I", "128", "-g", "4096", "-O", "^metadata_csum,uninit_bg,^has_journal"],
        &["-t", "ext4", "-b", "1024", "-O", "^metadata_csum,^uninit_bg,^64bit,^has_journal,inline_data"],
        &["-t", "ext4", "-b", "1024", "-O", "^metadata_csum,^has_journal,ea_inode,meta_bg,^resize_inode"],
    ]);
}

#[test]
fn a_healthy_filesystem_is_mapped_whatever_its_features() {
    if !tools::tools() {
        return;
    }
    let dir = temp_dir();
    let (image, files, bad) = (dir.path().join("image"), dir.path().join("files"), dir.path().join("bad"));
    fs::create_dir(&files).unwrap();
    fill(&files);
    // Blocks that are said to be bad, some of them beside each other, one where a copy of the superblock would be.
    fs::write(&bad, "5000\n5001\n5002\n7000\n9001\n").unwrap();
    let layouts: [&[&str]; 9] = [
        &["-t", "ext2", "-b", "1024", "-l", bad.to_str().unwrap()],
        &["-t", "ext3", "-b", "2048", "-O", "quota,project", "-I", "256"],
        &["-t", "ext3", "-o", "hurd"],
        &["-t", "ext4", "-O", "^metadata_csum,quota,project,casefold,encrypt,verity,large_dir,stable_inodes"],
        &["-t", "ext4", "-O", "^metadata_csum,orphan_file,inline_data,fast_commit,mmp"],
        &["-t", "ext4", "-O", "^metadata_csum,uninit_bg,quota", "-g", "1024", "-b", "1024"],
        &["-t", "ext4", "-O", "^metadata_csum,bigalloc,quota", "-C", "65536", "-b", "4096"],
        &["-t", "ext4", "-O", "^metadata_csum,^extent,^64bit,sparse_super2,^resize_inode", "-b", "1024"],
        &["-t", "ext4", "-O", "^metadata_csum,^extent,^64bit,^flex_bg", "-i", "1024", "-b", "1024"],
    ];
    for options in layouts {
        make(&image, 80, &[options, &["-d", files.to_str().unwrap()]].concat());
        let found = free(&Ext, &open(&image)).unwrap_or_else(|refusal| panic!("{options:?}: {refusal}"));
        assert_eq!(found.free, free_by_dumpe2fs(&image), "{options:?}");
    }
}

#[test]
fn a_map_of_blocks_that_leads_to_itself_costs_little() {
    if !tools::tools() {
        return;
    }
    let dir = temp_dir();
    let (image, files) = (dir.path().join("image"), dir.path().join("files"));
    fs::create_dir(&files).unwrap();
    fs::write(files.join("loop"), [1; 4096]).unwrap();
    fs::write(files.join("far"), [1; 4096]).unwrap();
    make(&image, 64, &["-t", "ext2", "-b", "4096", "-d", files.to_str().unwrap()]);
    assert!(free(&Ext, &open(&image)).is_ok());
    let block = run(Command::new("debugfs").args(["-R", "blocks loop"]).arg(&image)).trim().parse::<u32>().unwrap();
    // All pointers of the block, and of the last step of an inode, are to the block itself.
    let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
    file.write_all_at(&block.to_le_bytes().repeat(1024), u64::from(block) * 4096).unwrap();
    debugfs(&image, &[format!("set_inode_field far block[TIND] {block}")]);
    // Not more reads than there are blocks; followed to its end, the map would cost 4 TiB.
    let refusal = within(&open(&image), 1 << 14, 64 << 20, |image| free(&Ext, image)).unwrap_err();
    assert!(matches!(refusal, Refusal::Corrupt(_)), "{refusal}");
}

#[test]
fn files_that_were_deleted_while_open_do_not_hinder_the_map() {
    if !tools::tools() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    for options in [&["-t", "ext3"], &["-t", "ext4", "-O", "^metadata_csum"][..]] {
        let dir = temp_dir();
        let (image, frozen) = (dir.path().join("image"), dir.path().join("frozen"));
        make(&image, 64, options);
        let mounted = bed.mount_image("ext4", &image, &[]);
        let path = mounted.path().join("open");
        fs::write(&path, vec![7; 3 << 20]).unwrap();
        let open_file = File::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        run(Command::new("fsfreeze").arg("-f").arg(mounted.path()));
        fs::copy(&image, &frozen).unwrap();
        run(Command::new("fsfreeze").arg("-u").arg(mounted.path()));
        drop(open_file);
        mounted.unmount();
        let found = free(&Ext, &open(&frozen)).unwrap_or_else(|refusal| panic!("{options:?}: {refusal}"));
        assert_eq!(found.free, free_by_dumpe2fs(&frozen), "{options:?}");
    }
}
