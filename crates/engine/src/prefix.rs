//! The prefix cache: which blocks hold which prefix of a text, so that equal prefixes are computed once.
//!
//! A tree with a node for each full block: its tokens, after those of its parent. A block's keys and values depend on
//! all tokens before them and on nothing else (batching changes no result), so a path from a root may be read by any
//! sequence that begins with the same tokens. Where the model tells prompts from answers
//! (`Forward::prefill_numerics_differ`), only blocks of prompts come here. Blocks in the tree are never written again.
//! Blocks that no sequence holds stay until their memory is wanted; then the leaf goes whose use is longest ago, so that
//! what many paths share goes last.
//!
//! The tree is bounded by the number of blocks, and its index by the same; a hash only finds a candidate, whose tokens
//! are then compared one by one.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};

/// The parent of a text's first block.
const ROOT: u32 = u32::MAX;

/// The tree over a pool's blocks.
#[derive(Debug)]
pub(crate) struct PrefixTree {
    block_tokens: usize,
    /// One a block.
    nodes: Vec<Node>,
    /// `[blocks, block_tokens]`: what a block in the tree holds.
    tokens: Vec<u32>,
    /// Parent and hash of the tokens → block.
    index: HashMap<(u32, u64), u32>,
    /// Unheld blocks in the tree without children, the least recently used first.
    leaves: BTreeSet<(u64, u32)>,
    /// Unheld blocks in the tree.
    idle: usize,
    /// Counts uses.
    now: u64,
    hasher: RandomState,
}

#[derive(Debug, Clone, Copy, Default)]
struct Node {
    /// Whether the block is in the tree; the other fields are valid only then.
    known: bool,
    held: bool,
    parent: u32,
    hash: u64,
    children: u32,
    used: u64,
}

impl PrefixTree {
    pub(crate) fn new(blocks: usize, block_tokens: usize) -> PrefixTree {
        PrefixTree {
            block_tokens,
            nodes: vec![Node::default(); blocks],
            tokens: vec![0; blocks * block_tokens],
            index: HashMap::with_capacity(blocks),
            leaves: BTreeSet::new(),
            idle: 0,
            now: 0,
            hasher: RandomState::new(),
        }
    }

    /// Unheld blocks in the tree: all of them can be had by [`PrefixTree::evict`].
    pub(crate) fn unused(&self) -> usize {
        self.idle
    }

    /// Whether the tree has this block.
    pub(crate) fn contains(&self, block: u32) -> bool {
        self.nodes[block as usize].known
    }

    /// The block that holds `tokens` after those of `parent`; a text's first block is only that of the same `salt`.
    pub(crate) fn find(&self, parent: Option<u32>, salt: u64, tokens: &[u32]) -> Option<u32> {
        let (parent, hash) = self.key(parent, salt, tokens);
        let block = *self.index.get(&(parent, hash))?;
        (self.tokens_of(block) == tokens).then_some(block)
    }

    /// Takes a block that a sequence has filled into the tree, held. False if the place is taken by other tokens of the
    /// same hash: then it stays the sequence's own.
    pub(crate) fn insert(&mut self, block: u32, parent: Option<u32>, salt: u64, tokens: &[u32]) -> bool {
        let (parent, hash) = self.key(parent, salt, tokens);
        if self.index.contains_key(&(parent, hash)) {
            return false;
        }
        self.index.insert((parent, hash), block);
        self.now += 1;
        self.nodes[block as usize] =
            Node { known: true, held: true, parent, hash, children: 0, used: self.now };
        let at = block as usize * self.block_tokens;
        self.tokens[at..at + self.block_tokens].copy_from_slice(tokens);
        if let Some(parent) = self.nodes.get_mut(parent as usize) {
            parent.children += 1;
        }
        true
    }

    /// Somebody holds the block now, who did not before.
    pub(crate) fn acquire(&mut self, block: u32) {
        let node = &mut self.nodes[block as usize];
        if !node.held {
            node.held = true;
            self.idle -= 1;
            self.leaves.remove(&(node.used, block));
        }
    }

    /// Nobody holds the block any more.
    pub(crate) fn release(&mut self, block: u32) {
        self.now += 1;
        let node = &mut self.nodes[block as usize];
        (node.held, node.used) = (false, self.now);
        self.idle += 1;
        if node.children == 0 {
            self.leaves.insert((node.used, block));
        }
    }

    /// Evicts the least recently used leaf and returns its block.
    pub(crate) fn evict(&mut self) -> Option<u32> {
        let (_, block) = self.leaves.pop_first()?;
        self.idle -= 1;
        let Node { parent, hash, .. } = std::mem::take(&mut self.nodes[block as usize]);
        self.index.remove(&(parent, hash));
        if let Some(above) = self.nodes.get_mut(parent as usize) {
            above.children -= 1;
            if above.children == 0 && !above.held {
                self.leaves.insert((above.used, parent));
            }
        }
        Some(block)
    }

    fn tokens_of(&self, block: u32) -> &[u32] {
        let at = block as usize * self.block_tokens;
        &self.tokens[at..at + self.block_tokens]
    }

    fn key(&self, parent: Option<u32>, salt: u64, tokens: &[u32]) -> (u32, u64) {
        match parent {
            Some(parent) => (parent, self.hasher.hash_one(tokens)),
            None => (ROOT, self.hasher.hash_one((salt, tokens))),
        }
    }
}
