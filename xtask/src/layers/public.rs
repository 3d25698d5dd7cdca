//! No needless `pub`: what a crate shows is used by another one, by a test, or by an example. What nobody outside uses is
//! `pub(crate)`, and then the compiler says whether anybody uses it at all.
//!
//! Uses are matched by names, so a needless item whose name is common is not found, and none that is used is a violation.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::visit::{self, Visit};

use super::crates;
use super::paths;
use super::source::{Source, is_for_tests, names};
use super::violation::Violation;

/// The crates that are checked. A crate joins when it has no needless `pub` left.
const CHECKED: &[&str] = &[
    "crates/cli",
    "crates/cluster",
    "crates/copy",
    "crates/frontend",
    "crates/fs",
    "crates/guest",
    "crates/image",
    "crates/io",
    "crates/lab",
    "crates/measure",
    "crates/sys",
    "testing/agree",
    "testing/forge",
    "testing/testbed",
];

/// Files that are for programs outside of this repository.
const FRONT_DOORS: &[&str] = &["crates/copy/src/front.rs"];

/// What is for them, too, and stands elsewhere.
const FOR_PROGRAMS: &[&str] = &["largest_unit"];

/// An item that says `pub`.
struct Item {
    /// With the names of its modules.
    path: Vec<String>,
    kind: &'static str,
    file: String,
    line: usize,
    /// The type, for a method.
    owner: Option<String>,
    /// The names in its signature, or in what others see of it.
    interface: BTreeSet<String>,
}

impl Item {
    fn name(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }

    /// Where the type of a method stands, which is in the same module; or the item itself.
    fn owner_path(&self) -> Vec<String> {
        match &self.owner {
            Some(owner) => [&self.path[..self.path.len() - 1], std::slice::from_ref(owner)].concat(),
            None => self.path.clone(),
        }
    }
}

/// What the files of one crate declare.
#[derive(Default)]
struct Declared {
    items: Vec<Item>,
    /// What a `use` that is no private one brings into a module, by the path there: the path behind it, and whether it is `pub`.
    reexports: Vec<(Vec<String>, Vec<String>, bool)>,
    /// Modules of which all items are re-exported in another one.
    globs: Vec<(Vec<String>, Vec<String>)>,
    /// What implementations of traits show of a type.
    shown: Vec<(String, BTreeSet<String>)>,
    /// Names in macros that may declare items.
    in_macros: BTreeSet<String>,
}

impl Declared {
    fn of(sources: &[&Source]) -> Declared {
        let mut collector = Collector { declared: Declared::default(), module: Vec::new(), file: String::new() };
        for source in sources.iter().filter(|source| !source.is_test && !source.is_outside()) {
            collector.module = source.module();
            collector.file.clone_from(&source.file);
            collector.visit_file(source.syntax());
        }
        collector.declared
    }

    /// The paths of modules and items by which others reach what the crate has.
    fn reachable(&self) -> BTreeSet<&[String]> {
        let mut reachable: BTreeSet<&[String]> = BTreeSet::from([&[][..]]);
        loop {
            let before = reachable.len();
            for item in &self.items {
                if item.owner.is_none() && reachable.contains(&item.path[..item.path.len() - 1]) {
                    reachable.insert(&item.path);
                }
            }
            for (name, behind, is_pub) in &self.reexports {
                let here = &name[..name.len() - 1];
                if reachable.contains(&name[..]) || (*is_pub && reachable.contains(here)) {
                    reachable.insert(behind);
                }
            }
            for (here, behind) in &self.globs {
                if reachable.contains(&here[..]) {
                    reachable.insert(behind);
                }
            }
            if reachable.len() == before {
                return reachable;
            }
        }
    }

    /// The items that others reach and whose names none of them uses.
    fn needless(&self, mut used: BTreeSet<String>) -> Vec<&Item> {
        let front = self.items.iter().filter(|item| FRONT_DOORS.contains(&item.file.as_str()));
        used.extend(front.map(|item| item.name().to_owned()).chain(self.in_macros.iter().cloned()));
        used.extend(FOR_PROGRAMS.iter().map(|name| (*name).to_owned()));
        loop {
            let before = used.len();
            for item in &self.items {
                if used.contains(item.name()) {
                    used.extend(item.interface.iter().cloned());
                }
            }
            for (name, shown) in &self.shown {
                if used.contains(name) {
                    used.extend(shown.iter().cloned());
                }
            }
            if used.len() == before {
                break;
            }
        }
        let open = self.open(&used);
        let needless = |item: &&Item| !used.contains(item.name()) && open.contains(&item.owner_path());
        self.items.iter().filter(needless).collect()
    }

    /// The items that others can use: those that they reach by a path, and the types that these show in their signatures.
    fn open(&self, used: &BTreeSet<String>) -> BTreeSet<Vec<String>> {
        let mut open: BTreeSet<Vec<String>> = self.reachable().into_iter().map(<[String]>::to_vec).collect();
        loop {
            let before = open.len();
            let is_open = |item: &Item| open.contains(&item.owner_path()) && used.contains(item.name());
            let shown = self.items.iter().filter(|item| is_open(item)).flat_map(|item| &item.interface);
            let shown: BTreeSet<&str> = shown.map(String::as_str).collect();
            let types = self.items.iter().filter(|item| item.owner.is_none() && shown.contains(item.name()));
            open.extend(types.map(|item| item.path.clone()));
            if open.len() == before {
                return open;
            }
        }
    }
}

/// Collects what a file declares.
struct Collector {
    declared: Declared,
    module: Vec<String>,
    file: String,
}

impl Collector {
    fn add(&mut self, kind: &'static str, vis: &syn::Visibility, name: &syn::Ident, interface: &[&dyn ToTokens]) {
        if matches!(vis, syn::Visibility::Public(_)) {
            let path = [&self.module[..], &[name.to_string()]].concat();
            let interface = interface.iter().flat_map(|part| names(part.to_token_stream())).collect();
            let line = name.span().start().line;
            self.declared.items.push(Item { path, kind, file: self.file.clone(), line, owner: None, interface });
        }
    }

    fn add_use(&mut self, item: &syn::ItemUse) {
        let is_pub = matches!(item.vis, syn::Visibility::Public(_));
        let mut leaves = Vec::new();
        paths::leaves(&item.tree, &self.module, &self.module, &mut leaves);
        self.declared
            .reexports
            .extend(leaves.into_iter().map(|(name, behind)| ([&self.module[..], &[name]].concat(), behind, is_pub)));
        let mut tree = &item.tree;
        let mut behind = self.module.clone();
        while let syn::UseTree::Path(path) = tree {
            behind = paths::step(&path.ident.to_string(), behind, &self.module);
            tree = &path.tree;
        }
        if is_pub && matches!(tree, syn::UseTree::Glob(_)) {
            self.declared.globs.push((self.module.clone(), behind));
        }
    }
}

/// What others see of fields: the types of the public ones.
fn public_fields(fields: &syn::Fields) -> TokenStream {
    let public = fields.iter().filter(|field| matches!(field.vis, syn::Visibility::Public(_)));
    public.map(|field| field.ty.to_token_stream()).collect()
}

fn type_name(ty: &syn::Type) -> Option<String> {
    match ty {
        syn::Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        syn::Type::Reference(reference) => type_name(&reference.elem),
        _ => None,
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Fn(item) => self.add("fn", &item.vis, &item.sig.ident, &[&item.sig]),
            syn::Item::Struct(item) => {
                self.add("struct", &item.vis, &item.ident, &[&item.generics, &public_fields(&item.fields)]);
            }
            syn::Item::Enum(item) => self.add("enum", &item.vis, &item.ident, &[item]),
            syn::Item::Const(item) => self.add("const", &item.vis, &item.ident, &[&item.ty]),
            syn::Item::Static(item) => self.add("static", &item.vis, &item.ident, &[&item.ty]),
            syn::Item::Type(item) => self.add("type", &item.vis, &item.ident, &[item]),
            syn::Item::Trait(item) => {
                let mut bare = item.clone();
                for inner in &mut bare.items {
                    if let syn::TraitItem::Fn(inner) = inner {
                        inner.default = None;
                    }
                }
                self.add("trait", &item.vis, &item.ident, &[&bare]);
            }
            syn::Item::Use(item) if !matches!(item.vis, syn::Visibility::Inherited) => self.add_use(item),
            syn::Item::Macro(item) if item.ident.is_none() => {
                self.declared.in_macros.extend(names(item.mac.tokens.clone()));
            }
            syn::Item::Impl(_) | syn::Item::Mod(_) => visit::visit_item(self, item),
            _ => {}
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !item.attrs.iter().any(is_for_tests) {
            self.add("mod", &item.vis, &item.ident, &[]);
            self.module.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.module.pop();
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let Some(owner) = type_name(&item.self_ty) else { return };
        if item.attrs.iter().any(is_for_tests) {
            return;
        }
        let first = self.declared.items.len();
        for inner in &item.items {
            match inner {
                syn::ImplItem::Fn(inner) => self.add("fn", &inner.vis, &inner.sig.ident, &[&inner.sig]),
                syn::ImplItem::Const(inner) => self.add("const", &inner.vis, &inner.ident, &[&inner.ty]),
                syn::ImplItem::Type(inner) => {
                    self.declared.shown.push((owner.clone(), names(inner.ty.to_token_stream())));
                }
                _ => {}
            }
        }
        for item in &mut self.declared.items[first..] {
            item.owner = Some(owner.clone());
        }
        if let Some((path, _)) = &item.trait_ {
            self.declared
                .shown
                .push((owner, path.segments.iter().flat_map(|part| names(part.arguments.to_token_stream())).collect()));
        }
    }
}

/// The names that others than the library in this folder use: those of its own tests and programs, and of crates that import it.
fn used_outside(folder: &str, own: &[&Source], words: &BTreeMap<&str, BTreeSet<String>>) -> BTreeSet<String> {
    let outside = own.iter().filter(|source| source.is_outside());
    let mut used: BTreeSet<String> = outside.flat_map(|source| source.names()).collect();
    used.extend(own.iter().flat_map(|source| source.names_in_examples()));
    let library = crates::library(folder);
    let others = words.iter().filter(|(other, words)| **other != folder && words.contains(&library));
    used.extend(others.flat_map(|(_, words)| words.iter().cloned()));
    used
}

/// Each item of a checked crate that is `pub` for nobody.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources {
        crates.entry(source.folder()).or_default().push(source);
    }
    let words: BTreeMap<&str, BTreeSet<String>> =
        crates.iter().map(|(folder, own)| (*folder, own.iter().flat_map(|source| source.names()).collect())).collect();
    let mut found = Vec::new();
    for (folder, own) in crates.iter().filter(|(folder, _)| CHECKED.contains(folder)) {
        for item in Declared::of(own).needless(used_outside(folder, own, &words)) {
            let (kind, name) = (item.kind, item.path.join("::"));
            let why = format!("pub {kind} {name} is used by nobody outside {folder}; make it pub(crate), or remove it");
            found.push(Violation { file: item.file.clone(), line: item.line, why });
        }
    }
    found
}
