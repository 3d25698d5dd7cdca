//! haul against rsync, where cp has no such thing: what is brought up to date, chosen and removed, in random scenes.

use std::fs;
use std::path::Path;

use fastrand::Rng;
use haul_agree::case::Place;
use haul_agree::grow::{Flavor, Grower};
use haul_agree::scene::{Kind, Node, build};
use haul_agree::snapshot::{Item, Snapshot};
use haul_agree::stage::{Call, Outcome, Stage};

use crate::support::{LIMIT, haul_by_name, lacks_root, number, room};

/// How files are brought up to date: the word of haul, and that of rsync. By default rsync looks at whole seconds.
const UPDATES: &[[&str; 2]] =
    &[["--update=changed", "--modify-window=-1"], ["--update=content", "--checksum --modify-window=-1"]];

/// Words that mean the same to both.
const CHOICES: &[&str] = &[
    "--exclude=a",
    "--exclude=/b",
    "--exclude=c/",
    "--exclude=[ab]",
    "--exclude=/a/b",
    "--exclude=*~",
    "--exclude=.*",
    "--include=b",
    "--include=/d/**",
    "--exclude=?",
    "--max-size=4096",
    "--min-size=100",
];

/// What is removed: the words of haul, and those of rsync.
const DELETIONS: &[[&str; 2]] =
    &[["", ""], ["--delete=force", "--delete"], ["--delete=force --delete-excluded", "--delete-excluded"]];

/// A scene, and the words for both programs.
struct Case {
    nodes: Vec<Node>,
    words: [Vec<String>; 2],
}

impl Case {
    fn random(seed: u64) -> Case {
        let mut rng = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let deletion = DELETIONS[rng.usize(..DELETIONS.len())];
        let update = UPDATES[rng.usize(..UPDATES.len())];
        let mut words = [vec!["-aT".to_owned()], vec!["-aHAX".to_owned(), "--numeric-ids".to_owned()]];
        while rng.u8(..100) < 40 {
            let choice = CHOICES[rng.usize(..CHOICES.len())];
            words.iter_mut().for_each(|words| words.push(choice.to_owned()));
        }
        for (words, of) in words.iter_mut().zip([0, 1]) {
            words.extend(update[of].split_whitespace().map(str::to_owned));
            words.extend(deletion[of].split_whitespace().map(str::to_owned));
        }
        words[0].extend(["from", "to"].map(str::to_owned));
        words[1].extend(["from/", "to/"].map(str::to_owned));
        let flavor = Flavor { fifos: true, devices: true, mounts: false, unprivileged: false };
        let mut grower = Grower { rng: &mut rng, flavor, nodes: vec![Node::new(b"from", Kind::Directory)] };
        for child in [&b"from/a"[..], b"from/d"] {
            grower.tree(child, 2, 8);
        }
        let kind = grower.kind(b"from/b");
        let node = grower.dressed(b"from/b", kind);
        grower.add(node);
        grower.obstacle(b"from", b"to");
        // The two operands themselves are directories, and nothing else.
        grower.nodes.iter_mut().filter(|node| node.path == b"to").for_each(|node| node.kind = Kind::Directory);
        for extra in [&b"to/a/x"[..], b"to/x", b"to/c"] {
            let parent = &extra[..extra.len() - 2];
            if grower.nodes.iter().any(|node| node.path == parent && node.is_directory()) {
                grower.tree(extra, 1, 4);
            }
        }
        let nodes = comparable(grower.nodes, deletion[0].is_empty());
        Case { nodes, words }
    }
}

/// Of what has several names, what the first one is.
fn kind<'a>(nodes: &'a [Node], node: &'a Node) -> &'a Kind {
    match &node.kind {
        Kind::HardLink(first) => nodes.iter().find(|other| other.path == *first).map_or(&node.kind, |node| &node.kind),
        kind => kind,
    }
}

/// Without what the two treat differently on purpose: rsync makes each file anew under another name, and haul writes into what
/// stands there, through a link as cp does; rsync makes way for a directory also where nothing else is removed.
fn comparable(nodes: Vec<Node>, nothing_is_removed: bool) -> Vec<Node> {
    let source = |path: &[u8]| {
        nodes
            .iter()
            .find(|node| node.path.strip_prefix(b"from").is_some_and(|rest| Some(rest) == path.strip_prefix(b"to")))
    };
    let in_the_way = |node: &Node| match source(&node.path) {
        Some(from) if node.path.starts_with(b"to") => {
            let file = |node: &Node| matches!(kind(&nodes, node), Kind::File(_));
            (file(from) && !file(node) && !node.is_directory())
                || (nothing_is_removed && from.is_directory() != node.is_directory())
        }
        _ => matches!(&node.kind, Kind::HardLink(first) if node.path.starts_with(b"to") && first.starts_with(b"from")),
    };
    // A link to its own source is refused, as by cp.
    let to_source = |to: &[u8]| to.starts_with(b"@/") || to.windows(5).any(|part| part == b"from/");
    let leads_to_source =
        |node: &Node| matches!(kind(&nodes, node), Kind::Symlink(to) if node.path.starts_with(b"to") && to_source(to));
    let operand = |path: &[u8]| path.split(|byte| *byte == b'/').next().map(<[u8]>::to_vec);
    let crosses = |node: &Node| matches!(&node.kind, Kind::HardLink(first) if operand(first) != operand(&node.path));
    let mut kept: Vec<Node> = Vec::new();
    for node in &nodes {
        let parent = node.path.iter().rposition(|byte| *byte == b'/').map(|at| &node.path[..at]);
        let has = |path: &[u8]| kept.iter().any(|other| other.path == path);
        let orphan =
            parent.is_some_and(|parent| !kept.iter().any(|other| other.path == parent && other.is_directory()));
        let dangling = matches!(&node.kind, Kind::HardLink(first) if !has(first));
        if !in_the_way(node) && !leads_to_source(node) && !crosses(node) && !orphan && !dangling {
            kept.push(node.clone());
        }
    }
    if !kept.iter().any(|node| node.path == b"to") {
        kept.push(Node::new(b"to", Kind::Directory));
    }
    kept
}

fn seen(item: &Item) -> String {
    // What an old directory has besides permissions stays, as with cp.
    let mode = if item.kind == 'd' { item.mode & 0o777 } else { item.mode };
    let Item { kind, uid, gid, device, size, contents, mtime, .. } = item;
    format!("{kind} {mode:o} {uid}:{gid} {device:x} {size} bytes {mtime:?} {:?}", String::from_utf8_lossy(contents))
}

/// What is below the destination.
fn of_dest(snapshot: &Snapshot) -> Vec<(String, String)> {
    let below = snapshot.iter().filter(|(path, _)| path.starts_with(b"work/to"));
    below.map(|(path, item)| (path.escape_ascii().to_string(), seen(item))).collect()
}

/// How the two outcomes differ.
fn differences(rsync: &Outcome, haul: &Outcome) -> Vec<String> {
    let [theirs, ours] = [of_dest(&rsync.after), of_dest(&haul.after)];
    let missing = |from: &[(String, String)], other: &[(String, String)], whose: &str| {
        let only = from.iter().filter(|entry| !other.contains(entry));
        only.map(|(path, item)| format!("  {whose}: {path}: {item}")).collect::<Vec<_>>()
    };
    [missing(&theirs, &ours, "rsync"), missing(&ours, &theirs, "haul")].concat()
}

#[test]
fn random_trees_are_brought_up_to_date_as_by_rsync() {
    if lacks_root("random trees") {
        return;
    }
    let rsync = Path::new("/usr/bin/rsync");
    if !rsync.exists() {
        haul_testbed::skip("rsync is not installed");
        return;
    }
    let room = room();
    let haul = haul_by_name(room.path());
    let first = number("HAUL_AGREE_SEED", 1);
    let cases = number("HAUL_AGREE_RSYNC_CASES", 300);
    let played = std::thread::scope(|scope| {
        let play = || {
            let stage = Stage::new(room.path(), false).expect("a stage");
            let (mut wrong, mut compared) = (Vec::new(), 0_u64);
            for seed in first..first + cases {
                let case = Case::random(seed);
                let outcome = |program: &Path, words: &[String]| {
                    let words: Vec<&str> = words.iter().map(String::as_str).collect();
                    let scene = |work: &Path| build(work, &case.nodes);
                    stage.perform(Place::Memory, &scene, &Call::new(&words), program, LIMIT).expect("it can be played")
                };
                let (theirs, ours) = (outcome(rsync, &case.words[1]), outcome(&haul, &case.words[0]));
                let differences = differences(&theirs, &ours);
                if theirs.status != "exit 0" {
                    continue;
                }
                compared += 1;
                if ours.status != "exit 0" || !differences.is_empty() {
                    let said = String::from_utf8_lossy(&ours.stderr).into_owned();
                    wrong.push(format!("seed {seed}: {:?}\n{said}{}", case.words[0], differences.join("\n")));
                }
            }
            (wrong, compared)
        };
        scope.spawn(play).join()
    });
    fs::remove_dir_all(room.path().join("memory")).ok();
    let (wrong, compared) = played.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    println!("{compared} of {cases} compared");
    assert!(compared * 10 >= cases * 9, "rsync fails too often: {compared} of {cases} compared");
    assert!(wrong.is_empty(), "{} of {cases} differ:\n{}", wrong.len(), wrong.join("\n\n"));
}
