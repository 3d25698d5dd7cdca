//! Before anything is written, all processes make sure that they are about to do the same: the same program with the same
//! options, the same sources, and one destination that all of them see.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use haul_copy::plan::{Destination, Plan};
use haul_copy::run::settle_destination;
use haul_copy::walk::ask_server_again;
use haul_io::facts;
use haul_sys::rustix::process::{getegid, geteuid};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::apart::Mark;
use crate::at_work::{self, AtWork, Place};
use crate::directory::{Directory, as_io};
use crate::line::Line;

/// How long a machine may take to see a file that another one has made. Nobody has asked for its name before, so no machine
/// remembers that it is not there.
const PATIENCE: Duration = Duration::from_secs(15);

/// What one process has before it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Hello {
    version: String,
    host: String,
    /// The lowest rank that shares memory with it.
    machine: usize,
    arguments: Vec<Vec<u8>>,
    /// The user and group whose files it makes, and the mode that it takes from new files.
    user: (u32, u32, String),
    sources: Vec<Option<Seen>>,
    /// The list of what is to be copied, in short, if there is one.
    list: Option<String>,
    /// What the options and the files that they name say of the entries below the sources.
    filter: Option<String>,
    /// The nearest directory of the destination that is there.
    dest: (Vec<u8>, Option<Seen>),
    /// Whether the copy goes into the destination, or is that itself, as far as this process sees.
    goes_into: Option<bool>,
}

/// What stat reports of a file that is the same on all machines, of a directory only what does not change: a machine may have
/// an older view of the rest.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Seen {
    inode: u64,
    /// The bits of the mode that say what it is.
    kind: u32,
    /// Bytes, of what is no directory.
    size: u64,
    modified: (i64, i64),
    /// When it was made, in microseconds from 1970 on, where that is known: roots of filesystems that each machine has for
    /// itself have one number.
    born: Option<i64>,
}

impl PartialEq for Seen {
    /// Whether both may be of one file: not every machine need report when it was made.
    fn eq(&self, other: &Seen) -> bool {
        let born = self.born.is_none() || other.born.is_none() || self.born == other.born;
        born && (self.inode, self.kind, self.size, self.modified)
            == (other.inode, other.kind, other.size, other.modified)
    }
}

impl Seen {
    fn at(path: &Path) -> Option<Seen> {
        let stat = fs::metadata(path).ok()?;
        let (size, modified) = match stat.is_dir() {
            true => (0, (0, 0)),
            false => (stat.len(), (stat.mtime(), stat.mtime_nsec())),
        };
        let born = stat.created().ok().map(microseconds);
        Some(Seen { inode: stat.ino(), kind: stat.mode() & 0o170_000, size, modified, born })
    }
}

/// From 1970 on; some filesystems have dates before.
fn microseconds(time: SystemTime) -> i64 {
    let number = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    time.duration_since(UNIX_EPOCH).map_or_else(|before| -number(before.duration()), number)
}

/// What rank 0 has found, for all.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Verdict {
    Refused,
    /// Look for this file, which has these bytes.
    Look(Vec<u8>, Vec<u8>),
    /// Make a file at your destination, with this secret in its name.
    Mark(String),
    /// Look for the files of the others there.
    LookForMarks,
    /// Look for other jobs there.
    Begin,
    Go(Agreed),
}

/// What all processes know of each other.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Agreed {
    /// By rank, the lowest rank on the same machine.
    pub machines: Vec<usize>,
    /// By rank, the name of the machine.
    pub hosts: Vec<String>,
    /// Rank 0 shows how far the job is.
    pub progress: bool,
    /// What the destination is: 0 a directory to copy into, 1 the copy itself, 2 neither, which rank 0 reports.
    dest: (u8, Vec<u8>),
}

impl Agreed {
    /// The destination, as rank 0 has found it.
    pub fn destination(&self) -> Destination {
        let path = OsStr::from_bytes(&self.dest.1).to_owned();
        match self.dest.0 {
            0 => Destination::Directory(path),
            1 => Destination::Exactly(path),
            _ => Destination::Guess(path),
        }
    }

    /// How many threads a process has, if it shares the processors of its machine with others and the user does not say it.
    pub fn jobs(&self, rank: usize) -> Option<usize> {
        let neighbours = self.machines.iter().filter(|machine| Some(*machine) == self.machines.get(rank)).count();
        (neighbours > 1).then(|| (facts::cores() / neighbours).max(1))
    }

    /// How messages name a process.
    pub fn label(&self, rank: usize) -> String {
        label(rank, self.hosts.get(rank).map_or("?", String::as_str))
    }
}

fn label(rank: usize, host: &str) -> String {
    format!("rank {rank} on {host}")
}

/// What the processes want of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To write: they must see each other's files, and no other job may write the same.
    Write,
    /// To write, each to a destination of its own.
    WriteEach,
    /// To read.
    Read,
    /// This one does nothing, and neither shall the others.
    Refuse,
}

/// Asks all processes. For writing rank 0 gets what tells other jobs of this one, where that can be; where each rank writes for
/// itself, each of them does.
///
/// # Errors
/// On rank 0 what is wrong, for the user. On all others, and where this one refuses, an empty text.
pub fn agree(
    line: &mut Line<'_>,
    plan: &Plan,
    progress: bool,
    purpose: Purpose,
) -> Result<(Agreed, Option<AtWork>), String> {
    let own = hello(plan, line.machine(), purpose);
    if line.rank() > 0 {
        return follow(line, &own, plan);
    }
    let settled = settle_destination(plan);
    let checked = hear_all(line, own).and_then(|hellos| {
        differences(plan, &hellos, purpose).map_or(Ok(()), Err)?;
        let at_work = match purpose {
            Purpose::Refuse => return Err(String::new()),
            Purpose::Read => None,
            Purpose::WriteEach => begin_apart(line, plan, &hellos)?,
            Purpose::Write => look_around(line, plan, &settled, &hellos)?,
        };
        Ok((hellos, at_work))
    });
    // Whatever it is, all others wait for it.
    let (hellos, at_work) = match checked {
        Ok(checked) => checked,
        Err(why) => {
            send_all(line, &Verdict::Refused);
            return Err(why);
        }
    };
    let dest = match settled {
        Destination::Directory(path) => (0, path),
        Destination::Exactly(path) => (1, path),
        Destination::Guess(path) => (2, path),
    };
    let agreed = Agreed {
        machines: hellos.iter().map(|hello| hello.machine).collect(),
        hosts: hellos.iter().map(|hello| hello.host.clone()).collect(),
        progress,
        dest: (dest.0, dest.1.as_bytes().to_vec()),
    };
    send_all(line, &Verdict::Go(agreed.clone()));
    Ok((agreed, at_work))
}

/// Waits until every rank has made itself ready, so that nothing is tried if one of them cannot.
///
/// # Errors
/// On rank 0 what is wrong, for the user. On all others an empty text.
pub fn all_ready(line: &mut Line<'_>, agreed: &Agreed, own: Result<(), Vec<u8>>) -> Result<(), Vec<u8>> {
    if line.rank() > 0 {
        answer(line, &own.err());
        let ready = serde_json::from_slice(&line.wait_for_rank(0)).unwrap_or(false);
        return if ready { Ok(()) } else { Err(Vec::new()) };
    }
    let mut trouble = own.err();
    for _ in 1..line.ranks() {
        let (from, answer) = line.wait();
        let why = match serde_json::from_slice::<Option<Vec<u8>>>(&answer) {
            Ok(why) => why,
            Err(_) => Some(b"it is of another version".to_vec()),
        };
        // What is wrong on all of them rank 0 has said first.
        trouble = trouble.or_else(|| Some([agreed.label(from).as_bytes(), b": ", &why?].concat()));
    }
    line.send_to_others(&serde_json::to_vec(&trouble.is_none()).unwrap_or_default());
    trouble.map_or(Ok(()), Err)
}

/// What every process has before it, by rank.
fn hear_all(line: &mut Line<'_>, own: Hello) -> Result<Vec<Hello>, String> {
    let mut hellos = vec![own; line.ranks()];
    let mut all = true;
    for _ in 1..line.ranks() {
        let (from, bytes) = line.wait();
        match (serde_json::from_slice(&bytes), hellos.get_mut(from)) {
            (Ok(hello), Some(place)) => *place = hello,
            _ => all = false,
        }
    }
    if all { Ok(hellos) } else { Err("the processes are of different versions".to_owned()) }
}

/// Looks for other jobs, and whether all ranks see one destination.
fn look_around(
    line: &mut Line<'_>,
    plan: &Plan,
    destination: &Destination,
    hellos: &[Hello],
) -> Result<Option<AtWork>, String> {
    let Some(first) = hellos.first() else { return Ok(None) };
    let dir = Path::new(OsStr::from_bytes(&first.dest.0));
    let secret = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
    let at_work = begin(plan, destination, first, at_work::probe(&secret))?;
    if line.ranks() > 1 {
        show_file(line, hellos, dir, &secret)?;
    }
    Ok(at_work)
}

/// Begins to be at work, unless another job is; it makes the file `probe` for a short time.
fn begin(plan: &Plan, destination: &Destination, own: &Hello, probe: String) -> Result<Option<AtWork>, String> {
    let Some(place) = Place::of(plan, destination) else { return Ok(None) };
    let selection = format!("{:?} {:?}", own.list, own.filter);
    let dir = Path::new(OsStr::from_bytes(&own.dest.0));
    AtWork::begin(&place, &at_work::Line::new(&place, &selection, &own.host, (dir, probe)))
}

fn hello(plan: &Plan, machine: usize, purpose: Purpose) -> Hello {
    // What this machine remembers may have been exchanged by another one.
    let (Destination::Guess(dest) | Destination::Directory(dest) | Destination::Exactly(dest)) = &plan.destination;
    plan.sources.iter().chain([dest]).for_each(|path| ask_server_again(Path::new(path)));
    let nearest = match purpose {
        Purpose::WriteEach => written_directory(&plan.destination),
        _ => nearest_directory(&plan.destination),
    };
    let goes_into = match settle_destination(plan) {
        Destination::Directory(_) => Some(true),
        Destination::Exactly(_) => Some(false),
        Destination::Guess(_) => None,
    };
    Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: haul_sys::rustix::system::uname().nodename().to_string_lossy().into_owned(),
        machine,
        arguments: env::args_os().skip(1).map(OsString::into_vec).collect(),
        user: (geteuid().as_raw(), getegid().as_raw(), umask()),
        list: plan.list.as_ref().map(|list| haul_copy::list::digest_text(list)),
        filter: plan.filter.as_ref().map(|filter| format!("{:?}", filter.choice())),
        sources: plan.sources.iter().map(|source| Seen::at(Path::new(source))).collect(),
        dest: (nearest.as_os_str().as_bytes().to_vec(), Seen::at(&nearest)),
        goes_into,
    }
}

/// As people write it; nothing if it cannot be found out, which the copy will say.
fn umask() -> String {
    haul_sys::umask().map_or_else(|_| String::new(), |umask| format!("{umask:04o}"))
}

/// The destination, if it is a directory, else the one that it would be made in.
fn nearest_directory(destination: &Destination) -> PathBuf {
    let (Destination::Guess(path) | Destination::Directory(path) | Destination::Exactly(path)) = destination;
    let path = Path::new(path);
    if path.is_dir() {
        return path.to_owned();
    }
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// The same, behind the symbolic links that the destination leads through, since the bytes go there.
fn written_directory(destination: &Destination) -> PathBuf {
    match fs::canonicalize(destination.path()) {
        Ok(path) if path.is_dir() => path,
        Ok(path) => path.parent().unwrap_or(&path).to_owned(),
        Err(_) => nearest_directory(destination),
    }
}

/// What the first process that differs from rank 0 has different.
fn differences(plan: &Plan, hellos: &[Hello], purpose: Purpose) -> Option<String> {
    let first = hellos.first()?;
    hellos.iter().enumerate().skip(1).find_map(|(rank, hello)| {
        let label = label(rank, &hello.host);
        let words = |arguments: &[Vec<u8>]| {
            let words: Vec<_> = arguments.iter().map(|word| String::from_utf8_lossy(word)).collect();
            words.join(" ")
        };
        if hello.version != first.version {
            return Some(format!("{label} runs version {}, rank 0 version {}", hello.version, first.version));
        }
        if hello.arguments != first.arguments {
            let (theirs, ours) = (words(&hello.arguments), words(&first.arguments));
            return Some(format!("{label} was started with '{theirs}', rank 0 with '{ours}': all need the same"));
        }
        if hello.user != first.user {
            let words =
                |(user, group, umask): &(u32, u32, String)| format!("user {user}, group {group}, umask {umask}");
            let (theirs, ours) = (words(&hello.user), words(&first.user));
            return Some(format!("{label} runs as {theirs}, rank 0 as {ours}: the copies would differ"));
        }
        if hello.list != first.list {
            return Some(format!(
                "{label} has another list of what is to be copied than rank 0: all need the same file"
            ));
        }
        if hello.filter != first.filter {
            return Some(format!("{label} excludes something else than rank 0: all need the same files of patterns"));
        }
        for (index, source) in plan.sources.iter().enumerate() {
            let (theirs, ours) = (hello.sources.get(index), first.sources.get(index));
            if theirs != ours {
                let source = Path::new(source).display();
                let what = match theirs {
                    Some(Some(_)) => "is another one, or looks different,",
                    _ => "cannot be seen",
                };
                return Some(format!("the source '{source}' {what} on {label}: all ranks need the same files"));
            }
        }
        match purpose {
            Purpose::Write | Purpose::Read => (hello.dest != first.dest).then(|| not_shared(&label, &first.dest.0)),
            Purpose::WriteEach => (hello.goes_into != first.goes_into).then(|| not_alike(&label, plan)),
            Purpose::Refuse => None,
        }
    })
}

fn not_alike(label: &str, plan: &Plan) -> String {
    let dest = Path::new(plan.destination.path()).display();
    format!(
        "'{dest}' is a directory on one of rank 0 and {label} and not on the other, so that the copies would have other \
         names; nothing was written; say by -t or -T what '{dest}' is"
    )
}

fn not_shared(label: &str, dest: &[u8]) -> String {
    let dest = Path::new(OsStr::from_bytes(dest)).display();
    format!(
        "the destination is not shared by all ranks: '{dest}' of rank 0 is not that of {label}; nothing was written; \
         use a filesystem that all machines have mounted at the same place"
    )
}

/// Makes a file where the copy goes, and asks all others whether they see it. Two filesystems that look the same cannot
/// both have it.
fn show_file(line: &mut Line<'_>, hellos: &[Hello], dir: &Path, secret: &str) -> Result<(), String> {
    // What cannot be opened, or made, the copy reports, as it does with one process.
    let Ok(directory) = Directory::open(dir) else { return Ok(()) };
    directory.keeping_times(|| {
        let name = at_work::probe(secret);
        let Ok(mut file) = directory.create(&name) else { return Ok(()) };
        if file.write_all(secret.as_bytes()).is_err() {
            directory.remove(&name).ok();
            return Ok(());
        }
        // Close-to-open: others see what was written when it is closed.
        let closed = file.sync_all();
        drop(file);
        let path = dir.join(&name);
        send_all(line, &Verdict::Look(path.as_os_str().as_bytes().to_vec(), secret.as_bytes().to_vec()));
        let mut blind = None;
        for _ in 1..line.ranks() {
            let (from, answer) = line.wait();
            if answer != b"seen" {
                blind = hellos.get(from).map(|hello| label(from, &hello.host));
            }
        }
        let removed = directory.remove(&name).map_err(as_io);
        if let Some(blind) = blind {
            return Err(not_shared(&blind, dir.as_os_str().as_bytes()));
        }
        closed.and(removed).map_err(|error| format!("cannot make and remove '{}': {error}", path.display()))
    })
}

/// Lets all ranks make a file each where their copies go, look for those of the others, and for other jobs.
fn begin_apart(line: &mut Line<'_>, plan: &Plan, hellos: &[Hello]) -> Result<Option<AtWork>, String> {
    let Some(own) = hellos.first() else { return Ok(None) };
    let secret = format!("{:016x}{:08x}", fastrand::u64(..), fastrand::u32(..));
    let mark = Mark::make(Path::new(OsStr::from_bytes(&own.dest.0)), &secret, 0);
    let made = ask_all(line, &Verdict::Mark(secret), mark.is_made());
    let seen = ask_all(line, &Verdict::LookForMarks, mark.sees(line.ranks()));
    if let Some(why) = together(hellos, &made, &seen) {
        return Err(why);
    }
    let begun = begin(plan, &settle_destination(plan), own, mark.name());
    let complaint = begun.as_ref().err().cloned();
    let complaints = ask_all(line, &Verdict::Begin, complaint);
    match complaints.into_iter().enumerate().find_map(|(rank, why)| Some((rank, why??))) {
        Some((rank, why)) => Err(format!("{}: {why}", label_of(hellos, rank))),
        None => begun,
    }
}

/// Says something to all others, and gives what each rank answers; `None` if that cannot be understood.
fn ask_all<T: DeserializeOwned>(line: &mut Line<'_>, verdict: &Verdict, own: T) -> Vec<Option<T>> {
    send_all(line, verdict);
    let mut answers: Vec<Option<T>> = (1..line.ranks()).map(|_| None).collect();
    for _ in 1..line.ranks() {
        let (from, answer) = line.wait();
        if let Some(place) = from.checked_sub(1).and_then(|from| answers.get_mut(from)) {
            *place = serde_json::from_slice(&answer).ok();
        }
    }
    answers.insert(0, Some(own));
    answers
}

/// Why two ranks may not have destinations of their own: which of them have made their files, and whose files they have seen.
fn together(hellos: &[Hello], made: &[Option<bool>], seen: &[Option<Option<usize>>]) -> Option<String> {
    let dir = |rank: usize| {
        let path = hellos.get(rank).map_or(&[][..], |hello| &hello.dest.0);
        Path::new(OsStr::from_bytes(path)).display().to_string()
    };
    let cure = "with --each every rank copies to a destination of its own: start one rank on each machine, and name a \
                directory of that machine";
    if let Some((one, other)) = seen.iter().enumerate().find_map(|(rank, seen)| Some((rank, (*seen)??))) {
        let (one, other) = (one.min(other), one.max(other));
        let [first, second] = [one, other].map(|rank| label_of(hellos, rank));
        return Some(format!(
            "{first} and {second} would write to the same '{}'; nothing was written; {cure}",
            dir(one)
        ));
    }
    // Who has made no file cannot be seen, but the directory may look like that of another one.
    let looks_alike = |one: usize, other: usize| {
        let of = |rank: usize| hellos.get(rank).and_then(|hello| hello.dest.1.as_ref());
        one != other && of(one).is_some() && of(one) == of(other)
    };
    let unseen = (0..hellos.len()).filter(|rank| made.get(*rank) != Some(&Some(true)));
    let alike = |rank: usize| (0..hellos.len()).find(|other| looks_alike(rank, *other)).map(|other| (rank, other));
    unseen.into_iter().find_map(alike).map(|(one, other)| {
        let [first, second] = [one, other].map(|rank| label_of(hellos, rank));
        format!(
            "'{}' of {first} may be that of {second}: no file can be made there that would show it; nothing was \
             written; {cure}",
            dir(one)
        )
    })
}

fn label_of(hellos: &[Hello], rank: usize) -> String {
    label(rank, hellos.get(rank).map_or("?", |hello| hello.host.as_str()))
}

fn send_all(line: &mut Line<'_>, verdict: &Verdict) {
    line.send_to_others(&serde_json::to_vec(verdict).unwrap_or_default());
}

/// What the others do: they do as rank 0 says.
fn follow(line: &mut Line<'_>, hello: &Hello, plan: &Plan) -> Result<(Agreed, Option<AtWork>), String> {
    line.send(0, &serde_json::to_vec(hello).unwrap_or_default());
    // Goes when all have looked.
    let mut mark = None;
    let mut at_work = None;
    loop {
        let bytes = line.wait_for_rank(0);
        match serde_json::from_slice(&bytes) {
            Ok(Verdict::Go(agreed)) => return Ok((agreed, at_work)),
            Ok(Verdict::Look(path, secret)) => {
                let answer: &[u8] = if is_seen(Path::new(OsStr::from_bytes(&path)), &secret) { b"seen" } else { b"no" };
                line.send(0, answer);
            }
            Ok(Verdict::Mark(secret)) => {
                let made = Mark::make(Path::new(OsStr::from_bytes(&hello.dest.0)), &secret, line.rank());
                answer(line, &made.is_made());
                mark = Some(made);
            }
            Ok(Verdict::LookForMarks) => {
                let seen = mark.as_ref().and_then(|mark| mark.sees(line.ranks()));
                answer(line, &seen);
            }
            Ok(Verdict::Begin) => {
                let probe = mark.as_ref().map(Mark::name).unwrap_or_default();
                let begun = begin(plan, &settle_destination(plan), hello, probe);
                answer(line, &begun.as_ref().err());
                at_work = begun.ok().flatten();
            }
            Ok(Verdict::Refused) | Err(_) => return Err(String::new()),
        }
    }
}

fn answer(line: &mut Line<'_>, answer: &impl Serialize) {
    line.send(0, &serde_json::to_vec(answer).unwrap_or_default());
}

fn is_seen(path: &Path, secret: &[u8]) -> bool {
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        let mut found = Vec::new();
        let read = File::open(path).and_then(|mut file| file.read_to_end(&mut found));
        if read.is_ok() && found == secret {
            return true;
        }
        if started.elapsed() > PATIENCE {
            return false;
        }
        // No machine notifies another one that it would see something now.
        std::thread::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(250));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> (Plan, Vec<Hello>) {
        let plan = Plan { sources: vec!["/".into()], ..Plan::default() };
        let hello = hello(&plan, 0, Purpose::Write);
        (plan, vec![hello.clone(), hello])
    }

    #[test]
    fn processes_that_are_alike_agree() {
        let (plan, hellos) = two();
        assert_eq!(differences(&plan, &hellos, Purpose::Write), None);
    }

    #[test]
    fn whatever_differs_is_named_with_the_rank() {
        type Change = fn(&mut Hello);
        let cases: [(Change, &str); 6] = [
            (|hello| hello.version = "9".into(), "version"),
            (|hello| hello.arguments.push(b"-u".to_vec()), "was started with"),
            (|hello| hello.user.0 += 1, "user"),
            (|hello| hello.filter = Some("other".into()), "excludes"),
            (|hello| hello.sources[0] = None, "cannot be seen"),
            (|hello| hello.dest.1 = None, "not shared"),
        ];
        for (change, word) in cases {
            let (plan, mut hellos) = two();
            change(&mut hellos[1]);
            let why = differences(&plan, &hellos, Purpose::Write).unwrap();
            assert!(why.contains(word) && why.contains("rank 1"), "{why}");
        }
    }
    #[test]
    fn destinations_of_their_own_need_be_alike_only_in_what_they_are() {
        let (plan, mut hellos) = two();
        hellos[1].dest = (b"/elsewhere".to_vec(), None);
        assert_eq!(differences(&plan, &hellos, Purpose::WriteEach), None);
        hellos[1].goes_into = hellos[0].goes_into.map(|into| !into).or(Some(true));
        let why = differences(&plan, &hellos, Purpose::WriteEach).unwrap();
        assert!(why.contains("-t or -T") && why.contains("rank 1"), "{why}");
    }
    #[test]
    fn destinations_that_are_one_or_may_be_are_refused() {
        let (_, hellos) = two();
        let why = |made: [bool; 2], seen| together(&hellos, &made.map(Some), &[Some(None), Some(seen)]);
        assert_eq!(why([true, true], None), None, "they only look alike");
        assert!(why([true, true], Some(0)).is_some_and(|why| why.contains("rank 0") && why.contains("the same")));
        assert!(why([true, false], None).is_some_and(|why| why.contains("may be that of rank 0")));
        let mut apart = hellos.clone();
        apart[1].dest.1 = None;
        assert_eq!(
            together(&apart, &[Some(false), None], &[Some(None), None]),
            None,
            "what is missing the copy reports"
        );
    }
}
