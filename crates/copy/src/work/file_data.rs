//! The data of one file that is to be moved, and what has become of it.

use std::os::fd::BorrowedFd;
use std::path::Path;

use haul_io::engine::{FailedOn, Failure};
use haul_io::transfer::{Cause, Stop, Transfer};

use crate::error::{Error, What};
use crate::images::ImageReport;
use crate::recorded_progress::CheckpointLog;

/// Two open files, what they are called, and what is known of them.
#[derive(Clone)]
pub(crate) struct FileData<'a> {
    pub transfer: Transfer<'a>,
    pub source_path: &'a Path,
    pub dest_path: &'a Path,
    /// The directory of the source, if that is known.
    pub source_dir: Option<BorrowedFd<'a>>,
    /// What is known of it as a disk image that is copied like any other file.
    pub image: Option<&'a ImageReport>,
    /// Where the checkpoints of the transfer are written down, if it has some.
    pub log: Option<&'a CheckpointLog<'a>>,
}

/// The data is not whole.
pub(crate) struct Broken {
    /// Why; `None` if the run was cancelled.
    pub error: Option<Error>,
}

impl Broken {
    pub(crate) fn by(error: Error) -> Broken {
        Broken { error: Some(error) }
    }

    /// As a transfer says it, of a source to a destination.
    pub(crate) fn of(stop: Stop, [source, dest]: [&Path; 2]) -> Broken {
        let cause = match stop {
            Stop::Cancelled => return Broken { error: None },
            Stop::Failed(cause) => cause,
        };
        Broken::by(match cause {
            Cause::Moving(Failure { on, errno }) => match on {
                FailedOn::Read => Error::new(What::Reading, source).errno(errno),
                FailedOn::Write => Error::new(What::Writing, dest).errno(errno),
                FailedOn::Copy => Error::new(What::Copying, source).and(dest).errno(errno),
                FailedOn::Hole => Error::new(What::MakingHole, dest).errno(errno),
                FailedOn::Truncated => Error::new(What::SourceTruncated, source),
            },
            Cause::Truncating(errno) => Error::new(What::Truncating, dest).errno(errno),
            Cause::Extending(errno) => Error::new(What::Extending, dest).errno(errno),
            Cause::Closing(errno) => Error::new(What::Closing, dest).errno(errno),
            Cause::NotCloned(errno) => Error::new(What::CloneFailed, dest).and(source).errno(errno),
            Cause::Refused(end) => Error::new(What::EngineRefused, source).and(dest).detail(format!("{end:?}")),
            other => Error::new(What::Copying, source).and(dest).detail(format!("{other:?}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use haul_io::engine::End;
    use haul_io::moved::Refusal;
    use haul_sys::Errno;

    use super::*;

    #[test]
    fn a_message_names_the_file_that_failed() {
        let moving = |on| Cause::Moving(Failure { on, errno: Errno::IO });
        for (cause, message) in [
            (moving(FailedOn::Read), r#"error reading "a": "#),
            (moving(FailedOn::Write), r#"error writing "b": "#),
            (moving(FailedOn::Copy), r#"error copying "a" to "b": "#),
            (moving(FailedOn::Hole), r#"failed to make a hole in "b": "#),
            (moving(FailedOn::Truncated), r#""a" was truncated while it was being copied"#),
            (Cause::Truncating(Errno::IO), r#"failed to truncate "b": "#),
            (Cause::Extending(Errno::IO), r#"failed to extend "b": "#),
            (Cause::Closing(Errno::IO), r#"failed to close "b": "#),
            (Cause::NotCloned(Errno::XDEV), r#"failed to clone "b" from "a": "#),
            (
                Cause::Refused(End::Refused(Refusal::NotSeekable)),
                r#"cannot copy "a" to "b" with the chosen engine: Refused(NotSeekable)"#,
            ),
        ] {
            let error =
                Broken::of(Stop::Failed(cause), ["a".as_ref(), "b".as_ref()]).error.map(|error| error.to_string());
            assert!(error.as_ref().is_some_and(|error| error.starts_with(message)), "{error:?} {message}");
        }
        assert!(Broken::of(Stop::Cancelled, ["a".as_ref(), "b".as_ref()]).error.is_none());
    }
}
