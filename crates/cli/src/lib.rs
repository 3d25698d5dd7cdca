//! The command `haul`, which is `cp` or `smartcp` when called by those names: options, messages, progress and the exit
//! status.
//!
//! * **Knows** command lines, terminals, signals and the environment. It turns a command line into a
//!   [`haul_copy::plan::Plan`] and events into messages. haul-mpi uses it as a library.
//! * **Must not know** how anything is copied: that is haul-copy.
//!
//! Layers, from the bottom to the top. A file imports only from layers below it and from what stands before it in its
//! own, so there is no circle:
//!
//! 1. text and numbers: [`quote`], [`size`], [`words`], [`exit`]
//! 2. what the user may ask for: [`persona`], [`environment`], [`show`], [`throttle`], [`run_options`]
//! 3. what an option is: [`values`], [`complaint`], [`argmatch`], [`given`], [`flags`], [`getopt`]
//! 4. what is printed and written: [`screen`], [`progress`], `causes`, [`record`], [`list_file`], [`report`]
//! 5. the options of haul and its command line: [`options`] (with layers of its own), [`help`]
//! 6. beside and around a run: [`watch`], [`governor`], [`process`], [`profile`], [`xattrs`], [`launcher`], [`lists`],
//!    [`shards`], [`compare`], [`punch`]
//! 7. the commands: [`smartcp`], [`app`]; and [`generate`], which makes the man pages and completions of both
#![forbid(unsafe_code)]

pub mod app;
pub mod argmatch;
mod causes;
pub mod compare;
pub mod complaint;
pub mod environment;
pub mod exit;
pub mod flags;
pub mod generate;
pub mod getopt;
pub mod given;
pub mod governor;
pub mod help;
pub mod launcher;
pub mod list_file;
pub mod lists;
pub mod options;
pub mod persona;
pub mod process;
pub mod profile;
pub mod progress;
pub mod punch;
pub mod quote;
pub mod record;
pub mod report;
pub mod run_options;
pub mod screen;
pub mod shards;
pub mod show;
pub mod size;
pub mod smartcp;
pub mod throttle;
pub mod values;
pub mod watch;
pub mod words;
pub mod xattrs;
