//! The throttling thread: changes the pace of a run when the control file says so, and when other programs have to wait.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use haul_frontend::files::open_regular;
use haul_frontend::report::Report;
use haul_frontend::throttle::{Settings, Throttling};
use haul_frontend::words;
use haul_io::pace::{Backoff, Limit, Pace, Pressure, Sample, Work, parse_run_delay, parse_stalled};
use haul_sys::rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::SIGUSR2;

/// Time between two looks at the control file.
const LOOK: Duration = Duration::from_secs(1);
/// A control file is a few words; more of it is not read.
const LARGEST_CONTROL: u64 = 4 << 10;
/// Time between two pauses.
const WORK: Duration = Duration::from_millis(450);
/// How long the jobs under way may take to end before the pause begins all the same.
const END_OF_JOBS: Duration = Duration::from_millis(250);
/// How long a pause is.
const PAUSE: Duration = Duration::from_millis(50);

/// What the thread works with.
pub struct Governor {
    report: Arc<Report>,
    control: Option<Control>,
    monitor: Option<PressureMonitor>,
    backoff: Backoff,
}

impl Governor {
    /// Sets the first limits. `None` if nothing can change them: then no thread is needed.
    ///
    /// # Errors
    /// `--yield` is not possible here. The copy goes on without it.
    pub fn new(report: Arc<Report>, throttling: &Throttling) -> (Option<Governor>, io::Result<()>) {
        report.pace().set_limit(throttling.limit);
        let control = throttling.control.clone().map(Control::new);
        let mut governor = Governor { report, control, monitor: None, backoff: Backoff::default() };
        let result = if throttling.yields { governor.set_yielding(true) } else { Ok(()) };
        governor.obey(false);
        let needed = governor.control.is_some() || governor.monitor.is_some();
        (needed.then_some(governor), result)
    }

    /// Starts the thread, which listens to SIGUSR2 if there is a control file.
    ///
    /// # Errors
    /// What the kernel says when there are no descriptors or threads left.
    pub fn start(self) -> io::Result<()> {
        let (listen, wake) = UnixStream::pair()?;
        if self.control.is_some() {
            signal_hook::low_level::pipe::register(SIGUSR2, wake.try_clone()?)?;
        }
        thread::Builder::new().stack_size(256 << 10).spawn(move || {
            // Dropped, the other end would look like a signal.
            let _wake = wake;
            self.govern(&listen);
        })?;
        Ok(())
    }

    fn pace(&self) -> &Pace {
        self.report.pace()
    }

    fn govern(mut self, listen: &UnixStream) {
        let mut next_look = Instant::now() + LOOK;
        let mut next_pause = Instant::now() + WORK;
        loop {
            let look = self.control.is_some().then_some(next_look);
            let pause = self.monitor.is_some().then_some(next_pause);
            let signal = signal_arrives(listen, look.into_iter().chain(pause).min());
            let now = Instant::now();
            if signal || look.is_some_and(|time| time <= now) {
                let was_off = self.monitor.is_none();
                self.obey(signal);
                if was_off {
                    next_pause = now + WORK;
                }
                next_look = now + LOOK;
            }
            if self.monitor.is_some() && next_pause <= now {
                self.back_off();
                next_pause = Instant::now() + WORK;
            }
        }
    }

    /// Does what the control file says, if it has changed or the user has said so by a signal.
    fn obey(&mut self, signal: bool) {
        let Some(control) = &mut self.control else { return };
        let settings = match control.read(signal) {
            None => return,
            Some(Ok(settings)) => settings,
            Some(Err(why)) => {
                let path = self.report.quoter().path(&control.path);
                let warning = [&b"control file "[..], &path, b" changes nothing: ", why.as_bytes()].concat();
                return self.report.warn(&warning);
            }
        };
        if let Some(limit) = settings.limit {
            self.pace().set_limit(limit);
        }
        if let Some(yields) = settings.yields
            && let Err(error) = self.set_yielding(yields)
        {
            self.report.warn(format!("cannot yield to other programs: {error}").as_bytes());
        }
    }

    fn set_yielding(&mut self, yields: bool) -> io::Result<()> {
        if yields == self.monitor.is_some() {
            return Ok(());
        }
        self.backoff = Backoff::default();
        self.monitor = if yields { Some(PressureMonitor::open(self.pace().done())?) } else { None };
        self.pace().set_yielded(yields.then_some(Limit::NONE));
        Ok(())
    }

    /// Pauses the run, measures whether other programs wait meanwhile, and adapts the limit.
    fn back_off(&mut self) {
        let pace = self.report.pace();
        let Some(monitor) = &mut self.monitor else { return };
        // It ends by itself, too: whatever happens here, the copy goes on.
        pace.be_silent(2 * (END_OF_JOBS + PAUSE));
        // A job that takes longer than this counts as somebody else's: such a device is too busy for us.
        let _silent = pace.wait_for_silence(END_OF_JOBS);
        let silence = monitor.look();
        let done = pace.done();
        thread::sleep(PAUSE);
        let end = monitor.look();
        pace.end_silence();
        let (pressure, time) = monitor.judge(&silence, end);
        let work = Work {
            bytes: done.bytes.saturating_sub(monitor.done.bytes),
            operations: done.operations.saturating_sub(monitor.done.operations),
        };
        monitor.done = done;
        pace.set_yielded(Some(self.backoff.step(pressure, work, time)));
    }
}

/// Waits for a signal, until a time if there is one.
fn signal_arrives(listen: &UnixStream, until: Option<Instant>) -> bool {
    let timeout = until.map(|time| time.saturating_duration_since(Instant::now()));
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    let mut ready = [PollFd::new(listen, PollFlags::IN)];
    match poll(&mut ready, timeout.as_ref()) {
        // Several signals are one: the file is read as it is now.
        Ok(1..) => matches!(haul_sys::rustix::io::read(listen, &mut [0u8; 64]), Ok(1..)),
        // Interrupted by a signal, about which the next round will read.
        _ => false,
    }
}

/// The file that changes the pace.
struct Control {
    path: PathBuf,
    /// What it said, or what was wrong with it, the last time.
    last: Option<Result<String, String>>,
}

impl Control {
    fn new(path: PathBuf) -> Control {
        Control { path, last: None }
    }

    /// What it says if that is new, or if the user wants it read. A file that is not there (yet, or any more) says nothing.
    fn read(&mut self, wanted: bool) -> Option<Result<Settings, String>> {
        let now = match text_of(&self.path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !wanted => {
                self.last = None;
                return None;
            }
            Err(error) => Err(words::io_error(&error)),
        };
        if !wanted && self.last.as_ref() == Some(&now) {
            return None;
        }
        let settings = match &now {
            Ok(text) => Settings::parse(text).map_err(|word| format!("'{}' is no setting", word.escape_debug())),
            Err(why) => Err(why.clone()),
        };
        self.last = Some(now);
        Some(settings)
    }
}

fn text_of(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(LARGEST_CONTROL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Measures how long other programs wait, by the pressure-stall figures of the kernel.
struct PressureMonitor {
    /// The machine, and the control group of this process where that is not all of it.
    views: Vec<View>,
    started: Instant,
    /// The last look of the last judgement.
    begin: Vec<Sample>,
    /// What the run had done then.
    done: Work,
}

/// Files with pressure-stall figures.
struct View {
    io: PathBuf,
    cpu: PathBuf,
}

impl PressureMonitor {
    fn open(done: Work) -> io::Result<PressureMonitor> {
        let machine = Path::new("/proc/pressure");
        let mut views = vec![View { io: machine.join("io"), cpu: machine.join("cpu") }];
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        views.extend(group_folder(&groups).into_iter().flat_map(|below| {
            // The second one is where both versions of control groups are in use.
            ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(|root| {
                let folder = Path::new(root).join(below);
                View { io: folder.join("io.pressure"), cpu: folder.join("cpu.pressure") }
            })
        }));
        let why = stalled(&views[0].io).err();
        views.retain(|view| stalled(&view.io).is_ok());
        if let Some(why) = why.filter(|_| views.is_empty()) {
            return Err(why);
        }
        let mut monitor = PressureMonitor { views, started: Instant::now(), begin: Vec::new(), done };
        monitor.begin = monitor.look();
        Ok(monitor)
    }

    fn look(&self) -> Vec<Sample> {
        let own_cpu_wait = own_cpu_wait();
        let sample = |view: &View| Sample {
            at: self.started.elapsed(),
            // A figure that cannot be read any more shows no pressure.
            io_stalled: stalled(&view.io).unwrap_or_default(),
            cpu_stalled: stalled(&view.cpu).unwrap_or_default(),
            own_cpu_wait,
        };
        self.views.iter().map(sample).collect()
    }

    /// The worst that any view shows, and the time of work that it is about.
    fn judge(&mut self, silence: &[Sample], end: Vec<Sample>) -> (Pressure, Duration) {
        let mut worst = Pressure::default();
        for ((begin, silence), end) in self.begin.iter().zip(silence).zip(&end) {
            let pressure = Pressure::of_others(begin, silence, end);
            worst = Pressure { io: worst.io.max(pressure.io), cpu: worst.cpu.max(pressure.cpu) };
        }
        let moment = |samples: &[Sample]| samples.first().map_or(Duration::ZERO, |sample| sample.at);
        let time = moment(silence).saturating_sub(moment(&self.begin));
        self.begin = end;
        (worst, time)
    }
}

fn stalled(path: &Path) -> io::Result<Duration> {
    let mut text = String::new();
    File::open(path)?.read_to_string(&mut text)?;
    parse_stalled(&text).ok_or_else(|| io::Error::other("no pressure-stall figures"))
}

/// Time that the threads of this process have waited for a processor. One that ends takes its time with it.
fn own_cpu_wait() -> Duration {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let waits = threads.filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok());
    waits.filter_map(|text| parse_run_delay(&text)).sum()
}

/// The control group of this process below the root of version 2, from /proc/self/cgroup; `None` if that is the root.
fn group_folder(text: &str) -> Option<&str> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    (!path.is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_group_is_that_of_version_2() {
        assert_eq!(group_folder("0::/user.slice/session-3.scope\n"), Some("user.slice/session-3.scope"));
        assert_eq!(group_folder("9:memory:/a\n1:cpu:/\n0::/\n"), None);
        assert_eq!(group_folder("9:memory:/a\n"), None);
    }

    #[test]
    fn a_control_file_is_read_when_it_changes_or_when_that_is_wanted() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("control");
        let mut control = Control::new(path.clone());
        assert_eq!(control.read(false), None, "it need not be there");
        fs::write(&path, "yield=on").expect("it can be written");
        let on = Settings { yields: Some(true), ..Settings::default() };
        assert_eq!(control.read(false), Some(Ok(on)));
        assert_eq!(control.read(false), None, "it has not changed");
        assert_eq!(control.read(true), Some(Ok(on)));
        fs::write(&path, "yield=no").expect("it can be written");
        assert_eq!(control.read(false), Some(Err("'yield=no' is no setting".to_owned())));
        assert_eq!(control.read(false), None, "said once");
        fs::remove_file(&path).expect("it is there");
        assert_eq!(control.read(false), None);
        assert_eq!(control.read(true), Some(Err("No such file or directory".to_owned())));
    }

    #[test]
    fn a_control_file_that_is_none_holds_nobody_up() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut control = Control::new(dir.path().to_owned());
        assert!(matches!(control.read(false), Some(Err(_))));
        let fifo = dir.path().join("fifo");
        let made = haul_testbed::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo can be run");
        assert!(made.success());
        assert_eq!(Control::new(fifo).read(false), Some(Err("it is no regular file".to_owned())));
    }
}
