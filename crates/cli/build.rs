//! Links the unwinder of panics into the program, so that a start does not load libgcc_s for what almost no run does: a
//! twelfth of the time in which one small file is copied. What is there without a static unwinder links as Rust does.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
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
    let found = Command::new(compiler).arg("-print-file-name=libgcc_eh.a").output();
    // A compiler that has none answers with the bare name.
    let archive = found.ok().and_then(|found| String::from_utf8(found.stdout).ok()).unwrap_or_default();
    if let Some(folder) = Path::new(archive.trim()).parent().filter(|folder| folder.is_absolute()) {
        println!("cargo::rustc-link-search=native={}", folder.display());
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
}
