//! Roots with nothing but a distribution, or nothing at all.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::apt;
use crate::shell::{self, Result};

/// Installs, uses and removes the packages in a Debian that has nothing but what every Debian has.
pub fn debian(packages: &[PathBuf], room: &Path) -> Result {
    let root = room.join("debian");
    let mut make = shell::command("debootstrap");
    make.args(["--variant=minbase", &apt::this_release()?]).arg(&root).arg(apt::mirror()?);
    shell::run(&mut make)?;
    let inside = |words: &str| {
        let mut inside = in_root(&root);
        inside.args(["sh", "-euc", words]);
        inside
    };
    let mut names = Vec::new();
    for package in packages {
        let name = package.file_name().unwrap_or_default();
        shell::copy(package, &root.join(name))?;
        names.push(format!("/{}", name.display()));
    }
    shell::copy(Path::new("/etc/resolv.conf"), &root.join("etc/resolv.conf"))?;
    let quiet = "DEBIAN_FRONTEND=noninteractive apt-get --quiet=2 --yes --no-install-recommends";
    shell::run(&mut inside(&format!("{quiet} install {} >/log 2>&1 || {{ cat /log; exit 1; }}", names.join(" "))))?;
    shell::run(&mut inside(USE_DEBIAN))?;
    let parts: Vec<String> = packages.iter().filter_map(|file| named(file)).collect();
    let listed = shell::output(&mut inside(&format!("dpkg --listfiles {}", parts.join(" "))))?;
    shell::run(&mut inside(&format!("{quiet} purge {} >/log 2>&1 || {{ cat /log; exit 1; }}", parts.join(" "))))?;
    for path in listed.lines().filter(|path| path.contains("haul") || path.contains("smartcp")) {
        if root.join(path.trim_start_matches('/')).symlink_metadata().is_ok() {
            return Err(format!("{path} stays when the package is removed"));
        }
    }
    shell::remove(&root)
}

/// A tree of what a copy keeps, copied and compared; the other commands, and what belongs to them. There is no ssh, which
/// Open MPI looks for.
const USE_DEBIAN: &str = r#"
mkdir -p /trial/from/sub
echo contents >/trial/from/file
ln /trial/from/file /trial/from/sub/linked
ln -s file /trial/from/link
truncate -s 1M /trial/from/sparse
chmod 640 /trial/from/file
chown 12:34 /trial/from/file
haul -a --verify /trial/from /trial/to
diff -r --no-dereference /trial/from /trial/to
look() { cd "$1" && find . -printf '%P %m %U %G %n %y %l %T@\n' | LC_ALL=C sort; }
test "$(look /trial/from)" = "$(look /trial/to)"
smartcp --version
haul-lab --version
if command -v haul-mpi; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm=isolated
    haul-mpi --version
    mpirun --oversubscribe -n 2 haul-mpi -a /trial/from /trial/over
    diff -r --no-dereference /trial/from /trial/over
    gzip -t /usr/share/man/man1/haul-mpi.1.gz
fi
for page in haul smartcp haul-lab; do gzip -t /usr/share/man/man1/$page.1.gz; done
test -s /usr/share/bash-completion/completions/haul
test -s /usr/share/zsh/vendor-completions/_haul
test -s /usr/share/fish/vendor_completions.d/haul.fish
"#;

/// Installs, uses and removes the packages in an empty root: the programs need nothing.
pub fn rpm(packages: &[PathBuf], room: &Path) -> Result {
    let root = room.join("rpm");
    shell::make_dir(&root.join("from"))?;
    shell::write(&root.join("from/file"), "contents")?;
    let rpm = || {
        let mut rpm = shell::command("rpm");
        rpm.arg("--root").arg(&root);
        rpm
    };
    shell::run(rpm().arg("--initdb"))?;
    shell::run(rpm().args(["--install", "--noplugins"]).args(packages))?;
    for (program, words) in [("haul", "-a /from /to"), ("smartcp", "/from/file /to/disk"), ("haul-lab", "--version")] {
        shell::run(in_root(&root).arg(format!("/usr/bin/{program}")).args(words.split(' ')))?;
    }
    for copy in ["file", "disk"] {
        shell::run(shell::command("cmp").arg(root.join("from/file")).arg(root.join("to").join(copy)))?;
    }
    for package in packages.iter().filter_map(|file| named(file)) {
        shell::run(rpm().args(["--erase", "--noplugins"]).arg(package))?;
    }
    let left = shell::output(shell::command("find").arg(root.join("usr")).args(["!", "-type", "d"]))?;
    if left.is_empty() {
        shell::remove(&root)
    } else {
        Err(format!("these stay when the packages are removed:\n{left}"))
    }
}

/// The name of the package that a file holds: before its version.
fn named(file: &Path) -> Option<String> {
    let name = file.file_name()?.to_string_lossy().into_owned();
    let end = name.find(|character: char| character.is_ascii_digit())?;
    Some(name[..end].trim_end_matches(['-', '_']).to_owned())
}

/// A program in another root, with /proc, as containers have it; that is mounted for this process alone.
pub fn in_root(root: &Path) -> Command {
    let script = r#"mkdir -p "$0/proc" && mount -t proc proc "$0/proc" && exec chroot "$0" "$@""#;
    let mut inside = shell::command("unshare");
    inside.args(["--mount", "--propagation", "private", "sh", "-euc", script]).arg(root).env("LC_ALL", "C");
    inside
}
