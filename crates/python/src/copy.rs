//! Copies of files and trees, by names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_copy::plan::{
    Checksum, Delete, Dereference, Durable, IfChanged, ModeRule, Preserve, SpecialFiles, Update, Verify, Wish,
};
use haul_copy::stats::Stats;
use haul_copy::{Context, Copy, Error, Summary};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::descriptors::reflink_of;
use crate::meter::Meter;
use crate::wait::{self, Cancel};

/// What is asked for, in words.
#[derive(FromPyObject)]
pub struct Options {
    /// All that a copy can keep; if not, what `shutil.copystat` does.
    #[pyo3(item)]
    archive: bool,
    /// Symbolic links of the source are followed: "never", "operands" or "always".
    #[pyo3(item)]
    follow: String,
    /// FIFOs, sockets and devices are errors.
    #[pyo3(item)]
    refuse_special: bool,
    /// Which files that exist stay: "none", "older" (those that are not older), "changed" (of the same size and time), "content".
    #[pyo3(item)]
    update: String,
    #[pyo3(item)]
    delete: bool,
    /// Patterns of gitignore(5).
    #[pyo3(item)]
    exclude: Vec<String>,
    #[pyo3(item)]
    reflink: String,
    /// "none", "end" or "file".
    #[pyo3(item)]
    durable: String,
    /// "none", "read" or "device".
    #[pyo3(item)]
    verify: String,
    /// "none", or the name of a digest.
    #[pyo3(item)]
    digest: String,
    #[pyo3(item)]
    jobs: Option<usize>,
    #[pyo3(item)]
    atomic: bool,
}

impl Options {
    fn copy(self, source: &Path, dest: &Path) -> PyResult<Copy> {
        let mut copy = Copy::new(source, dest).recursive(true).reflink(reflink_of(&self.reflink)?).preserve(Preserve {
            mode: ModeRule::Keep,
            timestamps: true,
            xattr: Wish::Try,
            required: true,
            ..Preserve::default()
        });
        if self.archive {
            copy = copy.archive();
        }
        for pattern in self.exclude {
            copy = copy.exclude(pattern);
        }
        let follow = one_of(
            ("follow", &self.follow),
            [("never", Dereference::Never), ("operands", Dereference::Operands), ("always", Dereference::Always)],
        )?;
        let durable = [("none", Durable::None), ("end", Durable::Flush), ("file", Durable::File)];
        let durable = one_of(("durable", &self.durable), durable)?;
        let verify = [("none", Verify::Off), ("read", Verify::Read), ("device", Verify::Device)];
        let verify = one_of(("verify", &self.verify), verify)?;
        let update = one_of(
            ("update", &self.update),
            [
                ("none", Update::All),
                ("older", Update::Older),
                ("changed", Update::Changed),
                ("content", Update::Content),
            ],
        )?;
        let digest = one_of(
            ("digest", &self.digest),
            [
                ("none", None),
                ("blake3", Some(Checksum::Blake3)),
                ("xxh3", Some(Checksum::Xxh3)),
                ("sha256", Some(Checksum::Sha256)),
                ("md5", Some(Checksum::Md5)),
            ],
        )?;
        Ok(copy.follow(follow).durable(durable).verify(verify).atomic(self.atomic).with(|plan| {
            if self.refuse_special {
                plan.special_files = SpecialFiles::Refused;
            }
            plan.update = update;
            plan.delete = self.delete.then(Delete::default);
            plan.checksum = digest;
            plan.jobs = self.jobs;
            // open(2) for writing does so, and shutil with it.
            plan.write_through_dangling_link = !self.archive;
            // os.makedirs() takes a link to a directory for one.
            plan.keep_directory_symlink = !self.archive;
            if self.archive {
                plan.if_changed = IfChanged::Warn;
            }
        }))
    }
}

fn one_of<T, const N: usize>((option, word): (&str, &str), values: [(&'static str, T); N]) -> PyResult<T> {
    let known: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
    let found = values.into_iter().find(|(name, _)| *name == word);
    found
        .map(|(_, value)| value)
        .ok_or_else(|| PyValueError::new_err(format!("{option} is {word:?}: it must be one of {}", known.join(", "))))
}

/// Copies a file or a tree; `dest` is the name of the copy. Returns what was done, with all errors, as a dictionary.
///
/// # Errors
/// ValueError for options that cannot be meant, and what `progress` or a handler of signals raises.
#[pyfunction]
#[pyo3(signature = (source, dest, options, progress = None, cancel = None))]
pub fn copy<'py>(
    py: Python<'py>,
    source: &[u8],
    dest: &[u8],
    options: Options,
    progress: Option<&Bound<'py, PyAny>>,
    cancel: Option<&Bound<'py, Cancel>>,
) -> PyResult<Bound<'py, PyDict>> {
    let [source, dest] = [source, dest].map(|name| Path::new(OsStr::from_bytes(name)));
    let meter = Meter::new(!options.archive);
    let copy = options.copy(source, dest)?.build().map_err(|conflict| PyValueError::new_err(conflict.to_string()))?;
    let cancel = cancel.map(|cancel| cancel.get().0.clone()).unwrap_or_default();
    let summary = wait::for_work(py, &cancel, &meter, progress, || {
        let context = Context { observer: &meter, cancel: cancel.clone(), ..Context::default() };
        match copy.run(&context) {
            Ok(summary) => summary,
            Err(failed) => *failed.summary,
        }
    })?;
    answer(py, &summary, &meter)
}

fn answer<'py>(py: Python<'py>, summary: &Summary, meter: &Meter) -> PyResult<Bound<'py, PyDict>> {
    let stats: &Stats = &summary.stats;
    let answer = PyDict::new(py);
    for (name, count) in [
        ("files", stats.regular),
        ("directories", stats.directories),
        ("symbolic_links", stats.symbolic_links),
        ("hard_links", stats.hard_links),
        ("special", stats.special),
        ("skipped", stats.skipped),
        ("excluded", stats.excluded),
        ("deleted", stats.deleted_files + stats.deleted_directories),
        ("bytes", stats.moved.total()),
        ("bytes_shared", stats.moved.cloned),
        ("bytes_of_holes", stats.moved.holes),
    ] {
        answer.set_item(name, count)?;
    }
    answer.set_item("failed", summary.failed)?;
    answer.set_item("cancelled", summary.cancelled)?;
    let errors = |errors: &[Error]| errors.iter().map(|error| parts(py, error)).collect::<Vec<_>>();
    answer.set_item("errors", errors(&meter.errors.lock()))?;
    answer.set_item("warnings", errors(&meter.warnings.lock()))?;
    let damaged: Vec<_> = summary.damaged.iter().map(|path| bytes(py, path)).collect();
    answer.set_item("damaged", damaged)?;
    let digests = PyDict::new(py);
    for (path, digest) in &*meter.digests.lock() {
        digests.set_item(bytes(py, path), digest)?;
    }
    answer.set_item("digests", digests)?;
    Ok(answer)
}

/// What an error is made of: its kind, its message, what the kernel said, and its paths.
type Parts<'py> = (&'static str, String, Option<i32>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

fn parts<'py>(py: Python<'py>, error: &Error) -> Parts<'py> {
    let paths = [&error.path, &error.other].map(|path| bytes(py, path));
    let [path, other] = paths;
    (error.what.name(), error.to_string(), error.raw_os_error(), path, other)
}

pub fn bytes<'py>(py: Python<'py>, path: impl AsRef<OsStr>) -> Bound<'py, PyBytes> {
    PyBytes::new(py, path.as_ref().as_bytes())
}
