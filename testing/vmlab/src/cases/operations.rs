//! What a small file costs on NFS 4.2, in operations: each is a message to the server and its answer.

use std::fs;
use std::path::Path;

use super::nfs;
use crate::haul;
use crate::lab::{Found, Lab, Outcome};
use crate::{tool, tree};

/// How many files there are, and in how many directories.
const FILES: u64 = 400;
const DIRECTORIES: u64 = 8;

/// Copies, updates and compares a tree of small files, and does the same by cp.
pub fn run(lab: &mut Lab) -> Result<(), String> {
    let local = lab.mounted("ext4", "local", 256)?;
    let source = local.join("tree");
    plant(&source).map_err(|error| format!("the tree: {error}"))?;
    let shared = nfs::served(lab, "ext4")?;
    let (from, to, back) = (source.display(), shared.display(), local.join("back"));
    let back = back.display();
    counted(lab, shared, "local -> NFS: cp -a", || tool::run(&format!("cp -a {from} {to}/cp")));
    counted(lab, shared, "local -> NFS", || haul::right(&format!("-aT {from} {to}/tree")).map(drop));
    counted(lab, shared, "NFS -> local: cp -a", || tool::run(&format!("cp -a {to}/tree {back}-cp")));
    counted(lab, shared, "NFS -> local", || haul::right(&format!("-aT {to}/tree {back}")).map(drop));
    counted(lab, shared, "within NFS: cp -a", || tool::run(&format!("cp -a {to}/tree {to}/twin-cp")));
    counted(lab, shared, "within NFS", || haul::right(&format!("-aT {to}/tree {to}/twin")).map(drop));
    counted(lab, shared, "within NFS: --update=changed, nothing is", || {
        haul::right(&format!("-aT --update=changed {to}/tree {to}/twin")).map(drop)
    });
    counted(lab, shared, "within NFS: -a, all is replaced", || {
        haul::right(&format!("-aT {to}/tree {to}/twin")).map(drop)
    });
    counted(lab, shared, "local and NFS: --compare", || tool::run(&format!("haul --compare -r -T {from} {to}/tree")));
    lab.check("modes are set again only below an ACL for new files", || modes_are_set(&source, shared));
    for copy in ["tree", "twin", "cp", "twin-cp"] {
        lab.check(&format!("{copy} is equal"), || {
            tree::same(&source, &shared.join(copy), tree::NFS)?;
            Ok(Found::default())
        });
    }
    Ok(())
}

fn plant(root: &Path) -> std::io::Result<()> {
    for number in 0..FILES {
        let directory = root.join(format!("directory-{}", number % DIRECTORIES));
        fs::create_dir_all(&directory)?;
        fs::write(directory.join(format!("file-{number}")), vec![b'a'; 1000 + number as usize])?;
    }
    Ok(())
}

/// How often a copy sets attributes of each file, in a directory that hands on nothing and in one that hands on an ACL.
fn modes_are_set(source: &Path, shared: &Path) -> Outcome {
    let of_copy = |to: &str| -> Result<f64, String> {
        let before = nfs::calls(shared)?;
        haul::right(&format!("-aT {} {}/{to}/copy", source.display(), shared.display()))?;
        let after = nfs::calls(shared)?;
        tree::same(source, &shared.join(to).join("copy"), tree::NFS)?;
        Ok((nfs::count(&after, "SETATTR") - nfs::count(&before, "SETATTR")) as f64 / FILES as f64)
    };
    for name in ["plain", "handed-on"] {
        fs::create_dir(shared.join(name)).map_err(|error| format!("{name}: {error}"))?;
    }
    // The client has no such ACLs: the server gives them, and shows them as those of NFS 4.
    tool::run(&format!("setfacl -d -m u:1234:rwx {}/handed-on", nfs::EXPORTED))?;
    tree::forget_cache()?;
    let (plain, handed_on) = (of_copy("plain")?, of_copy("handed-on")?);
    let found = format!("{plain:.1} SETATTR for a file, {handed_on:.1} below the ACL");
    // One of each file, and those of a few directories.
    if plain < 2.3 && handed_on > plain + 0.9 { Ok(Found { chose: String::new(), found }) } else { Err(found.into()) }
}

/// A row with the operations that something needs for each file. It begins with nothing in the cache.
fn counted(lab: &mut Lab, mount: &Path, name: &str, work: impl FnOnce() -> Result<(), String>) {
    lab.check(name, || -> Outcome {
        tree::forget_cache()?;
        let before = nfs::calls(mount)?;
        work()?;
        // What the client still has to send belongs to it.
        rustix::fs::sync();
        let after = nfs::calls(mount)?;
        let known = |name: &str| before.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count);
        let mut made: Vec<(&str, u64)> = after
            .iter()
            .filter(|(name, _)| is_operation(name))
            .map(|(name, count)| (&**name, count - known(name)))
            .collect();
        made.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let each = |count: u64| count as f64 / FILES as f64;
        let words: Vec<String> = made
            .iter()
            .filter(|(_, count)| each(*count) >= 0.05)
            .map(|(name, count)| format!("{name} {:.1}", each(*count)))
            .collect();
        let all = each(made.iter().map(|(_, count)| count).sum());
        Ok(Found { chose: String::new(), found: format!("{all:.1} for a file: {}", words.join(", ")) })
    });
}

/// Whether a line of mountstats is about an operation of NFS: these have names in capitals.
fn is_operation(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}
