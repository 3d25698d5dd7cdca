//! `haul-lab probe`: what a filesystem and its device can do, and what haul would choose there.
//!
//! What the kernel reports is asked; what it does not is tried, in a folder that is removed, however this ends.

mod choices;
mod facts;
mod tries;
pub mod view;

use std::path::Path;

use haul_measure::own::Own;
use haul_measure::stop::Stop;
use haul_measure::workspace::Workspace;

use crate::measure::FOLDER;
use crate::results::{Body, Detail, Place, Results, Section};

pub const NAME: &str = "probe";

fn look(stop: &Stop, folder: &Path) -> Result<Vec<Detail>, String> {
    let go_on = || if stop.is_stopped() { Err("interrupted".to_owned()) } else { Ok(()) };
    let detail = |name: &str, rows| Detail::new(name, Body::Facts { rows });
    let mut details = vec![
        detail("filesystem", facts::filesystem(folder)?),
        detail("device", facts::device(folder)?),
        detail("machine", facts::machine()),
    ];
    go_on()?;
    let (works, cannot) = tries::all(folder, stop)?;
    details.push(detail("works", works));
    go_on()?;
    details.push(detail("choices", choices::all(folder, cannot)?));
    Ok(details)
}

/// Everything that is to be said of a directory's storage: details `filesystem`, `device`, `machine`, `works` and `choices`.
pub fn results(own: &Own, stop: &Stop, directory: &Path) -> Result<Results, String> {
    let here = Place::of(directory)?;
    let mut results = Results::begun(vec![NAME.to_owned(), directory.to_string_lossy().into_owned()]);
    let workspace = Workspace::make(own, directory, FOLDER)?;
    let found = look(stop, workspace.path());
    // Whatever was found: nothing may be left.
    workspace.finish()?;
    let details = found?;
    let section = Section { details, complete: true, ..Section::new(NAME, crate::session::DIRECTORY) };
    results.environment.places.insert(crate::session::DIRECTORY.to_owned(), here);
    results.sections.push(section);
    results.complete = true;
    Ok(results)
}
