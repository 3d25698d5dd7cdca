//! What is chosen for which facts.

use super::*;
use crate::profile::Preference;

const FILE: DataFacts = DataFacts {
    source: Kind::Regular,
    dest: Kind::Regular,
    size: 1 << 30,
    allocated: 1 << 30,
    seekable: true,
    pseudo_file: false,
    clone_is_known_to_fail: false,
    copy_range_is_known_to_fail: false,
    dest_block: 4096,
    direct_source: true,
    direct_dest: true,
    local_disk: true,
    one_server: false,
    dest_on: Filesystem::Other,
    replaces: false,
    read_elsewhere: false,
    demands: Demands::NONE,
    around: None,
    preferred: Preference { cached: None, cold: None },
};

fn engines(facts: DataFacts, options: &DataOptions) -> Vec<EngineName> {
    choose(&facts, options).engines
}

#[test]
fn a_large_file_is_cloned_or_copied_by_the_kernel() {
    use EngineName::{Clone, CopyRange, ReadWrite};
    let options = DataOptions::default();
    assert_eq!(engines(FILE, &options), [Clone, CopyRange, ReadWrite]);
    assert_eq!(engines(DataFacts { clone_is_known_to_fail: true, ..FILE }, &options), [CopyRange, ReadWrite]);
    let nothing = DataFacts { clone_is_known_to_fail: true, copy_range_is_known_to_fail: true, ..FILE };
    assert_eq!(engines(nothing, &options), [ReadWrite]);
}

const GIB: u64 = 1 << 30;

const AROUND: Surroundings = Surroundings {
    cached: Some(4 * GIB),
    memory: Some(16 * GIB),
    left_in_cache: 0,
    same_device: Some(true),
    rotational: None,
    within_one: true,
    cores: 2,
    at_once: 1,
};

fn sized(size: u64, cached: u64) -> DataFacts {
    let around = Some(Surroundings { cached: Some(cached), ..AROUND });
    DataFacts { size, allocated: size, clone_is_known_to_fail: true, around, ..FILE }
}

#[test]
fn a_cold_file_is_left_to_the_kernel_where_a_server_may_copy_it() {
    let (options, cold) = (DataOptions::default(), sized(64 << 20, 0));
    assert!(!engines(cold, &options).contains(&EngineName::CopyRange));
    assert!(engines(DataFacts { local_disk: false, ..cold }, &options).contains(&EngineName::CopyRange));
}

fn around(facts: DataFacts, change: impl FnOnce(&mut Surroundings)) -> DataFacts {
    let mut around = facts.around.unwrap();
    change(&mut around);
    DataFacts { around: Some(around), ..facts }
}

#[test]
fn a_large_file_goes_to_the_device_from_the_cache_or_from_the_device() {
    use EngineName::{CopyRange, Direct, Dontcache, MappedDirect, ReadWrite};
    let options = DataOptions::default();
    let warm = choose(&sized(4 * GIB, 4 * GIB), &options);
    assert_eq!(warm.engines, [MappedDirect, Dontcache, CopyRange, ReadWrite]);
    assert!(warm.preallocate && warm.workers.start == 2 && !warm.forget_source && !warm.read_ahead);
    let cold = choose(&sized(4 * GIB, GIB), &options);
    assert_eq!(cold.engines, [Direct, Dontcache, ReadWrite]);
    assert!(cold.preallocate && cold.forget_source);
}

#[test]
fn a_file_that_fits_well_stays_in_the_cache_and_memory_decides_what_fits() {
    let options = DataOptions::default();
    let goes = |facts: &DataFacts, options: &DataOptions| {
        let engines = choose(facts, options).engines;
        engines.contains(&EngineName::MappedDirect) || engines.contains(&EngineName::Direct)
    };
    let file = sized(GIB, GIB);
    assert!(!goes(&file, &options));
    assert!(goes(&around(file, |around| around.memory = Some(4 * GIB)), &options), "more than an eighth");
    assert!(goes(&around(file, |around| around.left_in_cache = 8 * GIB), &options), "the run has filled half of it");
    assert!(!goes(&around(sized(31 << 20, 0), |around| around.memory = Some(0)), &options), "never below 32 MiB");
    assert!(goes(&file, &DataOptions { cache: CacheUse::Drop, ..DataOptions::default() }));
    assert!(!goes(&sized(8 * GIB, 8 * GIB), &DataOptions { cache: CacheUse::Keep, ..DataOptions::default() }));
    assert!(!goes(&DataFacts { direct_dest: false, ..sized(8 * GIB, 0) }, &options), "no direct I/O there");
    let device = DataFacts { dest: Kind::BlockDevice, ..sized(64 << 20, 0) };
    assert!(goes(&device, &options) && !choose(&device, &options).preallocate);
}

#[test]
fn xfs_gets_larger_writes_through_the_page_cache_and_the_user_still_says_how_large() {
    let facts = DataFacts { dest_on: Filesystem::Xfs, ..sized(GIB, GIB) };
    let size = |facts: &DataFacts, options: &DataOptions| choose(facts, options).tuning.buffer_size;
    assert_eq!(size(&facts, &DataOptions::default()), Some(TO_XFS));
    assert_eq!(size(&facts, &DataOptions { buffer_size: Some(4096), ..DataOptions::default() }), Some(4096));
    assert_eq!(size(&sized(GIB, GIB), &DataOptions::default()), None, "elsewhere the engine knows best");
    let past_the_cache = DataOptions { cache: CacheUse::Drop, ..DataOptions::default() };
    assert_eq!(size(&facts, &past_the_cache), None, "direct I/O wants more");
    let named = DataOptions { engine: EngineChoice::Only(EngineName::ReadWrite), ..DataOptions::default() };
    assert_eq!(size(&facts, &named), None, "who names an engine gets it as it is");
}

#[test]
fn xfs_takes_a_cached_file_through_the_page_cache_while_a_fifth_of_the_memory_will_do() {
    let to_xfs = |size, cached| {
        let facts = DataFacts { dest_on: Filesystem::Xfs, ..sized(size, cached) };
        choose(&facts, &DataOptions::default()).engines[0]
    };
    assert_eq!(to_xfs(3 * GIB, 3 * GIB), EngineName::CopyRange);
    assert_eq!(to_xfs(4 * GIB, 4 * GIB), EngineName::MappedDirect, "more than a fifth");
    assert_eq!(to_xfs(3 * GIB, 0), EngineName::Direct, "it waits for the device in any case");
    let to_xfs = DataFacts { dest_on: Filesystem::Xfs, ..sized(3 * GIB, 0) };
    let unknown = around(to_xfs, |around| around.cached = None);
    assert_eq!(choose(&unknown, &DataOptions::default()).engines[0], EngineName::MappedDirect, "perhaps it is cold");
}

#[test]
fn ext4_gets_its_space_first_where_a_file_of_a_mebibyte_goes_through_the_page_cache() {
    let to_ext4 = |size| DataFacts { dest_on: Filesystem::Ext4, size, allocated: size, ..FILE };
    let options = DataOptions::default();
    assert!(choose(&to_ext4(ALLOCATED_FIRST), &options).preallocate);
    assert!(!choose(&to_ext4(ALLOCATED_FIRST - 1), &options).preallocate);
    assert!(!choose(&DataFacts { dest_on: Filesystem::Xfs, ..to_ext4(GIB) }, &options).preallocate);
    assert!(!choose(&DataFacts { allocated: GIB / 2, ..to_ext4(GIB) }, &options).preallocate, "it has holes");
    assert!(!choose(&to_ext4(GIB), &DataOptions { sparse: Sparse::Always, ..DataOptions::default() }).preallocate);
    assert!(
        !choose(&to_ext4(GIB), &DataOptions { preallocate: Preallocate::Never, ..DataOptions::default() }).preallocate
    );
    assert!(!choose(&DataFacts { replaces: true, ..to_ext4(GIB) }, &options).preallocate);
    let demands = Demands { renamed: true, ..Demands::NONE };
    assert!(!choose(&DataFacts { demands, ..to_ext4(GIB) }, &options).preallocate);
    let device = DataFacts { dest: Kind::BlockDevice, ..to_ext4(GIB) };
    assert!(!choose(&device, &options).preallocate);
    let by = |name| {
        choose(&to_ext4(GIB), &DataOptions { engine: EngineChoice::Only(name), ..DataOptions::default() }).preallocate
    };
    assert!(by(EngineName::ReadWrite) && by(EngineName::CopyRange) && by(EngineName::Splice));
    assert!(!by(EngineName::Reference) && !by(EngineName::Mapped));
}

#[test]
fn ext4_is_written_by_read_and_write_and_by_copy_range_only_where_nothing_is_allocated_first() {
    use EngineName::{CopyRange, Dontcache, MappedDirect, ReadWrite};
    let to_ext4 = |size, cached| DataFacts { dest_on: Filesystem::Ext4, ..sized(size, cached) };
    assert_eq!(engines(to_ext4(GIB, GIB), &DataOptions::default()), [ReadWrite]);
    let never = DataOptions { preallocate: Preallocate::Never, ..DataOptions::default() };
    assert_eq!(engines(to_ext4(GIB, GIB), &never), [CopyRange, ReadWrite]);
    let past = [MappedDirect, Dontcache, CopyRange, ReadWrite];
    assert_eq!(
        engines(to_ext4(4 * GIB, 4 * GIB), &DataOptions::default()),
        past,
        "within one filesystem the device is durable sooner"
    );
}

#[test]
fn ext4_takes_a_cached_file_of_another_filesystem_through_the_page_cache_while_a_fifth_of_the_memory_will_do() {
    let first = |size, cached, options: &DataOptions| {
        let facts = DataFacts { dest_on: Filesystem::Ext4, ..sized(size, cached) };
        choose(&around(facts, |around| around.within_one = false), options).engines[0]
    };
    let options = DataOptions::default();
    assert_eq!(first(3 * GIB, 3 * GIB, &options), EngineName::ReadWrite);
    assert_eq!(first(4 * GIB, 4 * GIB, &options), EngineName::MappedDirect, "more than a fifth");
    assert_eq!(first(3 * GIB, 0, &options), EngineName::Direct, "it waits for the device in any case");
    let never = DataOptions { preallocate: Preallocate::Never, ..DataOptions::default() };
    assert_eq!(first(3 * GIB, 3 * GIB, &never), EngineName::MappedDirect, "without space it is no quicker");
}

#[test]
fn a_disk_with_heads_gets_one_worker_and_more_of_the_memory() {
    let disk = |size| around(sized(size, 0), |around| around.rotational = Some(true));
    let steps = choose(&disk(3 * GIB), &DataOptions::default());
    assert_eq!((steps.engines, steps.workers), (vec![EngineName::ReadWrite], Workers::ONE));
    let steps = choose(&disk(5 * GIB), &DataOptions::default());
    assert_eq!((steps.engines[0], steps.workers), (EngineName::Direct, Workers::ONE));
    assert!(!steps.preallocate, "one worker needs no space in advance");
}

#[test]
fn workers_are_shared_by_the_files_that_are_copied_at_once() {
    let workers = |at_once| {
        let facts = around(sized(4 * GIB, 0), |around| around.at_once = at_once);
        choose(&facts, &DataOptions::default()).workers
    };
    assert_eq!(workers(1), Workers { start: 4, most: 4 });
    assert_eq!(workers(2), Workers { start: 2, most: 2 });
    assert_eq!(workers(100), Workers::ONE);
    assert_eq!(choose(&sized(5 << 20, 0), &DataOptions::default()).workers, Workers::ONE, "too small to share");
}

#[test]
fn there_are_no_more_direct_workers_than_have_buffers_in_an_eighth_of_the_memory_but_one() {
    let workers = |memory| {
        let facts = around(sized(4 * GIB, 0), |around| around.memory = Some(memory));
        choose(&facts, &DataOptions::default()).workers.most
    };
    assert_eq!((workers(GIB), workers(256 << 20), workers(0)), (4, 2, 1));
}

#[test]
fn a_sparse_file_is_read_and_written_by_several_and_gets_no_space_in_advance() {
    let facts = DataFacts { allocated: GIB, ..sized(20 * GIB, 0) };
    for preallocate in [Preallocate::Auto, Preallocate::Always] {
        let steps = choose(&facts, &DataOptions { preallocate, ..DataOptions::default() });
        assert_eq!((steps.engines, steps.ranges), (vec![EngineName::ReadWrite], Ranges::Extents));
        assert!(steps.workers.start == 16 && !steps.preallocate);
    }
    let warm = choose(&DataFacts { allocated: GIB, ..sized(20 * GIB, GIB) }, &DataOptions::default());
    assert_eq!(warm.workers.start, 2, "nobody waits for the device");
    let zeros = DataOptions { sparse: Sparse::Always, preallocate: Preallocate::Always, ..DataOptions::default() };
    assert!(!choose(&sized(4 * GIB, 0), &zeros).preallocate);
}

#[test]
fn preallocation_obeys() {
    let never = DataOptions { preallocate: Preallocate::Never, ..DataOptions::default() };
    assert!(!choose(&sized(4 * GIB, 0), &never).preallocate);
    let always = DataOptions { preallocate: Preallocate::Always, ..DataOptions::default() };
    assert!(choose(&DataFacts { size: 1, allocated: 4096, ..FILE }, &always).preallocate);
}

#[test]
fn only_cold_files_are_read_ahead() {
    let options = DataOptions::default();
    assert!(choose(&sized(64 << 20, 0), &options).read_ahead);
    assert!(!choose(&sized(64 << 20, 64 << 20), &options).read_ahead);
    let small = |size| DataFacts { size, allocated: size, ..FILE };
    assert!(choose(&small(1 << 20), &options).read_ahead && !choose(&small(100 << 10), &options).read_ahead);
}

#[test]
fn every_choice_that_is_not_strict_ends_with_an_engine_that_can_do_everything() {
    for name in EngineName::ALL {
        let steps = choose(&FILE, &DataOptions { engine: EngineChoice::Only(name), ..DataOptions::default() });
        let last = steps.engines.last().copied();
        assert_eq!(steps.engines.first(), Some(&name));
        assert!(steps.strict || matches!(last, Some(EngineName::ReadWrite | EngineName::Reference)), "{name}");
    }
}

#[test]
fn a_tiny_file_is_written_at_once_where_that_is_sooner_and_nobody_waits_for_the_device() {
    let at_once = |size, dest_on, options: &DataOptions| {
        choose(&DataFacts { size, allocated: 8192, dest_on, ..FILE }, options).at_once_if_cached
    };
    let options = DataOptions::default();
    let on_xfs = |size| at_once(size, Filesystem::Xfs, &options);
    assert!(on_xfs(1) && on_xfs(8192) && !on_xfs(8193));
    for on in [Filesystem::Btrfs, Filesystem::Ext4, Filesystem::Other] {
        assert!(!at_once(1, on, &options), "{on:?}");
    }
    let demands = Demands { durable: true, ..Demands::NONE };
    let durable = DataFacts { size: 4096, allocated: 8192, dest_on: Filesystem::Xfs, demands, ..FILE };
    assert!(!choose(&durable, &options).at_once_if_cached);
    let on_xfs = |options: DataOptions| at_once(4096, Filesystem::Xfs, &options);
    assert!(!on_xfs(DataOptions { reflink: Reflink::Always, ..DataOptions::default() }));
    assert!(!on_xfs(DataOptions { engine: EngineChoice::Only(EngineName::Clone), ..DataOptions::default() }));
}

#[test]
fn reflink_always_tries_nothing_else() {
    let steps = choose(&FILE, &DataOptions { reflink: Reflink::Always, ..DataOptions::default() });
    assert_eq!((steps.engines, steps.strict), (vec![EngineName::Clone], true));
}

#[test]
fn reflink_never_and_sparse_never_stay_away_from_engines_that_share_or_keep_holes() {
    for options in [
        DataOptions { reflink: Reflink::Never, ..DataOptions::default() },
        DataOptions { sparse: Sparse::Never, ..DataOptions::default() },
    ] {
        assert_eq!(engines(FILE, &options), [EngineName::ReadWrite]);
    }
    let sparse = DataFacts { allocated: 0, ..FILE };
    assert_eq!(choose(&sparse, &DataOptions { sparse: Sparse::Never, ..DataOptions::default() }).ranges, Ranges::Whole);
}

#[test]
fn an_engine_asked_for_does_not_override_what_must_not_be() {
    for name in [EngineName::Clone, EngineName::CopyRange] {
        let asked = DataOptions { engine: EngineChoice::Only(name), ..DataOptions::default() };
        assert_eq!(engines(FILE, &DataOptions { reflink: Reflink::Never, ..asked.clone() }), [EngineName::ReadWrite]);
        assert_eq!(engines(FILE, &DataOptions { sparse: Sparse::Never, ..asked }), [EngineName::ReadWrite]);
    }
}

#[test]
fn a_choice_for_the_kind_of_a_file_is_that_for_the_file() {
    let sizes = [0, 1, 1024, 1025, 4095, 8192, 8193, SMALL - 1, SMALL, SMALL + 1, READ_AHEAD, WORTH_ASKING];
    let all = [
        DataOptions::default(),
        DataOptions { sparse: Sparse::Always, ..DataOptions::default() },
        DataOptions { cache: CacheUse::Drop, preallocate: Preallocate::Always, ..DataOptions::default() },
        DataOptions { engine: EngineChoice::Only(EngineName::IoUring), ..DataOptions::default() },
        DataOptions { reflink: Reflink::Always, ..DataOptions::default() },
    ];
    for (size, options) in sizes.into_iter().flat_map(|size| all.iter().map(move |options| (size, options))) {
        for allocated in [0, size / 2, size, size + 4096] {
            for (known, dest_on) in [
                (false, Filesystem::Other),
                (true, Filesystem::Xfs),
                (false, Filesystem::Xfs),
                (false, Filesystem::Btrfs),
            ] {
                let facts = DataFacts { size, allocated, clone_is_known_to_fail: known, dest_on, ..FILE };
                assert_eq!(choose(&facts.in_kind(), options), choose(&facts, options), "{facts:?} {options:?}");
            }
        }
    }
}

#[test]
fn zeros_of_a_stream_become_holes_too() {
    let facts = DataFacts { source: Kind::Fifo, seekable: false, ..FILE };
    let steps = choose(&facts, &DataOptions { sparse: Sparse::Always, ..DataOptions::default() });
    assert_eq!((steps.ranges, steps.find_zeros), (Ranges::Stream, true));
}

#[test]
fn a_size_that_lies_is_not_trusted() {
    let steps = choose(&DataFacts { pseudo_file: true, size: 4096, ..FILE }, &DataOptions::default());
    assert_eq!((steps.ranges, steps.engines), (Ranges::Stream, vec![EngineName::ReadWrite]));
    let steps = choose(&DataFacts { seekable: false, ..FILE }, &DataOptions::default());
    assert_eq!(steps.ranges, Ranges::Stream);
}

#[test]
fn holes_are_not_made_in_a_device() {
    let facts = DataFacts { dest: Kind::BlockDevice, allocated: 0, ..FILE };
    let steps = choose(&facts, &DataOptions { sparse: Sparse::Always, ..DataOptions::default() });
    assert_eq!((steps.ranges, steps.find_zeros), (Ranges::Whole, false));
}

#[test]
fn what_others_read_too_is_read_and_written_and_stays_in_their_page_cache() {
    let drop = DataOptions { cache: CacheUse::Drop, ..DataOptions::default() };
    for options in [DataOptions::default(), drop] {
        let facts = DataFacts { read_elsewhere: true, ..sized(8 * GIB, 0) };
        let steps = choose(&facts, &options);
        assert_eq!(steps.engines, [EngineName::ReadWrite]);
        assert!(!steps.forget_source && !steps.read_ahead, "{options:?}");
        assert!(steps.workers.start > 1 && steps.tuning.buffer_size == Some(FROM_ELSEWHERE));
    }
}

#[test]
fn what_may_wait_for_a_server_does_not_wait_for_ever() {
    let served = DataFacts { local_disk: false, one_server: true, ..sized(GIB, GIB) };
    assert!(choose(&served, &DataOptions::default()).tuning.patience.is_some());
    let forced = DataOptions { engine: EngineChoice::Only(EngineName::CopyRange), ..DataOptions::default() };
    assert!(choose(&served, &forced).tuning.patience.is_some());
    assert_eq!(choose(&DataFacts { one_server: false, ..served }, &forced).tuning.patience, None);
}

#[test]
fn one_worker_lets_a_server_copy_a_file_and_reads_nothing_ahead() {
    let options = DataOptions::default();
    let on_server = |facts| DataFacts { local_disk: false, one_server: true, ..facts };
    let served = on_server(sized(GIB, GIB));
    let workers = |facts: DataFacts| choose(&facts, &options).workers;
    assert_eq!(workers(served), Workers::ONE);
    let cold = on_server(sized(GIB, 0));
    assert!(!choose(&cold, &options).read_ahead);
    assert!(!choose(&on_server(DataFacts { size: 1 << 20, allocated: 1 << 20, ..FILE }), &options).read_ahead);
    assert!(choose(&DataFacts { copy_range_is_known_to_fail: true, ..cold }, &options).read_ahead);
    assert!(workers(DataFacts { one_server: false, ..served }).most > 1);
    // What is read here and sent there waits for the network.
    assert!(workers(DataFacts { copy_range_is_known_to_fail: true, ..served }).most > 1);
}

#[test]
fn a_server_copies_also_what_is_large_or_has_holes() {
    let drop = DataOptions { cache: CacheUse::Drop, ..DataOptions::default() };
    for options in [DataOptions::default(), drop] {
        let large = DataFacts { local_disk: false, one_server: true, direct_dest: true, ..sized(64 * GIB, 0) };
        for facts in [large, DataFacts { allocated: GIB, ..large }] {
            let steps = choose(&facts, &options);
            assert_eq!(steps.engines, [EngineName::CopyRange, EngineName::ReadWrite]);
            assert_eq!(steps.workers, Workers::ONE);
        }
    }
    let never = DataOptions { reflink: Reflink::Never, ..DataOptions::default() };
    let served = DataFacts { local_disk: false, one_server: true, ..sized(GIB, GIB) };
    assert!(!choose(&served, &never).engines.contains(&EngineName::CopyRange));
}
