//! What must hold of every simulation, whatever its parameters.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};

use haul_model::{Config, Name, Observed, Report, Tree, simulate, simulate_observed};
use proptest::prelude::*;

/// Who watches a simulation and objects to what must not be.
#[derive(Default)]
struct Watcher {
    parents: HashMap<u64, Option<u64>>,
    unfinished_below: HashMap<u64, u64>,
    finished: HashSet<u64>,
    files: HashMap<u64, Vec<(u64, u64)>>,
    chunks: HashSet<(u64, u64, u64)>,
    large: HashSet<(u64, u64)>,
    last: u64,
}

impl Watcher {
    fn see(&mut self, now: u64, what: Observed) {
        assert!(now >= self.last, "time goes forward");
        self.last = now;
        match what {
            Observed::Made { dir, parent } => {
                if let Some(parent) = parent {
                    self.must_be_open(parent);
                    *self.unfinished_below.get_mut(&parent).unwrap() += 1;
                }
                assert!(self.parents.insert(dir, parent).is_none(), "a directory is made once");
                self.unfinished_below.insert(dir, 0);
            }
            Observed::Files { dir, from, to } => {
                self.must_be_open(dir);
                assert!(from < to);
                self.files.entry(dir).or_default().push((from, to));
            }
            Observed::Chunk { dir, name, index } => {
                self.must_be_open(dir);
                assert!(self.chunks.insert((dir, name, index)), "a chunk is copied once");
            }
            Observed::Large { dir, name } => {
                self.must_be_open(dir);
                assert!(self.large.insert((dir, name)), "a large file is finished once");
            }
            Observed::Finished { dir } => {
                self.must_be_open(dir);
                assert_eq!(self.unfinished_below[&dir], 0, "a directory is finished after those in it");
                self.finished.insert(dir);
                if let Some(parent) = self.parents[&dir] {
                    *self.unfinished_below.get_mut(&parent).unwrap() -= 1;
                }
            }
        }
    }

    fn must_be_open(&self, dir: u64) {
        assert!(self.parents.contains_key(&dir), "nothing happens in a directory before it is made");
        assert!(!self.finished.contains(&dir), "nothing happens in a directory after it is finished");
    }

    /// Compares what was seen with the tree, name by name.
    fn check(mut self, config: &Config, report: &Report) {
        let tree = Tree::new(config);
        let mut dirs = vec![tree.root()];
        let (mut directories, mut bytes) = (0, 0);
        let chunks = config.large_size.div_ceil(config.chunk);
        while let Some(dir) = dirs.pop() {
            directories += 1;
            assert!(self.finished.contains(&dir.id), "every directory is finished");
            let mut copied = vec![0u8; dir.names() as usize];
            for (from, to) in self.files.remove(&dir.id).unwrap_or_default() {
                copied[from as usize..to as usize].iter_mut().for_each(|count| *count += 1);
            }
            for name in 0..dir.names() {
                let is_file = dir.name(name) == Name::File;
                assert_eq!(copied[name as usize], u8::from(is_file), "a file is copied once");
                match dir.name(name) {
                    Name::File => bytes += tree.bytes(&dir, name, name + 1).0,
                    Name::Directory(index) => dirs.push(tree.child(&dir, index)),
                    Name::Large => {
                        assert!(self.large.remove(&(dir.id, name)));
                        (0..chunks).for_each(|index| assert!(self.chunks.remove(&(dir.id, name, index))));
                        bytes += config.large_size;
                    }
                }
            }
        }
        assert_eq!(directories, self.parents.len(), "no directory is made that is not in the tree");
        assert!(self.files.is_empty() && self.large.is_empty() && self.chunks.is_empty());
        assert_eq!(report.bytes, bytes);
    }
}

fn watched(config: &Config) -> Report {
    let mut watcher = Watcher::default();
    let report = simulate_observed(config, &mut |now, what| watcher.see(now, what)).unwrap();
    watcher.check(config, &report);
    report
}

/// A cluster and a tree of any kind, small enough to look at each file.
fn configurations() -> impl Strategy<Value = Config> {
    let cluster = (1..20u64, 1..5u64, 1..5u64, 0..4u64, prop::bool::ANY);
    let tree = (0..3000u64, 1..200u64, 0..6u64, 0.0..0.99, 0..6u64, 0..200u64);
    let storage = (1..5u64, prop_oneof![Just(0.0), 1e3..1e6], prop_oneof![Just(0.0), 1e6..1e10], 0.0..0.01, 0.0..0.5);
    let rest =
        (1..50u64, any::<u64>(), 0.0..0.3, 0.0..0.1, 0.0..1e-3, prop_oneof![Just(vec![]), Just(vec![0, 1, 100_000])]);
    (cluster, tree, storage, rest).prop_map(|(cluster, tree, storage, rest)| {
        let (ranks, ranks_per_node, cores_per_node, threads, slow) = cluster;
        let (files, files_per_directory, depth, skew, large_files, large_chunks) = tree;
        let (metadata_servers, metadata_rate, bandwidth, metadata_latency, visibility) = storage;
        let (batch, seed, links, errors, network_latency, sizes) = rest;
        Config {
            ranks,
            ranks_per_node,
            cores_per_node,
            threads,
            slow: if slow { vec![(ranks / 2, 4.0)] } else { Vec::new() },
            files,
            files_per_directory,
            depth,
            skew,
            large_files,
            large_size: large_chunks * 999_999 / 2,
            chunk: 1_000_000,
            metadata_servers,
            metadata_rate,
            read_bandwidth: bandwidth * 2.0,
            write_bandwidth: bandwidth,
            client_bandwidth: bandwidth,
            metadata_latency,
            visibility,
            batch,
            seed,
            links,
            errors,
            network_latency,
            sizes,
            ..Config::default()
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everything_is_copied_once_and_every_directory_is_finished_last(config in configurations()) {
        let report = watched(&config);
        prop_assert_eq!(report.files, config.files);
        prop_assert_eq!(report.large_files, config.large_files);
        prop_assert_eq!(report.left_over, 0);
    }

    #[test]
    fn the_same_configuration_gives_the_same_report(config in configurations()) {
        prop_assert_eq!(simulate(&config), simulate(&config));
    }

    #[test]
    fn queues_are_no_longer_than_there_are_other_ranks(config in configurations()) {
        let report = simulate(&config).unwrap();
        prop_assert!(report.longest_queue < config.ranks);
    }

    #[test]
    fn every_request_is_answered_and_every_work_unit_is_reported(config in configurations()) {
        let [want, no, unit, chunk, done, ..] = simulate(&config).unwrap().messages;
        prop_assert!(want >= no + unit + chunk);
        prop_assert!(want <= no + unit + chunk + config.ranks, "one open request for each rank at the end");
        prop_assert_eq!(unit + chunk, done);
    }

    #[test]
    fn servers_and_threads_are_never_busier_than_all_the_time(config in configurations()) {
        let report = simulate(&config).unwrap();
        for share in [report.metadata_busiest, report.read_busy, report.write_busy, report.communication_busiest, report.idle_most] {
            prop_assert!((-1e-9..=1.0 + 1e-9).contains(&share), "{}", share);
        }
    }
}

#[test]
fn memory_does_not_grow_with_the_number_of_files() {
    let memory = |files| {
        let config = Config { files, ranks: 7, depth: 4, batch: 10, ..Config::default() };
        simulate(&config).unwrap().memory
    };
    let (few, many) = (memory(50_000), memory(5_000_000));
    assert!(many <= 4 * few, "{few} bytes for 50,000 files, {many} for 5,000,000");
    // A directory is read in listings of bounded size.
    let flat = Config { files: 10_000_000, files_per_directory: 10_000_000, ranks: 4, ..Config::default() };
    let report = simulate(&flat).unwrap();
    assert!(report.memory < 4 << 20, "{}", report.memory);
}

#[test]
fn a_simulation_that_is_too_long_ends_with_an_error() {
    let config = Config { most_events: 1000, ..Config::default() };
    assert!(simulate(&config).unwrap_err().contains("1000 events"));
}
