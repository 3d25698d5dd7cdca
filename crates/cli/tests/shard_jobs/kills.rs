//! Random histories of a job: shards in any order, again, at the same time, and killed at any call that touches the state.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use fastrand::Rng;

use super::support::{self, Scene, said};

/// What a run changes anything by.
const CALLS: [&str; 12] = [
    "openat",
    "pwrite64",
    "ftruncate",
    "fsync",
    "fcntl",
    "mkdirat",
    "renameat",
    "renameat2",
    "unlinkat",
    "linkat",
    "utimensat",
    "close",
];
const OPTIONS: [&[&str]; 6] = [&[], &["-n"], &["-u"], &["--atomic"], &["--resume"], &["--jobs=1"]];

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

#[test]
fn any_history_of_a_job_ends_in_the_copy_that_cp_makes() {
    let (histories, seed) = (number("HAUL_SHARD_KILLS", 25), number("HAUL_SHARD_KILLS_SEED", 1));
    let mut kills = 0;
    for history in 0..histories {
        let seed = (seed << 32) + history;
        eprintln!("HAUL_SHARD_KILLS_SEED is of history {history}, that is {seed}");
        kills += play(&mut Rng::with_seed(seed));
    }
    assert!(kills >= histories, "{kills} kills in {histories} histories");
}

/// One job after another on the same tree; how many kills there were.
fn play(rng: &mut Rng) -> u64 {
    let (scene, mut kills) = (Scene::new(), 0);
    let options = OPTIONS[rng.usize(..OPTIONS.len())];
    std::fs::hard_link(scene.path("s/f5"), scene.path("s/sub/other-name")).expect("a link");
    for job in 0..2 {
        if job > 0 && !options.contains(&"-n") {
            // Newer than the copy, as -u wants it.
            scene.change(&format!("f{}", rng.u8(1..=6)), &format!("changed {job}"));
        }
        let (count, job) = (rng.u32(1..=4), format!("--job={job}"));
        let words = |shard: u32| {
            let shard = format!("--shard={shard}/{count}");
            let words = [options, &["-aT", &job, &shard, "s", "d"]].concat();
            words.into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        for _ in 0..rng.u32(2..8) {
            kills += u64::from(disturb(&scene, rng, &words, count));
        }
        let mut order: Vec<u32> = (1..=count).collect();
        rng.shuffle(&mut order);
        for shard in order {
            let output = scene.run(&borrowed(&words(shard)));
            assert!(output.status.success(), "{:?}: {}", words(shard), said(&output));
        }
        let output = scene.run(&[options, &["-aT", &job, "--shard=status", "s", "d"]].concat());
        assert!(output.status.success(), "all are done: {}", String::from_utf8_lossy(&output.stdout));
        scene.is_complete();
        let before = scene.look_at_all();
        let output = scene.run(&borrowed(&words(rng.u32(1..=count))));
        assert!(output.status.success() && scene.look_at_all() == before, "{options:?}: {}", said(&output));
    }
    kills
}

fn borrowed(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// A shard that is killed, or several at the same time; whether there was a kill.
fn disturb(scene: &Scene, rng: &mut Rng, words: &dyn Fn(u32) -> Vec<String>, count: u32) -> bool {
    let shard = rng.u32(1..=count);
    if rng.u8(..4) > 0 {
        let (call, when) = (CALLS[rng.usize(..CALLS.len())], rng.u32(1..20));
        return scene.killed_at(call, when, &borrowed(&words(shard)));
    }
    let start = |shard| {
        let mut command = scene.command(&[], &borrowed(&words(shard)));
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it can be run")
    };
    let children: Vec<_> = [shard, shard, rng.u32(1..=count)].into_iter().map(start).collect();
    for child in children {
        let status = support::ends(child);
        assert!(status.success() && status.signal().is_none(), "side by side: {status}");
    }
    false
}
