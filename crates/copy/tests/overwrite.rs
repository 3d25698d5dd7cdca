//! Overwriting a file by sharing extents: all of it, or nothing of it.

mod support;

use std::fs;
use std::path::Path;

use haul_copy::plan::{DataOptions, Destination, Plan, Reflink};
use haul_copy::run::Cancel;
use haul_testbed::{Bed, Command, Fs, assert_same_contents, painted, temp_dir};
use support::copy;

fn plan(source: &Path, dest: &Path) -> Plan {
    Plan {
        sources: vec![source.into()],
        destination: Destination::Exactly(dest.into()),
        data: DataOptions { reflink: Reflink::Always, ..DataOptions::default() },
        ..Plan::default()
    }
}

#[test]
fn a_longer_file_is_replaced_whole_when_extents_are_shared() {
    let Some(bed) = Bed::new() else { return };
    for kind in [Fs::Xfs, Fs::Btrfs] {
        let Some(dir) = bed.mount(kind) else { continue };
        for len in [0, 1, 4096, 10_000] {
            let (source, dest) = (dir.join("source"), dir.join("dest"));
            fs::write(&source, painted(len)).unwrap();
            fs::write(&dest, vec![9; 50_000]).unwrap();
            let (summary, problems) = copy(&plan(&source, &dest), &Cancel::default(), |_| {});
            assert!(!summary.failed, "{problems:?}");
            assert_same_contents(&source, &dest);
        }
    }
}

#[test]
fn a_file_that_cannot_share_stays_as_it_was() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = bed.mount(Fs::Xfs) else { return };
    let elsewhere = temp_dir();
    let (source, dest) = (dir.join("source"), elsewhere.path().join("dest"));
    fs::write(&source, painted(10_000)).unwrap();
    fs::write(&dest, "precious").unwrap();
    let (summary, problems) = copy(&plan(&source, &dest), &Cancel::default(), |_| {});
    assert!(summary.failed && summary.damaged.is_empty(), "{problems:?}");
    assert_eq!(fs::read(&dest).unwrap(), b"precious");
}

#[test]
fn a_file_without_checksums_that_cannot_share_stays_as_it_was() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = bed.mount(Fs::Btrfs) else { return };
    let (source, dest) = (dir.join("source"), dir.join("dest"));
    fs::write(&source, painted(100_000)).unwrap();
    fs::File::create(&dest).unwrap();
    let set = Command::new("chattr").arg("+C").arg(&dest).status().unwrap();
    assert!(set.success());
    fs::write(&dest, vec![9; 50_000]).unwrap();
    let (summary, problems) = copy(&plan(&source, &dest), &Cancel::default(), |_| {});
    assert!(summary.failed && summary.damaged.is_empty(), "{problems:?}");
    assert_eq!(fs::read(&dest).unwrap(), vec![9; 50_000]);
}
