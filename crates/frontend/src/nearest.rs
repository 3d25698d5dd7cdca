//! The word that somebody may have meant who has written another one.

/// Nobody means a word by one that is longer than this, in bytes.
const LONGEST: usize = 64;

/// The nearest of these words, if it is near enough to be what was meant: at most one mistake in three letters. Of several that
/// are as near, the first.
pub(crate) fn nearest<'a>(written: &[u8], words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if written.len() > LONGEST {
        return None;
    }
    let near = |word: &&str| distance(written, word.as_bytes());
    let best = words.into_iter().min_by_key(near)?;
    let most = written.len().max(best.len()) / 3;
    (near(&best) <= most).then_some(best)
}

/// How many mistakes make one word of another: a letter that is left out, added, or another one, or two that have changed
/// places (optimal string alignment).
fn distance(one: &[u8], other: &[u8]) -> usize {
    let first: Vec<usize> = (0..=other.len()).collect();
    let (mut before, mut last) = (first.clone(), first);
    for (i, letter) in one.iter().enumerate() {
        let mut row = Vec::with_capacity(last.len());
        row.push(i + 1);
        for (j, its) in other.iter().enumerate() {
            let exchanged = last[j] + usize::from(letter != its);
            let mut least = exchanged.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *letter == other[j - 1] && one[i - 1] == *its {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_mistake_counts_once() {
        for (one, other, mistakes) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("exclude", "exclude", 0),
            ("exlude", "exclude", 1),
            ("excclude", "exclude", 1),
            ("exklude", "exclude", 1),
            ("ecxlude", "exclude", 1),
            ("recrusive", "recursive", 1),
            ("ca", "abc", 3),
        ] {
            assert_eq!(distance(one.as_bytes(), other.as_bytes()), mistakes, "{one} {other}");
        }
    }

    #[test]
    fn only_a_word_that_is_near_is_meant() {
        let words = ["exclude", "include", "explain", "jobs"];
        for (written, meant) in [
            ("exlude", Some("exclude")),
            ("incldue", Some("include")),
            ("explian", Some("explain")),
            ("job", Some("jobs")),
            ("bogus", None),
            ("x", None),
            ("", None),
            ("\u{1b}[2J", None),
        ] {
            assert_eq!(nearest(written.as_bytes(), words), meant, "{written:?}");
        }
        assert_eq!(nearest(b"a", []), None);
        let long = "x".repeat(LONGEST + 1);
        assert_eq!(nearest(long.as_bytes(), [&long[..]]), None);
    }

    #[test]
    fn of_two_words_that_are_as_near_the_first_is_meant() {
        assert_eq!(nearest(b"xxxa", ["xxxb", "xxxc"]), Some("xxxb"));
    }
}
