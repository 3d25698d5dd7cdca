//! The committed manual page is the one that the help texts give, and its readers accept it.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

use haul_testbed::{Command, skip};

#[test]
fn the_committed_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../generated/haul-lab.1");
    let page = haul_lab::manual();
    if std::env::var_os("HAUL_REGENERATE").is_some_and(|value| value == "1") {
        fs::write(&path, &page).expect("the page can be written");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == page,
        "generated/haul-lab.1 is stale: run HAUL_REGENERATE=1 cargo test -p haul-lab --test manual"
    );
}

#[test]
fn man_and_mandoc_have_no_complaint() {
    let dir = haul_testbed::temp_dir();
    let page = dir.path().join("haul-lab.1");
    fs::write(&page, haul_lab::manual()).expect("the page can be written");
    let page = page.to_str().expect("temporary names are ASCII");
    for words in [&["man", "--warnings=w", "--local-file", page][..], &["mandoc", "-Tlint", "-Wwarning", page]] {
        match Command::new(words[0]).args(&words[1..]).env("MANWIDTH", "100").env("LC_ALL", "C.UTF-8").output() {
            Ok(output) => {
                let said = String::from_utf8_lossy(if words[0] == "man" { &output.stderr } else { &output.stdout });
                assert!(output.status.success() && said.is_empty(), "{words:?}: {said}");
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                skip(format!("{} is not installed", words[0]))
            }
            Err(error) => panic!("{words:?}: {error}"),
        }
    }
}
