//! The command `smartcp`: disk images without what their guests do not use.

pub mod flags;
pub mod manual;
pub mod options;
pub mod words;

use std::collections::HashSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use haul_copy::error::{Error, What};
use haul_copy::smart::{self, Contents, Event, Observer, Source, System, Task, Unfinished};
use haul_copy::walk::last_component;
use haul_guest::ReadAt;
use haul_guest::report::Map;
use haul_sys::Errno;
use haul_sys::kernel::{Kernel, Linux};

use crate::exit;
use crate::help;
use crate::options::Persona;
use crate::report::Report;
use crate::watch::{self, Caught};
use crate::words::message;

use options::{Request, Wanted};

/// Runs the command with these arguments.
pub fn main(name: &OsStr, arguments: impl Iterator<Item = OsString>, report: Report) -> ExitCode {
    let posix = env::var_os("POSIXLY_CORRECT").is_some();
    let request = match options::parse(arguments, posix, report.quoter()) {
        Ok(Wanted::Copy(request)) => request,
        Ok(Wanted::Help) => return print(&report, &help_text(name)),
        Ok(Wanted::Version) => return print(&report, &help::version(Persona::Smartcp)),
        Err(complaint) => {
            report.complain(&complaint);
            report.hint();
            return ExitCode::from(exit::FAILURE);
        }
    };
    let mut command = Command {
        report: Arc::new(report),
        request: *request,
        unfinished: Unfinished::default(),

        made: HashSet::new(),
        failed: false,
    };
    // Without the thread signals have their default effect, and the copy is as good as any.
    let caught = command.start_watching().unwrap_or_default();
    command.copy_all();
    let cancelled = command.report.cancel().is_cancelled();
    let failed = !command.report.finish() || command.failed;
    match caught.signal().filter(|_| cancelled).and_then(|signal| u8::try_from(128 + signal).ok()) {
        Some(status) => ExitCode::from(status),
        None if failed || cancelled => ExitCode::from(exit::FAILURE),
        None => ExitCode::from(exit::SUCCESS),
    }
}

/// The text of `--help` under this name.
pub fn help_text(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    let usage = format!(
        "Usage: {name} [OPTION]... SOURCE DESTINATION\n  \
           or:  {name} [OPTION]... SOURCE... DIRECTORY\n\
         Copy disk images without what their guests do not use.\n"
    );
    usage + &help::options(flags::FLAGS)
}

fn print(report: &Report, text: &str) -> ExitCode {
    report.screen().print(text.as_bytes());
    ExitCode::from(if report.finish() { exit::SUCCESS } else { exit::FAILURE })
}

struct Command {
    report: Arc<Report>,
    request: Request,
    unfinished: Unfinished,
    /// Names in the directory that have been made.
    made: HashSet<OsString>,
    failed: bool,
}

impl Command {
    fn start_watching(&self) -> std::io::Result<Caught> {
        let (report, unfinished) = (Arc::clone(&self.report), self.unfinished.clone());
        let abandon = Box::new(move |signal| {
            if let Some(path) = unfinished.remove() {
                report.complain_at_the_end(&message(&Error::new(What::Damaged, path), report.quoter()));
            }
            std::process::exit(128 + signal);
        });
        watch::start(Arc::clone(&self.report), Arc::default(), self.report.cancel(), abandon)
    }

    fn copy_all(&mut self) {
        if self.request.verbose {
            self.show(words::options(&self.request.options).as_bytes());
        }
        let dest = PathBuf::from(&self.request.dest);
        let looks = std::fs::metadata(&dest);
        let into = looks.as_ref().is_ok_and(std::fs::Metadata::is_dir);
        if self.request.sources.len() > 1 && !into {
            let errno = looks.err().and_then(|error| Errno::from_io_error(&error)).unwrap_or(Errno::NOTDIR);
            return self.problem(&Error::new(What::Target, &dest).errno(errno));
        }
        for source in self.request.sources.clone() {
            if self.report.cancel().is_cancelled() {
                return;
            }
            self.copy_one(Path::new(&source), &dest, into);
        }
    }

    fn copy_one(&mut self, from: &Path, dest: &Path, into: bool) {
        let kernel: Arc<dyn Kernel> = Arc::new(Linux);
        let mut source = match Source::open(&*kernel, from) {
            Ok(source) => source,
            Err(error) => return self.problem(&error),
        };
        let mut name = last_component(from.as_os_str()).to_owned();
        let mut is_bytes = false;
        match smart::contents(&kernel, &source, self.request.format) {
            Contents::Raw => {}
            Contents::Container(format, disk) => {
                source = source.with_disk(disk);
                // It is not what its name would say.
                name.push(".raw");
                if self.request.verbose {
                    self.show(format!("Container: {format}, copied as a raw disk\n").as_bytes());
                }
            }
            Contents::Bytes(why) => {
                is_bytes = true;
                let quoted = self.report.quoter().always(from.as_os_str().as_encoded_bytes());
                let text = format!(" is copied byte for byte: {why}");
                self.report.complain(&[&b"warning: "[..], &quoted, text.as_bytes()].concat());
            }
        }
        let to = if into { dest.join(&name) } else { dest.to_owned() };
        if into && !self.made.insert(name) {
            return self.problem(&Error::new(What::JustCreated, &to).and(from));
        }
        self.copy(&source, is_bytes, &to);
    }

    fn copy(&mut self, source: &Source, is_bytes: bool, to: &Path) {
        let from = source.path();
        if self.request.verbose {
            let quoted = |path: &Path| self.report.quoter().if_needed(path.as_os_str().as_encoded_bytes());
            self.show(&[&b"Copying: "[..], &quoted(from), b"\nTo:      ", &quoted(to), b"\n"].concat());
        }
        let kernel: Arc<dyn Kernel> = Arc::new(Linux);
        let cancel = self.report.cancel().clone();
        let told = Told { command: self, source: from };
        let task = Task {
            source,
            dest: to,
            options: self.request.options,
            mapper: if is_bytes { &|_| Map::default() } else { &map },
            kernel,
            system: System::default(),
            stop: &|| cancel.is_cancelled(),
            unfinished: self.unfinished.clone(),
            given: None,
            pace: None,
            observer: &told,
        };
        match smart::copy(&task) {
            Ok(done) => self.done(&done, to),
            Err(failure) => {
                if let Some(error) = &failure.error {
                    self.problem(error);
                }
                if let Some(path) = failure.damaged {
                    self.problem(&Error::new(What::Damaged, path));
                }
            }
        }
    }

    fn done(&self, done: &smart::Report, to: &Path) {
        if self.request.verbose {
            self.show(words::statistics(&done.stats).as_bytes());
        }
        if self.request.debug {
            self.show(words::debugging(done).as_bytes());
        }
        if let Some(md5) = &done.md5 {
            self.out(&if self.request.json { words::json_md5(md5).into_bytes() } else { words::md5_line(md5, to) });
        }
        if self.request.json {
            self.out(words::json(&done.stats).as_bytes());
        }
    }

    fn problem(&mut self, error: &Error) {
        self.failed = true;
        self.report.complain(&message(error, self.report.quoter()));
    }

    /// Prints what is for people: where programs do not read.
    fn show(&self, text: &[u8]) {
        if self.request.json {
            self.report.screen().complain(text);
        } else {
            self.out(text);
        }
    }

    /// Prints at once, since it is to be seen while it happens.
    fn out(&self, text: &[u8]) {
        let mut screen = self.report.screen();
        screen.print(text);
        screen.flush();
    }
}

/// Tells the user what happens.
struct Told<'a> {
    command: &'a Command,
    source: &'a Path,
}

impl Told<'_> {
    fn warn(&self, path: &Path, text: &str) {
        let quoted = self.command.report.quoter().always(path.as_os_str().as_encoded_bytes());
        self.command.report.complain(&[&b"warning: "[..], &quoted, text.as_bytes()].concat());
    }
}

impl Observer for Told<'_> {
    fn event(&self, event: &Event<'_>) {
        let request = &self.command.request;
        match event {
            Event::InUse(user) => {
                let text =
                    format!(" is in use and is copied whole: {user}; if it is a frozen snapshot, use --snapshot");
                self.warn(self.source, &text);
            }
            Event::Mapped(map) if request.debug => self.command.show(format!("Map:\n{map}").as_bytes()),
            Event::NotDirect(path) => self.warn(path, ": no direct I/O is possible; going through the page cache"),
            Event::Second(stats) => {
                if request.verbose {
                    self.command.show(words::interval(stats).as_bytes());
                }
                if request.json {
                    self.command.out(words::json(stats).as_bytes());
                }
            }
            Event::MapChanged(bytes) => {
                let text =
                    format!(" was changed while it was being copied; copying {bytes} bytes that were free before");
                self.warn(self.source, &text);
            }
            Event::SourceWritten => {
                self.warn(
                    self.source,
                    " was written to while it was being copied; copy a snapshot, or when nothing writes",
                );
            }
            _ => {}
        }
    }
}

/// What of the image is free.
fn map(image: &dyn ReadAt) -> Map {
    haul_guest::map::map(image, &haul_guest::fs::Options::default())
}
