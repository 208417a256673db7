//! The order of a batch's requests in which beginnings that several of them share are computed once.
//!
//! The beginnings form a tree whose edges are blocks of bytes; walking it depth first puts requests side by side that share
//! the most. Among the branches of a node, those with the longest expected answer come first, so that at the end of a
//! batch short answers fill the machine.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;

/// Bytes of a block near the beginning: about 32 tokens.
const SMALL_BLOCK: usize = 128;
/// Up to here blocks are small.
const SMALL_UNTIL: usize = 16 << 10;
/// Bytes of a block after that, where long documents are.
const LARGE_BLOCK: usize = 4 << 10;
/// Bytes of a beginning that are looked at.
pub const MAX_BEGINNING: usize = 1 << 20;
/// Blocks that are remembered unless told otherwise: 256 MiB.
const DEFAULT_BLOCKS: usize = 32 << 20;

/// Bytes of prompts, and those of them that a request shares with the one before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reuse {
    /// All bytes.
    pub total: u64,
    /// Shared bytes.
    pub shared: u64,
}

impl Reuse {
    /// The share, in 0..=1.
    pub fn share(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.shared as f64 / self.total as f64 }
    }
}

/// The order of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The requests' numbers with their places from 0, in the order of the places.
    pub ranks: Vec<(u64, i64)>,
    /// What is shared in this order.
    pub reuse: Reuse,
    /// What would be shared in the order in which the requests were added.
    pub reuse_as_added: Reuse,
}

/// Finds the order of requests. It keeps a hash of each block, at most a sixteenth of the bytes it is given; requests
/// beyond its bound keep their order behind the others.
#[derive(Debug)]
pub struct Orderer {
    items: Vec<Item>,
    blocks_left: usize,
}

#[derive(Debug)]
struct Item {
    number: u64,
    expected_output: u64,
    bytes: usize,
    /// Hashes of the blocks; none if there was no room for them.
    blocks: Option<Box<[u64]>>,
}

impl Item {
    fn blocks(&self) -> &[u64] {
        self.blocks.as_deref().unwrap_or_default()
    }
}

impl Default for Orderer {
    fn default() -> Orderer {
        Orderer::with_blocks(DEFAULT_BLOCKS)
    }
}

impl Orderer {
    /// An orderer that remembers at most so many blocks, of 8 bytes each.
    pub fn with_blocks(most: usize) -> Orderer {
        Orderer { items: Vec::new(), blocks_left: most }
    }

    /// Adds a request by its number, the beginning of its prompt as text ([`crate::beginning()`]) and the number of tokens
    /// that its answer is expected to have.
    pub fn add(&mut self, number: u64, beginning: &[u8], expected_output: u64) {
        let hashes: Box<[u64]> = blocks(beginning).map(hash).collect();
        let left = self.blocks_left.checked_sub(hashes.len());
        let blocks = left.is_some().then_some(hashes);
        // Once full, it stays full: else short requests would be ordered and long ones not.
        self.blocks_left = left.unwrap_or(0);
        self.items.push(Item { number, expected_output, bytes: beginning.len(), blocks });
    }

    /// Requests so far.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The order of all requests that were added.
    pub fn finish(self) -> Order {
        let reuse_as_added = reuse(self.items.iter());
        let (mut known, unknown): (Vec<&Item>, Vec<&Item>) =
            self.items.iter().partition(|item| item.blocks.is_some());
        // Brings equal beginnings together; which of two different blocks comes first is decided below.
        known.sort_by(|a, b| a.blocks().cmp(b.blocks()).then(a.number.cmp(&b.number)));
        let mut order = Vec::with_capacity(self.items.len());
        walk(&known, 0, &mut order);
        order.extend(unknown);
        let reuse = reuse(order.iter().copied());
        let ranks = order.iter().zip(0..).map(|(item, rank)| (item.number, rank)).collect();
        Order { ranks, reuse, reuse_as_added }
    }
}

/// Appends the requests of a node, whose first `depth` blocks are equal, in the order of the walk. The recursion is at most
/// as deep as a beginning has blocks.
fn walk<'a>(items: &[&'a Item], depth: usize, order: &mut Vec<&'a Item>) {
    let (Some(first), Some(last)) = (items.first(), items.last()) else { return };
    // The items are sorted: what the first and the last share, all share.
    let depth = depth + common(&first.blocks()[depth..], &last.blocks()[depth..]);
    let mut branches: Vec<&[&Item]> = items
        .chunk_by(|a, b| a.blocks().get(depth).is_some() && a.blocks().get(depth) == b.blocks().get(depth))
        .collect();
    branches.sort_by_cached_key(|branch| {
        let longest = branch.iter().map(|item| item.expected_output).max();
        let earliest = branch.iter().map(|item| item.number).min();
        (std::cmp::Reverse(longest), earliest)
    });
    for branch in branches {
        match branch {
            [item] => order.push(item),
            _ => walk(branch, depth, order),
        }
    }
}

fn reuse<'a>(items: impl Iterator<Item = &'a Item>) -> Reuse {
    let mut reuse = Reuse::default();
    let mut before: &[u64] = &[];
    for item in items {
        let shared = block_end(common(before, item.blocks())).min(item.bytes);
        reuse.total = reuse.total.saturating_add(item.bytes as u64);
        reuse.shared = reuse.shared.saturating_add(shared as u64);
        before = item.blocks();
    }
    reuse
}

fn common(a: &[u64], b: &[u64]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Where the first `count` blocks end.
fn block_end(count: usize) -> usize {
    const SMALL_BLOCKS: usize = SMALL_UNTIL / SMALL_BLOCK;
    count.min(SMALL_BLOCKS) * SMALL_BLOCK + count.saturating_sub(SMALL_BLOCKS) * LARGE_BLOCK
}

/// The blocks of a beginning. The last one may be shorter.
fn blocks(beginning: &[u8]) -> impl Iterator<Item = &[u8]> {
    let seen = &beginning[..beginning.len().min(MAX_BEGINNING)];
    let (near, far) = seen.split_at(seen.len().min(SMALL_UNTIL));
    near.chunks(SMALL_BLOCK).chain(far.chunks(LARGE_BLOCK))
}

fn hash(block: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(block);
    hasher.write_usize(block.len());
    hasher.finish()
}

#[cfg(test)]
#[path = "prefix_tests.rs"]
mod tests;
