//! What a profile prefers, as far as it may: it changes how bytes are moved, and nothing else.

use haul_sys::inode::Kind;

use crate::engine::{DIRECT_BUFFER, EngineName, Tuning};
use crate::facts::Surroundings;

use super::facts::{DataFacts, WORTH_ASKING, is_cold};
use super::steps::{Ranges, Steps, Workers};
use crate::options::{DataOptions, EngineChoice, Preallocate, Reflink, Sparse};
use crate::profile::{Setting, Source, may_be_preferred};

/// Puts the preferred engine in front of the others, and takes its buffer and depth. They were measured together, so they are
/// taken together, or not at all.
pub(super) fn engine(facts: &DataFacts, options: &DataOptions, steps: &mut Steps) {
    let Some(setting) = setting(facts, options, steps) else { return };
    if let Some(engine) = setting.engine {
        if let Some(why) = objection(engine, facts, options, steps) {
            steps.reasons.push(why);
            return;
        }
        steps.engines.retain(|other| *other != engine);
        // Whether extents are shared is not for a profile to say.
        let at = usize::from(steps.cloning_first().is_some());
        steps.engines.insert(at, engine);
    }
    steps.tuning = tuning(options, Some(&setting));
    steps.profile = Some(setting);
    steps.reasons.push("the profile has measured that this is faster for such files here");
}

/// What the user says of engines, and what is preferred where nothing is said.
pub(super) fn tuning(options: &DataOptions, preferred: Option<&Setting>) -> Tuning {
    // An asynchronous engine is never chosen but by name or by a profile; small files are copied without any engine, if
    // nothing is special about it.
    let may_be_asynchronous = options.engine != EngineChoice::Auto || preferred.is_some();
    Tuning {
        buffer_size: options.buffer_size.or(preferred.and_then(|setting| setting.buffer_size)),
        depth: preferred.and_then(|setting| setting.depth),
        no_preallocation: options.preallocate == Preallocate::Never && may_be_asynchronous,
        patience: None,
    }
}

/// The preferred number of workers, as far as memory, the size of the file and the other files allow.
pub(super) fn workers(facts: &DataFacts, around: &Surroundings, steps: &Steps) -> Workers {
    if steps.profile.is_none() && steps.tuning.buffer_size.is_none() {
        return steps.workers;
    }
    let wanted = match steps.profile.and_then(|setting| setting.workers) {
        Some(count) => {
            let enough = usize::try_from(facts.size / WORTH_ASKING).unwrap_or(usize::MAX).max(1);
            let share = (count / around.at_once.max(1)).max(1).min(enough);
            Workers { start: share, most: share }
        }
        None => steps.workers,
    };
    let Some(memory) = around.memory else { return wanted };
    let buffer = steps.tuning.buffer_size.unwrap_or(DIRECT_BUFFER) as u64;
    let fit = usize::try_from(memory / 8 / buffer.max(1)).unwrap_or(usize::MAX).max(1);
    Workers { start: wanted.start.min(fit), most: wanted.most.min(fit) }
}

/// What is preferred for this file, if it is one of those that profiles are about: whole files on filesystems.
fn setting(facts: &DataFacts, options: &DataOptions, steps: &Steps) -> Option<Setting> {
    let plain = facts.source == Kind::Regular && facts.dest == Kind::Regular && facts.size > 0;
    if !plain || steps.ranges != Ranges::Whole || steps.find_zeros || options.engine != EngineChoice::Auto {
        return None;
    }
    let cached = facts.around.and_then(|around| around.cached);
    let source = cached.map(|_| if is_cold(facts) { Source::Cold } else { Source::Cached });
    facts.preferred.setting(source)
}

/// Why an engine must not be first here, if it must not.
fn objection(engine: EngineName, facts: &DataFacts, options: &DataOptions, steps: &Steps) -> Option<&'static str> {
    let caps = engine.caps();
    let stays = steps.engines.iter().all(|name| name.caps().fills_page_cache());
    if !may_be_preferred(engine) {
        return Some("a profile cannot ask for this engine");
    }
    if caps.may_share_or_keep_holes() && (options.sparse == Sparse::Never || options.reflink == Reflink::Never) {
        return Some("the engine of the profile could share extents or keep holes, which another option forbids");
    }
    if engine == EngineName::CopyRange && facts.copy_range_is_known_to_fail {
        return Some("the engine of the profile is known to refuse");
    }
    match (caps.fills_page_cache(), stays) {
        (true, false) => {
            Some("the engine of the profile would leave the copy in the page cache, where it is not to stay")
        }
        (false, true) => {
            Some("the engine of the profile would not leave the copy in the page cache, where it is to stay")
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "prefer_tests.rs"]
mod tests;
