//! Devices that fail: the device mapper's targets for errors, lies and lack of space.

use std::fs;
use std::path::{Path, PathBuf};

use haul_testbed::guest::Noise;

use crate::haul::{self, Run};
use crate::lab::{Disk, Found, Lab, Outcome};
use crate::tool;
use crate::tree::{self, ALL};

/// A file of the tree that is one extent, and has enough bytes for every engine.
const LARGE: &str = "file-6";

/// Ways to read that meet an error each in its own way.
const READERS: [&str; 6] = ["auto", "copy-range", "splice", "mapped", "direct", "io-uring"];

/// Some sectors of the source cannot be read.
pub fn reading(lab: &mut Lab) -> Result<(), String> {
    let disk = lab.disk("source", 256)?;
    disk.format("ext4")?;
    let source = disk.mount("ext4")?.join("tree");
    tree::plant(&source, ALL)?;
    let bad = place_of(&source.join(LARGE))? + 1000;
    tool::run("umount /tmp/guest/source")?;
    let table = disk.plain(0, bad) + &format!("{bad} 64 error\n") + &disk.plain(bad + 64, disk.sectors);
    disk.become_as(&table)?;
    disk.mount("ext4")?;
    for kind in ["ext4", "xfs"] {
        let at = lab.mounted(kind, kind, 512)?;
        for engine in if kind == "ext4" { &READERS[..] } else { &["auto"] } {
            lab.check(&format!("read error, ext4 -> {kind}: --engine={engine}"), || {
                read_error(&source, &at.join("tree"), &format!("--engine={engine}"))
            });
        }
        for options in ["--atomic --durable=file", "--jobs=4 --verify=read"] {
            lab.check(&format!("read error, ext4 -> {kind}: {options}"), || {
                read_error(&source, &at.join("tree"), options)
            });
        }
    }
    Ok(())
}

/// Everything but the file that cannot be read is copied, and that one is named.
fn read_error(source: &Path, copy: &Path, options: &str) -> Outcome {
    tree::forget_cache()?;
    let run = haul::run(&format!("-a {options} -T {} {}", source.display(), copy.display()))?;
    run.must_say(&[LARGE, "Input/output error"])?;
    tool::run(&format!(
        "diff --recursive --no-dereference --exclude={LARGE} --exclude=fifo {} {}",
        source.display(),
        copy.display()
    ))?;
    if copy.join(LARGE).exists() {
        return Err(format!("it is there: {}", run.report()).into());
    }
    tool::run(&format!("rm -r {}", copy.display()))?;
    Ok(Found::new(&run, format!("named, the others equal: {}", run.said)))
}

/// Where the second half of a file starts on its device, in sectors.
fn place_of(file: &Path) -> Result<u64, String> {
    let text = tool::output(&format!("filefrag -e -s -b512 {}", file.display()))?;
    let first = text.lines().find_map(|line| line.trim().strip_prefix("0:"));
    let physical = first.and_then(|line| line.split(':').nth(1)?.split("..").next()?.trim().parse::<u64>().ok());
    physical.ok_or_else(|| format!("no extent in: {text}"))
}

/// A device to copy to whose metadata stands before all data.
struct Target {
    disk: Disk,
    first_data: u64,
    source: PathBuf,
}

impl Target {
    fn new(lab: &mut Lab) -> Result<Target, String> {
        let source = lab.mounted("ext4", "source", 256)?.join("tree");
        tree::plant(&source, ALL)?;
        let disk = lab.disk("target", 400)?;
        let mut target = Target { disk, first_data: 0, source };
        target.reset()?;
        let text = tool::output(&format!("dumpe2fs {}", target.disk.path().display()))?;
        let free = text.lines().find_map(|line| line.strip_prefix("  Free blocks: ").filter(|list| !list.is_empty()));
        let last = free.and_then(|list| list.rsplit(", ").next()?.split('-').next()?.parse::<u64>().ok());
        target.first_data = last.ok_or("no free blocks")? * 8;
        Ok(target)
    }

    /// An empty filesystem on a device that works.
    fn reset(&mut self) -> Result<(), String> {
        self.disk.become_as(&self.disk.plain(0, self.disk.sectors))?;
        let format = "mkfs.ext4 -q -F -b 4096 -E lazy_itable_init=1,nodiscard,packed_meta_blocks=1";
        tool::run(&format!("{format} {}", self.disk.path().display()))
    }

    /// All of it behind a target of the device mapper, or only where data are.
    fn fails(&self, from: u64, words: &str) -> Result<(), String> {
        let end = self.disk.sectors;
        let before = if from > 0 { self.disk.plain(0, from) } else { String::new() };
        self.disk.become_as(&(before + &self.disk.behind(from, end, "flakey", &format!("0 1 {words}"))))
    }

    /// Copies while it fails; then the device works again, and the copies are looked at.
    fn play(&mut self, from: u64, words: &str, options: &str, judge: impl Fn(&Run, &Path) -> Outcome) -> Outcome {
        self.reset()?;
        let at = self.disk.mount("ext4")?;
        self.fails(from, words)?;
        let run = haul::run(&format!("-a {options} -T {} {}/tree", self.source.display(), at.display()))?;
        self.disk.become_as(&self.disk.plain(0, self.disk.sectors))?;
        tool::run(&format!("umount {}", at.display()))?;
        tree::forget_cache()?;
        self.disk.mount("ext4")?;
        let outcome = judge(&run, &at.join("tree"));
        tool::run(&format!("umount {}", at.display()))?;
        outcome
    }
}

/// Writes to the destination fail, or are lost, or change on their way.
pub fn writing(lab: &mut Lab) -> Result<(), String> {
    let mut target = Target::new(lab)?;
    let (source, data) = (target.source.clone(), target.first_data);
    let status_1 =
        |run: &Run| if run.failed() { Ok(()) } else { Err(format!("no error was reported: {}", run.report())) };
    let short = |run: &Run| run.said.chars().take(160).collect::<String>();
    let whole_or_absent = |run: &Run, copy: &Path| -> Outcome {
        status_1(run)?;
        let (whole, absent) = judge(&source, copy, "")?;
        Ok(Found::new(run, format!("reported; {whole} files whole, {absent} absent: {}", short(run))))
    };
    for options in ["--durable=flush", "--durable=file", "--durable=file --jobs=1 --engine=direct"] {
        lab.check(&format!("no write works: {options}"), || {
            // What stays under a name after a flush that failed is not promised to be whole; its report is.
            let judge = |run: &Run, copy: &Path| match options {
                "--durable=flush" => {
                    status_1(run).map_err(Into::into).map(|()| Found::new(run, format!("reported: {}", short(run))))
                }
                _ => whole_or_absent(run, copy),
            };
            target.play(0, "1 error_writes", options, judge)
        });
        lab.check(&format!("no write of data works: {options}"), || {
            let judge = |run: &Run, copy: &Path| match options {
                "--durable=flush" => {
                    status_1(run).map_err(Into::into).map(|()| Found::new(run, format!("reported: {}", short(run))))
                }
                _ => whole_or_absent(run, copy),
            };
            target.play(data, "1 error_writes", options, judge)
        });
    }
    for (what, words) in
        [("data are lost on the way", "1 drop_writes"), ("data change on the way", "5 corrupt_bio_byte 77 w 165 0")]
    {
        lab.check(&format!("{what}: --durable=file --verify=device"), || {
            target.play(data, words, "--durable=file --verify=device", whole_or_absent)
        });
    }
    Ok(())
}

/// Counts the regular files of the source whose copies are whole, and those that have none; others are wrong.
pub fn judge(source: &Path, copy: &Path, besides: &str) -> Result<(u32, u32), String> {
    let (mut whole, mut absent) = (0, 0);
    let names = tool::output(&format!("find {} -type f -printf %P\\n", source.display()))?;
    for name in names.lines() {
        let (from, to) = (source.join(name), copy.join(name));
        if !to.exists() {
            absent += 1;
        } else if fs::read(&from).ok() == fs::read(&to).ok() {
            whole += 1;
        } else {
            return Err(format!("{name} is under its name and is not whole{besides}"));
        }
    }
    Ok((whole, absent))
}

/// A pool that promises more space than it has.
pub fn thin(lab: &mut Lab) -> Result<(), String> {
    let source = lab.mounted("ext4", "source", 256)?.join("many");
    fs::create_dir_all(&source).map_err(|error| error.to_string())?;
    for number in 0..10 {
        let bytes = Noise::new(number).bytes(5 << 20);
        fs::write(source.join(format!("file-{number}")), bytes).map_err(|error| error.to_string())?;
    }
    tool::run("modprobe dm-thin-pool")?;
    for (number, kind) in ["ext4", "xfs"].into_iter().enumerate() {
        for (turn, options) in ["--durable=flush", "--durable=file"].iter().enumerate() {
            let name = format!("{number}{turn}");
            // The overhead of a filesystem, and room for four or five of the ten files.
            let space = if kind == "xfs" { 90 } else { 32 };
            let pool = Pool::new(lab, &name, space)?;
            lab.check(&format!("{kind}, the pool has no space: {options}"), || pool.play(kind, &source, options));
        }
    }
    Ok(())
}

struct Pool {
    thin: Disk,
    pool: String,
}

impl Pool {
    fn new(lab: &mut Lab, name: &str, mib: u64) -> Result<Pool, String> {
        let (meta, data) = (lab.disk(&format!("meta{name}"), 4)?, lab.disk(&format!("data{name}"), mib)?);
        tool::run(&format!("dd if=/dev/zero of={} bs=4096 count=1 status=none", meta.path().display()))?;
        let pool = format!("pool{name}");
        let (meta, data) = (meta.path(), data.path());
        let table = format!(
            "0 {} thin-pool {} {} 128 0 2 skip_block_zeroing error_if_no_space\n",
            mib * crate::lab::MIB_SECTORS,
            meta.display(),
            data.display()
        );
        tool::feed(&format!("dmsetup create --noudevrules --noudevsync {pool}"), &table)?;
        tool::run(&format!("dmsetup mknodes {pool}"))?;
        tool::run(&format!("dmsetup message {pool} 0 create_thin 0"))?;
        let sectors = 400 * crate::lab::MIB_SECTORS;
        let thin = lab.device(&format!("thin{name}"), sectors, &format!("0 {sectors} thin /dev/mapper/{pool} 0\n"))?;
        Ok(Pool { thin, pool })
    }

    fn play(&self, kind: &str, source: &Path, options: &str) -> Outcome {
        self.thin.format(kind)?;
        let at = self.thin.mount(kind)?;
        let run = haul::run(&format!("-a {options} -T {} {}/many", source.display(), at.display()))?;
        if !run.failed() {
            let status = tool::output(&format!("dmsetup status {}", self.pool))?;
            return Err(format!("no error was reported: {}; pool: {status}", run.report()).into());
        }
        tree::forget_cache()?;
        tool::run(&format!("umount {}", at.display()))?;
        self.thin.mount(kind)?;
        let found = match options {
            "--durable=flush" => "reported".to_owned(),
            _ => {
                let (whole, absent) = judge(source, &at.join("many"), &format!(": {}", run.report()))?;
                format!("reported; {whole} files whole, {absent} absent")
            }
        };
        let said: String = run.said.chars().take(200).collect();
        Ok(Found::new(&run, format!("{found}: {said}")))
    }
}
