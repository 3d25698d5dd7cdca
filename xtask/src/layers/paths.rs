//! Finds the paths in a file by its tokens, so that those in macros and function bodies are seen like those in `use`.

use std::collections::BTreeSet;
use std::iter::Peekable;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree, token_stream};

/// A path that leads out of its module: `crate::a::b`, `super::c`, `haul_sys::d` or `std::e`, made absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// From the crate's root; the first word is the name of another crate ([`is_foreign`]), if it leads there.
    pub path: Vec<String>,
    /// Line of its first word, counted from 1.
    pub line: usize,
}

/// All such paths below `module`, in order. Items under `#[cfg(test)]` are skipped unless `with_tests`.
pub fn find(tokens: TokenStream, module: &[String], with_tests: bool) -> Vec<Found> {
    let mut finder = Finder { with_tests, found: Vec::new() };
    finder.walk(tokens, module);
    finder.found
}

/// Tokens without the items under `#[cfg(test)]`.
pub fn without_tests(tokens: TokenStream) -> TokenStream {
    let mut kept = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if starts_test_item(&token, tokens.peek()) {
            skip_item(&mut tokens);
            continue;
        }
        kept.push(match token {
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), without_tests(group.stream()));
                inner.set_span(group.span());
                TokenTree::Group(inner)
            }
            other => other,
        });
    }
    kept.into_iter().collect()
}

/// Paths of at least two words that begin with one of these names and not with another path.
pub fn heads(tokens: TokenStream, names: &BTreeSet<&str>) -> Vec<(Vec<String>, usize)> {
    let mut found = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    let mut before = String::new();
    while let Some(token) = tokens.next() {
        let text = match &token {
            TokenTree::Group(group) => {
                found.extend(heads(group.stream(), names));
                String::new()
            }
            token => token.to_string(),
        };
        if names.contains(text.as_str()) && !matches!(before.as_str(), ":" | "." | "mod") && eat_colons(&mut tokens) {
            let line = token.span().start().line;
            match tokens.next() {
                Some(TokenTree::Ident(word)) => found.push((vec![text.clone(), word.to_string()], line)),
                Some(TokenTree::Group(group)) => {
                    let words = group.stream().into_iter().filter(|token| matches!(token, TokenTree::Ident(_)));
                    found.extend(words.map(|word| (vec![text.clone(), word.to_string()], line)));
                }
                _ => found.push((vec![text.clone()], line)),
            }
        }
        before = text;
    }
    found
}

/// The names that a `use` brings in, and the paths behind them from the crate's root; those of other crates are skipped.
pub fn leaves(tree: &syn::UseTree, base: &[String], module: &[String], found: &mut Vec<(String, Vec<String>)>) {
    let at = |word: &syn::Ident| step(&word.to_string(), base.to_vec(), module);
    match tree {
        syn::UseTree::Path(path) => leaves(&path.tree, &at(&path.ident), module, found),
        syn::UseTree::Name(name) => found.push((name.ident.to_string(), at(&name.ident))),
        syn::UseTree::Rename(name) => found.push((name.rename.to_string(), at(&name.ident))),
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, base, module, found)),
        syn::UseTree::Glob(_) => {}
    }
}

type Tokens = Peekable<token_stream::IntoIter>;

fn starts_test_item(token: &TokenTree, next: Option<&TokenTree>) -> bool {
    let TokenTree::Punct(punct) = token else { return false };
    let Some(TokenTree::Group(group)) = next else { return false };
    punct.as_char() == '#' && group.stream().to_string().replace(' ', "") == "cfg(test)"
}

/// Consumes up to the end of an item: its braces or its semicolon.
fn skip_item(tokens: &mut Tokens) {
    // The attribute itself comes first, and its group is in brackets.
    for token in tokens.by_ref() {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return,
            TokenTree::Punct(punct) if punct.as_char() == ';' => return,
            _ => {}
        }
    }
}

struct Finder {
    with_tests: bool,
    found: Vec<Found>,
}

impl Finder {
    fn walk(&mut self, tokens: TokenStream, module: &[String]) {
        let mut tokens = tokens.into_iter().peekable();
        let mut previous = String::new();
        while let Some(token) = tokens.next() {
            if !self.with_tests && starts_test_item(&token, tokens.peek()) {
                skip_item(&mut tokens);
                continue;
            }
            let text = match &token {
                TokenTree::Ident(word) => word.to_string(),
                TokenTree::Punct(punct) => punct.as_char().to_string(),
                _ => String::new(),
            };
            match token {
                // pub(crate) and pub(in crate::a) name a scope, they import nothing.
                TokenTree::Group(group) if previous == "pub" && group.delimiter() == Delimiter::Parenthesis => {}
                TokenTree::Group(group) => self.walk(group.stream(), module),
                TokenTree::Ident(_) if previous == "mod" => self.inline_module(&text, &mut tokens, module),
                TokenTree::Ident(word) if is_start(&text) => {
                    let path = step(&text, module.to_vec(), module);
                    self.path(path, word.span().start().line, &mut tokens, module);
                }
                _ => {}
            }
            previous = text;
        }
    }

    fn inline_module(&mut self, name: &str, tokens: &mut Tokens, module: &[String]) {
        let body = match tokens.peek() {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => group.stream(),
            _ => return,
        };
        tokens.next();
        let mut inner = module.to_vec();
        inner.push(name.to_owned());
        self.walk(body, &inner);
    }

    /// The rest of a path that leads to `path` so far.
    fn path(&mut self, mut path: Vec<String>, line: usize, tokens: &mut Tokens, module: &[String]) {
        while eat_colons(tokens) {
            match tokens.next() {
                Some(TokenTree::Ident(word)) => path = step(&word.to_string(), path, module),
                Some(TokenTree::Group(group)) => return self.branches(group.stream(), &path, module),
                _ => break,
            }
        }
        self.found.push(Found { path, line });
    }

    /// `{a, b::c, d::{e, f}}` after a path.
    fn branches(&mut self, group: TokenStream, base: &[String], module: &[String]) {
        let mut tokens = group.into_iter().peekable();
        let mut at_start = true;
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(word) if at_start => {
                    let line = word.span().start().line;
                    self.path(step(&word.to_string(), base.to_vec(), module), line, &mut tokens, module);
                    at_start = false;
                }
                TokenTree::Punct(punct) if punct.as_char() == ',' => at_start = true,
                TokenTree::Punct(punct) if punct.as_char() == '*' => {
                    self.found.push(Found { path: base.to_vec(), line: punct.span().start().line });
                }
                _ => at_start = false,
            }
        }
    }
}

fn is_start(word: &str) -> bool {
    matches!(word, "crate" | "super" | "self") || is_foreign(word)
}

/// Whether a path that begins with this word leads to a crate that the rules know, and not to the file's own.
pub fn is_foreign(word: &str) -> bool {
    word.starts_with("haul_") || matches!(word, "std" | "libc" | "rustix")
}

/// One word further along a path that stands at `so_far`.
pub fn step(word: &str, mut so_far: Vec<String>, module: &[String]) -> Vec<String> {
    match word {
        "crate" => Vec::new(),
        "self" => so_far,
        "super" => {
            so_far.pop();
            so_far
        }
        // A path that begins with another crate's name does not start from this module.
        other if is_foreign(other) && so_far == module => vec![other.to_owned()],
        other => {
            so_far.push(other.to_owned());
            so_far
        }
    }
}

fn eat_colons(tokens: &mut Tokens) -> bool {
    for _ in 0..2 {
        match tokens.peek() {
            Some(TokenTree::Punct(punct)) if punct.as_char() == ':' => tokens.next(),
            _ => return false,
        };
    }
    true
}
