//! What the commands of haul share: what a command line means, and what a user sees of a run.
//!
//! * **Knows** command lines, terminals, signals, the environment and the files of the user. It turns a command line into
//!   a [`haul_copy::plan::Plan`] and the events of a run into messages, a progress bar, statistics and an exit status.
//! * **Must not know** how anything is copied, which is haul-copy's, nor what a command does from its first step to its
//!   last: `haul` and its other names, and `haul-mpi`, have that.
//!
//! Layers, from the bottom to the top. A file imports only from layers below it and from what stands before it in its
//! own, so there is no circle:
//!
//! 1. text, numbers and files: [`quote`], [`size`], `nearest`, `errno`, [`words`], `planned`, [`exit`], [`files`]
//! 2. what the user may ask for: [`persona`], [`environment`], [`show`], [`throttle`], [`run_options`]
//! 3. what an option is: [`values`], [`complaint`], [`given`], [`flags`], [`getopt`]
//! 4. what is printed and written: `nonblocking`, [`screen`], `bar`, `causes`, [`record`], [`summary`], [`json`], `progress`,
//!    [`report`]
//! 5. the options of haul and its command line: [`options`] (with layers of its own), [`help`]
//! 6. before and beside a run: [`profile`], [`session`], [`watch`]
//! 7. a run that writes nothing: [`compare`]
#![forbid(unsafe_code)]

mod bar;
mod causes;
pub mod compare;
pub mod complaint;
pub mod environment;
mod errno;
pub mod exit;
pub mod failures;
pub mod files;
pub mod flags;
pub mod getopt;
pub mod given;
pub mod help;
pub mod json;
mod nearest;
mod nonblocking;
pub mod options;
pub mod persona;
mod planned;
pub mod profile;
pub mod progress;
pub mod quote;
pub mod record;
pub mod report;
pub mod run_options;
pub mod screen;
pub mod session;
pub mod show;
pub mod size;
pub mod summary;
pub mod throttle;
pub mod values;
pub mod watch;
pub mod words;
