//! Which settings are tried for files of a size, the likeliest first.

use haul_copy::plan::EngineName;
use haul_io::profile::{Setting, SizeClass};

/// A setting, and how many files are copied at the same time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Candidate {
    /// How the bytes of a file are moved.
    pub setting: Setting,
    /// Files at the same time.
    pub jobs: Option<usize>,
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// All for a class, without the defaults. `past_cache`: haul sends such files to the device here, so only engines that do are
/// candidates; otherwise only those that leave the copy in the page cache are, since a profile must not change that.
pub fn candidates(class: SizeClass, past_cache: bool) -> Vec<Candidate> {
    let mut all = match (class, past_cache) {
        (SizeClass::Tiny, _) => tiny(),
        (SizeClass::Small, _) => small(),
        (_, false) => several_workers(&buffered()),
        (_, true) => several_workers(&past()),
    };
    all.retain(|candidate| *candidate != Candidate::default());
    all
}

/// One read and one write move such a file: what counts is how many are on their way.
fn tiny() -> Vec<Candidate> {
    let jobs = |jobs| Candidate { jobs: Some(jobs), ..Candidate::default() };
    let mut all: Vec<Candidate> = [8, 2, 16, 4, 1, 32, 64].map(jobs).into();
    let in_kernel = of(EngineName::CopyRange, None, None);
    all.extend([None, Some(4), Some(16)].map(|jobs| Candidate { setting: in_kernel, jobs }));
    all
}

fn small() -> Vec<Candidate> {
    let engines = [
        Setting::default(),
        of(EngineName::ReadWrite, Some(MIB), None),
        of(EngineName::CopyRange, None, None),
        of(EngineName::ReadWrite, Some(256 * KIB), None),
        of(EngineName::Mapped, Some(MIB), None),
    ];
    let with = |jobs| move |setting| Candidate { setting, jobs };
    [None, Some(4), Some(1), Some(16)].into_iter().flat_map(|jobs| engines.map(with(jobs))).collect()
}

fn buffered() -> Vec<Setting> {
    vec![
        Setting::default(),
        of(EngineName::ReadWrite, Some(MIB), None),
        of(EngineName::CopyRange, None, None),
        of(EngineName::ReadWrite, Some(256 * KIB), None),
        of(EngineName::Mapped, Some(8 * MIB), None),
        of(EngineName::Splice, Some(MIB), None),
        of(EngineName::ReadWrite, Some(4 * MIB), None),
    ]
}

fn past() -> Vec<Setting> {
    vec![
        Setting::default(),
        of(EngineName::Direct, Some(4 * MIB), None),
        of(EngineName::IoUring, Some(MIB), Some(16)),
        of(EngineName::MappedDirect, None, None),
        of(EngineName::Direct, Some(MIB), None),
        of(EngineName::Dontcache, Some(4 * MIB), None),
        of(EngineName::LinuxAio, Some(MIB), Some(16)),
        of(EngineName::IoUring, Some(4 * MIB), Some(4)),
        of(EngineName::Direct, Some(16 * MIB), None),
    ]
}

fn several_workers(settings: &[Setting]) -> Vec<Candidate> {
    let queued = |engine: Option<EngineName>| engine.is_some_and(|engine| engine.caps().queued);
    let mut all = Vec::new();
    for workers in [None, Some(1), Some(4)] {
        // Those with a queue of their own are several by themselves.
        let sensible = settings.iter().filter(|setting| workers.is_none() || !queued(setting.engine));
        all.extend(sensible.map(|setting| Setting { workers, ..*setting }));
    }
    all.into_iter().map(|setting| Candidate { setting, jobs: None }).collect()
}

fn of(engine: EngineName, buffer_size: Option<usize>, depth: Option<usize>) -> Setting {
    Setting { engine: Some(engine), buffer_size, depth, workers: None }
}

impl std::fmt::Display for Candidate {
    /// `direct, 4 MiB, 2 workers`, `4 files at a time`; `defaults` if it is those.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut words = vec![self.setting.to_string()];
        words.extend(self.jobs.map(|jobs| format!("{jobs} file{} at a time", if jobs == 1 { "" } else { "s" })));
        words.retain(|words| !words.is_empty());
        f.write_str(if words.is_empty() { "defaults" } else { "" })?;
        f.write_str(&words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use haul_io::profile::may_be_preferred;

    use super::*;

    #[test]
    fn candidates_are_different_are_not_the_defaults_and_are_allowed_in_profiles() {
        for class in SizeClass::ALL {
            for past_cache in [false, true] {
                let all = candidates(class, past_cache);
                let names: std::collections::BTreeSet<String> = all.iter().map(ToString::to_string).collect();
                assert_eq!(names.len(), all.len(), "{names:?}");
                assert!(!names.contains("defaults") && all.len() >= 5);
                assert!(all.iter().filter_map(|one| one.setting.engine).all(may_be_preferred));
                assert!(all.iter().all(|one| class >= SizeClass::Medium || one.setting.workers.is_none()));
                assert!(all.iter().all(|one| class < SizeClass::Medium || one.jobs.is_none()));
            }
        }
    }
}
