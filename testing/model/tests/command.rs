//! The command, and what the documentation says of it.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use haul_model::{Config, read_toml, simulate};
use haul_testbed::{Command, commands, skip};

fn documentation() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn model(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_haul-model")).args(words).output().expect("haul-model starts")
}

#[test]
fn measured_times_get_predictions_beside_them() {
    let dir = haul_testbed::temp_dir();
    let times = dir.path().join("times.csv");
    fs::write(&times, "ranks,seconds\n1,4.0\n1,4.2\n1,4.1\n2,2.2\n").unwrap();
    let file = format!("--compare={}", times.display());
    let output = model(&[&file, "--fit=cpu-per-file", "--cores-per-node=2", "--ranks-per-node=8", "--files=20000"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<&str> = text.lines().collect();
    assert!(rows[2].starts_with("| 1 | 3 | 4.10 (4.00-4.20) | 4.10 | fitted |"), "{text}");
    assert!(rows[3].starts_with("| 2 | 1 | 2.20 (2.20-2.20) | 2.0"), "{text}");
    assert!(text.contains("cpu-per-file = "), "{text}");
}

/// Those with a tree of millions get a small one, since a build for tests is slow.
#[test]
fn the_commands_of_the_documentation_are_run() {
    let dir = haul_testbed::temp_dir();
    fs::write(dir.path().join("my-cluster.toml"), "files = 20_000\n").unwrap();
    fs::write(dir.path().join("times.csv"), "ranks,seconds\n1,1.1\n2,1.2\n").unwrap();
    std::os::unix::fs::symlink(documentation().canonicalize().unwrap(), dir.path().join("docs")).unwrap();
    let examples = commands("cluster.md", "haul-model");
    assert!(examples.len() >= 6, "{examples:?}");
    for example in examples {
        let (words, _) = example.split_once('#').unwrap_or((&example, ""));
        let small = words.contains("--files=").then_some("--files=20000");
        let words: Vec<&str> = words.split_whitespace().skip(1).chain(small).collect();
        let output =
            Command::new(env!("CARGO_BIN_EXE_haul-model")).args(&words).current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_mistake_is_an_error_and_a_status() {
    let output = model(&["--ranks=none"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("haul-model: ranks: none"));
}

#[test]
fn the_clusters_of_the_documentation_can_be_simulated() {
    let mut found = 0;
    for entry in fs::read_dir(documentation().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let mut config = Config::default();
        read_toml(&mut config, &fs::read_to_string(&path).unwrap())
            .unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        // The same cluster with a smaller tree: a debug build is slow.
        config.files = config.files.min(20_000);
        config.large_files = config.large_files.min(2);
        let report = simulate(&Config { ranks: 10, ..config.clone() }).unwrap();
        assert_eq!((report.files, report.left_over), (config.files, 0), "{}", path.display());
        found += 1;
    }
    assert!(found > 0, "docs/examples has clusters");
}

#[test]
fn the_scripts_of_the_documentation_are_accepted_by_bash_and_shellcheck() {
    for name in ["haul-mpi.sbatch", "measure-ranks.sh"] {
        let script = documentation().join("examples").join(name);
        for (program, words) in [("bash", &["-n"][..]), ("shellcheck", &["--shell=bash", "--severity=style"])] {
            match Command::new(program).args(words).arg(&script).output() {
                Ok(output) => {
                    let said = [output.stdout, output.stderr].concat();
                    let said = String::from_utf8_lossy(&said);
                    assert!(output.status.success() && said.is_empty(), "{program}: {said}");
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    skip(format!("{program} is not installed"))
                }
                Err(error) => panic!("{program}: {error}"),
            }
        }
    }
}
