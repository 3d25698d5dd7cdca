//! NTFS that is nothing but its table: files so small that they are in their records.

mod support;

use std::fs::{self, File};

use haul_guest::fs::ntfs::Ntfs;
use haul_guest::fs::{FreeMap, Options};
use haul_guest::image::Session;
use haul_guest::{Budget, Refusal};
use haul_testbed::guest::{has, run};
use haul_testbed::{Bed, Command, temp_dir};
use support::{free, open};

const MIB: u64 = 1 << 20;

#[test]
fn a_table_that_is_longer_than_a_budget_is_read_if_its_records_are_there() {
    if !["mkfs.ntfs", "ntfs-3g"].into_iter().all(has) {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let image = dir.path().join("image");
    File::create(&image).unwrap().set_len(24 * MIB).unwrap();
    run(Command::new("mkfs.ntfs").args(["-q", "-F", "-f"]).arg(&image));
    let mounted = bed.mount_fuse("ntfs-3g", &image, &[]);
    for number in 0..4000 {
        fs::write(mounted.path().join(format!("{number}")), [7; 600]).unwrap();
    }
    mounted.unmount();
    let file = open(&image);
    let found = free(&Ntfs, &file).unwrap();
    let with = |returning: u64| {
        // Half of what the table takes.
        let session = Session::new(&file, Budget::new(2 * MIB, 1 << 12, 1 << 12).returning(returning));
        Ntfs.free(&session.view(), &Options::default()).map(|found| found.free)
    };
    assert_eq!(with(0), Err(Refusal::Budget("bytes of metadata")));
    assert_eq!(with(8 * MIB), Ok(found.free));
}
