//! Files whose size lies, device nodes, inode numbers that collide.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use haul_agree::case::Place;
use haul_agree::scene::{Kind, Node, build, mount_tmpfs};
use haul_agree::stage::Call;

use crate::support::{lay, sealed, stderr};

/// Files of virtual filesystems that do not change while nobody changes them.
const VIRTUAL: &[&str] = &[
    "/proc/version",
    "/proc/filesystems",
    "/proc/cmdline",
    "/proc/kallsyms",
    "/proc/sys/kernel/ostype",
    "/proc/sys/kernel/pid_max",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size",
    "/sys/devices/system/cpu/online",
    "/sys/kernel/notes",
];

#[test]
fn files_of_proc_and_sys_are_copied_to_their_last_byte() {
    sealed("/proc and /sys", |place| {
        let sources: Vec<&str> = VIRTUAL.iter().copied().filter(|path| fs::read(path).is_ok()).collect();
        assert!(sources.len() >= 5, "this machine has too few of them: {sources:?}");
        for options in ["", "-r", "--sparse=always", "--sparse=never", "--reflink=never", "-a"] {
            for target in ["memory", "disk"] {
                let directory = place.room.join(target).join("virtual");
                fs::create_dir_all(&directory).expect("a directory");
                let run = haul_testbed::Command::new(&place.cp)
                    .args(options.split(' ').filter(|word| !word.is_empty()))
                    .args(&sources)
                    .arg(&directory)
                    .output()
                    .expect("the program under test starts");
                let said = String::from_utf8_lossy(&run.stderr).into_owned();
                // -a cannot keep the attributes of some; the contents count here.
                assert!(run.status.success() || options == "-a", "{options} to {target}: {said}");
                for source in &sources {
                    let copy = directory.join(Path::new(source).file_name().expect("a name"));
                    let wanted = fs::read(source).expect("was readable a moment ago");
                    let found = fs::read(&copy).unwrap_or_else(|error| panic!("{options} {source}: {error}: {said}"));
                    assert!(
                        found == wanted,
                        "{options} {source} to {target}: {} of {} bytes",
                        found.len(),
                        wanted.len()
                    );
                }
                fs::remove_dir_all(&directory).expect("the directory can be removed");
            }
        }
    });
}

#[test]
fn a_directory_of_sysfs_is_copied_with_the_contents_of_its_files() {
    sealed("sysfs tree", |place| {
        let source = Path::new("/sys/kernel/mm/transparent_hugepage");
        let copy = place.room.join("memory/thp");
        let run = haul_testbed::Command::new(&place.cp).arg("-r").arg(source).arg(&copy).output().expect("starts");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let mut compared = 0;
        for entry in fs::read_dir(source).expect("sysfs is there") {
            let path = entry.expect("an entry").path();
            if let Ok(wanted) = fs::read(&path) {
                assert_eq!(fs::read(copy.join(path.file_name().expect("a name"))).expect("was copied"), wanted);
                compared += 1;
            }
        }
        assert!(compared > 2);
    });
}

#[test]
fn device_nodes_keep_their_own_numbers() {
    sealed("device numbers", |place| {
        let numbers = [(1, 3), (1, 5), (7, 0), (60, 1), (0, 0), (4095, 1_048_575), (255, 256)];
        let scene = |work: &Path| {
            let node = |(index, &(major, minor)): (usize, &(u32, u32))| {
                let kind = if index % 2 == 0 { Kind::Character(major, minor) } else { Kind::Block(major, minor) };
                Node::new(format!("s/n{index}").as_bytes(), kind)
            };
            let mut nodes = vec![Node::new(b"s", Kind::Directory)];
            nodes.extend(numbers.iter().enumerate().map(node));
            build(work, &nodes)
        };
        for options in ["-a", "-r", "-dR", "-rp"] {
            let done = place.agree(&scene, &Call::new(&[options, "s", "d"]));
            for index in 0..numbers.len() {
                let item = |tree: &str| &done.after[format!("work/{tree}/n{index}").as_bytes()];
                assert_eq!((item("s").kind, item("s").device), (item("d").kind, item("d").device));
            }
            assert_eq!(done.status, "exit 0", "{}", stderr(&done));
        }
    });
}

/// Number of regular files by their names below a directory.
fn files(root: &Path) -> io::Result<BTreeMap<String, u64>> {
    let mut found = BTreeMap::new();
    let mut left: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                left.push(entry.path());
            } else {
                found.insert(
                    entry.path().strip_prefix(root).unwrap_or(&entry.path()).display().to_string(),
                    entry.metadata()?.ino(),
                );
            }
        }
    }
    Ok(found)
}

#[test]
fn equal_inode_numbers_on_two_filesystems_do_not_lose_a_file() {
    sealed("inode numbers that collide", |place| {
        let (from, to) = (place.room.join("from"), place.room.join("to"));
        for directory in [&from, &to] {
            fs::create_dir(directory).expect("a directory");
            mount_tmpfs(directory, "16m").expect("a tmpfs");
        }
        let names: Vec<String> = (0..60).map(|index| format!("s/{}/f{index}", index % 5)).collect();
        lay(&from, &names.iter().map(String::as_str).collect::<Vec<_>>()).expect("a tree");
        for index in 0..6 {
            // Each destination has another inode number, all of them taken by some file of the source.
            let target = to.join(format!("d{index}"));
            fs::create_dir(&target).expect("a directory");
            let ino = fs::metadata(&target).expect("is there").ino();
            let wanted = files(&from).expect("a listing");
            let collides = wanted.values().any(|&other| other == ino)
                || files(&to).expect("a listing").values().any(|number| wanted.values().any(|other| other == number));
            let run = haul_testbed::Command::new(&place.cp).args(["-a", "s"]).arg(&target).current_dir(&from).output();
            let run = run.expect("starts");
            assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
            let found = files(&target).expect("a listing");
            assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
            assert!(collides || index == 0, "no number collides: the test shows nothing");
        }
    });
}

#[test]
fn hard_links_are_not_made_between_files_that_only_share_an_inode_number() {
    sealed("hard links over two filesystems", |place| {
        let scene = |work: &Path| {
            for (index, name) in ["s/one", "s/two"].iter().enumerate() {
                fs::create_dir_all(work.join(name))?;
                mount_tmpfs(&work.join(name), "4m")?;
                fs::write(work.join(name).join("x"), format!("contents {index}"))?;
                fs::hard_link(work.join(name).join("x"), work.join(name).join("y"))?;
            }
            let ino = |name: &str| fs::metadata(work.join(name)).map(|metadata| metadata.ino());
            assert_eq!(ino("s/one/x")?, ino("s/two/x")?, "the numbers do not collide: the test shows nothing");
            Ok(())
        };
        let done = place.agree(&scene, &Call::new(&["-a", "s", "d"]));
        let item = |name: &str| &done.after[format!("work/{name}").as_bytes()];
        assert_eq!(item("s/one/x").contents, item("d/one/x").contents);
        assert_eq!(item("s/two/x").contents, item("d/two/x").contents);
    });
}

#[test]
fn fifos_and_sockets_are_recreated_and_never_opened() {
    sealed("FIFOs and sockets", |place| {
        let scene = |work: &Path| {
            let nodes = [
                Node::new(b"s", Kind::Directory),
                Node::new(b"s/fifo", Kind::Fifo),
                Node::new(b"s/socket", Kind::Socket),
                Node::new(b"s/other", Kind::HardLink(b"s/fifo".to_vec())),
                Node::new(b"d", Kind::Directory),
                Node::new(b"d/s", Kind::Directory),
                Node::new(b"d/s/fifo", Kind::Fifo),
            ];
            build(work, &nodes)
        };
        for options in ["-a", "-r", "-rp", "-rb", "-rf", "-rn", "-ru", "-rl", "--remove-destination -r"] {
            let argv: Vec<&str> = options.split(' ').chain(["s", "d"]).collect();
            place.agree(&scene, &Call::new(&argv));
        }
    });
}

#[test]
fn the_contents_of_a_device_are_copied_when_asked() {
    sealed("--copy-contents", |place| {
        let scene =
            |work: &Path| build(work, &[Node::new(b"s", Kind::Directory), Node::new(b"s/null", Kind::Character(1, 3))]);
        let done = place.agree(&scene, &Call::new(&["-r", "--copy-contents", "s", "d"]));
        assert_eq!((done.after[&b"work/d/null"[..]].kind, done.after[&b"work/d/null"[..]].size), ('f', 0));
        let single = place.play(Place::Memory, &scene, &Call::new(&["s/null", "copy"]));
        assert_eq!(single.status, "exit 0");
        assert!(fs::symlink_metadata("/dev/null").expect("is there").file_type().is_char_device());
    });
}
