//! One file under two names is never destroyed.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use haul_agree::case::Place;
use haul_agree::snapshot::Snapshot;
use haul_agree::stage::Call;

use crate::support::{lay, sealed};

type Scene = fn(&Path) -> io::Result<()>;

/// Ways in which `b` can be the file `a`.
const SCENES: &[(&str, Scene)] = &[
    ("hard link", |work| {
        lay(work, &["a"])?;
        fs::hard_link(work.join("a"), work.join("b"))
    }),
    ("symbolic link", |work| {
        lay(work, &["a"])?;
        symlink("a", work.join("b"))
    }),
    ("source is the symbolic link", |work| {
        lay(work, &["b"])?;
        symlink("b", work.join("a"))
    }),
    ("two symbolic links", |work| {
        lay(work, &["real"])?;
        symlink("real", work.join("a"))?;
        symlink("real", work.join("b"))
    }),
    ("two hard links to one symbolic link", |work| {
        lay(work, &["real"])?;
        symlink("real", work.join("a"))?;
        fs::hard_link(work.join("a"), work.join("b"))
    }),
    ("symbolic link to a hard link", |work| {
        lay(work, &["a"])?;
        fs::hard_link(work.join("a"), work.join("other"))?;
        symlink("other", work.join("b"))
    }),
];

const OPTIONS: &[&str] = &[
    "",
    "-f",
    "-b",
    "-bf",
    "-r",
    "-a",
    "-p",
    "-d",
    "-P",
    "-L",
    "-l",
    "-s",
    "-u",
    "-n",
    "-T",
    "-rd",
    "-rf",
    "-lf",
    "-sf",
    "-bl",
    "-bs",
    "-bd",
    "-blf",
    "-bdf",
    "-dl",
    "-rl",
    "-rs",
    "-al",
    "-as",
    "-i",
    "--remove-destination",
    "-df",
    "--remove-destination -d",
    "--remove-destination -l",
    "--remove-destination -s",
    "--remove-destination -a",
    "--remove-destination -bd",
    "--backup=numbered -f",
    "--attributes-only",
    "--attributes-only -f",
    "-bT",
    "--sparse=always",
    "--reflink=never",
    "--parents",
];

#[test]
fn a_file_copied_to_itself_under_another_name_survives_and_the_answer_is_that_of_cp() {
    sealed("same file", |place| {
        let mut found = String::new();
        for (name, scene) in SCENES {
            for options in OPTIONS {
                let pairs = [("a", "b"), ("b", "a"), ("a", "a"), ("./a", "a"), ("@/a", "b"), ("a", ".")];
                for (source, destination) in pairs {
                    let argv: Vec<&str> =
                        options.split(' ').filter(|word| !word.is_empty()).chain([source, destination]).collect();
                    let call = Call { stdin: b"y\n".to_vec(), ..Call::new(&argv) };
                    let (text, done) = place.differences(scene, &call);
                    if !text.is_empty() {
                        found.push_str(&format!("{name}: {text}\n"));
                    }
                    let digests = |files: &Snapshot| {
                        files.values().filter(|item| item.kind == 'f').map(|item| item.contents.clone()).max()
                    };
                    assert_eq!(digests(&done.before), digests(&done.after), "{name}: {argv:?} lost the contents");
                }
            }
        }
        assert!(found.is_empty(), "{found}");
    });
}

#[test]
fn a_backup_never_replaces_the_source() {
    sealed("backup is the source", |place| {
        let scene = |work: &Path| lay(work, &["a", "a~", "d/a", "d/a~"]);
        let calls = [&["-b", "a~", "a"][..], &["--backup=simple", "a~", "a"], &["--backup=existing", "d/a~", "d/a"]];
        for argv in calls.into_iter().chain([&["-b", "a", "a~", "d"][..], &["-b", "d/a~", "."]]) {
            place.agree(&scene, &Call::new(argv));
        }
    });
}

/// cp loses it here.
#[test]
fn a_backup_never_replaces_a_source_that_has_another_name() {
    sealed("backup is the source behind a link", |place| {
        let scene = |work: &Path| {
            lay(work, &["a", "a~", "d/a", "d/a~", "s/"])?;
            symlink("a~", work.join("link"))?;
            symlink("../d/a~", work.join("s/a"))
        };
        let calls = [&["-b", "-T", "link", "a"][..], &["-b", "--atomic", "-T", "link", "a"], &["-rLbT", "s", "d"]];
        for argv in calls {
            let done = place.play(Place::Memory, &scene, &Call::new(argv));
            assert_eq!(done.status, "exit 1", "{argv:?}");
            assert_eq!(done.before, done.after, "{argv:?}");
        }
    });
}

#[test]
fn a_simple_backup_stands_beside_the_file_it_saves() {
    sealed("simple backup", |place| {
        let scene = |work: &Path| lay(work, &["f", "s/x/f", "d/f", "d/s/x/f"]);
        for control in ["simple", "never"] {
            let backup = format!("--backup={control}");
            let done = place.play(Place::Memory, &scene, &Call::new(&["-r", &backup, "f", "s", "d"]));
            assert_eq!(done.status, "exit 0");
            let contents = |files: &Snapshot, path: &str| files[format!("work/{path}").as_bytes()].contents.clone();
            for path in ["d/f", "d/s/x/f"] {
                assert_eq!(contents(&done.after, &format!("{path}~")), contents(&done.before, path), "{path}");
            }
            assert_eq!(done.after.len(), done.before.len() + 2);
        }
    });
}

#[test]
fn two_sources_of_one_name_do_not_overwrite_each_other() {
    sealed("just created", |place| {
        let scene = |work: &Path| {
            lay(work, &["a/f", "b/f", "a/s/x", "b/s/x", "d/"])?;
            symlink("f", work.join("a/l"))?;
            symlink("f", work.join("b/l"))
        };
        let calls: &[&[&str]] = &[
            &["a/f", "b/f", "d"],
            &["-r", "a", "b/f", "d"],
            &["-r", "a/s", "b/s", "d"],
            &["-a", "a/l", "b/l", "d"],
            &["-a", "a/l", "b/f", "d"],
            &["a/f", "a/f", "d"],
            &["-r", "a", "a", "d"],
            &["-b", "a/f", "b/f", "d"],
            &["--backup=numbered", "a/f", "b/f", "a/f", "d"],
            &["-l", "a/f", "b/f", "d"],
            &["-u", "a/f", "b/f", "d"],
            &["-n", "a/f", "b/f", "d"],
            &["-f", "a/f", "b/f", "d"],
        ];
        for argv in calls {
            place.agree(&scene, &Call::new(argv));
        }
    });
}
