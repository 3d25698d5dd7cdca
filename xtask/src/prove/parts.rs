//! What the trust in haul rests on, and at which length it is run over night.

/// One of them.
pub struct Part {
    pub name: &'static str,
    /// In a sentence, for the page.
    pub what: &'static str,
    pub work: Work,
}

/// How it is run.
#[derive(Clone, Copy)]
pub enum Work {
    /// Tests of a package, whose length these variables say.
    Tests { package: &'static str, test: &'static str, length: &'static [(&'static str, &'static str)] },
    /// A task of this program, with these arguments, and with others where a look is enough.
    Task { full: &'static [&'static str], quick: &'static [&'static str] },
}

impl Work {
    /// What somebody types to run it.
    pub fn command(self, quick: bool) -> String {
        match self {
            Work::Tests { package, test, length } => {
                let length = if quick { &[] } else { length };
                let length: String = length.iter().map(|(name, value)| format!("{name}={value} ")).collect();
                format!("{length}cargo test -p {package} --test {test}")
            }
            Work::Task { full, quick: look } => format!("cargo xtask {}", if quick { look } else { full }.join(" ")),
        }
    }
}

const fn tests(
    name: &'static str,
    what: &'static str,
    package: &'static str,
    test: &'static str,
    length: &'static [(&'static str, &'static str)],
) -> Part {
    Part { name, what, work: Work::Tests { package, test, length } }
}

const fn task(
    name: &'static str,
    what: &'static str,
    full: &'static [&'static str],
    quick: &'static [&'static str],
) -> Part {
    Part { name, what, work: Work::Task { full, quick } }
}

const CLI: &str = "haul-cli";

/// Cases of virtual machines that one guest plays, without those of the laboratory.
const ALONE: &str = "smoke,nfs-xfs,nfs-ext4,nfs-operations,cifs,io-uring,alike-names,dm-read,dm-write,dm-thin,dm-power";

/// Those that several play, without those that only take the time of copies, and one by which such a job would hang.
const TOGETHER: &str = "nfs-callback,clients,clients-copy,clients-each,clients-faults,clients-random";

const QUICK_BENCH: &[&str] =
    &["bench", "peers", "--runs", "1", "--scale", "0.01", "--only", "tree,newer", "--programs", "haul,cp"];

/// The shortest first, so that most of the page is there soon.
pub const PARTS: &[Part] = &[
    tests(
        "engines",
        "Every engine with short counts, interruptions and faults at every call.",
        "haul-io",
        "engines",
        &[],
    ),
    tests("safety", "Each promise on each filesystem; the order of data, sync and rename.", CLI, "safety", &[]),
    tests("misbehaving", "Filesystems that lie, refuse and hang.", CLI, "misbehaving", &[]),
    tests(
        "hostile",
        "Names that attack terminals, special files, entries that vanish.",
        CLI,
        "hostile",
        &[("HAUL_HOSTILE_ROUNDS", "100")],
    ),
    tests("memory", "Address space from nearly none on: a whole copy, or none.", CLI, "memory", &[]),
    tests(
        "stress",
        "A million entries, ten thousand levels.",
        CLI,
        "stress",
        &[("HAUL_STRESS_ENTRIES", "1000000"), ("HAUL_STRESS_LEVELS", "10000")],
    ),
    tests(
        "kills",
        "SIGKILL at random moments; the same command completes the copy.",
        CLI,
        "killed",
        &[("HAUL_KILLS", "500")],
    ),
    tests(
        "killed moves",
        "SIGKILL while files move: each is whole on one side.",
        CLI,
        "killed_move",
        &[("HAUL_KILLS", "500")],
    ),
    tests(
        "shards",
        "Parts of a copy, late, again, at the same time, killed at any call.",
        CLI,
        "shard_jobs",
        &[("HAUL_SHARD_KILLS", "1000")],
    ),
    tests(
        "ranks",
        "Copies by the processes of an MPI job, which are killed.",
        "haul-mpi",
        "ranks",
        &[("HAUL_MPI_KILLS", "100")],
    ),
    tests(
        "swaps",
        "Files, folders and links exchanged under a copy by root; permissions before each call.",
        CLI,
        "races",
        &[("HAUL_SWAPS", "100000"), ("HAUL_RIGHTS", "all")],
    ),
    tests(
        "cuts",
        "Power cuts on ext4, XFS and btrfs, with the journal of the filesystem and without it.",
        CLI,
        "power_cut",
        &[("HAUL_CUTS", "1000")],
    ),
    tests(
        "agreement",
        "Random trees and options: what the system's cp and rsync leave, haul leaves.",
        CLI,
        "agree",
        &[
            ("HAUL_AGREE_CASES", "15000"),
            ("HAUL_AGREE_STAGED_CASES", "1500"),
            ("HAUL_AGREE_DRY_CASES", "4000"),
            ("HAUL_AGREE_RSYNC_CASES", "3000"),
            ("HAUL_AGREE_MOVES", "4000"),
        ],
    ),
    tests("faults", "Each system call fails once, at every occurrence.", CLI, "faults", &[("HAUL_FAULTS", "all")]),
    tests(
        "damaged images",
        "Disk images with damage: refused or read as they are.",
        "haul-guest",
        "damaged",
        &[("HAUL_MUTANTS", "2000")],
    ),
    task("fuzzing", "The readers of journals, lists and images under libFuzzer.", &["fuzz", "300"], &["fuzz", "5"]),
    task("sanitizers", "AddressSanitizer, and Miri where it can.", &["sanitize"], &["sanitize", "miri"]),
    task(
        "virtual machines",
        "Kernels 5.10 to 6.12, NFS, CIFS, devices that fail.",
        &["vm", "--only", ALONE],
        &["vm", "--kernel", "6.12", "--only", "io-uring"],
    ),
    task(
        "two clients",
        "haul-mpi and shards on two clients of a server: random trees, kills, cuts of power and network.",
        &["vm", "--only", TOGETHER],
        &["vm", "--only", "clients"],
    ),
    task("packages", "What people install, in fresh roots, made twice.", &["dist", "--check"], &["dist", "--trial"]),
    task(
        "first copies",
        "Benchmarks where nothing stands at the destination; every copy is compared.",
        &[
            "bench",
            "peers",
            "--runs",
            "5",
            "--only",
            "tree,tree-cold,archive,archive-cold,flat,file,file-cold,sparse,start",
            "--programs",
            "haul,cp,rsync",
        ],
        QUICK_BENCH,
    ),
    task(
        "second copies",
        "Benchmarks where the copy stands there already, and clones; every copy is compared.",
        &[
            "bench",
            "peers",
            "--runs",
            "5",
            "--only",
            "overwrite,newer,newer-cold,changed,content,mirror,delete,\
             clone-xfs,clone-btrfs,small-xfs-4k,small-xfs-16k,small-btrfs-4k,small-btrfs-16k",
            "--programs",
            "haul,cp,rsync",
        ],
        QUICK_BENCH,
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_quick_look_has_the_length_of_the_tests() {
        let work = Work::Tests { package: "p", test: "t", length: &[("N", "9")] };
        assert_eq!(work.command(false), "N=9 cargo test -p p --test t");
        assert_eq!(work.command(true), "cargo test -p p --test t");
    }

    #[test]
    fn each_case_of_virtual_machines_belongs_to_a_part_unless_it_only_measures() {
        const MEASURES: &str = "mapped-write,in-kernel-xfs,in-kernel-ext4,nfs-latency,nfs-large";
        let text = std::fs::read_to_string(crate::shell::root().join("testing/vmlab/src/cases/mod.rs")).unwrap();
        let cases: BTreeSet<&str> =
            text.lines().filter_map(|line| line.trim().strip_prefix("name: \"")?.strip_suffix("\",")).collect();
        let known: BTreeSet<&str> = [ALONE, TOGETHER, MEASURES].iter().flat_map(|names| names.split(',')).collect();
        assert_eq!(cases, known);
    }
}
