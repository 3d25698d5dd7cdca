//! Grows random scenes: source trees, and destinations that get in their way.

use fastrand::Rng;

use crate::scene::{Contents, Kind, Node, Run, Time};

/// The user and group of unprivileged runs.
pub const USER: u32 = 4242;

/// What a scene may contain.
#[derive(Debug, Clone, Copy)]
pub struct Flavor {
    /// Named pipes; a copier that opens one waits for ever.
    pub fifos: bool,
    /// Device nodes; needs root.
    pub devices: bool,
    /// Mount points; needs a private mount namespace.
    pub mounts: bool,
    /// Most files belong to the unprivileged user.
    pub unprivileged: bool,
}

const PLAIN: &[&[u8]] = &[b"a", b"b", b"c", b"d", b"e f", b".h"];
const ODD: &[&[u8]] = &[
    b"-x",
    b"--help",
    b"na'me",
    b"dq\"x",
    b"new\nline",
    b"\xff\xfe\x80",
    "\u{fc}n\u{ef}".as_bytes(),
    "\u{65e5}\u{672c}".as_bytes(),
    b"tab\tx",
    b"\x1b[31m",
    b"back\\slash",
    b"$HOME",
    b"a~",
    b"a.~1~",
    b"a.~7~",
    b"b.bak",
    b" ",
    b"*",
    b"a=b",
    b"~",
    b"#x",
];

/// A name for a new file.
pub fn name(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..100) {
        0..75 => pick(rng, PLAIN).to_vec(),
        75..97 => pick(rng, ODD).to_vec(),
        97 => vec![b'L'; 255],
        _ => vec![b'N'; 250],
    }
}

/// One element of a list that is not empty.
pub fn pick<'a, T: ?Sized>(rng: &mut Rng, list: &[&'a T]) -> &'a T {
    list[rng.usize(..list.len())]
}

/// Joins two parts of a path.
pub fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}

/// The last part of a path.
pub(crate) fn base(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// Grows one tree after the other into one list of nodes.
pub struct Grower<'a> {
    /// Where chance comes from.
    pub rng: &'a mut Rng,
    /// What may grow.
    pub flavor: Flavor,
    /// All that has grown, parents before children.
    pub nodes: Vec<Node>,
}

impl Grower<'_> {
    /// Adds a node, unless its name is taken.
    pub fn add(&mut self, node: Node) -> bool {
        let free = !self.nodes.iter().any(|other| other.path == node.path);
        if free {
            self.nodes.push(node);
        }
        free
    }

    /// A directory at `path` and at most `budget` files below it.
    pub fn tree(&mut self, path: &[u8], depth: usize, budget: usize) {
        let mut root = self.dressed(path, Kind::Directory);
        if self.flavor.mounts && self.rng.u8(..40) == 0 {
            root.kind = Kind::MountPoint;
        }
        if self.add(root) {
            self.fill(path, depth, budget);
        }
    }

    fn fill(&mut self, path: &[u8], depth: usize, mut budget: usize) {
        let count = self.rng.usize(..6).min(budget);
        for _ in 0..count {
            let child = join(path, &name(self.rng));
            budget = budget.saturating_sub(1);
            if depth > 0 && self.rng.u8(..100) < 30 {
                self.tree(&child, depth - 1, budget / 2);
            } else {
                let kind = self.kind(&child);
                let node = self.dressed(&child, kind);
                self.add(node);
            }
        }
    }

    /// Any type of file but a directory.
    pub fn kind(&mut self, path: &[u8]) -> Kind {
        match self.rng.u8(..100) {
            0..55 => Kind::File(contents(self.rng)),
            55..75 => Kind::Symlink(self.target(path)),
            75..87 => match self.someone(|node| !node.is_directory() && !matches!(node.kind, Kind::HardLink(_))) {
                Some(first) => Kind::HardLink(first),
                None => Kind::File(contents(self.rng)),
            },
            87..91 if self.flavor.fifos => Kind::Fifo,
            91..94 => Kind::Socket,
            94..97 if self.flavor.devices => Kind::Character(1, 3),
            // A number for experiments: opening it fails and touches nothing.
            97..100 if self.flavor.devices => Kind::Block(60, 3),
            _ => Kind::Directory,
        }
    }

    /// The path of a node that fits, if there is one.
    pub fn someone(&mut self, fits: impl Fn(&Node) -> bool) -> Option<Vec<u8>> {
        let fitting: Vec<&Node> = self.nodes.iter().filter(|node| fits(node)).collect();
        if fitting.is_empty() { None } else { Some(fitting[self.rng.usize(..fitting.len())].path.clone()) }
    }

    /// Where a symbolic link at `path` points: never out of the scene's parent directory.
    fn target(&mut self, path: &[u8]) -> Vec<u8> {
        let depth = path.iter().filter(|&&byte| byte == b'/').count();
        match self.rng.u8(..100) {
            0..15 => name(self.rng),
            15..30 => match self.someone(|_| true) {
                Some(other) => base(&other).to_vec(),
                None => b"nothing".to_vec(),
            },
            30..60 => match self.someone(|_| true) {
                Some(other) => [b"../".repeat(depth), other].concat(),
                None => b"nothing".to_vec(),
            },
            60..75 => match self.someone(|_| true) {
                Some(other) => [b"@/".to_vec(), other].concat(),
                None => b"@/nothing".to_vec(),
            },
            75..80 => b".".to_vec(),
            80..84 if depth > 0 => b"..".to_vec(),
            84..90 => base(path).to_vec(),
            90..93 => b"/nonexistent/x".to_vec(),
            93..96 => b"/not/there".to_vec(),
            96..98 => b"a/".to_vec(),
            _ => b"nowhere/at/all".to_vec(),
        }
    }

    /// A node with random metadata, quiet more often than not.
    pub fn dressed(&mut self, path: &[u8], kind: Kind) -> Node {
        let mut node = Node::new(path, kind);
        let usual = if self.flavor.unprivileged { USER } else { 0 };
        node.owner = (usual, usual);
        let rng = &mut *self.rng;
        if rng.u8(..100) < 25 {
            let others: &[(u32, u32)] = &[(0, 0), (USER, USER), (1, 1), (USER, 0), (0, USER), (77_777, 88_888)];
            node.owner = others[rng.usize(..others.len())];
        }
        node.atime = time(rng);
        node.mtime = time(rng);
        let modes: &[u32] = if node.is_directory() {
            &[0o755, 0o700, 0o555, 0o500, 0o000, 0o1777, 0o2775, 0o111, 0o711, 0o777, 0o2000, 0o770]
        } else {
            &[0o644, 0o600, 0o444, 0o000, 0o755, 0o4755, 0o2755, 0o6711, 0o1644, 0o666, 0o777, 0o200, 0o2644]
        };
        if rng.u8(..100) < 45 {
            node.mode = modes[rng.usize(..modes.len())];
        }
        if rng.u8(..100) < 20 {
            attributes(rng, &mut node);
        }
        node
    }

    /// A destination that gets in the way of copying `from` to `to`: like it, but not quite.
    pub fn obstacle(&mut self, from: &[u8], to: &[u8]) {
        let prefix = [from, b"/"].concat();
        let sources: Vec<Node> =
            self.nodes.iter().filter(|node| node.path == from || node.path.starts_with(&prefix)).cloned().collect();
        for source in sources {
            let path = [to, &source.path[from.len()..]].concat();
            let kind = match self.rng.u8(..100) {
                0..30 => continue,
                30..60 => match &source.kind {
                    Kind::File(_) => Kind::File(contents(self.rng)),
                    Kind::HardLink(_) => self.kind(&path),
                    Kind::MountPoint => Kind::Directory,
                    other => other.clone(),
                },
                60..65 => Kind::Directory,
                65..72 => match source.is_directory() {
                    false if !matches!(source.kind, Kind::HardLink(_)) => Kind::HardLink(source.path.clone()),
                    _ => Kind::Symlink([b"@/", &source.path[..]].concat()),
                },
                72..78 => Kind::Symlink([b"@/", &source.path[..]].concat()),
                78..90 if source.is_directory() => Kind::Directory,
                _ => self.kind(&path),
            };
            let mut node = self.dressed(&path, kind);
            if self.rng.u8(..5) == 0 {
                node.mtime = source.mtime;
            }
            self.add(node);
        }
    }
}

const SIZES: &[u64] = &[0, 1, 5, 100, 511, 512, 4095, 4096, 4097, 10_000, 32_768, 65_535, 65_536, 65_537];
const LARGE: &[u64] = &[131_071, 131_072, 131_073, 262_145, 524_288, 1 << 20, (1 << 20) + 1, (3 << 20) + 5];

/// Random contents with holes of every kind.
pub fn contents(rng: &mut Rng) -> Contents {
    let list = if rng.u8(..100) < 85 { SIZES } else { LARGE };
    let size = list[rng.usize(..list.len())];
    let run = |offset: u64, length: u64| Run { offset, length, zeros: false };
    let third = (size / 3) & !4095;
    let runs = match rng.u8(..100) {
        0..55 => vec![run(0, size)],
        55..60 => vec![],
        60..66 => vec![run(third, size)],
        66..72 => vec![run(0, third.max(1))],
        72..80 => vec![run(0, third), run(third * 2, size)],
        80..85 => vec![Run { offset: 0, length: size, zeros: true }],
        85..92 => vec![run(0, third), Run { offset: third, length: third, zeros: true }, run(third * 2, size)],
        92..96 => (0..12).map(|index| run(index * 3 * (size / 36), size / 72)).collect(),
        _ => vec![run(size / 2, 1)],
    };
    let allocated = match rng.u8(..100) {
        0..4 => Some((0, size.max(1))),
        4..6 => Some((size, 65_536)),
        6..8 => Some((size / 2, 32_768)),
        _ => None,
    };
    Contents { size, runs, allocated, salt: rng.u8(..) }
}

/// A time well away from now, with nanoseconds more often than not.
pub fn time(rng: &mut Rng) -> Time {
    const SECONDS: &[i64] = &[0, 1, -1, 86_400, 1_000_000_000, 1_234_567_890, 1_500_000_000, 1_600_000_000];
    const RARE: &[i64] = &[-1_000_000_000, -2_000_000_000, 2_147_483_647, 2_147_483_648, 4_000_000_000];
    const NANOSECONDS: &[u32] = &[0, 1, 999_999_999, 123_456_789, 500_000_000, 1000];
    let seconds = if rng.u8(..100) < 90 { SECONDS } else { RARE };
    (seconds[rng.usize(..seconds.len())], NANOSECONDS[rng.usize(..NANOSECONDS.len())])
}

/// The raw form of a POSIX ACL: version 2, then (tag, permissions, id) for each entry.
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn attributes(rng: &mut Rng, node: &mut Node) {
    const NOBODY: u32 = u32::MAX;
    let mut add = |name: &str, value: Vec<u8>| node.xattrs.push((name.as_bytes().to_vec(), value));
    let directory = matches!(node.kind, Kind::Directory | Kind::MountPoint);
    if rng.bool() {
        add("user.one", b"value".to_vec());
    }
    if rng.u8(..4) == 0 {
        add("user.empty", vec![]);
        add("user.bytes", vec![0, 255, b'\n', 7]);
    }
    if rng.u8(..3) == 0 {
        add("trusted.t", b"root only".to_vec());
    }
    if rng.u8(..6) == 0 {
        add("security.other", b"label".to_vec());
    }
    if matches!(node.kind, Kind::File(_)) && rng.u8(..3) == 0 {
        // cap_net_raw+ep, revision 2.
        add("security.capability", [&0x0200_0001u32.to_le_bytes()[..], &[0, 0x20, 0, 0], &[0; 12]].concat());
    }
    if !matches!(node.kind, Kind::Symlink(_)) && rng.u8(..2) == 0 {
        let rwx = rng.u16(..8);
        let entries =
            [(1, 6, NOBODY), (2, rwx, 1001), (4, 5, NOBODY), (8, 7, 1002), (0x10, 5, NOBODY), (0x20, 1, NOBODY)];
        add("system.posix_acl_access", acl(&entries));
    }
    if directory && rng.u8(..2) == 0 {
        let rwx = rng.u16(..8);
        let entries = [(1, 7, NOBODY), (2, rwx, USER), (4, 5, NOBODY), (0x10, 7, NOBODY), (0x20, 0, NOBODY)];
        let plain = [(1, 7, NOBODY), (4, 4, NOBODY), (0x20, 0, NOBODY)];
        add("system.posix_acl_default", acl(if rng.bool() { &entries } else { &plain }));
    }
}
