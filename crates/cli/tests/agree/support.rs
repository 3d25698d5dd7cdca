//! What the tests share.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_agree::case::Place;
use haul_agree::compare::compare;
use haul_agree::skip::skip;
use haul_agree::stage::{Call, Outcome, Stage};
use haul_testbed::{copy_program, write_script};
use tempfile::TempDir;

/// The copier that is right by definition.
pub const REFERENCE: &str = "/bin/cp";

/// The same for random scenes, where another version can be asked.
pub fn reference() -> PathBuf {
    env::var_os("HAUL_AGREE_REFERENCE").map_or_else(|| PathBuf::from(REFERENCE), PathBuf::from)
}

/// Nothing here takes longer unless it hangs.
pub const LIMIT: Duration = Duration::from_secs(120);

/// A directory for one test, reachable by every user.
pub fn room() -> TempDir {
    let permissions = fs::Permissions::from_mode(0o755);
    tempfile::Builder::new().prefix("haul-agree-").permissions(permissions).tempdir().expect("a temporary directory")
}

/// The program under test.
pub fn haul() -> PathBuf {
    env::var_os("HAUL_UNDER_TEST").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_haul")), PathBuf::from)
}

/// The program under test by the name `cp`, in a directory that every user can reach.
pub fn haul_as_cp(room: &Path) -> PathBuf {
    let link = room.join("cp");
    // A copy, not a link: the build directory may be closed to other users.
    copy_program(haul(), &link);
    link
}

/// The same with an option before all others.
pub fn haul_as_cp_with(room: &Path, option: &str) -> PathBuf {
    script(room, "cp-with", &format!("-a cp PROGRAM {option}"))
}

/// The program under test by its own name, whatever name it is called by.
pub fn haul_by_name(room: &Path) -> PathBuf {
    script(room, "by-name", "PROGRAM")
}

/// A script that is replaced by a copy of the program under test: `how` is what `exec` is given, with PROGRAM for it.
fn script(room: &Path, name: &str, how: &str) -> PathBuf {
    let (script, program) = (room.join(name), room.join("haul-itself"));
    copy_program(haul(), &program);
    let how = how.replace("PROGRAM", &format!("'{}'", program.display()));
    let text = format!("#!/bin/bash\nexec {how} \"$@\"\n");
    write_script(&script, text);
    script
}

/// A number from the environment.
pub fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

/// A sealed-off place: root in a mount namespace where only [`Sealed::room`] can be written.
pub struct Sealed {
    /// A directory on disk, reachable by every user.
    pub room: PathBuf,
    /// The program under test by the name `cp`.
    pub cp: PathBuf,
    /// The program under test by its own name.
    pub haul: PathBuf,
    stage: Stage,
}

/// Whether a test has to be skipped, which is then said.
pub fn lacks_root(name: &str) -> bool {
    let lacks = !rustix::process::geteuid().is_root();
    if lacks {
        skip(name, "needs root for mounts, owners and devices");
    }
    lacks
}

/// Runs a test in a place of its own; without root it is skipped, visibly.
pub fn sealed(name: &str, test: impl FnOnce(&Sealed) + Send) {
    if lacks_root(name) {
        return;
    }
    let room = room();
    let cp = haul_as_cp(room.path());
    let haul = room.path().join("haul");
    copy_program(&cp, &haul);
    // The thread takes the namespace, and with it the mounts, to its grave.
    let result = std::thread::scope(|scope| {
        let run = || {
            let stage = Stage::new(room.path(), false).expect("a stage");
            test(&Sealed { room: room.path().to_owned(), cp: cp.clone(), haul: haul.clone(), stage });
        };
        scope.spawn(run).join()
    });
    // Deep trees are too much for `TempDir`; what is left is seen by the check on the next line.
    let removed = haul_testbed::Command::new("rm").arg("-rf").arg(room.path()).status();
    assert!(removed.is_ok_and(|status| status.success()), "the test's files can be removed");
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

impl Sealed {
    /// Plays a call with `cp` and with haul, each on a scene of its own that `scene` built.
    pub fn both(&self, scene: &dyn Fn(&Path) -> io::Result<()>, call: &Call) -> (Outcome, Outcome) {
        let play = |program: &Path| {
            self.stage.perform(Place::Memory, scene, call, program, LIMIT).expect("the scene can be played")
        };
        (play(Path::new(REFERENCE)), play(&self.cp))
    }

    /// Plays a call with haul alone.
    pub fn play(&self, place: Place, scene: &dyn Fn(&Path) -> io::Result<()>, call: &Call) -> Outcome {
        self.stage.perform(place, scene, call, &self.cp, LIMIT).expect("the scene can be played")
    }

    /// Asserts that haul does what `cp` does and returns what that was.
    #[track_caller]
    pub fn agree(&self, scene: &dyn Fn(&Path) -> io::Result<()>, call: &Call) -> Outcome {
        let (text, tested) = self.differences(scene, call);
        assert!(text.is_empty(), "{text}");
        tested
    }

    /// How haul differs from `cp`, and what it did; the text is empty when they agree.
    pub fn differences(&self, scene: &dyn Fn(&Path) -> io::Result<()>, call: &Call) -> (String, Outcome) {
        let (reference, tested) = self.both(scene, call);
        assert!(!reference.timed_out, "cp itself hangs");
        let differences = compare(call, &reference, &tested);
        let argv: Vec<_> = call.argv.iter().map(|word| String::from_utf8_lossy(word)).collect();
        let lines: String = differences.iter().map(|difference| format!("{difference}\n")).collect();
        let text = if lines.is_empty() { lines } else { format!("cp {}\n{lines}", argv.join(" ")) };
        (text, tested)
    }
}

/// What a run said on standard error.
pub fn stderr(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&outcome.stderr).into_owned()
}

/// Whether a path below the scene exists after the run.
pub fn exists(outcome: &Outcome, path: &str) -> bool {
    outcome.after.contains_key(format!("work/{path}").as_bytes())
}

/// Makes directories and files: a name with a slash at its end is a directory, a file contains its name.
pub fn lay(work: &Path, names: &[&str]) -> io::Result<()> {
    for name in names {
        let path = work.join(name);
        if name.ends_with('/') {
            fs::create_dir_all(path)?;
        } else {
            fs::create_dir_all(path.parent().unwrap_or(work))?;
            fs::write(path, name)?;
        }
    }
    Ok(())
}
