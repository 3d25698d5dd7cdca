//! Files that are no files: whoever opens them waits, reads without end, or does something.

use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use haul_testbed::{Bed, Command, Fs};
use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::{haul, said};

/// Two FIFOs, a socket, devices that end reading at once, that never end it, and that nobody drives.
fn make(root: &Path) {
    let made = Command::new("sh")
        .args(["-ec", "mkdir -p s/deep; mkfifo s/fifo s/deep/fifo; ln s/fifo s/other; echo data > s/deep/file"])
        .args(["sh"])
        .current_dir(root)
        .status();
    assert!(made.expect("sh can be run").success());
    let nodes = ["null c 1 3", "zero c 1 5", "full c 1 7", "tty c 5 0", "nobody c 60 1", "loop b 7 250", "disk b 60 7"];
    for node in nodes {
        let words: Vec<&str> = node.split(' ').collect();
        let made = Command::new("mknod").arg(root.join("s").join(words[0])).args(&words[1..]).status();
        assert!(made.expect("mknod can be run").success());
    }
    std::os::unix::net::UnixListener::bind(root.join("s/socket")).expect("a socket");
}

fn specials(dir: &Path) -> Vec<(String, u32, u64)> {
    let mut found: Vec<_> = ["fifo", "other", "deep/fifo", "socket", "null", "zero", "full", "tty", "nobody", "loop"]
        .iter()
        .chain(&["disk"])
        .filter_map(|name| Some((name, fs::symlink_metadata(dir.join(name)).ok()?)))
        .filter(|(_, found)| !found.is_file())
        .map(|(name, found)| {
            assert!(found.file_type().is_fifo() || found.mode() & 0o170_000 != 0o010_000);
            (name.to_string(), found.mode(), found.rdev())
        })
        .collect();
    found.sort();
    found
}

#[test]
fn fifos_sockets_and_devices_are_made_anew_and_nobody_opens_them() {
    let Some(bed) = Bed::new() else { return };
    // What is below the temporary directory of the test bed may have devices.
    let Some(root) = bed.mount(Fs::Ext4) else { return };
    make(&root);
    let witness = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).expect("a witness");
    for entry in specials(&root.join("s")) {
        inotify::add_watch(&witness, root.join("s").join(&entry.0), WatchFlags::OPEN).expect("it can be watched");
    }
    let wanted = specials(&root.join("s"));
    assert_eq!(wanted.len(), 11);
    let sets = [
        "-a",
        "-r",
        "-rp --jobs=4",
        "-a --atomic",
        "-a --durable=file",
        "-a --verify=read",
        "-a --checksum=xxh3",
        "-a --smart",
        "-rL",
        "-a --if-changed=retry",
        "-a --progress=always",
        "-a --backup=numbered",
        "-au",
        "-a --remove-destination",
        "-a --preserve=all",
        "-a --engine=io-uring",
        "-a --readahead",
    ];
    for options in sets {
        // As with cp, -L leaves alone what is there.
        let times: &[&str] = if options == "-rL" { &["onto nothing"] } else { &["onto nothing", "onto a copy"] };
        for again in times {
            let mut command = haul(&root);
            let output = command.args(options.split(' ')).args(["-T", "s", "d"]).output().expect("it can be run");
            assert!(output.status.success(), "{options} {again}: {}: {}", output.status, said(&output));
            assert_eq!(specials(&root.join("d")), wanted, "{options} {again}");
        }
        if !options.contains("--backup") {
            let compared = haul(&root).args(["--compare", "-r", "-T", "s", "d"]).output().expect("it can be run");
            assert!(compared.status.success(), "{options}: {compared:?}");
        }
        fs::remove_dir_all(root.join("d")).expect("it can be removed");
    }
    let mut buffer = [MaybeUninit::uninit(); 4096];
    match Reader::new(&witness, &mut buffer).next() {
        Err(Errno::AGAIN) => {}
        Ok(event) => panic!("somebody opened one of them: {:?}", event.events()),
        Err(error) => panic!("the witness cannot be asked: {error}"),
    }
}
