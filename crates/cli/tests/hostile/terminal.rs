//! No name commands a terminal, in whatever is printed.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

use haul_testbed::{Command, temp_dir};

use crate::HAUL;

/// Names that move cursors, set titles, answer questions, end lines, turn letters round, or look like options. The C1 bytes
/// are there as themselves and in UTF-8.
const NAMES: &[&[u8]] = &[
    b"\x1b[2J\x1b[31mred",
    b"\x1b]0;title\x07",
    b"\x1b[6n",
    b"two\nlines",
    b"haul: all is well\r",
    b"back\x08\x08\x08\x08",
    b"tab\tdel\x7f",
    b"\x01\x02\x0e\x0f\x1a",
    b"\x9b31mc1",
    b"\xc2\x9b31mutf8-c1",
    b"\xc2\x85next",
    b"\x84\x90\x9c",
    b"\xff\xfe\xc0\xaf",
    b"\xe2\x80\xaegnp.exe",
    b"\xe2\x80\xa8line\xe2\x80\xa9paragraph",
    b"-rf \x1b[2J",
    b"--help\x1b[2J",
    b" ",
    b"'\"\\$(x)`x`;\x1b[1m",
];

/// Sequences of haul's own: they wipe out the progress bar. script(1) shows a newline as the terminal does.
const OWN: [&[u8]; 2] = [b"\r\x1b[K", b"\r\n"];

fn scene(dir: &Path) {
    for name in NAMES.iter().map(|name| OsStr::from_bytes(name)) {
        let (source, other) = (dir.join("s").join(name), dir.join("other"));
        fs::create_dir_all(&source).expect("a directory");
        fs::create_dir_all(&other).expect("a directory");
        fs::write(source.join(name), "new").expect("a file");
        symlink(Path::new("nowhere").join(name), source.join("link")).expect("a link");
        fs::write(other.join(name), "old").expect("a file");
        // A directory where a file goes, a file where a directory goes.
        fs::create_dir_all(dir.join("d").join(name).join(name)).expect("a directory");
        fs::create_dir_all(dir.join("e")).expect("a directory");
        fs::write(dir.join("e").join(name), "old").expect("a file");
        fs::create_dir_all(dir.join("old/s").join(name)).expect("a directory");
        fs::write(dir.join("old/s").join(name).join(name), "older").expect("a file");
    }
    fs::create_dir(dir.join("new")).expect("a directory");
    symlink("loop", dir.join("loop")).expect("a link");
    File::create(dir.join("disk.img")).expect("a file").set_len(1 << 20).expect("it can be extended");
    for (link, name) in [("cp", "cp"), ("smartcp", "smartcp"), ("haul", "haul")] {
        symlink(HAUL, dir.join("bin-".to_owned() + link)).expect("a link");
        let _same = name;
    }
}

/// Command lines of bash, in which `haul` is the command and `*` the names.
const SCRIPTS: &[&str] = &[
    "haul -rv s new",
    "haul -rv --backup=numbered s old",
    "haul -rv --remove-destination s old; haul -rv --backup=simple --atomic s old",
    "haul -r --debug s new; haul -ru --debug s old; haul -rn --debug s old",
    "haul -r --explain s new",
    "haul -rv --parents s/*/* new",
    "cp -rv --parents s/*/* new",
    "haul -rT s d",
    "haul -rvT s d",
    "cp -rT s d",
    "haul -rT --stats=json s d",
    "haul -r --stats s new",
    "haul --json -r s new; haul --json --parents s/*/* new; haul --json -rn s old; haul --json -rT s d",
    "haul -rT s e; haul -rT --stats=json --fail-fast s e",
    "haul -a --checksum=xxh3 s new",
    "haul -a --checksum=blake3 --digests=list s new && haul -a --checksum=md5 --digests=/dev/stdout s d > /dev/null",
    "haul --checksum=md5 --digests=$'/no/\\e[2J' -r s new",
    "haul --compare -v -rT s d; haul --compare -rT s e; haul --compare -aT s other",
    "haul --verify=read -rv s new",
    "haul --durable=file --verify=device -rv s new",
    "yes n | haul -ri s old",
    "haul -s other/* new; haul -l other/* d; haul other/* other/* new",
    "haul other/* no-such-dir; haul s/* new; haul $'\\e[2J' new; haul other/* $'\\x9b2J/'",
    "cd other; for name in *; do haul \"$name\" ../new; haul \"$name\" \"$name\"; haul -t \"$name\" x; done",
    "cd other; for name in *; do haul -- \"$name\" ../new; haul --backup=simple --suffix=\"$name\" -- \"$name\" ../e; done",
    "cd other; for name in *; do haul --sparse=\"$name\" a b; haul --limit=\"$name\" a b; haul --engine=\"$name\" a b; done",
    "cd other; for name in *; do haul \"--$name\" a b; haul \"-$name\" a b; haul --backup=\"$name\" a b; done",
    "cd other; for name in *; do haul --preserve=\"$name\" a b; haul --jobs=\"$name\" a b; haul --control=\"$name/x\" a b; done",
    "cd other; for name in *; do haul -rL -- \"$name\" \"$name/x\"; haul --priority=\"$name\" a b; haul --buffer-size=\"$name\" a b; done",
    "for name in other/*; do smartcp -v disk.img \"new/${name#other/}\"; smartcp -T json \"$name\" new/x; done",
    "for name in other/*; do smartcp \"$name\" disk.img; haul --smart=require --explain \"$name\" new; done",
    "for name in other/*; do haul --smart --punch \"$name\"; done",
    "haul -rL loop s new; haul -r s/. s/*/. new; haul -a s s/x",
    "chmod 0 other/*; setpriv --reuid=65534 --clear-groups haul -rv other new; haul -a --preserve=all s /proc/",
];

/// What appears on a terminal.
fn on_terminal(dir: &Path, locale: &str, script: &str) -> Vec<u8> {
    let mut child = Command::new("script")
        .args(["-qefc", "stty cols 200; exec bash \"$SCENE_SCRIPT\"", "/dev/null"])
        .env("SCENE_SCRIPT", write_script(dir, script))
        .env("LC_ALL", locale)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script(1) can be run");
    let mut seen = Vec::new();
    child.stdout.take().expect("it is piped").read_to_end(&mut seen).expect("it can be read");
    child.wait().expect("it ends");
    seen
}

fn write_script(dir: &Path, script: &str) -> std::path::PathBuf {
    let path = dir.join("script");
    let functions =
        "for name in haul cp smartcp; do eval \"$name() { (exec -a $name '$PROGRAM' \\\"\\$@\\\"); }\"; done";
    fs::write(&path, format!("PROGRAM='{HAUL}'\n{functions}\nshopt -s dotglob\n{script}\n")).expect("a script");
    path
}

/// The first thing in a text that a terminal would not just show.
fn command_in(text: &[u8], utf8: bool) -> Option<String> {
    let mut at = 0;
    let reported = |at: usize, what: &str| {
        let around = &text[at.saturating_sub(60)..(at + 40).min(text.len())];
        Some(format!("{what} in {:?}", String::from_utf8_lossy(around)))
    };
    while at < text.len() {
        if let Some(own) = OWN.iter().find(|own| text[at..].starts_with(own)) {
            at += own.len();
            continue;
        }
        match text[at] {
            b'\n' | 0x20..0x7f => at += 1,
            0..0x20 | 0x7f => return reported(at, "a control byte"),
            _ if !utf8 => return reported(at, "a byte that is no ASCII"),
            _ => {
                let valid = text[at..].utf8_chunks().next().map_or("", |chunk| chunk.valid());
                match valid.chars().next() {
                    None => return reported(at, "bytes that are no UTF-8"),
                    Some(letter) if letter.is_control() => return reported(at, "a C1 control character"),
                    Some(letter) => at += letter.len_utf8(),
                }
            }
        }
    }
    None
}

#[test]
fn no_name_commands_a_terminal_whatever_is_printed() {
    let mut wrong = Vec::new();
    let mut bytes = 0;
    for locale in ["C", "C.UTF-8"] {
        for script in SCRIPTS {
            let dir = temp_dir();
            scene(dir.path());
            let seen = on_terminal(dir.path(), locale, script);
            bytes += seen.len();
            if let Some(what) = command_in(&seen, locale == "C.UTF-8") {
                wrong.push(format!("{locale}: {script}: {what}"));
            }
            if std::env::var_os("SHOW").is_some() {
                eprintln!("### {script}\n{}", String::from_utf8_lossy(&seen).chars().take(3000).collect::<String>());
            }
        }
    }
    println!("{bytes} bytes on a terminal from {} scripts", 2 * SCRIPTS.len());
    assert!(wrong.is_empty(), "{} scripts: {}", wrong.len(), wrong.join("\n"));
}
