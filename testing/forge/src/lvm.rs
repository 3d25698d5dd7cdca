//! Volume groups made by LVM itself, on loop devices and without device-mapper.

use std::fs::{self, File};
use std::path::PathBuf;

use haul_guest::ExtentSet;
use haul_testbed::guest::{has, run};
use haul_testbed::{Command, TempDir, data_extents, skip, temp_dir};

use crate::pages::{self, Pages};

/// A volume group vg0 on disks of its own.
pub struct Lvm {
    dir: TempDir,
    devices: Vec<String>,
}

impl Lvm {
    /// Makes the group on disks of these sizes; `None`, after a skip, where that is not possible.
    pub fn new(sizes: &[u64], pvcreate: &[&str]) -> Option<Lvm> {
        if !has("lvm") || !has("losetup") {
            return None;
        }
        let mut lvm = Lvm { dir: temp_dir(), devices: Vec::new() };
        for (number, size) in sizes.iter().enumerate() {
            File::create(lvm.path(number)).unwrap().set_len(*size).unwrap();
            let done = Command::new("losetup").args(["-f", "--show"]).arg(lvm.path(number)).output().unwrap();
            if !done.status.success() {
                skip("no loop device (needs root)");
                return None;
            }
            lvm.devices.push(String::from_utf8(done.stdout).unwrap().trim().to_owned());
        }
        // Only these devices, nothing of the machine's own, and no device-mapper.
        let filter: String = lvm.devices.iter().map(|device| format!("\"a|^{device}$|\", ")).collect();
        let config = format!(
            "devices {{ use_devicesfile=0 obtain_device_list_from_udev=0 external_device_info_source=\"none\" \
             filter=[{filter}\"r|.*|\"] }}\n\
             activation {{ udev_sync=0 udev_rules=0 monitoring=0 }}\n\
             global {{ locking_dir=\"{0}\" use_lvmpolld=0 event_activation=0 thin_check_executable=\"\" }}\n\
             backup {{ backup=0 archive=0 }}\n\
             allocation {{ wipe_signatures_when_zeroing_new_lvs=0 thin_pool_zero=0 }}\n",
            lvm.dir.path().display()
        );
        fs::write(lvm.dir.path().join("lvm.conf"), config).unwrap();
        let devices: Vec<&str> = lvm.devices.iter().map(String::as_str).collect();
        run(lvm.command("pvcreate").args(["-q"]).args(pvcreate).args(&devices));
        run(lvm.command("vgcreate").args(["-q", "vg0"]).args(&devices));
        Some(lvm)
    }

    /// The image of a disk.
    pub fn path(&self, disk: usize) -> PathBuf {
        self.dir.path().join(format!("disk{disk}"))
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new("lvm");
        command.arg(name).env("LVM_SYSTEM_DIR", self.dir.path()).env("LVM_SUPPRESS_FD_WARNINGS", "1");
        command
    }

    /// Runs a command that changes volumes.
    pub fn run(&self, name: &str, args: &[&str]) {
        let mut command = self.command(name);
        command.args(["-q", "-y", "--driverloaded", "n"]);
        if name == "lvcreate" {
            command.args(["-an", "-Wn"]);
            // Only where there is something to be zeroed.
            command.args(if args.contains(&"thin-pool") || args.contains(&"-T") { &[][..] } else { &["-Zn"] });
        }
        run(command.args(args));
        self.flush();
    }

    fn flush(&self) {
        for device in &self.devices {
            run(Command::new("blockdev").args(["--flushbufs", device]));
        }
    }

    /// What a disk has, where it has data.
    pub fn image(&self, disk: usize) -> Pages {
        self.flush();
        let path = self.path(disk);
        let data = data_extents(&File::open(&path).unwrap());
        Pages::of(&pages::open(&path), data.into_iter().map(|(start, len)| start..start + len))
    }

    /// The bytes of a disk in extents that LVM calls free.
    pub fn free_extents(&self, disk: usize) -> ExtentSet {
        let segments = self.segments(disk);
        ExtentSet::from_ranges(segments.into_iter().filter(|(volume, _)| volume.is_empty()).map(|(_, range)| range))
    }

    /// What LVM says is where on a disk: the name of a volume, or nothing.
    pub fn segments(&self, disk: usize) -> Vec<(String, std::ops::Range<u64>)> {
        let fields = "pvseg_start,pvseg_size,pe_start,vg_extent_size,lv_name";
        let args = ["--segments", "-a", "--noheadings", "--nosuffix", "--units", "b", "--separator", ",", "-o", fields];
        let lines = run(self.command("pvs").args(args).arg(&self.devices[disk]));
        let segment = |line: &str| {
            let fields: Vec<&str> = line.trim().split(',').collect();
            let number = |at: usize| fields[at].parse::<u64>().unwrap();
            let start = number(2) + number(0) * number(3);
            (fields[4].to_owned(), start..start + number(1) * number(3))
        };
        lines.lines().filter(|line| !line.trim().is_empty()).map(segment).collect()
    }
}

impl Drop for Lvm {
    fn drop(&mut self) {
        for device in &self.devices {
            // Best effort: the test may have failed already.
            Command::new("losetup").args(["-d", device]).status().map(drop).unwrap_or_default();
        }
    }
}
