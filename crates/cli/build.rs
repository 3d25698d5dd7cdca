//! What makes a start of the programs short. Both are left out where they cannot be had: the programs do the same without.
//!
//! * The unwinder of panics is linked in, so that a start does not load libgcc_s for what almost no run does: a twelfth of the
//!   time in which one small file is copied.
//! * The functions that a start calls stand side by side (`start.ld`, by `cargo xtask start-order`): a tenth to a sixth of
//!   the time.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

/// What the linker is told, by the pattern language of GNU ld and lld.
const ORDER: &str = "start.ld";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={ORDER}");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    let of_target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let is_for_this_machine = env::var("HOST").ok() == env::var("TARGET").ok();
    // A sanitizer stands before the functions of the shared unwinder. A static program has no other than this one.
    let is_sanitized = env::var_os("CARGO_CFG_SANITIZE").is_some();
    let is_static = env::var("CARGO_CFG_TARGET_FEATURE").is_ok_and(|all| all.split(',').any(|one| one == "crt-static"));
    if of_target("ENV") != "gnu" || !is_for_this_machine || is_sanitized || is_static {
        return;
    }
    let compiler = env::var("RUSTC_LINKER").unwrap_or_else(|_| "cc".into());
    link_unwinder(&compiler);
    order_functions(&compiler);
}

fn link_unwinder(compiler: &str) {
    let found = Command::new(compiler).arg("-print-file-name=libgcc_eh.a").output();
    // A compiler that has none answers with the bare name.
    let archive = found.ok().and_then(|found| String::from_utf8(found.stdout).ok()).unwrap_or_default();
    if let Some(folder) = Path::new(archive.trim()).parent().filter(|folder| folder.is_absolute()) {
        println!("cargo::rustc-link-search=native={}", folder.display());
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
}

fn order_functions(compiler: &str) {
    let (Ok(package), Ok(out)) = (env::var("CARGO_MANIFEST_DIR"), env::var("OUT_DIR")) else { return };
    let argument = format!("-Wl,-T,{package}/{ORDER}");
    let empty = format!("{out}/empty.c");
    if package.contains([',', ' ']) || std::fs::write(&empty, "int main(void) { return 0; }\n").is_err() {
        return;
    }
    // mold and gold do not know such scripts.
    let mut trial = Command::new(compiler);
    trial.arg(&empty).arg("-o").arg(format!("{out}/empty")).arg(&argument).args(arguments_of_linker());
    trial.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if trial.status().is_ok_and(|status| status.success()) {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
}

/// What whoever builds it tells the linker by the flags of rustc.
fn arguments_of_linker() -> Vec<String> {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let arguments =
        flags.split('\x1f').filter_map(|flag| flag.strip_prefix("-C").unwrap_or(flag).strip_prefix("link-arg"));
    let words = arguments.filter_map(|rest| match rest.strip_prefix("s=") {
        Some(several) => Some(several.split(' ').map(str::to_owned).collect()),
        None => Some(vec![rest.strip_prefix('=')?.to_owned()]),
    });
    words.flat_map(|some: Vec<String>| some).collect()
}
