//! What an input of the fuzzer says: which seed, whether checksums are fixed, and a list of edits.
//!
//! The first byte has the number of the seed in its upper seven bits, and in the lowest whether checksums are fixed.
//! Each edit is a byte that says what to do, three bytes of a position among the places of the seed, and values. What a
//! position counts is said by a bit of the first byte: the bytes of all places, or places and then bytes, so that a long
//! place, such as a log, does not take all edits.

use crate::pages::Pages;
use crate::seed::Seed;

/// The most edits of one input.
const MOST: usize = 32;

/// The head of an input.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    /// The number of the seed, to be taken modulo how many there are.
    pub seed: usize,
    /// Whether checksums are to be fixed.
    pub fix_checksums: bool,
}

/// Takes the head off an input.
pub fn head(input: &[u8]) -> Option<(Head, &[u8])> {
    let (first, rest) = input.split_first()?;
    Some((Head { seed: usize::from(first >> 1), fix_checksums: first & 1 == 1 }, rest))
}

/// What was done to an image.
#[derive(Debug, Default)]
pub struct Done {
    /// How many edits.
    pub edits: usize,
    /// The most bytes that one of them may have changed.
    pub longest: usize,
    /// Where the last one was.
    pub last: u64,
}

/// Does what the rest of an input says.
pub fn apply(mut input: &[u8], seed: &Seed, pages: &mut Pages) -> Done {
    let mut done = Done::default();
    while done.edits < MOST
        && let Some((at, changed)) = edit(&mut input, seed, pages)
    {
        done.edits += 1;
        done.longest = done.longest.max(changed);
        done.last = at;
    }
    done
}

fn take<'i>(input: &mut &'i [u8], count: usize) -> Option<&'i [u8]> {
    let (taken, rest) = input.split_at_checked(count)?;
    *input = rest;
    Some(taken)
}

/// A place, and how many bytes there are from it to the end of its range.
fn position(input: &mut &[u8], seed: &Seed, by_place: bool) -> Option<(u64, usize)> {
    let number = take(input, 3)?.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    if by_place {
        let count = seed.places.len() as u64;
        let place = seed.places.get(number.checked_rem(count)? as usize)?;
        let len = place.end - place.start;
        let inside = (number / count).checked_rem(len)?;
        return Some((place.start + inside, (len - inside) as usize));
    }
    let mut number = number % seed.places.iter().map(|place| place.end - place.start).sum::<u64>().max(1);
    for place in &seed.places {
        let len = place.end - place.start;
        if number < len {
            return Some((place.start + number, (len - number) as usize));
        }
        number -= len;
    }
    None
}

fn edit(input: &mut &[u8], seed: &Seed, pages: &mut Pages) -> Option<(u64, usize)> {
    let kind = *take(input, 1)?.first()?;
    let by_place = kind & 8 != 0;
    let (at, room) = position(input, seed, by_place)?;
    let bytes = match kind % 8 {
        width @ 0..=3 => take(input, 1 << width)?.to_vec(),
        4 => {
            let bit = take(input, 1)?.first()? % 8;
            pages.read(at, 1).iter().map(|byte| byte ^ (1 << bit)).collect()
        }
        5 => {
            let (len, value) = (take(input, 2)?, take(input, 1)?);
            value.repeat(len.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)) % 4096)
        }
        6 => {
            // From elsewhere, up to a whole page.
            let (from, there) = position(input, seed, by_place)?;
            let len = take(input, 2)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)) % 4097;
            pages.read(from, len.min(there))
        }
        _ => {
            // A little more or less than it was.
            let by = i64::from(take(input, 1)?.first()?.cast_signed());
            let old =
                pages.read(at, room.min(8)).iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
            old.wrapping_add_signed(by).to_le_bytes().to_vec()
        }
    };
    let bytes = bytes.get(..room).unwrap_or(&bytes);
    pages.write(at, bytes);
    Some((at, bytes.len()))
}
