//! What is copied: the rows of the table, as data.

use super::super::options::{Options, wants};
use super::super::place::Image;
use super::programs::Shape;
use super::sources::{self, Source};
use super::target::Target;
use crate::shell::Result;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fs {
    /// In the directory given by `--dir`.
    Dir,
    /// A new one in a loop image.
    Image(&'static Image),
}

/// What is called XFS and btrfs here.
const XFS: Fs = Fs::Image(&Image { name: "xfs", mkfs: &["mkfs.xfs", "-q", "-f"], reflink: true });
const BTRFS: Fs = Fs::Image(&Image { name: "btrfs", mkfs: &["mkfs.btrfs", "-q", "-f"], reflink: true });

/// One row of the table.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Its name in `--only`.
    pub name: String,
    /// Another name, for it and its like.
    pub group: &'static str,
    pub title: String,
    pub source: Source,
    pub shape: Shape,
    /// Whether the source is dropped from memory before each run.
    pub cold: bool,
    pub from: Fs,
    pub to: Fs,
    /// How often the program is started for one run.
    pub starts: u64,
    /// Whether the device's limit is measured beside it.
    pub limit: bool,
    /// Whether a row says that its engine left this place's files to another one: then it is not about that engine.
    pub marks_fallback: bool,
    pub target: Target,
}

const GIB: u64 = 1 << 30;

/// Every row at this scale.
pub fn all(options: &Options) -> Vec<Workload> {
    let mut rows = trees(options);
    rows.extend(updates(options));
    rows.extend(files(options));
    rows.extend(small(options));
    rows.extend(matrix(options));
    rows
}

/// The rows that `--only` names.
pub fn chosen(options: &Options) -> Result<Vec<Workload>> {
    let all = all(options);
    if let Some(unknown) = options.only.iter().find(|name| !all.iter().any(|row| row.is(name))) {
        let names: Vec<&str> = all.iter().map(|row| row.name.as_str()).collect();
        return Err(format!("no workload {unknown:?}; there are: matrix, small, {}", names.join(", ")));
    }
    let wanted = |row: &Workload| wants(&options.only, &row.name) || wants(&options.only, row.group);
    Ok(all.into_iter().filter(wanted).collect())
}

impl Workload {
    fn is(&self, name: &str) -> bool {
        self.name == name || self.group == name
    }

    /// A warm copy in `--dir`; the others say what is different.
    pub fn new(name: &str, title: String, source: Source, shape: Shape) -> Workload {
        let (name, target) = (name.to_owned(), Target::default());
        let (from, to) = (Fs::Dir, Fs::Dir);
        let (cold, limit, marks_fallback) = (false, false, false);
        Workload { name, group: "", title, source, shape, cold, from, to, starts: 1, limit, marks_fallback, target }
    }

    fn cold(self) -> Workload {
        Workload { cold: true, ..self }
    }

    fn limit(self) -> Workload {
        Workload { limit: true, ..self }
    }

    fn between(self, from: Fs, to: Fs) -> Workload {
        Workload { from, to, ..self }
    }

    fn target(self, target: Target) -> Workload {
        Workload { target, ..self }
    }
}

/// The least ratio of the time until cp returns to that until haul returns.
fn faster(returned: f64) -> Target {
    Target { returned: Some(returned), ..Target::default() }
}

/// No peer returns earlier.
const NOT_BEHIND: Target = Target { returned: None, durable: None, cpu: None, seconds: None, not_behind: true };

fn trees(options: &Options) -> Vec<Workload> {
    let files = options.scaled(100_000, 200);
    let many = options.scaled(1_000_000, 1000);
    let tree = Source::Tree { files };
    let decorated = Source::Decorated { files };
    let small = format!("{files} files of 1 to 16 KiB, nested");
    let row = Workload::new;
    vec![
        row("tree", format!("{small}; -r, warm"), tree, Shape::Tree).target(Target {
            durable: Some(1.7),
            not_behind: true,
            ..faster(2.0)
        }),
        row("tree-cold", format!("{small}; -r, cold"), tree, Shape::Tree).cold().target(NOT_BEHIND),
        row("archive", format!("{small}; -a (all metadata), warm"), decorated, Shape::Archive).target(faster(2.0)),
        row("archive-cold", format!("{small}; -a (all metadata), cold"), decorated, Shape::Archive)
            .cold()
            .target(NOT_BEHIND),
        row("usr", format!("{}; -a, warm", sources::usr(options)), Source::Usr, Shape::Archive).target(faster(1.8)),
        row("empty", format!("{many} empty files, nested; -r, warm"), Source::Empty { files: many }, Shape::Tree)
            .target(NOT_BEHIND),
        row("flat", format!("{files} files in one directory; -r, warm"), Source::Flat { files }, Shape::Tree)
            .target(NOT_BEHIND),
        row("tree-ext4-xfs", format!("{small}; -r, warm, to XFS in a loop image"), tree, Shape::Tree)
            .between(Fs::Dir, XFS)
            .target(faster(1.8)),
    ]
}

/// Copies of a tree to where one stands.
fn updates(options: &Options) -> Vec<Workload> {
    let files = options.scaled(100_000, 200);
    let row = |name: &str, what: &str, shape, returned| {
        let title = format!("{files} files of 1 to 16 KiB, nested; {what}");
        let row = Workload::new(name, title, Source::Tree { files }, shape);
        row.target(Target { not_behind: true, ..faster(returned) })
    };
    vec![
        row("overwrite", "-aT over a tree of the same names and other contents, warm", Shape::Overwrite, 3.0),
        row("newer", "-auT, nothing to do, warm", Shape::Newer, 1.9),
        row("newer-cold", "-auT, nothing to do, cold", Shape::Newer, 2.5).cold(),
        row("changed", "--update=changed, nothing to do, warm; against rsync -a", Shape::Changed, 2.0),
        row("content", "--update=content, nothing to do, warm; against rsync -ac", Shape::Content, 2.5),
        row("mirror", "1 % changed, 1 % new, 1 % gone, warm; --mirror against rsync -a --delete", Shape::Mirror, 2.0),
        row("delete", "the source is empty, warm; --delete=force against rsync -a --delete", Shape::Delete, 1.5),
    ]
}

fn files(options: &Options) -> Vec<Workload> {
    let bytes = whole(options.scaled(4 * GIB, 16 << 20));
    let source = Source::File { bytes };
    let (all, data) = (whole(options.scaled(20 * GIB, 64 << 20)), whole(options.scaled(GIB, 4 << 20)));
    let holes = format!("sparse file of {}, {} of data in 64 KiB extents, cold", mib(all), mib(data));
    let starts = options.scaled(500, 10);
    let start = format!("one file of 1 KiB, {starts} starts, warm");
    let one = format!("one file of {}", mib(bytes));
    let row = |name, title, source| Workload::new(name, title, source, Shape::File);
    let file = |name, what: &str| row(name, format!("{one}, {what}"), source);
    let clone = Target { seconds: Some(0.05), ..Target::default() };
    vec![
        file("file", "warm").limit().target(Target { durable: Some(1.8), cpu: Some(0.1), ..faster(1.3) }),
        file("file-cold", "cold").limit().cold().target(Target { durable: Some(1.5), ..faster(1.2) }),
        file("file-ext4-xfs", "warm, to XFS in a loop image").limit().between(Fs::Dir, XFS).target(faster(1.2)),
        file("file-xfs-ext4", "warm, from XFS in a loop image").limit().between(XFS, Fs::Dir).target(faster(1.2)),
        file("clone-xfs", "XFS to the same XFS").between(XFS, XFS).target(clone),
        file("clone-btrfs", "btrfs to the same btrfs").between(BTRFS, BTRFS).target(clone),
        Workload { shape: Shape::Sparse, ..row("sparse", holes, Source::Sparse { bytes: all, data }) }
            .cold()
            .target(Target { durable: Some(1.5), ..faster(1.8) }),
        Workload { shape: Shape::Starts, starts, ..row("start", start, Source::File { bytes: 1024 }) }
            .target(faster(1.0 / 1.3)),
    ]
}

/// Trees of tiny files within one filesystem that can share extents: from which size on is sharing the quicker way?
fn small(options: &Options) -> Vec<Workload> {
    let files = options.scaled(20_000, 200);
    let mut rows = Vec::new();
    for (fs, name) in [(XFS, "xfs"), (BTRFS, "btrfs")] {
        for kib in [1, 4, 16, 64] {
            let source = Source::Sized { files, each: kib << 10 };
            let title = format!("{files} files of {kib} KiB, nested; -r, warm, {name} to the same {name}");
            let row = Workload::new(&format!("small-{name}-{kib}k"), title, source, Shape::Tree).between(fs, fs);
            let target = Target { not_behind: true, ..faster(1.0) };
            rows.push(Workload { group: "small", ..row.target(target) });
        }
    }
    rows
}

/// The asynchronous-copy experiment: how many bytes in how many files.
fn matrix(options: &Options) -> Vec<Workload> {
    let mut cells = Vec::new();
    for megabytes in [100, 500, 1000, 2000] {
        for files in [32, 64, 128, 256] {
            let bytes = options.scaled(megabytes * 1_000_000, 1_000_000);
            let title = format!("{} MB in {files} files, cold", bytes / 1_000_000);
            let name = format!("matrix-{megabytes}-{files}");
            let cell = Workload::new(&name, title, Source::Set { files, bytes }, Shape::Matrix).cold();
            let target = Target { durable: Some(1.0), ..faster(1.0) };
            cells.push(Workload { group: "matrix", ..cell.target(target) });
        }
    }
    cells
}

/// In whole MiB: qemu-img copies whole sectors only.
fn whole(bytes: u64) -> u64 {
    bytes >> 20 << 20
}

fn mib(bytes: u64) -> String {
    if bytes.is_multiple_of(GIB) { format!("{} GiB", bytes / GIB) } else { format!("{} MiB", bytes >> 20) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual() -> Options {
        super::super::options(&[]).unwrap()
    }

    #[test]
    fn rows_are_chosen_by_name_or_group() {
        let only = |names: &[&str]| {
            let options = Options { only: names.iter().map(|&name| name.to_owned()).collect(), ..usual() };
            chosen(&options).map(|rows| rows.len())
        };
        assert_eq!(only(&["matrix"]), Ok(16));
        assert_eq!(only(&["tree", "sparse"]), Ok(2));
        assert!(only(&["no-such"]).is_err());
    }

    #[test]
    fn names_are_different_and_every_row_has_a_target() {
        let rows = all(&usual());
        let names: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names.len(), rows.len());
        for row in rows {
            assert_ne!(row.target, Target::default(), "{}", row.name);
        }
    }

    #[test]
    fn a_small_scale_makes_small_sources() {
        let options = Options { scale: 0.01, ..usual() };
        for row in all(&options) {
            assert!(row.source.extent().is_none_or(|extent| extent.bytes < 64 << 20), "{}", row.name);
        }
    }
}
