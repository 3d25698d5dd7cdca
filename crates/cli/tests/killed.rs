//! A copy that is killed, without a chance to tidy up: what it leaves behind, and what the next one makes of that.
//!
//! `HAUL_KILLS` is the number of kills for each promise, `HAUL_KILLS_SEED` chooses their moments.
#![forbid(unsafe_code)]

mod crash;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use haul_agree::snapshot::Snapshot;
use haul_testbed::guest::Noise;
use haul_testbed::{Command, temp_dir};
use rustix::process::Signal;

use crash::judge::{self, Verdict};
use crash::moment::{self, Moment};
use crash::{haul_knows, number, report, scene};

/// A way to copy, and what a kill may do to it. Of each it is promised that the source stays as it is, and that the same
/// command brings the copy to its end.
#[derive(Debug, Clone, Copy)]
struct Way {
    options: &'static [&'static str],
    /// Each name holds the old contents or the whole new ones.
    atomic: bool,
    /// The next run finds what the killed one had under temporary names, and nothing of it stays.
    tidies: bool,
    /// What only the copy has goes.
    deletes: bool,
}

const PLAIN: Way = Way { options: &[], atomic: false, tidies: true, deletes: false };
const ATOMIC: Way = Way { options: &["--atomic"], atomic: true, tidies: false, deletes: false };
const FILE: Way = Way { options: &["--durable=file"], atomic: true, tidies: false, deletes: false };
const RESUME: Way = Way { options: &["--resume"], atomic: true, tidies: true, deletes: false };
const RESUME_VERIFIED: Way =
    Way { options: &["--resume", "--verify", "--jobs=4"], atomic: true, tidies: true, deletes: false };
const DELETE: Way = Way { options: &["--delete"], atomic: false, tidies: true, deletes: true };
const DELETE_ATOMIC: Way = Way { options: &["--delete", "--atomic"], atomic: true, tidies: true, deletes: true };
const DELETE_RESUME: Way = Way { options: &["--delete", "--resume"], atomic: true, tidies: true, deletes: true };

/// The source and what is known of it.
struct Scene {
    dir: haul_testbed::TempDir,
    new: Snapshot,
}

impl Scene {
    fn new() -> Scene {
        let dir = temp_dir();
        scene::lay_new(&dir.path().join("source"));
        let new = judge::look(&dir.path().join("source")).expect("the source can be read");
        Scene { dir, new }
    }

    /// Copies over an older tree, kills the copier, and looks at what is there then and after the same command again. Gives
    /// whether the kill came before the end, and what it left.
    fn play(&self, way: &Way, moment: &Moment) -> Result<(bool, Verdict), String> {
        self.lay_dest(way);
        let result = self.play_on(&self.dest(), way, moment);
        fs::remove_dir_all(self.dest()).expect("the copy can be removed");
        result
    }

    fn lay_dest(&self, way: &Way) {
        scene::lay_old(&self.dest());
        if way.deletes {
            scene::lay_gone(&self.dest());
        }
    }

    fn dest(&self) -> PathBuf {
        self.dir.path().join("dest")
    }

    fn play_on(&self, dest: &Path, way: &Way, moment: &Moment) -> Result<(bool, Verdict), String> {
        let before = judge::look(dest).expect("the older tree can be read");
        let only_old = judge::untouched(&before, &self.new);
        let untouched = if way.deletes { 0 } else { only_old };
        let look = || Verdict::new(&judge::look(dest).expect("the copy can be read"), &before, &self.new);
        let mut child = self.command(way).spawn().expect("haul can be run");
        moment.wait(&mut child, dest);
        child.kill().expect("the child is ours");
        let status = moment::end(&mut child);
        let killed = status.signal() == Some(Signal::KILL.as_raw());
        if !killed && !status.success() {
            return Err(format!("it failed by itself: {status}"));
        }
        let source = judge::look(&self.dir.path().join("source")).expect("the source can be read");
        if !judge::unchanged(&source, &self.new) {
            return Err("the source is not what it was".into());
        }
        let left = look();
        let objection = match killed {
            true if way.deletes => left.against_deletion(only_old, way.atomic),
            true if way.atomic => left.against_old_or_new(),
            true => None,
            false => left.against_complete(untouched, true),
        };
        if let Some(objection) = objection {
            return Err(format!("after the {}\n{objection}", if killed { "kill" } else { "end" }));
        }
        let status = self.command(way).status().expect("haul can be run");
        match look().against_complete(untouched, way.tidies) {
            Some(objection) => Err(format!("after the second run, {status}\n{objection}")),
            None if !status.success() => Err(format!("the second run fails: {status}")),
            None => Ok((killed, left)),
        }
    }

    fn command(&self, way: &Way) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
        command.args(way.options).args(["-aT", "source", "dest"]).current_dir(self.dir.path());
        command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

/// Kills it so often, at random moments.
fn survives(way: &Way) {
    let (kills, seed) = (number("HAUL_KILLS", 30), number("HAUL_KILLS_SEED", 1));
    let scene = Scene::new();
    let length = moment::length(|run| {
        scene.lay_dest(way);
        assert!(run(&mut scene.command(way)).success(), "nobody disturbs it");
        fs::remove_dir_all(scene.dest()).expect("the copy can be removed");
    });
    let (mut before_end, mut temporary, mut new, mut partial, mut gone) = (0, 0, 0, 0, 0);
    let mut broken = Vec::new();
    for kill in 0..kills {
        let mut noise = Noise::new((seed << 32) + kill + 1);
        noise.number();
        let moment = Moment::random(&mut noise, length);
        match scene.play(way, &moment) {
            Ok((killed, left)) => {
                before_end += u64::from(killed);
                temporary += left.temporary.len();
                new += left.new;
                partial += left.torn.len();
                gone += left.gone.len();
            }
            Err(objection) => broken.push(format!("kill {kill} of seed {seed}, {moment:?}: {objection}")),
        }
    }
    report(&format!(
        "kills: haul {}: {kills} kills, {before_end} before the end; names: {new} new, {partial} partial, {temporary} \
         temporary, {gone} gone; {} kills broke a promise",
        way.options.join(" "),
        broken.len()
    ));
    assert!(broken.is_empty(), "haul {:?}:\n{}", way.options, broken.join("\n"));
    assert!(before_end > 0 || kills < 10, "no copy was interrupted");
}

#[test]
fn a_killed_copy_leaves_the_source_alone_and_can_be_repeated() {
    survives(&PLAIN);
}

#[test]
fn with_atomic_each_name_holds_the_old_or_the_whole_new_file_whenever_haul_is_killed() {
    if haul_knows("--atomic") {
        survives(&ATOMIC);
    }
}

#[test]
fn with_durable_file_each_name_holds_the_old_or_the_whole_new_file_whenever_haul_is_killed() {
    if haul_knows("--durable") {
        survives(&FILE);
    }
}

#[test]
fn with_resume_the_same_command_finishes_a_copy_that_was_killed_and_leaves_nothing_else() {
    survives(&RESUME);
    survives(&RESUME_VERIFIED);
}

#[test]
fn a_killed_deletion_leaves_what_the_source_has_and_can_be_repeated() {
    survives(&DELETE);
}

#[test]
fn with_atomic_nothing_is_deleted_before_everything_is_copied_whenever_haul_is_killed() {
    survives(&DELETE_ATOMIC);
    survives(&DELETE_RESUME);
}
