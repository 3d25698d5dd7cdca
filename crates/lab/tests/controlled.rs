//! Two competitors that differ in one setting make the same system calls but for that one.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use haul_testbed::guest::has;
use haul_testbed::{Command, skip, temp_dir};
use serde_json::Value;

const LAB: &str = env!("CARGO_BIN_EXE_haul-lab");

/// What the kernel saw of a copy.
#[derive(Debug, Default, Clone, PartialEq)]
struct Profile {
    /// Calls that moved bytes.
    calls: BTreeSet<String>,
    /// The largest request of each of them.
    sizes: BTreeSet<u64>,
    direct_source: bool,
    direct_dest: bool,
    allocates: bool,
    asks_ahead: bool,
    raised: bool,
    private: bool,
    /// Processes that it starts, and that map the source.
    readers: usize,
    /// Others than the first.
    threads: bool,
}

impl Profile {
    fn see(&mut self, line: &str, largest: &mut BTreeMap<String, u64>) {
        let Some((name, rest)) = line.split_once('(') else { return };
        let of_copy = rest.contains("/copy") && rest.contains("/run-");
        let of_source = rest.contains("-source");
        match name {
            "setpriority" => self.raised = true,
            "fallocate" => self.allocates |= of_copy,
            "fadvise64" => self.asks_ahead |= of_source && rest.contains("WILLNEED"),
            "fcntl" if rest.contains("F_SETFL") && rest.contains("O_DIRECT") => {
                self.direct_source |= of_source;
                self.direct_dest |= of_copy;
            }
            "mmap" if of_source => self.private |= rest.contains("MAP_PRIVATE"),
            _ => {}
        }
        match name {
            "clone" | "clone3" => self.threads |= rest.contains("CLONE_THREAD"),
            "pread64" | "pwrite64" | "copy_file_range" | "splice" | "mmap" | "io_submit" if of_source || of_copy => {
                self.calls.insert(name.to_owned());
                let most = largest.entry(name.to_owned()).or_default();
                *most = (*most).max(asked(name, rest));
            }
            "io_uring_setup" => drop(self.calls.insert(name.to_owned())),
            _ => {}
        }
    }
}

/// The bytes that a call asks for.
fn asked(name: &str, rest: &str) -> u64 {
    let arguments: Vec<&str> = rest.rsplit_once(") = ").expect("a call has a result").0.split(", ").collect();
    let text = match name {
        "pread64" | "pwrite64" => arguments[arguments.len() - 2],
        "copy_file_range" | "splice" => arguments[4],
        "mmap" => arguments[1],
        _ => rest.split("aio_nbytes=").nth(1).expect("a request has a size").split([',', '}']).next().unwrap(),
    };
    text.parse().unwrap_or_else(|_| panic!("{text} in {name}({rest}"))
}

/// The settings that a process was started with, if it is a copy by exactly named calls.
fn settings(trace: &str) -> Option<BTreeMap<String, Value>> {
    // Those that compete are in folders of their own, others are only sampled.
    let competes = |line: &&str| line.contains("\"one-copy\"") && line.contains("/run-");
    let words = trace.lines().find(|line| line.starts_with("execve(") && competes(line))?;
    let json = words.split_once("\"one-copy\", \"")?.1.split("\", \"").next()?.replace("\\\"", "\"");
    let all: Value = serde_json::from_str(&json).expect("settings are JSON");
    let mut method: BTreeMap<String, Value> = serde_json::from_value(all["method"].clone()).ok()?;
    method.insert("priority".to_owned(), all["priority"].clone());
    Some(method)
}

/// The threads, or the processes, that a process has started.
fn started(trace: &str, threads: bool) -> impl Iterator<Item = &str> {
    let starts = trace.lines().filter(|line| line.starts_with("clone") || line.starts_with("vfork"));
    let starts = starts.filter(move |line| line.contains("CLONE_THREAD") == threads);
    starts.filter_map(|line| Some(line.rsplit_once(" = ")?.1.trim()))
}

/// What each process of an experiment asked of the kernel, by its number.
fn traced(words: &[&str]) -> BTreeMap<String, String> {
    let dir = temp_dir();
    let traces = dir.path().join("traces");
    fs::create_dir_all(&traces).unwrap();
    for place in ["place", "other"] {
        fs::create_dir(dir.path().join(place)).unwrap();
    }
    let calls = "trace=execve,clone,clone3,vfork,pread64,pwrite64,mmap,copy_file_range,splice,fallocate,fadvise64,fcntl,\
                 io_submit,io_uring_setup,setpriority";
    let output = Command::new("timeout")
        .args(["300", "strace", "-ff", "-y", "-s2000", "--seccomp-bpf", "-e", calls, "-o"])
        .arg(traces.join("of"))
        .arg(LAB)
        .args(words)
        .arg("--runs=1")
        .current_dir(dir.path())
        .output()
        .expect("strace can be run");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).expect("strace has written")).into_owned();
    let files = fs::read_dir(&traces).unwrap().map(|file| file.unwrap().path());
    files.map(|path| (path.extension().unwrap().to_str().unwrap().to_owned(), read(&path))).collect()
}

/// The copies by exactly named calls of an experiment: their settings, and what the kernel saw.
fn copies(words: &[&str]) -> Vec<(BTreeMap<String, Value>, Profile)> {
    let traces = traced(&[words, &["place"]].concat());
    traces
        .values()
        .filter_map(|trace| {
            let settings = settings(trace)?;
            let of = |id: &str| traces[id].clone();
            let others = started(trace, true).map(of);
            let (mut profile, mut largest) = (Profile::default(), BTreeMap::new());
            for text in std::iter::once(trace.clone()).chain(others) {
                text.lines().for_each(|line| profile.see(line, &mut largest));
            }
            let maps =
                |line: &str| line.starts_with("mmap(") && line.contains("MAP_SHARED") && line.contains("-source");
            profile.readers = started(trace, false).filter(|id| of(id).lines().any(maps)).count();
            profile.sizes = largest.into_values().collect();
            Some((settings, profile))
        })
        .collect()
}

/// Every pair of competitors that differ in one setting differs in that alone.
fn check(words: &[&str], least: usize) {
    if !has("strace") {
        skip("strace is not installed");
        return;
    }
    let copies = copies(words);
    let mut pairs = 0;
    for (number, (a, seen_a)) in copies.iter().enumerate() {
        for (b, seen_b) in &copies[..number] {
            let varied: Vec<&str> = a.keys().filter(|name| a[*name] != b[*name]).map(String::as_str).collect();
            let context = format!("{a:?}: {seen_a:?}\n{b:?}: {seen_b:?}");
            let mut made_equal = seen_b.clone();
            match varied[..] {
                [] => {}
                ["by"] => {
                    assert_ne!(seen_a.calls, seen_b.calls, "{context}");
                    made_equal.calls.clone_from(&seen_a.calls);
                    // The C library has its threads for POSIX AIO, and the requests of io_uring are no calls.
                    made_equal.threads = seen_a.threads;
                    if [a, b].iter().any(|method| method["by"] == "io-uring") {
                        made_equal.sizes.clone_from(&seen_a.sizes);
                    }
                }
                ["request"] => {
                    assert_ne!(seen_a.sizes, seen_b.sizes, "{context}");
                    made_equal.sizes.clone_from(&seen_a.sizes);
                }
                ["direct_source"] => made_equal.direct_source = !seen_b.direct_source,
                ["direct_dest"] => made_equal.direct_dest = !seen_b.direct_dest,
                ["preallocate"] => made_equal.allocates = !seen_b.allocates,
                ["readahead"] => made_equal.asks_ahead = !seen_b.asks_ahead,
                ["readers"] => {
                    assert_ne!(seen_a.readers, seen_b.readers, "{context}");
                    made_equal.readers = seen_a.readers;
                }
                ["private"] => made_equal.private = !seen_b.private,
                ["priority"] => made_equal.raised = !seen_b.raised,
                _ => continue,
            }
            assert_eq!(seen_a, &made_equal, "{context}");
            pairs += usize::from(!varied.is_empty());
        }
    }
    assert!(pairs >= least, "only {pairs} pairs in {copies:#?}");
}

#[test]
fn mapped_copies_differ_in_the_mapping_or_the_size_or_the_output_alone() {
    // By the mapping at two sizes and with direct output, by size for both, by output for both, by the direct source once, and
    // by a private mapping, and by a reader for both.
    check(&["mapped-copy", "--size=16M", "--buffers=1M"], 12);
}

#[test]
fn a_mapped_copy_to_a_second_directory_has_its_source_in_the_first() {
    if !has("strace") {
        skip("strace is not installed");
        return;
    }
    let traces = traced(&["mapped-copy", "--size=1M", "--buffers=1M", "--states=cold", "place", "other"]);
    let mut ways = BTreeMap::new();
    for trace in traces.values().filter(|trace| settings(trace).is_some()) {
        let line = trace.lines().find(|line| line.contains("\"one-copy\"")).unwrap();
        let paths: Vec<&str> = line.split("\", \"").filter(|word| word.contains("/.haul-lab-")).collect();
        let place = |path: &str| if path.contains("/other/") { "other" } else { "place" };
        *ways.entry((place(paths[0]), place(paths[1]))).or_insert(0) += 1;
    }
    let counts: Vec<_> = ways.into_iter().collect();
    assert!(
        matches!(counts[..], [(("place", "other"), there), (("place", "place"), here)] if there == here && here > 0),
        "{counts:?}"
    );
}

#[test]
fn copies_in_the_kernel_differ_in_the_call_alone() {
    check(&["in-kernel", "--sizes=4M"], 3);
}

#[test]
fn asynchronous_copies_differ_in_one_addition_or_the_interface_alone() {
    // Three interfaces with two or three additions each, and Linux AIO against io_uring in each variant.
    check(&["async-tree", "--totals=4M", "--files=2", "--variants=plain,readahead,preallocate,priority"], 9);
}
