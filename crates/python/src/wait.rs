//! A thread of Python waits for work of haul: without the interpreter's lock, with an eye on signals.

use std::panic;
use std::thread;
use std::time::Duration;

use haul_copy::Cancel as Flag;
use parking_lot::{Condvar, Mutex};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::meter::Meter;

/// From one look at signals, and one call of who follows a copy, to the next.
const INTERVAL: Duration = Duration::from_millis(50);

/// Stops a copy from another thread.
#[pyclass(frozen, module = "haul_copy")]
#[derive(Default)]
pub struct Cancel(pub Flag);

#[pymethods]
impl Cancel {
    #[new]
    fn new() -> Cancel {
        Cancel::default()
    }

    /// Stops it after the piece of data that is being moved.
    fn cancel(&self) {
        self.0.cancel();
    }

    /// Whether somebody has asked for that.
    #[getter]
    fn cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

#[derive(Default)]
struct End {
    reached: Mutex<bool>,
    changed: Condvar,
}

/// Says that the work has ended, also when it panics.
struct Ending<'a>(&'a End);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        *self.0.reached.lock() = true;
        self.0.changed.notify_all();
    }
}

impl End {
    fn wait(&self) -> bool {
        let mut reached = self.reached.lock();
        if !*reached {
            self.changed.wait_for(&mut reached, INTERVAL);
        }
        *reached
    }
}

/// Does the work in a thread of its own. Meanwhile `progress` is called with bytes and files, and an exception that it or a
/// handler of signals raises stops the work and is raised when that has ended.
///
/// # Errors
/// Such an exception; OSError if there is no thread to be had.
pub fn for_work<T: Send>(
    py: Python<'_>,
    cancel: &Flag,
    meter: &Meter,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let end = End::default();
    thread::scope(|scope| {
        let run = || {
            let _ending = Ending(&end);
            work()
        };
        let worker = thread::Builder::new().name("haul".into()).spawn_scoped(scope, run);
        let worker = worker.map_err(|error| PyOSError::new_err((error.raw_os_error(), error.to_string())))?;
        let mut raised = None;
        let mut shown = None;
        loop {
            let ended = py.detach(|| end.wait());
            if raised.is_none() {
                let looked = py.check_signals().and_then(|()| match progress {
                    Some(progress) => show(progress, meter, &mut shown),
                    None => Ok(()),
                });
                if let Err(exception) = looked {
                    cancel.cancel();
                    raised = Some(exception);
                }
            }
            if ended {
                break;
            }
        }
        let value = py.detach(|| worker.join()).unwrap_or_else(|panic| panic::resume_unwind(panic));
        raised.map_or(Ok(value), Err)
    })
}

fn show(progress: &Bound<'_, PyAny>, meter: &Meter, shown: &mut Option<(u64, u64)>) -> PyResult<()> {
    let now = meter.now();
    if *shown != Some(now) {
        progress.call1(now)?;
        *shown = Some(now);
    }
    Ok(())
}
