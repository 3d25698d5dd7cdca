//! The options for extents that are shared with the source, and for holes.

use haul_copy::plan::{Reflink, SmartCopy, Sparse};

use super::draft::{Draft, Flag};
use crate::complaint::{Complaint, misuse};
use crate::flags::Argument::{Optional, Required};
use crate::flags::Category::Data;
use crate::flags::Effect::Word;
use crate::quote::Quoter;
use crate::values::{Choice, Values, of_cp};

/// In the order of the documentation.
pub const FLAGS: &[Flag] = &[REFLINK, SPARSE];

/// The arguments of `--reflink`, in the order of GNU's messages.
const REFLINKS: &[Choice] = &[
    of_cp("auto", "share extents where the filesystem can"),
    of_cp("always", "fail where extents cannot be shared"),
    of_cp("never", "make a copy of every byte"),
];

const REFLINK: Flag = Flag {
    long: "reflink",
    argument: Optional("WHEN"),
    values: Values::One(REFLINKS),
    help: "when to share extents with the source; auto by default",
    details: "Without WHEN, always is meant. The filesystem copies shared extents when either file changes. Two files \
              that share extents are lost together if the medium fails there.",
    effect: Word("always", |draft, word| {
        draft.plan.data.reflink = match word {
            "always" => Reflink::Always,
            "never" => Reflink::Never,
            _ => Reflink::Auto,
        }
    }),
    settle: settle_reflink,
    ..Flag::cp(Data)
};

fn settle_reflink(draft: &mut Draft, _: &Quoter) -> Result<(), Complaint> {
    let plan = &mut draft.plan;
    if plan.data.reflink == Reflink::Always && plan.data.sparse != Sparse::Auto {
        return Err(misuse("--reflink can be used only with --sparse=auto"));
    }
    if plan.data.sparse == Sparse::Never {
        // Shared extents may have holes.
        plan.data.reflink = Reflink::Never;
    }
    if plan.data.reflink == Reflink::Always && plan.smart != SmartCopy::Off {
        return Err(misuse("cannot combine --reflink=always and --smart"));
    }
    Ok(())
}

/// The arguments of `--sparse`, in the order of GNU's messages.
const SPARSES: &[Choice] = &[
    of_cp("never", "make no holes"),
    of_cp("auto", "make holes where the source has them"),
    of_cp("always", "make holes also where the source has runs of zeros"),
];

const SPARSE: Flag = Flag {
    long: "sparse",
    argument: Required("WHEN"),
    values: Values::One(SPARSES),
    help: "when to make holes; auto by default",
    effect: Word("auto", |draft, word| {
        draft.plan.data.sparse = match word {
            "always" => Sparse::Always,
            "never" => Sparse::Never,
            _ => Sparse::Auto,
        }
    }),
    ..Flag::cp(Data)
};
