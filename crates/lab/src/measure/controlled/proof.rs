//! Whether a copy went as its [`Method`] says, by the calls that it counted.

use std::collections::BTreeMap;

use haul_measure::words;

use super::method::{By, Method};
use super::recorder::{Act, Count, queue_name};

/// Bytes at the end of each file that direct I/O cannot take.
const TAIL: f64 = 65536.0;

/// Compares what a copy reported with what it should have done. An error says what it did instead: its times are those of
/// another experiment then.
///
/// # Errors
/// If a setting did not take effect.
pub fn check(method: &Method, reported: &BTreeMap<String, f64>) -> Result<(), String> {
    let value = |name: &str| reported.get(name).copied().ok_or_else(|| format!("it does not report {name:?}"));
    let (files, total, requests, threads) =
        (value("files")?, value("bytes.total")?, value("requests")?, value("threads")?);
    let direct = method.direct_source || method.direct_dest;
    let tails = if direct { files * TAIL } else { 0.0 };
    let own = acts_of(method);
    for act in own {
        // Splice moves each byte into the pipe and out of it.
        let times = if *act == Act::Splice { 2.0 } else { 1.0 };
        let count = Count::reported(*act, reported);
        if count.bytes < times * total - tails || count.bytes > times * total {
            return Err(format!("{} moved {} of {total} bytes", act.name(), count.bytes / times));
        }
        asked_for_requests(method, *act, &count, (times * requests, total / files.max(1.0), tails > 0.0))?;
    }
    let asked =
        [(Act::Allocate, method.preallocate, "allocated"), (Act::ReadAhead, method.readahead, "asked for ahead")];
    for (act, wanted, words) in asked {
        let bytes = Count::reported(act, reported).bytes;
        let expected = if wanted { total } else { 0.0 };
        if bytes != expected {
            return Err(format!("{bytes} bytes were {words}, not {expected}"));
        }
    }
    let rest = |act: &&Act| !own.contains(act) && !matches!(act, Act::Allocate | Act::ReadAhead);
    for act in Act::ALL.iter().filter(rest) {
        let bytes = Count::reported(*act, reported).bytes;
        if bytes > tails {
            return Err(format!("{} moved {bytes} bytes", act.name()));
        }
    }
    let readers = value("readers")?;
    if readers != method.readers as f64 {
        return Err(format!("{readers} other processes read the source meanwhile, not {}", method.readers));
    }
    let queue = method.queue().map(queue_name);
    if let Some(name) = reported.keys().find(|name| name.starts_with("queue.") && Some(name.as_str()) != queue) {
        return Err(format!("requests went through {}", name.trim_start_matches("queue.")));
    }
    if let Some(name) = queue.filter(|name| !reported.contains_key(*name)) {
        return Err(format!("no requests went through {}", name.trim_start_matches("queue.")));
    }
    past_the_cache(method, reported, total, tails)?;
    match (method.by, threads > 1.0) {
        (By::PosixAio, false) if total > 0.0 => Err("no threads of the C library were at work".to_owned()),
        // io_uring may have threads of the kernel.
        (By::PosixAio | By::IoUring, _) | (_, false) => Ok(()),
        (_, true) => Err(format!("{threads} threads were at work, not one")),
    }
}

/// Whether the calls of an act asked for the bytes that the method says. `each` is the mean size of a file.
fn asked_for_requests(
    method: &Method,
    act: Act,
    count: &Count,
    (requests, each, tails): (f64, f64, bool),
) -> Result<(), String> {
    let request = method.request as f64;
    let least = request.min(each) - if tails { TAIL } else { 0.0 };
    let asked = words::exactly(count.largest as u64);
    if count.largest > request.max(4096.0) || count.largest < least {
        return Err(format!("{} asked for {asked} at most, not for {}", act.name(), words::exactly(method.request)));
    }
    // The kernel may give less than it was asked for.
    match count.calls > 2.0 * requests + 16.0 {
        true => Err(format!("{} was called {} times, not {requests}", act.name(), count.calls)),
        false => Ok(()),
    }
}

/// Whether the bytes went past the page cache on those sides where they should, and on no other.
fn past_the_cache(method: &Method, reported: &BTreeMap<String, f64>, total: f64, tails: f64) -> Result<(), String> {
    let reads = [Act::Read, Act::QueueRead];
    let writes = [Act::Write, Act::QueueWrite, Act::WriteMapped, Act::CopyRange, Act::Splice];
    let sides = [("source", &reads[..], method.direct_source), ("copy", &writes[..], method.direct_dest)];
    for (side, acts, wanted) in sides {
        let bytes: f64 = acts.iter().map(|act| Count::reported(*act, reported).direct).sum();
        match wanted {
            true if bytes < total - tails => return Err(format!("O_DIRECT was on for {bytes} bytes of the {side}")),
            false if bytes > 0.0 => return Err(format!("O_DIRECT was on for {bytes} bytes of the {side}, unasked")),
            _ => {}
        }
    }
    Ok(())
}

/// The acts that move the bytes of a method.
fn acts_of(method: &Method) -> &'static [Act] {
    match method.by {
        By::ReadWrite => &[Act::Read, Act::Write],
        By::Mapped if method.private => &[Act::MapPrivate, Act::WriteMapped],
        By::Mapped => &[Act::Map, Act::WriteMapped],
        By::CopyRange => &[Act::CopyRange],
        By::Splice => &[Act::Splice],
        By::PosixAio | By::LinuxAio | By::IoUring => &[Act::QueueRead, Act::QueueWrite],
    }
}
