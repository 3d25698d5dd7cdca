//! A copy of real trees, compared with the source by programs that haul did not write.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use haul_agree::grow::{Flavor, Grower};
use haul_agree::scene::build;
use haul_agree::skip::skip;
use haul_testbed::Command;

use crate::support::{REFERENCE, Sealed, number, sealed};

/// Runs a shell command with the directories as `$1` and `$2`; its output must be empty.
fn finds_nothing(what: &str, script: &str, source: &Path, copy: &Path) {
    let mut command = Command::new("bash");
    // Only the room can be written, and sort needs to.
    command.env("TMPDIR", copy.parent().unwrap_or(copy)).args(["-c", script, "bash"]).arg(source).arg(copy);
    let run: Output = command.output().expect("bash starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().take(30).collect::<Vec<_>>().join("\n");
    let said = format!("{}\n{}", text(&run.stdout), text(&run.stderr));
    assert!(run.status.success() && said.trim().is_empty(), "{what}: {}\n{said}", copy.display());
}

/// The names of each file that has several below the working directory, one file on a line. Other names may be outside.
const HARD_LINKS: &str = r#"find . ! -type d -links +1 -printf '%i\t%p\0' | tr '\n\0' '\1\n' | sort |
    awk -F'\t' '$1 == last { line = line "\t" $2; count++; next }
        { if (count > 1) print line; line = $2; count = 1; last = $1 }
        END { if (count > 1) print line }' | sort"#;

/// Compares by rsync, by tar, and by dumps of attributes, ACLs and hard links.
fn equal(source: &Path, copy: &Path) {
    // Contents by checksum, all attributes, hard links, ACLs; without -S, which only matters when writing.
    let rsync = "rsync -naHAX --devices --specials --checksum --delete --itemize-changes -- \"$1/\" \"$2/\"";
    finds_nothing("rsync", rsync, source, copy);
    let tar = "cd \"$1\" && tar --sort=name -cf - . 2>/dev/null | tar -C \"$2\" --compare -f - 2>&1";
    finds_nothing("tar --compare", tar, source, copy);
    let dump = |command: &str| format!("diff <(cd \"$1\" && {command}) <(cd \"$2\" && {command})");
    finds_nothing("getfattr", &dump("getfattr -dhR -m - --absolute-names . | sort"), source, copy);
    finds_nothing("getfacl", &dump("getfacl -RpPn . 2>/dev/null | sort"), source, copy);
    // Type, mode, owner, size, nanoseconds and target of everything.
    let find = "find . -type d -printf '%p %y %m %U:%G %T@\\n' -o -printf '%p %y %m %U:%G %s %T@ %l\\n' | sort";
    finds_nothing("find", &dump(find), source, copy);
    finds_nothing("hard links", &dump(HARD_LINKS), source, copy);
    let nodes = "find . \\( -type b -o -type c \\) -exec stat -c '%n %t:%T' {} + | sort";
    finds_nothing("device numbers", &dump(nodes), source, copy);
}

/// Kibibytes of disk that a tree takes.
fn disk_usage(tree: &Path) -> u64 {
    let output = Command::new("du").arg("-sk").arg(tree).output().expect("du starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().next().and_then(|number| number.parse().ok()).expect("du prints a number")
}

fn both_copies_are_equal(place: &Sealed, source: &Path) {
    for tool in ["rsync", "tar", "getfattr", "getfacl"] {
        if Command::new(tool).arg("--version").output().is_err() {
            skip("comparison by another program", &format!("{tool} is not installed"));
            return;
        }
    }
    let copies = place.room.join("disk");
    let mut usage = Vec::new();
    for (name, program) in [("by-cp", Path::new(REFERENCE)), ("by-haul", &place.cp)] {
        let copy = copies.join(name);
        let mut command = Command::new(program);
        let run = command.arg0("cp").arg("-a").arg(source).arg(&copy).output().expect("starts");
        assert!(run.status.success(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
        equal(source, &copy);
        usage.push(disk_usage(&copy));
        fs::remove_dir_all(&copy).expect("can be removed");
    }
    assert!(usage[1] <= usage[0] + usage[0] / 100 + 64, "haul's copy takes {} KiB, cp's {}", usage[1], usage[0]);
}

#[test]
fn a_copy_of_real_trees_equals_the_source_for_rsync_and_tar() {
    sealed("real trees", |place| {
        let libraries = ["perl", "perl-base", "gconv", "security", "engines-3", "pkgconfig", "e2fsprogs", "audit"];
        let libraries = libraries.iter().map(|name| PathBuf::from("/usr/lib/x86_64-linux-gnu").join(name));
        let trees = ["/usr/share/doc", "/usr/share/terminfo", "/usr/share/zoneinfo", "/etc/alternatives"];
        for tree in trees.iter().map(PathBuf::from).chain(libraries).filter(|tree| tree.is_dir()) {
            both_copies_are_equal(place, &tree);
        }
    });
}

#[test]
fn a_copy_of_usr_equals_the_source_for_rsync_and_tar() {
    if number("HAUL_AGREE_USR", 0) == 0 {
        // Not a lack of the machine: it is left to whoever asks for it.
        println!("set HAUL_AGREE_USR=1 to copy the whole of /usr");
        return;
    }
    sealed("/usr", |place| both_copies_are_equal(place, Path::new("/usr")));
}

#[test]
fn a_copy_of_every_kind_of_file_equals_the_source_for_rsync_and_tar() {
    sealed("a zoo", |place| {
        for seed in 0..20 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let flavor = Flavor { fifos: true, devices: true, mounts: false, unprivileged: false };
            let mut grower = Grower { rng: &mut rng, flavor, nodes: Vec::new() };
            grower.tree(b"zoo", 4, 60);
            let root = place.room.join("disk").join(seed.to_string());
            fs::create_dir(&root).expect("a directory");
            build(&root, &grower.nodes).expect("a zoo");
            both_copies_are_equal(place, &root.join("zoo"));
        }
    });
}
