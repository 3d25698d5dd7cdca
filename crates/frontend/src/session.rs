//! What every command does before, at the beginning and at the end of a run of the library, which changes nothing of its
//! process.

use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use haul_copy::error::Error;
use haul_copy::meta::XattrRules;
use haul_copy::plan::{Plan, Wish};
use haul_copy::run::{Partials, Session, Summary};
use haul_sys::inode::FileId;
use haul_sys::process_state;
use haul_sys::rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::report::Report;
use crate::show::Show;
use crate::watch;
use crate::words;

/// Which extended attributes are not copied: libattr's file.
const RULES: &str = "/etc/xattr.conf";

/// A reader that is gone ends the process, as it ends cp, and a limit of the size of files is an error of one file.
pub fn set_signals() {
    process_state::restore_sigpipe();
    process_state::ignore_sigxfsz();
}

/// A deep tree keeps two descriptors open for each level: all that the system allows may be used.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // A run with fewer descriptors copies the same files, only slower.
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).ok();
    }
}

/// The rules of the system for extended attributes, read only if a copy needs them. Warns where they cannot be understood.
pub fn xattr_rules(report: &Report, plan: &Plan) -> XattrRules {
    if plan.preserve.xattr == Wish::No {
        return XattrRules::default();
    }
    // Where the file cannot be read, other programs take their built-in rules, too.
    let Ok(text) = std::fs::read(RULES) else { return XattrRules::default() };
    XattrRules::parse(&text).unwrap_or_else(|line| {
        report.warn(format!("{RULES}: {line}; built-in rules are used").as_bytes());
        XattrRules::default()
    })
}

/// What a run needs besides its plan. `skip_files`: files that stand in a source and are no part of it.
pub fn session<'a>(report: &'a Report, plan: &Plan, partials: Partials, skip_files: Vec<FileId>) -> Session<'a> {
    Session {
        observer: report,
        confirm: report,
        cancel: report.cancel().clone(),
        pace: report.pace().clone(),
        partials,
        xattr_rules: xattr_rules(report, plan),
        skip_files,
        shared_reads: None,
    }
}

/// Removes what is not whole, when the process is about to end whatever its threads are doing.
pub fn remove_partials(report: &Report, partials: &Partials) {
    partials.remove_all(|problem| complain(report, &problem));
}

fn complain(report: &Report, problem: &Error) {
    report.complain_at_the_end(&words::message(problem, report.quoter()));
}

/// The same, for at most two seconds: where a server copies into a file, removing that file waits for the server. What may stay
/// is named then.
pub fn remove_partials_soon(report: &Arc<Report>, partials: &Partials) {
    // Longer than what is just being made is waited for.
    const MOST: Duration = Duration::from_secs(2);
    let own = (Arc::clone(report), partials.clone());
    match begin(MOST, move || remove_partials(&own.0, &own.1)) {
        End::InTime => {}
        End::Late => partials.unremoved().iter().for_each(|problem| complain(report, problem)),
        End::NoThread => remove_partials(report, partials),
    }
}

/// What became of work in another thread.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// It is done, or has panicked: there is nothing more to wait for.
    InTime,
    /// It is still at work.
    Late,
    /// There was no thread to be had.
    NoThread,
}

/// Has a thread do something, and waits for that at most so long.
fn begin(wait: Duration, work: impl FnOnce() + Send + 'static) -> End {
    let (done, is_done) = mpsc::channel();
    let begun = watch::start_thread(move || {
        work();
        // Nobody may wait any more.
        done.send(()).unwrap_or_default();
    });
    match begun {
        false => End::NoThread,
        true if is_done.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) => End::Late,
        true => End::InTime,
    }
}

/// With `--explain`: which patterns of the filter have decided about no entry.
pub fn explain_filter(report: &Report, plan: &Plan, show: Show, summary: &Summary) {
    let Some(filter) = plan.filter.as_ref().filter(|_| show.explain && !summary.cancelled) else { return };
    for (number, rule) in filter.choice().rules.iter().enumerate() {
        if summary.stats.rule_hits.get(number).is_none_or(|hits| *hits == 0) {
            report.screen().print(&words::idle_rule(rule, report.quoter()));
        }
    }
}

/// Names the files that a run has damaged, and what its many errors were about.
pub fn report_errors(report: &Report, summary: &Summary) {
    for path in &summary.damaged {
        report.damaged(path);
    }
    report.sum_up();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_left_at_work() {
        let (end, until) = mpsc::channel::<()>();
        let (ended, has_ended) = mpsc::channel();
        let hang = move || {
            until.recv().unwrap_or_default();
            ended.send(()).unwrap();
        };
        assert_eq!(begin(Duration::from_millis(1), hang), End::Late);
        // It has not ended, and still can.
        assert!(has_ended.try_recv().is_err());
        drop(end);
        has_ended.recv().unwrap();
    }

    #[test]
    fn what_ends_in_time_is_waited_for() {
        let (ended, has_ended) = mpsc::channel();
        assert_eq!(begin(Duration::MAX, move || ended.send(()).unwrap()), End::InTime);
        assert!(has_ended.try_recv().is_ok());
    }
}
