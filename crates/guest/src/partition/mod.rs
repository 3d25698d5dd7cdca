//! Partition tables: which parts of a disk somebody owns.
//!
//! A disk may carry several tables that do not agree: a GPT with a hybrid MBR, two copies of a GPT of which one is old, an
//! MBR over the rests of a GPT. Each valid table counts, and what any of them calls a partition has an owner. So a byte
//! is free only if it is free in all of them.

mod claims;
mod gpt;
mod mbr;
mod verity;

use crate::image::View;
use crate::refusal::Refusal;
use gpt::Copies;

pub use claims::{Claim, Known, Partition, Tables};

/// The partition tables of a disk; `None` if there are none, or only empty ones. `known` is asked where a table can be
/// understood in two ways.
///
/// # Errors
/// If it cannot be read, a table is damaged and nothing replaces it, or nobody can tell what a table means.
pub fn tables(disk: &View<'_>, known: Known<'_>) -> Result<Option<Tables>, Refusal> {
    let mut tables = Tables::default();
    let copies = gpt::read(disk, &mut tables)?;
    let of_gpt = tables.partitions.len();
    if !mbr::read(disk, &mut tables, copies != Copies::None, known)? {
        tables.unprotected = of_gpt > 0 && copies == Copies::Agree && mbr::is_blank(disk)?;
        if !tables.unprotected {
            tables.doubt_unprotected(of_gpt);
        }
    }
    tables.settle()?;
    Ok((!tables.kinds.is_empty()).then_some(tables))
}
