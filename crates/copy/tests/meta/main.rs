//! Metadata of copies: what cp makes of each case is the oracle.

mod as_cp;
mod flags;
mod new_entries;
mod safety;
mod scene;
