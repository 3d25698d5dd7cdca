//! CIFS (SMB 3.1.1): Samba and the kernel's client in one guest.

use std::fs;
use std::path::Path;

use crate::haul;
use crate::lab::{Found, Lab, Outcome};
use crate::tool;
use crate::tree::{self, Keeps};

/// What such a share keeps for a Linux client without POSIX extensions.
const KEEPS: Keeps = Keeps { xattrs: true, acls: false, posix: false };

const EXPORTED: &str = "/tmp/guest/exported";
const CLIENT: &str = "/tmp/guest/client";

/// What haul is to keep there: no owners, modes and links.
const OPTIONS: &str = "-r --preserve=timestamps,xattr";

/// Plays it.
pub fn run(lab: &mut Lab) -> Result<(), String> {
    let source = lab.mounted("ext4", "source", 256)?.join("tree");
    tree::plant(&source, KEEPS)?;
    lab.mounted("xfs", "exported", 512)?;
    serve()?;
    mount("share", "hard", CLIENT)?;
    let (client, server) = (Path::new(CLIENT), Path::new(EXPORTED));
    lab.check("local -> CIFS", || {
        let run = haul::right(&format!("{OPTIONS} -T {} {CLIENT}/tree", source.display()))?;
        tree::forget_cache()?;
        tree::same(&source, &client.join("tree"), KEEPS)?;
        tool::run(&format!("diff --recursive {} {EXPORTED}/tree", source.display()))?;
        Ok(Found::new(&run, "equal for the client and on the server"))
    });
    lab.check("CIFS -> local", || {
        tree::forget_cache()?;
        let back = source.with_file_name("back");
        let run = haul::right(&format!("{OPTIONS} -T {CLIENT}/tree {}", back.display()))?;
        tree::same(&source, &back, KEEPS)?;
        Ok(Found::new(
            &run,
            format!("equal; sparse file: {} KiB of {}", tree::allocated(&back.join("sparse"))?, tree::SPARSE >> 10),
        ))
    });
    for (options, name) in [("", "auto"), ("--reflink=never", "never"), ("--engine=copy-range", "range")] {
        lab.check(&format!("within CIFS: {options}"), || {
            tree::forget_cache()?;
            let before = requests()?;
            let run = haul::right(&format!("{OPTIONS} {options} -T {CLIENT}/tree {CLIENT}/{name}"))?;
            let asked = requests()? - before;
            tree::forget_cache()?;
            tree::same(&source, &client.join(name), KEEPS)?;
            tool::run(&format!("diff --recursive {} {}", source.display(), server.join(name).display()))?;
            Ok(Found::new(&run, format!("equal; {asked} IOCTLs")))
        });
    }
    lab.check("within CIFS: --reflink=always", || {
        let run = haul::run(&format!("--reflink=always {CLIENT}/tree/a/file-4 {CLIENT}/always"))?;
        run.must_say(&["failed to clone"])?;
        if client.join("always").exists() {
            return Err("a file is there all the same".into());
        }
        Ok(Found::new(&run, format!("refused: {}", run.said)))
    });
    for options in ["--atomic --durable=file --verify=read", "--durable=flush --verify=device"] {
        lab.check(&format!("local -> CIFS: {options}"), || {
            let (from, to) = (source.join("a"), client.join("staged"));
            haul::right(&format!("{OPTIONS} {options} -T {} {}", from.display(), to.display()))?;
            let run = haul::right(&format!("{OPTIONS} {options} -T {} {}", from.display(), to.display()))?;
            tree::forget_cache()?;
            tree::same(&from, &to, KEEPS)?;
            tool::run(&format!("rm -r {}", to.display()))?;
            Ok(Found::new(&run, "equal, made and replaced"))
        });
    }
    lab.check("CIFS -> local: --skip-offline", || offline(&source));
    lab.check("server killed in the middle", || killed(&source));
    Ok(())
}

/// A share of the same files, of which Samba says that an archive has them: they are not read, and directories are made.
fn offline(source: &Path) -> Outcome {
    let archive = "/tmp/guest/archive";
    mount("archive", "hard", archive)?;
    let copy = source.with_file_name("offline");
    let copied = |run: &haul::Run| (run.files("offline") > 0, run.files("regular"));
    let left = haul::right(&format!("{OPTIONS} --skip-offline -T {archive}/tree/a {}", copy.display()))?;
    if copied(&left) != (true, 0) {
        return Err(format!("they were not left out: {}", left.report()).into());
    }
    let one = haul::right(&format!("--skip-offline {archive}/tree/a/file-4 {}", copy.display()))?;
    if one.files("offline") != 1 || copy.join("file-4").exists() {
        return Err(format!("one was not left out: {}", one.report()).into());
    }
    let there = haul::right(&format!("{OPTIONS} --skip-offline -T {CLIENT}/tree/a {}", copy.display()))?;
    tree::same(&source.join("a"), &copy, KEEPS)?;
    tool::run(&format!("umount {archive}"))?;
    Ok(Found::new(&there, format!("{} left out; then copied, equal", left.files("offline"))))
}

/// The server is gone during a copy, and comes back.
fn killed(source: &Path) -> Outcome {
    let bytes = haul_testbed::guest::Noise::new(9).bytes(24 << 20);
    let large = source.with_file_name("large");
    fs::write(&large, bytes).map_err(|error| error.to_string())?;
    let control = Path::new("/tmp/control");
    fs::write(control, "").map_err(|error| error.to_string())?;
    let mut copy =
        haul::start(&format!("--limit=4M --control={} {} {CLIENT}/killed", control.display(), large.display()))?;
    let name = Path::new(EXPORTED).join("killed");
    tool::until("the copy begins", || name.exists() || copy.ended())?;
    stop()?;
    if copy.ended() {
        return Err(format!("it ended before the server did: {}", copy.finish()?.report()).into());
    }
    fs::write(control, "limit=0\n").map_err(|error| error.to_string())?;
    serve()?;
    let run = copy.finish()?;
    let equal = tool::run(&format!("cmp {} {EXPORTED}/killed", large.display())).is_ok();
    match (run.failed(), equal) {
        (false, true) => Ok(Found::new(&run, "went on, equal")),
        (false, false) => Err(format!("status 0, and not equal: {}", run.report()).into()),
        (true, _) => {
            run.must_say(&["killed"])?;
            let left = fs::metadata(&name).map_or("no file".to_owned(), |meta| format!("{} bytes", meta.len()));
            Ok(Found::new(&run, format!("status 1: {}; {left} under the name", run.said)))
        }
    }
}

fn serve() -> Result<(), String> {
    let config = "[global]\nsmb ports = 445\nserver min protocol = SMB3_11\ndisable netbios = yes\nload printers = no\n\
        ea support = yes\nlog level = 0\nbind interfaces only = yes\ninterfaces = lo\nstrict allocate = no\n\
        store dos attributes = no\n[share]\npath = /tmp/guest/exported\nread only = no\nguest ok = no\n\
        [archive]\npath = /tmp/guest/exported\nguest ok = no\nvfs objects = offline\n";
    fs::create_dir_all("/etc/samba")
        .and_then(|()| fs::write("/etc/samba/smb.conf", config))
        .map_err(|error| error.to_string())?;
    for dir in ["/run/samba", "/var/cache/samba", "/var/lib/samba/private", "/var/log/samba"] {
        fs::create_dir_all(dir).map_err(|error| error.to_string())?;
    }
    tool::feed("smbpasswd -s -a root", "haul\nhaul\n")?;
    tool::run("smbd --daemon")?;
    let listening = || std::net::TcpStream::connect(("127.0.0.1", 445)).is_ok();
    tool::until("Samba listens", listening)
}

/// Kills the server's processes, if there are any.
pub fn stop() -> Result<(), String> {
    while let Ok(numbers) = tool::output("pidof smbd") {
        for number in numbers.split_whitespace() {
            // It may have ended by itself, since its parent did.
            tool::run(&format!("busybox kill -9 {number}")).unwrap_or_default();
        }
    }
    Ok(())
}

fn mount(share: &str, options: &str, at: &str) -> Result<(), String> {
    fs::create_dir_all(at).map_err(|error| error.to_string())?;
    let login = "username=root,password=haul,vers=3.1.1";
    tool::run(&format!("mount -t cifs -o {login},{options} //127.0.0.1/{share} {at}"))
}

/// How often the client has asked the server for something out of the ordinary: copies on the server are such.
fn requests() -> Result<u64, String> {
    let text = fs::read_to_string("/proc/fs/cifs/Stats").map_err(|error| error.to_string())?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("IOCTLs: "));
    let count = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    count.ok_or_else(|| format!("no IOCTLs in: {text}"))
}
