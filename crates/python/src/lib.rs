//! The extension module of the Python package `haul_copy`: what it does with the library, and nothing of what it means in
//! Python, which the package itself says in Python.
//!
//! * **Knows** haul's library, and objects of Python.
//! * **Must not know** `shutil`: which of its errors something is, and what its options mean.
#![forbid(unsafe_code)]

mod comparison;
mod copy;
mod descriptors;
mod meter;
mod wait;

use pyo3::prelude::*;

/// What haul_copy is made of; not for users.
#[pymodule(gil_used = false)]
mod _haul_copy {
    use super::*;

    #[pymodule_export]
    use super::comparison::compare;
    #[pymodule_export]
    use super::copy::copy;
    #[pymodule_export]
    use super::descriptors::{can_share, copy_data, sync_filesystem};
    #[pymodule_export]
    use super::wait::Cancel;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
