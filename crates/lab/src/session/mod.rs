//! One run of a command: where it works, where its results go, and how far it is.

mod competitor;
mod contest;
mod ended;
mod group;
mod progress;
mod state;
mod timed;

pub use competitor::{Competitor, How, PLACE_OF_DEST, PLACE_OF_SOURCE};
pub use contest::{check_time, compete_all};
pub use group::{Group, Judging, Making};
pub use progress::Progress;
pub use state::{DIRECTORY, Halt, RESULTS, SOURCE, Session, Settings};
pub use timed::{Timed, time_copy};
