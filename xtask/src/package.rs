//! `cargo xtask package`: the packages that cargo publishes, built and tested from what is in them.
//!
//! Cargo builds each from its own archive, with the others in place of the registry. Its tests need the crates for tests,
//! which are not published: they run in a workspace where every published crate is what its archive holds.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::counts;
use crate::leftovers::Scratch;
use crate::mpi::Mpi;
use crate::shell::{self, Result};

/// What the workspace has besides the published crates, and tests read.
const BESIDE: &[&str] = &["Cargo.lock", "Cargo.toml", "docs", "generated", "testing", "xtask"];

pub fn run() -> Result {
    println!("{}", check(&Mpi::look())?);
    Ok(())
}

/// Makes the archives, builds each, and runs the unit tests from them.
///
/// # Errors
/// When a file is missing in an archive, or a test fails.
pub fn check(mpi: &Mpi) -> Result<String> {
    let packages = packages(mpi)?;
    let mut package = shell::cargo();
    // A change that is not committed yet is checked as well.
    package.args(["package", "--workspace", "--locked", "--allow-dirty"]);
    for left_out in packages.iter().filter(|package| !package.packed) {
        package.args(["--exclude", &left_out.name]);
    }
    Mpi::compiler(&mut package);
    forget(&packages)?;
    shell::run(&mut package)?;
    let packed: Vec<&Package> = packages.iter().filter(|package| package.packed).collect();
    let workspace = shell::target().join("packaged");
    unpack(&packed, &workspace)?;
    let scratch = Scratch::new()?;
    let mut tests = shell::cargo();
    tests
        .current_dir(&workspace)
        .env("CARGO_TARGET_DIR", shell::target())
        .args(["test", "--locked", "--lib", "--bins"]);
    for package in &packed {
        tests.args(["--package", &package.name]);
    }
    Mpi::compiler(&mut tests);
    let counts = counts::judged(&mut tests, &scratch);
    shell::remove(&workspace)?;
    scratch.finish()?;
    Ok(format!("{} packages built, unit tests from them: {}", packed.len(), counts?))
}

struct Package {
    name: String,
    version: String,
    /// Its folder, from the root of the workspace.
    folder: PathBuf,
    /// Whether it is published, and can be built here.
    packed: bool,
}

impl Package {
    fn archive(&self) -> PathBuf {
        shell::target().join(format!("package/{}-{}.crate", self.name, self.version))
    }
}

fn packages(mpi: &Mpi) -> Result<Vec<Package>> {
    let text = shell::output(shell::cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |package: &Value| {
        let name = word(&package["name"]);
        let manifest = word(&package["manifest_path"]);
        let folder = Path::new(&manifest).parent().and_then(|folder| folder.strip_prefix(shell::root()).ok());
        // Cargo says by an empty list of registries that it is not published.
        let packed = package["publish"].as_array().is_none_or(|registries| !registries.is_empty()) && mpi.builds(&name);
        let folder = folder.unwrap_or(Path::new("")).to_owned();
        Package { name, version: word(&package["version"]), folder, packed }
    };
    Ok(metadata["packages"].as_array().into_iter().flatten().map(of).collect())
}

/// Removes what cargo has unpacked of these packages before, and that it was built: it takes them for the same as long as their
/// versions are, and builds the next package with the sources of an earlier run. The registries that cargo makes for the time of
/// `package` have no host, so their names begin with a dash.
fn forget(packages: &[Package]) -> Result {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")));
    let Some(home) = home else { return Ok(()) };
    let mut forgot = false;
    // Without any registry there is nothing to forget.
    for registry in shell::entries(&home.join("registry/src")).unwrap_or_default() {
        let is_temporary = registry.file_name().is_some_and(|name| name.to_string_lossy().starts_with('-'));
        for Package { name, version, .. } in packages.iter().filter(|_| is_temporary) {
            let unpacked = registry.join(format!("{name}-{version}"));
            forgot |= unpacked.exists();
            shell::remove(&unpacked)?;
        }
    }
    let built = shell::target().join("debug/.fingerprint");
    for fingerprint in shell::entries(&built).unwrap_or_default().into_iter().filter(|_| forgot) {
        let name = fingerprint.file_name().unwrap_or_default().to_string_lossy();
        if packages.iter().any(|package| name.starts_with(&format!("{}-", package.name))) {
            shell::remove(&fingerprint)?;
        }
    }
    Ok(())
}

/// Makes a workspace of the archives, with what is beside them.
fn unpack(packed: &[&Package], workspace: &Path) -> Result {
    shell::remove(workspace)?;
    shell::make_dir(workspace)?;
    shell::run(shell::command("cp").arg("-a").args(BESIDE).arg(workspace))?;
    // The lock file is of all packages.
    shell::make_dir(&workspace.join("crates"))?;
    shell::run(shell::command("cp").args(["-a", "crates/python"]).arg(workspace.join("crates")))?;
    for package in packed {
        let folder = workspace.join(&package.folder);
        shell::make_dir(&folder)?;
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(package.archive()).args(["--strip-components=1", "-C"]).arg(&folder);
        shell::run(&mut tar)?;
        // Cargo.toml is what the registry gets, without crates for tests.
        shell::copy(&folder.join("Cargo.toml.orig"), &folder.join("Cargo.toml"))?;
    }
    Ok(())
}
