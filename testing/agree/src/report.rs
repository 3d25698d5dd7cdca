//! A failing case for a reader: what differs, and a script that shows it.

use std::fmt::Write;

use crate::case::{Case, user};
use crate::hunt::Failure;
use crate::scene::{Kind, Node};

/// A word as bash reads it.
fn quote(word: &[u8]) -> String {
    let safe = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./=,+:".contains(byte);
    if !word.is_empty() && word.iter().all(safe) {
        return String::from_utf8_lossy(word).into_owned();
    }
    let mut quoted = String::from("$'");
    for &byte in word {
        match byte {
            b'\'' | b'\\' => quoted.extend(['\\', byte as char]),
            0x20..0x7f => quoted.push(byte as char),
            _ => quoted.push_str(&format!("\\{byte:03o}")),
        }
    }
    quoted + "'"
}

/// A target that is absolute in the scene becomes relative to the script's directory.
fn target(bytes: &[u8]) -> String {
    match bytes.strip_prefix(b"@") {
        Some(rest) => format!("\"$PWD\"{}", quote(rest)),
        None => quote(bytes),
    }
}

fn create(node: &Node, script: &mut String) -> std::fmt::Result {
    let path = quote(&[b"./", &node.path[..]].concat());
    match &node.kind {
        Kind::File(contents) => {
            writeln!(script, "truncate -s {} {path}", contents.size)?;
            if let Some((offset, length)) = contents.allocated {
                writeln!(script, "fallocate -n -o {offset} -l {length} {path}")?;
            }
            for run in &contents.runs {
                let length = run.length.min(contents.size.saturating_sub(run.offset));
                let source = if run.zeros { "/dev/zero" } else { "/dev/urandom" };
                if length > 0 {
                    let flags = "iflag=fullblock,count_bytes oflag=seek_bytes conv=notrunc status=none";
                    writeln!(script, "dd if={source} of={path} count={length} seek={} bs=64K {flags}", run.offset)?;
                }
            }
        }
        Kind::Directory => writeln!(script, "mkdir {path}")?,
        Kind::MountPoint => writeln!(script, "mkdir {path} && mount -t tmpfs -o mode=0755,size=64m tmpfs {path}")?,
        Kind::Symlink(to) => writeln!(script, "ln -s -- {} {path}", target(to))?,
        Kind::HardLink(first) => writeln!(script, "ln -P ./{} {path}", quote(first))?,
        Kind::Fifo => writeln!(script, "mkfifo {path}")?,
        Kind::Socket => {
            writeln!(script, "python3 -c 'import socket,sys;socket.socket(socket.AF_UNIX).bind(sys.argv[1])' {path}")?;
        }
        Kind::Character(major, minor) => writeln!(script, "mknod {path} c {major} {minor}")?,
        Kind::Block(major, minor) => writeln!(script, "mknod {path} b {major} {minor}")?,
    }
    Ok(())
}

fn dress(node: &Node, script: &mut String) -> std::fmt::Result {
    if matches!(node.kind, Kind::HardLink(_)) {
        return Ok(());
    }
    let path = quote(&[b"./", &node.path[..]].concat());
    if node.owner != (0, 0) {
        writeln!(script, "chown -h {}:{} {path}", node.owner.0, node.owner.1)?;
    }
    if !matches!(node.kind, Kind::Symlink(_)) {
        writeln!(script, "chmod {:o} {path}", node.mode)?;
    }
    for (name, value) in &node.xattrs {
        let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(script, "setfattr -h -n {} -v 0x{hex} {path}", quote(name))?;
    }
    writeln!(script, "touch -h -a -d @{}.{:09} {path}", node.atime.0, node.atime.1)?;
    writeln!(script, "touch -h -m -d @{}.{:09} {path}", node.mtime.0, node.mtime.1)
}

/// A bash script that builds the scene in an empty directory and runs `$1` there as `cp`.
pub fn script(case: &Case) -> String {
    let mut script = String::new();
    // Writing to a String does not fail.
    let _infallible = write_script(case, &mut script);
    script
}

fn write_script(case: &Case, script: &mut String) -> std::fmt::Result {
    writeln!(script, "#!/bin/bash\n# Usage: unshare -m bash THIS PROGRAM, in an empty directory; seed {}", case.seed)?;
    writeln!(script, "# It failed on {:?}", case.place)?;
    writeln!(script, "mkdir -p outer/work && cd outer/work && umask 0 || exit 99")?;
    if case.unprivileged {
        writeln!(script, "chown {0}:{0} . ..", user(case))?;
    }
    case.nodes.iter().try_for_each(|node| create(node, script))?;
    case.nodes.iter().filter(|node| !node.is_directory()).try_for_each(|node| dress(node, script))?;
    case.nodes.iter().rev().filter(|node| node.is_directory()).try_for_each(|node| dress(node, script))?;
    let arguments: Vec<String> =
        case.argv().iter().map(|word| if word.starts_with(b"@/") { target(word) } else { quote(word) }).collect();
    let environment: Vec<String> =
        case.environment.iter().map(|(name, value)| quote(format!("{name}={value}").as_bytes())).collect();
    let user = if case.unprivileged {
        format!("setpriv --reuid {0} --regid {0} --clear-groups ", user(case))
    } else {
        String::new()
    };
    let answers: String = case.stdin.iter().take(40).map(|&byte| byte as char).collect();
    writeln!(script, "umask {:03o}", case.umask)?;
    writeln!(
        script,
        "printf %s {} | {user}env -i PATH=/usr/bin:/bin {} bash -c 'exec -a cp \"$0\" \"$@\"' \"${{1:-/bin/cp}}\" {}",
        quote(answers.as_bytes()),
        environment.join(" "),
        arguments.join(" ")
    )?;
    writeln!(script, "echo \"exit $?\"; umask 022; cd ../..; find outer -printf '%P %y %m %U:%G %s %n %t %l\\n' | sort")
}

/// Everything about one failure.
pub fn report(failure: &Failure) -> String {
    let Failure { case, differences, count } = failure;
    let mut text = format!("==== seed {} (and {} more alike) on {:?}\n", case.seed, count - 1, case.place);
    for difference in differences {
        text.push_str(&format!("  {difference}\n"));
    }
    text + "---- reproduce with\n" + &script(case)
}
