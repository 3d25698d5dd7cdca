//! The sizes of drawings, and of what is written in them.

use crate::report::text::{clipped, shown};

/// For which screens a drawing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// 720 units wide.
    Wide,
    /// 328 units wide: a phone of 360 without the margins.
    Narrow,
}

impl Form {
    /// Units from left to right; a unit is a pixel where the drawing has its natural size.
    pub fn width(self) -> i32 {
        match self {
            Form::Wide => 720,
            Form::Narrow => 328,
        }
    }
}

pub const LETTERS: f64 = 13.0;
/// The same of what is less important.
pub const SMALL: f64 = 12.0;
/// From one line of letters to the next.
pub const LINE: i32 = 17;

/// A name as it stands in a drawing: of the very long ones the beginning, since the tables have them.
pub fn name(text: &str) -> String {
    clipped(&shown(text), 120)
}
