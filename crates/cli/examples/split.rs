//! What it takes to make, save, load and split a list of so many entries: `cargo run --release --example split 1000000 64`.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::num::NonZero;
use std::time::Instant;

use haul_copy::list::{self, Entry, FileList};
use haul_sys::inode::{Kind, Time};

/// Files in a directory.
const IN_DIRECTORY: u32 = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let entries: u32 = arguments.next().map_or(Ok(1_000_000), |word| word.parse())?;
    let shards: NonZero<u32> = arguments.next().map_or(Ok(NonZero::<u32>::MIN), |word| word.parse())?;
    let started = Instant::now();
    let list = make(entries)?;
    println!("made: {} entries in {:?}, {}", list.len(), started.elapsed(), memory());
    let started = Instant::now();
    let mut bytes = Vec::new();
    list::save(&list, &mut bytes)?;
    println!("saved: {} bytes in {:?}", bytes.len(), started.elapsed());
    let started = Instant::now();
    let loaded = list::load(&mut &bytes[..])?;
    println!("loaded in {:?}", started.elapsed());
    drop((list, bytes));
    println!("before the split: {}", memory());
    let started = Instant::now();
    let split = list::split(&loaded, shards);
    println!("split into {shards} in {:?}, {}", started.elapsed(), memory());
    let (entries, bytes): (Vec<u64>, Vec<u64>) = split.work().iter().map(|work| (work.entries, work.bytes)).unzip();
    println!(
        "entries: {:?} to {:?}, bytes: {:?} to {:?}",
        entries.iter().min(),
        entries.iter().max(),
        bytes.iter().min(),
        bytes.iter().max()
    );
    Ok(())
}

fn make(entries: u32) -> Result<FileList, Box<dyn Error>> {
    let mut list = FileList::default();
    list.add_operand("tree".as_ref(), None);
    let time = |number: u32| Time { seconds: 1_600_000_000 + i64::from(number), nanoseconds: number };
    let entry = |kind, size, number| Entry { kind, size, modified: time(number), changed: time(number), id: None };
    let root = list.add_root(&entry(Kind::Directory, 0, 0))?;
    let mut random = 1u64;
    let mut directory = root;
    for number in 1..entries {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let name = OsString::from(format!("{:08x}-{number}", random >> 32));
        if number % IN_DIRECTORY == 1 {
            directory = list.add(root, &name, &entry(Kind::Directory, 0, number))?;
        } else {
            // Most are small, and some are very large.
            let size = 1u64 << (random >> 59) << (random >> 54 & 3);
            list.add(directory, &name, &entry(Kind::Regular, size, number))?;
        }
    }
    Ok(list)
}

/// What this process has in memory, and had at most, as the kernel says it.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lines = status.lines().filter(|line| line.starts_with("VmRSS") || line.starts_with("VmHWM"));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join(", ")
}
