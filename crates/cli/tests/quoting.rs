//! Names in messages are quoted byte for byte as the system's cp quotes them.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::Output;

use haul_testbed::{Command, temp_dir};

const LOCALES: [&str; 2] = ["C", "C.UTF-8"];

fn run(program: &str, locale: &str, dir: &Path, arguments: &[&OsStr]) -> Output {
    Command::new(program)
        .arg0("cp")
        .args(arguments)
        .current_dir(dir)
        .env_clear()
        .env("LC_ALL", locale)
        .output()
        .expect("the program can be run")
}

/// The lines that are printed; escaped names have no line breaks of their own.
fn lines(bytes: &[u8]) -> BTreeSet<&[u8]> {
    bytes.split(|byte| *byte == b'\n').collect()
}

/// Names of every length from 1, of bytes and characters that are quoted in some way or other.
fn names() -> BTreeSet<OsString> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut below = move |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % limit as u64).expect("below the limit")
    };
    let mut pieces: Vec<Vec<u8>> = (1..=255u8).filter(|byte| *byte != b'/').map(|byte| vec![byte]).collect();
    let characters = ["é", "’", "漢", "\u{85}", "\u{a0}", "\u{200b}", "\u{e000}", "😀", "\u{10ffff}", "e\u{301}"];
    pieces.extend(characters.iter().map(|character| character.as_bytes().to_vec()));
    pieces.extend([b"\xe6\xbc".to_vec(), b"\xed\xa0\x80".to_vec(), b"\xf4\x90\x80\x80".to_vec(), b"\xc0\xaf".to_vec()]);
    pieces.extend([b"'".to_vec(), b"a".to_vec(), b" ".to_vec(), b"'\\''".to_vec(), b"$'\\n'".to_vec()]);
    let mut names: BTreeSet<Vec<u8>> = pieces.iter().cloned().collect();
    names.extend(pieces.iter().map(|piece| [piece, &b"'"[..]].concat()));
    names.extend(pieces.iter().map(|piece| [&b"x"[..], piece, b"y"].concat()));
    names.extend(pieces.iter().map(|piece| [&b"x'"[..], piece, b"y"].concat()));
    while names.len() < 3000 {
        let count = 1 + below(8);
        names.insert((0..count).flat_map(|_| pieces[below(pieces.len())].clone()).collect());
    }
    let is_name = |name: &Vec<u8>| !name.is_empty() && name != b"." && name != b"..";
    names.into_iter().filter(is_name).map(OsString::from_vec).collect()
}

#[test]
fn names_in_quotes_are_cps() {
    let dir = temp_dir();
    let source = dir.path().join("source");
    fs::create_dir(&source).expect("a directory can be made");
    let names = names();
    for name in &names {
        fs::write(source.join(name), b"").expect("the name is possible");
    }
    for locale in LOCALES {
        let copy = |program: &str| {
            let output = run(program, locale, dir.path(), &["-rv", "source", "dest"].map(OsStr::new));
            assert!(output.status.success(), "{output:?}");
            fs::remove_dir_all(dir.path().join("dest")).expect("the copy can be removed");
            output.stdout
        };
        let (ours, theirs) = (copy(env!("CARGO_BIN_EXE_haul")), copy("/bin/cp"));
        let (ours, theirs) = (lines(&ours), lines(&theirs));
        assert!(theirs.len() > names.len(), "cp names each file");
        let wrong = ours.symmetric_difference(&theirs).map(|line| String::from_utf8_lossy(line)).collect::<Vec<_>>();
        assert!(wrong.is_empty(), "{locale}: {:#?}", &wrong[..wrong.len().min(10)]);
    }
}

#[test]
fn names_that_are_quoted_only_if_needed_are_cps() {
    let dir = temp_dir();
    fs::create_dir(dir.path().join("dest")).expect("a directory can be made");
    let names = names();
    for name in &names {
        fs::write(dir.path().join(name), b"").expect("the name is possible");
    }
    let mut arguments: Vec<&OsStr> = ["-s", "-t", "dest", "--"].map(OsStr::new).to_vec();
    arguments.extend(names.iter().map(OsString::as_os_str));
    for locale in LOCALES {
        // "NAME: can make relative symbolic links only in current directory", for each of them.
        let said = |program: &str| run(program, locale, dir.path(), &arguments).stderr;
        let (ours, theirs) = (said(env!("CARGO_BIN_EXE_haul")), said("/bin/cp"));
        let (ours, theirs) = (lines(&ours), lines(&theirs));
        assert!(theirs.len() > names.len(), "cp names each file");
        let wrong = ours.symmetric_difference(&theirs).map(|line| String::from_utf8_lossy(line)).collect::<Vec<_>>();
        assert!(wrong.is_empty(), "{locale}: {:#?}", &wrong[..wrong.len().min(10)]);
    }
}
