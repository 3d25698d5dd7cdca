//! Metadata of copies: what cp makes of each case is the oracle.

mod as_cp;
mod flags;
mod safety;
mod scene;
