//! How a copy differs from its source.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_copy::compare as comparison;
use haul_copy::compare::{Difference, Found, Observer, Session};
use haul_copy::meta::XattrRules;
use haul_copy::{Copy, Error};
use haul_sys::inode::Time;
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::copy::bytes;
use crate::meter::Meter;
use crate::wait;

#[derive(Default)]
struct Heard {
    found: Mutex<Vec<Found>>,
    errors: Mutex<Vec<Error>>,
}

impl Observer for Heard {
    fn differs(&self, found: &Found) {
        self.found.lock().push(found.clone());
    }

    fn problem(&self, error: &Error) {
        self.errors.lock().push(error.clone());
    }
}

/// A difference: in the source, in the copy, in what they differ, and how.
type Row<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, &'static str, String);

/// Compares everything that an archive keeps, contents included. Returns the differences, and messages about what could not be
/// compared.
///
/// # Errors
/// What a handler of signals raises.
#[pyfunction]
pub fn compare<'py>(py: Python<'py>, source: &[u8], copy: &[u8]) -> PyResult<(Vec<Row<'py>>, Vec<String>)> {
    let [source, copy] = [source, copy].map(|name| Path::new(OsStr::from_bytes(name)));
    let plan = Copy::new(source, copy).archive().build();
    let plan = plan.map_err(|conflict| PyValueError::new_err(conflict.to_string()))?;
    let (meter, cancel, heard) = (Meter::default(), Default::default(), Heard::default());
    wait::for_work(py, &cancel, &meter, None, || {
        let stop = || cancel.is_cancelled();
        let session = Session { observer: &heard, rules: &XattrRules::default(), stop: &stop, board: None };
        comparison::compare(plan.plan(), &session);
    })?;
    let found = heard.found.into_inner();
    let rows = found.iter().map(|found| {
        let (what, how) = words(&found.difference);
        (bytes(py, &found.source), bytes(py, &found.copy), what, how)
    });
    let errors = heard.errors.lock();
    Ok((rows.collect(), errors.iter().map(Error::to_string).collect()))
}

/// In what they differ, a word for programs; and how: both values where there are two, nothing where the word says all.
fn words(difference: &Difference) -> (&'static str, String) {
    let time = |time: &Time| format!("{}.{:09}", time.seconds, time.nanoseconds);
    let text = |path: &OsStr| path.to_string_lossy().into_owned();
    match difference {
        Difference::OnlyInSource => ("only in source", String::new()),
        Difference::OnlyInCopy => ("only in copy", String::new()),
        Difference::Kind(one, other) => ("type", format!("{one:?}, {other:?}")),
        Difference::Size(one, other) => ("size", format!("{one}, {other}")),
        Difference::Contents(at) => ("contents", format!("from byte {at} on")),
        Difference::Target(one, other) => ("link", format!("{}, {}", text(one), text(other))),
        Difference::Node(one, other) => {
            ("device", format!("{}:{}, {}:{}", one.major, one.minor, other.major, other.minor))
        }
        Difference::Mode(one, other) => ("mode", format!("{one:04o}, {other:04o}")),
        Difference::Owner(one, other) => ("owner", format!("{}:{}, {}:{}", one.0, one.1, other.0, other.1)),
        Difference::Modified(one, other) => ("time", format!("{}, {}", time(one), time(other))),
        Difference::Attribute(name) => ("attribute", text(name)),
        Difference::NotLinked(path) => ("no hard link to", text(path.as_os_str())),
        Difference::Linked(path) => ("hard link to", text(path.as_os_str())),
        Difference::Same => ("the same file", String::new()),
    }
}
