//! Swap areas as mkswap makes them, for every size of page, and what blkid thinks of them.

mod support;

use std::fs::{self, File};
use std::path::PathBuf;

use haul_guest::fs::swap::Swap;
use haul_guest::{ExtentSet, Refusal};
use haul_testbed::guest::{Noise, has, run, write_noise};
use haul_testbed::{Command, TempDir, temp_dir};
use support::{Pages, assert_sound, copy_without, free, open};

const MIB: u64 = 1 << 20;
const KEPT: u64 = 64 << 10;

/// A swap area whose pages hold what was swapped out.
fn swap(size: u64, options: &[&str]) -> (TempDir, PathBuf) {
    let dir = temp_dir();
    let path = dir.path().join("image");
    write_noise(&path, size, &mut Noise::new(size));
    run(Command::new("mkswap").args(options).arg(&path));
    (dir, path)
}

/// Type, name and UUID, as blkid tells them.
fn identity(path: &std::path::Path) -> String {
    run(Command::new("blkid").args(["-p", "-o", "export", "-s", "TYPE", "-s", "UUID", "-s", "LABEL"]).arg(path))
        .lines()
        .filter(|line| !line.starts_with("DEVNAME"))
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn a_swap_area_keeps_its_identity_and_nothing_else() {
    if !has("mkswap") || !has("blkid") {
        return;
    }
    for page in ["4096", "8192", "16384", "32768", "65536"] {
        let (dir, path) = swap(4 * MIB, &["-p", page, "-L", "a name"]);
        let found = free(&Swap, &open(&path)).unwrap();
        assert_eq!(found.free, ExtentSet::of(KEPT..4 * MIB));
        assert_eq!(found.dropped, found.free.bytes());
        let copy = dir.path().join("copy");
        copy_without(&path, &found.free, &copy);
        assert!(identity(&path).contains("TYPE=swap"), "{}", identity(&path));
        assert_eq!(identity(&copy), identity(&path));
        let (before, after) = (fs::read(&path).unwrap(), fs::read(&copy).unwrap());
        assert_eq!(before[..KEPT as usize], after[..KEPT as usize]);
    }
}

#[test]
fn a_swap_area_fills_its_region_but_for_less_than_a_page() {
    if !has("mkswap") {
        return;
    }
    let (_dir, path) = swap(4 * MIB + 1000, &[]);
    assert_eq!(free(&Swap, &open(&path)).unwrap().free, ExtentSet::of(KEPT..4 * MIB));
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(5 * MIB).unwrap();
    assert!(matches!(free(&Swap, &open(&path)), Err(Refusal::Unsupported(_))));
    // The largest pages leave the most.
    drop(file);
    let size = 5 * MIB - 4096;
    let (_dir, path) = swap(size, &["-p", "65536"]);
    assert_eq!(free(&Swap, &open(&path)).unwrap().free, ExtentSet::of(KEPT..size / KEPT * KEPT));
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(4 * MIB - 1).unwrap();
    assert!(free(&Swap, &open(&path)).is_err());
}

#[test]
fn a_swap_area_for_two_sizes_of_pages_or_of_another_machine_is_refused() {
    if !has("mkswap") {
        return;
    }
    let (_dir, path) = swap(4 * MIB, &[]);
    let mut bytes = fs::read(&path).unwrap();
    bytes[65526..65536].copy_from_slice(b"SWAPSPACE2");
    assert!(matches!(free(&Swap, &bytes), Err(Refusal::Unsupported(_))));
    let mut big = fs::read(&path).unwrap();
    for field in [1024, 1028, 1032] {
        big[field..field + 4].reverse();
    }
    assert!(matches!(free(&Swap, &big), Err(Refusal::Unsupported(_))));
}

#[test]
fn a_hibernated_system_is_kept_whole() {
    if !has("mkswap") || !has("blkid") {
        return;
    }
    let (_dir, path) = swap(4 * MIB, &[]);
    let clean = fs::read(&path).unwrap();
    for signature in [b"S1SUSPEND\0", b"S2SUSPEND\0", b"ULSUSPEND\0", b"LINHIB0001"] {
        let mut bytes = clean.clone();
        bytes[4086..4096].copy_from_slice(signature);
        fs::write(&path, &bytes).unwrap();
        // The second opinion.
        assert!(identity(&path).contains("TYPE=swsuspend"), "{signature:?}: {}", identity(&path));
        assert!(matches!(free(&Swap, &bytes), Err(Refusal::Dirty(_))));
    }
}

#[test]
fn mutated_headers_are_refused_or_right() {
    if !has("mkswap") {
        return;
    }
    for (seed, page) in ["4096", "65536"].into_iter().enumerate() {
        let (_dir, path) = swap(4 * MIB, &["-p", page]);
        let image = Pages::of(&open(&path), std::iter::once(0..KEPT));
        let truth = ExtentSet::of(KEPT..4 * MIB);
        let bytes: u64 = page.parse().unwrap();
        let counts = assert_sound(&Swap, &image, &truth, &[1024..1600, bytes - 16..bytes], 5000, |_| ());
        println!("{seed}: pages of {page}: {counts:?}");
    }
}
