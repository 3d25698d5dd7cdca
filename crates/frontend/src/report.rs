//! Turns the events of a run into what the user sees.

use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use haul_copy::error::Error;
use haul_copy::events::{Confirm, Event, Observer, Question};
use haul_copy::plan::Reflink;
use haul_copy::run::Cancel;
use haul_io::pace::Pace;
use haul_sys::Errno;
use haul_sys::rustix::event::{PollFd, PollFlags, poll};
use haul_sys::rustix::{io, stdio};

use crate::causes::{Causes, Print};
use crate::complaint::Complaint;
use crate::exit;
use crate::list_file::{self, ListFile};
use crate::progress::Progress;
use crate::quote::Quoter;
use crate::record;
use crate::screen::Screen;
use crate::show::{Show, StatsFormat, When};
use crate::throttle::pace_words;
use crate::words;

/// Prints messages under the program's name.
pub struct Report {
    name: Vec<u8>,
    quoter: Quoter,
    screen: Mutex<Screen>,
    show: Option<Show>,
    reflink: Reflink,
    /// Counted if not every message is wanted.
    causes: Option<Mutex<Causes>>,
    progress: Option<Progress>,
    /// Where digests go that are not printed.
    digest_list: Option<Mutex<ListFile>>,
    digests: bool,
    cancel: Cancel,
    pace: Pace,
}

impl Report {
    /// Before the command line is understood: messages only.
    pub fn new(name: Vec<u8>) -> Report {
        Report::on(Screen::of_process(), name)
    }

    /// The same, on another screen.
    pub fn on(screen: Screen, name: Vec<u8>) -> Report {
        Report {
            name,
            cancel: Cancel::default(),
            pace: Pace::default(),
            quoter: Quoter::from_environment(),
            screen: Mutex::new(screen),
            show: None,
            reflink: Reflink::Auto,
            causes: None,
            progress: None,
            digest_list: None,
            digests: false,
        }
    }

    /// The digests of files are wanted, in this list if there is one.
    pub fn list_digests(&mut self, list: Option<ListFile>) {
        (self.digests, self.digest_list) = (true, list.map(Mutex::new));
    }

    /// Ends the list of digests; with `durable` when it is on the device.
    ///
    /// # Errors
    /// The first thing that went wrong.
    pub fn finish_digest_list(&self, durable: bool) -> std::io::Result<()> {
        let Some(list) = &self.digest_list else { return Ok(()) };
        let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
        list.finish(durable)
    }

    /// What the user wants to see besides messages. `with_progress`: so much that the run has to be watched.
    /// `every_error`: none is left to be counted.
    pub fn configure(&mut self, show: Show, reflink: Reflink, with_progress: bool, every_error: bool) {
        self.show = Some(show);
        self.causes = (!every_error).then(Mutex::default);
        self.reflink = reflink;
        self.progress = with_progress.then(Progress::default);
    }

    /// Whether a progress bar is wanted.
    pub fn wants_progress(&self, when: When) -> bool {
        match when {
            When::Always => true,
            When::Never => false,
            When::Auto => self.screen().err_is_terminal(),
        }
    }

    /// What stops the run, and a question with it.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// How fast the run may go.
    pub fn pace(&self) -> &Pace {
        &self.pace
    }

    /// How names are quoted.
    pub fn quoter(&self) -> &Quoter {
        &self.quoter
    }

    /// How far the run is, if it is asked for.
    pub fn progress(&self) -> Option<&Progress> {
        self.progress.as_ref()
    }

    /// The output streams. Held only while something is written.
    pub fn screen(&self) -> MutexGuard<'_, Screen> {
        // A panic while it was held can have cost some output, no more.
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws the progress bar, unless somebody else is writing: a reader of standard output that has stopped must not
    /// stop the thread that hears signals, too.
    pub(crate) fn try_show_bar(&self, bar: &[u8]) {
        if let Ok(mut screen) = self.screen.try_lock() {
            screen.show_bar(bar);
        }
    }

    /// Prints a message when the process is about to end, whether or not somebody holds the screen for ever.
    pub fn complain_at_the_end(&self, message: &[u8]) {
        match self.screen.try_lock() {
            Ok(mut screen) => screen.complain(&self.line_of(message)),
            Err(_) => Screen::complain_unlocked(&self.line_of(message)),
        }
    }

    fn line_of(&self, message: &[u8]) -> Vec<u8> {
        [&self.name[..], b": ", message, b"\n"].concat()
    }

    /// Prints a message on standard error.
    pub fn complain(&self, message: &[u8]) {
        let text = self.line_of(message);
        self.screen().complain(&text);
    }

    /// Refers the user to `--help`.
    pub(crate) fn hint(&self) {
        let text = [b"Try '", &self.name[..], b" --help' for more information.\n"].concat();
        self.screen().complain(&text);
    }

    /// Says what is wrong with the command line.
    pub fn refuse(&self, complaint: &Complaint) {
        self.complain(&complaint.message);
        if complaint.hint {
            self.hint();
        }
    }

    /// Prints a text, and nothing after it; returns the exit status.
    pub fn print_only(&self, text: &str) -> u8 {
        self.screen().print(text.as_bytes());
        if self.finish() { exit::SUCCESS } else { exit::FAILURE }
    }

    /// After many errors: what they were about.
    pub fn sum_up(&self) {
        let table = self.causes.as_ref().and_then(|causes| lock(causes).table(&self.quoter));
        if let Some(table) = table {
            self.complain(&table);
        }
    }

    fn problem(&self, error: &Error) {
        let print = self.causes.as_ref().map_or(Print::Whole, |causes| lock(causes).add(error));
        if print != Print::Counted {
            self.complain(&words::message(error, &self.quoter));
        }
        if print == Print::Last {
            self.complain(b"more errors of this kind are only counted; -v shows them all");
        }
        if words::is_misuse(error) {
            self.hint();
        }
        if self.show.is_some_and(|show| show.stats == Some(StatsFormat::Json)) {
            self.print_record(record::error_line(error));
        }
    }

    /// Prints statistics on standard error.
    pub fn print_record(&self, lines: Result<String, serde_json::Error>) {
        match lines {
            Ok(lines) => self.screen().complain(lines.as_bytes()),
            Err(error) => self.complain(error.to_string().as_bytes()),
        }
    }

    /// Ends all output. Failures to write standard output are reported here; then it is `false`.
    pub fn finish(&self) -> bool {
        let result = self.screen().finish();
        let Err(errno) = result else { return true };
        self.complain(format!("write error: {}", words::strerror(errno)).as_bytes());
        false
    }

    fn line(&self, text: &[u8]) {
        self.screen().print(&[text, b"\n"].concat());
    }
}

impl Observer for Report {
    fn event(&self, event: &Event<'_>) {
        let verbose = self.show.is_some_and(|show| show.verbose);
        if let Some(progress) = &self.progress {
            watch(progress, event);
        }
        match event {
            Event::Problem(error) => self.problem(error),
            Event::Warning(error) => self.complain(&words::message(error, &self.quoter)),
            Event::Copying { source, dest, backup } if verbose => {
                let mut line = words::arrow(source, dest, &self.quoter);
                if let Some(backup) = backup {
                    line.extend([&b" (backup: "[..], &self.quoter.path(backup), b")"].concat());
                }
                self.line(&line);
            }
            Event::Removed(path) if verbose => self.line(&[b"removed ", &self.quoter.path(path)[..]].concat()),
            Event::UnBackedUp { backup, dest } if verbose => {
                self.line(&[&words::arrow(backup, dest, &self.quoter)[..], b" (unbackup)"].concat());
            }
            // GNU cp does not quote these. A line break in one must not look like a line of haul's.
            Event::ParentMade { source, dest } if verbose && self.screen().out_is_terminal() => {
                self.line(&words::arrow(source, dest, &self.quoter));
            }
            Event::ParentMade { source, dest } if verbose => {
                self.line(&[source.as_os_str().as_bytes(), b" -> ", dest.as_os_str().as_bytes()].concat());
            }
            Event::Skipped(path) if self.show.is_some_and(|show| show.debug) => {
                self.line(&[b"skipped ", &self.quoter.path(path)[..]].concat());
            }
            Event::Digest { dest, digest } => match &self.digest_list {
                Some(list) => list.lock().unwrap_or_else(PoisonError::into_inner).add(dest, digest),
                None => self.screen().print(&list_file::line(dest, digest)),
            },
            Event::DataDone(report) => {
                if self.show.is_some_and(|show| show.debug) {
                    self.screen().print(words::debug_line(report, self.reflink).as_bytes());
                }
                if self.show.is_some_and(|show| show.explain) {
                    let mut text = words::explanation(report, &self.quoter);
                    if let Some(pace) = pace_words(&self.pace) {
                        text.extend(format!("  limit: {pace}\n").as_bytes());
                    }
                    self.screen().print(&text);
                }
            }
            _ => {}
        }
    }

    fn in_order(&self) -> bool {
        self.show.is_some_and(|show| show.verbose || show.debug || show.explain) || self.digests
    }
}

fn lock(causes: &Mutex<Causes>) -> MutexGuard<'_, Causes> {
    // A panic while it was held can have cost a number, no more.
    causes.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch(progress: &Progress, event: &Event<'_>) {
    match event {
        Event::Copying { source, .. } => {
            progress.add_entry();
            progress.set_current(source);
        }
        Event::Skipped(_) => progress.add_entry(),
        Event::Progress(moved) => progress.add_bytes(moved.total()),
        _ => {}
    }
}

impl Confirm for Report {
    fn overwrite(&self, question: &Question<'_>) -> bool {
        let text = [&self.name[..], b": ", &words::question(question, &self.quoter)].concat();
        self.screen().ask(&text);
        // The lock is not held meanwhile: a signal must be able to end the process.
        let answer = answer(&self.cancel);
        self.screen().answered();
        words::means_yes(&answer)
    }
}

/// One line of standard input, read byte by byte so that the next reader gets the rest.
/// Nothing if the run is stopped meanwhile.
fn answer(cancel: &Cancel) -> Vec<u8> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        // Unlike read, poll is not restarted after a signal.
        let waited = poll(&mut [PollFd::new(&stdio::stdin(), PollFlags::IN)], None);
        if waited == Err(Errno::INTR) && cancel.is_cancelled() {
            return Vec::new();
        }
        match io::read(stdio::stdin(), &mut byte) {
            Ok(1) if byte[0] != b'\n' => line.push(byte[0]),
            Err(Errno::INTR) => {}
            // The end of the line, of the input, or of the terminal: what was read so far is the answer.
            _ => return line,
        }
    }
}
