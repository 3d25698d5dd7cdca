//! The two output streams, so that messages, file names and the progress bar do not get into each other's way, and that
//! nothing but the bar commands a terminal.

use std::borrow::Cow;
use std::io::IsTerminal;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use haul_sys::process_state::stdout_was_closed;
use haul_sys::rustix::{io, stdio};

use haul_sys::Errno;

use crate::nonblocking::NonBlocking;
use crate::quote::Quoter;

/// Output waits in memory until there is this much of it, in bytes, unless a terminal shows it.
const BUFFER: usize = 64 << 10;

/// Clears the line that the cursor is in.
const CLEAR: &[u8] = b"\r\x1b[K";

/// How long the line that sums up a run waits for a terminal or a reader that has no room for it.
const GRACE: Duration = Duration::from_millis(500);

/// Takes text for standard output (true) or standard error (false) of another process.
pub type PassOn = Box<dyn Fn(bool, &[u8]) + Send>;

/// Standard output and standard error.
pub struct Screen {
    /// They are those of another process.
    elsewhere: Option<PassOn>,
    waiting: Vec<u8>,
    failed: Option<Errno>,
    /// Whether somebody watches standard output.
    pub(crate) out_is_terminal: bool,
    /// The same for standard error.
    pub(crate) err_is_terminal: bool,
    quoter: Quoter,
    /// Where the bar goes, once there was one. A terminal that was stopped (Ctrl-S) must not stop the copy.
    bar: Option<NonBlocking<'static>>,
    bar_is_shown: bool,
    /// No bar is drawn: the user is being asked something, or the run is over.
    quiet: bool,
    /// The last line for a program was printed.
    ended: bool,
}

impl Screen {
    /// Those of this process.
    pub fn of_process() -> Screen {
        Screen {
            elsewhere: None,
            waiting: Vec::new(),
            failed: None,
            out_is_terminal: std::io::stdout().is_terminal(),
            err_is_terminal: std::io::stderr().is_terminal(),
            quoter: Quoter::from_environment(),
            bar: None,
            bar_is_shown: false,
            quiet: false,
            ended: false,
        }
    }

    /// Those of another process, which shows everything but the bar.
    pub fn of_other_process(pass_on: PassOn) -> Screen {
        Screen {
            elsewhere: Some(pass_on),
            out_is_terminal: false,
            err_is_terminal: false,
            quiet: true,
            ..Screen::of_process()
        }
    }

    /// Whether another process shows everything.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.elsewhere.is_some()
    }

    /// Prints on standard output. A failure is kept for [`Screen::finish`], as a copy goes on when nobody listens.
    pub fn print(&mut self, text: &[u8]) {
        if let Some(pass_on) = &self.elsewhere {
            return pass_on(true, text);
        }
        if self.out_is_terminal {
            // By the same stream: the terminal of the bar, where that is another one, may have been stopped.
            let hidden_bar = self.hidden_bar();
            self.waiting.extend_from_slice(hidden_bar);
            // Most names are quoted already. Programs and cp's readers get the others as they are, people do not.
            self.waiting.extend_from_slice(&self.quoter.harmless(text));
        } else {
            self.waiting.extend_from_slice(text);
        }
        if self.out_is_terminal || self.waiting.len() >= BUFFER {
            self.flush();
        }
    }

    /// Prints a line for a program, which gets it at once; none after the last one.
    pub(crate) fn tell_program(&mut self, line: &[u8]) {
        if !self.ended {
            self.print(line);
            self.flush();
        }
    }

    /// Prints the last line for a program.
    pub fn end_with(&mut self, line: &[u8]) {
        self.print(line);
        self.ended = true;
    }

    /// Prints a message on standard error at once.
    pub fn complain(&mut self, message: &[u8]) {
        if let Some(pass_on) = &self.elsewhere {
            return pass_on(false, message);
        }
        let text = self.message(message);
        // There is no reader left for a complaint about that.
        write_all(stdio::stderr(), &text).ok();
    }

    /// Prints the line at the end of a run that somebody has watched, if there is room for it soon: the run does not wait for a
    /// terminal that was stopped.
    pub fn sum_up(&mut self, line: &[u8]) {
        if let Some(pass_on) = &self.elsewhere {
            return pass_on(false, line);
        }
        let text = self.message(line);
        self.bar().write_within(GRACE, &text);
    }

    /// A message as it goes to standard error, in the place of the bar.
    fn message(&mut self, message: &[u8]) -> Vec<u8> {
        let message = if self.err_is_terminal { self.quoter.harmless(message) } else { Cow::Borrowed(message) };
        [self.hidden_bar(), &message].concat()
    }

    /// The same for a process that ends while another thread holds the screen.
    pub(crate) fn complain_unlocked(message: &[u8]) {
        // Also where no terminal shows it: it is a name in quotes, which has nothing to be changed.
        write_all(stdio::stderr(), &Quoter::from_environment().harmless(message)).ok();
    }

    /// Shows the progress bar in the place of the one before; on something that is no terminal, in a line of its own. Where there
    /// is no room for it, it is not shown.
    pub(crate) fn show_bar(&mut self, bar: &[u8]) {
        if self.quiet {
            return;
        }
        let text = if self.err_is_terminal { [CLEAR, bar].concat() } else { [bar, b"\n"].concat() };
        // The bar is no part of the result.
        self.bar_is_shown |= self.bar().write(&text) > 0 && self.err_is_terminal;
    }

    /// What hides the bar, before something else is printed in its place.
    fn hidden_bar(&mut self) -> &'static [u8] {
        if std::mem::take(&mut self.bar_is_shown) { CLEAR } else { b"" }
    }

    fn bar(&mut self) -> &NonBlocking<'static> {
        self.bar.get_or_insert_with(|| NonBlocking::new(stdio::stderr()))
    }

    /// Whether nothing is to be shown that nobody has asked for.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Asks a question. Until [`Screen::answered`] no bar is drawn over it.
    pub(crate) fn ask(&mut self, question: &[u8]) {
        self.flush();
        self.complain(question);
        self.quiet = true;
    }

    /// The question has been answered.
    pub(crate) fn answered(&mut self) {
        self.quiet = false;
    }

    /// Writes what waits.
    pub fn flush(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let result = if stdout_was_closed() { Err(Errno::BADF) } else { write_all(stdio::stdout(), &self.waiting) };
        self.waiting.clear();
        if let Err(errno) = result {
            self.failed.get_or_insert(errno);
        }
    }

    /// Hides the bar for good and writes what waits.
    ///
    /// # Errors
    /// The first failure of any write to standard output.
    pub fn finish(&mut self) -> Result<(), Errno> {
        self.quiet = true;
        // Where there is no room for that, it is hidden by whatever is printed next.
        self.bar_is_shown = self.bar_is_shown && self.bar().write(CLEAR) < CLEAR.len();
        self.flush();
        self.failed.map_or(Ok(()), Err)
    }
}

fn write_all(stream: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match io::write(stream, bytes) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
