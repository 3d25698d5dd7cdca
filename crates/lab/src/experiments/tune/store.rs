//! The profile's file: read before anything is measured, and written at the end.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use haul_io::profile::{self, PlaceEntry, Profile, Searched};
use haul_measure::words::{self, quoted};

use crate::results::replace;

/// The user's own profile, by the values of XDG_CONFIG_HOME and HOME.
pub fn usual(config: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |dir: &PathBuf| dir.is_absolute();
    let config = config.filter(absolute).or_else(|| home.filter(absolute).map(|home| home.join(".config")));
    config.map(|config| config.join("haul/profile"))
}

/// What is there; nothing if there is no file.
///
/// # Errors
/// If it cannot be read, or is no profile of this version: then it is not written over.
pub fn load(path: &Path) -> Result<Profile, String> {
    let name = quoted(path);
    match fs::read_to_string(path) {
        Ok(text) => profile::parse(&text, &path.to_string_lossy())
            .map_err(|why| format!("cannot add to the profile {name}: {why}")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Profile::default()),
        Err(error) => Err(format!("cannot read the profile {name}: {}", words::of(&error))),
    }
}

/// Puts the entry of a place into the file, beside those of other places, and of files that were not searched for, that are there
/// by now; says whether that changes what is known of the place. At every instant the file is the old or the new one.
pub fn add(path: &Path, entry: PlaceEntry, searched: &[Searched]) -> Result<bool, String> {
    let mut profile = load(path)?;
    let place = entry.place.clone();
    let known = |profile: &Profile| profile.of(&place).map_or_else(Vec::new, |entry| entry.entries.clone());
    let before = known(&profile);
    profile.replace(entry, searched);
    if known(&profile) == before {
        return Ok(false);
    }
    let failed = words::cannot("write the profile", path);
    // Nobody else may write to it, whatever the umask: haul would not obey it.
    let folder = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(failed)?;
    replace(path, profile::to_text(&profile).as_bytes()).map_err(failed)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use haul_copy::plan::EngineName;
    use haul_io::profile::{Entry, Measured, Place, Setting, SizeClass};

    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn found(id: &str, engine: EngineName) -> PlaceEntry {
        let setting = Setting { engine: Some(engine), ..Setting::default() };
        let entry = Entry { class: SizeClass::Small, source: None, setting, jobs: None, measured: Measured::default() };
        let place = Place { filesystem: "x".to_owned(), id: id.to_owned(), device: String::new() };
        PlaceEntry { directory: "/d".to_owned(), place, entries: vec![entry], ..PlaceEntry::default() }
    }

    #[test]
    fn what_is_known_of_other_places_stays_and_the_file_is_the_users_alone() {
        let dir = haul_testbed::temp_dir();
        let path = dir.path().join("new/profile");
        let searched = [(SizeClass::Small, None)];
        assert!(add(&path, found("a", EngineName::Mapped), &searched).unwrap());
        assert!(add(&path, found("b", EngineName::Splice), &searched).unwrap());
        assert!(add(&path, found("a", EngineName::Direct), &searched).unwrap());
        assert!(!add(&path, found("a", EngineName::Direct), &searched).unwrap());
        let profile = load(&path).unwrap();
        let ids: Vec<&str> = profile.places.iter().map(|place| place.place.id.as_str()).collect();
        assert_eq!(ids, ["b", "a"]);
        assert_eq!(profile.places[1].entries[0].setting.engine, Some(EngineName::Direct));
        let none = |id| PlaceEntry { entries: Vec::new(), ..found(id, EngineName::Mapped) };
        assert!(!add(&path, none("b"), &[(SizeClass::Large, None)]).unwrap());
        assert!(!add(&path, none("c"), &searched).unwrap());
        assert_eq!(load(&path).unwrap().places.len(), 2, "what was not searched for stays");
        assert!(add(&path, none("b"), &searched).unwrap());
        assert_eq!(load(&path).unwrap().places.len(), 1, "what does not win any more is forgotten");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o022, 0);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn what_is_no_profile_is_not_written_over() {
        let dir = haul_testbed::temp_dir();
        let path = dir.path().join("mine");
        fs::write(&path, "precious").unwrap();
        assert!(add(&path, found("a", EngineName::Mapped), &[]).unwrap_err().contains("cannot add to the profile"));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn the_usual_place_is_where_haul_looks() {
        let path = |config: &str, home: &str| {
            let given = |text: &str| Some(PathBuf::from(text)).filter(|path| !path.as_os_str().is_empty());
            usual(given(config), given(home)).map(|path| path.to_string_lossy().into_owned())
        };
        assert_eq!(path("/c", "/h").as_deref(), Some("/c/haul/profile"));
        assert_eq!(path("c", "/h").as_deref(), Some("/h/.config/haul/profile"));
        assert_eq!(path("", ""), None);
    }
}
