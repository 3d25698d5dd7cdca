//! Wrappers with `unsafe` code that no test beside them calls. Under a sanitizer these show that the kernel writes no more
//! than the memory that it is given.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::time::Duration;

use haul_sys::Errno;
use haul_sys::in_use::{is_locked, is_open_for_writing, is_still_alone, keep_others_out, let_others_in};
use haul_sys::inode_flags::Project;
use haul_sys::kernel::{Kernel, Linux};
use haul_sys::locale::{Decoded, Locale};
use haul_sys::map::Mapping;
use haul_sys::object::Object;
use haul_sys::process_state::{Usage, ignore_sigusr2, ignore_sigxfsz, is_ignored, restore_sigpipe, stdout_was_closed};
use haul_sys::rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use haul_sys::rustix::process::Signal;

/// An open file without a name, and a second descriptor that may only read.
fn file(name: &str) -> (File, File) {
    let path = std::env::temp_dir().join(format!("haul-wrappers-{}-{name}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    let reader = File::open(&path).unwrap();
    fs::remove_file(path).unwrap();
    (file, reader)
}

#[test]
fn a_mapping_is_written_from_and_only_within_its_bounds() {
    let bytes: Vec<u8> = (0..3 << 12).map(|at| (at % 251) as u8).collect();
    let ((source, _), (mut dest, _)) = (file("map-source"), file("map-dest"));
    source.write_all_at(&bytes, 0).unwrap();
    let mapping = Mapping::new(source.as_fd(), 4096, 8192).unwrap();
    assert_eq!(mapping.len(), 8192);
    assert_eq!(mapping.write_to(dest.as_fd(), 96, 8096, Some(5)), Ok(8096));
    dest.rewind().unwrap();
    assert_eq!(mapping.write_to(dest.as_fd(), 0, 5, None), Ok(5));
    for (from, len) in [(8193, 0), (0, 8193), (8192, 1), (1, usize::MAX)] {
        assert_eq!(mapping.write_to(dest.as_fd(), from, len, Some(0)), Err(Errno::INVAL), "{from} {len}");
    }
    // The page is gone: an error and no signal.
    source.set_len(4096).unwrap();
    assert_eq!(mapping.write_to(dest.as_fd(), 0, 4096, Some(0)), Err(Errno::FAULT));
    drop(mapping);
    let mut copied = Vec::new();
    dest.rewind().unwrap();
    dest.read_to_end(&mut copied).unwrap();
    assert!(copied[..5] == bytes[4096..4101] && copied[5..] == bytes[4192..12288]);
}

#[test]
fn a_lease_keeps_others_out_until_it_ends() {
    let (writer, _reader) = file("lease");
    assert_eq!(keep_others_out(writer.as_fd()), Ok(false), "a second descriptor is open");
    let path = std::env::temp_dir().join(format!("haul-wrappers-{}-alone", std::process::id()));
    let alone = File::create_new(&path).unwrap();
    fs::remove_file(path).unwrap();
    // A child that is just being started by another test may have the file open for a moment.
    assert!(std::iter::repeat_with(|| keep_others_out(alone.as_fd())).any(|answer| answer == Ok(true)));
    assert_eq!(is_still_alone(alone.as_fd()), Ok(true));
    let_others_in(alone.as_fd());
    assert_eq!(is_still_alone(alone.as_fd()), Ok(false));
    assert_eq!(is_open_for_writing(alone.as_fd()), Ok(true));
}

#[cfg(feature = "namespaces")]
#[test]
fn a_lock_of_one_byte_is_seen_by_others_only_where_it_is() {
    let (writer, reader) = file("lock");
    haul_sys::in_use::lock_byte(reader.as_fd(), 100).unwrap();
    assert_eq!(is_locked(writer.as_fd(), 100, 1), Ok(true));
    assert_eq!(is_locked(writer.as_fd(), 0, 100), Ok(false));
    assert_eq!(is_locked(reader.as_fd(), 100, 1), Ok(false), "its own");
    assert_eq!(is_locked(writer.as_fd(), u64::MAX, 1), Err(Errno::OVERFLOW));
}

#[cfg(feature = "namespaces")]
#[test]
fn a_forbidden_call_fails_in_its_thread_alone() {
    let forbidden = std::thread::spawn(|| {
        haul_sys::for_tests::forbid(haul_sys::for_tests::IO_URING_SETUP).unwrap();
        haul_sys::queue::make(haul_sys::queue::QueueKind::IoUring).err()
    });
    assert_eq!(forbidden.join().unwrap(), Some(Errno::PERM));
}

#[cfg(feature = "namespaces")]
#[test]
fn a_lease_for_reading_is_refused_beside_a_writer() {
    let (writer, reader) = file("read-lease");
    assert_eq!(haul_sys::for_tests::take_read_lease(&reader), Err(Errno::AGAIN));
    drop(writer);
    let mut answers = std::iter::repeat_with(|| haul_sys::for_tests::take_read_lease(&reader));
    assert!(answers.any(|answer| answer.is_ok()));
}

/// On a pipe: a file would lose what it and everybody else has.
#[cfg(feature = "namespaces")]
#[test]
fn what_has_no_power_to_cut_says_so() {
    let (reader, _writer) = std::io::pipe().unwrap();
    assert_eq!(haul_sys::for_tests::cut_power(&reader), Err(Errno::NOTTY));
}

#[cfg(feature = "namespaces")]
#[test]
fn a_thread_gets_mounts_of_its_own_or_may_not() {
    let namespace = || fs::read_link("/proc/thread-self/ns/mnt").unwrap();
    let own = std::thread::spawn(move || haul_sys::for_tests::unshare_mounts().map(|()| namespace())).join().unwrap();
    assert!(own.as_ref().is_ok_and(|own| *own != namespace()) || own == Err(Errno::PERM));
}

#[test]
fn signals_get_the_dispositions_that_are_asked_for() {
    ignore_sigxfsz();
    ignore_sigusr2();
    assert!(is_ignored(Signal::XFSZ.as_raw()) && is_ignored(Signal::USR2.as_raw()));
    let before = is_ignored(Signal::PIPE.as_raw());
    restore_sigpipe();
    // The Rust runtime ignores it, and so did the parent, or it is as it was before that.
    assert!(before || !is_ignored(Signal::PIPE.as_raw()));
    assert!(!stdout_was_closed());
}

#[test]
fn what_the_process_used_only_grows() {
    let before = Usage::of_process();
    let memory = vec![1_u8; 8 << 20];
    let after = Usage::of_process();
    assert!(after.peak_memory >= before.peak_memory.max(memory.len() as u64));
    assert!(after.user + after.system >= before.user + before.system && after.user < Duration::from_secs(86_400));
}

#[test]
fn the_locale_of_the_environment_knows_ascii_if_there_is_one() {
    if let Some(locale) = Locale::from_environment() {
        assert_eq!(locale.decode(b"a"), Decoded::Character { length: 1, printable: true, columns: 1 });
    }
}

#[test]
fn the_mode_is_set_through_a_descriptor_that_may_not_read() {
    let (file, _) = file("mode");
    let held = open(format!("/proc/self/fd/{}", file.as_raw_fd()), OFlags::PATH, Mode::empty()).unwrap();
    Object { fd: held.as_fd(), path_only: true }.set_mode(0o640).unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, 0o640);
}

#[test]
fn a_descriptor_that_is_closed_wakes_its_other_end() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    haul_sys::close(writer.into()).unwrap();
    assert_eq!(reader.read(&mut [0; 8]).unwrap(), 0);
}

#[test]
fn a_range_is_shared_or_refused() {
    let ((mut source, _), (dest, _)) = (file("clone-source"), file("clone-dest"));
    source.write_all(&[7; 8192]).unwrap();
    match Linux.clone_range(source.as_fd(), dest.as_fd(), 0, 8192) {
        Ok(()) => {
            let mut bytes = [0; 8192];
            dest.read_exact_at(&mut bytes, 0).unwrap();
            assert_eq!(bytes, [7; 8192]);
        }
        Err(errno) => assert!(matches!(errno, Errno::OPNOTSUPP | Errno::INVAL | Errno::NOTTY), "{errno}"),
    }
}

#[test]
fn bytes_that_are_shared_if_they_are_the_same_stay_what_they_are() {
    let ((mut source, _), (mut dest, _)) = (file("dedupe-source"), file("dedupe-dest"));
    source.write_all(&[7; 8192]).unwrap();
    dest.write_all(&[7; 4096]).unwrap();
    dest.write_all(&[8; 4096]).unwrap();
    for (len, same) in [(4096, true), (8192, false)] {
        match Linux.share_if_same(source.as_fd(), dest.as_fd(), len) {
            Ok(found) => assert_eq!(found, same, "{len}"),
            Err(errno) => assert!(matches!(errno, Errno::OPNOTSUPP | Errno::INVAL | Errno::NOTTY), "{errno}"),
        }
    }
    let mut bytes = [0; 8192];
    dest.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, *[[7; 4096], [8; 4096]].concat());
}

/// Of a file, by ioctl, and of a FIFO, by the calls of Linux 6.17.
#[test]
fn projects_and_flags_are_read_and_set_again() {
    let path = std::env::temp_dir().join(format!("haul-wrappers-{}-fifo", std::process::id()));
    mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let fifo = open(&path, OFlags::PATH, Mode::empty()).unwrap();
    fs::remove_file(path).unwrap();
    let (file, _) = file("project");
    let missing = |errno| matches!(errno, Errno::NOSYS | Errno::NOTTY | Errno::OPNOTSUPP | Errno::INVAL | Errno::PERM);
    for object in [Object { fd: file.as_fd(), path_only: false }, Object { fd: fifo.as_fd(), path_only: true }] {
        match object.project() {
            Ok(project) => {
                let result = object.set_project(project);
                assert!(result.is_ok() || result.is_err_and(missing), "{result:?}");
                assert_eq!(object.project(), Ok(Project { ..project }));
            }
            Err(errno) => assert!(missing(errno), "{errno}"),
        }
        match object.inode_flags() {
            Ok(flags) => {
                let result = object.set_inode_flags(flags);
                assert!(result.is_ok() || result.is_err_and(missing), "{result:?}");
            }
            Err(errno) => assert!(missing(errno), "{errno}"),
        }
    }
}
