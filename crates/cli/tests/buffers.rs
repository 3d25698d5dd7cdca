//! What is asked for about buffers and space is what the kernel hears.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

use haul_io::engine::{EngineName, Role, Way};
use haul_testbed::guest::has;
use haul_testbed::{Command, TempDir, assert_same_contents, create_painted, skip, temp_dir};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");
const ASKED: u64 = 8 << 20;
/// Five buffers, and some bytes that no engine likes.
const SIZE: u64 = 5 * ASKED + 70_001;

/// Those whose requests for the source are not system calls. By name: strace shows their blocks as arguments of other calls.
const BY_REQUESTS: [EngineName; 2] = [EngineName::LinuxAio, EngineName::IoUring];

/// A source of [`SIZE`] bytes. `None` where there is no strace.
fn scene() -> Option<TempDir> {
    if !has("strace") {
        skip("strace is not installed");
        return None;
    }
    let dir = temp_dir();
    create_painted(dir.path().join("source"), SIZE);
    Some(dir)
}

/// Copies under strace and returns the calls, each whole and on a line of its own.
fn traced(dir: &Path, options: &[&str]) -> Vec<String> {
    let calls = temp_dir();
    let trace = "trace=pread64,preadv2,mmap,splice,io_submit,io_uring_register,fallocate,fcntl,pwrite64";
    let output = Command::new("timeout")
        .args(["120", "strace", "-ff", "-y", "-s0", "-v", "-e", trace, "-o"])
        .arg(calls.path().join("calls"))
        .arg(HAUL)
        .args(options)
        .args(["source", "copy"])
        .current_dir(dir)
        .output()
        .expect("strace can be run");
    assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert_same_contents(dir.join("source"), dir.join("copy"));
    fs::remove_file(dir.join("copy")).expect("it is there");
    // One file for each thread: no call is cut in two by another.
    let files = fs::read_dir(calls.path()).expect("strace has written").flatten();
    let text = files.map(|file| fs::read_to_string(file.path()).expect("a trace is text")).collect::<String>();
    text.lines().map(str::to_owned).collect()
}

/// The number behind `name`.
fn number(text: &str, name: &str) -> Option<u64> {
    let digits = &text[text.find(name)? + name.len()..];
    digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// How many bytes of the source a call asks for, and from where.
fn asked(call: &str) -> Option<(u64, u64)> {
    let (name, arguments) = call.split_once('(')?;
    if !arguments.contains("/source>") {
        return None;
    }
    let arguments = arguments.rsplit_once(") = ")?.0;
    let words = arguments.split(", ").collect::<Vec<_>>();
    let offset = |word: &str| match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.trim_matches(['[', ']']).parse().ok(),
    };
    match name {
        "pread64" => Some((words[2].parse().ok()?, offset(words[3])?)),
        "preadv2" => Some((number(arguments, "iov_len=")?, offset(words[words.len() - 2])?)),
        "mmap" => Some((words[1].parse().ok()?, offset(words[5])?)),
        "splice" => Some((words[4].parse().ok()?, offset(words[1])?)),
        _ => None,
    }
}

#[test]
fn what_is_asked_for_as_buffer_is_used_exactly() {
    let Some(dir) = scene() else { return };
    let has_buffer = |engine: &EngineName| engine.caps().role == Role::Mover && engine.caps().way == Way::Written;
    let engines = EngineName::ALL.into_iter().filter(has_buffer).filter(|engine| !BY_REQUESTS.contains(engine));
    for engine in engines {
        for more in [&[][..], &["--jobs=1"], &["--readahead"], &["--preallocate"]] {
            let engine = format!("--engine={engine}");
            let options = [&[&*engine, "--buffer-size=8M"], more].concat();
            let calls = traced(dir.path(), &options);
            let mut pieces = calls.iter().filter_map(|call| asked(call)).collect::<Vec<_>>();
            pieces.sort_unstable_by_key(|(_, offset)| *offset);
            let whole = pieces.iter().filter(|(_, offset)| offset + ASKED <= SIZE).collect::<Vec<_>>();
            assert!(whole.len() >= 5, "{options:?}: {pieces:?}");
            assert!(whole.iter().all(|(len, _)| *len == ASKED), "{options:?}: {pieces:?}");
        }
    }
}

#[test]
fn asynchronous_engines_have_blocks_of_the_size_asked_for() {
    let Some(dir) = scene() else { return };
    let [linux_aio, io_uring] = BY_REQUESTS;
    for (engine, size, name) in [
        (linux_aio, 8 << 20, "aio_nbytes="),
        (linux_aio, 20 << 20, "aio_nbytes="),
        // It registers its memory in one piece: here of one block, since two are more than it takes.
        (io_uring, 20 << 20, "iov_len="),
    ] {
        let calls = traced(dir.path(), &[&format!("--engine={engine}"), &format!("--buffer-size={size}")]);
        let blocks = calls.iter().filter(|call| call.starts_with("io_")).filter_map(|call| number(call, name));
        let most = blocks.max();
        if most.is_none() {
            skip(format!("{engine} cannot be had here"));
            continue;
        }
        assert_eq!(most, Some(size), "{engine}");
    }
}

#[test]
fn a_pipe_holds_what_is_asked_for() {
    let Some(dir) = scene() else { return };
    let calls = traced(dir.path(), &["--engine=splice", "--buffer-size=512K"]);
    let pieces = calls.iter().filter_map(|call| asked(call)).collect::<Vec<_>>();
    assert!(pieces.iter().filter(|(len, _)| *len == 512 << 10).count() >= 80, "{pieces:?}");
    // Where so large a pipe is not granted, the largest that is.
    let most = fs::read_to_string("/proc/sys/fs/pipe-max-size").expect("there is one");
    let most = most.trim().parse::<u64>().expect("it is a number").min(ASKED);
    let calls = traced(dir.path(), &["--engine=splice", "--buffer-size=8M"]);
    let largest =
        calls.iter().filter(|call| call.starts_with("splice")).filter_map(|call| asked(call)).map(|it| it.0).max();
    assert!(largest >= Some(most), "{largest:?}, not {most}");
}

#[test]
fn mapped_maps_8_mib_unless_asked_otherwise() {
    let Some(dir) = scene() else { return };
    for more in [&[][..], &["--readahead"], &["--jobs=1"]] {
        let calls = traced(dir.path(), &[&["--engine=mapped"], more].concat());
        let mapped = calls.iter().filter(|call| call.starts_with("mmap")).filter_map(|call| asked(call));
        let whole = mapped.filter(|(_, offset)| offset + ASKED <= SIZE).collect::<Vec<_>>();
        assert!(whole.len() == 5 && whole.iter().all(|(len, _)| *len == ASKED), "{more:?}: {whole:?}");
    }
}

#[test]
fn preallocate_never_allocates_nothing_whatever_the_engine() {
    let Some(dir) = scene() else { return };
    for engine in EngineName::ALL.into_iter().filter(|engine| engine.caps().role != Role::Dummy) {
        let engine = format!("--engine={engine}");
        for more in [&[][..], &["--cache=drop"]] {
            let calls = traced(dir.path(), &[&[&*engine, "--preallocate=never"], more].concat());
            let space = calls.iter().filter(|call| call.starts_with("fallocate")).collect::<Vec<_>>();
            assert!(space.is_empty(), "{engine} {more:?}: {space:?}");
        }
    }
}
