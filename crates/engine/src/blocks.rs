//! Allocation of KV blocks.
//!
//! A pool allocates numbered blocks; a [`BlockTable`] is one sequence's list of them in order of position and frees
//! them on drop. Several tables may share a block: the full blocks of equal prefixes, which are immutable (see
//! [`crate::prefix`]). Allocating and freeing are O(1) a block, except for the LRU order of the prefix cache. The block
//! freed last is allocated first, as it may still be in a CPU cache. The pool belongs to the engine's thread: `Rc`, no
//! lock.

use std::cell::RefCell;
use std::rc::Rc;

use crate::prefix::PrefixTree;

/// All blocks of one engine.
#[derive(Debug, Clone)]
pub(crate) struct BlockPool(Rc<RefCell<Blocks>>);

#[derive(Debug)]
struct Blocks {
    /// Free blocks: neither held nor cached. The last one is allocated next.
    free: Vec<u32>,
    /// Tables that hold a block, by block.
    holders: Vec<u32>,
    /// The prefix cache, if there is one.
    prefixes: Option<PrefixTree>,
    block_tokens: usize,
}

/// The blocks of one sequence.
#[derive(Debug)]
pub(crate) struct BlockTable {
    blocks: Vec<u32>,
    /// So many of them, from the first, are in the tree of prefixes.
    shared: usize,
    pool: BlockPool,
}

/// The pool has fewer free blocks than requested; nothing was allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfBlocks;

impl BlockPool {
    /// A pool without a prefix cache: freed blocks are not kept.
    pub(crate) fn new(total: usize, block_tokens: usize) -> BlockPool {
        let free = (0..total as u32).rev().collect();
        BlockPool(Rc::new(RefCell::new(Blocks {
            free,
            holders: vec![0; total],
            prefixes: None,
            block_tokens,
        })))
    }

    /// A pool with a prefix cache: freed full blocks are kept until their memory is needed.
    pub(crate) fn with_prefix_cache(total: usize, block_tokens: usize) -> BlockPool {
        let pool = BlockPool::new(total, block_tokens);
        pool.0.borrow_mut().prefixes = Some(PrefixTree::new(total, block_tokens));
        pool
    }

    /// Blocks that can be had: the free ones, and those that are only cached.
    pub(crate) fn free(&self) -> usize {
        self.0.borrow().available()
    }

    /// Blocks that tables hold.
    pub(crate) fn used(&self) -> usize {
        let blocks = self.0.borrow();
        blocks.holders.len() - blocks.available()
    }

    /// Cached blocks that no table holds.
    pub(crate) fn cached(&self) -> usize {
        self.0.borrow().prefixes.as_ref().map_or(0, PrefixTree::unused)
    }

    pub(crate) fn block_tokens(&self) -> usize {
        self.0.borrow().block_tokens
    }

    /// Blocks that `tokens` tokens fill.
    pub(crate) fn needed(&self, tokens: usize) -> usize {
        tokens.div_ceil(self.block_tokens())
    }

    /// A table without blocks.
    pub(crate) fn table(&self) -> BlockTable {
        BlockTable { blocks: Vec::new(), shared: 0, pool: self.clone() }
    }
}

impl Blocks {
    fn available(&self) -> usize {
        self.free.len() + self.prefixes.as_ref().map_or(0, PrefixTree::unused)
    }

    /// A block for one holder. The caller has checked that there is one.
    fn take(&mut self) -> Option<u32> {
        let block = self.free.pop().or_else(|| self.prefixes.as_mut().and_then(PrefixTree::evict))?;
        self.holders[block as usize] = 1;
        Some(block)
    }

    /// Adds a holder to a cached block.
    fn hold(&mut self, block: u32) {
        self.holders[block as usize] += 1;
        if let Some(prefixes) = &mut self.prefixes {
            prefixes.acquire(block);
        }
    }

    fn release(&mut self, block: u32) {
        let holders = &mut self.holders[block as usize];
        *holders -= 1;
        if *holders > 0 {
            return;
        }
        match &mut self.prefixes {
            Some(prefixes) if prefixes.contains(block) => prefixes.release(block),
            _ => self.free.push(block),
        }
    }
}

impl BlockTable {
    /// Takes blocks until `tokens` tokens fit in all, or takes nothing.
    pub(crate) fn grow_to(&mut self, tokens: usize) -> Result<(), OutOfBlocks> {
        let more = self.pool.needed(tokens).saturating_sub(self.blocks.len());
        let mut pool = self.pool.0.borrow_mut();
        if pool.available() < more {
            return Err(OutOfBlocks);
        }
        self.blocks.extend((0..more).map_while(|_| pool.take()));
        Ok(())
    }

    /// Gives back the blocks that the first `tokens` tokens do not need.
    pub(crate) fn shrink_to(&mut self, tokens: usize) {
        let keep = self.pool.needed(tokens).min(self.blocks.len());
        let mut pool = self.pool.0.borrow_mut();
        self.shared = self.shared.min(keep);
        // The end first, so that a prefix counts as used later than what follows it.
        self.blocks.drain(keep..).rev().for_each(|block| pool.release(block));
    }

    /// Takes cached blocks that hold what comes next in `tokens`, of which `computed` are in this table's
    /// blocks, all full ones shared. At least one token is left to be computed. Returns how many are in blocks now.
    pub(crate) fn reuse(&mut self, tokens: &[u32], computed: usize, salt: u64) -> usize {
        let mut pool = self.pool.0.borrow_mut();
        let block_tokens = pool.block_tokens;
        if computed / block_tokens != self.shared {
            return computed;
        }
        while let Some(chunk) = chunk(tokens, self.shared, block_tokens) {
            let last = tokens.len() <= (self.shared + 1) * block_tokens;
            let found = pool.prefixes.as_ref().and_then(|p| p.find(self.parent(), salt, chunk));
            let Some(block) = found.filter(|_| !last) else { break };
            pool.hold(block);
            match self.blocks.get_mut(self.shared) {
                Some(own) => pool.release(std::mem::replace(own, block)),
                None => self.blocks.push(block),
            }
            self.shared += 1;
        }
        computed.max(self.shared * block_tokens)
    }

    /// Adds the full blocks of the first `computed` of `tokens` to the prefix cache. Where the cache has an equal
    /// block, the table takes that and frees its own.
    pub(crate) fn share(&mut self, tokens: &[u32], computed: usize, salt: u64) {
        let mut pool = self.pool.0.borrow_mut();
        let block_tokens = pool.block_tokens;
        while let Some(chunk) = chunk(&tokens[..computed], self.shared, block_tokens) {
            let parent = self.parent();
            let own = self.blocks[self.shared];
            let Some(prefixes) = &mut pool.prefixes else { return };
            match prefixes.find(parent, salt, chunk) {
                Some(block) => {
                    pool.hold(block);
                    pool.release(own);
                    self.blocks[self.shared] = block;
                }
                None if prefixes.insert(own, parent, salt, chunk) => {}
                None => return,
            }
            self.shared += 1;
        }
    }

    pub(crate) fn blocks(&self) -> &[u32] {
        &self.blocks
    }

    /// The last block in the tree: what the next one follows.
    fn parent(&self) -> Option<u32> {
        self.shared.checked_sub(1).map(|last| self.blocks[last])
    }
}

/// The tokens of the `i`-th block, if they fill it.
fn chunk(tokens: &[u32], i: usize, block_tokens: usize) -> Option<&[u32]> {
    tokens.get(i * block_tokens..(i + 1) * block_tokens)
}

impl Drop for BlockTable {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Act {
        /// A sequence that begins with so many tokens of one of three texts.
        Open(usize, usize),
        Grow(usize, usize),
        Shrink(usize, usize),
        Drop(usize),
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            3 => (0usize..3, 0usize..40).prop_map(|(text, n)| Act::Open(text, n)),
            5 => (0usize..8, 0usize..40).prop_map(|(i, n)| Act::Grow(i, n)),
            2 => (0usize..8, 0usize..40).prop_map(|(i, n)| Act::Shrink(i, n)),
            2 => (0usize..8).prop_map(Act::Drop),
        ];
        prop::collection::vec(act, 0..200)
    }

    /// What a sequence would be: tokens, and how many are in its blocks.
    struct Held {
        tokens: Vec<u32>,
        computed: usize,
        salt: u64,
        table: BlockTable,
    }

    /// Texts that begin alike: 0 and 1 for 17 tokens; 2 is 0 under another salt.
    fn token(text: usize, position: usize) -> u32 {
        if text == 1 && position >= 17 { 1000 + position as u32 } else { position as u32 }
    }

    proptest! {
        /// Against the naive model: each block is free, remembered or held; those that several hold mean the same
        /// tokens to all of them; nothing that was computed is overwritten while it can be read; the counts say so.
        #[test]
        fn no_block_is_lost_or_shared_by_mistake(
            acts in acts(), total in 0usize..20, block_tokens in 1usize..5, remembers: bool,
        ) {
            let pool =
                if remembers { BlockPool::with_prefix_cache(total, block_tokens) } else { BlockPool::new(total, block_tokens) };
            // What is in the memory of each block, slot by slot: everything that its keys and values depend on.
            let mut memory: BTreeMap<(u32, usize), (u64, Vec<u32>)> = BTreeMap::new();
            let mut all: Vec<Held> = Vec::new();
            for act in acts {
                match act {
                    Act::Open(text, n) => {
                        let tokens: Vec<u32> = (0..n).map(|p| token(text, p)).collect();
                        let salt = u64::from(text == 2);
                        let mut table = pool.table();
                        let computed = table.reuse(&tokens, 0, salt);
                        prop_assert!(computed == 0 || computed < n);
                        prop_assert_eq!(computed, table.blocks().len() * block_tokens);
                        all.push(Held { tokens, computed, salt, table });
                    }
                    Act::Grow(i, n) if i < all.len() => {
                        let held = &mut all[i];
                        let to = n.min(held.tokens.len()).max(held.computed);
                        let before = held.table.blocks().to_vec();
                        let more = to.div_ceil(block_tokens).saturating_sub(before.len());
                        let fits = more <= pool.free();
                        prop_assert_eq!(held.table.grow_to(to).is_ok(), fits);
                        prop_assert!(held.table.blocks().starts_with(&before), "growing moves no block");
                        if fits {
                            for position in held.computed..to {
                                let at = (held.table.blocks()[position / block_tokens], position % block_tokens);
                                memory.insert(at, (held.salt, held.tokens[..=position].to_vec()));
                            }
                            held.computed = to;
                            held.table.share(&held.tokens, to, held.salt);
                        }
                    }
                    Act::Shrink(i, n) if i < all.len() => {
                        let held = &mut all[i];
                        held.computed = held.computed.min(n);
                        held.table.shrink_to(held.computed);
                        // A sequence never writes again what others may read.
                        held.computed = held.computed.max(held.table.shared * block_tokens);
                        prop_assert!(held.table.blocks().len() >= held.computed.div_ceil(block_tokens));
                    }
                    Act::Drop(i) if i < all.len() => drop(all.swap_remove(i)),
                    Act::Grow(..) | Act::Shrink(..) | Act::Drop(_) => {}
                }
                for held in &all {
                    for position in 0..held.computed {
                        let at = (held.table.blocks()[position / block_tokens], position % block_tokens);
                        prop_assert_eq!(&memory[&at], &(held.salt, held.tokens[..=position].to_vec()));
                    }
                }
                let distinct: BTreeSet<u32> = all.iter().flat_map(|h| h.table.blocks()).copied().collect();
                prop_assert!(distinct.iter().all(|b| (*b as usize) < total));
                prop_assert_eq!(pool.used(), distinct.len());
                prop_assert_eq!(pool.free() + pool.used(), total);
                prop_assert!(remembers || pool.cached() == 0);
            }
            drop(all);
            prop_assert_eq!(pool.free(), total);
            // All of it can be had again, remembered or not.
            prop_assert!(pool.table().grow_to(total * block_tokens).is_ok());
        }
    }

    fn fill(pool: &BlockPool, tokens: &[u32]) -> usize {
        let mut table = pool.table();
        let reused = table.reuse(tokens, 0, 0);
        table.grow_to(tokens.len()).unwrap();
        table.share(tokens, tokens.len(), 0);
        reused
    }

    #[test]
    fn what_was_used_last_stays_and_a_shared_beginning_outlives_its_ends() {
        let pool = BlockPool::with_prefix_cache(4, 2);
        let (first, second, third) = ([1, 2, 3, 4], [1, 2, 5, 6], [1, 2, 7, 8]);
        assert_eq!((fill(&pool, &first), fill(&pool, &second), fill(&pool, &third)), (0, 2, 2));
        assert_eq!((pool.cached(), pool.free()), (4, 4));
        // Takes one block: the end of `first` goes.
        assert_eq!(fill(&pool, &[9, 9]), 0);
        assert_eq!(fill(&pool, &[1, 2, 5, 6, 0]), 4, "the end of `second` was remembered, [9, 9] makes room");
        assert_eq!(fill(&pool, &[1, 2, 3, 4]), 2, "the beginning was never the oldest");
    }
}
