//! Waiting for what another machine has made to be seen on this one.

use std::thread;
use std::time::{Duration, Instant};

use haul_sys::Errno;

/// How long another machine may take to show us what was made on a third one, before that counts as lost: network
/// filesystems keep what they know of names for up to a minute (acdirmax of NFS is 60 s).
pub const PATIENCE: Duration = Duration::from_secs(90);

/// How long it is worth while to wait before a chunk is given back.
pub const LITTLE_PATIENCE: Duration = Duration::from_secs(5);

/// Does something for which this machine has to see what another one has made. While there is nothing, `ask_again` makes
/// this machine forget what it remembers of names, and it is tried again; while there is something else, for
/// [`LITTLE_PATIENCE`] at most.
pub fn patiently<T>(
    patience: Duration,
    mut ask_again: impl FnMut(),
    mut attempt: impl FnMut() -> Result<T, Errno>,
) -> Result<T, Errno> {
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        match attempt() {
            Err(errno @ (Errno::NOENT | Errno::STALE))
                if started.elapsed() < if errno == Errno::STALE { patience.min(LITTLE_PATIENCE) } else { patience } =>
            {
                // No machine tells another one that it would see something now.
                thread::sleep(pause);
                ask_again();
                pause = (2 * pause).min(Duration::from_millis(250));
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_yet_is_looked_for_again() {
        let (mut attempts, mut asked) = (0, 0);
        let found = patiently(
            PATIENCE,
            || asked += 1,
            || {
                attempts += 1;
                match attempts {
                    1 => Err(Errno::NOENT),
                    2 => Err(Errno::STALE),
                    _ => Ok("found"),
                }
            },
        );
        assert_eq!((found, attempts, asked), (Ok("found"), 3, 2));
    }

    #[test]
    fn other_errors_are_final() {
        let mut attempts = 0;
        let found = patiently(
            PATIENCE,
            || (),
            || {
                attempts += 1;
                Err::<(), _>(Errno::ACCESS)
            },
        );
        assert_eq!((found, attempts), (Err(Errno::ACCESS), 1));
    }

    #[test]
    fn patience_ends() {
        assert_eq!(patiently(Duration::ZERO, || (), || Err::<(), _>(Errno::NOENT)), Err(Errno::NOENT));
    }
}
