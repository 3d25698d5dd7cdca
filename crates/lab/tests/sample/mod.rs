//! Invented results of all experiments, for tests of what is shown of them.

use std::collections::BTreeMap;

use haul_lab::results::{
    Body, Cache, Case, Detail, Device, Environment, Grid, Latency, Outcome, Place, Results, Run, Section, Warning,
};
use haul_measure::nfs::COUNTERS;

/// Numbers between -1 and 1 that look random and are always the same.
pub struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / f64::from(1u32 << 30) - 1.0
    }

    /// Runs of about these seconds.
    fn runs(&mut self, count: usize, seconds: f64, user: f64, system: f64, faults: u64) -> Vec<Run> {
        let run = |noise: &mut Noise| {
            let factor = 1.0 + noise.next() * 0.04;
            Run {
                returned: seconds * factor,
                durable: seconds * factor * 1.3,
                user: user * factor,
                system: system * (1.0 + noise.next() * 0.03),
                peak_memory: 11 << 20,
                minor_faults: faults,
                major_faults: faults / 50,
                device_read: Some(1_048_576_000),
                device_written: Some(1_050_000_000),
                other_load: 0.001,
                reported: BTreeMap::new(),
            }
        };
        (0..count).map(|_| run(self)).collect()
    }
}

pub fn case(group: &str, competitor: &str, bytes: u64, runs: Vec<Run>, parameters: &[(&str, &str)]) -> Case {
    Case {
        group: group.to_owned(),
        competitor: competitor.to_owned(),
        base: false,
        parameters: parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        cache: Cache::Dropped,
        bytes,
        runs,
        outcome: Outcome::Right,
        warnings: Vec::new(),
    }
}

fn begun(name: &str) -> Section {
    Section { complete: true, ..Section::new(name, "target") }
}

fn mapped_copy(noise: &mut Noise) -> Section {
    let mut section = begun("mapped-copy");
    let size = 1_048_576_000u64;
    for (state, slow) in [("cold", 2.2), ("warm", 0.6)] {
        for (engine, io, seconds, system, faults) in [
            ("mapped", "buffered", slow * 1.12, 0.71, 16_200),
            ("read-write", "buffered", slow, 0.62, 2_100),
            ("mapped", "direct", slow * 1.3, 0.31, 16_150),
            ("read-write", "direct", slow * 1.05, 0.24, 2_080),
        ] {
            let direct = if io == "direct" { ", direct" } else { "" };
            let parameters =
                [("size", &*size.to_string()), ("engine", engine), ("buffer", "8388608"), ("io", io), ("state", state)];
            let name = format!("{engine} 8 MiB{direct}");
            let runs = noise.runs(7, seconds, 0.01, system, faults);
            let mut case = case(&format!("1000 MiB, {state}"), &name, size, runs, &parameters);
            case.base = engine == "mapped" && io == "buffered";
            section.cases.push(case);
        }
        let mut cp = case(
            &format!("1000 MiB, {state}"),
            "cp",
            size,
            noise.runs(7, slow, 0.01, 0.66, 2_050),
            &[("size", &size.to_string()), ("engine", "cp"), ("io", "buffered"), ("state", state)],
        );
        cp.warnings.push(Warning::OtherLoad);
        section.cases.push(cp);
    }
    section.skipped.push("8 GB: there is no room for it on /mnt/measure".to_owned());
    section
}

fn in_kernel(noise: &mut Noise) -> Section {
    let mut section = begun("in-kernel");
    for (size, seconds) in [(512u64, 0.45), (1024, 0.76), (1536, 1.2), (2048, 1.66)] {
        for (engine, factor) in [("cp", 1.0), ("read-write", 1.02), ("copy-range", 0.97), ("splice", 1.1)] {
            let runs = noise.runs(7, seconds * factor, 0.01, seconds * factor * 0.7, 300);
            let parameters = [("size", &*(size << 20).to_string()), ("engine", engine)];
            let mut case = case(&format!("{size} MiB"), engine, size << 20, runs, &parameters);
            case.base = engine == "cp";
            for run in &mut case.runs {
                let all = COUNTERS.into_iter().zip([4096.0, 0.0, 16_384.0, 16_384.0, 17.0, 2.15e9, 2.15e9]);
                run.reported.extend(all.map(|(name, value)| (format!("nfs.{name}"), value)));
            }
            section.cases.push(case);
        }
        let mut clone = case(&format!("{size} MiB"), "clone", size << 20, Vec::new(), &[("engine", "clone")]);
        clone.outcome = Outcome::Refused("this filesystem does not share blocks".to_owned());
        section.cases.push(clone);
    }
    let values = [[0.21, 0.004, 0.06, 0.04, 0.02], [0.16, 0.003, 0.06, 0.05, 0.02]];
    let values = values.map(|row| row.map(Some).to_vec()).to_vec();
    let names = |what: &str, names: &[&str]| (what.to_owned(), names.iter().map(|name| (*name).to_owned()).collect());
    let columns = names("part", &["copying memory", "journal", "allocation", "page cache", "other"]);
    let grid = Grid { unit: "s".to_owned(), rows: names("tool", &["read-write", "copy-range"]), columns, values };
    section.details.push(Detail::new("samples", Body::Grid(grid)));
    section
}

fn async_tree(noise: &mut Noise) -> Section {
    let mut section = begun("async-tree");
    for (row, megabytes) in [100u64, 500, 1000, 2000].into_iter().enumerate() {
        for (column, files) in [32u64, 64, 128, 256].into_iter().enumerate() {
            let group = format!("{megabytes} MiB in {files} files");
            let base = megabytes as f64 * 0.004 + files as f64 * 0.0004;
            for engine in ["cp", "posix-aio", "linux-aio", "io-uring", "auto"] {
                for variant in ["plain", "readahead", "preallocate", "priority"] {
                    if (engine == "cp" || engine == "auto") && !["plain", "priority"].contains(&variant) {
                        continue;
                    }
                    let gain = match engine {
                        "cp" => 1.0,
                        "auto" => 0.85,
                        "posix-aio" => 1.9 - row as f64 * 0.3 + column as f64 * 0.04,
                        "linux-aio" => 1.5 - row as f64 * 0.27 + column as f64 * 0.05,
                        _ => 1.2 - row as f64 * 0.2 + column as f64 * 0.03,
                    };
                    let helped = match (engine, variant) {
                        ("posix-aio", "readahead") => 0.7,
                        (_, "readahead") => 0.93,
                        _ => 1.0,
                    };
                    let (size, number) = ((megabytes << 20).to_string(), files.to_string());
                    let parameters = [("size", &*size), ("files", &*number), ("engine", engine), ("variant", variant)];
                    let name = if variant == "plain" { engine.to_owned() } else { format!("{engine}, {variant}") };
                    let runs = noise.runs(6, base * gain * helped, 0.01, base * 0.3, 400);
                    let mut case = case(&group, &name, megabytes << 20, runs, &parameters);
                    case.base = name == "cp";
                    section.cases.push(case);
                }
            }
        }
    }
    section
}

fn sparse_image(noise: &mut Noise) -> Section {
    let mut section = begun("sparse-image");
    let whole = 8_589_934_592u64;
    for (smart, sparse, seconds) in [("yes", "yes", 9.4), ("yes", "no", 12.8), ("no", "yes", 12.0), ("no", "no", 16.1)]
    {
        let read = if smart == "yes" { "smart" } else { "full" };
        let output = if sparse == "yes" { "sparse" } else { "plain" };
        let mut runs = noise.runs(6, seconds, 0.4, 4.0, 900);
        let skipped = if smart == "yes" { 2_391_018_496.0 } else { 0.0 };
        let unwritten = if sparse == "yes" { 4_396_757_358.0 } else { 0.0 };
        for run in &mut runs {
            for (name, value) in [
                ("seconds.read", seconds * 0.8),
                ("seconds.write", seconds * 0.25),
                ("seconds.scan", if sparse == "yes" { 0.9 } else { 0.0 }),
                ("seconds.open", 0.003),
                ("seconds.workers", seconds * 1.9),
                ("workers", 2.0),
                ("bytes.read-skipped", skipped),
                ("bytes.write-skipped", unwritten),
                ("bytes.zeros", (unwritten - skipped).max(0.0)),
                ("bytes.copied", whole as f64 - unwritten),
            ] {
                run.reported.insert(name.to_owned(), value);
            }
        }
        let name = format!("{read} read, {output} output");
        let mut case = case("image of 8 GiB", &name, whole, runs, &[("smart", smart), ("sparse", sparse)]);
        case.base = name == "full read, plain output";
        section.cases.push(case);
    }
    let mut by_queues = section.cases[0].clone();
    by_queues.competitor += ", by queues";
    by_queues.parameters.insert("queued".to_owned(), "yes".to_owned());
    for run in &mut by_queues.runs {
        for (name, value) in [
            ("seconds.read-enqueue", 0.3),
            ("seconds.read-dequeue", 4.7),
            ("seconds.write-enqueue", 0.1),
            ("seconds.write-dequeue", 5.6),
            ("seconds.workers", 0.0),
            ("workers", 0.0),
        ] {
            run.reported.insert(name.to_owned(), value);
        }
    }
    section.cases.push(by_queues);
    let cp = case("image of 8 GiB", "cp", whole, noise.runs(6, 16.4, 0.1, 5.0, 400), &[]);
    section.cases.push(cp);
    let mut spans = Vec::new();
    for number in 0..60u64 {
        for (kind, bytes) in [("used", 70 + number % 7 * 9), ("free", 20 + number % 5 * 7), ("zero", number % 3 * 9)] {
            spans.push((kind.to_owned(), bytes << 20));
        }
    }
    spans.push(("hole".to_owned(), 900 << 20));
    let kinds = [
        ("used", 5_637_144_576u64),
        ("opaque", 0),
        ("zero", 536_870_912),
        ("free", 2_080_374_784),
        ("hole", 943_718_400),
    ];
    let rows =
        kinds.map(|(kind, bytes)| (kind.to_owned(), bytes.to_string(), haul_measure::words::bytes(bytes))).to_vec();
    section.details.push(Detail { name: "kinds".to_owned(), body: Body::Facts { rows } });
    section.details.push(Detail { name: "strip".to_owned(), body: Body::Strip { spans } });
    section
}

/// Copiers with names that somebody may have, and copies that somebody may make.
pub const LONG: &str = "/usr/local/bin/a-copier-with-a-very-long-name --with --many=options --and-one-that-cannot-be-broken-anywhere-at-all";

fn compare(noise: &mut Noise) -> Section {
    let mut section = begun("compare");
    let mut add = |name: &str, seconds: f64, outcome: Outcome| {
        let runs = noise.runs(7, seconds, 0.1, seconds * 0.5, 700);
        let mut case = case("photographs", name, 3_000_000_000, runs, &[]);
        case.base = name == "haul";
        case.outcome = outcome;
        section.cases.push(case);
    };
    add("haul", 3.1, Outcome::Right);
    add("cp -r", 3.6, Outcome::Right);
    add("rsync -a", 9.9, Outcome::Unverified);
    add(LONG, 3.11, Outcome::Right);
    add("<script>alert('no')</script>\u{202e}\u{1b}[31m", 4.0, Outcome::Right);
    add("漢字と「かな」のコピー", 5.0, Outcome::Right);
    add("liar", 0.2, Outcome::Wrong("photographs/7.raw differs from byte 4096 on".to_owned()));
    add("crasher", 1.0, Outcome::Failed("signal 11".to_owned()));
    section
}

fn details() -> Section {
    let mut section = begun("mapped-write");
    let mut add = |name: &str, body: Body| section.details.push(Detail { name: name.to_owned(), body });
    let sizes: Vec<String> = (16..25).map(|power| (1u64 << power).to_string()).collect();
    let reads = ["read", "reread", "random-read", "backward-read", "stride-read"];
    for test in ["write", "rewrite", "random-write", "record-rewrite"].into_iter().chain(reads) {
        for (manner, gain) in [("mapped", 1.2), ("written", 1.0)] {
            let gain = |row: usize, column: usize| f64::powi(gain, row as i32 - 2 * column as i32);
            let rate = |row: usize, column: usize| 400.0 * 1.9f64.powi((row + column) as i32 / 2) * gain(row, column);
            let value = |row: usize, column: usize| (column <= row).then(|| rate(row, column));
            let values = (0..9).map(|row| (0..9).map(|column| value(row, column)).collect()).collect();
            let unit = "KiB/s".to_owned();
            let (rows, columns) = (("file".to_owned(), sizes.clone()), ("record".to_owned(), sizes.clone()));
            add(&format!("grid-{manner}-{test}"), Body::Grid(Grid { unit, rows, columns, values }));
        }
    }
    let rounds = |mean: f64| (0..20).map(|round| mean * (1.0 + f64::from(round % 7) / 20.0)).collect();
    let series = [("mapped".to_owned(), rounds(0.21)), ("written".to_owned(), rounds(0.16))].into();
    add("msync", Body::Samples { unit: "s".to_owned(), series });
    for (name, factor) in [("stall", 1.0), ("msync-latency", 30.0), ("written-latency", 24.0)] {
        let percentiles = [(50.0, 4e-5), (90.0, 6e-5), (99.0, 9e-5), (99.9, 4e-4), (99.99, 3.1e-3)];
        let percentiles = percentiles.map(|(percentile, seconds)| (percentile, seconds * factor)).to_vec();
        let (count, over, threshold, longest) = (20_000, 5, 1e-3, 8.3e-3 * factor);
        add(name, Body::Latency(Latency { count, over, threshold, percentiles, longest }));
    }
    let facts =
        vec![("stable pages".to_owned(), "no".to_owned(), "/sys/class/bdi/254:0/stable_pages_required".to_owned())];
    add("facts", Body::Facts { rows: facts });
    let sentences = vec!["Nobody waited for write-back here.".to_owned()];
    add("verdict", Body::Verdict { name: "no-stalls".to_owned(), sentences });
    section
}

/// Everything.
pub fn results() -> Results {
    let mut noise = Noise(7);
    let place = Place {
        directory: "/mnt/measure".to_owned(),
        filesystem: "ext4".to_owned(),
        source: "/dev/nvme0n1p2".to_owned(),
        mount_options: "rw,relatime,errors=remount-ro,data=ordered".to_owned(),
        device: Some(Device {
            name: "nvme0n1".to_owned(),
            model: Some("Example SSD 980 1TB".to_owned()),
            rotational: Some(false),
            stable_pages: Some(false),
            scheduler: Some("none".to_owned()),
            write_cache: Some("write back".to_owned()),
            ..Device::default()
        }),
        free: 400 << 30,
    };
    let environment = Environment {
        kernel: "6.12.9-amd64".to_owned(),
        processor: "Example Processor 7 5800X 8-Core".to_owned(),
        cores: 16,
        memory: 32 << 30,
        virtual_machine: Some("kvm".to_owned()),
        places: [("target".to_owned(), place)].into(),
        competitors: [
            ("cp".to_owned(), "cp (GNU coreutils) 9.1".to_owned()),
            ("haul".to_owned(), "haul 0.1.0".to_owned()),
        ]
        .into(),
        methods: vec!["before every cold run all caches of the machine are dropped".to_owned()],
    };
    let command = ["haul-lab", "all", "/mnt/measure"].map(str::to_owned).to_vec();
    let mut results = Results::new(command, 1_795_366_260, environment);
    results.sections = vec![
        mapped_copy(&mut noise),
        in_kernel(&mut noise),
        details(),
        async_tree(&mut noise),
        sparse_image(&mut noise),
        compare(&mut noise),
    ];
    results.complete = true;
    results
}

/// Everything but the experiment with very many cases.
#[allow(dead_code, reason = "not every test that includes this file needs it")]
pub fn few() -> Results {
    let mut results = results();
    results.sections.retain(|section| section.name != "async-tree");
    results
}
