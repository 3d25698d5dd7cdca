//! `haul-lab probe` on filesystems of which it is known what they can do.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

use haul_lab::results::{Body, Results};
use haul_testbed::{Bed, Command, Fs, temp_dir};

const LAB: &str = env!("CARGO_BIN_EXE_haul-lab");

fn probe(dir: &Path) -> Results {
    let output = Command::new(LAB).args(["probe", "--json"]).arg(dir).output().expect("it can be run");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(fs::read_dir(dir).unwrap().filter(|entry| is_ours(entry.as_ref().unwrap())).count(), 0);
    serde_json::from_slice(&output.stdout).expect("it says JSON")
}

fn is_ours(entry: &fs::DirEntry) -> bool {
    entry.file_name().to_string_lossy().contains("haul")
}

/// The value of a fact.
fn fact<'a>(results: &'a Results, detail: &str, name: &str) -> &'a str {
    let section = results.section("probe").expect("it is there");
    let Some(Body::Facts { rows }) = section.detail(detail) else { panic!("no {detail}") };
    let row = rows.iter().find(|row| row.0 == name);
    &row.unwrap_or_else(|| panic!("no {name} in {rows:?}")).1
}

/// The version of the running kernel.
fn kernel() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).filter_map(|text| text.parse().ok());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

#[test]
fn what_is_found_is_what_is_known_of_each_filesystem() {
    let Some(bed) = Bed::new() else { return };
    for kind in [Fs::Ext4, Fs::Xfs, Fs::XfsNoReflink, Fs::Btrfs, Fs::Tmpfs] {
        let Some(dir) = bed.small(kind, 64 << 20) else { continue };
        let results = probe(&dir);
        let works = |name: &str| match fact(&results, "works", name) {
            "yes" => true,
            "no" => false,
            other => panic!("{name}: {other}"),
        };
        let name = kind.name();
        assert_eq!(fact(&results, "filesystem", "type"), kind.kernel_type());
        assert_eq!(works("reflink"), kind.reflinks(), "{name}");
        let on_device = kind != Fs::Tmpfs;
        assert_eq!(fact(&results, "filesystem", "identity").starts_with("uuid:"), on_device, "{name}");
        assert_eq!(fact(&results, "device", if on_device { "name" } else { "device" }) == "none", !on_device, "{name}");
        for all in ["read-write", "splice", "mmap of a source", "copy_file_range"] {
            assert!(works(all), "{name}: {all}");
        }
        for all in ["sparse files", "SEEK_HOLE", "punch hole", "fallocate", "hard links", "symbolic links", "FIFOs"] {
            assert!(works(all), "{name}: {all}");
        }
        for all in ["device nodes", "O_TMPFILE", "RENAME_NOREPLACE", "RENAME_EXCHANGE"] {
            assert!(works(all), "{name}: {all}");
        }
        assert_eq!(fact(&results, "works", "granularity of times"), "1 ns", "{name}");
        // Linux 6.6 gave tmpfs direct I/O (which it does not do) and user attributes.
        let modern = on_device || kernel() >= (6, 6);
        assert_eq!((works("open with O_DIRECT"), works("extended attributes")), (modern, modern), "{name}");
        // Only where its alignment is known can haul use it.
        let known = fact(&results, "filesystem", "alignment of direct I/O") != "unknown";
        assert_eq!(works("O_DIRECT"), known, "{name}");
        let choice = fact(&results, "choices", "256 MiB, cached");
        assert_eq!(choice.starts_with("clone"), kind.reflinks(), "{name}: {choice}");
        let large = fact(&results, "choices", "4 GiB, cold");
        assert_eq!(large.contains("direct, then"), known, "{name}: {large}");
    }
}

#[test]
fn it_needs_no_privilege_and_shows_what_haul_would_do_and_why() {
    let dir = temp_dir();
    let output = Command::new(LAB).arg("probe").arg(dir.path()).output().expect("it can be run");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    for words in
        ["What haul would choose", "1 KiB", "4 GiB, cold", "RENAME_EXCHANGE", "processors", "one read and one write"]
    {
        assert!(text.contains(words), "{words}\n{text}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_directory_that_cannot_be_written_to_is_refused_by_name() {
    let output = Command::new(LAB).args(["probe", "/no/such/place"]).output().expect("it can be run");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && message.contains("/no/such/place"), "{message}");
}
