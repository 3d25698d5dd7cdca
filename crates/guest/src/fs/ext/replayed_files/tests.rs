//! A filesystem of 64 blocks whose bitmap is not even looked at: what fast commits name is kept, whatever it says.

use std::collections::BTreeSet;

use super::super::blocks::Blocks;
use super::super::groups::Group;
use super::super::superblock::{AT as SUPERBLOCK, LEN};
use super::*;
use crate::budget::Budget;
use crate::image::Session;

const BLOCK: usize = 1024;
/// The block of the inode table: 8 inodes of 128 bytes.
const TABLE: usize = 5;

/// A superblock without any feature but `incompat`.
fn superblock(incompat: u32, log_cluster: u32) -> Superblock {
    let mut bytes = vec![0; LEN];
    let ro_compat: u32 = if log_cluster > 0 { 0x200 } else { 0 };
    let (first, group) = (u32::from(log_cluster == 0), 8192 << log_cluster);
    let fields: [(usize, u32); 13] = [
        (0x00, 8),
        (0x04, 64),
        (0x14, first),
        (0x18, 0),
        (0x1c, log_cluster),
        (0x20, group),
        (0x24, 8192),
        (0x28, 8),
        (0x38, 0x1_ef53),
        (0x4c, 1),
        (0x54, 11),
        (0x58, 128),
        (0x60, incompat),
    ];
    for (at, value) in fields.into_iter().chain([(0x64, ro_compat)]) {
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    Superblock::parse(&bytes, 64 * BLOCK as u64).unwrap()
}

fn group() -> Group {
    Group {
        bitmap: 3,
        inode_bitmap: 4,
        inode_table: TABLE as u64,
        free: 50,
        bitmap_sum: 0,
        uninitialised: false,
        inodes: 0,
        free_inodes: 8,
        inode_bitmap_sum: 0,
        inodes_uninitialised: true,
    }
}

/// A node of a tree: its depth, and the entries of 12 bytes.
fn node(depth: u16, room: u16, entries: &[[u16; 6]]) -> Vec<u8> {
    let head = [0xf30a, entries.len() as u16, room, depth, 0, 0];
    [&[head][..], entries].concat().concat().iter().flat_map(|half| half.to_le_bytes()).collect()
}

/// Blocks from `start` on.
fn extent(start: u16, len: u16) -> [u16; 6] {
    [0, 0, len, 0, start, 0]
}

fn child(block: u16) -> [u16; 6] {
    [0, 0, block, 0, 0, 0]
}

/// An inode with this map.
fn inode(mode: u16, flags: u32, map: &[u8]) -> [u8; 128] {
    let mut inode = [0; 128];
    inode[..2].copy_from_slice(&mode.to_le_bytes());
    inode[0x20..0x24].copy_from_slice(&flags.to_le_bytes());
    inode[AT..AT + map.len()].copy_from_slice(map);
    inode
}

struct Image {
    bytes: Vec<u8>,
    commits: FastCommits,
    superblock: Superblock,
}

impl Image {
    fn new() -> Image {
        Image { bytes: vec![0; 64 * BLOCK], commits: FastCommits::default(), superblock: superblock(0, 0) }
    }

    fn of_inode(inode: [u8; 128]) -> Image {
        let mut image = Image::new();
        image.commits.inodes.push(inode);
        image
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// The blocks that are kept.
    fn kept(&self) -> Result<Vec<u64>, Refusal> {
        let session = Session::new(&self.bytes, Budget::for_image(1 << 20));
        let view = session.view();
        let blocks = Blocks::on_disk(&view, &self.superblock.layout);
        let groups = [group()];
        let used = used(&self.commits, &State { blocks: &blocks, groups: &groups }, &self.superblock)?;
        Ok((0..64).filter(|block| used.contains(block * BLOCK as u64)).collect())
    }
}

#[test]
fn ranges_are_kept_with_their_clusters() {
    assert_eq!(SUPERBLOCK, 1024);
    let mut image = Image::new();
    image.commits.ranges = vec![42..44, 30..31];
    assert_eq!(image.kept(), Ok(vec![30, 42, 43]));
    image.superblock = superblock(0, 2);
    assert_eq!(image.kept(), Ok(vec![28, 29, 30, 31, 40, 41, 42, 43]));
}

#[test]
fn the_map_and_the_attributes_of_a_synced_inode_are_kept() {
    let mut leaf = inode(0x8000, EXTENTS, &node(0, 4, &[extent(40, 2), extent(50, 0x8003)]));
    leaf[0x68] = 60;
    assert_eq!(Image::of_inode(leaf).kept(), Ok(vec![40, 41, 50, 51, 52, 60]));
    let outside = inode(0x8000, EXTENTS, &node(0, 4, &[extent(63, 2)]));
    assert!(Image::of_inode(outside).kept().is_err());
    assert!(Image::of_inode(inode(0x8000, EXTENTS, &[])).kept().is_err(), "no root");
}

#[test]
fn an_index_block_and_what_is_below_it_are_kept() {
    let mut image = Image::of_inode(inode(0x8000, EXTENTS, &node(2, 4, &[child(20)])));
    assert_eq!(image.kept(), Ok(vec![20]), "not written yet");
    let room = (BLOCK / 12 - 1) as u16;
    image.put(20 * BLOCK, &node(1, room, &[child(21), child(22)]));
    image.put(21 * BLOCK, &node(0, room, &[extent(40, 2)]));
    // A tree that leads into itself ends.
    image.put(22 * BLOCK, &node(1, room, &[child(20)]));
    assert_eq!(image.kept(), Ok(vec![20, 21, 22, 40, 41]));
}

#[test]
fn what_the_inode_table_has_of_a_named_inode_is_kept() {
    let mut image = Image::new();
    image.commits.named = BTreeSet::from([3]);
    assert_eq!(image.kept(), Ok(vec![]));
    // Deleted, and of a group that never had an inode: the replay continues with its map.
    let room = (BLOCK / 12 - 1) as u16;
    image.put(TABLE * BLOCK + 2 * 128, &inode(0, 0, &node(1, 4, &[child(20)])));
    assert!(image.kept().is_err(), "its tree is damaged");
    image.put(20 * BLOCK, &node(0, room, &[extent(40, 2)]));
    assert_eq!(image.kept(), Ok(vec![20, 40, 41]));
    for none in [0, 9, u32::MAX] {
        image.commits.named = BTreeSet::from([none]);
        assert!(image.kept().is_err(), "{none}");
    }
}

#[test]
fn inodes_without_blocks_are_accepted_and_old_maps_are_refused() {
    for mode in [0x1000, 0x2000, 0x6000, 0xc000] {
        assert_eq!(Image::of_inode(inode(mode, 0, &[1; 60])).kept(), Ok(vec![]), "{mode:#x}");
    }
    let mut link = inode(0xa000, 0, b"target");
    link[4] = 6;
    assert_eq!(Image::of_inode(link).kept(), Ok(vec![]));
    link[4] = 60;
    assert!(Image::of_inode(link).kept().is_err(), "a long link");
    for mode in [0, 0x4000, 0x8000] {
        let old = Image::of_inode(inode(mode, 0, &[]));
        assert!(matches!(old.kept(), Err(Refusal::Unsupported(_))), "{mode:#x}");
    }
    let mut inline = Image::of_inode(inode(0x8000, INLINE_DATA, b"data"));
    assert!(inline.kept().is_err(), "the filesystem has none");
    inline.superblock = superblock(0x8000, 0);
    assert_eq!(inline.kept(), Ok(vec![]));
}
