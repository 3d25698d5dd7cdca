//! ext4 that was copied while mounted, with fast commits to replay.

mod support;
#[path = "support/ext.rs"]
mod tools;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

use haul_guest::fs::Findings;
use haul_guest::fs::ext::Ext;
use haul_testbed::guest::{Noise, digests, flush, live_through, run, write_noise};
use haul_testbed::{Bed, Command, TempDir, temp_dir};
use support::{free, open};
use tools::make;

const MIB: u64 = 1 << 20;

type Files = BTreeMap<PathBuf, (u64, u64)>;

/// A mounted ext4 that writes no transaction by itself.
struct Live {
    dir: TempDir,
    mounted: haul_testbed::guest::Mounted,
    noise: Noise,
}

impl Live {
    fn new(bed: &Bed, options: &[&str]) -> Live {
        let dir = temp_dir();
        let image = dir.path().join("image");
        make(&image, 64, &[&["-t", "ext4"], options].concat());
        let mounted = bed.mount_image("ext4", &image, &["noatime,commit=600"]);
        live_through(mounted.path(), 4 * MIB, 1);
        let mut noise = Noise::new(2);
        let old = mounted.path().join("old");
        fs::create_dir(&old).unwrap();
        for number in 0..40 {
            write_noise(&old.join(format!("{number}")), noise.below(60_000) + 1, &mut noise);
        }
        flush(mounted.path());
        Live { dir, mounted, noise }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.mounted.path().join(name)
    }

    fn append(&mut self, name: &str, len: usize) {
        let mut file = File::options().append(true).create(true).open(self.path(name)).unwrap();
        file.write_all(&self.noise.bytes(len)).unwrap();
        file.sync_all().unwrap();
    }

    /// Writes single blocks with holes between them, so that each is an extent, and syncs them together.
    fn scatter(&mut self, name: &str, blocks: u64) {
        let file = File::options().write(true).create(true).truncate(false).open(self.path(name)).unwrap();
        for block in 0..blocks {
            file.write_all_at(&self.noise.bytes(4096), block * 8192).unwrap();
        }
        file.sync_all().unwrap();
    }

    fn sync(&self, name: &str) {
        File::open(self.path(name)).unwrap().sync_all().unwrap();
    }

    /// Takes the image as it is now, with what is proven free.
    ///
    /// Whoever calls sync(2) on this machine writes a transaction at any moment, and fast commits begin anew behind it.
    fn taken(&mut self, whole: &Path, what: &str) -> Findings {
        let mut last = String::new();
        for _ in 0..5 {
            fs::copy(self.dir.path().join("image"), whole).unwrap();
            match free(&Ext, &open(whole)) {
                Ok(found) if found.evidence.iter().any(|words| words.contains("fast commits")) => return found,
                Ok(found) => last = format!("{:?}", found.evidence),
                Err(refusal) => last = refusal.to_string(),
            }
            self.append("old/again", 30_000);
        }
        panic!("{what}: {last}");
    }

    /// It must be mapped, with fast commits in it; and a copy with noise for what was skipped must hold the same as the
    /// whole image, whoever replays both.
    fn assert_copied(&mut self, bed: &Bed, what: &str) -> Findings {
        let [whole, copy] = ["whole", "copy"].map(|name| self.dir.path().join(name));
        let found = self.taken(&whole, what);
        assert!(found.free.bytes() > 20 * MIB, "{what}: {} MiB free", found.free.bytes() / MIB);
        fs::copy(&whole, &copy).unwrap();
        let file = File::options().write(true).open(&copy).unwrap();
        for extent in found.free.iter() {
            file.write_all_at(&vec![0xa5; extent.len as usize], extent.start).unwrap();
        }
        drop(file);
        for by in [By::E2fsck, By::Kernel] {
            let (expected, files) = (replayed(bed, &whole, by), replayed(bed, &copy, by));
            let wrong: Vec<_> = expected.0.iter().filter(|(path, digest)| files.0.get(*path) != Some(digest)).collect();
            assert!(wrong.is_empty(), "{what}: wrong in the copy after the replay by {by:?}: {wrong:?}");
            assert_eq!(files.0.len(), expected.0.len(), "{what}, {by:?}");
            assert_eq!(files.1, expected.1, "{what}: what e2fsck finds after the replay by {by:?}");
            // The kernel's own replay leaves damage where there are clusters, as e2fsck's does elsewhere.
            let healthy = files.1.ends_with("blocks\n") && files.1.lines().count() == 6;
            assert!(healthy || what.contains("bigalloc") || matches!(by, By::E2fsck), "{what}: {}", files.1);
        }
        println!("{what}: {:?}, {} MiB free", found.evidence, found.free.bytes() / MIB);
        found
    }
}

/// Who replays a journal.
#[derive(Debug, Clone, Copy)]
enum By {
    Kernel,
    E2fsck,
}

/// The files after a replay of the journal, which leaves the image as it is, and what e2fsck finds then.
fn replayed(bed: &Bed, image: &Path, by: By) -> (Files, String) {
    let scratch = image.with_extension("replayed");
    fs::copy(image, &scratch).unwrap();
    let files = match by {
        By::Kernel => {
            let mounted = bed.mount_image("ext4", &scratch, &[]);
            let files = digests(mounted.path());
            mounted.unmount();
            files
        }
        // Release 1.47.0 leaves some that do not mount; debugfs reads what there is.
        By::E2fsck => {
            tools::replay(&scratch);
            let dir = temp_dir();
            run(Command::new("debugfs").arg("-R").arg(format!("rdump / {}", dir.path().display())).arg(&scratch));
            digests(dir.path())
        }
    };
    let checked = Command::new("e2fsck").arg("-fn").arg(&scratch).output().unwrap();
    let said = String::from_utf8_lossy(&checked.stdout).replace(scratch.to_str().unwrap(), "IMAGE");
    (files, said)
}

fn bed() -> Option<Bed> {
    if tools::tools() { Bed::new() } else { None }
}

/// Linux 6.18 does not mount what has its whole area of fast commits in use, so they all have room for more.
const LAYOUTS: [&[&str]; 4] = [
    &["-O", "fast_commit", "-b", "4096", "-J", "size=16,fast_commit_size=1024"],
    &["-O", "fast_commit", "-b", "1024", "-g", "4096"],
    &["-O", "fast_commit,^metadata_csum,^uninit_bg,^64bit"],
    &["-O", "fast_commit,bigalloc,inline_data", "-C", "16384", "-I", "256"],
];

#[test]
fn files_of_fast_commits_are_not_lost() {
    let Some(bed) = bed() else { return };
    for options in LAYOUTS {
        let mut live = Live::new(&bed, options);
        let what = |moment: &str| format!("{options:?}, {moment}");
        live.append("old/1", 3_000_000);
        live.assert_copied(&bed, &what("a longer file"));
        for number in 0..30 {
            live.append(&format!("old/new-{number}"), 50_000);
        }
        let found = live.assert_copied(&bed, &what("new files"));
        let files = digests(live.mounted.path());
        let image = live.dir.path().join("whole");
        let mounted = bed.mount_image("ext4", &image, &[]);
        assert_eq!(digests(mounted.path()), files, "{options:?}: the replay itself: {:?}", found.evidence);
        mounted.unmount();
        live.append("old/tiny", 20);
        fs::hard_link(live.path("old/2"), live.path("old/linked")).unwrap();
        fs::remove_file(live.path("old/3")).unwrap();
        fs::rename(live.path("old/4"), live.path("old/renamed")).unwrap();
        symlink("old/2", live.path("old/short")).unwrap();
        symlink("long/".repeat(40), live.path("old/long")).unwrap();
        live.sync("old/2");
        File::options().write(true).open(live.path("old/5")).unwrap().set_len(10).unwrap();
        live.append("old/5", 100_000);
        live.append("old/renamed", 10);
        live.assert_copied(&bed, &what("names and lengths"));
    }
}

#[test]
fn trees_of_extents_of_fast_commits_are_not_lost() {
    let Some(bed) = bed() else { return };
    for options in LAYOUTS {
        let mut live = Live::new(&bed, options);
        // One with nodes in the last transaction, which grows, and one of which nothing is there.
        live.scatter("old/1", 600);
        flush(live.mounted.path());
        live.scatter("old/2", 50);
        live.scatter("old/1", 900);
        live.assert_copied(&bed, &format!("{options:?}"));
        live.scatter("old/fresh", 700);
        live.assert_copied(&bed, &format!("{options:?}, more"));
    }
}

#[test]
fn files_made_after_others_were_deleted_are_not_lost() {
    let Some(bed) = bed() else { return };
    for options in LAYOUTS {
        let mut live = Live::new(&bed, options);
        for number in 0..10 {
            live.append(&format!("old/a-{number}"), 90_000);
        }
        flush(live.mounted.path());
        for number in 0..10 {
            fs::remove_file(live.path(&format!("old/a-{number}"))).unwrap();
            live.append(&format!("old/b-{number}"), 70_000);
        }
        live.assert_copied(&bed, &format!("{options:?}"));
    }
}

#[test]
fn fast_commits_that_were_torn_are_refused_or_harmless() {
    let Some(bed) = bed() else { return };
    let mut live = Live::new(&bed, LAYOUTS[0]);
    let image = live.dir.path().join("torn");
    let has_two = |found: &Findings| found.evidence.iter().any(|words| words.ends_with("and 2 fast commits"));
    // Somebody else's sync(2) may come between the two.
    let found = (0..20).find_map(|_| {
        flush(live.mounted.path());
        live.append("old/1", 300_000);
        live.append("old/2", 300_000);
        Some(live.taken(&image, "torn")).filter(has_two)
    });
    let whole = found.expect("two fast commits").free;
    let blocks = journal(&image);
    let area = blocks.len() - fast_blocks(&image);
    let file = File::options().read(true).write(true).open(&image).unwrap();
    // The second commit: its tail is wrong, so that nobody believes it. What it names is kept all the same.
    let (first, second) = (blocks[area + 1] * 4096, blocks[area + 2] * 4096);
    let flip = |at: u64| {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    };
    flip(second + 60);
    let found = free(&Ext, &open(&image)).unwrap();
    assert!(found.evidence.iter().any(|words| words.contains("and 1 fast commits")), "{:?}", found.evidence);
    assert_eq!(found.free, whole);
    flip(first + 60);
    assert!(free(&Ext, &open(&image)).is_err(), "the first one is torn");
}

/// The blocks of the journal.
fn journal(image: &Path) -> Vec<u64> {
    let list = run(Command::new("debugfs").args(["-R", "blocks <8>"]).arg(image));
    list.split_whitespace().map(|block| block.parse().unwrap()).collect()
}

fn fast_blocks(image: &Path) -> usize {
    let dump = run(Command::new("dumpe2fs").arg("-h").arg(image));
    tools::fact(&dump, "Fast commit length").unwrap() as usize
}
