//! Cases whose answer is known without a model.
#![forbid(unsafe_code)]

use haul_model::{Config, Report, simulate};

fn run(config: &Config) -> Report {
    simulate(config).expect("the configuration can be simulated")
}

fn assert_close(found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() <= tolerance, "{found} is not within {tolerance} of {expected}");
}

/// Messages and servers cost nothing.
fn free() -> Config {
    Config { network_latency: 1e-6, message_cost: 0.0, poll: 0.0, cpu_per_directory: 0.0, ..Config::default() }
}

#[test]
fn one_rank_and_one_file_take_what_each_step_takes() {
    let config = Config {
        files: 1,
        mean_size: 1e6,
        cpu_per_file: 1e-3,
        cpu_per_directory: 2e-3,
        cpu_per_byte: 1e-9,
        metadata_rate: 1000.0,
        metadata_latency: 10e-3,
        data_latency: 5e-3,
        start: 1.0,
        ..Config::default()
    };
    // Directory: 6 operations of 1 ms, 6 ways of 10 ms, 2 ms. Listing: one operation. The file: 5 operations, 1 ms and
    // 1 ms of the processor, read and write. The end: 2 operations.
    let expected = 1.0 + (0.006 + 0.060 + 0.002) + 0.011 + (0.055 + 0.002 + 0.010) + 0.022;
    let report = run(&config);
    assert_close(report.seconds, expected, 1e-6);
    assert_eq!((report.files, report.bytes, report.directories), (1, 1_000_000, 1));
    assert_eq!(report.messages_together(), 0, "one rank has nobody to talk to");
}

#[test]
fn with_servers_without_limits_ranks_copy_files_in_proportion() {
    // Long enough that the beginning and the end, when ranks look for work, take a small part of it.
    let config = Config { files: 400_000, cpu_per_file: 400e-6, ..free() };
    let one = run(&config).seconds;
    for ranks in [2, 4, 8, 16] {
        assert_close(run(&Config { ranks, ..config.clone() }).seconds, one / ranks as f64, 0.1);
    }
}

#[test]
fn with_servers_without_limits_ranks_copy_one_large_file_in_proportion() {
    let config = Config { files: 0, large_files: 1, large_size: 100 << 30, ..free() };
    let one = run(&config).seconds;
    for ranks in [2, 4, 7] {
        assert_close(run(&Config { ranks, ..config.clone() }).seconds, one / ranks as f64, 0.05);
    }
}

#[test]
fn the_rate_of_metadata_servers_is_the_limit_when_there_are_ranks_enough() {
    let config =
        Config { files: 500_000, metadata_rate: 20_000.0, metadata_latency: 1e-3, ranks: 64, threads: 4, ..free() };
    let report = run(&config);
    let files = report.files as f64 * config.operations_per_file;
    let directories =
        report.directories as f64 * (config.operations_per_directory + config.operations_per_finish + 1.0);
    let opens = report.messages[2] as f64 * 2.0 * 3.0; // at most: opened by paths of up to three components
    let least = (files + directories) / config.metadata_rate;
    assert!(report.seconds >= least, "{} < {least}", report.seconds);
    assert_close(report.seconds, least + opens / config.metadata_rate, 0.03);
    assert!(report.metadata_busy > 0.97);
}

#[test]
fn more_metadata_servers_take_a_part_each() {
    let config =
        Config { files: 500_000, metadata_rate: 10_000.0, ranks: 64, threads: 4, files_per_directory: 50, ..free() };
    let one = run(&config).seconds;
    let four = run(&Config { metadata_servers: 4, ..config }).seconds;
    // Directories are spread by chance, so one server has a little more than its part.
    assert!((one / 4.0..one / 3.4).contains(&four), "{one} and {four}");
}

#[test]
fn bandwidth_is_the_limit_of_large_files() {
    let config = Config { files: 0, large_files: 20, large_size: 10 << 30, write_bandwidth: 2e9, ranks: 16, ..free() };
    let report = run(&config);
    assert_close(report.seconds, report.bytes as f64 / 2e9, 0.03);
    assert!(report.write_busy > 0.97);
}

#[test]
fn a_node_gets_no_more_than_its_bandwidth() {
    let config = Config { files: 0, large_files: 8, large_size: 10 << 30, client_bandwidth: 1e9, ..free() };
    let config = Config { ranks: 8, ranks_per_node: 4, cores_per_node: 64, ..config };
    let report = run(&config);
    assert_close(report.seconds, report.bytes as f64 / 2e9, 0.05);
}

#[test]
fn ranks_share_the_processors_of_their_node() {
    let config = Config { files: 200_000, ranks_per_node: 8, cores_per_node: 2, threads: 1, ..free() };
    let two = run(&Config { ranks: 2, ..config.clone() }).seconds;
    let eight = run(&Config { ranks: 8, ..config.clone() }).seconds;
    assert_close(eight, two, 0.03);
    assert_close(run(&config).seconds, 2.0 * two, 0.03);
}

#[test]
fn communication_threads_take_processors_away() {
    let config = Config { files: 100_000, communication_share: 0.25, ..free() };
    assert_close(
        run(&config).seconds,
        run(&Config { communication_share: 0.0, ..config.clone() }).seconds / 0.75,
        0.01,
    );
}

#[test]
fn a_slow_rank_holds_the_job_back_by_no_more_than_its_share() {
    for (ranks, factor) in [(2, 4.0), (4, 4.0), (8, 4.0), (8, 20.0)] {
        let config = Config { files: 400_000, ..free() };
        let one = run(&config).seconds;
        let slow = Config { ranks, slow: vec![(1, factor)], ..config };
        let together = ranks as f64 - 1.0 + 1.0 / factor;
        assert_close(run(&slow).seconds, one / together, 0.1);
    }
}

#[test]
fn a_slow_rank_holds_a_large_file_back_by_one_chunk() {
    let config = Config { files: 0, large_files: 1, large_size: 32 << 30, ..free() };
    let chunk = config.chunk as f64 * config.cpu_per_byte;
    let one = run(&config).seconds;
    for slow in [0, 1] {
        let report = run(&Config { ranks: 4, slow: vec![(slow, 4.0)], ..config.clone() });
        let most = one / 3.25 + 5.0 * chunk;
        assert!(report.seconds <= most, "rank {slow}: {} > {most}", report.seconds);
    }
}

#[test]
fn another_node_waits_until_it_sees_a_new_directory() {
    let config = Config { files: 10_000, files_per_directory: 10_000, ranks: 2, visibility: 10.0, ..free() };
    assert!(run(&config).seconds > 10.0);
    let together = Config { ranks_per_node: 2, cores_per_node: 2, ..config };
    assert!(run(&together).seconds < 1.0, "on one node it is seen at once");
}

#[test]
fn larger_steps_change_the_result_little() {
    let config = Config {
        files: 2_000_000,
        files_per_directory: 1000,
        ranks: 32,
        metadata_rate: 50_000.0,
        metadata_servers: 4,
        metadata_latency: 200e-6,
        ..Config::default()
    };
    let exact = run(&Config { batch: 1, ..config.clone() });
    let coarse = run(&Config { batch: 100, ..config });
    assert_close(coarse.seconds, exact.seconds, 0.05);
}
