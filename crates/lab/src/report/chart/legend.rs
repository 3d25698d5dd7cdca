//! Names and colours, above or below a drawing.

use super::canvas::{Canvas, Hand};
use super::fit;
use super::form::{LINE, SMALL};
use super::ink::Ink;

pub struct Legend {
    entries: Vec<(Ink, i32, i32, Vec<String>)>,
    pub height: i32,
}

impl Legend {
    pub fn new(named: impl Iterator<Item = (String, Ink)>, width: i32) -> Legend {
        let mut entries = Vec::new();
        let (mut x, mut y) = (0, 0);
        for (text, ink) in named {
            let lines = fit::wrap(&text, SMALL, f64::from(width - 20));
            let room = fit::widest(&lines, SMALL) + 20;
            if x > 0 && (x + room > width || lines.len() > 1) {
                (x, y) = (0, y + LINE + 3);
            }
            let count = lines.len() as i32;
            entries.push((ink, x, y, lines));
            x += room + 18;
            if count > 1 {
                (x, y) = (0, y + count * LINE + 3);
            }
        }
        Legend { entries, height: y + if x > 0 { LINE + 3 } else { 0 } }
    }

    pub fn draw(&self, canvas: &Canvas, top: i32) {
        for (ink, x, y, lines) in &self.entries {
            let y = top + y;
            canvas.rect((*x, y + 3), (x + 12, y + 15), *ink);
            let middle = y + lines.len() as i32 * LINE / 2;
            canvas.lines((x + 18, middle), lines, Hand::new(SMALL, Ink::Text));
        }
    }
}
