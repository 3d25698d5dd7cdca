//! The command `smartcp`: disk images without what their guests do not use.

pub(crate) mod manual;
pub mod options;
pub mod words;

use std::collections::{HashMap, HashSet};
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haul_copy::error::{Error, What};
use haul_copy::run::Summary;
use haul_copy::walk::last_component;
use haul_frontend::environment::saved_machines;
use haul_frontend::flags::Information;
use haul_frontend::report::Report;
use haul_frontend::watch::{self, Caught};
use haul_frontend::words::{damaged, message};
use haul_frontend::{exit, help};
use haul_guest::ReadAt;
use haul_guest::report::Map;
use haul_image::{Contained, Contents, Event, Found, KeepTask, Observer, Source, System, Task, Unfinished};
use haul_sys::Errno;
use haul_sys::inode::{FileId, Inode};
use haul_sys::kernel::{Kernel, Linux};
use haul_sys::memory;
use haul_sys::rustix::fs::CWD;

use options::{Invocation, Request};

/// The exit status where all was copied, but an image was written to meanwhile: its copy may be of no single moment.
const CHANGED: u8 = 3;

/// Runs the command with these arguments.
pub fn main(name: &OsStr, arguments: impl Iterator<Item = OsString>, report: Report) -> u8 {
    let posix = env::var_os("POSIXLY_CORRECT").is_some();
    let request = match options::parse(arguments, posix, report.quoter()) {
        Ok(Invocation::Copy(request)) => request,
        Ok(Invocation::Print(Information::Help)) => return report.print_only(&help_text(name)),
        Ok(Invocation::Print(Information::Version)) => {
            return report.print_only(&help::version("smartcp (haul)"));
        }
        Err(complaint) => {
            report.refuse(&complaint);
            return exit::FAILURE;
        }
    };
    let mut command = Command {
        report: Arc::new(report),
        request: *request,
        system: System::default().with_saved(saved_machines()),
        unfinished: Unfinished::default(),
        made: HashSet::new(),
        written_to: Mutex::default(),
        failed: AtomicBool::new(false),
        written: AtomicBool::new(false),
    };
    // Without the thread signals have their default effect, and the copy is as good as any.
    let caught = command.start_watching().unwrap_or_default();
    command.copy_all();
    let (failed, cancelled) = (command.failed.into_inner(), command.report.cancel().is_cancelled());
    let summary = Summary { failed, cancelled, ..Summary::default() };
    let written = command.report.finish();
    let status = exit::status(&summary, caught.signal(), !written);
    let changed = status == exit::SUCCESS && command.written.into_inner();
    if changed { CHANGED } else { status }
}

/// The text of `--help` under this name.
pub fn help_text(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    let usage = format!(
        "Usage: {name} [OPTION]... SOURCE DESTINATION\n  \
           or:  {name} [OPTION]... SOURCE... DIRECTORY\n\
         Copy disk images without what their guests do not use.\n"
    );
    usage + &help::options(&options::FLAGS)
}

struct Command {
    report: Arc<Report>,
    request: Request,
    system: System,
    unfinished: Unfinished,
    /// Names in the directory that have been made.
    made: HashSet<OsString>,
    /// The files that they led to, and what those are copies of: another name may lead to one of them.
    written_to: Mutex<HashMap<FileId, PathBuf>>,
    failed: AtomicBool,
    /// An image was written to while it was copied, and its copy stays.
    written: AtomicBool,
}

impl Command {
    fn start_watching(&self) -> std::io::Result<Caught> {
        let (report, unfinished) = (Arc::clone(&self.report), self.unfinished.clone());
        let remove = move || {
            if let Some(path) = unfinished.remove() {
                report.complain_at_the_end(&damaged(&path, report.quoter()));
            }
        };
        memory::before_the_end(remove.clone());
        let abandon = Box::new(move |_| remove());
        watch::start(Arc::clone(&self.report), Arc::default(), Vec::new(), abandon)
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
        let source = match Source::open(&*kernel, from) {
            Ok(source) => source,
            Err(error) => return self.problem(&error),
        };
        let name = last_component(from.as_os_str());
        match haul_image::contents(&kernel, &source, self.request.format) {
            Contents::Raw => self.copy_to(&source, Known::Nothing, dest, into.then_some(name)),
            Contents::Container(container) => {
                for link in container.links() {
                    self.warn(link, " is a symbolic link, which a descriptor names and which is followed");
                }
                let format = container.format();
                let how = if self.request.keep { "kept as it is" } else { "copied as a raw disk" };
                if self.request.verbose {
                    self.show(format!("Container: {format}, {how}\n").as_bytes());
                }
                if self.request.keep {
                    return self.keep(container, &source, dest, into);
                }
                // It is not what its name would say.
                let name = [name, OsStr::new(".raw")].into_iter().collect::<OsString>();
                let source = container.into_disk(&*kernel, source);
                self.copy_to(&source, Known::Contained, dest, into.then_some(&name));
            }
            Contents::Bytes(why) => {
                self.warn(from, &format!(" is copied byte for byte: {why}"));
                self.copy_to(&source, Known::NoDisk, dest, into.then_some(name));
            }
        }
    }

    /// Copies one source; to this name if the destination is a directory.
    fn copy_to(&mut self, source: &Source, known: Known<'_>, dest: &Path, name: Option<&OsStr>) {
        if let Some(to) = self.place(source.path(), dest, name) {
            self.copy(source, known, &to);
        }
    }

    /// Where a copy goes. Nothing if a copy of something else is there already.
    fn place(&mut self, from: &Path, dest: &Path, name: Option<&OsStr>) -> Option<PathBuf> {
        let Some(name) = name else { return Some(dest.to_owned()) };
        let to = dest.join(name);
        if self.made.insert(name.to_owned()) {
            return Some(to);
        }
        self.problem(&Error::new(What::JustCreated, &to).and(from));
        None
    }

    /// Copies a container with all its files.
    fn keep(&mut self, container: Contained, source: &Source, dest: &Path, into: bool) {
        let kept = container.keep(source);
        if kept.files().len() > 1 {
            if !into {
                return self.problem(&Error::new(What::SeveralFiles, source.path()));
            }
            if let Err(error) = kept.check_names() {
                return self.problem(&error);
            }
        }
        let mut places = Vec::new();
        for file in kept.files() {
            let name = last_component(file.path().as_os_str());
            let Some(place) = self.place(file.path(), dest, into.then_some(name)) else { return };
            places.push(place);
        }
        let printer = Printer { command: self, source: source.path() };
        let (options, system) = (self.request.options, self.system.clone());
        let map = |image: &dyn ReadAt| self.map(image);
        let task = KeepTask { options, mapper: &map, system, observer: &printer };
        kept.copy(&task, &mut |number, file, found| {
            let known = found.map_or(Known::Contained, Known::Free);
            places.get(number).is_some_and(|place| self.copy(file, known, place))
        });
    }

    /// What of an image is free.
    fn map(&self, image: &dyn ReadAt) -> Map {
        haul_guest::map::map(image, &self.request.guests)
    }

    /// Whether it is copied now.
    fn copy(&self, source: &Source, known: Known<'_>, to: &Path) -> bool {
        let from = source.path();
        // Of a container in several files, a file may be copied again.
        if file_id(to).is_some_and(|id| self.written_to().get(&id).is_some_and(|before| before != from)) {
            self.problem(&Error::new(What::JustCreated, to).and(from));
            return false;
        }
        if self.request.verbose {
            let quoted = |path: &Path| self.report.quoter().if_needed(path.as_os_str().as_encoded_bytes());
            self.show(&[&b"Copying: "[..], &quoted(from), b"\nTo:      ", &quoted(to), b"\n"].concat());
        }
        match self.attempts(source, known, to) {
            Ok(done) => {
                self.written_to().extend(file_id(to).map(|id| (id, from.to_owned())));
                self.done(&done, from, to);
                true
            }
            Err(failure) => {
                if let Some(error) = &failure.error {
                    self.problem(error);
                }
                if let Some(path) = failure.damaged {
                    self.problem(&Error::new(What::Damaged, path));
                }
                false
            }
        }
    }

    fn written_to(&self) -> MutexGuard<'_, HashMap<FileId, PathBuf>> {
        self.written_to.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies a source, again as often as the user wants if somebody writes to it meanwhile.
    fn attempts(
        &self,
        source: &Source,
        known: Known<'_>,
        to: &Path,
    ) -> Result<haul_image::Report, haul_image::Failure> {
        let from = source.path();
        let kernel: Arc<dyn Kernel> = Arc::new(Linux);
        let cancel = self.report.cancel().clone();
        let printer = Printer { command: self, source: from };
        let map = |image: &dyn ReadAt| self.map(image);
        let attempt = |source: &Source| {
            let task = Task {
                source,
                dest: to,
                options: self.request.options,
                mapper: if matches!(known, Known::NoDisk) { &no_map } else { &map },
                kernel: Arc::clone(&kernel),
                system: self.system.clone(),
                stop: &|| cancel.is_cancelled(),
                unfinished: self.unfinished.clone(),
                given: None,
                found: if let Known::Free(found) = known { Some(found) } else { None },
                pace: None,
                observer: &printer,
            };
            haul_image::copy(&task)
        };
        let by_itself = matches!(known, Known::Nothing | Known::NoDisk);
        let mut left = if by_itself { self.request.retries } else { 0 };
        let mut ended = attempt(source);
        // A later copy may end before it touches what an earlier one has overwritten.
        let mut damaged = None;
        while left > 0
            && !cancel.is_cancelled()
            && let Err(failure) = &mut ended
            && was_written_to(failure)
        {
            left -= 1;
            damaged = failure.damaged.take().or(damaged);
            // Opened anew: what was seen of it is not to be held against the next copy.
            ended = match Source::open(&Linux, from) {
                Ok(source) => attempt(&source),
                Err(error) => Err(haul_image::Failure { error: Some(error), damaged: None }),
            };
        }
        ended.map_err(|failure| haul_image::Failure { damaged: failure.damaged.or(damaged), ..failure })
    }

    fn warn(&self, path: &Path, text: &str) {
        let quoted = self.report.quoter().path(path);
        self.report.complain(&[&b"warning: "[..], &quoted, text.as_bytes()].concat());
    }

    fn done(&self, done: &haul_image::Report, from: &Path, to: &Path) {
        if self.request.verbose {
            self.show(words::statistics(&done.stats).as_bytes());
        }
        if self.request.debug {
            self.show(words::debugging(done).as_bytes());
        }
        if self.request.json {
            self.out(words::json(&done.stats, from).as_bytes());
            self.out(words::json_times(&done.stats, from).as_bytes());
        }
        if let Some(md5) = &done.md5 {
            self.out(&if self.request.json {
                words::json_md5(md5, from).into_bytes()
            } else {
                words::md5_line(md5, to)
            });
        }
    }

    fn problem(&self, error: &Error) {
        self.failed.store(true, Ordering::Relaxed);
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

/// Which file a path leads to, if there is one.
fn file_id(path: &Path) -> Option<FileId> {
    Inode::at_following(CWD, path.as_os_str()).ok().map(|inode| inode.id)
}

/// What is known of a source before it is copied.
#[derive(Clone, Copy)]
enum Known<'a> {
    Nothing,
    /// The same, but it is of a container: its disk, or one of its files.
    Contained,
    /// It is no disk of which anything could be found out.
    NoDisk,
    /// What may be skipped.
    Free(&'a Found),
}

/// Prints what happens.
struct Printer<'a> {
    command: &'a Command,
    source: &'a Path,
}

impl Observer for Printer<'_> {
    fn event(&self, event: &Event<'_>) {
        let command = self.command;
        let request = &command.request;
        let warn = |text: &str| command.warn(self.source, text);
        match event {
            // For programs that draw it: whatever opening and maps take, the first point is at 0.
            Event::Begun(stats) if request.json => self.command.out(words::json(stats, self.source).as_bytes()),
            Event::InUse(user) => {
                let hint = if user.is_continued() { "" } else { "; if it is a frozen snapshot, use --snapshot" };
                warn(&format!(" is in use and is copied whole: {user}{hint}"));
            }
            Event::Mapped(map) if request.debug => command.show(format!("Map:\n{map}").as_bytes()),
            Event::KeptWhole(why) => warn(&format!(" is kept whole: {why}")),
            Event::ToDevice if request.debug => {
                command.show(b"Large for the free memory: what can be goes to the device directly\n");
            }
            Event::NotDirect(path) => command.warn(path, ": no direct I/O is possible; going through the page cache"),
            Event::Second(stats) => {
                if request.verbose {
                    command.show(words::interval(stats).as_bytes());
                }
                if request.json {
                    command.out(words::json(stats, self.source).as_bytes());
                }
            }
            Event::Doubted(doubt, bytes) => warn(&format!(": copying {bytes} bytes that were free before: {doubt}")),
            Event::SourceWritten => {
                command.written.store(true, Ordering::Relaxed);
                warn(" was written to while it was being copied; copy a snapshot, or when nothing writes");
            }
            _ => {}
        }
    }
}

/// Whether the copy failed for that, and may succeed the next time.
fn was_written_to(failure: &haul_image::Failure) -> bool {
    failure.error.as_ref().is_some_and(|error| error.what == What::SourceWritten)
}

/// Nothing is.
fn no_map(image: &dyn ReadAt) -> Map {
    Map { size: image.size(), ..Map::default() }
}
