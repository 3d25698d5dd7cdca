//! Under Slurm: what the documentation says of it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use haul_testbed::{create_painted, named, script_marked, write_script};

use crate::support::slurm::Slurm;
use crate::support::{Mpi, haul};

/// A system with haul and haul-mpi, and a tree where the examples want it.
fn stage(source: &str, size: u64) -> Option<Slurm> {
    let slurm = Slurm::start()?;
    symlink(haul(), slurm.programs().join("haul")).expect("a link");
    symlink(Mpi::Open.program(), slurm.programs().join("haul-mpi")).expect("a link");
    symlink(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs"), slurm.root().join("here/docs")).expect("a link");
    for folder in [source, "archive", "scratch"] {
        fs::create_dir_all(slurm.root().join(folder)).expect("a directory");
    }
    for number in 0..20 {
        create_painted(slurm.root().join(source).join(number.to_string()), size);
    }
    Some(slurm)
}

/// The commands of the page for a cluster that begin with this program.
fn examples(program: &str) -> Vec<String> {
    let script = script_marked("cluster.md", "sh,cluster");
    let found: Vec<String> = script.lines().filter(|line| named(line) == Some(program)).map(str::to_owned).collect();
    assert!(!found.is_empty(), "no {program} on the page");
    found
}

/// An example, with the root of the system in place of that of the machine.
fn here(slurm: &Slurm, example: &str) -> String {
    let root = format!("{}/", slurm.root().display());
    example.replace(" /", &format!(" {root}")).replace("=/", &format!("={root}"))
}

#[track_caller]
fn same(slurm: &Slurm, source: &str, copy: &str) {
    slurm.runs(&here(slurm, &format!("diff -r /{source} /{copy}")));
}

/// How many ranks catch SIGTERM.
fn ready_to_be_stopped(slurm: &Slurm) -> usize {
    let root = slurm.root();
    let is_rank = |directory: &Path| {
        let words = fs::read(directory.join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        let program = words.split('\0').next().unwrap_or_default();
        program.ends_with("haul-mpi") && words.contains(&*root.to_string_lossy())
    };
    let catches = |directory: &Path| {
        let status = fs::read_to_string(directory.join("status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        // Signal 15.
        caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & (1 << 14) != 0)
    };
    let processes = fs::read_dir("/proc").expect("it is mounted").flatten().map(|entry| entry.path());
    processes.filter(|directory| is_rank(directory) && catches(directory)).count()
}

#[test]
fn srun_starts_ranks_that_know_of_each_other() {
    let Some(slurm) = stage("scratch/run7", 5000) else { return };
    for example in examples("srun").into_iter().filter(|example| !example.contains("--each")) {
        // The default of this cluster is none, as the page says.
        slurm.runs(&here(&slurm, &example.replace("srun ", "srun --mpi=pmix ")));
    }
    same(&slurm, "scratch/run7", "archive/run7");
}

/// Each rank with a directory of its own in the place of the disk of its machine.
#[test]
fn srun_brings_a_copy_to_every_node() {
    let Some(slurm) = stage("projects/dataset", 100_000) else { return };
    let root = slurm.root().display().to_string();
    fs::create_dir(slurm.root().join("local")).expect("a directory");
    let wrapper = slurm.programs().join("haul-mpi-with-disk");
    let own = format!("{root}/disk-$SLURM_PROCID");
    let text = format!(
        "#!/bin/sh\nmkdir -p {own}\nexec unshare --mount sh -c \
         'mount --bind {own} {root}/local && exec haul-mpi \"$@\"' sh \"$@\"\n"
    );
    write_script(&wrapper, text);
    let found: Vec<String> = examples("srun").into_iter().filter(|example| example.contains("--each")).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    for example in found {
        let example = example.replace("srun ", "srun --mpi=pmix ").replace(" haul-mpi ", " haul-mpi-with-disk ");
        slurm.runs(&here(&slurm, &example));
        for node in 0..4 {
            same(&slurm, "projects/dataset", &format!("disk-{node}/dataset"));
        }
        fs::write(slurm.root().join("projects/dataset/more"), "of it").expect("a file");
    }
}

/// Open MPI itself refuses to be started by `srun --mpi=none`.
#[test]
fn a_launch_by_slurm_that_the_library_does_not_understand_writes_nothing() {
    let Some(slurm) = stage("scratch/run7", 5000) else { return };
    for mpi in Mpi::all() {
        let copy = here(&slurm, &format!("{} -a /scratch/run7 /archive/", mpi.program().display()));
        for (line, words) in [
            (format!("srun -n 3 --mpi=none {copy}"), "srun has started 3 processes"),
            (format!("salloc -n 3 {copy}"), "this job of Slurm is for 3 processes"),
        ] {
            let done = slurm.command("sh").args(["-c", &line]).output().expect("sh can be run");
            let said = String::from_utf8_lossy(&done.stderr);
            let own = line.starts_with("srun") && mpi == Mpi::Open;
            let refused = own || said.matches(words).count() == 1;
            assert!(!done.status.success() && refused, "{line}: {}\n{said}", done.status);
            assert_eq!(fs::read_dir(slurm.root().join("archive")).expect("it can be read").count(), 0, "{line}");
        }
    }
}

#[test]
fn an_array_of_shards_makes_the_copy() {
    let Some(slurm) = stage("data/in", 5000) else { return };
    slurm.runs(&here(&slurm, "haul -aT --list-out=list /data/in /scratch/out"));
    let arrays: Vec<String> = examples("sbatch").into_iter().filter(|line| line.contains("--array")).collect();
    let [array] = &arrays[..] else { panic!("{arrays:?}") };
    let job = slurm.runs(&here(&slurm, &array.replace("sbatch ", "sbatch --parsable ")));
    slurm.is_done(job.trim());
    same(&slurm, "data/in", "scratch/out");
}

/// With four at a time on this machine in place of others that need ssh.
#[test]
fn gnu_parallel_starts_shards_that_make_the_copy() {
    let Some(slurm) = stage("data/in", 5000) else { return };
    slurm.runs(&here(&slurm, "haul -aT --list-out=list /data/in /scratch/out"));
    for example in examples("seq") {
        let (before, after) = example.split_once("--sshlogin ").expect("machines");
        let (_, command) = after.split_once(' ').expect("a command");
        slurm.runs(&here(&slurm, &format!("{before}--jobs 4 {command}")));
    }
    same(&slurm, "data/in", "scratch/out");
}

#[test]
fn the_batch_script_ends_well_when_its_time_is_over_and_goes_on_from_the_queue() {
    let Some(slurm) = stage("scratch/run7", 200_000) else { return };
    // At first so slow that it would take an hour.
    let wrapper = slurm.programs().join("haul-mpi");
    fs::remove_file(&wrapper).expect("a link");
    let script = format!(
        "#!/bin/sh\nif [ \"${{SLURM_RESTART_COUNT:-0}}\" = 0 ]; then set -- --limit=1K \"$@\"; fi\nexec {} \"$@\"\n",
        Mpi::Open.program().display()
    );
    write_script(&wrapper, script);
    let scripts: Vec<String> = examples("sbatch").into_iter().filter(|line| line.contains("haul-mpi.sbatch")).collect();
    let [submit] = &scripts[..] else { panic!("{scripts:?}") };
    let submit = here(&slurm, &submit.replace("sbatch ", "SLURM_MPI_TYPE=pmix sbatch --parsable "));
    let job = slurm.runs(&submit);
    let job = job.trim();
    let copy = slurm.root().join("archive/run7");
    // A rank that is not yet ready to be stopped would be killed by the signal.
    slurm.until("all four copy", || (copy.exists() && ready_to_be_stopped(&slurm) == 4).then_some(()));
    // What Slurm does five minutes before the time is over.
    slurm.runs(&format!("scancel --batch --signal=TERM {job}"));
    slurm.until("it is back in the queue", || slurm.shows(job).contains("JobState=PENDING").then_some(()));
    let said = slurm.output();
    assert!(
        said.contains("run the same command again to resume") && said.contains("out of time after start 0"),
        "the ranks were killed: {said}"
    );
    slurm.until_forgotten(job);
    // It would wait two minutes there.
    slurm.runs(&format!("scontrol update JobId={job} StartTime=now"));
    slurm.is_done(job);
    same(&slurm, "scratch/run7", "archive/run7");
}
