//! Where copies are made, and who else is there.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use haul_agree::snapshot::Snapshot;
use haul_testbed::power::Template;
use haul_testbed::{Bed, Fs};

use crate::crash::judge::{self, Verdict};
use crate::crash::scene;
use crate::ways::Way;

/// The destination's name in its filesystem.
const DEST: &str = "dest";

/// A filesystem with the older tree on it, to be had as often as wanted, and the tree to be copied, on another one.
pub struct Place<'a> {
    pub bed: &'a Bed,
    pub kind: Fs,
    pub template: Template,
    pub source: PathBuf,
    pub before: Snapshot,
    pub new: Snapshot,
}

impl<'a> Place<'a> {
    /// Makes both. `None`, after a skip, where the machine lacks something.
    pub fn new(bed: &'a Bed, kind: Fs) -> Option<Place<'a>> {
        let source = bed.mount(Fs::Ext4)?.join("source");
        if !source.exists() {
            scene::lay_new(&source);
        }
        let mut before = Snapshot::new();
        let template = Template::new(bed, kind, 96 << 20, |root| {
            scene::lay_old(&dest(root));
            before = judge::look(&dest(root)).expect("the older tree can be read");
            Neighbour::settle(root);
        })?;
        let new = judge::look(&source).expect("the source can be read");
        Some(Place { bed, kind, template, source, before, new })
    }

    /// Judges the destination below this mount point; in words if it cannot even be read.
    pub fn judge(&self, root: &Path) -> Result<Verdict, String> {
        let found = judge::look(&dest(root)).map_err(|error| format!("the destination cannot be read: {error}"))?;
        Ok(Verdict::new(&found, &self.before, &self.new))
    }

    /// Makes the copy again below this mount point, and judges it; in words if that fails.
    pub fn again(&self, way: &Way, root: &Path) -> Result<Verdict, String> {
        let status = way.command(&self.source, &dest(root)).status().expect("it can be run");
        if status.success() { self.judge(root) } else { Err(format!("the copy cannot be made again: {status}")) }
    }

    /// How many names of the destination the copy leaves alone.
    pub fn untouched(&self) -> usize {
        judge::untouched(&self.before, &self.new)
    }
}

/// The destination below a mount point.
pub fn dest(root: &Path) -> PathBuf {
    root.join(DEST)
}

/// Somebody who syncs a file of his own on the destination's filesystem, again and again. With each time the journal commits
/// what others have done to names, and not what they have written to files: so he makes visible who relies on
/// both reaching the device together. And what was reported as synced must be there afterwards, which shows
/// that the cut is no worse than a real one.
pub struct Neighbour {
    thread: JoinHandle<u64>,
    stop: Arc<AtomicBool>,
}

impl Neighbour {
    /// Makes his file.
    fn settle(root: &Path) {
        fs::write(root.join("neighbour"), 0u64.to_le_bytes()).expect("a file can be written");
    }

    /// Starts to write numbers that grow.
    pub fn start(root: &Path) -> Neighbour {
        let file = OpenOptions::new().write(true).open(root.join("neighbour")).expect("it is there");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let mut synced = 0;
            while !stopped.load(Ordering::Relaxed) {
                let next = synced + 1;
                if file.write_all_at(&u64::to_le_bytes(next), 0).and_then(|()| file.sync_all()).is_err() {
                    break;
                }
                synced = next;
                // He leaves the copier some time on the device.
                thread::sleep(Duration::from_micros(200));
            }
            synced
        });
        Neighbour { thread, stop }
    }

    /// Stops him, after a cut or not, and gives the last number that was synced.
    pub fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("he does not panic")
    }

    /// The number in his file.
    pub fn found(root: &Path) -> u64 {
        let mut number = [0; 8];
        File::open(root.join("neighbour")).and_then(|file| file.read_exact_at(&mut number, 0)).expect("it is there");
        u64::from_le_bytes(number)
    }
}
