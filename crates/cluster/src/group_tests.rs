use std::fs;
use std::sync::Arc;
use std::thread;

use haul_fs::links::{DestDir, Made};
use haul_sys::inode::Inode;
use haul_sys::rustix::fs::{CWD, Mode, OFlags, openat};

use super::*;
use crate::messages::Chunk;
use crate::messages::{Pair, WorkUnit};
use crate::test_support::{CHUNK, Wires, group};

const PLACE: DeviceNumber = DeviceNumber { major: 8, minor: 1 };

fn source(inode: u64) -> Source {
    Source { id: FileId::new(PLACE, inode), born: Some(Time { seconds: 7, nanoseconds: 8 }) }
}

fn pair() -> Pair {
    let way = Way { prefix: "dest/".into(), names: Vec::new() };
    let text = || "x".into();
    Pair {
        operand: text(),
        operand_dest: text(),
        dest: way,
        inodes: [1, 2],
        born: [None; 2],
        device: 0,
        listed: None,
        shown: [text(), text()],
    }
}

/// Does something while each of these processes answers what the others ask, each of its own table of links. No work may
/// come meanwhile.
fn while_listening<A: Send, T>(
    wires: &Wires,
    groups: &[(&PeerGroup<'_, A>, &LinkTable)],
    act: impl FnOnce() -> T,
) -> T {
    struct End<'a>(&'a Wires);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.end();
        }
    }
    thread::scope(|scope| {
        for (peers, links) in groups {
            scope.spawn(move || {
                while let Some((from, message)) = peers.transport.receive() {
                    match peers.take(from, &message) {
                        ToDo::Nothing => {}
                        ToDo::Where { from, token, key } => peers.say_where(links, from, token, &key),
                        ToDo::Names(..) | ToDo::Chunk(..) | ToDo::Back { .. } => panic!("no work was asked for"),
                    }
                }
                peers.end();
            });
        }
        // Also if it panics: the listeners must not wait for ever.
        let _end = End(wires);
        act()
    })
}

/// Two processes, each with a place for its tables.
macro_rules! two {
    ($wires:ident, $ends:ident, $first:ident, $second:ident) => {
        let $wires = Wires::new(2);
        let $ends = [0, 1].map(|rank| $wires.end_of(rank));
        let [$first, $second] = [&$ends[0], &$ends[1]].map(group::<()>);
        for group in [&$first, &$second] {
            group.owned_links().room = openat(CWD, "/tmp", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).ok();
        }
    };
}

#[test]
fn chunks_are_whole_pages_of_any_machine() {
    let wires = Wires::new(1);
    let end = wires.end_of(0);
    for (asked, chunk) in [(0, 64 << 10), (1, 64 << 10), ((64 << 10) + 1, 128 << 10), (1 << 20, 1 << 20)] {
        assert_eq!(PeerGroup::<()>::new(Part { transport: &end, chunk: asked }).chunk, chunk, "{asked}");
    }
}

#[test]
fn a_source_is_known_to_all_by_one_key() {
    two!(wires, ends, first, second);
    // The second one has another number for the device, and got its name.
    let name = first.name_of(PLACE, Some(Path::new("/data")));
    let elsewhere = DeviceNumber { major: 0, minor: 99 };
    second.is_called(elsewhere, name);
    let there = Source { id: FileId::new(elsewhere, 5), ..source(5) };
    assert_eq!(first.key_of(source(5)), second.key_of(there));
    assert_eq!(second.source_of(&first.key_of(source(5))), Some(there));
    assert_ne!(first.key_of(source(5)), first.key_of(source(6)));
    assert!(!wires.gave_up());
}

#[test]
fn a_filesystem_that_is_mounted_twice_on_a_machine_has_one_name() {
    two!(wires, ends, first, second);
    first.name_of(PLACE, Some(Path::new("/data")));
    second.name_of(PLACE, Some(Path::new("/bound")));
    assert_eq!(first.key_of(source(5)), second.key_of(source(5)));
    assert!(!wires.gave_up());
}

#[test]
fn a_filesystem_that_nobody_has_named_is_unknown() {
    two!(wires, ends, first, second);
    first.name_of(PLACE, Some(Path::new("/data")));
    assert_eq!(second.source_of(&first.key_of(source(5))), None);
    assert!(!wires.gave_up());
}

#[test]
fn whoever_claims_first_makes_the_file() {
    two!(wires, ends, first, second);
    let links = [LinkTable::default(), LinkTable::default()];
    while_listening(&wires, &[(&first, &links[0]), (&second, &links[1])], || {
        // So many that each of the two is the owner of some.
        for inode in 0..16 {
            let key = first.key_of(source(inode));
            assert_eq!(second.claim(key), LinkOwner::You);
            second.settle(key, true);
            // A message of the second one comes before what it sends later.
            assert_eq!(second.claim(key), LinkOwner::Rank(1));
            assert_eq!(first.claim(key), LinkOwner::Rank(1));
        }
    });
}

#[test]
fn what_one_could_not_make_another_one_may() {
    two!(wires, ends, first, second);
    let links = [LinkTable::default(), LinkTable::default()];
    while_listening(&wires, &[(&first, &links[0]), (&second, &links[1])], || {
        for inode in 0..16 {
            let key = first.key_of(source(inode));
            assert_eq!(second.claim(key), LinkOwner::You);
            second.settle(key, false);
            assert_eq!(second.claim(key), LinkOwner::You);
        }
    });
}

#[test]
fn who_made_a_file_says_where_it_is() {
    two!(wires, ends, first, second);
    let dir = haul_testbed::temp_dir();
    fs::write(dir.path().join("made"), "").unwrap();
    let held = Arc::new(fs::File::open(dir.path()).unwrap().into());
    let root = DestDir::root_shown_as(held, "shown/".into()).unwrap();
    let id = Inode::at(CWD, dir.path().join("made").as_os_str()).unwrap().id;
    let links = [LinkTable::default(), LinkTable::default()];
    first.name_of(PLACE, Some(Path::new("/data")));
    second.name_of(PLACE, Some(Path::new("/data")));
    let made = || Made { dir: Arc::clone(&root), name: "made".into(), id: None };
    assert!(links[1].claim(source(5), made).is_ok());
    links[1].complete(source(5), id).unwrap();
    let elsewhere = Source { id: FileId::new(DeviceNumber { major: 9, minor: 9 }, 5), born: None };
    let answers = while_listening(&wires, &[(&first, &links[0]), (&second, &links[1])], || {
        let ask = |source| first.ask_where(1, first.key_of(source));
        let found = [ask(source(5)), ask(elsewhere)];
        links[1].forget_if(source(5), Some(id)).unwrap();
        let forgotten = ask(source(5));
        assert!(links[1].claim(source(5), made).is_ok());
        [found, [forgotten, ask(source(5))]]
    });
    assert_eq!(
        first.ask_where(0, first.key_of(source(5))),
        Whereabouts::TakesNoMoreNames,
        "what it has forgotten itself"
    );
    let way = Way { prefix: "shown/".into(), names: Vec::new() };
    let found = Whereabouts::At(Location { way, name: "made".into(), inode: id.inode() });
    let full = [Whereabouts::TakesNoMoreNames, Whereabouts::TakesNoMoreNames];
    assert_eq!(answers, [[found, Whereabouts::Unknown], full]);
}

#[test]
fn nobody_waits_for_an_answer_after_the_end() {
    let wires = Wires::new(2);
    let end = wires.end_of(0);
    let alone = group::<()>(&end);
    alone.end();
    alone.expect(7);
    assert!(alone.wait_for(7).is_none());
    let claims: Vec<_> = (0..16).map(|inode| alone.claim(alone.key_of(source(inode)))).collect();
    let broken = LinkOwner::Broken(Errno::CANCELED.raw_os_error());
    assert!(claims.contains(&broken), "the owner of some is the other one: {claims:?}");
}

#[test]
fn an_answer_that_nobody_expects_is_forgotten() {
    let wires = Wires::new(1);
    let end = wires.end_of(0);
    let alone = group::<()>(&end);
    alone.answer(7, Message::ChunkDone { token: 7, moved: 0 });
    assert!(!alone.has_moved_nothing(7));
    alone.expect(8);
    alone.answer(8, Message::ChunkDone { token: 8, moved: 0 });
    assert!(alone.has_moved_nothing(8));
    assert!(matches!(alone.wait_for(8), Some(Message::ChunkDone { moved: 0, .. })));
    assert!(!alone.has_moved_nothing(8), "it was taken");
    alone.expect(9);
    alone.expect_no_more(9);
    alone.answer(9, Message::ChunkDone { token: 9, moved: 0 });
    assert!(!alone.has_moved_nothing(9));
}

#[test]
fn a_message_of_another_version_ends_the_run() {
    let wires = Wires::new(2);
    let end = wires.end_of(0);
    assert!(matches!(group::<()>(&end).take(1, b"\xff\xff\xff"), ToDo::Nothing));
    assert!(wires.gave_up());
}

#[test]
fn names_and_chunks_are_work_for_a_thread() {
    let wires = Wires::new(2);
    let end = wires.end_of(0);
    let peers = group::<()>(&end);
    let names = Message::Names(WorkUnit { token: 3, pair: pair(), names: Vec::new() });
    assert!(matches!(peers.take(1, &names.encode()), ToDo::Names(1, unit) if unit.token == 3));
    let chunk = Chunk {
        token: 4,
        pair: pair(),
        source_name: None,
        dest_name: "x".into(),
        inodes: [1, 2],
        size: CHUNK,
        modified: (0, 0),
        offset: 0,
        len: CHUNK,
    };
    assert!(matches!(peers.take(1, &Message::Chunk(chunk).encode()), ToDo::Chunk(1, chunk) if chunk.token == 4));
}

#[test]
fn what_was_not_given_away_does_not_come_back() {
    let wires = Wires::new(2);
    let end = wires.end_of(0);
    let done = Message::NamesDone { token: 3, given_back: true };
    assert!(matches!(group::<()>(&end).take(1, &done.encode()), ToDo::Nothing));
}
