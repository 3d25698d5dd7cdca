//! Turns the events of a run into what the user sees.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use haul_copy::error::{Error, What};
use haul_copy::events::{Confirm, Event, Kept, Observer, Question, Reason};
use haul_copy::plan::{Plan, Reflink};
use haul_copy::run::Cancel;
use haul_io::pace::Pace;
use haul_sys::Errno;
use haul_sys::process_state::is_ignored;
use haul_sys::rustix::event::{PollFd, PollFlags, poll};
use haul_sys::rustix::{io, stdio};
use signal_hook::consts::SIGPIPE;

use crate::bar::Rate;
use crate::causes::{Causes, Print};
use crate::complaint::Complaint;
use crate::errno::strerror;
use crate::exit;
use crate::failures::Failures;
use crate::files::{self, ListFile};
use crate::json;
use crate::planned;
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
    show: Show,
    reflink: Reflink,
    /// Counted if not every message is wanted.
    causes: Option<Mutex<Causes>>,
    /// How far the run is, for a bar or for programs.
    progress: Option<Progress>,
    with_bar: bool,
    /// Errors so far.
    problems: AtomicU64,
    /// Where digests go that are not printed.
    digest_list: Option<Mutex<ListFile>>,
    digests: bool,
    /// Where the names of failures go.
    failures: Option<Failures>,
    /// What a dry run has said would be done.
    planned: Mutex<planned::Totals>,
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
            show: Show::default(),
            reflink: Reflink::Auto,
            causes: None,
            progress: None,
            with_bar: false,
            problems: AtomicU64::new(0),
            digest_list: None,
            digests: false,
            failures: None,
            planned: Mutex::default(),
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
        lock(list).finish(durable)
    }

    /// The names of failures are wanted.
    pub fn list_failures(&mut self, failures: Failures) {
        self.failures = Some(failures);
    }

    /// Where they go, if they are wanted.
    pub fn failures(&self) -> Option<&Failures> {
        self.failures.as_ref()
    }

    /// What the user wants to see besides messages. `with_bar`: so much that the run has to be watched. `every_error`: none is
    /// left to be counted.
    pub fn configure(&mut self, show: Show, plan: &Plan, with_bar: bool, every_error: bool) {
        self.show = show;
        self.causes = (!every_error).then(Mutex::default);
        self.reflink = plan.data.reflink;
        self.with_bar = with_bar;
        self.progress = (with_bar || show.json).then(|| Progress::new(plan.done_when()));
    }

    /// Counts how far the run is, also where nobody is shown it.
    pub fn keep_count(&mut self, plan: &Plan) {
        self.progress.get_or_insert_with(|| Progress::new(plan.done_when()));
    }

    /// Errors so far.
    pub fn problems(&self) -> u64 {
        self.problems.load(Ordering::Relaxed)
    }

    /// Whether a progress bar is wanted.
    pub fn wants_progress(&self, when: When) -> bool {
        match when {
            When::Always => true,
            When::Never => false,
            When::Auto => self.screen().err_is_terminal,
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

    /// Whether it is shown as a bar.
    pub(crate) fn has_bar(&self) -> bool {
        self.with_bar
    }

    /// Whether standard output is for programs.
    pub(crate) fn is_json(&self) -> bool {
        self.show.json
    }

    /// Tells a program what the run is.
    pub fn start(&self, plan: &Plan) {
        if self.show.json {
            self.tell_program(&json::start(OsStr::from_bytes(&self.name), plan));
        }
    }

    /// Tells a program how far the run is, if it is not over.
    pub(crate) fn tell_progress(&self, rate: &mut Rate) {
        let Some(progress) = &self.progress else { return };
        let line = progress.json(rate);
        let mut screen = self.screen();
        if !screen.is_quiet() {
            screen.tell_program(line.as_bytes());
        }
    }

    /// A line for a program, which it gets at once.
    fn tell_program(&self, line: &str) {
        self.screen().tell_program(line.as_bytes());
    }

    /// The output streams. Held only while something is written.
    pub fn screen(&self) -> MutexGuard<'_, Screen> {
        lock(&self.screen)
    }

    /// Draws the progress bar, unless somebody else is writing, or there is no room for it: a reader that has stopped must
    /// not stop the thread that hears signals, too, nor a bar those that copy.
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

    /// Prints a message that something is not as the user wants it, though the copy is.
    pub fn warn(&self, message: &[u8]) {
        self.complain(&[b"warning: ", message].concat());
        if self.show.json {
            self.tell_program(&json::message(false, message));
        }
    }

    /// Prints a message that something has failed of which the library does not know.
    pub fn fail(&self, message: &[u8]) {
        self.complain(message);
        if self.show.json {
            self.tell_program(&json::message(true, message));
        }
    }

    /// A file is damaged, by an error that is known already or by a signal.
    pub fn damaged(&self, path: &Path) {
        let error = Error::new(What::Damaged, path);
        if self.show.json
            && let Some(line) = json::event(&Event::Problem(Cow::Borrowed(&error)))
        {
            self.tell_program(&line);
        }
        self.complain(&words::message(&error, &self.quoter));
        self.pass_on(&error);
    }

    /// To whoever reads errors one by one.
    fn pass_on(&self, error: &Error) {
        if let Some(failures) = &self.failures {
            failures.hear(error);
        }
        if self.show.stats == Some(StatsFormat::Json) {
            self.screen().complain(record::error_line(error).as_bytes());
        }
    }

    /// Prints a message that only helps, unless the user wants to be left alone.
    pub fn advise(&self, message: &[u8]) {
        if !self.show.quiet {
            self.complain(message);
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

    /// After a dry run: what a copy would do, in numbers. Programs add them up themselves.
    pub fn sum_up_dry_run(&self) {
        if self.show.json {
            return;
        }
        let totals = lock(&self.planned).line();
        self.screen().print(totals.as_bytes());
    }

    fn problem(&self, error: &Error) {
        let print = self.causes.as_ref().map_or(Print::Whole, |causes| lock(causes).add(error));
        if print != Print::Counted {
            self.complain(&words::message(error, &self.quoter));
        }
        if print == Print::Last {
            self.advise(b"more errors of this kind are only counted; -v shows them all");
        }
        if error.what == What::ParentsNeedDirectory {
            // The command line is at fault.
            self.hint();
        }
        self.pass_on(error);
    }

    /// Ends all output. Failures to write standard output are reported here; then it is `false`.
    pub fn finish(&self) -> bool {
        let result = self.screen().finish();
        let Err(errno) = result else { return true };
        if errno == Errno::PIPE && !is_ignored(SIGPIPE) {
            // The process ends by the signal, as any other does.
            return false;
        }
        self.complain(format!("write error: {}", strerror(errno)).as_bytes());
        false
    }

    /// A digest that has a list to go to.
    fn goes_to_list(&self, event: &Event<'_>) -> bool {
        self.digest_list.is_some() && matches!(event, Event::Digest { .. })
    }

    fn line(&self, text: &[u8]) {
        self.screen().print(&[text, b"\n"].concat());
    }
}

impl Observer for Report {
    fn event(&self, event: &Event<'_>) {
        let verbose = self.show.verbose;
        if let Some(progress) = &self.progress {
            progress.hear(event);
        }
        if self.show.json
            && !self.goes_to_list(event)
            && let Some(line) = json::event(event)
        {
            match event {
                Event::Problem(_) | Event::Warning(_) => self.tell_program(&line),
                _ => self.screen().print(line.as_bytes()),
            }
        }
        if verbose && let Some(line) = verbose_line(event, &self.quoter, || self.screen().out_is_terminal) {
            self.line(&line);
        }
        match event {
            Event::Problem(error) => {
                self.problems.fetch_add(1, Ordering::Relaxed);
                self.problem(error);
            }
            Event::LostAttributes(path) => self.failures.iter().for_each(|failures| failures.hear_of(path)),
            Event::Warning(error) if words::is_hint(error.what) => {
                self.advise(&words::message(error, &self.quoter));
            }
            Event::Warning(error) => self.complain(&words::message(error, &self.quoter)),
            Event::Skipped(path, why) if self.show.debug => {
                // GNU cp gives no reason.
                let why: &[u8] = match why {
                    Kept::Same => b" (same)",
                    Kept::Finished => b" (finished by an earlier run)",
                    Kept::Offline => b" (offline)",
                    Kept::NotOlder | Kept::Protected | Kept::Declined => b"",
                };
                self.line(&[b"skipped ", &self.quoter.path(path)[..], why].concat());
            }
            Event::Planned(planned) if !self.show.json => {
                lock(&self.planned).add(planned);
                if let Some(line) = planned::line(planned, verbose, &self.quoter) {
                    self.screen().print(&line);
                }
            }
            Event::Digest { dest, digest } => match &self.digest_list {
                Some(list) => lock(list).add(dest, digest),
                None if self.show.json => {}
                None => self.screen().print(&files::line(dest, digest)),
            },
            Event::DataDone(report) => {
                if self.show.debug {
                    self.screen().print(words::debug_line(report, self.reflink).as_bytes());
                }
                if self.show.explain {
                    let mut text = words::explanation(report, &self.quoter);
                    if let Some(pace) = pace_words(&self.pace) {
                        text.extend(format!("  limit: {pace}\n").as_bytes());
                    }
                    self.screen().print(&text);
                }
            }
            Event::Striped { dest, stripes, profile } if self.show.explain => {
                self.screen().print(&words::striped(dest, stripes.as_deref(), profile, &self.quoter));
            }
            _ => {}
        }
    }

    fn in_order(&self) -> bool {
        self.show.verbose || self.show.debug || self.show.explain || self.show.json || self.digests
    }

    fn follows_data(&self) -> bool {
        self.show.debug || self.show.explain
    }
}

/// What `-v` says of an event, if anything.
fn verbose_line(event: &Event<'_>, quoter: &Quoter, out_is_terminal: impl FnOnce() -> bool) -> Option<Vec<u8>> {
    let with_backup = |mut line: Vec<u8>, backup: &Option<Cow<'_, Path>>| {
        if let Some(backup) = backup {
            line.extend([&b" (backup: "[..], &quoter.path(backup), b")"].concat());
        }
        line
    };
    Some(match event {
        Event::Copying { source, dest, backup, reason, .. } => {
            let line = with_backup(words::arrow(source, dest, quoter), backup);
            // With --update=older the line is that of cp.
            let reason = reason.filter(|reason| *reason != Reason::Older).and_then(planned::reason_words);
            match reason {
                Some(reason) => [&line[..], b": ", reason.as_bytes()].concat(),
                None => line,
            }
        }
        Event::Renamed { source, dest, backup } => {
            with_backup([b"renamed ", &words::arrow(source, dest, quoter)[..]].concat(), backup)
        }
        Event::SourceRemoved { source: path, directory: true } | Event::Deleted { path, directory: true } => {
            [b"removed directory ", &quoter.path(path)[..]].concat()
        }
        Event::SourceRemoved { source: path, .. } | Event::Deleted { path, .. } | Event::Removed(path) => {
            [b"removed ", &quoter.path(path)[..]].concat()
        }
        Event::UnBackedUp { backup, dest } => [&words::arrow(backup, dest, quoter)[..], b" (unbackup)"].concat(),
        // GNU cp does not quote these. A line break in one must not look like a line of haul's.
        Event::ParentMade { source, dest } if out_is_terminal() => words::arrow(source, dest, quoter),
        Event::ParentMade { source, dest } => {
            [source.as_os_str().as_bytes(), b" -> ", dest.as_os_str().as_bytes()].concat()
        }
        _ => return None,
    })
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while it was held can have cost some output or a number, no more.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Confirm for Report {
    fn overwrite(&self, question: &Question<'_>) -> bool {
        let text = [&self.name[..], b": ", &words::question(question, &self.quoter)].concat();
        self.screen().ask(&text);
        // The lock is not held meanwhile: a signal must be able to end the process.
        let answer = answer(&self.cancel);
        self.screen().answered();
        // As in the C locale.
        matches!(answer.first(), Some(b'y' | b'Y'))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_knows_what_the_run_has_listed() {
        let mut report = Report::new(b"haul".to_vec());
        report.configure(Show::default(), &Plan::default(), true, false);
        report.event(&Event::Listed { entries: 2, bytes: 8 });
        let progress = report.progress().expect("it was asked for");
        let line = progress.line(&mut Rate::default(), report.quoter(), 200);
        let line = String::from_utf8_lossy(&line).into_owned();
        assert!(line.contains("  0/8 B  0/2 files"), "{line}");
    }
}
