//! Static programs: they ask for nothing, copy what there is, and say what cp says.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::fresh;
use crate::dist::build::{Stamp, Target};
use crate::shell::{self, Result};

/// Unpacks an archive and tries what it holds; returns what could not be tried.
///
/// # Errors
/// When a program is not static, or does not do what the dynamic one does.
pub fn check(target: &Target, archive: &Path, stamp: &Stamp, room: &Path) -> Result<Option<String>> {
    let room = room.join(target.arch);
    let prefix = room.join("prefix");
    shell::make_dir(&prefix)?;
    let mut tar = shell::command("tar");
    shell::run(tar.args(["--strip-components=1", "-xzf"]).arg(archive).arg("--directory").arg(&prefix))?;
    for program in ["haul", "haul-lab"] {
        let program = prefix.join("bin").join(program);
        let headers = shell::output(shell::command("readelf").args(["--program-headers", "--wide"]).arg(&program))?;
        if headers.contains("INTERP") {
            return Err(format!("{} asks for a dynamic linker", program.display()));
        }
        names_its_build(target, &program, stamp)?;
    }
    for command in ["haul", "smartcp", "haul-lab", "haul-mpi"] {
        let page = prefix.join(format!("share/man/man1/{command}.1"));
        shell::run(shell::command("mandoc").args(["-T", "lint", "-W", "error"]).arg(page))?;
    }
    let haul = prefix.join("bin/haul");
    copies_a_tree(target, &haul, &room)?;
    if target.is_native() {
        needs_little_address_space(&haul, &room)?;
    }
    says_what_cp_says(target, &haul, &room)?;
    if !shell::is_root() {
        return Ok(Some(format!("NOT CHECKED: {} in a root with nothing else, which needs root", target.name)));
    }
    in_an_empty_root(target, &prefix, &room)?;
    if target.is_native() {
        in_a_container(&prefix, &room)?;
    }
    Ok(None)
}

/// A program, to be run here.
fn run(target: &Target, program: &Path) -> Command {
    if target.is_native() {
        return shell::command(program);
    }
    let mut command = shell::command(target.emulator);
    command.arg(program);
    command
}

fn names_its_build(target: &Target, program: &Path, stamp: &Stamp) -> Result {
    let said = shell::output(run(target, program).arg("--version"))?;
    let of_haul = said.starts_with("haul ");
    let names = |what: &str| said.contains(what);
    if !names(&stamp.version) || of_haul && !(names(&stamp.commit) && names(target.name) && names("static")) {
        return Err(format!("{} --version: {said:?}", program.display()));
    }
    Ok(())
}

/// Copies the documentation and compares what other programs see.
fn copies_a_tree(target: &Target, haul: &Path, room: &Path) -> Result {
    let copy = room.join("copy");
    shell::run(run(target, haul).args(["-a", "--verify", "docs"]).arg(&copy))?;
    shell::run(shell::command("diff").args(["--recursive", "docs"]).arg(&copy))?;
    let list = |dir: &Path| -> Result<Vec<String>> {
        let mut find = shell::command("find");
        let said = shell::output(find.args([".", "-printf", "%P %m %T@\n"]).current_dir(dir))?;
        let mut lines: Vec<String> = said.lines().map(str::to_owned).collect();
        lines.sort();
        Ok(lines)
    };
    if list(&shell::root().join("docs"))? == list(&copy)? {
        Ok(())
    } else {
        Err(format!("{}: modes or times differ in the copy", target.name))
    }
}

/// 32 MiB are enough.
fn needs_little_address_space(haul: &Path, room: &Path) -> Result {
    let copy = room.join("copy-in-little");
    let mut limited = shell::command("prlimit");
    shell::run(limited.args(["--as=33554432", "--"]).arg(haul).args(["-a", "docs"]).arg(&copy))?;
    shell::run(shell::command("diff").args(["--recursive", "docs"]).arg(&copy))
}

/// Errors of the system, and names as they are quoted in four locales: byte by byte what cp prints.
fn says_what_cp_says(target: &Target, haul: &Path, room: &Path) -> Result {
    let cp = room.join("cp");
    symlink(haul, &cp).map_err(shell::at(&cp))?;
    let at = |name: &str| room.join(name);
    shell::write(&at("file"), "contents")?;
    fs::create_dir(at("dir")).map_err(shell::at(&at("dir")))?;
    symlink("loop", at("loop")).map_err(shell::at(&at("loop")))?;
    let long = "n".repeat(300);
    let requests: [&[&str]; 6] = [
        &["missing-\u{e9}\u{a0}", "x"],
        &["loop", "x"],
        &["file", &long],
        &["file", "file/x"],
        &["--reflink=always", "file", "/proc/self/comm"],
        &["dir", "x"],
    ];
    for locale in ["C", "C.UTF-8", "", "nowhere"] {
        for request in requests {
            // The name is the whole path here and not there; what is compared comes after it.
            let said = |mut command: Command| -> Result<String> {
                command.args(request).current_dir(room).env_remove("LC_ALL").env_remove("LC_CTYPE").env("LANG", locale);
                let output = command.output().map_err(|error| format!("{}: {error}", shell::line(&command)))?;
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                let words = text.split_once(": ").map_or(text.as_str(), |(_, words)| words);
                Ok(format!("{:?} {words}", output.status.code()))
            };
            let (ours, of_cp) = (said(run(target, &cp))?, said(shell::command("cp"))?);
            if ours != of_cp {
                return Err(format!(
                    "{} in the locale {locale:?}, {request:?}: {ours:?}, but cp: {of_cp:?}",
                    target.name
                ));
            }
        }
    }
    Ok(())
}

/// Nothing but the archive and two files, and on another processor what runs programs.
fn in_an_empty_root(target: &Target, prefix: &Path, room: &Path) -> Result {
    let root = room.join("root");
    shell::make_dir(&root.join("from"))?;
    shell::run(shell::command("cp").arg("-a").arg(prefix).arg(root.join("usr")))?;
    shell::write(&root.join("from/file"), "contents")?;
    symlink("file", root.join("from/link")).map_err(shell::at(&root))?;
    let inside = |program: &str| -> Result<Command> {
        let mut inside = fresh::in_root(&root);
        if !target.is_native() {
            let emulator = shell::find(target.emulator).ok_or_else(|| format!("there is no {}", target.emulator))?;
            shell::copy(&emulator, &root.join("emulator"))?;
            inside.arg("/emulator");
        }
        inside.arg(format!("/usr/bin/{program}"));
        Ok(inside)
    };
    shell::run(inside("haul")?.args(["-a", "--verify", "/from", "/to"]))?;
    shell::run(shell::command("diff").args(["-r", "--no-dereference"]).args([root.join("from"), root.join("to")]))?;
    shell::run(inside("haul")?.args(["-aT", "--compare", "/from", "/to"]))?;
    shell::run(inside("haul-lab")?.arg("--version"))?;
    shell::run(inside("smartcp")?.args(["/from/file", "/disk"]))?;
    shell::run(shell::command("cmp").args([root.join("from/file"), root.join("disk")]))
}

/// The image of docs/examples, with what the example for Kubernetes says.
fn in_a_container(prefix: &Path, room: &Path) -> Result {
    let (storage, volume) = (room.join("containers"), room.join("volume"));
    shell::make_dir(&volume.join("in"))?;
    shell::write(&volume.join("in/file"), "contents")?;
    let buildah = || {
        let mut buildah = shell::command("buildah");
        buildah.args(["--storage-driver", "vfs", "--root"]).arg(storage.join("root")).arg("--runroot");
        buildah.arg(storage.join("run"));
        buildah
    };
    let recipe = shell::root().join("docs/examples/Containerfile");
    let mut build = buildah();
    build.args(["build", "--isolation", "chroot", "--tag", "haul", "--file"]).arg(recipe).arg(prefix);
    shell::run(&mut build)?;
    let container = shell::output(buildah().args(["from", "localhost/haul"]))?;
    for part in ["0+1/2", "1+1/2"] {
        let mut run = buildah();
        run.args(["run", "--isolation", "chroot", "--volume"]).arg(format!("{}:/data", volume.display()));
        run.args([container.trim(), "/usr/bin/haul", "-aT", "--job=trial", &format!("--shard={part}")]);
        shell::run(run.args(["/data/in", "/data/out"]))?;
    }
    shell::run(shell::command("diff").arg("-r").args([volume.join("in"), volume.join("out")]))?;
    shell::run(buildah().args(["rm", container.trim()]))
}
