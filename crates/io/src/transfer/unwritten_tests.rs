use std::collections::HashMap;

use haul_sys::rustix::fs::{MemfdFlags, memfd_create};

use super::*;

const MIB: u64 = 1 << 20;

/// A device that writes so many bytes a second, in the order in which it was begun. Its time passes only where somebody waits.
struct Simulated(Arc<Mutex<Clockwork>>);

struct Clockwork {
    bytes_a_second: f64,
    now: Duration,
    /// When all is written that was begun.
    idle_at: Duration,
    /// When a range is written, by where it ends.
    done_at: HashMap<u64, Duration>,
    begun: u64,
    /// How much was left to write each time that somebody had waited.
    left_after_waits: Vec<Duration>,
    for_others: u64,
    begin_fails: Option<Errno>,
    wait_fails: Option<Errno>,
}

impl Clockwork {
    fn begin(&mut self, (offset, len): (u64, u64)) {
        let end = offset + len;
        if !self.done_at.contains_key(&end) {
            let takes = Duration::from_secs_f64(len as f64 / self.bytes_a_second);
            self.idle_at = self.idle_at.max(self.now) + takes;
            self.done_at.insert(end, self.idle_at);
            self.begun += len;
        }
    }
}

impl Storage for Simulated {
    fn begin(&self, _: BorrowedFd<'_>, range: (u64, u64)) -> Result<(), Errno> {
        let mut clock = self.0.lock();
        clock.begin(range);
        clock.begin_fails.map_or(Ok(()), Err)
    }

    fn wait(&self, piece: &Piece) -> Result<(), Errno> {
        let mut clock = self.0.lock();
        clock.begin(piece.range);
        clock.now = clock.now.max(clock.done_at[&(piece.range.0 + piece.range.1)]);
        let left = clock.idle_at.saturating_sub(clock.now);
        clock.left_after_waits.push(left);
        clock.wait_fails.map_or(Ok(()), Err)
    }

    fn now(&self) -> Duration {
        self.0.lock().now
    }

    fn written(&self) -> Option<u64> {
        let clock = self.0.lock();
        let own = clock.begun as f64 - clock.idle_at.saturating_sub(clock.now).as_secs_f64() * clock.bytes_a_second;
        let others = clock.for_others as f64 * clock.now.as_secs_f64();
        Some((own.max(0.0) + others) as u64)
    }
}

struct Scene {
    device: Arc<Device>,
    clock: Arc<Mutex<Clockwork>>,
    cancel: Cancel,
    file: Sending,
    at: u64,
}

fn file() -> Arc<OwnedFd> {
    Arc::new(memfd_create("haul", MemfdFlags::CLOEXEC).unwrap())
}

impl Scene {
    fn new(bytes_a_second: f64) -> Scene {
        Scene::with_open(bytes_a_second, OPEN as usize)
    }

    fn with_open(bytes_a_second: f64, most: usize) -> Scene {
        let clock = Arc::new(Mutex::new(Clockwork {
            bytes_a_second,
            now: Duration::ZERO,
            idle_at: Duration::ZERO,
            done_at: HashMap::new(),
            begun: 0,
            left_after_waits: Vec::new(),
            for_others: 0,
            begin_fails: None,
            wait_fails: None,
        }));
        let open = Arc::new(Open { now: AtomicUsize::new(0), most: OnceLock::from(most) });
        let device = Arc::new(Device::new(Box::new(Simulated(Arc::clone(&clock))), open));
        let cancel = Cancel::default();
        let file = Sending::new(Arc::clone(&device), &file(), (0, WORTH_TIMING), &cancel);
        Scene { device, clock, cancel, file, at: 0 }
    }

    /// Copies as much as a copy that takes no time, and lets the device have it.
    fn copy(&mut self, mebibytes: u64) {
        for _ in 0..mebibytes {
            self.at += MIB;
            self.file.moved(Moved { written: MIB, ..Moved::default() });
            self.file.reached(self.at);
            self.file.let_follow();
        }
    }

    /// Copies a sample, and waits until it is measured.
    fn measured(bytes_a_second: f64) -> Scene {
        let mut scene = Scene::new(bytes_a_second);
        scene.copy(SAMPLE / MIB);
        scene.wait_until_measured();
        scene
    }

    fn wait_until_measured(&self) {
        while self.device.is(Phase::Measuring) {
            self.device.look_later(self.device.queue.lock());
        }
    }

    /// How long the device needs for what was copied.
    fn left(&self) -> Duration {
        let clock = self.clock.lock();
        let not_begun = (self.at - clock.begun) as f64 / clock.bytes_a_second;
        clock.idle_at.saturating_sub(clock.now) + Duration::from_secs_f64(not_begun)
    }

    fn settle(&self) -> Option<Errno> {
        self.device.settle(&|| self.cancel.is_cancelled())
    }
}

#[test]
fn a_copy_of_a_few_megabytes_is_left_to_the_kernel() {
    let mut scene = Scene::new(1e6);
    scene.copy(7);
    assert_eq!(scene.settle(), None);
    let clock = scene.clock.lock();
    assert_eq!((clock.begun, clock.now), (0, Duration::ZERO), "nobody waited");
}

#[test]
fn files_that_are_not_much_together_are_left_to_the_kernel() {
    let scene = Scene::new(1e6);
    for number in 1..=8 {
        let file = Sending::new(Arc::clone(&scene.device), &file(), (0, 8 * MIB), &scene.cancel);
        file.moved(Moved { written: 8 * MIB, ..Moved::default() });
        file.reached(8 * MIB);
        file.end();
        assert_eq!(scene.device.is(Phase::Unknown), number < 8, "{number} files");
    }
    scene.wait_until_measured();
    assert!(scene.device.is(Phase::Slow));
    assert!(scene.device.queue.lock().pieces.iter().all(|piece| piece.begun.is_some()), "the others are written, too");
}

#[test]
fn a_quick_device_writes_a_sample_early_and_no_more() {
    let mut scene = Scene::measured(500e6);
    assert!(scene.device.is(Phase::Quick));
    scene.copy(1000);
    assert_eq!(scene.clock.lock().begun, SAMPLE, "the rest is left to the kernel");
    assert_eq!(scene.file.job(), u64::MAX);
    assert!(scene.device.queue.lock().pieces.is_empty());
}

#[test]
fn a_quick_device_is_timed_again_after_a_gibibyte() {
    let mut scene = Scene::measured(500e6);
    scene.clock.lock().bytes_a_second = 20e6;
    scene.copy(1024 + 8);
    scene.wait_until_measured();
    assert!(scene.device.is(Phase::Slow));
}

#[test]
fn a_device_that_is_busy_for_others_is_not_taken_for_slow() {
    let mut scene = Scene::new(20e6);
    scene.clock.lock().for_others = 90_000_000;
    scene.copy(8);
    scene.wait_until_measured();
    assert!(scene.device.is(Phase::Quick));
}

#[test]
fn a_slow_device_never_has_more_to_write_than_it_does_in_two_seconds() {
    for rate in [2e6, 20e6, 90e6] {
        let mut scene = Scene::measured(rate);
        assert!(scene.device.is(Phase::Slow));
        for _ in 0..200 {
            scene.copy(1);
            assert!(scene.left() <= Duration::from_secs(2), "{rate}: {:?}", scene.left());
        }
        assert_eq!(scene.settle(), None);
        assert!(scene.device.queue.lock().pieces.is_empty(), "no file stays open");
    }
}

#[test]
fn what_threads_write_here_and_there_is_little_for_a_slow_device_too() {
    let scene = Scene::measured(20e6);
    let file = Arc::new(Sending::new(Arc::clone(&scene.device), &file(), (0, 400 * MIB), &scene.cancel));
    let first = Scattered::new(file);
    let (before, step) = (scene.clock.lock().begun, MIB / 8);
    for (at, mut thread) in [(1 << 30, first.clone()), (2 << 30, first)] {
        for number in 0..8 * 200 + 4 {
            thread.wrote((at + number * step, step), step);
            let clock = scene.clock.lock();
            let left = clock.idle_at.saturating_sub(clock.now);
            assert!(left <= Duration::from_secs(2), "{left:?}");
        }
        thread.end();
    }
    assert_eq!(scene.clock.lock().begun - before, 401 * MIB, "the last half of a mebibyte, too");
    assert_eq!(scene.settle(), None);
}

#[test]
fn a_slow_device_has_something_to_write_all_the_time() {
    let mut scene = Scene::measured(20e6);
    scene.clock.lock().left_after_waits.clear();
    scene.copy(400);
    let clock = scene.clock.lock();
    assert!(clock.left_after_waits.len() > 300, "{}", clock.left_after_waits.len());
    assert!(clock.left_after_waits.iter().all(|left| *left > Duration::from_secs(1)));
}

#[test]
fn time_in_which_nothing_was_copied_makes_no_device_slower() {
    let mut scene = Scene::measured(20e6);
    scene.copy(100);
    let before = scene.device.queue.lock().rate.latest();
    scene.clock.lock().now += Duration::from_secs(60);
    scene.copy(100);
    let after = scene.device.queue.lock().rate.latest();
    assert!(after >= before / 10 * 9, "{before} bytes before, {after} after");
}

#[test]
fn a_device_that_gets_quick_is_left_to_the_kernel() {
    let mut scene = Scene::measured(20e6);
    scene.copy(100);
    scene.clock.lock().bytes_a_second = 1000e6;
    scene.copy(1800);
    assert!(scene.device.is(Phase::Quick));
}

#[test]
fn holes_and_shared_extents_do_not_show_how_quick_a_device_is() {
    let scene = Scene::new(1e6);
    for at in 1..100 {
        scene.file.moved(Moved { holes: MIB, cloned: MIB, ..Moved::default() });
        scene.file.reached(at * 2 * MIB);
        scene.file.let_follow();
    }
    assert!(scene.device.is(Phase::Unknown));
    assert_eq!(scene.clock.lock().begun, 0);
}

#[test]
fn what_an_earlier_run_has_copied_does_not_count() {
    let scene = Scene::new(20e6);
    let (start, cancel) = (100 * MIB, Cancel::default());
    let resumed = Sending::new(Arc::clone(&scene.device), &file(), (start, start + 8 * MIB), &cancel);
    for at in 1..=8 {
        resumed.moved(Moved { written: MIB, ..Moved::default() });
        resumed.reached(start + at * MIB);
        resumed.let_follow();
    }
    scene.wait_until_measured();
    assert_eq!(scene.clock.lock().begun, SAMPLE);
}

#[test]
fn a_copy_that_is_too_far_ahead_waits_until_the_device_is_measured() {
    let mut scene = Scene::new(20e6);
    let mut queue = scene.device.queue.lock();
    scene.device.enter(&mut queue, Phase::Measuring);
    drop(queue);
    scene.copy(AHEAD / MIB);
    let looked = AtomicUsize::new(0);
    let cancelled = || {
        // It goes round as long as it waits, and is let go when that has been seen.
        if looked.fetch_add(1, Ordering::Relaxed) == 2 {
            scene.device.leave_to_kernel(scene.device.queue.lock());
        }
        false
    };
    scene.device.queue.lock().ahead += 1;
    scene.device.let_follow(&cancelled);
    assert_eq!(looked.load(Ordering::Relaxed), 3);
}

#[test]
fn nobody_waits_for_a_device_once_the_run_is_cancelled() {
    let mut scene = Scene::measured(1e6);
    scene.cancel.cancel();
    let before = scene.clock.lock().now;
    scene.copy(50);
    assert_eq!(scene.settle(), None);
    assert_eq!(scene.clock.lock().now, before);
    let measuring = Scene::new(1e6);
    measuring.device.enter(&mut measuring.device.queue.lock(), Phase::Measuring);
    measuring.cancel.cancel();
    assert_eq!(measuring.settle(), None, "nor for what is being measured");
}

#[test]
fn an_error_of_the_data_is_kept_until_the_end() {
    let mut scene = Scene::measured(20e6);
    scene.clock.lock().wait_fails = Some(Errno::IO);
    scene.copy(100);
    scene.clock.lock().wait_fails = None;
    scene.copy(100);
    assert_eq!(scene.settle(), Some(Errno::IO));
}

#[test]
fn files_that_cannot_be_written_on_demand_are_left_to_the_kernel() {
    let mut scene = Scene::new(1e6);
    scene.clock.lock().begin_fails = Some(Errno::INVAL);
    scene.copy(8);
    scene.wait_until_measured();
    scene.copy(100);
    assert!(scene.device.is(Phase::Quick));
    assert_eq!(scene.settle(), None);
}

#[test]
fn few_files_are_open_whatever_is_copied_to_a_slow_device() {
    let mut scene = Scene::with_open(1e6, 4);
    scene.copy(8);
    scene.wait_until_measured();
    for number in 0..400 {
        let small = Sending::new(Arc::clone(&scene.device), &file(), (0, 60_000 + number), &scene.cancel);
        small.small(60_000 + number);
        assert!(scene.device.open.now.load(Ordering::Relaxed) <= 4);
    }
    scene.settle();
    drop(scene.file);
    assert_eq!(scene.device.open.now.load(Ordering::Relaxed), 0);
}

#[test]
fn small_files_count_together_once_a_device_is_slow() {
    let mut scene = Scene::measured(20e6);
    for number in 0..2000 {
        let small = Sending::new(Arc::clone(&scene.device), &file(), (0, 60_000 + number), &scene.cancel);
        small.small(60_000 + number);
        scene.at += 60_000 + number;
        assert!(scene.left() <= Duration::from_secs(2), "{:?}", scene.left());
    }
}

#[test]
fn a_file_that_is_removed_is_not_kept_open() {
    let mut scene = Scene::new(1e6);
    scene.copy(7);
    assert_eq!(scene.device.queue.lock().pieces.len(), 7);
    scene.file.abandon();
    let queue = scene.device.queue.lock();
    assert_eq!((queue.pieces.len(), queue.ahead), (0, 0));
}

#[test]
fn written_bytes_are_the_seventh_field_of_a_device() {
    let line = "    1234     5    67890    12      400      7    16000     33   0   20   45  0 0 0 0\n";
    assert_eq!(written_of(line), Some(16000 * 512));
    assert_eq!(written_of("1 2 3"), None);
}

#[test]
fn only_files_of_block_devices_are_seen_to() {
    let unwritten = Unwritten::default();
    let file = file();
    let memory = DeviceNumber { major: 0, minor: 1 };
    assert!(unwritten.device(memory, file.as_fd()).is_none());
    let disk = DeviceNumber { major: 8, minor: 1 };
    let device = unwritten.device(disk, file.as_fd()).unwrap();
    assert!(Arc::ptr_eq(&device, &unwritten.device(disk, file.as_fd()).unwrap()), "all threads share it");
    assert_eq!(unwritten.settle(&|| false), None);
}
