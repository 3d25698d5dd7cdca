//! One run of a command: where it works, where its results go, and how far it is.

mod competitor;
mod contest;
pub mod forecast;
mod group;
mod progress;
pub mod sampled;
mod state;
mod timed;

pub use competitor::{Competitor, How, PLACE_OF_DEST, PLACE_OF_SOURCE};
pub use contest::{check_time, compete_all};
pub use group::Group;
pub use state::{DIRECTORY, Halt, REPORTS, SECOND, Session, Settings};
pub use timed::time_copy;
