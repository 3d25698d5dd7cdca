//! Nothing but the inode that is held is ever changed; `--parents`.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use haul_copy::meta::{
    KnownFilesystems, NewEntries, Object, Report, Request, Side, XattrRules, finish, finish_parent, open_up,
    parent_creation_mode,
};
use haul_copy::plan::ContextRule;
use haul_sys::inode::Inode;
use haul_sys::rustix::fs::{CWD, Mode, OFlags, mkdirat, open};
use haul_testbed::{Bed, Command, Fs};

use crate::scene::{NOBODY, Options, as_user, below, caller, describe, set_times, shell, words};

/// Calls one of the two with directories or other inodes held by `O_PATH`, after `between` has run.
fn finish_held(
    (source, dest): (&Path, &Path),
    options: &Options,
    created: bool,
    between: impl FnOnce(),
    parent: bool,
) -> (bool, Vec<String>) {
    let mut messages = Vec::new();
    let mut report = |error| messages.push(words(&error, dest));
    (finish_and_hear((source, dest), options, created, between, parent, &mut report), messages)
}

/// The same, with what hears of problems as they come.
fn finish_and_hear(
    (source, dest): (&Path, &Path),
    options: &Options,
    created: bool,
    between: impl FnOnce(),
    parent: bool,
    report: Report<'_>,
) -> bool {
    let hold = |path| open(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).unwrap();
    let (from, to) = (hold(source), hold(dest));
    let (from_inode, to_inode) = (Inode::of(from.as_fd()).unwrap(), Inode::of(to.as_fd()).unwrap());
    if created && parent {
        open_up(Object { fd: to.as_fd(), path_only: true }, &to_inode).unwrap();
    }
    let request = Request {
        preserve: &options.preserve,
        context: &ContextRule::Default,
        source: Side { object: Object { fd: from.as_fd(), path_only: true }, inode: &from_inode, path: source },
        dest: Side { object: Object { fd: to.as_fd(), path_only: true }, inode: &to_inode, path: dest },
        created,
        entries: NewEntries::UNKNOWN,
        exact: false,
        despite_mode: true,
        no_data: false,
        moves: false,
        seal_later: false,
        caller: caller(),
        rules: &XattrRules::default(),
        memory: &KnownFilesystems::new(),
    };
    between();
    if parent { finish_parent(&request, report) } else { finish(&request, report) }
}

#[test]
fn what_replaces_the_destination_is_left_alone() {
    let Some(bed) = Bed::new() else { return };
    for fs in Fs::ALL {
        let Some(root) = bed.mount(fs) else { continue };
        for make in ["echo > X", "mkdir X", "mkfifo X", "mknod X c 1 3", "ln -s nowhere X"] {
            shell(&root, &make.replace('X', "source"));
            shell(&root, "chown -h 1234:4321 source; setfattr -h -n trusted.a -v 1 source");
            if !make.starts_with("ln") {
                shell(&root, "chmod 6711 source; setfacl -m u:77:rwx source");
            }
            set_times(&below(&root, "source"), (1_234_567_890, 1), (1_234_567_890, 2));
            shell(&root, &make.replace('X', "dest"));
            shell(&root, "echo secret > victim; chmod 600 victim");
            let victim = describe(&below(&root, "victim"), true);
            // The names are exchanged for links to a file that must not change while we hold both inodes.
            let swap = || {
                for name in ["source", "dest"] {
                    fs::rename(below(&root, name), below(&root, &format!("moved-{name}"))).unwrap();
                    symlink("victim", below(&root, name)).unwrap();
                }
            };
            let (source, dest) = (below(&root, "source"), below(&root, "dest"));
            assert_eq!(finish_held((&source, &dest), &Options::of("-a"), true, swap, false), (true, vec![]), "{make}");
            assert_eq!(describe(&below(&root, "victim"), true), victim, "{fs:?} {make}");
            let (kept, wanted) = (below(&root, "moved-dest"), below(&root, "moved-source"));
            assert_eq!(describe(&kept, true), describe(&wanted, true), "{fs:?} {make}");
            shell(&root, "rm -rf source dest victim moved-source moved-dest");
        }
    }
}

/// A link to the source is not the source: it gets times, not the owner.
#[test]
fn a_symbolic_link_to_the_source_is_as_cp_makes_it() {
    let Some(bed) = Bed::new() else { return };
    let Some(root) = bed.mount(Fs::Ext4) else { return };
    shell(&root, "echo data > source; chown 1234:4321 source; chattr +d source; setfattr -n user.a -v 1 source");
    let source = below(&root, "source");
    set_times(&source, (1_000_000_000, 1), (900_000_000, 2));
    for flags in ["-s", "-s -p", "-s -a", "-s --preserve=all"] {
        let options = Options { flags: Vec::new(), ..Options::of(flags.trim_start_matches("-s")) };
        let mut cp = Command::new("/bin/cp");
        let done =
            cp.env("LC_ALL", "C").args(flags.split(' ')).args([&source, &below(&root, "of-cp")]).output().unwrap();
        let expected = (
            done.status.success(),
            String::from_utf8(done.stderr).unwrap().lines().map(|line| line.replace("/bin/cp: ", "")).collect(),
        );
        symlink(&source, below(&root, "of-haul")).unwrap();
        let mut options = options;
        options.preserve.flags = true;
        let dest = below(&root, "of-haul");
        assert_eq!(finish_held((&source, &dest), &options, true, || {}, false), expected, "{flags}");
        let times = options.preserve.timestamps;
        assert_eq!(describe(&dest, times), describe(&below(&root, "of-cp"), times), "{flags}");
        shell(&root, "rm of-cp of-haul");
    }
}

/// Also one that stands there already: cp changes it if a directory below it had to be made.
#[test]
fn directories_of_parents_are_as_cp_makes_them() {
    let Some(bed) = Bed::new() else { return };
    let Some(root) = bed.mount(Fs::Ext4) else { return };
    let sources = [
        "mkdir X; chmod 755 X",
        "mkdir X; chmod 777 X; chown 1234:4321 X",
        "mkdir X; chmod 1575 X",
        "mkdir X; chmod 2555 X; chown 65534:65534 X",
        "mkdir X; setfacl -m u:77:rwx,d:u:77:rx X",
    ];
    shell(&root, "mkdir -m 777 cp-dest haul-dest");
    for (number, line) in sources.iter().enumerate() {
        let name = format!("dir{number}");
        shell(&root, &line.replace('X', &name));
        shell(&root, &format!("mkdir {name}/inner; echo data > {name}/inner/file"));
        let source = below(&root, &name);
        set_times(&source, (1_000_000_000, 1), (900_000_000, 2));
        for flags in
            ["", "-p", "-a", "--preserve=mode", "--preserve=ownership", "--preserve=timestamps", "--no-preserve=mode"]
        {
            let options = Options::of(flags);
            for (user, mask) in [(0, 0o022), (0, 0o377), (NOBODY, 0o022), (NOBODY, 0o002)] {
                for found in [false, true] {
                    let (expected, actual) =
                        (below(&root, "cp-dest").join(&name), below(&root, "haul-dest").join(&name));
                    if found {
                        shell(&root, &format!("mkdir -m 3777 cp-dest/{name} haul-dest/{name}"));
                    }
                    let by_cp = as_user(user, mask, || {
                        let mut cp = Command::new("/bin/cp");
                        cp.env("LC_ALL", "C").current_dir(&root).arg("--parents").args(&options.flags);
                        let done = cp.arg(format!("{name}/inner/file")).arg("cp-dest").output().unwrap();
                        let words =
                            String::from_utf8(done.stderr).unwrap().replace(&format!("'cp-dest/{name}'"), "DEST");
                        let about_it = words.lines().filter(|line| line.contains("DEST"));
                        about_it.map(|line| line.trim_start_matches("/bin/cp: ").to_owned()).collect::<Vec<_>>()
                    });
                    let by_haul = as_user(user, mask, || {
                        let made = Inode::at(CWD, source.as_os_str()).unwrap().permissions;
                        let mode = parent_creation_mode(made, &options.preserve).mode;
                        if !found {
                            mkdirat(CWD, &actual, Mode::from_raw_mode(mode)).unwrap();
                        }
                        finish_held((&source, &actual), &options, !found, || {}, true)
                    });
                    assert_eq!(by_haul.1, by_cp, "{line} {flags} {user} {mask:o} {found}");
                    assert_eq!(by_haul.0, by_cp.is_empty());
                    let times = options.preserve.timestamps && by_cp.is_empty();
                    assert_eq!(
                        describe(&actual, times),
                        describe(&expected, times),
                        "{line} {flags} {user} {mask:o} {found}"
                    );
                    shell(&root, &format!("rm -rf cp-dest/{name} haul-dest/{name}"));
                }
            }
        }
    }
}

#[test]
fn a_capability_comes_when_the_mode_lets_no_more_run_the_file() {
    let Some(bed) = Bed::new() else { return };
    // Something that fails while the attributes are set, and is heard then.
    let (Some(from), Some(to)) = (bed.mount(Fs::Xfs), bed.mount(Fs::Ext4)) else { return };
    let capability = "0x0100000200200000000000000000000000000000";
    shell(&from, &format!("echo > file; chmod 700 file; setfattr -n security.capability -v {capability} file"));
    shell(&from, "setfattr -n user.big -v $(head -c 50000 /dev/zero | tr '\\0' x) file");
    for (found, list, meanwhile) in [(0o755, "", 0o700), (0o750, "u:77:rx", 0o700), (0o500, "", 0o500)] {
        shell(&to, &format!("rm -f file; echo > file; chmod {found:o} file"));
        if !list.is_empty() {
            shell(&to, &format!("setfacl -m {list} file"));
        }
        let mode = || fs::metadata(below(&to, "file")).unwrap().permissions().mode() & 0o7777;
        let mut heard = Vec::new();
        let paths = (&*below(&from, "file"), &*below(&to, "file"));
        let options = Options::of("--preserve=mode,xattr");
        let done = finish_and_hear(paths, &options, false, || {}, false, &mut |_| heard.push(mode()));
        assert_eq!((done, heard, mode()), (false, vec![meanwhile], 0o700), "{found:o} {list}");
        shell(&to, "getfattr -n security.capability file");
    }
}

#[test]
fn attributes_of_a_read_only_file_are_kept_by_its_owner() {
    let Some(bed) = Bed::new() else { return };
    let Some(root) = bed.mount(Fs::Ext4) else { return };
    for (make, mode) in [("echo > X", 0o444), ("mkdir X", 0o555)] {
        for (flags, source_mode) in [("-a", mode), ("-a", 0o640), ("--preserve=xattr", 0o640)] {
            shell(&root, &format!("{0}; {1}", make.replace('X', "source"), make.replace('X', "dest")));
            shell(
                &root,
                &format!("setfattr -n user.a -v new source; chmod {source_mode:o} source; chmod {mode:o} dest"),
            );
            shell(&root, &format!("chown {NOBODY}:{NOBODY} source dest"));
            let (source, dest) = (below(&root, "source"), below(&root, "dest"));
            let done =
                as_user(NOBODY, 0o022, || finish_held((&source, &dest), &Options::of(flags), false, || {}, false));
            assert_eq!(done, (true, vec![]), "{make} {flags}");
            shell(&root, "test $(getfattr --only-values -n user.a dest) = new");
            let now = fs::metadata(&dest).unwrap().permissions().mode() & 0o7777;
            assert_eq!(now, if flags == "-a" { source_mode } else { mode }, "{make} {flags}");
            shell(&root, "rm -rf source dest");
        }
    }
}
