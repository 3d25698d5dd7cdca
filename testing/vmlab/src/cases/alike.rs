//! Filesystems on which names that differ in upper and lower case are one name: nothing that is moved there is lost, and nothing
//! is deleted there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::lab::{Disk, Found, Lab, Outcome};
use crate::{haul, tool, tree};

/// How each of them is made and mounted.
const KINDS: [(&str, &str, &str); 3] = [
    ("ext4 with casefold", "mkfs.ext4 -q -F -O casefold -E encoding=utf8,lazy_itable_init=1,nodiscard", "ext4"),
    ("XFS with version=ci", "mkfs.xfs -q -f -K -n version=ci", "xfs"),
    ("FAT", "mkfs.vfat -F 32", "vfat"),
];

/// Options of moves: with one thread and several, and where FAT can keep all that is asked for.
const MOVES: [&str; 4] = ["", "--jobs=4", "--no-preserve=all", "--no-preserve=all --durable=file"];

/// Sources whose names are one name in the destination, and what stands there.
const SOURCE: [&str; 6] = ["Name", "name", "Tree/inner", "tree/inner", "tree/INNER", "other"];
const STANDS: [&str; 3] = ["NAME", "TREE/Inner", "extra"];

/// Those that are updated.
const FILES: u32 = 8;

/// Moves, mirrors and copies to each of them, and within it.
pub fn run(lab: &mut Lab) -> Result<(), String> {
    let exact = lab.mounted("ext4", "exact", 256)?;
    for (number, (name, format, kind)) in KINDS.into_iter().enumerate() {
        let disk = lab.disk(&format!("alike-{number}"), 512)?;
        let place = Place { exact: exact.clone(), alike: made(&disk, format, kind)? };
        for options in MOVES {
            lab.check(&format!("{name}: move of a tree there: {options}"), || {
                place.moves("-T", "source", "dest", options)
            });
            lab.check(&format!("{name}: moves into a directory there: {options}"), || {
                place.moves("", "source/Name source/name source/Tree source/tree", "dest/", options)
            });
        }
        for options in ["", "--jobs=4", "--no-preserve=all"] {
            lab.check(&format!("{name}: moves within it: {options}"), || place.moves_within(options));
        }
        lab.check(&format!("{name}: a move within it to another spelling"), || place.respelled());
        for options in ["", "--jobs=4", "--atomic"] {
            lab.check(&format!("{name}: --delete there: {options}"), || place.deletes(options));
        }
        lab.check(&format!("{name}: an update there, of odd and even seconds"), || place.updates());
        tool::run(&format!("umount {}", place.alike_root().display()))?;
    }
    Ok(())
}

/// The directory in which names are alike.
fn made(disk: &Disk, format: &str, kind: &str) -> Result<PathBuf, String> {
    tool::run(&format!("{format} {}", disk.path().display()))?;
    let dir = disk.mount(kind)?.join("dir");
    fs::create_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    if kind == "ext4" {
        tool::run(&format!("chattr +F {}", dir.display()))?;
    }
    let [one, other] = ["Probe", "pROBE"].map(|name| dir.join(name));
    fs::write(&one, "")
        .and_then(|()| fs::remove_file(&other))
        .map_err(|error| format!("names are not alike: {error}"))?;
    Ok(dir)
}

struct Place {
    exact: PathBuf,
    alike: PathBuf,
}

impl Place {
    fn alike_root(&self) -> &Path {
        self.alike.parent().unwrap_or(&self.alike)
    }

    /// New trees: the source with exact names, and what stands where they are alike. The contents of both.
    fn laid(&self) -> Result<[BTreeSet<String>; 2], String> {
        let [source, dest] = [self.exact.join("source"), self.alike.join("dest")];
        tool::run(&format!("rm -rf {} {}", source.display(), dest.display()))?;
        for (root, names) in [(&source, &SOURCE[..]), (&dest, &STANDS[..])] {
            for name in names {
                let path = root.join(name);
                let text = format!("the contents of {name} in {}", root.display());
                let parent = path.parent().unwrap_or(root);
                fs::create_dir_all(parent).and_then(|()| fs::write(&path, text)).map_err(|error| error.to_string())?;
            }
        }
        Ok([contents(&source)?, contents(&dest)?])
    }

    /// Moves there. Whatever haul says, each file of the source is whole on one side, and what nothing took the place of stands.
    fn moves(&self, how: &str, sources: &str, dest: &str, options: &str) -> Outcome {
        let [before, stood] = self.laid()?;
        let at = |name: &str| self.exact.join(name).display().to_string();
        let sources: Vec<String> = sources.split(' ').map(at).collect();
        let line = format!("--move {options} {how} {} {}", sources.join(" "), self.alike.join(dest).display());
        let foreseen = haul::run(&format!("--dry-run {line}"))?;
        let untouched = [contents(&self.exact.join("source"))?, contents(&self.alike.join("dest"))?];
        if untouched != [before.clone(), stood] {
            return Err(format!("the dry run has changed something: {}", foreseen.report()).into());
        }
        let run = haul::run(&line)?;
        let [stays, moved] = [contents_if_there(&self.exact.join("source"))?, contents(&self.alike.join("dest"))?];
        let lost: Vec<&String> =
            before.iter().filter(|text| !stays.contains(*text) && !moved.contains(*text)).collect();
        if !lost.is_empty() {
            return Err(format!("lost: {lost:?}: {}", run.report()).into());
        }
        if !moved.iter().any(|text| text.contains(" extra ")) {
            return Err(format!("the destination lacks what nothing replaced: {}", run.report()).into());
        }
        if !stays.is_empty() && !run.failed() {
            return Err(format!("{} sources stay without an error: {}", stays.len(), run.report()).into());
        }
        Ok(Found::new(&run, format!("{} of {} moved, none lost", before.len() - stays.len(), before.len())))
    }

    /// Moves what has names that are alike out of two directories of the same filesystem into a third one: there it is renamed,
    /// or replaced.
    fn moves_within(&self, options: &str) -> Outcome {
        self.laid()?;
        let from = self.alike.join("from");
        tool::run(&format!("rm -rf {}", from.display()))?;
        for name in ["a/Name", "b/name", "a/Tree/inner", "b/tree/INNER", "b/tree/second", "a/alone"] {
            let path = from.join(name);
            let parent = path.parent().unwrap_or(&from);
            let text = format!("the contents of {name} within");
            fs::create_dir_all(parent).and_then(|()| fs::write(&path, text)).map_err(|error| error.to_string())?;
        }
        let before = contents(&from)?;
        let sources =
            ["a/Name", "b/name", "a/Tree", "b/tree", "a/alone"].map(|name| from.join(name).display().to_string());
        let dest = self.alike.join("dest");
        let run = haul::run(&format!("--move {options} {} {}/", sources.join(" "), dest.display()))?;
        let [stays, moved] = [contents(&from)?, contents(&dest)?];
        let lost: Vec<&String> =
            before.iter().filter(|text| !stays.contains(*text) && !moved.contains(*text)).collect();
        if !lost.is_empty() {
            return Err(format!("lost: {lost:?}: {}", run.report()).into());
        }
        if !stays.is_empty() && !run.failed() {
            return Err(format!("{} sources stay without an error: {}", stays.len(), run.report()).into());
        }
        Ok(Found::new(&run, format!("{} of {} moved, none lost", before.len() - stays.len(), before.len())))
    }

    /// Another spelling of its name within one directory.
    fn respelled(&self) -> Outcome {
        self.laid()?;
        let [from, to] = ["dest/extra", "dest/EXTRA"].map(|name| self.alike.join(name));
        let run = haul::run(&format!("--move -T {} {}", from.display(), to.display()))?;
        let there = fs::read_to_string(&from).map_err(|error| format!("lost: {error}: {}", run.report()))?;
        match there.contains(" extra ") {
            true => Ok(Found::new(&run, format!("it is there: {}", run.said))),
            false => Err(format!("other contents: {there:?}: {}", run.report()).into()),
        }
    }

    /// A mirror there removes nothing, and says so.
    fn deletes(&self, options: &str) -> Outcome {
        self.laid()?;
        let line = format!(
            "-rT --delete {options} {} {}",
            self.exact.join("source").display(),
            self.alike.join("dest").display()
        );
        let run = haul::run(&line)?;
        run.must_say(&["names that differ in upper and lower case may be one name there"])?;
        let now = contents(&self.alike.join("dest"))?;
        match now.iter().any(|text| text.contains(" extra ")) {
            true => Ok(Found::new(&run, format!("warned, nothing removed: {} files there", now.len()))),
            false => Err(format!("something was removed: {}", run.report()).into()),
        }
    }
}

impl Place {
    /// An update finds that nothing has changed, though this filesystem may cut times, and what has.
    fn updates(&self) -> Outcome {
        self.laid()?;
        let [from, to] = [self.exact.join("seconds"), self.alike.join("seconds")];
        let update = format!("-r --preserve=timestamps --update=changed -T {} {}", from.display(), to.display());
        let times = |odd: u32, even: u32| {
            (0..FILES).try_for_each(|file| {
                let second = if file % 2 == 0 { even } else { odd };
                tool::run(&format!("touch -d @{second}.5 {}/{file}", from.display()))
            })
        };
        tool::run(&format!("rm -rf {} {}", from.display(), to.display()))?;
        fs::create_dir(&from).map_err(|error| error.to_string())?;
        for file in 0..FILES {
            fs::write(from.join(file.to_string()), "seconds").map_err(|error| error.to_string())?;
        }
        times(1_700_000_001, 1_700_000_002)?;
        haul::right(&update)?;
        tree::forget_cache()?;
        let again = haul::right(&update)?;
        // On FAT it cannot be seen of one file in a hundred how times are cut: that is copied again.
        let kept = again.files("skipped");
        if kept < u64::from(FILES) - 2 {
            return Err(format!("only {kept} of {FILES} were left as they are: {}", again.report()).into());
        }
        times(1_700_000_003, 1_700_000_004)?;
        let changed = haul::right(&update)?;
        match changed.files("skipped") {
            0 => Ok(Found::new(&changed, format!("{kept} of {FILES} unchanged; after two seconds more, none"))),
            kept => Err(format!("{kept} changes were not seen: {}", changed.report()).into()),
        }
    }
}

/// The contents of all files below a directory.
fn contents(root: &Path) -> Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))?.flatten() {
            match entry.path() {
                path if path.is_dir() => waiting.push(path),
                path => found.extend(fs::read_to_string(&path)),
            }
        }
    }
    Ok(found)
}

fn contents_if_there(root: &Path) -> Result<BTreeSet<String>, String> {
    if root.exists() { contents(root) } else { Ok(BTreeSet::new()) }
}
