//! What drawings are made with: rectangles, lines and words, in inks.

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::form::LINE;
use super::ink::Ink;
use crate::report::markup::escaped;

/// plotters makes letters smaller than it is asked for, by this.
const LARGER: f64 = 1.24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Debug, Clone, Copy)]
pub struct Hand {
    pub size: f64,
    pub ink: Ink,
    pub anchor: Anchor,
    pub bold: bool,
}

impl Hand {
    pub fn new(size: f64, ink: Ink) -> Hand {
        Hand { size, ink, anchor: Anchor::Start, bold: false }
    }

    pub fn at(self, anchor: Anchor) -> Hand {
        Hand { anchor, ..self }
    }

    pub fn bold(self) -> Hand {
        Hand { bold: true, ..self }
    }
}

pub struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
}

fn colour(ink: Ink) -> RGBColor {
    let (red, green, blue) = ink.sign();
    RGBColor(red, green, blue)
}

// What is drawn goes into a text in memory, which refuses nothing: errors are thrown away.
impl Canvas<'_> {
    /// A filled rectangle from the upper left corner to the lower right.
    pub fn rect(&self, from: (i32, i32), to: (i32, i32), ink: Ink) {
        self.area.draw(&Rectangle::new([from, to], colour(ink).filled())).unwrap_or_default();
    }

    pub fn line(&self, points: Vec<(i32, i32)>, ink: Ink, width: u32) {
        self.area.draw(&PathElement::new(points, colour(ink).stroke_width(width))).unwrap_or_default();
    }

    pub fn dashes(&self, from: (i32, i32), to: (i32, i32), ink: Ink) {
        let style = colour(ink).stroke_width(1);
        self.area.draw(&DashedPathElement::new([from, to], 5, 4, style)).unwrap_or_default();
    }

    pub fn dot(&self, at: (i32, i32), radius: i32, ink: Ink) {
        self.area.draw(&Circle::new(at, radius, colour(ink).filled())).unwrap_or_default();
    }

    /// Words; the point is half-way up.
    pub fn text(&self, at: (i32, i32), words: &str, hand: Hand) {
        let weight = if hand.bold { FontStyle::Bold } else { FontStyle::Normal };
        let place = match hand.anchor {
            Anchor::Start => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::End => HPos::Right,
        };
        let style = TextStyle::from(("sans-serif", hand.size * LARGER, weight));
        let ink = colour(hand.ink);
        let style = style.color(&ink).pos(Pos::new(place, VPos::Center));
        self.area.draw_text(words, &style, at).unwrap_or_default();
    }

    /// Lines of words, with their middle half-way up.
    pub fn lines(&self, at: (i32, i32), lines: &[String], hand: Hand) {
        let top = at.1 - (lines.len() as i32 - 1) * LINE / 2;
        for (number, line) in lines.iter().enumerate() {
            self.text((at.0, top + number as i32 * LINE), line, hand);
        }
    }
}

/// Makes a drawing of this size. `least` is how narrow it may be shown, if not as narrow as the screen wants.
pub fn paint(size: (i32, i32), least: Option<i32>, label: &str, draw: impl FnOnce(&Canvas)) -> String {
    let mut drawn = String::new();
    let size = (size.0.max(1) as u32, size.1.max(1) as u32);
    {
        let canvas = Canvas { area: SVGBackend::with_string(&mut drawn, size).into_drawing_area() };
        draw(&canvas);
        canvas.area.present().unwrap_or_default();
    }
    let (_, inside) = drawn.split_once('>').unwrap_or_default();
    let label = escaped(label);
    let (width, height) = size;
    let least = least.map(|least| format!(" style=\"min-width:{least}px\"")).unwrap_or_default();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{label}\"{least}>\n<title>{label}</title>{inside}"
    )
}
