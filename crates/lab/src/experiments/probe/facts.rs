//! What the kernel reports of a filesystem, its device and the machine.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;

use haul_io::facts::cores;
use haul_io::probe;
use haul_measure::machine::Machine;
use haul_measure::memory;
use haul_measure::storage::Storage;
use haul_measure::words;
use haul_sys::filesystem::FilesystemType;
use haul_sys::inode::Inode;
use haul_sys::mountinfo::Mount;
use haul_sys::rustix::fs::{fstatfs, statvfs};
use haul_sys::rustix::param::page_size;

use crate::results::{Environment, Fact, fact};

fn yes(value: Option<bool>) -> &'static str {
    match value {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    }
}

pub fn filesystem(folder: &Path) -> Result<Vec<Fact>, String> {
    let failed = words::cannot("look at", folder);
    let path = folder.join("file");
    fs::write(&path, vec![1; 8192]).map_err(failed)?;
    let file = File::open(&path).map_err(failed)?;
    let inode = Inode::of(file.as_fd()).map_err(|errno| failed(errno.into()))?;
    let (whole, own) = (statvfs(folder), fstatfs(&file));
    let whole = whole.map_err(|errno| failed(errno.into()))?;
    let own = own.map_err(|errno| failed(errno.into()))?;
    fs::remove_file(&path).map_err(failed)?;
    let mount = probe::mount(file.as_fd());
    let known = |of: fn(&Mount) -> String| mount.as_ref().map_or_else(|| "unknown".to_owned(), of);
    let share = |blocks: u64| words::bytes(blocks.saturating_mul(whole.f_frsize));
    let place = probe::place(file.as_fd());
    let id = place.as_ref().map_or("is not unique", |place| &place.id);
    let free = format!("{} free, {} for this user", share(whole.f_bfree), share(whole.f_bavail));
    let request = words::bytes(inode.block_size.into());
    let number = inode.id.device();
    let magic = FilesystemType::from(&own).number();
    let alignment = match inode.direct {
        (0, 0) => "unknown".to_owned(),
        (memory, offset) => format!("memory {memory}, offset {offset} bytes"),
    };
    Ok(vec![
        fact("type", known(|mount| mount.filesystem.clone()), format!("0x{magic:x} by statfs")),
        fact(
            "mounted",
            known(|mount| mount.source.display().to_string()),
            known(|mount| format!("on {}", mount.point.display())),
        ),
        fact(
            "options",
            known(|mount| format!("{},{}", mount.options, mount.filesystem_options)),
            "/proc/self/mountinfo",
        ),
        fact("identity", id, "what a profile knows this storage by, with its type and disk"),
        fact("size", share(whole.f_blocks), free),
        fact("inodes", whole.f_files.to_string(), format!("{} free; 0 where there is no limit", whole.f_ffree)),
        fact("block", words::bytes(whole.f_frsize), format!("preferred request {request}")),
        fact("longest name", format!("{} bytes", whole.f_namemax), "statfs"),
        fact("alignment of direct I/O", alignment, "statx(STATX_DIOALIGN), Linux 6.1"),
        fact("device number", format!("{}:{}", number.major, number.minor), "major 0: no device of its own"),
    ])
}

pub fn device(folder: &Path) -> Result<Vec<Fact>, String> {
    let Some(device) = Storage::of(folder)?.device else {
        return Ok(vec![fact("device", "none", "the filesystem is in memory, on the network, or is a program")]);
    };
    let below = &device.folder;
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    let read = |name: &str| {
        let own = fs::read_to_string(below.join(name));
        let value = own.or_else(|_| fs::read_to_string(below.join("..").join(name))).ok()?;
        Some(value.trim().to_owned()).filter(|value| !value.is_empty())
    };
    let known = fs::read_to_string(below.join("dev")).ok().and_then(|number| {
        let (major, minor) = number.trim().split_once(':')?;
        let number = haul_sys::inode::DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? };
        probe::disk(number)
    });
    let heads = known.as_ref().and_then(|disk| disk.rotational);
    let disk = known.map_or_else(String::new, |disk| format!("whole disk {}", disk.path.display()));
    let sectors: Option<u64> = read("size").and_then(|sectors| sectors.parse().ok());
    let queue = |title: &str, path: &str, unit: &str| {
        let value = read(path).map_or_else(|| "unknown".to_owned(), |value| value + unit);
        fact(title, value, path)
    };
    Ok(vec![
        fact("name", &device.name, disk),
        fact("model", text(&device.model), "/sys"),
        fact("size", sectors.map_or("unknown".to_owned(), |count| words::bytes(count.saturating_mul(512))), "/sys"),
        fact("rotational", yes(device.rotational), "what the kernel says; virtual disks say it of any store"),
        fact("moving heads", yes(heads), "what haul believes of that"),
        fact("scheduler", text(&device.scheduler), "queue/scheduler"),
        fact("write cache", text(&device.write_cache), "queue/write_cache"),
        fact("stable pages", yes(device.stable_pages), "a write to a page under write-back waits for it"),
        queue("largest request", "queue/max_sectors_kb", " KiB"),
        queue("requests in flight", "queue/nr_requests", ""),
        queue("readahead", "queue/read_ahead_kb", " KiB"),
    ])
}

pub fn machine() -> Vec<Fact> {
    let machine = Environment::from(Machine::here());
    let available = probe::memory().map_or("unknown".to_owned(), words::bytes);
    let limit = memory::group_limit().map_or_else(|| "none".to_owned(), words::bytes);
    let virtual_machine = machine.virtual_machine.map(|name| format!("a virtual machine: {name}"));
    vec![
        fact("kernel", machine.kernel, virtual_machine.unwrap_or_else(|| "no hypervisor seen".to_owned())),
        fact("processors", cores().to_string(), format!("that this process may use; {}", machine.processor)),
        fact(
            "memory",
            words::bytes(machine.memory),
            format!("{available} available, within the limits of control groups"),
        ),
        fact("limit of the control group", limit, "memory.max of this process's group, or one above it"),
        fact("page", words::bytes(page_size() as u64), "huge pages beside them, where the kernel has them"),
    ]
}
