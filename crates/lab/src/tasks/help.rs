//! What `--help` says: the texts are in the folder of this name.

/// Of the program.
pub const ALL: &str = include_str!("help/all.txt");

/// What most measuring tasks take.
const COMMON: &str = include_str!("help/common.txt");

/// Of a task.
pub fn of(task: &str) -> Option<String> {
    let (own, common) = match task {
        "mapped-copy" => (include_str!("help/mapped-copy.txt"), COMMON),
        "in-kernel" => (include_str!("help/in-kernel.txt"), COMMON),
        "mapped-write" => (include_str!("help/mapped-write.txt"), ""),
        "async-tree" => (include_str!("help/async-tree.txt"), COMMON),
        "sparse-image" => (include_str!("help/sparse-image.txt"), COMMON),
        "compare" => (include_str!("help/compare.txt"), COMMON),
        "reproduce" => (include_str!("help/reproduce.txt"), ""),
        "map" => (include_str!("help/map.txt"), ""),
        "report" => (include_str!("help/report.txt"), ""),
        "probe" => (include_str!("help/probe.txt"), ""),
        "tune" => (include_str!("help/tune.txt"), ""),
        _ => return None,
    };
    Some(format!("{own}{common}"))
}
