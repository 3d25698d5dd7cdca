//! The library of haul: everything that a copy is made of, and nothing that a terminal or a process needs.
//!
//! It does not print, does not exit and does not read the environment. A front end fills a [`plan::Plan`], passes it
//! to the run together with an [`events::Observer`], and gets a summary back.
#![forbid(unsafe_code)]

pub mod compare;
pub mod engine;
pub mod error;
pub mod events;
pub mod facts;
pub mod images;
pub mod journal;
pub mod manifest;
pub mod meta;
pub mod moved;
pub mod pace;
pub mod plan;
pub mod probe;
pub mod ranges;
pub mod run;
pub mod smart;
pub mod stats;
pub mod strategy;
pub mod verify;
pub mod walk;
