//! Limits of space and size.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use haul_io::engine::EngineName;
use haul_io::engine::{End, FailedOn, Needs, Refusal, Shares, Zeros};
use haul_sys::Errno;
use haul_testbed::{Bed, Command, Fs, create_painted, painted, skip, temp_dir};

use crate::harness::{dest, engine, job, moving, run, source, stream, suiting};
use crate::places::{Place, Places};

const MIB: u64 = 1 << 20;

#[test]
fn a_full_filesystem_is_a_failure_and_what_is_counted_is_there() {
    let Some(bed) = Bed::new() else { return };
    for fs in Fs::ALL {
        let Some(dir) = bed.small(fs, 24 * MIB) else { continue };
        let place = &Place::on(fs, dir.clone());
        let a = dir.join("a");
        create_painted(&a, 9 * MIB);
        // What is left after this is less than the file.
        fill_up(&dir.join("filler"), 4 * MIB);
        // Sharing takes no space.
        let takes_space = |name: &EngineName| name.caps().shares == Shares::Never || !place.reflinks;
        for name in suiting(place).filter(takes_space) {
            let b = dir.join("b");
            let outcome = run(&mut *engine(name), job(&source(&a), &dest(&b), 0, 9 * MIB));
            let End::Failed(failure) = outcome.end else { panic!("{name} on {}: {outcome:?}", place.name) };
            assert_eq!(failure.errno, Errno::NOSPC, "{name} on {}", place.name);
            // Who leaves the choice to the filesystem does not learn which side it was.
            let on = if name.caps().shares == Shares::Never { FailedOn::Write } else { FailedOn::Copy };
            assert_eq!(failure.on, on, "{name} on {}", place.name);
            let moved = outcome.moved.total() as usize;
            assert!(fs::read(&b).unwrap()[..moved] == painted(moved), "{name} on {}", place.name);
            fs::remove_file(&b).unwrap();
            File::open(&dir).and_then(|dir| dir.sync_all()).unwrap();
        }
    }
}

/// Writes until the filesystem is full, then frees about `free` bytes.
fn fill_up(path: &Path, free: u64) {
    let mut file = File::create_new(path).unwrap();
    let chunk = vec![0x5a; 256 << 10];
    let mut len = 0;
    while let Ok(count) = std::io::Write::write(&mut file, &chunk) {
        len += count as u64;
        // Delayed allocation would promise more than there is.
        if len % (4 * MIB) == 0 && file.sync_data().is_err() {
            break;
        }
    }
    file.sync_all().ok(); // it may be full already
    let len = file.metadata().unwrap().len();
    file.set_len(len.saturating_sub(free)).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn a_full_device_is_a_failure_for_streams() {
    let dir = temp_dir();
    create_painted(dir.path().join("a"), 100_000);
    for name in moving().filter(|name| name.caps().streams) {
        let full = stream(File::options().write(true).open("/dev/full").unwrap());
        let outcome = run(&mut *engine(name), job(&source(dir.path().join("a")), &full, 0, MIB));
        // splice into a device that has no such thing refuses, after it wrote what it had in hand, which failed.
        let End::Failed(failure) = outcome.end else { panic!("{name}: {outcome:?}") };
        assert_eq!((failure.on, failure.errno), (FailedOn::Write, Errno::NOSPC), "{name}");
        assert_eq!(outcome.moved.total(), 0, "{name}");
    }
}

const LIMIT_CHILD: &str = "HAUL_TEST_LIMITED_DIR";

#[test]
fn the_file_size_limit_is_a_failure() {
    for place in &Places::new() {
        create_painted(place.dir.join("a"), MIB);
        // A limit and an ignored SIGXFSZ belong to a whole process, so this test runs once more in one of its own.
        let done = Command::new("bash")
            .args(["-c", "trap '' XFSZ; ulimit -f 512; exec \"$0\" --exact limits::limited_child --nocapture"])
            .arg(std::env::current_exe().unwrap())
            .env(LIMIT_CHILD, &place.dir)
            .env("HAUL_TEST_FS_SHARES", if place.reflinks { "1" } else { "0" })
            .output();
        let Ok(done) = done else {
            skip("bash is not installed");
            return;
        };
        let text = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&done.stderr));
    }
}

/// The other half of the test above, in a process of its own since a limit cannot be taken back. Alone it has nothing to do.
#[test]
fn limited_child() {
    let Some(dir) = std::env::var_os(LIMIT_CHILD).map(PathBuf::from) else { return };
    let shares = std::env::var("HAUL_TEST_FS_SHARES").is_ok_and(|value| value == "1");
    let limit = 512 * 1024;
    for name in moving().filter(|name| name.caps().needs != Needs::SharedExtents || shares) {
        let b = dir.join(format!("b-{name}"));
        let outcome = run(&mut *engine(name), job(&source(dir.join("a")), &dest(&b), 0, MIB));
        match outcome.end {
            End::Failed(failure) => assert_eq!(failure.errno, Errno::FBIG, "{name}"),
            // FICLONE calls it EINVAL; who goes on from there gets the reason.
            End::Refused(Refusal::Unsupported(Errno::INVAL)) if name.caps().needs == Needs::SharedExtents => {}
            // What it needs may not be there.
            End::Refused(_) if matches!(name.caps().needs, Needs::Direct | Needs::DirectDest | Needs::Dontcache) => {}
            end => panic!("{name}: {end:?}"),
        }
        let moved = outcome.moved.total();
        assert!(moved <= limit, "{name}: {moved}");
        assert!(fs::read(&b).unwrap()[..moved as usize] == painted(moved as usize), "{name}");
    }
}

#[test]
fn zeros_that_are_skipped_need_no_space() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = bed.small(Fs::Ext4, 8 * MIB) else { return };
    let source_dir = temp_dir();
    let a = source_dir.path().join("a");
    fs::write(&a, vec![0; 32 << 20]).unwrap();
    let job = haul_io::engine::Job { zeros: Zeros::Skip(4096), ..job(&source(&a), &dest(dir.join("b")), 0, 32 * MIB) };
    let outcome = run(&mut *engine(EngineName::ReadWrite), job);
    assert_eq!((outcome.end, outcome.moved.holes), (End::Complete, 32 * MIB));
}
