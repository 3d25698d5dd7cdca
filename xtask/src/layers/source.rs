//! One Rust file and the rules that need no other file.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::paths::{self, Found};
use super::violation::Violation;

/// Lines of a file at most, tests beside the code included.
pub const FILE_LINES: usize = 700;
/// Lines of a function at most, from `fn` to the closing brace.
pub const FUNCTION_LINES: usize = 80;

/// Crates whose code may not talk to the process around it (rule 9 of the house).
const LIBRARIES: &[&str] = &["cluster", "copy", "fs", "guest", "image", "io", "sys"];

/// Crates that exist for tests. Every crate may use them there, and none elsewhere.
pub const FOR_TESTS: &[&str] = &["testbed", "agree", "forge", "vmlab"];

/// Where tests may name processes of the standard library: where they get their deadlines, and below that.
const STARTS_PROCESSES: &[&str] = &["testing/testbed/src/process.rs", "testing/testbed/src/lib.rs", "crates/sys/"];

/// One file, parsed.
pub struct Source {
    /// Relative to the root of the workspace.
    pub file: String,
    /// The whole file is test code: it stands in `tests/` or `benches/`, is a `tests.rs`, or ends in `_tests.rs`.
    pub is_test: bool,
    lines: usize,
    tokens: TokenStream,
    syntax: syn::File,
}

impl Source {
    pub fn parse(file: &str, text: &str) -> Result<Source, String> {
        let wrong = |line: usize, error: &dyn std::fmt::Display| format!("{file}:{line}: {error}");
        let syntax = syn::parse_file(text).map_err(|error| wrong(error.span().start().line, &error))?;
        let tokens = TokenStream::from_str(text).map_err(|error| wrong(error.span().start().line, &error))?;
        let in_tests = file.split('/').any(|part| matches!(part, "tests" | "benches" | "tests.rs"));
        let in_tests = in_tests || file.ends_with("_tests.rs");
        Ok(Source { file: file.to_owned(), is_test: in_tests, lines: text.lines().count(), tokens, syntax })
    }

    /// The folder of the crate, for files of `crates/` and `testing/`.
    pub fn crate_folder(&self) -> Option<&str> {
        let file = self.file.strip_prefix("crates/").or_else(|| self.file.strip_prefix("testing/"))?;
        file.split('/').next()
    }

    /// The folder of its crate, or of what else it belongs to: `crates/sys`, `xtask`, `fuzz`.
    pub fn folder(&self) -> &str {
        let depth = if self.crate_folder().is_some() { 2 } else { 1 };
        self.file.match_indices('/').nth(depth - 1).map_or("", |(end, _)| &self.file[..end])
    }

    /// It uses the library of its crate as others do: a test, an example, a program.
    pub fn is_outside(&self) -> bool {
        !self.file.contains("/src/") || self.file.ends_with("/src/main.rs") || self.file.contains("/src/bin/")
    }

    /// The file as a syntax tree.
    pub fn syntax(&self) -> &syn::File {
        &self.syntax
    }

    pub fn names(&self) -> BTreeSet<String> {
        names(self.tokens.clone())
    }

    /// The words in the examples of its documentation.
    pub fn names_in_examples(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut in_code = false;
        each_token(self.tokens.clone(), &mut |token, next| {
            let [TokenTree::Punct(_), TokenTree::Literal(line), ..] = next else { return };
            let line = line.to_string();
            if is_word(token, "doc") {
                in_code ^= line.contains("```");
                if in_code {
                    let words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
                    found.extend(words.map(str::to_owned));
                }
            }
        });
        found
    }

    /// Paths that lead out of their module.
    pub fn paths(&self, with_tests: bool) -> Vec<Found> {
        paths::find(self.tokens.clone(), &self.module(), with_tests)
    }

    /// Paths that begin with one of these names, outside tests, with the line of each.
    pub fn heads(&self, names: &BTreeSet<&str>) -> Vec<(Vec<String>, usize)> {
        paths::heads(paths::without_tests(self.tokens.clone()), names)
    }

    /// What the module re-exports: the path by which it is known, and the one behind it, both from the crate's root.
    pub fn reexports(&self) -> Vec<(Vec<String>, Vec<String>)> {
        let module = self.module();
        let uses = self.syntax.items.iter().filter_map(|item| match item {
            syn::Item::Use(item) if !matches!(item.vis, syn::Visibility::Inherited) => Some(&item.tree),
            _ => None,
        });
        let mut found = Vec::new();
        uses.for_each(|tree| paths::leaves(tree, &module, &module, &mut found));
        found.into_iter().map(|(name, path)| ([module.clone(), vec![name]].concat(), path)).collect()
    }

    /// The structs, enums and unions of the file.
    pub fn types(&self) -> Vec<String> {
        let mut items = Items::default();
        items.visit_file(&self.syntax);
        items.types
    }

    /// The types that it has inherent impls of, with the line of each; tests apart.
    pub fn inherent_impls(&self) -> Vec<(String, usize)> {
        let mut items = Items::default();
        items.visit_file(&self.syntax);
        items.impls
    }

    pub fn violation(&self, line: usize, why: impl Into<String>) -> Violation {
        Violation { file: self.file.clone(), line, why: why.into() }
    }

    pub fn check(&self) -> Vec<Violation> {
        let mut found = self.unsafe_code();
        found.extend(self.lengths());
        found.extend(self.surroundings());
        found.extend(self.processes());
        found
    }

    /// The module that the file is, from the root of its crate.
    pub fn module(&self) -> Vec<String> {
        let inside = self.file.split_once("/src/").map_or("", |(_, inside)| inside);
        let stem = inside.strip_suffix(".rs").unwrap_or(inside);
        let mut module: Vec<String> = stem.split('/').map(str::to_owned).collect();
        if module.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main" | "")) {
            module.pop();
        }
        module
    }

    fn unsafe_code(&self) -> Vec<Violation> {
        if self.file.starts_with("crates/sys/") {
            return Vec::new();
        }
        let mut found = Vec::new();
        each_token(self.tokens.clone(), &mut |token, _| {
            if is_word(token, "unsafe") {
                found.push(self.violation(token.span().start().line, "unsafe code outside crates/sys"));
            }
        });
        let is_root = self.file.ends_with("/src/lib.rs") || self.file.ends_with("/src/main.rs");
        if is_root && !self.syntax.attrs.iter().any(forbids_unsafe) {
            found.push(self.violation(1, "the crate does not say #![forbid(unsafe_code)]"));
        }
        found
    }

    fn lengths(&self) -> Vec<Violation> {
        if self.is_test {
            return Vec::new();
        }
        let mut found = Vec::new();
        if self.lines > FILE_LINES {
            let why = format!("the file has {} lines; {FILE_LINES} are the limit", self.lines);
            found.push(self.violation(FILE_LINES + 1, why));
        }
        let mut functions = Functions(Vec::new());
        functions.visit_file(&self.syntax);
        for (name, line, lines) in functions.0 {
            if lines > FUNCTION_LINES {
                found
                    .push(self.violation(line, format!("fn {name} has {lines} lines; {FUNCTION_LINES} are the limit")));
            }
        }
        found
    }

    fn surroundings(&self) -> Vec<Violation> {
        if self.is_test
            || self.file.contains("/examples/")
            || !self.crate_folder().is_some_and(|folder| LIBRARIES.contains(&folder))
        {
            return Vec::new();
        }
        let mut found = Vec::new();
        each_token(paths::without_tests(self.tokens.clone()), &mut |token, next| {
            let TokenTree::Ident(word) = token else { return };
            let word = word.to_string();
            let is = |index: usize, wanted: &str| next.get(index).is_some_and(|token| token.to_string() == wanted);
            let path = is(0, ":") && is(1, ":");
            let why = match word.as_str() {
                "print" | "println" | "eprint" | "eprintln" | "dbg" if is(0, "!") => "prints",
                "std" if path && is(2, "env") => "reads the environment",
                "process" if path && (is(2, "exit") || is(2, "abort")) => "ends the process",
                _ => return,
            };
            found.push(self.violation(token.span().start().line, format!("the library {why}; that is for front ends")));
        });
        found
    }
}

impl Source {
    /// Processes that tests start without a deadline: those of the standard library.
    fn processes(&self) -> Vec<Violation> {
        let Some(folder) = self.crate_folder() else { return Vec::new() };
        if STARTS_PROCESSES.iter().any(|place| self.file.starts_with(place)) {
            return Vec::new();
        }
        let mut found = std_processes(self.tokens.clone());
        if !self.is_test && !FOR_TESTS.contains(&folder) {
            let product = paths::without_tests(self.tokens.clone());
            let allowed = std_processes(product.clone());
            found.retain(|line| !allowed.contains(line));
            // Tests beside the code see what the code imports.
            if !allowed.is_empty() {
                let of_product = commands(product);
                found.extend(commands(self.tokens.clone()).into_iter().filter(|line| !of_product.contains(line)));
            }
        }
        let why = "a process without a deadline; tests start theirs by haul_testbed::Command";
        found.into_iter().map(|line| self.violation(line, why)).collect()
    }
}

/// The files of each crate that are no tests, by the folder of the crate.
pub fn by_crate(sources: &[Source]) -> BTreeMap<&str, Vec<&Source>> {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_test) {
        if let Some((folder, _)) = source.file.split_once("/src/") {
            crates.entry(folder).or_default().push(source);
        }
    }
    crates
}

/// The lines with `process::Command` or `process::Child`, also among the branches of a `use`.
fn std_processes(tokens: TokenStream) -> Vec<usize> {
    let is_one = |token: &TokenTree| is_word(token, "Command") || is_word(token, "Child");
    let mut found = Vec::new();
    each_token(tokens, &mut |token, next| {
        let is_path =
            matches!(next, [TokenTree::Punct(a), TokenTree::Punct(b), ..] if a.as_char() == ':' && b.as_char() == ':');
        if !is_word(token, "process") || !is_path {
            return;
        }
        match next.get(2) {
            Some(TokenTree::Group(group)) => {
                let words = group.stream().into_iter().filter(is_one);
                found.extend(words.map(|word| word.span().start().line));
            }
            Some(word) if is_one(word) => found.push(word.span().start().line),
            _ => {}
        }
    });
    found
}

/// The lines with `Command::new` that name no crate before it.
fn commands(tokens: TokenStream) -> Vec<usize> {
    let mut found = Vec::new();
    let mut before = String::new();
    each_token(tokens, &mut |token, next| {
        let is = |index: usize, wanted: &str| next.get(index).is_some_and(|token| token.to_string() == wanted);
        if is_word(token, "Command") && before != ":" && is(0, ":") && is(1, ":") && is(2, "new") {
            found.push(token.span().start().line);
        }
        before = token.to_string();
    });
    found
}

pub fn is_for_tests(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
}

fn forbids_unsafe(attribute: &syn::Attribute) -> bool {
    let tokens = match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("forbid") => list.tokens.clone(),
        _ => return false,
    };
    tokens.into_iter().any(|token| is_word(&token, "unsafe_code"))
}

fn is_word(token: &TokenTree, wanted: &str) -> bool {
    matches!(token, TokenTree::Ident(word) if word == wanted)
}

/// All names, but for those that are declared there.
pub fn names(tokens: TokenStream) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut before = String::new();
    each_token(tokens, &mut |token, _| {
        let text = if matches!(token, TokenTree::Group(_)) { String::new() } else { token.to_string() };
        let declares =
            matches!(before.as_str(), "fn" | "struct" | "enum" | "trait" | "mod" | "const" | "static" | "type");
        if matches!(token, TokenTree::Ident(_)) && !declares {
            found.insert(text.clone());
        }
        before = text;
    });
    found
}

/// Calls `look` with each token and those that follow it in the same group.
fn each_token(tokens: TokenStream, look: &mut dyn FnMut(&TokenTree, &[TokenTree])) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        look(token, &tokens[at + 1..]);
        if let TokenTree::Group(group) = token {
            each_token(group.stream(), look);
        }
    }
}

/// Types and inherent impls that are no tests.
#[derive(Default)]
struct Items {
    types: Vec<String>,
    impls: Vec<(String, usize)>,
}

impl<'ast> Visit<'ast> for Items {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let name = match item {
            syn::Item::Struct(item) => &item.ident,
            syn::Item::Enum(item) => &item.ident,
            syn::Item::Union(item) => &item.ident,
            _ => return visit::visit_item(self, item),
        };
        self.types.push(name.to_string());
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let (None, syn::Type::Path(path)) = (&item.trait_, &*item.self_ty)
            && let Some(last) = path.path.segments.last()
        {
            self.impls.push((last.ident.to_string(), item.impl_token.span().start().line));
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !item.attrs.iter().any(is_for_tests) {
            visit::visit_item_mod(self, item);
        }
    }
}

/// Name, first line and length in lines of each function that is no test.
struct Functions(Vec<(String, usize, usize)>);

impl Functions {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.fn_token.span().start().line;
        let last = block.brace_token.span.close().end().line;
        self.0.push((signature.ident.to_string(), first, last - first + 1));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !item.attrs.iter().any(is_for_tests) {
            visit::visit_item_mod(self, item);
        }
    }
}
