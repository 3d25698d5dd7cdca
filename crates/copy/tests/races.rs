//! What happens when somebody else changes the trees while they are copied.
//!
//! Every attack is made at a moment that is certain: from the observer, between two steps of the run.

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use haul_copy::events::Event;
use haul_copy::plan::{DataOptions, Dereference, Destination, EngineChoice, EngineName, IfChanged, Plan};
use haul_copy::run::Cancel;
use haul_testbed::{create_painted, temp_dir};
use support::copy;

fn tree(source: &Path, dest: &Path) -> Plan {
    // One thread, so that it is certain what comes next.
    Plan { jobs: Some(1), dereference: Dereference::Never, recursive: true, ..file(source, dest) }
}

fn file(source: &Path, dest: &Path) -> Plan {
    Plan { sources: vec![source.into()], destination: Destination::Exactly(dest.into()), ..Plan::default() }
}

/// A folder with a secret outside of the trees.
struct Scene {
    _dir: haul_testbed::TempDir,
    source: PathBuf,
    dest: PathBuf,
    victim: PathBuf,
}

fn scene() -> Scene {
    let dir = temp_dir();
    let path = |name: &str| dir.path().join(name);
    let scene = Scene { source: path("source"), dest: path("dest"), victim: path("victim"), _dir: dir };
    fs::create_dir_all(scene.source.join("sub")).unwrap();
    fs::write(scene.source.join("sub/file"), "harmless").unwrap();
    fs::create_dir(&scene.victim).unwrap();
    fs::write(scene.victim.join("file"), "secret").unwrap();
    scene
}

fn is_copying(event: &Event<'_>, path: &Path) -> bool {
    matches!(event, Event::Copying { source, .. } if *source == path)
}

fn contains_secret(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().map(Result::unwrap).any(|entry| {
        let kind = entry.file_type().unwrap();
        (kind.is_dir() && contains_secret(&entry.path()))
            || (kind.is_file() && fs::read(entry.path()).unwrap() == b"secret")
    })
}

#[test]
fn a_source_directory_swapped_for_a_link_is_not_entered() {
    let s = scene();
    let sub = s.source.join("sub");
    let (summary, problems) = copy(&tree(&s.source, &s.dest), &Cancel::default(), |event| {
        if is_copying(event, &sub) {
            fs::rename(&sub, s.source.with_file_name("aside")).unwrap();
            symlink(&s.victim, &sub).unwrap();
        }
    });
    assert!(summary.failed && problems.len() == 1, "{problems:?}");
    assert!(!contains_secret(&s.dest));
}

#[test]
fn a_source_file_swapped_for_a_link_is_not_read() {
    let s = scene();
    // In a directory that stood there before, a file is looked at before it is opened.
    fs::create_dir_all(s.dest.join("sub")).unwrap();
    let file = s.source.join("sub/file");
    let (summary, problems) = copy(&tree(&s.source, &s.dest), &Cancel::default(), |event| {
        if is_copying(event, &file) {
            fs::remove_file(&file).unwrap();
            symlink(s.victim.join("file"), &file).unwrap();
        }
    });
    assert!(summary.failed && problems.len() == 1, "{problems:?}");
    assert!(!contains_secret(&s.dest));
}

#[test]
fn a_source_file_swapped_for_another_file_is_skipped() {
    let s = scene();
    // In a directory that stood there before, a file is looked at before it is opened.
    fs::create_dir_all(s.dest.join("sub")).unwrap();
    let file = s.source.join("sub/file");
    let (_, problems) = copy(&tree(&s.source, &s.dest), &Cancel::default(), |event| {
        if is_copying(event, &file) {
            fs::hard_link(s.victim.join("file"), s.source.join("new")).unwrap();
            fs::rename(s.source.join("new"), &file).unwrap();
        }
    });
    assert!(problems.len() == 1 && problems[0].contains("replaced while being copied"), "{problems:?}");
    assert!(!contains_secret(&s.dest));
}

#[test]
fn what_took_the_place_of_a_listed_file_is_copied_as_what_it_is() {
    let s = scene();
    let (link, fifo) = (s.source.join("sub/link"), s.source.join("sub/fifo"));
    fs::write(&link, "harmless").unwrap();
    fs::write(&fifo, "harmless").unwrap();
    let mut first = None;
    let (summary, problems) = copy(&tree(&s.source, &s.dest), &Cancel::default(), |event| {
        // The names are read; the first file is done, and the others are still to be opened.
        if let Event::DataDone(report) = event
            && first.is_none()
        {
            first = Some(report.source.to_path_buf());
            for (path, becomes_link) in [(&link, true), (&fifo, false)] {
                if *path != report.source {
                    fs::remove_file(path).unwrap();
                    if becomes_link {
                        symlink(s.victim.join("file"), path).unwrap();
                    } else {
                        assert!(haul_testbed::Command::new("mkfifo").arg(path).status().unwrap().success());
                    }
                }
            }
        }
    });
    assert!(!summary.failed && problems.is_empty(), "{problems:?}");
    for path in [&link, &fifo].into_iter().filter(|path| Some(path.as_path()) != first.as_deref()) {
        let copy = s.dest.join("sub").join(path.file_name().unwrap());
        let (source, copy) = (fs::symlink_metadata(path).unwrap(), fs::symlink_metadata(copy).unwrap());
        assert_eq!(source.file_type(), copy.file_type());
    }
    assert!(!contains_secret(&s.dest));
}

#[test]
fn a_new_destination_directory_swapped_for_a_link_is_not_written_into() {
    let s = scene();
    let (file, sub) = (s.source.join("sub/file"), s.dest.join("sub"));
    let (_, _) = copy(&tree(&s.source, &s.dest), &Cancel::default(), |event| {
        if is_copying(event, &file) {
            fs::rename(&sub, s.dest.join("aside")).unwrap();
            symlink(&s.victim, &sub).unwrap();
        }
    });
    assert_eq!(fs::read(s.victim.join("file")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(&s.victim).unwrap().count(), 1);
    assert_eq!(fs::read(s.dest.join("aside/file")).unwrap(), b"harmless");
}

#[test]
fn an_existing_destination_file_swapped_for_a_link_is_not_written_through() {
    let s = scene();
    fs::create_dir_all(s.dest.join("sub")).unwrap();
    let (file, old) = (s.source.join("sub/file"), s.dest.join("sub/file"));
    fs::write(&old, "old").unwrap();
    let (summary, problems) = copy(&tree(&s.source, &s.dest), &Cancel::default(), |event| {
        if is_copying(event, &file) {
            fs::remove_file(&old).unwrap();
            symlink(s.victim.join("file"), &old).unwrap();
        }
    });
    assert!(summary.failed && problems.len() == 1, "{problems:?}");
    assert_eq!(fs::read(s.victim.join("file")).unwrap(), b"secret");
}

#[test]
fn an_existing_destination_file_swapped_for_another_name_of_a_file_outside_is_not_written_into() {
    let s = scene();
    fs::create_dir_all(s.dest.join("sub")).unwrap();
    let (file, old) = (s.source.join("sub/file"), s.dest.join("sub/file"));
    fs::write(&old, "old").unwrap();
    let (summary, problems) = copy(&tree(&s.source, &s.dest), &Cancel::default(), |event| {
        if is_copying(event, &file) {
            fs::remove_file(&old).unwrap();
            fs::hard_link(s.victim.join("file"), &old).unwrap();
        }
    });
    assert!(summary.failed && problems.len() == 1, "{problems:?}");
    assert_eq!(fs::read(s.victim.join("file")).unwrap(), b"secret");
}

#[test]
fn an_existing_destination_file_swapped_for_a_fifo_does_not_block() {
    let s = scene();
    fs::create_dir_all(s.dest.join("sub")).unwrap();
    let (file, old) = (s.source.join("sub/file"), s.dest.join("sub/file"));
    fs::write(&old, "old").unwrap();
    let (summary, problems) = copy(&tree(&s.source, &s.dest), &Cancel::default(), |event| {
        if is_copying(event, &file) {
            fs::remove_file(&old).unwrap();
            assert!(haul_testbed::Command::new("mkfifo").arg(&old).status().unwrap().success());
        }
    });
    assert!(summary.failed && problems.len() == 1, "{problems:?}");
}

#[test]
fn nothing_is_given_to_whoever_reads_a_fifo_that_took_the_place_of_a_destination_file() {
    let s = scene();
    fs::create_dir_all(s.dest.join("sub")).unwrap();
    let (file, old) = (s.source.join("sub/file"), s.dest.join("sub/file"));
    fs::write(&old, "old").unwrap();
    let mut reader = None;
    let (summary, problems) = copy(&tree(&s.source, &s.dest), &Cancel::default(), |event| {
        if is_copying(event, &file) {
            fs::remove_file(&old).unwrap();
            assert!(haul_testbed::Command::new("mkfifo").arg(&old).status().unwrap().success());
            // Open for both, so that it waits for nobody.
            reader = Some(fs::File::options().read(true).write(true).open(&old).unwrap());
        }
    });
    assert!(summary.failed && problems.len() == 1, "{problems:?}");
    let reader = reader.unwrap();
    assert_eq!(haul_sys::rustix::io::ioctl_fionread(&reader).unwrap(), 0);
}

#[test]
fn a_new_destination_file_is_not_made_through_a_link() {
    let s = scene();
    let (file, new) = (s.source.join("sub/file"), s.dest.join("sub/file"));
    let (summary, _) = copy(&tree(&s.source, &s.dest), &Cancel::default(), |event| {
        if is_copying(event, &file) {
            symlink(s.victim.join("file"), &new).unwrap();
        }
    });
    assert!(summary.failed);
    assert_eq!(fs::read(s.victim.join("file")).unwrap(), b"secret");
}

#[test]
fn a_destination_that_became_the_source_is_not_truncated() {
    let s = scene();
    let (source, dest) = (s.source.join("sub/file"), s.victim.join("file"));
    let (summary, problems) = copy(&file(&source, &dest), &Cancel::default(), |event| {
        if is_copying(event, &source) {
            fs::remove_file(&dest).unwrap();
            fs::hard_link(&source, &dest).unwrap();
        }
    });
    assert!(summary.failed && problems[0].contains("same file"), "{problems:?}");
    assert_eq!(fs::read(&source).unwrap(), b"harmless");
}

#[test]
fn a_source_that_became_a_fifo_does_not_block() {
    let s = scene();
    // In a directory that stood there before, a file is looked at before it is opened.
    fs::create_dir_all(s.dest.join("sub")).unwrap();
    let file = s.source.join("sub/file");
    let (summary, _) = copy(&tree(&s.source, &s.dest), &Cancel::default(), |event| {
        if is_copying(event, &file) {
            fs::remove_file(&file).unwrap();
            assert!(haul_testbed::Command::new("mkfifo").arg(&file).status().unwrap().success());
        }
    });
    assert!(summary.failed);
}

#[test]
fn a_cancelled_copy_leaves_no_new_file() {
    let s = scene();
    let big = s.source.join("big");
    create_painted(&big, 300 << 20);
    let cancel = Cancel::default();
    let (summary, problems) = copy(&file(&big, &s.dest), &cancel, |event| {
        if matches!(event, Event::Progress(_)) {
            cancel.cancel();
        }
    });
    assert!(summary.cancelled && summary.damaged.is_empty() && problems.is_empty(), "{problems:?}");
    assert!(!s.dest.exists());
}

#[test]
fn a_cancelled_overwrite_is_named() {
    let s = scene();
    let big = s.source.join("big");
    create_painted(&big, 300 << 20);
    fs::write(&s.dest, "old").unwrap();
    let cancel = Cancel::default();
    let (summary, _) = copy(&file(&big, &s.dest), &cancel, |event| {
        if matches!(event, Event::Progress(_)) {
            cancel.cancel();
        }
    });
    assert_eq!((summary.cancelled, summary.damaged), (true, vec![s.dest.clone()]));
    assert!(s.dest.exists());
}

#[test]
fn a_source_that_shrinks_or_grows_meanwhile_is_copied_to_its_end() {
    for new_len in [100 << 20, 400 << 20] {
        let s = scene();
        let big = s.source.join("big");
        create_painted(&big, 300 << 20);
        let mut once = true;
        let (summary, problems) = copy(&file(&big, &s.dest), &Cancel::default(), |event| {
            if matches!(event, Event::Progress(_)) && std::mem::take(&mut once) {
                fs::File::options().write(true).open(&big).unwrap().set_len(new_len).unwrap();
            }
        });
        assert!(!summary.failed, "{problems:?}");
        // What was moved before the source shrank stays; what it grew by is copied too.
        assert!(fs::metadata(&s.dest).unwrap().size() >= new_len.min(100 << 20));
        if new_len > 300 << 20 {
            haul_testbed::assert_same_contents(&big, &s.dest);
        }
    }
}

/// Copies an empty file that is written to at a moment, if that is to be an error. Whether it was, and what the copy is.
fn written_to_at(moment: fn(&Event<'_>) -> bool, engine: EngineChoice) -> (bool, Option<String>) {
    let s = scene();
    let empty = s.source.join("empty");
    fs::write(&empty, "").unwrap();
    let plan = Plan {
        if_changed: IfChanged::Fail,
        data: DataOptions { engine, ..file(&empty, &s.dest).data },
        ..file(&empty, &s.dest)
    };
    let mut met = 0;
    let (summary, _) = copy(&plan, &Cancel::default(), |event| {
        if moment(event) {
            met += 1;
            fs::write(&empty, "no longer").unwrap();
        }
    });
    assert_eq!(met, 1);
    (summary.failed, fs::read_to_string(&s.dest).ok())
}

const ENGINES: [EngineChoice; 3] =
    [EngineChoice::Auto, EngineChoice::Only(EngineName::CopyRange), EngineChoice::Only(EngineName::Mapped)];

#[test]
fn an_empty_source_that_is_written_to_before_it_is_read_has_changed() {
    for engine in ENGINES {
        let (failed, copied) = written_to_at(|event| matches!(event, Event::DataStarted { .. }), engine);
        assert!(failed && copied.is_none(), "{engine:?}: {copied:?}");
    }
}

#[test]
fn an_empty_source_that_is_written_to_after_it_was_read_is_copied_as_it_was() {
    for engine in ENGINES {
        let (failed, copied) = written_to_at(|event| matches!(event, Event::DataDone(_)), engine);
        assert!(!failed && copied.as_deref() == Some(""), "{engine:?}: {copied:?}");
    }
}
