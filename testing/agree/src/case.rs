//! One case: a scene and a command line, both grown from one seed.

use fastrand::Rng;

use crate::grow::{self, Flavor, Grower, USER, base, join, name};
use crate::options::{self, Words};
use crate::scene::{Kind, Node};

/// The filesystem that carries the scene.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// tmpfs.
    Memory,
    /// The filesystem of the temporary directory.
    Disk,
    /// XFS in an image file.
    Xfs,
    /// btrfs in an image file.
    Btrfs,
}

/// Everything that determines a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// What it was grown from.
    pub seed: u64,
    /// The scene before the run.
    pub nodes: Vec<Node>,
    /// The command line, without the program's name.
    pub arguments: Vec<Words>,
    /// The whole environment but `PATH`.
    pub environment: Vec<(String, String)>,
    /// The file mode creation mask.
    pub umask: u32,
    /// Run as [`USER`], not as root.
    pub unprivileged: bool,
    /// Answers to questions.
    pub stdin: Vec<u8>,
    /// Where the scene stands.
    pub place: Place,
}

impl Case {
    /// The case that `seed` stands for.
    pub fn random(seed: u64) -> Case {
        let mut rng = Rng::with_seed(seed);
        // Neighbouring seeds give neighbouring first numbers.
        rng = Rng::with_seed(rng.u64(..) ^ seed.rotate_left(32));
        let unprivileged = rng.u8(..100) < 30;
        let options = options::random(&mut rng);
        let flavor = Flavor { fifos: !reads_fifos(&options), devices: true, mounts: true, unprivileged };
        let mut grower = Grower { rng: &mut rng, flavor, nodes: Vec::new() };
        scene(&mut grower);
        let nodes = grower.nodes;
        let arguments = arguments(&mut rng, &nodes, options);
        let umasks = [0o022, 0o022, 0o022, 0o077, 0o000, 0o027, 0o777, 0o002];
        let umask = umasks[rng.usize(..umasks.len())];
        let environment = options::environment(&mut rng);
        let stdin = answers(&mut rng);
        let place = match rng.u8(..100) {
            0..55 => Place::Memory,
            55..80 => Place::Disk,
            80..90 => Place::Xfs,
            _ => Place::Btrfs,
        };
        Case { seed, nodes, arguments, environment, umask, unprivileged, stdin, place }
    }

    /// The command line without the program's name.
    pub fn argv(&self) -> Vec<Vec<u8>> {
        self.arguments.iter().flatten().cloned().collect()
    }
}

/// Whether the options let the copier open a FIFO for reading.
fn reads_fifos(options: &[Words]) -> bool {
    let recursive = |word: &[u8]| {
        word.starts_with(b"-") && !word.starts_with(b"--") && word.iter().any(|byte| b"arR".contains(byte))
    };
    let words = || options.iter().flatten();
    !words().any(|word| recursive(word)) || words().any(|word| word.starts_with(b"--copy"))
}

fn answers(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0..4 => b"y\n".repeat(200),
        4..7 => b"n\n".repeat(200),
        7 => b"Yes please\n".repeat(200),
        8 => Vec::new(),
        _ => b"y".to_vec(),
    }
}

/// Sources `s`, `s2`, single files, and the destination `d`.
fn scene(grower: &mut Grower<'_>) {
    grower.tree(b"s", 3, 14);
    if grower.rng.u8(..100) < 35 {
        grower.tree(b"s2", 2, 6);
    }
    for top in [&b"f"[..], b"g"] {
        let kind = if grower.rng.u8(..100) < 75 { Kind::File(grow::contents(grower.rng)) } else { grower.kind(top) };
        let node = grower.dressed(top, kind);
        grower.add(node);
    }
    if grower.rng.u8(..100) < 25 {
        let kind = match grower.someone(Node::is_directory) {
            Some(directory) => Kind::Symlink(directory),
            None => Kind::Symlink(b"s".to_vec()),
        };
        let node = grower.dressed(b"l", kind);
        grower.add(node);
    }
    destination(grower);
}

/// A directory, at times on another filesystem.
fn directory(grower: &mut Grower<'_>) -> Kind {
    if grower.flavor.mounts && grower.rng.u8(..6) == 0 { Kind::MountPoint } else { Kind::Directory }
}

fn destination(grower: &mut Grower<'_>) {
    match grower.rng.u8(..100) {
        0..18 => {}
        18..24 => {
            let kind = grower.kind(b"d");
            let node = grower.dressed(b"d", kind);
            grower.add(node);
        }
        24..40 => {
            let kind = directory(grower);
            let node = grower.dressed(b"d", kind);
            grower.add(node);
        }
        40..60 => grower.obstacle(b"s", b"d"),
        _ => {
            let kind = directory(grower);
            let mut node = grower.dressed(b"d", kind);
            if grower.rng.u8(..100) < 60 {
                node.mode = 0o755;
            }
            grower.add(node);
            for source in [&b"s"[..], b"s2", b"f", b"g", b"l"] {
                if grower.rng.u8(..100) < 60 {
                    grower.obstacle(source, &join(b"d", source));
                }
            }
            if grower.rng.bool()
                && let Some(inner) = grower.someone(|node| node.path.starts_with(b"s/"))
            {
                let to = join(b"d", base(&inner));
                grower.obstacle(&inner, &to);
            }
        }
    }
}

/// Options, operands and `-t`, in an order that getopt would have to sort.
fn arguments(rng: &mut Rng, nodes: &[Node], mut arguments: Vec<Words>) -> Vec<Words> {
    let mut operands: Vec<Vec<u8>> = Vec::new();
    let parents = arguments.iter().flatten().any(|word| word.starts_with(b"--par"));
    let count = [1, 1, 1, 1, 1, 2, 2, 3][rng.usize(..8)];
    for _ in 0..count {
        let source = source(rng, nodes);
        let source = decorate(rng, source);
        // cp 9.1 keeps no attributes of the parents of an absolute path, and fails.
        operands.push(source.strip_prefix(b"@/").filter(|_| parents).map_or(source.clone(), <[u8]>::to_vec));
    }
    if rng.u8(..100) < 4 {
        operands.push(operands[0].clone());
    }
    let target = target(rng, nodes);
    let target = decorate(rng, target);
    match rng.u8(..100) {
        0..12 => arguments.insert(0, vec![b"-t".to_vec(), target]),
        12..16 => arguments.push(vec![[b"--target-directory=", &target[..]].concat()]),
        16..18 => {}
        _ => operands.push(target),
    }
    if rng.u8(..100) < 6 {
        arguments.push(vec![b"--".to_vec()]);
    }
    let last = arguments.len();
    for operand in operands {
        if rng.u8(..100) < 8 {
            // Shows permutation, and its absence when POSIXLY_CORRECT is set.
            arguments.insert(rng.usize(..=last), vec![operand]);
        } else {
            arguments.push(vec![operand]);
        }
    }
    arguments
}

fn source(rng: &mut Rng, nodes: &[Node]) -> Vec<u8> {
    match rng.u8(..100) {
        0..35 => b"s".to_vec(),
        35..48 => [&b"f"[..], b"g", b"l", b"s2"][rng.usize(..4)].to_vec(),
        48..52 => join(b"s", &name(rng)),
        52..54 => b"missing".to_vec(),
        54..56 => b"".to_vec(),
        56..58 => b"d".to_vec(),
        58..60 => b".".to_vec(),
        _ => nodes[rng.usize(..nodes.len())].path.clone(),
    }
}

fn target(rng: &mut Rng, nodes: &[Node]) -> Vec<u8> {
    match rng.u8(..100) {
        0..74 => b"d".to_vec(),
        74..79 => join(b"d", &name(rng)),
        79..82 => b"d/s".to_vec(),
        82..84 => b"new/deep".to_vec(),
        84..86 => b"s/inside".to_vec(),
        86..87 => b"".to_vec(),
        87..89 => b".".to_vec(),
        _ => nodes[rng.usize(..nodes.len())].path.clone(),
    }
}

/// The same file under another spelling.
fn decorate(rng: &mut Rng, path: Vec<u8>) -> Vec<u8> {
    if path.is_empty() {
        return path;
    }
    match rng.u8(..100) {
        0..66 => path,
        66..76 => [&path[..], b"/"].concat(),
        76..80 => [&path[..], b"/."].concat(),
        80..84 => [b"./", &path[..]].concat(),
        84..86 => [&path[..], b"//"].concat(),
        86..88 => [b"s/../", &path[..]].concat(),
        88..90 => [&path[..], b"/.."].concat(),
        90..92 => path.iter().flat_map(|&byte| if byte == b'/' { b"//".to_vec() } else { vec![byte] }).collect(),
        92..96 => [b"@/", &path[..]].concat(),
        96..98 => [b".//./", &path[..]].concat(),
        _ => [b"../work/", &path[..]].concat(),
    }
}

/// The user that runs the case.
pub fn user(case: &Case) -> u32 {
    if case.unprivileged { USER } else { 0 }
}
