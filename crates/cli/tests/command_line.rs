//! Command lines that fail: haul, called as cp, answers as the system's cp does, byte for byte.
#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Output, Stdio};

use haul_testbed::{Command, skip, temp_dir};

const REFERENCE: &str = "/bin/cp";

/// Runs a program under the name `name` in an empty directory.
fn run(program: &str, name: &str, environment: &[(&str, &str)], arguments: &[OsString], dir: &Path) -> Output {
    Command::new(program)
        .arg0(name)
        .args(arguments)
        .current_dir(dir)
        .env_clear()
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()
        .expect("the program can be run")
}

/// What the cp of the reference says where this one has other words.
fn in_words_of_9_10(stderr: &[u8]) -> Vec<u8> {
    const OLD: &[u8] = b"options --backup and --no-clobber are mutually exclusive\n";
    const NEW: &[u8] = b"--backup is mutually exclusive with -n or --update=none-fail\n";
    match stderr.windows(OLD.len()).position(|words| words == OLD) {
        Some(at) => [&stderr[..at], NEW, &stderr[at + OLD.len()..]].concat(),
        None => stderr.to_vec(),
    }
}

/// Compares what both say to a command line that they must refuse.
struct Comparison {
    dir: haul_testbed::TempDir,
    compared: usize,
}

impl Comparison {
    /// `None` where there is no cp of the version whose words are matched.
    fn new() -> Option<Comparison> {
        let version = Command::new(REFERENCE).arg("--version").output().expect("there is a cp").stdout;
        if !version.starts_with(b"cp (GNU coreutils) 9.1\n") {
            skip("the system's cp is not GNU cp 9.1, whose words are expected");
            return None;
        }
        Some(Comparison { dir: temp_dir(), compared: 0 })
    }

    fn check_as(&mut self, name: &str, environment: &[(&str, &str)], arguments: &[OsString]) {
        let ours = run(env!("CARGO_BIN_EXE_haul"), name, environment, arguments, self.dir.path());
        let theirs = run(REFERENCE, name, environment, arguments, self.dir.path());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let expected = in_words_of_9_10(&theirs.stderr);
        assert_eq!(
            (text(&ours.stderr), ours.status.code(), text(&ours.stdout)),
            (text(&expected), theirs.status.code(), text(&theirs.stdout)),
            "{environment:?} {arguments:?}: haul, then cp"
        );
        assert_eq!(ours.stderr, expected, "{environment:?} {arguments:?}");
        assert_eq!(theirs.status.code(), Some(1), "{arguments:?} was meant to be refused");
        self.compared += 1;
    }

    /// In both kinds of locale.
    fn check(&mut self, environment: &[(&str, &str)], arguments: &[OsString]) {
        for locale in ["C", "C.UTF-8"] {
            let mut environment = environment.to_vec();
            environment.push(("LC_ALL", locale));
            self.check_as("cp", &environment, arguments);
        }
    }

    fn check_line(&mut self, line: &str) {
        let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        self.check(&[], &arguments);
    }
}

#[test]
fn every_abbreviation_with_and_without_argument_is_judged_as_cp_does() {
    let Some(mut comparison) = Comparison::new() else { return };
    let names = haul_frontend::flags::CP_ORDER;
    let mut prefixes: Vec<&str> = names.iter().flat_map(|name| (0..=name.len()).map(move |end| &name[..end])).collect();
    prefixes.sort_unstable();
    prefixes.dedup();
    // `--` alone ends the options, and help and version end all.
    let ends_all = |prefix: &str| {
        !prefix.is_empty() && ("help".starts_with(prefix) || ("version".starts_with(prefix) && prefix.len() > 3))
    };
    for prefix in prefixes.into_iter().filter(|prefix| !prefix.is_empty() && !ends_all(prefix)) {
        // What is accepted is refused at the next word.
        comparison.check_line(&format!("--{prefix} --bogus"));
        // Later versions accept these.
        if !"update".starts_with(prefix) {
            comparison.check_line(&format!("--{prefix}=x --bogus"));
            comparison.check_line(&format!("--{prefix}= --bogus"));
        }
    }
    comparison.check_line("--=");
    comparison.check_line("--=x");
    assert!(comparison.compared > 600, "only {} lines", comparison.compared);
}

#[test]
fn every_letter_is_judged_as_cp_does() {
    let Some(mut comparison) = Comparison::new() else { return };
    for byte in 1..=255u8 {
        // A dash behind the dash makes a long option.
        if byte == b'-' {
            continue;
        }
        for argument in [vec![b'-', byte], vec![b'-', b'v', byte, b'x'], vec![b'-', byte, b'-']] {
            let arguments = [OsStr::from_bytes(&argument).to_owned(), OsString::from("--bogus")];
            comparison.check(&[], &arguments);
        }
    }
    for letter in ["-t", "-S", "-avt", "-vS"] {
        comparison.check_line(letter);
    }
}

#[test]
fn every_word_of_an_option_is_judged_as_cp_does() {
    let Some(mut comparison) = Comparison::new() else { return };
    let words: &[&[u8]] = &[
        b"",
        b"a",
        b"al",
        b"alw",
        b"always",
        b"always2",
        b"au",
        b"n",
        b"ne",
        b"nev",
        b"none",
        b"no",
        b"nu",
        b"nil",
        b"t",
        b"T",
        b"off",
        b"o",
        b"simple",
        b"s",
        b"existing",
        b"mode",
        b"m",
        b"mode,",
        b",mode",
        b"mode,timestamps",
        b"mode,foo",
        b"own,links,xattr",
        b"all",
        b"context",
        b"c",
        b"x,y",
        b"flags2",
        b"'",
        b"\xe2\x80\x99",
        b"\xff",
        b"a\nb",
        b"\\",
        b"\"",
        b"\x01",
        b"\xc3\xa9",
        b"\xc3",
        b" ",
        b"~",
    ];
    for option in ["--reflink", "--sparse", "--preserve", "--no-preserve", "--backup", "--context", "--suffix"] {
        for word in words {
            let argument = [option.as_bytes(), b"=", word].concat();
            // Refused by its word, by what it means without operands, or for want of operands.
            comparison.check(&[], &[OsStr::from_bytes(&argument).to_owned()]);
        }
    }
    for word in words {
        let environment = [("VERSION_CONTROL", OsStr::from_bytes(word))];
        let Some(control) = environment[0].1.to_str() else { continue };
        comparison.check(&[("VERSION_CONTROL", control)], &["-b".into()]);
        comparison.check(&[("VERSION_CONTROL", control)], &["--backup=off".into()]);
    }
}

#[test]
fn words_that_only_haul_knows_are_neither_listed_nor_abbreviated() {
    let Some(mut comparison) = Comparison::new() else { return };
    for word in ["f", "flag", "p", "proj", "fl,mode"] {
        comparison.check_line(&format!("--preserve={word}"));
    }
}

#[test]
fn operands_are_counted_as_cp_does() {
    let Some(mut comparison) = Comparison::new() else { return };
    for line in [
        "",
        "a",
        "-",
        "--",
        "-- -a",
        "a --",
        "-T",
        "-T a",
        "-T a b c",
        "-T a b c d",
        "-t d",
        "-td",
        "-t d -T",
        "-t d -T a",
        "-t d -T a b c",
        "-t d -t e",
        "-t d -t e a",
        "-t d -te -z",
        "--target-directory=d",
        "--target-dir d",
        "-l -s a b",
        "-ls",
        "-s -l a",
        "-b -n a b",
        "-n -b",
        "--backup=none -n a b",
        "-n -S x a b",
        "-S x -n",
        "--reflink --sparse=always",
        "--reflink=always --sparse=never a b",
        "--reflink=auto --sparse=always",
        "--reflink --sparse=auto",
        "-n -i -b a",
        "-i -n -b a",
        "-u -n -b a",
        "--preserve=context a b",
        "--preserve=context",
        "--preserve=all a",
        "--context=x a",
        "-Z",
        "-Z a",
        "-Z --preserve=context a b",
        "--context=x --preserve=context a b",
        "-a --context=x",
        "--context=x -z",
        "--no-preserve=context --preserve=context a b",
        "--preserve=context --no-preserve=context",
        "-lsbn --reflink",
        "-bn --reflink --sparse=never",
        "--backup=foo -n",
        "--backup=foo -ls",
        "--backup=foo --reflink --sparse=never",
        "--backup=foo --preserve=context",
        "--backup=foo --backup=bar",
        "--backup=foo -b",
        "--backup=foo",
        "-a b' c",
        "-T é",
    ] {
        comparison.check_line(line);
    }
    // As many operands as it likes are enough; the last is no directory.
    comparison.check_line("a b c");
}

#[test]
fn posixly_correct_ends_the_options_at_the_first_operand() {
    let Some(mut comparison) = Comparison::new() else { return };
    for line in ["a --bogus", "a -z", "-v a -z", "-- a -z", "-t d", "-T a b -v", "-T a -v"] {
        let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        comparison.check(&[("POSIXLY_CORRECT", "1")], &arguments);
        comparison.check(&[("POSIXLY_CORRECT", "")], &arguments);
        comparison.check(&[], &arguments);
    }
}

#[test]
fn messages_begin_with_the_command_name_as_typed() {
    let Some(mut comparison) = Comparison::new() else { return };
    for name in ["cp", "/bin/cp", "../x y/cp", "a\nb/cp", "./cp"] {
        for line in ["--bogus", "-z", "", "a", "--sparse=x", "-t d -t e", "-l -s"] {
            let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            comparison.check_as(name, &[("LC_ALL", "C")], &arguments);
        }
    }
}

#[test]
fn an_unknown_locale_is_the_c_locale() {
    let Some(mut comparison) = Comparison::new() else { return };
    for environment in [
        &[("LC_ALL", "xx_YY.UTF-8")][..],
        &[("LANG", "xx_YY.UTF-8"), ("LC_CTYPE", "C.UTF-8")],
        &[("LANG", "C.UTF-8")],
        &[("LANG", "C.UTF-8"), ("LC_ALL", "C")],
        &[("LANG", "C"), ("LC_CTYPE", "C.UTF-8")],
        &[],
    ] {
        comparison.check_as("cp", environment, &["--sparse=é".into()]);
    }
}

/// A generator of numbers that gives the same ones each time: xorshift.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).expect("below the limit")
    }
}

/// Words of random command lines, good and bad.
const WORDS: &str = "\
    -a -b -d -f -i -H -l -L -n -P -p -R -r -s -Sx -td -T -u -v -x -Z -z --arch --attr --backup --backup=t \
    --backup=none --backup=n --backup=numbered --copy --force --inter --link --no-c --no-d --no-p=mode \
    --no-p=all --no-p=context --no --parents --path --pre --pre=all --pre=context --pre=x --pre=links,xattr \
    --re --rec --rem --reflink --reflink=auto --reflink=never --sparse=never --sparse=auto --sparse=a --s \
    --str --suffix=~ --suffix=a/b --sym --target --update --verb --context --context=x a b c d -- - \
    --no-target";

#[test]
fn random_command_lines_are_refused_as_cp_refuses_them() {
    let Some(mut comparison) = Comparison::new() else { return };
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for _ in 0..600 {
        let count = 1 + numbers.below(6);
        let mut line: Vec<OsString> = (0..count).map(|_| words[numbers.below(words.len())].into()).collect();
        // Nothing is ever copied: with the bogus option first among the operands, or with none of them there.
        if numbers.below(2) == 0 {
            line.push("--bogus".into());
        }
        comparison.check(&[], &line);
    }
    assert_eq!(comparison.compared, 1200);
}
