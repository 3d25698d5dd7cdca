//! The parent's side of a part: starts the process, hears it, ends it.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use haul_measure::own::Own;
use haul_measure::{space, words};
use haul_sys::rustix::process::Signal;

use super::part::{self, Answer, Message, Task};
use super::scene::empty;

/// How often the wish to stop is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// A child that was asked to stop gets so long to remove its files; then it is killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Does a task in a process of `program`, which is haul-lab. None of its files are left below `place` when it returns.
pub fn run(
    program: &Own,
    task: &Task,
    place: &Path,
    report: &mut dyn FnMut(f64),
    stop: &dyn Fn() -> bool,
) -> Result<Answer, String> {
    let task = serde_json::to_string(task).map_err(|error| format!("cannot say what is to be done: {error}"))?;
    let mut child = program
        .part(part::NAME)
        .arg(task)
        .arg(place)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(words::cannot("start", program.path()))?;
    let heard = hear(&mut child, report, stop);
    drop(child.stdin.take());
    let status = child.wait().ok();
    // After its end, whatever it was: it removes them itself only if it can.
    let emptied = empty(place).map_err(words::cannot("remove the files below", place));
    let answer = match heard {
        Some(Message::Done(answer)) => Ok(*answer),
        Some(Message::Failed(why)) => Err(why),
        Some(_) => Err("stopped".to_owned()),
        // Ctrl-C reaches every process of the terminal, and this one's handler has heard of it as well.
        None if stop() || interrupted(status) => Err("stopped".to_owned()),
        None => Err(why_it_ended(status, place)),
    };
    answer.and_then(|answer| emptied.map(|()| answer))
}

/// The last thing that it said, if it came so far. Told to stop, it is heard until it has, whatever it says.
fn hear(child: &mut Child, report: &mut dyn FnMut(f64), stop: &dyn Fn() -> bool) -> Option<Message> {
    let (say, messages) = channel();
    let out = child.stdout.take()?;
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            let message = serde_json::from_str::<Message>(&line);
            if message.is_ok_and(|message| say.send(message).is_err()) {
                return;
            }
        }
    });
    let mut end = None;
    loop {
        match messages.recv_timeout(LOOK) {
            Ok(Message::Progress(done)) if end.is_none() => report(done),
            Ok(Message::Progress(_)) | Err(RecvTimeoutError::Timeout) => {}
            Ok(last) if end.is_none() => return Some(last),
            // Also if it is done by now: nobody wants it any more.
            Ok(_) => return Some(Message::Stopped),
            Err(RecvTimeoutError::Disconnected) => return end.map(|_| Message::Stopped),
        }
        if end.is_none() && stop() {
            drop(child.stdin.take());
            end = Some(Instant::now() + PATIENCE);
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            // It may have ended this moment.
            child.kill().unwrap_or_default();
            return Some(Message::Stopped);
        }
    }
}

fn interrupted(status: Option<ExitStatus>) -> bool {
    let signal = status.and_then(|status| status.signal());
    [Signal::INT, Signal::TERM, Signal::HUP].iter().any(|by| signal == Some(by.as_raw()))
}

fn why_it_ended(status: Option<ExitStatus>, place: &Path) -> String {
    let signal = status.and_then(|status| status.signal());
    if signal != Some(Signal::BUS.as_raw()) {
        let how = status.map_or_else(|| "nobody knows how".to_owned(), |status| status.to_string());
        return format!("a part of the experiment ended without a result ({how})");
    }
    let free = space::free(place).map_or_else(|_| "an unknown amount".to_owned(), words::bytes);
    format!(
        "SIGBUS: below {} a store to a mapped page could not be carried out. The filesystem had no room for the page \
         ({free} are free now), somebody else cut the file, or the device failed",
        words::quoted(place)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_could_not_be_carried_out_is_distinguished_from_other_ends() {
        let here = Path::new("/proc");
        assert!(why_it_ended(Some(ExitStatus::from_raw(7)), here).starts_with("SIGBUS: below \"/proc\""));
        assert!(why_it_ended(Some(ExitStatus::from_raw(9)), here).contains("signal: 9"));
        assert!(why_it_ended(Some(ExitStatus::from_raw(256)), here).contains("exit status: 1"));
    }
}
