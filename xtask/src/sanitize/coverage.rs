//! Which functions with `unsafe` code were executed under a sanitizer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

use super::tool::Tool;
use crate::layers;
use crate::shell::{self, Result};

/// A function of haul-sys: its module and its name.
type Function = (String, String);

/// What a file of the sanitizers' coverage begins with on machines of 64 bits; then come addresses.
const MAGIC: u64 = 0xC0BF_FFFF_FFFF_FF64;

/// The names of all functions of haul-sys that were executed, by the files in a directory.
pub fn read(dir: &Path, programs: &[PathBuf]) -> Result<BTreeSet<String>> {
    let mut addresses: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for path in shell::entries(dir)? {
        // PROGRAM.PID.sancov; libraries do not matter.
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let Some((program, _)) = name.strip_suffix(".sancov").and_then(|name| name.rsplit_once('.')) else { continue };
        let bytes = fs::read(&path).map_err(shell::at(&path))?;
        addresses.entry(program.to_owned()).or_default().extend(addresses_in(&bytes));
    }
    let mut executed = BTreeSet::new();
    for (name, addresses) in &addresses {
        let Some(program) = programs.iter().map(|dir| dir.join(name)).find(|path| path.is_file()) else { continue };
        let table = shell::output(shell::command("nm").args(["--demangle", "--defined-only"]).arg(program))?;
        executed.extend(functions_at(&table, addresses));
    }
    Ok(executed)
}

fn addresses_in(bytes: &[u8]) -> Vec<u64> {
    let mut words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
    if words.next() == Some(MAGIC) { words.collect() } else { Vec::new() }
}

/// The functions of haul-sys in which the addresses are, by the output of nm(1).
fn functions_at(table: &str, addresses: &BTreeSet<u64>) -> BTreeSet<String> {
    let mut symbols: BTreeMap<u64, &str> = BTreeMap::new();
    for line in table.lines() {
        let mut fields = line.splitn(3, ' ');
        let (Some(address), Some("t" | "T" | "w" | "W"), Some(name)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if let Ok(address) = u64::from_str_radix(address, 16) {
            symbols.insert(address, name);
        }
    }
    let names = addresses.iter().filter_map(|address| symbols.range(..=*address).next_back());
    names.map(|(_, name)| (*name).to_owned()).filter(|name| name.contains("haul_sys::")).collect()
}

/// Whether one of the names is that of the function, or of a closure in it.
fn is_executed((module, name): &Function, executed: &BTreeSet<String>) -> bool {
    let (module, name) = (format!("haul_sys::{module}"), format!("::{name}"));
    executed.iter().any(|symbol| {
        let path = symbol.trim_start_matches('<');
        // A method stands in the module of its type, whose path is all that its own has.
        let begins = path.strip_prefix(&module).is_some_and(|rest| rest.starts_with("::"));
        let ends = symbol.split(&name).skip(1).any(|rest| rest.is_empty() || rest.starts_with("::"));
        begins && ends
    })
}

/// Prints for each module how many of its functions with `unsafe` code each tool has seen, and names the others.
pub fn print(covered: &[(Tool, BTreeSet<String>)]) -> Result {
    let mut modules: BTreeMap<String, Vec<Function>> = BTreeMap::new();
    for source in layers::sources()?.iter().filter(|source| source.file.starts_with("crates/sys/src/")) {
        let module = source.module().join("::");
        let functions = with_unsafe_code(source.syntax()).into_iter().map(|name| (module.clone(), name));
        modules.entry(module.clone()).or_default().extend(functions);
    }
    modules.retain(|_, functions| !functions.is_empty());
    println!("\nfunctions with unsafe code that were executed");
    for (module, functions) in &modules {
        let mut line = format!("{module:<18}");
        for (tool, executed) in covered {
            let missed: Vec<&str> =
                functions.iter().filter(|function| !is_executed(function, executed)).map(|f| f.1.as_str()).collect();
            line += &format!("  {} {}/{}", tool.name(), functions.len() - missed.len(), functions.len());
            if !missed.is_empty() {
                line += &format!(" (not {})", missed.join(", "));
            }
        }
        println!("{line}");
    }
    Ok(())
}

/// The functions of a file that have an `unsafe` block, tests not among them.
fn with_unsafe_code(file: &syn::File) -> Vec<String> {
    let mut functions = Functions::default();
    functions.visit_file(file);
    functions.found
}

#[derive(Default)]
struct Functions {
    found: Vec<String>,
    blocks: usize,
}

impl Functions {
    fn function(&mut self, name: &syn::Ident, look: impl FnOnce(&mut Functions)) {
        let before = self.blocks;
        look(self);
        if self.blocks > before {
            self.found.push(name.to_string());
        }
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.blocks += 1;
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.ident != "tests" {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.function(&function.sig.ident, |functions| visit::visit_item_fn(functions, function));
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.function(&function.sig.ident, |functions| visit::visit_impl_item_fn(functions, function));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_with_unsafe_blocks_are_found_and_tests_are_not() {
        let text = "fn a() { unsafe { b() } }\nfn c() {}\nimpl D { fn e(&self) { let f = || unsafe { b() }; } }\n\
                    mod tests { fn g() { unsafe { b() } } }";
        assert_eq!(with_unsafe_code(&syn::parse_file(text).unwrap()), ["a", "e"]);
    }

    #[test]
    fn addresses_lead_to_the_functions_that_they_are_in() {
        let table = "0000000000000010 t haul_sys::child::wait\n0000000000000020 t other::thing\n\
                     0000000000000030 T <haul_sys::map::Mapping as core::ops::drop::Drop>::drop\n                 U malloc\n\
                     0000000000000040 t haul_sys::xattr_at::list::{closure#0}\n\
                     0000000000000050 t <haul_sys::object::Object>::set_project\n";
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        for address in [0x14_u64, 0x24, 0x31, 0x44, 0x58] {
            bytes.extend(address.to_ne_bytes());
        }
        let executed = functions_at(table, &addresses_in(&bytes).into_iter().collect());
        assert_eq!(executed.len(), 4);
        let is = |module: &str, name: &str| is_executed(&(module.into(), name.into()), &executed);
        assert!(is("child", "wait") && is("map", "drop") && is("xattr_at", "list"));
        assert!(is("object", "set_project"));
        assert!(!is("map", "new") && !is("child", "wai") && !is("ma", "drop"));
    }
}
