//! A run of the library, as every command begins and ends it.

use haul_copy::plan::Plan;
use haul_copy::run::{Partials, Session, Summary};
use haul_sys::inode::FileId;

use crate::report::Report;
use crate::words;
use crate::xattrs;

/// What a run needs besides its plan. `skip_files`: files that stand in a source and are no part of it.
pub fn session<'a>(report: &'a Report, plan: &Plan, partials: Partials, skip_files: Vec<FileId>) -> Session<'a> {
    Session {
        observer: report,
        confirm: report,
        cancel: report.cancel().clone(),
        pace: report.pace().clone(),
        partials,
        xattr_rules: xattrs::rules(report, plan),
        skip_files,
    }
}

/// Removes what is not whole, when the process is about to end whatever its threads are doing.
pub fn remove_partials(report: &Report, partials: &Partials) {
    for problem in partials.remove_all() {
        report.complain_at_the_end(&words::message(&problem, report.quoter()));
    }
}

/// Names the files that a run has damaged, and what its many errors were about.
pub fn report_errors(report: &Report, summary: &Summary) {
    for path in &summary.damaged {
        report.complain(&words::damaged(path, report.quoter()));
    }
    report.sum_up();
}
