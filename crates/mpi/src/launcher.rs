//! Whether the launcher that has started this process and its MPI library understand each other. Where they do not, each
//! process is a job of its own that knows of no other, and all of them would write one copy. Pure.

/// A program that starts the processes of a job, and the variables by which it reports to each of them how many there are, and
/// which one it is.
#[derive(Debug)]
struct Launcher {
    /// Itself and a verb, before the number of processes.
    starts: &'static str,
    /// `None`: it reports only which one.
    ranks: Option<&'static str>,
    rank: &'static str,
}

/// Those of MPI libraries. What they have started in a batch job is not what Slurm counts.
const OF_LIBRARIES: &[Launcher] = &[
    Launcher {
        starts: "mpirun of Open MPI has started",
        ranks: Some("OMPI_COMM_WORLD_SIZE"),
        rank: "OMPI_COMM_WORLD_RANK",
    },
    // Hydra, of MPICH and what is made from it (Intel MPI, MVAPICH), and Slurm by its plugin pmi2.
    Launcher { starts: "a launcher with PMI, as that of MPICH has started", ranks: Some("PMI_SIZE"), rank: "PMI_RANK" },
    Launcher {
        starts: "mpirun of MVAPICH has started",
        ranks: Some("MV2_COMM_WORLD_SIZE"),
        rank: "MV2_COMM_WORLD_RANK",
    },
    Launcher { starts: "Flux has started", ranks: Some("FLUX_JOB_SIZE"), rank: "FLUX_TASK_RANK" },
    // PRRTE, and Slurm by its plugin pmix.
    Launcher { starts: "a launcher with PMIx has started", ranks: None, rank: "PMIX_RANK" },
];

/// srun(1), then what sbatch(1) and salloc(1) say to a process that was started without it.
const OF_SLURM: &[Launcher] = &[
    Launcher { starts: "srun has started", ranks: Some("SLURM_STEP_NUM_TASKS"), rank: "SLURM_PROCID" },
    Launcher { starts: "this job of Slurm is for", ranks: Some("SLURM_NTASKS"), rank: "SLURM_PROCID" },
];

/// A job that is not what its launcher has started.
#[derive(Debug, PartialEq, Eq)]
pub struct Misfit {
    /// What is wrong and what to do.
    pub why: String,
    /// This process is the one that says it.
    pub speaks: bool,
}

/// What the launcher of this process has reported to it.
#[derive(Debug, Clone, Copy)]
pub struct Launch {
    launcher: &'static Launcher,
    /// Processes that there are at least.
    count: usize,
    rank: usize,
}

/// Reads it, with `variable` for one of the environment; `None` if there was no launcher. Before MPI begins: some libraries
/// set these variables themselves.
pub fn launch(variable: impl Fn(&str) -> Option<String>) -> Option<Launch> {
    let number = |name: &str| variable(name)?.parse::<usize>().ok();
    let reported = |launcher: &'static Launcher| {
        let rank = number(launcher.rank);
        let count = match launcher.ranks {
            Some(ranks) => number(ranks)?,
            None => rank? + 1,
        };
        Some(Launch { launcher, count, rank: rank.unwrap_or_default() })
    };
    let of_library =
        OF_LIBRARIES.iter().filter_map(reported).max_by_key(|one| (one.count, one.launcher.ranks.is_some()));
    let of_slurm = || OF_SLURM.iter().find_map(reported);
    // By PMIx alone Slurm reports no number.
    match of_library {
        Some(one) if one.launcher.ranks.is_none() => of_slurm().or(Some(one)),
        other => other.or_else(of_slurm),
    }
}

/// Compares the number of processes of this job with what its launcher has reported to it. `library` is what the MPI library says
/// of itself.
///
/// A library that does not understand its launcher is alone. Where there are more ranks, what an outer launcher has reported is
/// none of their business.
pub fn misfit(ranks: usize, library: &str, launch: Option<Launch>) -> Option<Misfit> {
    let Launch { launcher, count, rank } = launch?;
    if ranks > 1 || count <= ranks {
        return None;
    }
    let library = short(library);
    let named = launcher.ranks.unwrap_or(launcher.rank);
    let at_least = if launcher.ranks.is_none() { "at least " } else { "" };
    let cure = match launcher.ranks {
        Some("SLURM_STEP_NUM_TASKS") => {
            "see `srun --mpi=list`, and name one that the library knows (--mpi=pmix, --mpi=pmi2), or use its own mpirun"
        }
        Some("SLURM_NTASKS") => "start it by srun or mpirun; for one process, use haul",
        _ => "start it by the launcher of that library, or build it with the library of the launcher",
    };
    let why = format!(
        "{} {at_least}{count} processes ({named}), and this one knows of {ranks}: each would copy everything; \
         haul-mpi is linked with {library}; {cure}",
        launcher.starts
    );
    // Where only its number is known of a rank, the first does not know.
    let speaker = if launcher.ranks.is_none() { 1 } else { 0 };
    Some(Misfit { why, speaks: rank == speaker })
}

/// "Open MPI v4.1.4", "MPICH 4.0.2".
fn short(library: &str) -> String {
    let first = library.split([',', '\n']).next().unwrap_or_default().replace("Version:", " ");
    let words: Vec<&str> = first.split_whitespace().collect();
    if words.is_empty() { "another MPI library".to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: &str = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4";
    const MPICH: &str = "MPICH Version:      4.0.2\nMPICH Release date: Thu Apr 7";

    fn among(ranks: usize, library: &str, variables: &[(&str, &str)]) -> Option<Misfit> {
        let value = |name: &str| variables.iter().find(|(variable, _)| *variable == name);
        misfit(ranks, library, launch(|name| value(name).map(|(_, value)| (*value).to_owned())))
    }

    #[test]
    fn every_launch_that_the_library_does_not_understand_is_refused_with_a_cure() {
        for (library, variables, words) in [
            (
                MPICH,
                &[("OMPI_COMM_WORLD_SIZE", "3"), ("OMPI_COMM_WORLD_RANK", "0")][..],
                ["of Open MPI has started 3", "linked with MPICH 4.0.2; start it by the launcher of that"],
            ),
            (
                OPEN,
                &[("PMI_SIZE", "4"), ("PMI_RANK", "0")],
                ["with PMI, as that of MPICH has started 4", "linked with Open MPI v4.1.4;"],
            ),
            (
                OPEN,
                &[("MV2_COMM_WORLD_SIZE", "2"), ("MV2_COMM_WORLD_RANK", "0")],
                ["of MVAPICH has started 2", "build it with"],
            ),
            (OPEN, &[("FLUX_JOB_SIZE", "2"), ("FLUX_TASK_RANK", "0")], ["Flux has started 2", "build it with"]),
            (OPEN, &[("PMIX_RANK", "1")], ["PMIx has started at least 2", "build it with"]),
            (
                OPEN,
                &[("SLURM_STEP_NUM_TASKS", "8"), ("SLURM_NTASKS", "8"), ("SLURM_PROCID", "0")],
                ["srun has started 8", "--mpi=list"],
            ),
            (
                OPEN,
                &[("SLURM_NTASKS", "16"), ("SLURM_PROCID", "0")],
                ["this job of Slurm is for 16 processes (SLURM_NTASKS)", "for one process, use haul"],
            ),
            (
                MPICH,
                &[("PMIX_RANK", "0"), ("SLURM_STEP_NUM_TASKS", "8"), ("SLURM_PROCID", "0")],
                ["srun has started 8", "linked with MPICH"],
            ),
            // A launcher in a batch job, with the library of another one.
            (MPICH, &[("SLURM_NTASKS", "1"), ("OMPI_COMM_WORLD_SIZE", "3")], ["of Open MPI has started 3", "MPICH"]),
        ] {
            let Some(Misfit { why, speaks }) = among(1, library, variables) else { panic!("{variables:?} fits") };
            assert!(speaks && words.iter().all(|word| why.contains(word)), "{variables:?}: {why}");
        }
    }

    #[test]
    fn one_of_them_says_it() {
        let variables = [("OMPI_COMM_WORLD_SIZE", "3"), ("OMPI_COMM_WORLD_RANK", "2")];
        assert!(among(1, MPICH, &variables).is_some_and(|misfit| !misfit.speaks));
        // Both say that there are two.
        let variables = [("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_RANK", "1"), ("PMIX_RANK", "1")];
        assert!(among(1, MPICH, &variables).is_some_and(|misfit| !misfit.speaks));
    }

    #[test]
    fn a_launch_that_fits_is_none_of_its_business() {
        for (ranks, variables) in [
            (1, &[][..]),
            (3, &[("OMPI_COMM_WORLD_SIZE", "3"), ("OMPI_COMM_WORLD_RANK", "2")]),
            (4, &[("PMI_SIZE", "4"), ("PMIX_RANK", "3")]),
            // Fewer processes than the batch job has room for.
            (2, &[("SLURM_NTASKS", "16"), ("SLURM_STEP_NUM_TASKS", "16"), ("OMPI_COMM_WORLD_SIZE", "2")]),
            (2, &[("SLURM_NTASKS", "16"), ("SLURM_STEP_NUM_TASKS", "2")]),
            // Two parts of a job, each of which knows its own number.
            (5, &[("SLURM_STEP_NUM_TASKS", "3")]),
            // Started within a step of eight.
            (4, &[("PMI_SIZE", "8"), ("OMPI_COMM_WORLD_SIZE", "4")]),
            (2, &[("PMIX_RANK", "5"), ("PMI_SIZE", "2")]),
            (1, &[("SLURM_NTASKS", "many")]),
        ] {
            assert_eq!(among(ranks, OPEN, variables), None, "{ranks} {variables:?}");
        }
    }
}
