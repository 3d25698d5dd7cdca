//! Profiles: which are read, and which are not obeyed.

use std::env;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_io::profile::{self, LONGEST, Profile};
use haul_sys::rustix::process::geteuid;

use crate::files::{open_regular, parent_of};
use crate::persona::Persona;
use crate::report::Report;
use crate::run_options::Profiles;
use crate::words;

/// For all users of the machine.
const OF_SYSTEM: &str = "/etc/haul/profile";

/// Reads what is wanted. Scripts that call it as `cp` expect a command that does the same for every user, so that reads only
/// the profile that it names.
///
/// # Errors
/// The message, if a profile that was named cannot be obeyed.
pub fn load(wanted: &Profiles, persona: Persona, report: &Report) -> Result<Option<Arc<Profile>>, Vec<u8>> {
    let quoter = report.quoter();
    match wanted {
        Profiles::Named(path) => match read(path, geteuid().is_root()) {
            Ok(profile) => Ok(Some(Arc::new(profile))),
            Err(unusable) => Err(words::unusable("cannot use the profile", path, &unusable.why, quoter)),
        },
        Profiles::Usual if persona == Persona::Haul => {
            let mut whole = Profile::default();
            for path in usual(env::var_os("XDG_CONFIG_HOME"), env::var_os("HOME")) {
                match read(&path, true) {
                    Ok(profile) => whole = whole.before(profile),
                    Err(unusable) if unusable.is_missing => {}
                    Err(unusable) => {
                        let what = "warning: ignoring the profile";
                        // It makes no other copy.
                        report.advise(&words::unusable(what, &path, &unusable.why, quoter));
                    }
                }
            }
            Ok(Some(whole).filter(|whole| !whole.places.is_empty()).map(Arc::new))
        }
        Profiles::Usual | Profiles::None => Ok(None),
    }
}

/// Where profiles are looked for. A relative XDG_CONFIG_HOME counts as none, as its specification demands.
fn usual(config: Option<OsString>, home: Option<OsString>) -> Vec<PathBuf> {
    let absolute = |dir: Option<OsString>| dir.map(PathBuf::from).filter(|dir| dir.is_absolute());
    let config = absolute(config).or_else(|| absolute(home).map(|home| home.join(".config")));
    config.map(|config| config.join("haul/profile")).into_iter().chain([PathBuf::from(OF_SYSTEM)]).collect()
}

/// Why a profile is not obeyed.
#[derive(Debug)]
struct Unusable {
    why: String,
    is_missing: bool,
}

impl From<String> for Unusable {
    fn from(why: String) -> Unusable {
        Unusable { why, is_missing: false }
    }
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Unusable {
        words::io_error(&error).into()
    }
}

/// Reads one. `guarded`: not if others could have written it.
fn read(path: &Path, guarded: bool) -> Result<Profile, Unusable> {
    let file = open_regular(path).map_err(|error| {
        // With the home directory of somebody else, a user may not even look.
        use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
        let is_missing = matches!(error.kind(), NotFound | NotADirectory | PermissionDenied);
        Unusable { is_missing, ..error.into() }
    })?;
    if guarded && let Some(why) = danger(&file.metadata()?, &fs::metadata(parent_of(path))?, geteuid().as_raw()) {
        return Err(why.to_owned().into());
    }
    let mut text = Vec::new();
    // One byte more than a profile can have, at most.
    file.take(LONGEST as u64 + 1).read_to_end(&mut text)?;
    let text = String::from_utf8(text).map_err(|_| "it is not UTF-8".to_owned())?;
    Ok(profile::parse(&text, &path.to_string_lossy())?)
}

/// Who but `user` and root could have written a file in a directory. A directory with the sticky bit lets others make files,
/// but not replace these.
fn danger(file: &Metadata, dir: &Metadata, user: u32) -> Option<&'static str> {
    let foreign = |meta: &Metadata| meta.uid() != 0 && meta.uid() != user;
    let open_to_others = |meta: &Metadata| meta.mode() & 0o022 != 0;
    if foreign(file) {
        Some("it belongs to neither root nor this user")
    } else if open_to_others(file) {
        Some("others may write to it")
    } else if foreign(dir) {
        Some("its directory belongs to neither root nor this user")
    } else if open_to_others(dir) && dir.mode() & 0o1000 == 0 {
        Some("others may write to its directory")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_users_own_profile_comes_before_the_systems() {
        let usual = |config: &str, home: &str| {
            let given = |text: &str| Some(OsString::from(text)).filter(|text| !text.is_empty());
            super::usual(given(config), given(home))
        };
        let system = PathBuf::from(OF_SYSTEM);
        assert_eq!(usual("/x", "/home/u"), [PathBuf::from("/x/haul/profile"), system.clone()]);
        assert_eq!(usual("", "/home/u"), [PathBuf::from("/home/u/.config/haul/profile"), system.clone()]);
        assert_eq!(usual("relative", "/h"), [PathBuf::from("/h/.config/haul/profile"), system.clone()]);
        assert_eq!(usual("", ""), [system]);
    }

    #[test]
    fn what_others_could_have_written_is_not_obeyed() {
        let dir = haul_testbed::temp_dir();
        let path = dir.path().join("profile");
        fs::write(&path, profile::to_text(&Profile::default())).expect("it can be written");
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
        for (file, place, fine) in [
            (0o644, 0o755, true),
            (0o600, 0o700, true),
            (0o600, 0o1777, true),
            (0o664, 0o755, false),
            (0o646, 0o755, false),
            (0o644, 0o775, false),
            (0o644, 0o757, false),
        ] {
            mode(&path, file);
            mode(dir.path(), place);
            assert_eq!(read(&path, true).is_ok(), fine, "{file:o} in {place:o}");
            assert!(read(&path, false).is_ok());
        }
        mode(&path, 0o644);
        mode(dir.path(), 0o755);
        let (file, place) = (fs::metadata(&path).expect("it is there"), fs::metadata(dir.path()).expect("it is there"));
        let stranger = file.uid().wrapping_add(1);
        assert_eq!(danger(&file, &place, stranger).is_none(), file.uid() == 0, "the owner counts, and root");
    }

    #[test]
    fn only_regular_files_are_read_and_nothing_waits_for_a_fifo() {
        let dir = haul_testbed::temp_dir();
        let fifo = dir.path().join("fifo");
        let made = haul_testbed::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo can be run");
        assert!(made.success());
        for path in [&fifo, Path::new("/dev/zero"), dir.path()] {
            assert!(read(path, false).is_err_and(|unusable| !unusable.is_missing), "{path:?}");
        }
    }
}
