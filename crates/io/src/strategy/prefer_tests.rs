//! What a profile may change of the steps, and what not.

use crate::facts::Filesystem;

use super::*;
use crate::options::CacheUse;
use crate::profile::{Preference, may_be_preferred};
use crate::strategy::{Demands, choose};

const GIB: u64 = 1 << 30;

const AROUND: Surroundings = Surroundings {
    cached: Some(GIB),
    memory: Some(16 * GIB),
    left_in_cache: 0,
    same_device: Some(true),
    rotational: None,
    within_one: true,
    cores: 2,
    at_once: 1,
};

const FILE: DataFacts = DataFacts {
    source: Kind::Regular,
    dest: Kind::Regular,
    size: GIB,
    allocated: GIB,
    seekable: true,
    pseudo_file: false,
    read_elsewhere: false,
    clone_is_known_to_fail: true,
    copy_range_is_known_to_fail: false,
    dest_block: 4096,
    direct_source: true,
    direct_dest: true,
    local_disk: true,
    one_server: false,
    dest_on: Filesystem::Other,
    replaces: false,
    demands: Demands::NONE,
    around: Some(AROUND),
    preferred: Preference { cached: None, cold: None },
};

fn wish(engine: EngineName) -> Setting {
    Setting { engine: Some(engine), buffer_size: Some(1 << 20), depth: Some(4), workers: Some(2) }
}

fn preferring(setting: Setting, facts: DataFacts) -> DataFacts {
    DataFacts { preferred: Preference { cached: Some(setting), cold: Some(setting) }, ..facts }
}

#[test]
fn a_preferred_engine_goes_first_with_its_buffer_depth_and_workers_and_may_be_refused() {
    let facts = preferring(wish(EngineName::Splice), FILE);
    let steps = choose(&facts, &DataOptions::default());
    assert_eq!(steps.engines, [EngineName::Splice, EngineName::CopyRange, EngineName::ReadWrite]);
    assert_eq!(steps.tuning, Tuning { buffer_size: Some(1 << 20), depth: Some(4), ..Tuning::default() });
    assert_eq!((steps.workers, steps.strict), (Workers { start: 2, most: 2 }, false));
    assert_eq!(steps.profile, facts.preferred.cold);
}

#[test]
fn sharing_extents_stays_first_or_forbidden_as_without_a_profile() {
    for engine in EngineName::ALL.into_iter().filter(|engine| may_be_preferred(*engine)) {
        let facts = preferring(wish(engine), DataFacts { clone_is_known_to_fail: false, ..FILE });
        for reflink in [Reflink::Auto, Reflink::Always, Reflink::Never] {
            let options = DataOptions { reflink, ..DataOptions::default() };
            let (with, without) =
                (choose(&facts, &options), choose(&DataFacts { preferred: FILE.preferred, ..facts }, &options));
            let clones = |steps: &Steps| steps.engines.iter().position(|name| *name == EngineName::Clone);
            assert_eq!((clones(&with), with.strict), (clones(&without), without.strict), "{engine} {reflink:?}");
            let kernel = with.engines.contains(&EngineName::CopyRange);
            assert!(reflink == Reflink::Auto || !kernel, "{engine} {reflink:?}");
        }
    }
}

#[test]
fn where_the_copy_stays_is_not_for_a_profile_to_say() {
    let past = [
        EngineName::Direct,
        EngineName::MappedDirect,
        EngineName::IoUring,
        EngineName::LinuxAio,
        EngineName::PosixAio,
        EngineName::Dontcache,
    ];
    for engine in EngineName::ALL.into_iter().filter(|engine| may_be_preferred(*engine)) {
        for (cache, to_device) in [(CacheUse::Keep, false), (CacheUse::Auto, false), (CacheUse::Drop, true)] {
            let steps = choose(&preferring(wish(engine), FILE), &DataOptions { cache, ..DataOptions::default() });
            let first = steps.engines[0];
            assert_eq!(first == engine, past.contains(&engine) == to_device, "{engine} {cache:?}: {:?}", steps.engines);
            assert_eq!(past.contains(&first), to_device, "{engine} {cache:?}");
            assert_eq!(steps.profile.is_some(), first == engine);
        }
    }
}

#[test]
fn options_and_the_kind_of_the_file_come_first() {
    let facts = preferring(wish(EngineName::Mapped), FILE);
    let untouched = |facts: DataFacts, options: &DataOptions| {
        let without = choose(&DataFacts { preferred: FILE.preferred, ..facts }, options);
        assert_eq!(choose(&facts, options), without, "{facts:?}");
    };
    let forced = DataOptions { engine: EngineChoice::Only(EngineName::ReadWrite), ..DataOptions::default() };
    untouched(facts, &forced);
    untouched(facts, &DataOptions { sparse: Sparse::Always, ..DataOptions::default() });
    untouched(facts, &DataOptions { reflink: Reflink::Always, ..DataOptions::default() });
    untouched(DataFacts { allocated: 4096, ..facts }, &DataOptions::default());
    untouched(DataFacts { dest: Kind::BlockDevice, ..facts }, &DataOptions::default());
    untouched(DataFacts { source: Kind::Fifo, seekable: false, ..facts }, &DataOptions::default());
    untouched(DataFacts { size: 0, allocated: 0, ..facts }, &DataOptions::default());
    let sized = DataOptions { buffer_size: Some(4096), ..DataOptions::default() };
    assert_eq!(choose(&facts, &sized).tuning.buffer_size, Some(4096), "the option, not the profile");
    let never = DataOptions { sparse: Sparse::Never, ..DataOptions::default() };
    assert_eq!(choose(&preferring(wish(EngineName::CopyRange), FILE), &never).profile, None);
}

#[test]
fn what_is_preferred_of_cached_files_is_not_done_to_others_nor_without_knowing() {
    let preferred = Preference { cached: Some(wish(EngineName::Mapped)), cold: None };
    let with = |cached| DataFacts { preferred, around: Some(Surroundings { cached, ..AROUND }), ..FILE };
    let decided = |facts: &DataFacts| choose(facts, &DataOptions::default()).profile.is_some();
    assert!(decided(&with(Some(GIB))) && !decided(&with(Some(0))) && !decided(&with(None)));
    assert!(!decided(&DataFacts { around: None, ..with(None) }));
    assert!(decided(&preferring(wish(EngineName::Mapped), DataFacts { around: None, ..FILE })));
}

#[test]
fn memory_and_other_files_bound_what_a_profile_may_take() {
    let setting = Setting { buffer_size: Some(64 << 20), workers: Some(16), ..wish(EngineName::ReadWrite) };
    let most = |memory, at_once| {
        let around = Some(Surroundings { memory: Some(memory), at_once, ..AROUND });
        let facts = preferring(setting, DataFacts { size: 64 << 20, allocated: 64 << 20, around, ..FILE });
        choose(&facts, &DataOptions { cache: CacheUse::Keep, ..DataOptions::default() }).workers.most
    };
    assert_eq!([most(16 * GIB, 1), most(GIB, 1), most(16 * GIB, 4), most(0, 1)], [16, 2, 4, 1]);
}
