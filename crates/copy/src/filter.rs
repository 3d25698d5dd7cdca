//! Which entries below the operands the user wants, as plain data ([`Choice`]), and the same ready for matching ([`Filter`]).
//!
//! The patterns are those of gitignore(5); of all that match an entry the first one decides. docs/filters.md describes them.
//! Names are bytes: nothing here asks whether they are UTF-8.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::iter::Peekable;
use std::os::unix::ffi::OsStrExt;
use std::str::Chars;
use std::sync::Arc;

use globset::{Candidate, Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use haul_sys::inode::{Inode, Kind, Time};

/// A pattern, and what becomes of the entries of which it is the first one that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// As the user wrote it.
    pub pattern: OsString,
    /// They are wanted; otherwise they are excluded.
    pub include: bool,
}

/// Which entries below the operands are wanted; by default all. What has no size or age to speak of, all but regular files, is
/// chosen by patterns alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// In order: the first one that matches decides.
    pub rules: Vec<Rule>,
    /// Of a directory that is tagged as a cache, only the tag is wanted.
    pub exclude_caches: bool,
    /// Bytes of the largest regular file that is wanted.
    pub max_size: Option<u64>,
    /// Bytes of the smallest.
    pub min_size: Option<u64>,
    /// Regular files are wanted only if they were modified after this.
    pub newer_than: Option<Time>,
}

/// Why a pattern cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadPattern {
    /// As the user wrote it.
    pub pattern: OsString,
    /// What is wrong with it, and what to do.
    pub why: String,
}

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the pattern {:?} cannot be used: {}", self.pattern, self.why)
    }
}

impl std::error::Error for BadPattern {}

impl Rule {
    /// Excludes what matches the pattern.
    pub fn exclude(pattern: impl Into<OsString>) -> Rule {
        Rule { pattern: pattern.into(), include: false }
    }

    /// Includes what matches the pattern.
    pub fn include(pattern: impl Into<OsString>) -> Rule {
        Rule { pattern: pattern.into(), include: true }
    }

    /// The rule of a line of a .gitignore file; `None` if it has none.
    fn of_line(line: &[u8]) -> Option<Rule> {
        let mut text = line.strip_suffix(b"\r").unwrap_or(line);
        while let Some(shorter) = text.strip_suffix(b" ")
            && !ends_escaped(shorter)
        {
            text = shorter;
        }
        let (include, pattern) = match text {
            [] | [b'#', ..] => return None,
            [b'!', rest @ ..] => (true, rest),
            text => (false, text),
        };
        Some(Rule { pattern: OsStr::from_bytes(pattern).to_owned(), include })
    }

    fn read(&self) -> Result<Read, BadPattern> {
        let bad = |why: String| BadPattern { pattern: self.pattern.clone(), why };
        let Some(text) = self.pattern.to_str() else {
            return Err(bad("it is not UTF-8; write ? for each byte of another encoding".to_owned()));
        };
        let (text, only_directories) = text.strip_suffix('/').map_or((text, false), |text| (text, true));
        let (bare, is_path) = text.strip_prefix('/').map_or((text, text.contains('/')), |text| (text, true));
        let problem = match () {
            () if text.starts_with('!') => {
                "it begins with '!', which stands for an include in files only; write \\! for the character"
            }
            () if bare.is_empty() => "it is empty",
            () if bare.split('/').any(|name| matches!(name, "" | "." | "..")) => {
                "no entry has an empty name, '.' or '..' in its path below the source"
            }
            () => "",
        };
        if !problem.is_empty() {
            return Err(bad(problem.to_owned()));
        }
        let text = for_globset(bare).map_err(|why| bad(why.to_owned()))?;
        let glob = GlobBuilder::new(&text).literal_separator(true).backslash_escape(true).build();
        let glob = glob.map_err(|error| bad(error.kind().to_string()))?;
        Ok(Read { glob, is_path, only_directories })
    }
}

/// What a pattern says.
struct Read {
    glob: Glob,
    /// It is for paths below the operand, not for names.
    is_path: bool,
    only_directories: bool,
}

fn ends_escaped(text: &[u8]) -> bool {
    text.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// The same pattern for globset, in which braces enclose alternatives: in gitignore's language they are themselves.
///
/// # Errors
/// What globset would read in another way than git does.
fn for_globset(pattern: &str) -> Result<String, &'static str> {
    let mut text = String::with_capacity(pattern.len() + 2);
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                text.push(letter);
                text.extend(letters.next());
            }
            '{' | '}' => text.extend(['\\', letter]),
            '*' => {
                // Git takes more than two for two, globset for one.
                text.push(letter);
                text.extend(letters.next_if_eq(&'*'));
                while letters.next_if_eq(&'*').is_some() {}
            }
            '[' => class(&mut letters, &mut text)?,
            letter => text.push(letter),
        }
    }
    Ok(text)
}

/// The rest of a class, after its bracket. Globset says so if it has no end.
fn class(letters: &mut Peekable<Chars<'_>>, text: &mut String) -> Result<(), &'static str> {
    text.push('[');
    text.extend(letters.next_if(|letter| matches!(letter, '!' | '^')));
    let mut part = ClassPart::Start;
    while let Some(letter) = letters.next() {
        match letter {
            // For git it is itself, for globset the middle of another range.
            '-' if part == ClassPart::Range && letters.peek() != Some(&']') => {
                return Err("a - cannot stand right behind a range in [...]; write it last, as in [a-ce-]");
            }
            '[' if letters.peek() == Some(&':') => {
                return Err("classes such as [:alpha:] are not supported; write a range such as [a-z]");
            }
            '\\' => return Err("a backslash cannot stand in [...]; ] can stand first there, and - last"),
            letter if !letter.is_ascii() => return Err("only ASCII characters can stand in [...], which is one byte"),
            letter => text.push(letter),
        }
        part = match part {
            ClassPart::Start => ClassPart::Letter,
            _ if letter == ']' => break,
            ClassPart::Dash => ClassPart::Range,
            ClassPart::Letter if letter == '-' => ClassPart::Dash,
            _ => ClassPart::Letter,
        };
    }
    Ok(())
}

/// What stands before a place in a class.
#[derive(PartialEq)]
enum ClassPart {
    Start,
    Letter,
    /// The middle of a range.
    Dash,
    /// A whole range.
    Range,
}

impl Choice {
    /// Adds the rules of a file that is written as a .gitignore file is: a pattern in each line, `!` before it to include what it
    /// matches, `#` before a comment. As there, the last line that matches an entry decides; an entry that no line matches is
    /// left to the rules that come after the file.
    ///
    /// # Errors
    /// The first line that cannot be used, by its number, which starts at 1.
    pub fn add_lines(&mut self, text: &[u8]) -> Result<(), (usize, BadPattern)> {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let mut rules = Vec::new();
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let Some(rule) = Rule::of_line(line) else { continue };
            rule.read().map_err(|bad| (number + 1, bad))?;
            rules.push(rule);
        }
        self.rules.extend(rules.into_iter().rev());
        Ok(())
    }
}

/// A [`Choice`] that is ready for matching.
#[derive(Debug)]
pub struct Filter {
    choice: Choice,
    /// Of the rules, by number: whether they are for directories only.
    only_directories: Vec<bool>,
    names: Patterns,
    paths: Patterns,
}

/// Patterns that are matched with one text, with the number of the rule of each.
#[derive(Debug)]
struct Patterns {
    set: GlobSet,
    rules: Vec<usize>,
}

/// What a filter says of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// It is excluded.
    pub excluded: bool,
    /// The rule that has decided, by its number in [`Choice::rules`].
    pub rule: Option<usize>,
}

impl Verdict {
    /// Nothing is said against it.
    pub(crate) const WANTED: Verdict = Verdict { excluded: false, rule: None };

    /// The rule that excludes it.
    pub(crate) fn excluding(self) -> Option<usize> {
        self.rule.filter(|_| self.excluded)
    }
}

impl Filter {
    /// Makes the patterns ready; `None` if the choice is everything.
    ///
    /// # Errors
    /// The first pattern that cannot be used.
    pub fn new(choice: Choice) -> Result<Option<Arc<Filter>>, BadPattern> {
        if choice == Choice::default() {
            return Ok(None);
        }
        let mut only_directories = Vec::with_capacity(choice.rules.len());
        let (mut names, mut paths) = (Vec::new(), Vec::new());
        for (number, rule) in choice.rules.iter().enumerate() {
            let read = rule.read()?;
            only_directories.push(read.only_directories);
            if read.is_path { &mut paths } else { &mut names }.push((number, read.glob));
        }
        let patterns = |globs: Vec<(usize, Glob)>| {
            let mut builder = GlobSetBuilder::new();
            let rules: Vec<usize> = globs.iter().map(|(number, _)| *number).collect();
            globs.into_iter().for_each(|(_, glob)| _ = builder.add(glob));
            // Together they may be too large for one automaton.
            let too_large = |error: globset::Error| BadPattern {
                pattern: rules.first().map(|first| choice.rules[*first].pattern.clone()).unwrap_or_default(),
                why: format!("with all the others, {error}"),
            };
            Ok(Patterns { set: builder.build().map_err(too_large)?, rules: rules.clone() })
        };
        let (names, paths) = (patterns(names)?, patterns(paths)?);
        Ok(Some(Arc::new(Filter { choice, only_directories, names, paths })))
    }

    /// What it was made of.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// What the patterns say of an entry of this kind and name. `path` is its path below its operand, or nothing of an operand
    /// itself, for which only patterns without a slash count.
    pub(crate) fn by_pattern<P: AsRef<OsStr>>(
        &self,
        kind: Kind,
        name: &OsStr,
        path: impl FnOnce() -> Option<P>,
    ) -> Verdict {
        let by_name = self.first(&self.names, name, kind);
        let by_path = match self.paths.rules.is_empty() {
            true => None,
            false => path().and_then(|path| self.first(&self.paths, path.as_ref(), kind)),
        };
        let rule = by_name.into_iter().chain(by_path).min();
        Verdict { excluded: rule.is_some_and(|rule| !self.choice.rules[rule].include), rule }
    }

    /// Whether a regular file is excluded whatever its name is.
    pub(crate) fn excludes_contents(&self, inode: &Inode) -> bool {
        let choice = &self.choice;
        inode.kind == Kind::Regular
            && (choice.max_size.is_some_and(|most| inode.size > most)
                || choice.min_size.is_some_and(|least| inode.size < least)
                || choice.newer_than.is_some_and(|time| inode.modified <= time))
    }

    fn first(&self, patterns: &Patterns, text: &OsStr, kind: Kind) -> Option<usize> {
        let found = patterns.set.matches_candidate(&Candidate::from_bytes(text.as_bytes()));
        let rules = found.into_iter().map(|at| patterns.rules[at]);
        rules.filter(|rule| kind == Kind::Directory || !self.only_directories[*rule]).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a pattern excludes the file of this path, or the directory if the path ends in a slash.
    fn matches(pattern: &str, path: &[u8]) -> bool {
        let filter = Filter::new(Choice { rules: vec![Rule::exclude(pattern)], ..Choice::default() });
        verdict(&filter.unwrap().unwrap(), path).excluded
    }

    fn verdict(filter: &Filter, path: &[u8]) -> Verdict {
        let (path, kind) = path.strip_suffix(b"/").map_or((path, Kind::Regular), |path| (path, Kind::Directory));
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap();
        filter.by_pattern(kind, OsStr::from_bytes(name), || Some(OsStr::from_bytes(path)))
    }

    #[test]
    fn patterns_match_as_gitignore_has_it() {
        for (pattern, yes, no) in [
            ("*.o", &["a.o", ".o", "x/a.o", "x/y.o/"][..], &["a.oo", "a.o/x"][..]),
            ("/*.o", &["a.o"], &["x/a.o"]),
            ("build", &["build", "build/", "x/build/"], &["builds", "build/x"]),
            ("build/", &["build/", "x/build/"], &["build", "x/build"]),
            ("/build/", &["build/"], &["build", "x/build/"]),
            ("a/b", &["a/b", "a/b/"], &["x/a/b", "b", "a/b/c"]),
            ("/a/b", &["a/b"], &["x/a/b"]),
            ("a/*", &["a/b"], &["a", "a/b/c", "a/"]),
            ("a/**", &["a/b", "a/b/c"], &["a/", "b/a/x"]),
            ("**/a", &["a", "x/a", "x/y/a"], &["xa"]),
            ("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["ab", "a/xb"]),
            ("?", &["a", "x/b"], &["ab", ""]),
            ("[a-c]x", &["ax", "cx"], &["dx", "x"]),
            ("[!a]x", &["bx"], &["ax", "x"]),
            ("[^a]x", &["bx"], &["ax"]),
            ("/a[!b]c", &["axc"], &["a/c"]),
            ("a{b,c}", &["a{b,c}"], &["ab", "ac"]),
            ("[{]}", &["{}"], &["a}"]),
            ("[]{]x", &["]x", "{x"], &[r"\x", "ax"]),
            ("[!]{]x", &["ax", r"\x"], &["]x", "{x"]),
            ("[a-]", &["-", "a"], &["b"]),
            ("[a-c-]x", &["-x", "bx"], &["dx"]),
            ("[--0]x", &["-x", ".x", "0x"], &["1x"]),
            ("[a-cx-z]", &["b", "y"], &["d", "-"]),
            ("a/***", &["a/b", "a/b/c"], &["a/", "b/a/x"]),
            ("a/****/b", &["a/b", "a/x/y/b"], &["ab"]),
            ("***/a", &["a", "x/y/a"], &["xa"]),
            ("/a***b", &["ab", "axb"], &["a/b"]),
            (r"/\***/b", &["*/b", "*x/b"], &["a/b", "*/x/b"]),
            ("[[]a", &["[a"], &["]a"]),
            (r"\{", &["{"], &[r"\{"]),
            (r"\*", &["*"], &["a"]),
            (r"\!a", &["!a"], &["a"]),
            ("*", &[".hidden", "a b\n"], &[]),
        ] {
            for path in yes {
                assert!(matches(pattern, path.as_bytes()), "{pattern} does not match {path}");
            }
            for path in no {
                assert!(!matches(pattern, path.as_bytes()), "{pattern} matches {path}");
            }
        }
    }

    #[test]
    fn names_that_are_not_utf8_match_byte_by_byte() {
        assert!(matches("caf?", b"caf\xe9") && !matches("caf?", "café".as_bytes()));
        assert!(matches("*.o", b"\xff.o") && matches("[!a]", b"\xff") && matches("/x/*", b"x/\xff\xfe"));
        assert!(matches("caf\u{e9}", "café".as_bytes()) && !matches("caf\u{e9}", b"caf\xe9"));
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules = vec![Rule::include("/keep.o"), Rule::exclude("*.o"), Rule::include("x/*"), Rule::exclude("*.c")];
        let filter = Filter::new(Choice { rules, ..Choice::default() }).unwrap().unwrap();
        for (path, excluded, rule) in [
            ("keep.o", false, Some(0)),
            ("x/keep.o", true, Some(1)),
            ("x/a.c", false, Some(2)),
            ("y/a.c", true, Some(3)),
            ("y/a.h", false, None),
        ] {
            assert_eq!(verdict(&filter, path.as_bytes()), Verdict { excluded, rule }, "{path}");
        }
    }

    #[test]
    fn an_operand_is_matched_by_names_alone() {
        let rules = vec![Rule::exclude("/**"), Rule::exclude("a")];
        let filter = Filter::new(Choice { rules, ..Choice::default() }).unwrap().unwrap();
        let of = |name: &str| filter.by_pattern(Kind::Directory, OsStr::new(name), || None::<&OsStr>);
        assert_eq!((of("a").rule, of("b")), (Some(1), Verdict::WANTED));
    }

    #[test]
    fn in_a_file_the_last_line_that_matches_decides() {
        let mut choice = Choice { rules: vec![Rule::include("first")], ..Choice::default() };
        choice.add_lines(b"\xef\xbb\xbf# comment\n\n*.o\r\n!keep.o  \nname\\ \n\\#x\n   \n").unwrap();
        choice.rules.push(Rule::exclude("last"));
        let patterns: Vec<_> = choice.rules.iter().map(|rule| (rule.pattern.to_str().unwrap(), rule.include)).collect();
        let expected =
            [("first", true), ("\\#x", false), ("name\\ ", false), ("keep.o", true), ("*.o", false), ("last", false)];
        assert_eq!(patterns, expected);
        let filter = Filter::new(choice).unwrap().unwrap();
        assert!(verdict(&filter, b"a.o").excluded && !verdict(&filter, b"keep.o").excluded);
        assert!(verdict(&filter, b"name ").excluded && verdict(&filter, b"#x").excluded);
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_the_reason() {
        for (pattern, word) in [
            ("", "empty"),
            ("/", "empty"),
            ("//", "empty"),
            ("a//b", "empty name"),
            ("!a", "'!'"),
            ("../a", "'..'"),
            ("./a", "'.'"),
            ("[", "unclosed"),
            ("[b-a]", "range"),
            ("a\\", "dangling"),
            ("[[:alpha:]]", "[:alpha:]"),
            (r"[\]]", "backslash"),
            ("[\u{e4}]", "ASCII"),
            ("[a-c-e]", "behind a range"),
            ("[!--0-9]", "behind a range"),
        ] {
            let bad = Filter::new(Choice { rules: vec![Rule::exclude(pattern)], ..Choice::default() }).unwrap_err();
            assert!(bad.pattern == pattern && bad.why.contains(word), "{pattern}: {bad}");
        }
        let bytes = OsStr::from_bytes(b"\xff").to_owned();
        let bad = Filter::new(Choice { rules: vec![Rule::exclude(bytes)], ..Choice::default() }).unwrap_err();
        assert!(bad.why.contains("UTF-8"));
        let (line, bad) = Choice::default().add_lines(b"a\nb[\nc").unwrap_err();
        assert_eq!((line, bad.pattern), (2, "b[".into()));
    }

    #[test]
    fn a_choice_of_everything_is_no_filter() {
        assert!(Filter::new(Choice::default()).unwrap().is_none());
        assert!(Filter::new(Choice { min_size: Some(0), ..Choice::default() }).unwrap().is_some());
    }
}
