//! What a damaged container can do without, as it says, is nothing that the rest of its disk needs.

use haul_guest::ExtentSet;
use haul_guest::container::Opened;
use haul_guest::image::ReadAt;
use haul_testbed::guest::{Noise, has};
use haul_testbed::temp_dir;

use crate::bench::{FORMATS, make_raw};
use crate::hostile::{Files, mutate, repair, tables};

/// Pieces of a disk, with what cannot be read as nothing.
fn pieces(opened: &Opened) -> Vec<Option<Vec<u8>>> {
    let size = opened.disk.size();
    let read = |at: u64| {
        let mut piece = vec![0; (size - at).min(4096) as usize];
        opened.disk.read_exact_at(at, &mut piece).is_ok().then_some(piece)
    };
    (0..size).step_by(4096).map(read).collect()
}

#[test]
fn what_is_left_out_of_a_damaged_container_changes_nothing_else_of_its_disk() {
    if !has("qemu-img") {
        return;
    }
    let dir = temp_dir();
    let raw = dir.path().join("raw");
    make_raw(&raw, 2 << 20, 8);
    let (mut refused, mut kept_whole, mut accepted) = (0, 0, 0);
    for format in FORMATS.iter().filter(|format| format.name != "raw" && !format.options.contains("full")) {
        let whole = Files::of(&format.make(&raw, dir.path()));
        let places = tables(&whole.open().unwrap());
        let rounds = if whole.0.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() > 6 << 20 { 20 } else { 150 };
        for round in 0..rounds {
            let mut noise = Noise::new(round + 1000);
            let mut files = Files(whole.0.clone());
            mutate(&mut files, &places, &mut noise);
            repair(*format, &mut files.0[0].1);
            let Ok(before) = files.open() else {
                refused += 1;
                continue;
            };
            if before.disk.size() > 4 << 20 {
                continue;
            }
            let free = ExtentSet::from_ranges((0..20).map(|_| {
                let start = noise.below(before.disk.size().max(1)) / 512 * 512;
                start..(start + noise.below(100_000) / 512 * 512).min(before.disk.size())
            }));
            let Some(host) = before.disk.host_ranges(&free) else {
                kept_whole += 1;
                continue;
            };
            assert!(host.held.is_subset_of(&free));
            for ((_, bytes), left_out) in files.0.iter_mut().zip(&host.files) {
                for extent in left_out.iter() {
                    bytes[extent.start as usize..extent.end() as usize].fill(0);
                }
            }
            let after = files.open().unwrap_or_else(|refusal| panic!("{format:?}, round {round}: {refusal}"));
            for (number, (old, new)) in pieces(&before).into_iter().zip(pieces(&after)).enumerate() {
                let start = number as u64 * 4096;
                let old = old.map(|mut old| {
                    for gone in host.held.between(start..start + old.len() as u64) {
                        old[(gone.start - start) as usize..(gone.end() - start) as usize].fill(0);
                    }
                    old
                });
                assert!(old == new, "{format:?}, round {round}: the disk at {start}");
            }
            accepted += 1;
        }
    }
    println!("{refused} refused, {kept_whole} kept whole, {accepted} lack only what they can do without");
    assert!(refused > 300 && accepted > 300);
}
