//! NFS 4.2: server and client in one guest, over its loopback device.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::haul;
use crate::lab::{Found, Lab, Outcome};
use crate::server::{OPTIONS, serve, start};
use crate::tool;
use crate::tree;

/// Where the server keeps the filesystem that it exports.
pub const EXPORTED: &str = "/tmp/guest/exported";

/// Where the client has it.
const CLIENT: &str = "/tmp/guest/client";

/// Where a client has it that asks the server for attributes every ten minutes.
const BELIEVING: &str = "/tmp/guest/believing";

/// How large the files are during which the server goes.
const LARGE: usize = 24 << 20;

/// On a filesystem that can share extents.
pub fn on_xfs(lab: &mut Lab) -> Result<(), String> {
    run(lab, "xfs")
}

/// On one that cannot.
pub fn on_ext4(lab: &mut Lab) -> Result<(), String> {
    run(lab, "ext4")
}

/// A mounted server for haul-lab, on a filesystem of this kind: where its client has it.
pub fn served(lab: &mut Lab, kind: &str) -> Result<&'static Path, String> {
    start_for(&lab.mounted(kind, "exported", 1024)?)?;
    mount("hard", Path::new(CLIENT))?;
    Ok(Path::new(CLIENT))
}

fn run(lab: &mut Lab, kind: &str) -> Result<(), String> {
    let source = lab.mounted("ext4", "source", 256)?.join("tree");
    tree::plant(&source, tree::NFS)?;
    let exported = lab.mounted(kind, "exported", 768)?;
    start_for(&exported)?;
    mount("hard", Path::new(CLIENT))?;
    let (client, server) = (Path::new(CLIENT), Path::new(EXPORTED));
    lab.check("local -> NFS: -a", || {
        let run = haul::right(&format!("-aT {} {CLIENT}/tree", source.display()))?;
        tree::forget_cache()?;
        tree::same(&source, &client.join("tree"), tree::NFS)?;
        tree::haul_agrees(&source, &server.join("tree"))?;
        Ok(Found::new(&run, "equal for the client and on the server"))
    });
    lab.check("NFS -> local: -a", || {
        tree::forget_cache()?;
        let back = source.with_file_name("back");
        let run = haul::right(&format!("-aT {CLIENT}/tree {}", back.display()))?;
        tree::same(&source, &back, tree::NFS)?;
        let kib = tree::allocated(&back.join("sparse"))?;
        if kib > 1024 {
            return Err(format!("the holes of the sparse file are gone: {kib} KiB").into());
        }
        Ok(Found::new(&run, format!("equal; sparse file: {kib} KiB of {}", tree::SPARSE >> 10)))
    });
    within(lab, &source, kind == "xfs");
    staged(lab, &source.join("a"), kind == "xfs");
    large(&source)?;
    lab.check("hard mount, server restarted in the middle", || restarted(&source));
    if kind != "xfs" {
        lab.check("NFS -> local: another changes the source: --if-changed=fail", || changed(&source));
        return Ok(());
    }
    lab.check("soft mount, server gone in the middle", || gone(&source, ""));
    lab.check("soft mount, server gone: --atomic", || gone(&source, "--atomic"));
    Ok(())
}

/// From one place of the server to another.
fn within(lab: &mut Lab, source: &Path, shares: bool) {
    let copy = |options: &str, name: &str, wanted: &[&str]| -> Outcome {
        tree::forget_cache()?;
        let before = calls(Path::new(CLIENT))?;
        let run = haul::right(&format!("-a {options} -T {CLIENT}/tree {CLIENT}/{name}"))?;
        let after = calls(Path::new(CLIENT))?;
        tree::forget_cache()?;
        tree::same(source, &Path::new(EXPORTED).join(name), tree::NFS)?;
        tree::haul_agrees(source, &Path::new(CLIENT).join(name))?;
        let made = |name: &str| count(&after, name) - count(&before, name);
        let said: Vec<String> =
            ["COPY", "CLONE", "READ", "WRITE", "SEEK"].iter().map(|name| format!("{name} {}", made(name))).collect();
        if let Some(missing) = wanted.iter().find(|name| made(name) == 0) {
            return Err(format!("the server was sent no {missing}: {}; {}", said.join(", "), run.report()).into());
        }
        let kib = tree::allocated(&Path::new(EXPORTED).join(name).join("sparse"))?;
        Ok(Found::new(&run, format!("equal; {}; sparse file: {kib} KiB", said.join(", "))))
    };
    lab.check("within NFS: -a", || copy("", "auto", if shares { &["CLONE"] } else { &["COPY"] }));
    if !shares {
        lab.check("within NFS: a sparse file, by the server alone", || by_the_server_alone(source));
    }
    lab.check("within NFS: --reflink=never", || copy("--reflink=never", "never", &[]));
    lab.check("within NFS: --engine=copy-range", || copy("--engine=copy-range", "range", &["COPY"]));
    lab.check("within NFS: --reflink=always", || {
        if shares {
            return copy("--reflink=always", "always", &["CLONE"]);
        }
        let run = haul::run(&format!("--reflink=always {CLIENT}/tree/a/file-4 {CLIENT}/always"))?;
        run.must_say(&["failed to clone", "not supported"])?;
        if Path::new(CLIENT).join("always").exists() {
            return Err("a file is there all the same".into());
        }
        Ok(Found::new(&run, format!("refused: {}", run.said)))
    });
}

/// Its extents are copied there: nothing is sent to be written. (There is one READ, whose reason we do not know.)
fn by_the_server_alone(source: &Path) -> Outcome {
    tree::forget_cache()?;
    let before = calls(Path::new(CLIENT))?;
    let run = haul::right(&format!("-a -T {CLIENT}/tree/sparse {CLIENT}/sparse"))?;
    let after = calls(Path::new(CLIENT))?;
    let made = |name: &str| count(&after, name) - count(&before, name);
    let said = ["COPY", "READ", "WRITE"].map(|name| format!("{name} {}", made(name))).join(", ");
    if made("COPY") == 0 || made("WRITE") > 0 {
        return Err(format!("{said}; {}", run.report()).into());
    }
    let [from, to] = [source.join("sparse"), Path::new(EXPORTED).join("sparse")];
    let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    match read(&from)? == read(&to)? {
        true => Ok(Found::new(&run, format!("equal; {said}; {} KiB", tree::allocated(&to)?))),
        false => Err(format!("other contents: {}", run.report()).into()),
    }
}

/// Copies that promise more.
fn staged(lab: &mut Lab, source: &Path, each: bool) {
    let all = "--atomic --durable=file --verify=read";
    let alone = ["--atomic", "--durable=flush", "--durable=file", "--verify=read", "--verify=device"];
    for options in alone.into_iter().filter(|_| each).chain([all]) {
        lab.check(&format!("local -> NFS: {options}"), || {
            let to = Path::new(CLIENT).join("staged");
            // The second time everything is replaced.
            haul::right(&format!("-a {options} -T {} {}", source.display(), to.display()))?;
            let run = haul::right(&format!("-a {options} -T {} {}", source.display(), to.display()))?;
            tree::forget_cache()?;
            tree::same(source, &Path::new(EXPORTED).join("staged"), tree::NFS)?;
            tool::run(&format!("rm -r {}", to.display()))?;
            Ok(Found::new(&run, "equal, made and replaced"))
        });
    }
}

fn large(source: &Path) -> Result<(), String> {
    let bytes = haul_testbed::guest::Noise::new(9).bytes(LARGE);
    fs::write(source.with_file_name("large"), bytes).map_err(|error| error.to_string())
}

/// A copy that has begun and waits to go on, until `control` says that it may.
struct Waiting {
    copy: haul::Started,
    control: PathBuf,
}

/// Starts a slow copy and waits until the server has some of it.
fn begin(source: &Path, options: &str, to: &str, mounted: &str) -> Result<Waiting, String> {
    let control = PathBuf::from("/tmp/control");
    fs::write(&control, "").map_err(|error| error.to_string())?;
    let large = source.with_file_name("large");
    let limits = format!("--limit=4M --control={}", control.display());
    let mut copy = haul::start(&format!("{options} {limits} {} {mounted}/{to}", large.display()))?;
    // The client may keep what is written for a while; a name is with the server at once.
    let begun = || {
        let names = fs::read_dir(EXPORTED).into_iter().flatten().flatten();
        let new = |name: &str| name == to || name.starts_with(".haul-");
        names.into_iter().any(|entry| new(&entry.file_name().to_string_lossy()))
    };
    tool::until("the copy begins", || begun() || copy.ended())?;
    if copy.ended() {
        return Err(format!("it ended before anything was seen of it: {}", copy.finish()?.report()));
    }
    Ok(Waiting { copy, control })
}

fn restarted(source: &Path) -> Outcome {
    let mut waiting = begin(source, "", "restarted", CLIENT)?;
    serve(0)?;
    if waiting.copy.ended() {
        return Err("it ended before the server did".into());
    }
    fs::write(&waiting.control, "limit=0\n").map_err(|error| error.to_string())?;
    serve(8)?;
    let run = waiting.copy.finish()?;
    if run.failed() || !run.said.is_empty() {
        return Err(run.report().into());
    }
    tree::forget_cache()?;
    for at in [EXPORTED, CLIENT] {
        tool::run(&format!("cmp {} {at}/restarted", source.with_file_name("large").display()))?;
    }
    Ok(Found::new(&run, "went on, equal"))
}

/// The client believes for ten minutes in what it knows of a file. (With times of access it would ask for them after each read, and
/// so get all else.)
fn changed(source: &Path) -> Outcome {
    let (on_server, copy) = (Path::new(EXPORTED).join("changing"), source.with_file_name("changing"));
    let control = Path::new("/tmp/control");
    fs::write(control, "").map_err(|error| error.to_string())?;
    tool::run(&format!("cp {} {}", source.with_file_name("large").display(), on_server.display()))?;
    mount("hard,actimeo=600,noatime", Path::new(BELIEVING))?;
    // What somebody has open to write it, the server delegates to no client.
    let file = fs::File::options().write(true).open(&on_server).map_err(|error| error.to_string())?;
    tree::forget_cache()?;
    let options = format!("--if-changed=fail --limit=4M --control={}", control.display());
    let mut run = haul::start(&format!("{options} {BELIEVING}/changing {}", copy.display()))?;
    let begun = || fs::metadata(&copy).is_ok_and(|meta| meta.len() > 0);
    tool::until("the copy begins", || begun() || run.ended())?;
    file.write_all_at(b"other", LARGE as u64 - 5).map_err(|error| error.to_string())?;
    fs::write(control, "limit=0\n").map_err(|error| error.to_string())?;
    let run = run.finish()?;
    tool::run(&format!("umount {BELIEVING}"))?;
    run.must_say(&["changing", "changed while"])?;
    Ok(Found::new(&run, run.said.clone()))
}

fn gone(source: &Path, options: &str) -> Outcome {
    let soft = Path::new("/tmp/guest/soft");
    mount("soft,timeo=5,retrans=1", soft)?;
    let waiting = begin(source, options, "gone", "/tmp/guest/soft")?;
    serve(0)?;
    fs::write(&waiting.control, "limit=0\n").map_err(|error| error.to_string())?;
    let run = waiting.copy.finish();
    serve(8)?;
    let run = run?;
    run.must_say(&["gone", "cannot remove the incomplete"])?;
    tool::run(&format!("umount -f {}", soft.display()))
        .or_else(|_| tool::run(&format!("umount -l {}", soft.display())))?;
    let left = Path::new(EXPORTED).join("gone");
    let found = match fs::metadata(&left) {
        Err(_) => "no file has the name".to_owned(),
        Ok(_) if options.contains("--atomic") => return Err(format!("a file is there: {}", run.report()).into()),
        Ok(meta) => format!("{} bytes stay under the name that the message has", meta.len()),
    };
    tool::run(&format!("rm -f {}", left.display()))?;
    Ok(Found::new(&run, format!("status 1: {}; {found}", run.said)))
}

/// Mounts the server as its client.
fn mount(options: &str, at: &Path) -> Result<(), String> {
    fs::create_dir_all(at).map_err(|error| error.to_string())?;
    tool::run(&format!("mount -t nfs4 -o vers=4.2,{options} localhost:/ {}", at.display()))
}

/// The client's own numbers of a mount: calls by name.
pub fn calls(at: &Path) -> Result<Vec<(String, u64)>, String> {
    let text = fs::read_to_string("/proc/self/mountstats").map_err(|error| error.to_string())?;
    let mount = text.split("device ").find(|part| part.contains(&format!(" mounted on {} ", at.display())));
    let mount = mount.ok_or_else(|| format!("nothing is known of {}", at.display()))?;
    let call = |line: &str| {
        let (name, numbers) = line.trim().split_once(": ")?;
        Some((name.to_owned(), numbers.split(' ').next()?.parse().ok()?))
    };
    Ok(mount.lines().filter_map(call).collect())
}

pub fn count(calls: &[(String, u64)], name: &str) -> u64 {
    calls.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count)
}

/// Starts a server for one directory, which its clients see as the root.
fn start_for(exported: &Path) -> Result<(), String> {
    start(&format!("{} *({OPTIONS},fsid=0)\n", exported.display()))
}

/// Ends the server and its exports, if there are any.
pub fn stop() -> Result<(), String> {
    if !Path::new("/proc/fs/nfsd/threads").exists() {
        return Ok(());
    }
    for client in ["/tmp/guest/soft", BELIEVING, CLIENT] {
        if tool::run(&format!("mountpoint -q {client}")).is_ok() {
            tool::run(&format!("umount {client}"))?;
        }
    }
    tool::run("exportfs -ua")?;
    serve(0)
}
