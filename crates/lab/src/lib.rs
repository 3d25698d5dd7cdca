//! The laboratory: measures copies and what they are made of, looks at what haul would do, and explains it.
#![forbid(unsafe_code)]

pub mod app;
pub mod doubts;
pub mod experiments;
pub mod map;
pub mod measure;
pub mod report;
pub mod results;
pub mod session;
pub mod signals;
pub mod tasks;
pub mod view;
