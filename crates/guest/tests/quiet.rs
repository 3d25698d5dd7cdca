//! A mistake in a parser ends nothing and says nothing on stderr.

mod support;

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;

use haul_guest::container::{self, Alone};
use haul_guest::fs::{Findings, FreeMap, Options};
use haul_guest::{ReadAt, Refusal, Verdict, View, map_with};
use haul_testbed::Command;
use support::disk::{assert_sane, blank};

struct Panics;

impl FreeMap for Panics {
    fn name(&self) -> &'static str {
        "panics"
    }

    fn detect(&self, _: &View<'_>) -> Result<bool, Refusal> {
        Ok(true)
    }

    fn free(&self, _: &View<'_>, _: &Options) -> Result<Findings, Refusal> {
        panic!("a forgery that nobody thought of")
    }
}

/// Whatever it is asked.
struct PanickingFile;

impl ReadAt for PanickingFile {
    fn size(&self) -> u64 {
        1 << 20
    }

    fn read_exact_at(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
        panic!("a file that nobody thought of")
    }
}

const INSIDE: &str = "HAUL_TEST_OF_PANICS";

#[test]
fn a_parser_that_panics_refuses_and_prints_nothing() {
    if std::env::var_os(INSIDE).is_none() {
        let this = "a_parser_that_panics_refuses_and_prints_nothing";
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", this, "--nocapture"]).env(INSIDE, "1").env("RUST_BACKTRACE", "1");
        let done = child.output().unwrap();
        assert!(done.status.success(), "{done:?}");
        let said = String::from_utf8_lossy(&done.stderr);
        // Other panics are still reported.
        assert!(said.contains("a panic of somebody else") && !said.contains("nobody thought of"), "{said}");
        return;
    }
    let map = map_with(&blank(1 << 20), &Options::default(), &[&Panics]);
    assert_sane(&map);
    assert_eq!(map.regions[0].verdict, Verdict::Refused(Refusal::Internal));
    let map = map_with(&PanickingFile, &Options::default(), &[]);
    assert_sane(&map);
    assert_eq!(map.regions[0].verdict, Verdict::Refused(Refusal::Internal));
    let opened = container::open(Arc::new(PanickingFile), OsStr::new("disk"), &Alone);
    assert_eq!(opened.err(), Some(Refusal::Internal));
    let raw = container::open_raw(Arc::new(PanickingFile), OsStr::new("disk")).unwrap();
    assert!(raw.disk.read_exact_at(0, &mut [0; 512]).is_err());
    let other = std::panic::catch_unwind(|| panic!("a panic of somebody else"));
    assert!(other.is_err());
}
