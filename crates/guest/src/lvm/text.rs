//! The text in which LVM2 keeps its metadata: `name { ... }`, `name = "text"`, `name = 5`, `name = ["a", 5]`.

use crate::budget::Budget;
use crate::refusal::{Refusal, over_budget_if, refuse_if};

/// Sections in sections. LVM2 needs four.
const DEEPEST: usize = 8;
/// Names and list items in one text: about six thousand volumes.
const MOST_NODES: usize = 1 << 17;

/// What stands behind a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value<'t> {
    /// `{ ... }`
    Section(Section<'t>),
    /// A single number or text.
    Item(Item<'t>),
    /// `[ ... ]`
    List(Vec<Item<'t>>),
}

/// A number or a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'t> {
    /// A number; LVM2 has no fractions.
    Number(i64),
    /// A text as it stands between its quotes, escapes and all.
    Text(&'t [u8]),
}

/// Names and what stands behind them, each name once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Section<'t> {
    /// In the order of the text.
    pub entries: Vec<(&'t [u8], Value<'t>)>,
}

impl<'t> Section<'t> {
    /// What stands behind a name.
    pub fn get(&self, name: &str) -> Option<&Value<'t>> {
        self.entries.iter().find(|(have, _)| *have == name.as_bytes()).map(|(_, value)| value)
    }

    pub fn section(&self, name: &str) -> Result<&Section<'t>, Refusal> {
        match self.get(name) {
            Some(Value::Section(section)) => Ok(section),
            _ => Err(missing(name)),
        }
    }

    pub fn sections(&self) -> impl Iterator<Item = (&'t [u8], &Section<'t>)> {
        self.entries.iter().filter_map(|(name, value)| match value {
            Value::Section(section) => Some((*name, section)),
            _ => None,
        })
    }

    pub fn text(&self, name: &str) -> Result<&'t [u8], Refusal> {
        match self.get(name) {
            Some(Value::Item(Item::Text(text))) => Ok(text),
            _ => Err(missing(name)),
        }
    }

    /// A number in it, not negative.
    pub fn number(&self, name: &str) -> Result<u64, Refusal> {
        match self.get(name) {
            Some(Value::Item(Item::Number(number))) => u64::try_from(*number).map_err(|_| missing(name)),
            _ => Err(missing(name)),
        }
    }

    /// A list of texts in it; empty if there is none of this name.
    pub fn words(&self, name: &str) -> Result<Vec<&'t [u8]>, Refusal> {
        let word = |item: &Item<'t>| match item {
            Item::Text(text) => Ok(*text),
            Item::Number(_) => Err(missing(name)),
        };
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(Value::List(items)) => items.iter().map(word).collect(),
            Some(Value::Item(item)) => Ok(vec![word(item)?]),
            Some(Value::Section(_)) => Err(missing(name)),
        }
    }
}

fn missing(name: &str) -> Refusal {
    Refusal::corrupt(format!("LVM metadata without a proper {name:?}"))
}

fn wrong(what: &str) -> Refusal {
    Refusal::corrupt(format!("the text of the LVM metadata: {what}"))
}

/// Reads a whole text.
pub fn parse<'t>(text: &'t [u8], budget: &Budget) -> Result<Section<'t>, Refusal> {
    // It ends with a zero byte.
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    let (text, tail) = text.split_at(end);
    refuse_if(tail.iter().any(|byte| *byte != 0), || wrong("bytes behind its end"))?;
    let mut parser = Parser { text, nodes: 0, budget };
    // Sections that are open, with the name of each; instead of recursion.
    let mut open: Vec<(&[u8], Section<'t>)> = Vec::new();
    let mut current = Section::default();
    loop {
        match parser.next()? {
            Token::End if open.is_empty() => return unique(current),
            Token::Mark(b'}') => {
                let (name, outer) = open.pop().ok_or_else(|| wrong("a section is closed that was not opened"))?;
                let inner = Value::Section(unique(std::mem::replace(&mut current, outer))?);
                current.entries.push((name, inner));
            }
            Token::Name(name) => match parser.next()? {
                Token::Mark(b'{') if open.len() == DEEPEST => return Err(wrong("sections nested too deeply")),
                Token::Mark(b'{') => open.push((name, std::mem::take(&mut current))),
                Token::Mark(b'=') => {
                    let value = parser.value()?;
                    current.entries.push((name, value));
                }
                _ => return Err(wrong("a name without a value")),
            },
            _ => return Err(wrong("something where a name belongs")),
        }
    }
}

/// A name that stands twice could mean either.
fn unique(section: Section<'_>) -> Result<Section<'_>, Refusal> {
    let mut names: Vec<&[u8]> = section.entries.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    refuse_if(names.windows(2).any(|pair| pair[0] == pair[1]), || wrong("a name stands twice"))?;
    Ok(section)
}

#[derive(Debug, PartialEq, Eq)]
enum Token<'t> {
    Name(&'t [u8]),
    Text(&'t [u8]),
    /// One of `{}[]=,`.
    Mark(u8),
    End,
}

struct Parser<'t, 'b> {
    text: &'t [u8],
    nodes: usize,
    budget: &'b Budget,
}

impl<'t> Parser<'t, '_> {
    fn value(&mut self) -> Result<Value<'t>, Refusal> {
        let first = self.next()?;
        if first != Token::Mark(b'[') {
            return Ok(Value::Item(item(&first)?));
        }
        let mut items = Vec::new();
        loop {
            match self.next()? {
                Token::Mark(b']') => return Ok(Value::List(items)),
                token => items.push(item(&token)?),
            }
            match self.next()? {
                Token::Mark(b',') => {}
                Token::Mark(b']') => return Ok(Value::List(items)),
                _ => return Err(wrong("a list without commas")),
            }
        }
    }

    fn next(&mut self) -> Result<Token<'t>, Refusal> {
        self.skip_blanks();
        let Some((&byte, rest)) = self.text.split_first() else { return Ok(Token::End) };
        match byte {
            b'"' => self.quoted(rest),
            b'{' | b'}' | b'[' | b']' | b'=' | b',' => {
                self.text = rest;
                Ok(Token::Mark(byte))
            }
            _ => self.name(),
        }
    }

    fn quoted(&mut self, rest: &'t [u8]) -> Result<Token<'t>, Refusal> {
        self.count()?;
        let mut escaped = false;
        for (at, byte) in rest.iter().enumerate() {
            match byte {
                b'"' if !escaped => {
                    let (text, behind) = rest.split_at(at);
                    self.text = behind.get(1..).unwrap_or_default();
                    return Ok(Token::Text(text));
                }
                // LVM2 writes none, so the end of this text is missing.
                b'\n' => break,
                _ => escaped = *byte == b'\\' && !escaped,
            }
        }
        Err(wrong("quotes without an end"))
    }

    fn name(&mut self) -> Result<Token<'t>, Refusal> {
        self.count()?;
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-+.".contains(byte);
        let end = self.text.iter().position(|byte| !is_name(byte)).unwrap_or(self.text.len());
        refuse_if(end == 0, || wrong("a character that belongs nowhere"))?;
        let (name, rest) = self.text.split_at(end);
        self.text = rest;
        Ok(Token::Name(name))
    }

    fn skip_blanks(&mut self) {
        loop {
            let blanks = self.text.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            self.text = self.text.get(blanks..).unwrap_or_default();
            if self.text.first() != Some(&b'#') {
                return;
            }
            let line = self.text.iter().position(|byte| *byte == b'\n').unwrap_or(self.text.len());
            self.text = self.text.get(line..).unwrap_or_default();
        }
    }

    fn count(&mut self) -> Result<(), Refusal> {
        self.budget.take_node()?;
        self.nodes += 1;
        over_budget_if(self.nodes > MOST_NODES, "words of LVM metadata")
    }
}

fn item<'t>(token: &Token<'t>) -> Result<Item<'t>, Refusal> {
    match token {
        Token::Text(text) => Ok(Item::Text(text)),
        Token::Name(digits) => {
            let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
            number.map(Item::Number).ok_or_else(|| wrong("a value that is neither text nor number"))
        }
        _ => Err(wrong("something where a value belongs")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Section<'_>, Refusal> {
        parse(text.as_bytes(), &Budget::for_image(0))
    }

    #[test]
    fn sections_texts_numbers_and_lists_are_read() {
        let root = parsed("vg { # said \"}\"\n id = \"a\\\"b\" n = -5\nl = [\"x\", 1, ] e = [] s { } }\n\0\0").unwrap();
        let vg = root.section("vg").unwrap();
        assert_eq!(vg.text("id").unwrap(), b"a\\\"b");
        assert!(vg.number("n").is_err(), "negative");
        assert_eq!(vg.get("l"), Some(&Value::List(vec![Item::Text(b"x"), Item::Number(1)])));
        assert_eq!(vg.words("e").unwrap(), Vec::<&[u8]>::new());
        assert_eq!(vg.section("s").unwrap(), &Section::default());
        assert_eq!(vg.sections().count(), 1);
    }

    #[test]
    fn what_lvm_would_not_write_is_refused() {
        for text in [
            "a",
            "a =",
            "a = {",
            "a {",
            "}",
            "a = \"x",
            "a = x",
            "= 1",
            "a = 1 a = 2",
            "a = [1 2]",
            "a = [[1]]",
            "a/ = 1",
            "a = [,]",
            "a = 99999999999999999999",
            "a = 1\0b",
            "a = \"x\ny\"",
            "a = \"x\\\"",
        ] {
            assert!(parsed(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn deep_nesting_and_endless_text_are_refused() {
        assert!(parsed(&"a { ".repeat(1_000_000)).is_err());
        assert!(parsed(&"[".repeat(1_000_000)).is_err());
        let many: String = (0..MOST_NODES).map(|number| format!("a{number}=1\n")).collect();
        let enough = Budget::new(0, 1 << 30, 0);
        assert_eq!(parse(many.as_bytes(), &enough), Err(Refusal::Budget("words of LVM metadata")));
        assert_eq!(parse(many.as_bytes(), &Budget::new(0, 9, 0)), Err(Refusal::Budget("nodes")));
    }
}
