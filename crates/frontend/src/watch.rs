//! How a run is stopped by signals, and shown by a progress bar.
//!
//! The handlers set flags, so whatever the run is doing, one press of Ctrl-C stops it: the run itself sees the flag between two
//! pieces of data. If it is stuck in a system call, a thread beside it, which draws the bar as well, removes what is incomplete and
//! ends the process. A run that is over in a moment has no such thread: a timer ends it where it is stuck, and what is incomplete
//! stays.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use haul_copy::plan::Plan;
use haul_sys::Errno;
use haul_sys::inode::FileId;
use haul_sys::memory;
use haul_sys::process_state::is_ignored;
use haul_sys::rustix::stdio;
use haul_sys::rustix::termios::tcgetwinsize;
use haul_sys::signals::{self, Arrivals, Countdown};
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGUSR1};
use signal_hook::low_level::raise;

use crate::bar::Rate;
use crate::progress::PATIENCE;
use crate::report::Report;

/// Bytes of stack: the thread formats one line and calls no deep functions.
const STACK: usize = 256 << 10;
/// How long a run may take to stop after a signal.
const GRACE: Duration = Duration::from_secs(2);
/// The same after a second one, where nobody else can remove what is incomplete.
const LAST_GRACE: Duration = Duration::from_millis(100);
/// Time between two drawings of the bar on a terminal.
const REDRAW: Duration = Duration::from_millis(200);
/// The same where each drawing is a line of its own.
const NEXT_LINE: Duration = Duration::from_secs(1);
/// Columns where nobody says how many there are.
const COLUMNS: usize = 80;

/// The signal that a user or the system has sent, if any.
#[derive(Debug, Clone, Default)]
pub struct Caught(Arc<AtomicUsize>);

impl Caught {
    /// Its number.
    pub fn signal(&self) -> Option<i32> {
        i32::try_from(self.0.load(Ordering::SeqCst)).ok().filter(|signal| *signal != 0)
    }
}

/// What the thread does when the run does not stop in time, before it ends the process for the signal of this number.
pub type Abandon = Box<dyn FnOnce(i32) + Send>;

/// Handles the signals that stop a run, and starts the thread. `skip_files`: files of the sources that the run leaves out.
///
/// # Errors
/// What the kernel says when there are no threads left.
pub fn start(report: Arc<Report>, plan: Arc<Plan>, skip_files: Vec<FileId>, abandon: Abandon) -> io::Result<Caught> {
    if !memory::has_room_for_thread(STACK as u64) {
        return Err(Errno::NOMEM.into());
    }
    let arrivals = Arrivals::default();
    let caught = catch(&report, |signal| arrivals.count(signal))?;
    let watcher = Watcher { report, plan, skip_files, caught: caught.clone(), arrivals };
    thread::Builder::new().stack_size(STACK).spawn(move || watcher.watch(abandon))?;
    Ok(caught)
}

/// Handles the same signals without a thread, for a run that is over in a moment: it sees the flag itself, and removes what is
/// incomplete. If it is stuck all the same, the process ends after the time that every run has, and very soon after a second
/// signal: `by_signal`, or with the status that a shell shows for it. A thread would remove more.
///
/// # Errors
/// As sigaction(2).
pub fn without_thread(report: &Report, by_signal: bool) -> io::Result<Caught> {
    let countdown = Countdown::new([GRACE, LAST_GRACE], by_signal);
    catch(report, |signal| countdown.count(signal))
}

/// Notes the signals that stop a run, and stops it; then does something more.
fn catch(report: &Report, more: impl Fn(i32) -> io::Result<()>) -> io::Result<Caught> {
    let caught = Caught::default();
    // Without a reader of what is printed a run ends, too.
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGPIPE] {
        // Below nohup, or in the background of a script, the user does not mean us.
        if is_ignored(signal) {
            continue;
        }
        signals::note(signal)?;
        let number = usize::try_from(signal).unwrap_or_default();
        signal_hook::flag::register_usize(signal, Arc::clone(&caught.0), number)?;
        signal_hook::flag::register(signal, report.cancel().flag())?;
        more(signal)?;
    }
    // One that came meanwhile, and has stopped nothing.
    if let Some(signal) = signals::noted().filter(|_| !report.cancel().is_cancelled()) {
        raise(signal)?;
    }
    Ok(caught)
}

/// Set by each SIGUSR1, with which somebody asks how far the run is; the signal would end the process otherwise.
///
/// # Errors
/// As sigaction(2).
pub fn requests() -> io::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGUSR1, Arc::clone(&asked))?;
    Ok(asked)
}

struct Watcher {
    report: Arc<Report>,
    plan: Arc<Plan>,
    skip_files: Vec<FileId>,
    caught: Caught,
    arrivals: Arrivals,
}

impl Watcher {
    fn watch(self, abandon: Abandon) {
        let mut deadline: Option<Instant> = None;
        let draws = self.report.has_bar() && !self.report.screen().is_elsewhere();
        let mut next_drawing = draws.then(|| Instant::now() + PATIENCE);
        let mut counting = self.report.is_json();
        // A dry run moves nothing, and there is no telling how far it is.
        if counting && !self.plan.dry_run {
            self.start_telling();
        }
        let mut rate = Rate::default();
        let mut seen = 0;
        loop {
            let next = [deadline, next_drawing].into_iter().flatten().min();
            let timeout = next.map(|time| time.saturating_duration_since(Instant::now()));
            if self.arrivals.wait(seen, timeout) {
                // One after the other; more than one may have arrived.
                seen = seen.wrapping_add(1);
                let second = deadline.is_some();
                self.report.pace().wake();
                deadline.get_or_insert_with(|| Instant::now() + GRACE);
                if second {
                    break;
                }
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                break;
            }
            if next_drawing.is_some_and(|time| time <= now) {
                if !counting {
                    counting = true;
                    self.start_counting();
                }
                next_drawing = Some(now + self.draw(&mut rate));
            }
        }
        let signal = self.caught.signal().unwrap_or(SIGTERM);
        abandon(signal);
        // As shells have it.
        std::process::exit(128 + signal);
    }

    /// Counts what there is to do, in a thread of its own: a slow disk must not hold up the bar or a signal.
    fn start_counting(&self) {
        // Without the thread the bar does not know the total, and says so.
        start_thread(self.counting());
    }

    fn counting(&self) -> impl FnOnce() + Send + use<> {
        let (report, plan, caught) = (Arc::clone(&self.report), Arc::clone(&self.plan), self.caught.clone());
        let skip_files = self.skip_files.clone();
        move || {
            if let Some(progress) = report.progress() {
                progress.count(&plan, &skip_files, &|| caught.signal().is_some());
            }
        }
    }

    /// Tells a program each second how far the run is, in a thread of its own: a reader that has stopped must not hold up a
    /// signal.
    fn start_telling(&self) {
        let (report, counting) = (Arc::clone(&self.report), self.counting());
        start_thread(move || {
            let mut rate = Rate::default();
            thread::sleep(PATIENCE);
            start_thread(counting);
            loop {
                report.tell_progress(&mut rate);
                thread::sleep(NEXT_LINE);
            }
        });
    }

    /// Draws the bar; returns the time until the next drawing.
    fn draw(&self, rate: &mut Rate) -> Duration {
        let Some(progress) = self.report.progress() else { return NEXT_LINE };
        let size = tcgetwinsize(stdio::stderr()).ok().map(|size| usize::from(size.ws_col)).filter(|size| *size > 0);
        // The last column stays free: some terminals begin a new line when it is filled.
        let line = progress.line(rate, self.report.quoter(), size.unwrap_or(COLUMNS).saturating_sub(1));
        self.report.try_show_bar(&line);
        if std::io::stderr().is_terminal() { REDRAW } else { NEXT_LINE }
    }
}

/// Starts a thread, for what a run can do without; whether there was one to be had.
pub(crate) fn start_thread(work: impl FnOnce() + Send + 'static) -> bool {
    memory::has_room_for_thread(STACK as u64) && thread::Builder::new().stack_size(STACK).spawn(work).is_ok()
}
