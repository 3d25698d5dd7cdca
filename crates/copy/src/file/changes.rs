//! Sources that change while they are copied (`--if-changed`).

use std::os::fd::AsFd;

use haul_io::moved::Moved;
use haul_io::transfer::is_pseudo_file;
use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::ftruncate;
use haul_sys::rustix::io::retry_on_intr;

use crate::context::RunContext;
use crate::context::Worker;
use crate::error::{Error, What};
use crate::file::check::{self, ReadAgain};
use crate::plan::IfChanged;
use crate::work::file_data::{Broken, FileData};

/// How often a file is copied again before the copy fails.
const RETRIES: u32 = 3;

/// Looks whether the source is what it was when its data began to move, and does what the plan says if it is not.
/// `inode` becomes what the copy is of, and what is returned is what reading it again has found. `before` is what this
/// thread had moved when it came to this file.
pub(crate) fn settle_changes(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    job: &FileData<'_>,
    inode: &mut Inode,
    before: Moved,
    mut read: ReadAgain,
) -> Result<ReadAgain, Broken> {
    let plan = cx.plan;
    if plan.if_changed == IfChanged::Ignore
        || inode.kind != Kind::Regular
        || is_pseudo_file(&job.transfer.source, inode)
    {
        return Ok(read);
    }
    if inode.size == 0 && worker.report.stats.moved == before {
        // The copy is empty, as the source was at the first look, whatever has become of that since. Another look takes
        // 0.6 µs, and 2 % of the time of a million such files.
        return Ok(read);
    }
    let path = job.source_path;
    let mut attempts = 1;
    loop {
        let now = Inode::of(job.transfer.source.as_fd())
            .map_err(|errno| Broken::by(Error::new(What::CannotFstat, path).errno(errno)))?;
        if is_unchanged(inode, &now) {
            return Ok(read);
        }
        let again = matches!(job.transfer.dest_inode.kind, Kind::Regular | Kind::BlockDevice);
        match plan.if_changed {
            IfChanged::Ignore => return Ok(read),
            IfChanged::Warn => {
                worker.report.warning(&Error::new(What::ChangedWhileCopied, path));
                return Ok(read);
            }
            IfChanged::Retry if again && attempts <= RETRIES => {}
            IfChanged::Retry if attempts > 1 => {
                let error = Error::new(What::KeepsChanging, path).detail(attempts.to_string());
                return Err(Broken::by(error));
            }
            IfChanged::Retry | IfChanged::Fail => return Err(Broken::by(Error::new(What::ChangedWhileCopied, path))),
        }
        attempts += 1;
        *inode = now;
        if job.transfer.dest_inode.kind == Kind::Regular {
            retry_on_intr(|| ftruncate(&job.transfer.dest, 0))
                .map_err(|errno| Broken::by(Error::new(What::Truncating, job.dest_path).errno(errno)))?;
        }
        read = check::move_again(cx, worker, job, inode)?;
    }
}

/// Whether nothing shows a change in between. A change that leaves the size alone moves the times, but for one within
/// the kernel's tick (at most 10 ms; none since Linux 6.13 on the usual filesystems) after the first look, and for one
/// through a mapping that has not been written back.
fn is_unchanged(before: &Inode, after: &Inode) -> bool {
    before.is_same_file_as(after)
        && before.size == after.size
        && before.modified == after.modified
        && before.changed == after.changed
}

#[cfg(test)]
mod tests {
    use haul_io::verify::Checked;
    use haul_sys::inode::Time;

    use super::*;
    use crate::context::test_support::{Bench, Ran, file_data};
    use crate::plan::Plan;

    fn inode(bench: &Bench) -> Inode {
        bench.from("a").inode().unwrap()
    }

    fn earlier(time: Time) -> Time {
        Time { seconds: time.seconds - 1, ..time }
    }

    #[test]
    fn whatever_stat_tells_of_a_change_counts() {
        let bench = Bench::new(Plan::default()).source("a", "new").source("other", "new");
        let now = inode(&bench);
        let other = bench.from("other").inode().unwrap();
        assert!(is_unchanged(&now, &now));
        for before in [
            Inode { size: 4, ..now },
            Inode { modified: earlier(now.modified), ..now },
            Inode { changed: earlier(now.changed), ..now },
            Inode { id: other.id, ..now },
        ] {
            assert!(!is_unchanged(&before, &now), "{before:?}");
        }
        let read = Inode { accessed: earlier(now.accessed), permissions: 0, ..now };
        assert!(is_unchanged(&read, &now), "what was read or has another mode has the same contents");
    }

    /// Looks at `a` after it was copied, when it had been `seen` before. Whether it had changed.
    fn settle(bench: &Bench, seen: Inode, moved: Moved) -> Ran<bool> {
        let sides = [bench.from("a"), bench.from("a")].map(|spot| spot.open_path().unwrap());
        bench.run(|cx, worker| {
            let job = file_data(sides, [&seen, &seen]);
            worker.report.stats.moved = moved;
            let before = Moved::default();
            settle_changes(cx, worker, &job, &mut { seen }, before, Ok(Checked::default())).is_err()
        })
    }

    fn failing() -> Bench {
        Bench::new(Plan { if_changed: IfChanged::Fail, ..Plan::default() })
    }

    #[test]
    fn an_empty_copy_is_not_looked_at_again() {
        let bench = failing().source("a", "");
        let seen = Inode { changed: earlier(inode(&bench).changed), ..inode(&bench) };
        assert!(!settle(&bench, seen, Moved::default()).value);
        assert!(settle(&bench, seen, Moved { written: 1, ..Moved::default() }).value, "it was not empty any more");
    }

    #[test]
    fn only_regular_sources_are_looked_at_again() {
        let bench = failing().source("a", "new");
        let seen = Inode { changed: earlier(inode(&bench).changed), ..inode(&bench) };
        assert!(settle(&bench, seen, Moved::default()).value);
        assert!(!settle(&bench, Inode { kind: Kind::Fifo, ..seen }, Moved::default()).value);
    }
}
