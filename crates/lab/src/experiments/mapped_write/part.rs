//! One part of the experiment, in a process of its own: a store to a mapped page for which the filesystem has no room, or
//! which somebody has cut off, ends the process by SIGBUS. The parent makes an error message of that (see [`super::child`]).
//!
//! The child gets a [`Task`] and says [`Message`]s, one line of JSON each. It removes its files at its end, and it ends early
//! when its standard input does: then its parent is gone, or has enough.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::scene::{Failed, Scene, cannot, empty};
use super::{grid, msync, stall, under};
use crate::measure::end_of_input;

/// The task of haul-lab that is a part, in a process of its own.
pub const NAME: &str = "mapped-write-part";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    Msync(msync::Settings),
    Grid(grid::Settings),
    Under(under::Settings),
    Stall(stall::Settings),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Msync(msync::Measured),
    Grid(grid::Measured),
    Under(under::Measured),
    Stall(stall::Measured),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// So much of it is done, from 0 to 1.
    Progress(f64),
    Done(Box<Answer>),
    Failed(String),
    Stopped,
}

fn work(task: &Task, place: &Path, scene: &Scene) -> Result<Answer, Failed> {
    match task {
        Task::Msync(settings) => msync::run(settings, place, scene).map(Answer::Msync),
        Task::Grid(settings) => grid::run(settings, place, scene).map(Answer::Grid),
        Task::Under(settings) => under::run(settings, place, scene).map(Answer::Under),
        Task::Stall(settings) => stall::run(settings, place, scene).map(Answer::Stall),
    }
}

/// Does a task in this process, and removes its files below `place`. It says what it says to `say`, and its end last.
pub fn play(task: &Task, place: &Path, stop: Arc<AtomicBool>, say: impl Fn(&Message) + Clone + 'static) {
    let tell = say.clone();
    let worked = work(task, place, &Scene::new(stop, move |done| tell(&Message::Progress(done))));
    let removed = empty(place).map_err(cannot("remove the files below", place));
    say(&match worked.and_then(|answer| removed.map(|()| answer)) {
        Ok(answer) => Message::Done(Box::new(answer)),
        Err(Failed::Stopped) => Message::Stopped,
        Err(Failed::Why(why)) => Message::Failed(why),
    });
}

/// The process of a part, `haul-lab mapped-write-part TASK PLACE`.
pub fn main(mut arguments: impl Iterator<Item = std::ffi::OsString>) -> Result<(), String> {
    let (task, place) = (arguments.next(), arguments.next());
    let task = task.as_ref().and_then(|task| serde_json::from_str(task.to_str()?).ok());
    let (Some(task), Some(place), None) = (task, place.map(PathBuf::from), arguments.next()) else {
        return Err("'mapped-write-part' is for haul-lab itself".to_owned());
    };
    let stop = end_of_input();
    let ending = Arc::clone(&stop);
    play(&task, &place, stop, move |message| {
        let line = serde_json::to_string(message).map(|line| line + "\n");
        let mut out = std::io::stdout().lock();
        let said = line.is_ok_and(|line| out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_ok());
        if !said {
            ending.store(true, Ordering::Relaxed);
        }
    });
    Ok(())
}
