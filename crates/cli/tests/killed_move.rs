//! A move between filesystems that is killed: each file is whole on one side at least, and the same command goes on.
//!
//! `HAUL_KILLS` is the number of kills, `HAUL_KILLS_SEED` chooses their moments.
#![forbid(unsafe_code)]

mod crash;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use haul_agree::snapshot::{Item, Snapshot};
use haul_testbed::guest::Noise;
use haul_testbed::{Child, Command, TempDir, temp_dirs_apart};
use rustix::process::Signal;

use crash::judge::{self, Verdict};
use crash::moment::{self, Moment};
use crash::{number, report, scene};

/// Where the tree is, and where it goes.
struct Scene {
    dir: TempDir,
    other: TempDir,
}

/// When the move is killed.
#[derive(Debug)]
enum Kill {
    /// At a moment of its copy, mostly.
    Copying(Moment),
    /// Right after this source has gone.
    Removing(PathBuf),
}

impl Scene {
    fn new() -> Option<Scene> {
        let (dir, other) = temp_dirs_apart()?;
        Some(Scene { dir, other })
    }

    fn source(&self) -> PathBuf {
        self.dir.path().join("source")
    }

    fn dest(&self) -> PathBuf {
        self.other.path().join("dest")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
        command.args(["--move", "-T"]).args([self.source(), self.dest()]);
        command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Moves the tree, kills that, and moves what is left. Whether the kill came before the end, and whether sources were being
    /// removed then.
    fn play(&self, kill: &Kill) -> Result<(bool, bool), String> {
        scene::lay_new(&self.source());
        let new = judge::look(&self.source()).expect("the source can be read");
        let played = self.play_on(kill, &new);
        for side in [self.source(), self.dest()] {
            fs::remove_dir_all(side).ok();
        }
        played
    }

    fn play_on(&self, kill: &Kill, new: &Snapshot) -> Result<(bool, bool), String> {
        let mut child = self.command().spawn().expect("haul can be run");
        match kill {
            Kill::Copying(moment) => moment.wait(&mut child, &self.dest()),
            Kill::Removing(name) => wait_until_gone(&mut child, &self.source().join(name)),
        }
        child.kill().expect("the child is ours");
        let status = moment::end(&mut child);
        let killed = status.signal() == Some(Signal::KILL.as_raw());
        if !killed && !status.success() {
            return Err(format!("it failed by itself: {status}"));
        }
        let [source, dest] = [self.source(), self.dest()].map(|side| judge::look(&side).unwrap_or_default());
        let files = || new.iter().filter(|(_, item)| item.kind != 'd');
        let lost: Vec<String> = files()
            .filter(|(name, item)| !is_whole(&source, name, item) && !is_whole(&dest, name, item))
            .map(|(name, _)| String::from_utf8_lossy(name).into_owned())
            .collect();
        if !lost.is_empty() {
            return Err(format!("whole on neither side: {lost:?}"));
        }
        let gone = files().filter(|(name, _)| !source.contains_key(*name)).count();
        let is_removing = gone > 0 && gone < files().count();
        if source.keys().any(|name| !new.contains_key(name)) {
            return Err("something new is in the source".into());
        }
        if !source.is_empty() || self.source().exists() {
            let status = self.command().status().expect("haul can be run");
            if !status.success() {
                return Err(format!("the second run fails: {status}"));
            }
        }
        if self.source().exists() {
            return Err("the second run has left something of the source".into());
        }
        let dest = judge::look(&self.dest()).expect("the copy can be read");
        match Verdict::new(&dest, &Snapshot::new(), new) {
            verdict if !verdict.absent.is_empty() => Err(format!("not moved: {:?}", verdict.absent)),
            verdict => verdict.against_old_or_new().map_or(Ok((killed, is_removing)), Err),
        }
    }
}

/// Whether this stands there with all of its contents.
fn is_whole(found: &Snapshot, name: &[u8], item: &Item) -> bool {
    let contents = |item: &Item| (item.kind, item.size, item.device, item.contents.clone());
    found.get(name).is_some_and(|found| contents(found) == contents(item))
}

/// Waits for the end of the process, too.
fn wait_until_gone(child: &mut Child, path: &Path) {
    while path.symlink_metadata().is_ok() && child.try_wait().expect("the child is ours").is_none() {
        std::thread::yield_now();
    }
}

#[test]
fn a_killed_move_leaves_each_file_whole_on_one_side_and_can_be_repeated() {
    let Some(stage) = Scene::new() else { return };
    let (kills, seed) = (number("HAUL_KILLS", 30), number("HAUL_KILLS_SEED", 1));
    let length = moment::length(|run| {
        scene::lay_new(&stage.source());
        assert!(run(&mut stage.command()).success(), "nobody disturbs it");
        fs::remove_dir_all(stage.dest()).expect("the copy can be removed");
    });
    let (mut before_end, mut removing, mut broken) = (0, 0, Vec::new());
    // Some must meet the removal, which is short: so they go on until one has.
    let is_enough = |kill, removing| kill >= kills && (removing > 0 || kills < 10 || kill >= kills + 200);
    for kill in 0.. {
        if is_enough(kill, removing) {
            break;
        }
        let mut noise = Noise::new((seed << 32) + kill + 1);
        noise.number();
        let when = if kill >= kills || noise.below(2) == 0 {
            let mut names = scene::new_names();
            let name = usize::try_from(noise.below(names.len() as u64)).expect("it is small");
            Kill::Removing(names.swap_remove(name))
        } else {
            Kill::Copying(Moment::random(&mut noise, length))
        };
        match stage.play(&when) {
            Ok((killed, is_removing)) => {
                before_end += u64::from(killed);
                removing += u64::from(killed && is_removing);
            }
            Err(objection) => broken.push(format!("kill {kill} of seed {seed}, {when:?}: {objection}")),
        }
    }
    report(&format!(
        "kills: haul --move: {kills} kills, {before_end} before the end, {removing} while sources were removed; {} kills \
         broke a promise",
        broken.len()
    ));
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(before_end > 0 || kills < 10, "no move was interrupted");
    assert!(removing > 0 || kills < 10, "no kill met the removal");
}
