//! Which options have a meaning where nothing is copied.

use crate::flags::Id;

/// Whether an option has a meaning with `--punch`.
pub fn goes_with_punch(id: Id) -> bool {
    matches!(id, Id::Punch | Id::Smart | Id::Explain | Id::Verbose)
}

/// Whether an option has a meaning with `--compare`: it says what is compared, where, or what is told.
pub fn goes_with_compare(id: Id) -> bool {
    matches!(
        id,
        Id::Compare
            | Id::Archive
            | Id::Recursive
            | Id::Preserve
            | Id::NoPreserve
            | Id::NoDereference
            | Id::NoDereferenceKeepLinks
            | Id::Dereference
            | Id::DereferenceOperands
            | Id::OneFileSystem
            | Id::Link
            | Id::AttributesOnly
            | Id::TargetDirectory
            | Id::NoTargetDirectory
            | Id::Jobs
            | Id::Verbose
    )
}
