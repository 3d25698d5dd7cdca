//! Colours by what they are for. A drawing has signs in the place of colours, which a style sheet replaces.
//!
//! The colours of parts are those of Okabe and Ito, which people with any kind of colour blindness can tell
//! apart; fields go from blue over grey to orange for the same reason. Words or figures say everything as well.

use std::fmt::Write as _;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    Paper,
    Text,
    /// Words that are less important.
    Dim,
    /// Lines behind a drawing.
    Line,
    /// The bar that others are compared with.
    Base,
    Bar,
    /// One of [`PARTS`] parts.
    Part(usize),
    OnPart(usize),
    /// A field, from -[`STEPS`] (less) over 0 (the same) to [`STEPS`] (more).
    Field(i32),
    OnField(i32),
    /// A field that was not measured.
    Empty,
}

/// How many parts have colours of their own.
pub const PARTS: usize = 7;
/// How many colours fields have above and below the middle.
pub const STEPS: i32 = 4;

/// By day and by night, for the inks in the order of [`all`].
const PLAIN: [(&str, &str); 6] = [
    ("#ffffff", "#15181c"),
    ("#1d2126", "#e8eaed"),
    ("#5a636d", "#a3acb6"),
    ("#d9dde2", "#353b43"),
    ("#8a939d", "#7d8792"),
    ("#2a6db0", "#5b9bdc"),
];
const PART: [(&str, &str); PARTS] = [
    ("#0072b2", "#4fa3dc"),
    ("#e69f00", "#e0a526"),
    ("#009e73", "#2fb48c"),
    ("#d55e00", "#e57a33"),
    ("#56b4e9", "#8fd0f5"),
    ("#cc79a7", "#d58fb6"),
    ("#9aa1a9", "#8c959f"),
];
const ON_PART: [(&str, &str); PARTS] = [
    ("#ffffff", "#101214"),
    ("#101214", "#101214"),
    ("#101214", "#101214"),
    ("#101214", "#101214"),
    ("#101214", "#101214"),
    ("#101214", "#101214"),
    ("#101214", "#101214"),
];
/// From the least to the most.
const FIELD: [(&str, &str); 9] = [
    ("#1f5c99", "#8fc1f2"),
    ("#4f8ac2", "#5f9bd8"),
    ("#9cc3e6", "#2f5f8f"),
    ("#d3e4f4", "#24425f"),
    ("#eef0f2", "#2c3138"),
    ("#fbe2c8", "#54391c"),
    ("#f5bd85", "#7d4f1c"),
    ("#e08a3c", "#d88a3e"),
    ("#a8500b", "#f7b877"),
];
const ON_FIELD: [(&str, &str); 9] = [
    ("#ffffff", "#101214"),
    ("#101214", "#101214"),
    ("#101214", "#ffffff"),
    ("#101214", "#ffffff"),
    ("#1d2126", "#e8eaed"),
    ("#101214", "#ffffff"),
    ("#101214", "#ffffff"),
    ("#101214", "#101214"),
    ("#ffffff", "#101214"),
];
const EMPTY: (&str, &str) = ("#f7f8f9", "#1b1f24");

impl Ink {
    /// The sign for it, as red, green and blue. No colour of a style sheet is as dark.
    pub fn sign(self) -> (u8, u8, u8) {
        let part = |number: usize| (number % PARTS) as u8;
        let field = |step: i32| (step.clamp(-STEPS, STEPS) + STEPS) as u8;
        let (kind, number) = match self {
            Ink::Paper => (0, 0),
            Ink::Text => (0, 1),
            Ink::Dim => (0, 2),
            Ink::Line => (0, 3),
            Ink::Base => (0, 4),
            Ink::Bar => (0, 5),
            Ink::Empty => (0, 6),
            Ink::Part(number) => (1, part(number)),
            Ink::OnPart(number) => (2, part(number)),
            Ink::Field(step) => (3, field(step)),
            Ink::OnField(step) => (4, field(step)),
        };
        (1, kind, number)
    }

    /// What it looks like by day and by night, as in a style sheet.
    pub fn colours(self) -> (&'static str, &'static str) {
        let (_, kind, number) = self.sign();
        let row: &[(&str, &str)] = match kind {
            0 => &PLAIN,
            1 => &PART,
            2 => &ON_PART,
            3 => &FIELD,
            _ => &ON_FIELD,
        };
        row.get(usize::from(number)).copied().unwrap_or(EMPTY)
    }
}

fn all() -> Vec<Ink> {
    let mut inks = vec![Ink::Paper, Ink::Text, Ink::Dim, Ink::Line, Ink::Base, Ink::Bar, Ink::Empty];
    inks.extend((0..PARTS).flat_map(|part| [Ink::Part(part), Ink::OnPart(part)]));
    inks.extend((-STEPS..=STEPS).flat_map(|step| [Ink::Field(step), Ink::OnField(step)]));
    inks
}

fn variable(ink: Ink) -> String {
    let (_, kind, number) = ink.sign();
    format!("--i{kind}{number}")
}

/// Declarations of what the inks look like: by day, or by night.
pub fn declarations(night: bool) -> String {
    let mut text = String::new();
    for ink in all() {
        let (day, dark) = ink.colours();
        write!(text, "{}:{};", variable(ink), if night { dark } else { day }).unwrap_or_default();
    }
    text
}

/// Rules that put the declared colours in the place of the signs.
pub fn rules() -> String {
    let mut text = String::new();
    for ink in all() {
        let (red, green, blue) = ink.sign();
        for attribute in ["fill", "stroke"] {
            let sign = format!("{red:02X}{green:02X}{blue:02X}");
            writeln!(text, "[{attribute}=\"#{sign}\"]{{{attribute}:var({})}}", variable(ink)).unwrap_or_default();
        }
    }
    text
}

#[cfg(test)]
pub(in crate::report) mod tests {
    use super::*;

    /// As the Web Content Accessibility Guidelines define it.
    fn luminance(colour: &str) -> f64 {
        let part = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    /// The contrast of two colours, from 1 to 21.
    pub fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    fn pairs() -> Vec<(Ink, Ink)> {
        let mut pairs = vec![(Ink::Text, Ink::Paper), (Ink::Dim, Ink::Paper), (Ink::Dim, Ink::Empty)];
        pairs.extend((0..PARTS).map(|part| (Ink::OnPart(part), Ink::Part(part))));
        pairs.extend((-STEPS..=STEPS).map(|step| (Ink::OnField(step), Ink::Field(step))));
        pairs
    }

    #[test]
    fn words_can_be_read_on_what_they_stand_on_by_day_and_by_night() {
        for (words, ground) in pairs() {
            let (words, grounds) = (words.colours(), ground.colours());
            for (words, under) in [(words.0, grounds.0), (words.1, grounds.1)] {
                assert!(contrast(words, under) >= 4.5, "{ground:?}: {words} on {under}: {}", contrast(words, under));
            }
        }
    }

    #[test]
    fn every_ink_has_a_sign_of_its_own() {
        let mut signs: Vec<_> = all().into_iter().map(Ink::sign).collect();
        let count = signs.len();
        signs.sort_unstable();
        signs.dedup();
        assert_eq!(signs.len(), count);
        assert!(declarations(true).contains("--i05:#5b9bdc;"));
    }
}
