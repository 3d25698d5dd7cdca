//! Small journals, block by block.

use std::ops::Range;

use super::super::blocks::{Blocks, Version};
use super::super::inode::Mapped;
use super::super::sums::crc32c;
use super::super::superblock::{Backups, JournalAt, Layout, Sums as Guarded};
use super::form::{Form, MAGIC, Sums};
use super::*;
use crate::budget::Budget;
use crate::image::Session;

const BLOCK: usize = 1024;
/// The journal's block 0 is this block of the filesystem.
const AT: u64 = 4;
const SEED: u32 = 77;

fn layout() -> Layout {
    Layout {
        block: BLOCK as u32,
        cluster_bits: 0,
        blocks: 40,
        first_data_block: 1,
        blocks_per_group: 8192,
        groups: 1,
        inodes_per_group: 8,
        inode_size: 128,
        inode_table: 1,
        descriptor: 32,
        reserved_gdt: 0,
        has_resize_inode: false,
        first_meta_bg: None,
        backups: Backups::Sparse,
        flex_bg: false,
        sums: Guarded::None,
        seed: 0,
        uuid: [0; 16],
        journal: JournalAt::Inside,
        mmp: None,
    }
}

/// A journal of ten blocks, of which nine are the ring.
struct Ring {
    image: Vec<u8>,
    form: Form,
    start: Option<u64>,
    fast: Range<u64>,
}

impl Ring {
    fn new(sums: Sums, start: u64) -> Ring {
        let form = Form { block: BLOCK, wide: false, sums, seed: SEED };
        Ring { image: vec![0; 40 * BLOCK], form, start: Some(start), fast: 10..10 }
    }

    fn block(&mut self, at: u64) -> &mut [u8] {
        let start = (AT + at) as usize * BLOCK;
        &mut self.image[start..start + BLOCK]
    }

    fn head(&mut self, at: u64, kind: u32, number: u32) {
        let block = self.block(at);
        block[0..4].copy_from_slice(&MAGIC.to_be_bytes());
        block[4..8].copy_from_slice(&kind.to_be_bytes());
        block[8..12].copy_from_slice(&number.to_be_bytes());
    }

    /// The checksum at the end of a list.
    fn seal(&mut self, at: u64) {
        if self.form.guarded() {
            let sum = crc32c(SEED, self.block(at));
            self.block(at)[BLOCK - 4..].copy_from_slice(&sum.to_be_bytes());
        }
    }

    /// A list of tags: block and flags, with the copies where `copies` says.
    fn tags(&mut self, at: u64, number: u32, tags: &[(u32, u32)], copies: &[u64]) {
        self.head(at, 1, number);
        let mut offset = 12;
        for ((block, flags), copy) in tags.iter().zip(copies) {
            let sum = crc32c(crc32c(SEED, &number.to_be_bytes()), self.block(*copy));
            let guarded = self.form.guarded();
            let to = &mut self.block(at)[offset..];
            to[0..4].copy_from_slice(&block.to_be_bytes());
            to[4..8].copy_from_slice(&(flags | 2).to_be_bytes());
            if guarded {
                to[12..16].copy_from_slice(&sum.to_be_bytes());
            }
            offset += if guarded { 16 } else { 8 };
        }
        self.seal(at);
    }

    fn revocation(&mut self, at: u64, number: u32, block: u32) {
        self.head(at, 5, number);
        self.block(at)[12..16].copy_from_slice(&20_u32.to_be_bytes());
        self.block(at)[16..20].copy_from_slice(&block.to_be_bytes());
        self.seal(at);
    }

    fn commit(&mut self, at: u64, number: u32) {
        self.head(at, 2, number);
        if self.form.guarded() {
            let sum = crc32c(SEED, self.block(at));
            self.block(at)[16..20].copy_from_slice(&sum.to_be_bytes());
        }
    }

    /// Replays from transaction 7 on.
    fn replay(&self) -> Result<(Vec<(u64, Version)>, u32), Refusal> {
        let session = Session::new(&self.image, Budget::for_image(self.image.len() as u64));
        let (view, layout) = (session.view(), layout());
        let blocks = Blocks::on_disk(&view, &layout);
        let file = Mapped::of_one_run(AT..AT + 10);
        let ring = 1..self.fast.start;
        let journal = Journal { file, form: self.form, ring, fast: self.fast.clone(), start: self.start, sequence: 7 };
        let replay = replay(&journal, &blocks, &layout)?;
        let mut sorted: Vec<_> = replay.blocks.into_iter().collect();
        sorted.sort_unstable_by_key(|(block, _)| *block);
        Ok((sorted, replay.transactions))
    }
}

fn version(at: u64, escaped: bool) -> Version {
    Version { at: AT + at, escaped }
}

/// Two transactions: 30 and 31, then 31 again, escaped.
fn two(sums: Sums) -> Ring {
    let mut ring = Ring::new(sums, 1);
    ring.block(2).fill(2);
    ring.block(6).fill(6);
    ring.tags(1, 7, &[(30, 0), (31, 8)], &[2, 3]);
    ring.commit(4, 7);
    ring.tags(5, 8, &[(31, 1 | 8)], &[6]);
    ring.commit(7, 8);
    ring
}

#[test]
fn the_newest_copy_of_each_block_is_taken() {
    for sums in [Sums::None, Sums::V3] {
        let expected = vec![(30, version(2, false)), (31, version(6, true))];
        assert_eq!(two(sums).replay(), Ok((expected, 2)), "{sums:?}");
    }
}

#[test]
fn an_escaped_copy_gets_its_magic_back() {
    let ring = two(Sums::None);
    let session = Session::new(&ring.image, Budget::for_image(1 << 20));
    let (view, layout) = (session.view(), layout());
    let replayed = Replayed::from([(31, version(6, true))]);
    let block = Blocks::on_disk(&view, &layout).after(&replayed).read(31).unwrap();
    assert_eq!((&block[..5], block.len()), (&[0xc0, 0x3b, 0x39, 0x98, 6][..], BLOCK));
}

#[test]
fn a_log_goes_round() {
    let mut ring = Ring::new(Sums::V3, 8);
    ring.tags(8, 7, &[(30, 0), (31, 8)], &[9, 1]);
    ring.commit(2, 7);
    assert_eq!(ring.replay(), Ok((vec![(30, version(9, false)), (31, version(1, false))], 1)));
    // Where fast commits are behind the ring, it is not followed round.
    ring.fast = 9..10;
    assert!(matches!(ring.replay(), Err(Refusal::Unsupported(_))));
}

#[test]
fn a_block_that_was_revoked_is_not_written_unless_it_is_copied_again() {
    let mut ring = two(Sums::V3);
    ring.block(7).fill(0);
    ring.revocation(7, 8, 30);
    ring.commit(8, 8);
    assert_eq!(ring.replay(), Ok((vec![(31, version(6, true))], 2)));
    let mut ring = two(Sums::V3);
    ring.revocation(4, 7, 31);
    ring.block(5).fill(0);
    ring.commit(5, 7);
    ring.block(6).fill(0);
    ring.tags(6, 8, &[(31, 8)], &[7]);
    ring.commit(8, 8);
    assert_eq!(ring.replay(), Ok((vec![(30, version(2, false)), (31, version(7, false))], 2)));
}

#[test]
fn a_log_that_ends_in_the_middle_of_a_transaction_is_refused() {
    for sums in [Sums::None, Sums::V3] {
        let mut ring = two(sums);
        ring.block(7).fill(0);
        assert!(matches!(ring.replay(), Err(Refusal::Dirty(_))), "{sums:?}");
        ring.block(5).fill(0);
        assert_eq!(ring.replay().unwrap().1, 1);
        // Nothing but a start is no log either.
        ring.block(1).fill(0);
        assert!(matches!(ring.replay(), Err(Refusal::Dirty(_))), "{sums:?}");
    }
}

#[test]
fn a_later_transaction_behind_a_gap_is_refused() {
    let mut ring = two(Sums::None);
    ring.block(5).fill(0); // the tags of transaction 8, but not its commit
    assert!(matches!(ring.replay(), Err(Refusal::Dirty(_))));
    let mut ring = two(Sums::None);
    ring.start = None;
    assert!(matches!(ring.replay(), Err(Refusal::Dirty(_))));
    // Older ones are what the ring held before.
    let mut ring = two(Sums::None);
    ring.commit(9, 6);
    assert!(ring.replay().is_ok());
}

#[test]
fn a_wrong_checksum_anywhere_is_refused() {
    for at in [1, 2, 3, 4, 5, 6, 7] {
        let mut ring = two(Sums::V3);
        ring.block(at)[900] ^= 1;
        assert!(matches!(ring.replay(), Err(Refusal::Corrupt(_))), "{at}");
    }
}

#[test]
fn the_checksum_of_a_whole_transaction_is_verified() {
    let mut ring = Ring::new(Sums::Transactions, 1);
    ring.block(2).fill(2);
    ring.tags(1, 7, &[(30, 8)], &[2]);
    ring.commit(3, 7);
    assert!(matches!(ring.replay(), Err(Refusal::Corrupt(_))));
    let sum = super::super::sums::crc32_be(!0, &ring.image[(AT as usize + 1) * BLOCK..(AT as usize + 3) * BLOCK]);
    ring.block(3)[12..14].copy_from_slice(&[1, 4]);
    ring.block(3)[16..20].copy_from_slice(&sum.to_be_bytes());
    assert!(ring.replay().is_ok());
}

#[test]
fn a_log_without_an_end_or_with_nonsense_is_refused() {
    let mut ring = Ring::new(Sums::None, 1);
    ring.tags(1, 7, &[(30, 0); 20], &[2; 20]);
    let last = 12 + 19 * 8 + 7;
    ring.block(1)[last] |= 8;
    assert!(matches!(ring.replay(), Err(Refusal::Corrupt(_))), "more copies than blocks");
    let mut ring = two(Sums::None);
    ring.tags(5, 8, &[(40, 8)], &[6]);
    assert!(matches!(ring.replay(), Err(Refusal::Corrupt(_))), "outside");
    let mut ring = two(Sums::None);
    ring.head(7, 9, 8);
    assert!(matches!(ring.replay(), Err(Refusal::Corrupt(_))), "an unknown kind");
}

#[test]
fn fast_commits_anywhere_but_behind_the_log_are_refused() {
    let mut ring = two(Sums::None);
    ring.fast = 9..10;
    assert!(ring.replay().is_ok());
    ring.block(9)[0..12].copy_from_slice(&[9, 0, 8, 0, 0, 0, 0, 0, 8, 0, 0, 0]);
    assert!(ring.replay().is_ok(), "they belong to a transaction that is in the log");
    for later in [9, 10] {
        ring.block(9)[8] = later;
        assert!(matches!(ring.replay(), Err(Refusal::Dirty(_))), "{later}");
    }
}

/// A tag of a fast commit.
fn tag(kind: u16, value: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &(value.len() as u16).to_le_bytes(), value].concat()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Blocks that an inode gets.
fn range(inode: u32, start: u32, len: u32) -> Vec<u8> {
    tag(1, &words(&[inode, 0, len, start]))
}

/// A tail with its right checksum, which fills the block up.
fn sealed(mut tags: Vec<u8>, transaction: u32) -> Vec<u8> {
    let len = BLOCK - tags.len() - 4;
    tags.extend([&8_u16.to_le_bytes()[..], &(len as u16).to_le_bytes(), &transaction.to_le_bytes()].concat());
    let sum = crc32c(0, &tags);
    tags.extend(sum.to_le_bytes());
    tags.resize(BLOCK, 0);
    tags
}

/// The log of [`two`], with two fast commits behind it: one of blocks 32 and 33, one of block 35.
fn three() -> Ring {
    let mut ring = two(Sums::None);
    let mut blocks = vec![0; 8 * BLOCK];
    blocks[..BLOCK].copy_from_slice(&sealed([tag(9, &words(&[0, 9])), range(12, 32, 2)].concat(), 9));
    blocks[BLOCK..2 * BLOCK].copy_from_slice(&sealed([range(13, 35, 1), tag(2, &words(&[14, 0, 9]))].concat(), 9));
    ring.image.splice((AT as usize + 10) * BLOCK..(AT as usize + 18) * BLOCK, blocks);
    ring.fast = 9..18;
    ring
}

/// How many fast commits count, the blocks and the inodes that they name.
type Named = (u32, Vec<Range<u64>>, Vec<u32>);

impl Ring {
    fn fast(&self) -> Result<Named, Refusal> {
        let session = Session::new(&self.image, Budget::for_image(self.image.len() as u64));
        let (view, layout) = (session.view(), layout());
        let blocks = Blocks::on_disk(&view, &layout);
        let file = Mapped::of_one_run(AT..AT + self.fast.end);
        let (ring, fast) = (1..self.fast.start, self.fast.clone());
        let journal = Journal { file, form: self.form, ring, fast, start: self.start, sequence: 7 };
        let fast = replay(&journal, &blocks, &layout)?.fast;
        Ok((fast.commits, fast.ranges, fast.named.into_iter().collect()))
    }

    /// Writes a block of fast commits.
    fn put(&mut self, at: u64, tags: &[u8]) {
        self.block(at).fill(0);
        self.block(at)[..tags.len()].copy_from_slice(tags);
    }
}

#[test]
fn fast_commits_are_read_up_to_what_was_never_written() {
    assert_eq!(three().fast(), Ok((2, vec![32..34, 35..36], vec![12, 13, 14])));
    // Of an older transaction, though they are right in themselves.
    let mut ring = three();
    ring.put(10, &sealed([tag(9, &words(&[0, 8])), range(12, 32, 2)].concat(), 8));
    assert_eq!(ring.fast(), Ok((0, vec![], vec![])));
    // Nothing but old ones behind the first.
    let mut ring = three();
    ring.put(11, &sealed(range(13, 35, 1), 8));
    assert_eq!(ring.fast(), Ok((1, vec![32..34, 35..36], vec![12, 13])));
}

#[test]
fn a_fast_commit_of_several_blocks_is_read_to_its_tail() {
    let mut ring = three();
    let names: Vec<u8> = (0..3).flat_map(|kind| tag(3 + kind, &[&words(&[2, 15])[..], b"name"].concat())).collect();
    let inode = tag(6, &[&words(&[16])[..], &[0; 128]].concat());
    let mut first = [names, inode, range(15, 36, 1)].concat();
    first.extend(tag(7, &vec![0; BLOCK - first.len() - 4]));
    let whole = sealed(range(16, 38, 1), 9);
    let body = &whole[..BLOCK];
    ring.put(12, &first);
    ring.put(13, body);
    // Its tail guards the first block too.
    assert_eq!(ring.fast().map(|fast| fast.0), Ok(2));
    let until = range(16, 38, 1).len() + 8;
    let sum = crc32c(crc32c(0, &first), &body[..until]);
    ring.block(13)[until..until + 4].copy_from_slice(&sum.to_le_bytes());
    let named = vec![2, 12, 13, 14, 15, 16];
    assert_eq!(ring.fast(), Ok((3, vec![32..34, 35..36, 36..37, 38..39], named)));
}

#[test]
fn ranges_of_a_fast_commit_with_a_wrong_tail_are_kept() {
    let mut ring = three();
    ring.block(11)[900] ^= 1;
    assert_eq!(ring.fast().map(|fast| fast.0), Ok(2), "what fills the block up is not guarded");
    ring.block(11)[44] ^= 1;
    assert_eq!(ring.fast(), Ok((1, vec![32..34, 35..36], vec![12, 13, 14])));
    // With the first one wrong the kernel does not mount it.
    ring.block(10)[20] ^= 1;
    assert!(matches!(ring.fast(), Err(Refusal::Dirty(_))));
}

#[test]
fn what_is_not_understood_in_a_fast_commit_is_refused() {
    for (what, tags) in [
        ("an unknown tag", tag(10, &[0; 8])),
        ("a zero tag with a length", tag(0, &[0; 8])),
        ("a short range", tag(1, &[0; 12])),
        ("a long range", tag(1, &[0; 20])),
        ("a short inode", tag(6, &[0; 131])),
        ("a long inode", tag(6, &[0; 133])),
        ("an entry without a name", tag(3, &[0; 8])),
        ("a tail without a checksum", tag(8, &[0; 7])),
        ("a tag that ends outside", words(&[7 | 1021 << 16])),
        ("blocks outside", range(12, 39, 2)),
        ("no blocks", range(12, 30, 0)),
        ("the first block", range(12, 0, 1)),
    ] {
        let mut ring = three();
        ring.put(12, &tags);
        assert!(matches!(ring.fast(), Err(Refusal::Unsupported(_) | Refusal::Corrupt(_))), "{what}");
        ring.put(10, &[tag(9, &words(&[0, 9])), tags].concat());
        assert!(ring.fast().is_err(), "{what}, first");
    }
    let mut ring = three();
    ring.put(10, &tag(9, &words(&[0, 9])));
    assert!(ring.fast().is_err(), "nothing but a head");
    ring.put(10, &sealed([tag(9, &words(&[1, 9])), range(12, 32, 2)].concat(), 9));
    assert!(matches!(ring.fast(), Err(Refusal::Unsupported(_))), "features");
}

#[test]
fn changed_fast_commits_are_read_or_refused_without_a_panic() {
    let good = three();
    for at in (AT as usize + 10) * BLOCK..(AT as usize + 11) * BLOCK + 60 {
        for value in [0, 1, 2, 7, 8, 9, 0x7f, 0xff] {
            let mut ring = three();
            ring.image[at] = value;
            // What the intact one has is not believed without its checksum.
            let changed = good.image[at] != value;
            let guarded = at < (AT as usize + 10) * BLOCK + 40;
            assert!(!(changed && guarded && ring.fast() == good.fast()), "{at}: {value}");
            drop(ring.fast());
        }
    }
}
