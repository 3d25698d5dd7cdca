use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;

use haul_testbed::{TempDir, temp_dir};
use proptest::prelude::*;

use super::*;

fn inode() -> Inode {
    Inode::just_made(haul_sys::inode::DeviceNumber { major: 8, minor: 1 })
}

fn command(word: &str) -> Fingerprint {
    Fingerprint::of_command(&[word.as_bytes()], &inode())
}

fn records() -> Vec<Record> {
    let source = Fingerprint::of_source(&inode());
    let pair = Fingerprint::of_copy(source, &inode());
    let digest = Digest::from_hex(&"0123456789abcdef".repeat(4));
    vec![
        Record::Finished { pair, digest: None },
        Record::Finished { pair, digest },
        Record::Partial { source, file: Fingerprint::of_file(&inode()), number: u64::MAX, prefix: 1 << 40 },
        Record::Directory(Fingerprint::of_file(&inode())),
    ]
}

/// Opens the journal and returns what it promises besides the beginnings of runs.
fn opened(dir: &TempDir, command: Fingerprint) -> (Result<Journal, Trouble>, Vec<Record>) {
    let mut promised = Vec::new();
    let at = fs::File::open(dir.path()).unwrap();
    let journal = Journal::open(at.as_fd(), OsStr::new("journal"), command, &mut |record| {
        promised.push(record);
        Ok(())
    });
    promised.retain(|record| *record != Record::Begun);
    (journal, promised)
}

#[test]
fn what_was_written_is_read_again() {
    let dir = temp_dir();
    opened(&dir, command("a")).0.unwrap().append(&records()).unwrap();
    let (journal, promised) = opened(&dir, command("a"));
    assert_eq!(promised, records());
    journal.unwrap().append(&records()[..1]).unwrap();
    assert_eq!(opened(&dir, command("a")).1.len(), records().len() + 1);
}

#[test]
fn nothing_is_believed_that_another_command_wrote() {
    let dir = temp_dir();
    opened(&dir, command("a")).0.unwrap().append(&records()).unwrap();
    assert_eq!(opened(&dir, command("b")).1, []);
}

#[test]
fn one_command_at_a_time_has_it() {
    let dir = temp_dir();
    let first = opened(&dir, command("a")).0.unwrap();
    assert_eq!(opened(&dir, command("a")).0.unwrap_err(), Trouble::Busy);
    drop(first);
    opened(&dir, command("a")).0.unwrap();
}

#[test]
fn a_link_or_a_file_of_two_names_is_not_taken_for_a_journal() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("other"), "precious").unwrap();
    symlink("other", at("journal")).unwrap();
    assert_eq!(opened(&dir, command("a")).0.unwrap_err(), Trouble::Foreign);
    fs::remove_file(at("journal")).unwrap();
    fs::hard_link(at("other"), at("journal")).unwrap();
    assert_eq!(opened(&dir, command("a")).0.unwrap_err(), Trouble::Foreign);
    assert_eq!(fs::read(at("other")).unwrap(), b"precious");
}

#[test]
fn digests_are_what_their_digits_say() {
    for digits in ["00", "d41d8cd98f00b204e9800998ecf8427e", &"f".repeat(64)] {
        assert_eq!(Digest::from_hex(digits).unwrap().to_hex(), digits);
    }
    for wrong in ["", "0", "0g", "+1", &"f".repeat(66)] {
        assert_eq!(Digest::from_hex(wrong), None, "{wrong}");
    }
}

#[test]
fn another_state_of_a_source_has_another_fingerprint() {
    let of = |change: fn(&mut Inode)| {
        let mut inode = inode();
        change(&mut inode);
        Fingerprint::of_source(&inode)
    };
    let all = [
        of(|_| {}),
        of(|inode| inode.size = 1),
        of(|inode| inode.modified.nanoseconds = 1),
        of(|inode| inode.changed.nanoseconds = 1),
        of(|inode| inode.born = Some(Time { seconds: 0, nanoseconds: 0 })),
    ];
    for (index, one) in all.iter().enumerate() {
        assert!(!all[..index].contains(one), "{index}");
    }
}

proptest! {
    #[test]
    fn of_a_damaged_journal_only_what_stands_before_the_damage_is_believed(at in 0usize..1000, bit in 0u8..8) {
        let mut bytes = Vec::new();
        for number in 0..12 {
            bytes.extend(records()[number % 4].encode(number as u64, &command("a")));
        }
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        let mut promised = 0;
        let count = read(&mut &bytes[..], &command("a"), &mut |_| { promised += 1; Ok(()) }).unwrap();
        prop_assert_eq!(count as usize, at / RECORD);
        prop_assert_eq!(promised, count);
    }

    #[test]
    fn what_is_read_is_what_would_have_been_written(contents in proptest::collection::vec(any::<u8>(), RECORD), kind in 0usize..5, len in 0u8..40) {
        let mut bytes: [u8; RECORD] = contents.try_into().unwrap();
        (bytes[14], bytes[15]) = (b"BFPDX"[kind], len);
        let fixed = Record::fix_checksum(&bytes, 0, &command("a"));
        if let Some(record) = Record::decode(&fixed, 0, &command("a")) {
            prop_assert_eq!(record.encode(0, &command("a")), fixed);
        }
    }

    #[test]
    fn of_a_torn_journal_the_whole_records_are_believed(len in 0usize..8 * RECORD) {
        let mut bytes = Vec::new();
        for number in 0..8 {
            bytes.extend(records()[number % 4].encode(number as u64, &command("a")));
        }
        let count = read(&mut &bytes[..len], &command("a"), &mut |_| Ok(())).unwrap();
        prop_assert_eq!(count as usize, len / RECORD);
    }
}
