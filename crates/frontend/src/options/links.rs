//! The options for links instead of copies.

use haul_copy::plan::LinkMode;

use super::draft::{Draft, Flag};
use crate::complaint::{Complaint, misuse};
use crate::flags::Category::Destination;
use crate::flags::Effect::Switch;
use crate::flags::Mode;
use crate::quote::Quoter;

/// In the order of the documentation.
pub const FLAGS: &[Flag] = &[LINK, SYMBOLIC_LINK];

const LINK: Flag = Flag {
    short: "l",
    long: "link",
    help: "make hard links to the sources instead of copies",
    effect: Switch(|draft| draft.hard_links = true),
    modes: &[Mode::Compare],
    settle: settle_links,
    ..Flag::cp(Destination)
};

fn settle_links(draft: &mut Draft, _: &Quoter) -> Result<(), Complaint> {
    draft.plan.link = match (draft.hard_links, draft.symbolic_links) {
        (true, true) => return Err(misuse("cannot make both hard and symbolic links")),
        (true, false) => LinkMode::Hard,
        (false, true) => LinkMode::Symbolic,
        (false, false) => LinkMode::Copy,
    };
    Ok(())
}

const SYMBOLIC_LINK: Flag = Flag {
    short: "s",
    long: "symbolic-link",
    help: "make symbolic links to the sources instead of copies",
    details: "Each SOURCE must be absolute, unless the links are made in the current directory.",
    effect: Switch(|draft| draft.symbolic_links = true),
    ..Flag::cp(Destination)
};
