//! A thread beside the run: it hears signals, and it draws the progress bar.
//!
//! The handlers only set flags and wake the thread, so whatever the run is doing, one press of Ctrl-C stops it: the
//! run itself sees the flag between two pieces of data, and if it is stuck in a system call, the thread removes what
//! is incomplete and ends the process.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use haul_copy::plan::Plan;
use haul_sys::Errno;
use haul_sys::memory;
use haul_sys::process_state::is_ignored;
use haul_sys::rustix::stdio;
use haul_sys::rustix::termios::tcgetwinsize;
use haul_sys::signals::Arrivals;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::progress::{PATIENCE, Rate};
use crate::report::Report;

/// Bytes of stack: the thread formats one line and calls no deep functions.
const STACK: usize = 256 << 10;
/// How long a run may take to stop after a signal.
const GRACE: Duration = Duration::from_secs(2);
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

/// What the thread does when the run does not stop in time: ends the process, for the signal of this number.
pub type Abandon = Box<dyn FnOnce(i32) + Send>;

/// Handles the signals that stop a run, and starts the thread.
///
/// # Errors
/// What the kernel says when there are no threads left.
pub fn start(report: Arc<Report>, plan: Arc<Plan>, abandon: Abandon) -> io::Result<Caught> {
    if !memory::has_room_for_thread(STACK as u64) {
        return Err(Errno::NOMEM.into());
    }
    let caught = Caught::default();
    let arrivals = Arrivals::default();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Below nohup, or in the background of a script, the user does not mean us.
        if is_ignored(signal) {
            continue;
        }
        let number = usize::try_from(signal).unwrap_or_default();
        signal_hook::flag::register_usize(signal, Arc::clone(&caught.0), number)?;
        signal_hook::flag::register(signal, report.cancel().flag())?;
        arrivals.count(signal)?;
    }
    let watcher = Watcher { report, plan, caught: caught.clone(), arrivals };
    thread::Builder::new().stack_size(STACK).spawn(move || watcher.watch(abandon))?;
    Ok(caught)
}

struct Watcher {
    report: Arc<Report>,
    plan: Arc<Plan>,
    caught: Caught,
    arrivals: Arrivals,
}

impl Watcher {
    fn watch(self, abandon: Abandon) {
        let mut deadline: Option<Instant> = None;
        let draws = self.report.progress().is_some() && !self.report.screen().is_elsewhere();
        let mut next_drawing = draws.then(|| Instant::now() + PATIENCE);
        let mut counting = false;
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
        abandon(self.caught.signal().unwrap_or(SIGTERM));
    }

    /// Counts what there is to do, in a thread of its own: a slow disk must not hold up the bar or a signal.
    fn start_counting(&self) {
        let (report, plan, caught) = (Arc::clone(&self.report), Arc::clone(&self.plan), self.caught.clone());
        let count = move || {
            if let Some(progress) = report.progress() {
                progress.count(&plan, &|| caught.signal().is_some());
            }
        };
        // Without the thread the bar does not know the total, and says so.
        if memory::has_room_for_thread(STACK as u64) {
            thread::Builder::new().stack_size(STACK).spawn(count).ok();
        }
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
