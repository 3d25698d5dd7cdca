//! A disk that is slow, or fails.

use std::cell::OnceCell;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;

use crate::Command;
use crate::bed::{Bed, Fs};
use crate::guest::run;
use crate::misbehaving::{Fault, Manner, Misbehaving, On, What};
use crate::skip::skip;
use crate::temporary::temp_dir;

/// The image in the filesystem below.
const IMAGE: &str = "disk";

/// A mounted ext4 on a loop device, whose image is in a FUSE filesystem that takes its time for each write: a request of
/// 128 KiB at most, one after the other. So its writes are slow, its reads are not, and it has no cache of its own.
///
/// Whoever answers for the image is in this process and touches no other memory than its own. What writes to the disk must
/// be another process: a thread that waits for the disk may hold what an answer needs (the memory map of the process).
pub struct SlowDisk {
    path: PathBuf,
    device: String,
    /// The most KiB in one request, before that was changed.
    usual_write: OnceCell<String>,
    // Dropped last: unmounting writes.
    below: Misbehaving,
}

impl SlowDisk {
    /// Mounts an empty one of `size` bytes (256 MiB at most, all of it in memory) on a new directory of this name. It is quick
    /// until [`SlowDisk::slow_down`]. With `stable` it demands that pages do not change while they are written. `None`, after
    /// a [`skip`], where the machine lacks mkfs.ext4 or FUSE.
    ///
    /// # Panics
    /// If there are both and it cannot be made all the same.
    #[must_use]
    pub fn mount(bed: &Bed, name: &str, size: u64, stable: bool) -> Option<SlowDisk> {
        let images = temp_dir();
        let image = images.path().join(IMAGE);
        if !Fs::Ext4.format(&image, size) {
            return None;
        }
        let below = Misbehaving::mount(bed, &format!("{name}-below"), Manner::default())?;
        below.add_file(IMAGE, &fs::read(&image).expect("the image was just made"));
        let path = bed.path().join(name);
        fs::create_dir(&path).expect("cannot make a mount point");
        let image = below.path().join(IMAGE);
        let device = run(Command::new("losetup").args(["--find", "--show"]).arg(image)).trim().to_owned();
        let disk = SlowDisk { path, device, usual_write: OnceCell::new(), below };
        disk.demand_stable_pages(stable);
        run(Command::new("mount").args(["-t", "ext4", "-o", "noinit_itable", &disk.device]).arg(&disk.path));
        Some(disk)
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// From now on each write takes so long.
    pub fn slow_down(&self, time: Duration) {
        self.below.on(Fault::of(On::Write, IMAGE).does(What::Delay(time)));
    }

    /// After so many writes from now on one fails, and none after it.
    ///
    /// # Panics
    /// If the kernel cannot be made to make one request of each write: for one of which only a later part fails, a loop device
    /// answers that all is well (Linux 6.18).
    pub fn fail_once_after(&self, writes: u32) {
        let largest = self.largest_write();
        self.usual_write.get_or_init(|| fs::read_to_string(&largest).expect("the device is there"));
        fs::write(largest, "64").expect("cannot limit what is written at once");
        self.below.on(Fault::of(On::Write, IMAGE).after(writes).does(What::Fail(Errno::IO)).once());
    }

    /// From now on it is quick, and nothing fails.
    pub fn hurry(&self) {
        self.below.behave();
    }

    /// How many writes were slow, or failed.
    pub fn slowed(&self) -> u32 {
        self.below.met()
    }

    /// From now on the kernel makes who writes to it rest, since no more than about so many bytes may be dirty there. `false`,
    /// after a [`skip`], where the kernel (before Linux 6.2) has no such setting.
    ///
    /// # Panics
    /// If it can, and fails all the same.
    #[must_use]
    pub fn hold_writers_back(&self, bytes: u64) -> bool {
        let limit = self.limits().join("strict_limit");
        if !limit.exists() {
            skip("there is no strict_limit of dirty memory");
            return false;
        }
        fs::write(limit, "1").expect("cannot set a strict limit");
        fs::write(self.limits().join("max_bytes"), bytes.to_string()).expect("cannot set how much may be dirty");
        true
    }

    /// The file that sets how much one request may write.
    fn largest_write(&self) -> PathBuf {
        let name = self.device.trim_start_matches("/dev/");
        PathBuf::from(format!("/sys/block/{name}/queue/max_sectors_kb"))
    }

    /// What the kernel lets be dirty of this disk.
    fn limits(&self) -> PathBuf {
        let number = fs::metadata(&self.device).expect("the device is there").rdev();
        PathBuf::from(format!("/sys/class/bdi/{}:{}", rustix::fs::major(number), rustix::fs::minor(number)))
    }

    /// Filesystems look at it when they are mounted.
    fn demand_stable_pages(&self, stable: bool) {
        let name = self.device.trim_start_matches("/dev/");
        let demand = fs::write(format!("/sys/block/{name}/queue/stable_writes"), if stable { "1" } else { "0" });
        demand.expect("cannot set what a loop device demands");
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        self.hurry();
        // Best effort, each of them: the mount ends with its namespace, and a loop device that is in use then is freed as soon
        // as it is not. The next one with this number must not demand what this one did.
        Command::new("umount").arg(&self.path).status().map(drop).unwrap_or_default();
        self.demand_stable_pages(false);
        if let Some(usual) = self.usual_write.get() {
            fs::write(self.largest_write(), usual.trim()).unwrap_or_default();
        }
        fs::write(self.limits().join("strict_limit"), "0").unwrap_or_default();
        fs::write(self.limits().join("max_ratio"), "100").unwrap_or_default();
        Command::new("losetup").args(["--detach", &self.device]).status().map(drop).unwrap_or_default();
    }
}
