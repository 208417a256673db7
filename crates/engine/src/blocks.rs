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
use crate::snapshots::{Snapshots, Worth};
use crate::states::{StateSlot, StateSlots};

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
    /// Recurrent states after blocks of the prefix cache; of none for a model without recurrent layers.
    snapshots: Snapshots,
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

/// What the prefix cache has of a sequence.
#[derive(Debug)]
pub(crate) struct Reuse {
    /// Tokens, from the first, that need not be computed.
    pub(crate) computed: usize,
    /// Tokens, from the first, whose blocks are in the tree: for a model with recurrent layers often more than can be
    /// used, as a state to go on from is missing.
    pub(crate) matched: usize,
    /// The recurrent state after `computed` tokens, if those are more than before.
    pub(crate) state: Option<StateSlot>,
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
            snapshots: Snapshots::new(StateSlots::new(0)),
            block_tokens,
        })))
    }

    /// A pool with a prefix cache: freed full blocks are kept until their memory is needed.
    pub(crate) fn with_prefix_cache(total: usize, block_tokens: usize) -> BlockPool {
        let pool = BlockPool::new(total, block_tokens);
        pool.0.borrow_mut().prefixes = Some(PrefixTree::new(total, block_tokens));
        pool
    }

    /// The same pool with `total` recurrent states, which running sequences and snapshots share.
    pub(crate) fn with_states(self, total: usize) -> BlockPool {
        self.0.borrow_mut().snapshots = Snapshots::new(StateSlots::new(total));
        self
    }

    /// Whether freed blocks are kept.
    pub(crate) fn has_prefix_cache(&self) -> bool {
        self.0.borrow().prefixes.is_some()
    }

    /// Recurrent states there are.
    pub(crate) fn states(&self) -> usize {
        self.0.borrow().snapshots.slots().total()
    }

    /// Recurrent states that somebody holds, snapshots included.
    #[cfg(test)]
    pub(crate) fn states_used(&self) -> usize {
        self.0.borrow().snapshots.slots().used()
    }

    /// Snapshots of recurrent states.
    pub(crate) fn snapshots(&self) -> usize {
        self.0.borrow().snapshots.len()
    }

    /// A recurrent state, at the cost of a snapshot if need be.
    pub(crate) fn take_state(&self) -> Option<StateSlot> {
        self.0.borrow_mut().snapshots.take_slot()
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
        let block = self.free.pop().or_else(|| self.evict())?;
        self.holders[block as usize] = 1;
        Some(block)
    }

    /// The cached block that goes first; the snapshot after it goes with it.
    fn evict(&mut self) -> Option<u32> {
        let block = self.prefixes.as_mut()?.evict()?;
        self.snapshots.remove(block);
        Some(block)
    }

    /// The block in the tree with the `index`-th block of `tokens`, after the block `parent`. At least one token is left.
    fn cached(&self, tokens: &[u32], index: usize, parent: Option<u32>, salt: u64) -> Option<u32> {
        let chunk = chunk(tokens, index, self.block_tokens)?;
        let is_last = tokens.len() <= (index + 1) * self.block_tokens;
        self.prefixes.as_ref()?.find(parent, salt, chunk).filter(|_| !is_last)
    }

    /// How many of the blocks of `tokens` are in the tree, from the first on, of which `known` are known to be, the last
    /// of them `parent`; and how many there are up to the last one with a snapshot. At least one token is left.
    fn matching(&self, tokens: &[u32], known: usize, parent: Option<u32>, salt: u64) -> (usize, usize) {
        let (mut matched, mut with_state, mut parent) = (known, known, parent);
        while let Some(block) = self.cached(tokens, matched, parent, salt) {
            matched += 1;
            if self.snapshots.has(block) {
                with_state = matched;
            }
            parent = Some(block);
        }
        (matched, with_state)
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
    /// blocks, all full ones shared. At least one token is left to be computed. Where there are recurrent states, blocks
    /// are taken up to the last one that a state is known after: without it, those that follow are of no use.
    pub(crate) fn reuse(&mut self, tokens: &[u32], computed: usize, salt: u64) -> Reuse {
        let mut pool = self.pool.0.borrow_mut();
        let block_tokens = pool.block_tokens;
        if computed / block_tokens != self.shared {
            return Reuse { computed, matched: computed, state: None };
        }
        let recurrent = pool.snapshots.slots().total() > 0;
        let before = self.shared;
        let (matched, most) =
            if recurrent { pool.matching(tokens, before, self.parent(), salt) } else { (0, usize::MAX) };
        while self.shared < most {
            let Some(block) = pool.cached(tokens, self.shared, self.parent(), salt) else { break };
            pool.hold(block);
            match self.blocks.get_mut(self.shared) {
                Some(own) => pool.release(std::mem::replace(own, block)),
                None => self.blocks.push(block),
            }
            self.shared += 1;
        }
        let found = self.parent().filter(|_| self.shared > before);
        let computed = computed.max(self.shared * block_tokens);
        let state = found.and_then(|block| pool.snapshots.hold(block));
        Reuse { computed, matched: computed.max(matched * block_tokens), state }
    }

    /// A state for a snapshot after the first `computed` tokens, whose last block must be in the tree; none if there is
    /// such a snapshot, or no state can be had for it. The snapshot after the block `rolling` may become it.
    pub(crate) fn snapshot_slot(
        &self,
        computed: usize,
        worth: Worth,
        rolling: Option<u32>,
    ) -> Option<StateSlot> {
        let block = self.ending_at(computed)?;
        let snapshots = &mut self.pool.0.borrow_mut().snapshots;
        if snapshots.has(block) {
            snapshots.touch(block, worth);
            return None;
        }
        rolling.and_then(|block| snapshots.take_rolling(block)).or_else(|| snapshots.slot_for(worth))
    }

    /// Keeps a state as that after the first `computed` tokens, and returns the last block of those; frees the state if
    /// that block is not in the tree.
    pub(crate) fn keep_state(&self, computed: usize, slot: StateSlot, worth: Worth) -> Option<u32> {
        let block = self.ending_at(computed)?;
        self.pool.0.borrow_mut().snapshots.insert(block, slot, worth);
        Some(block)
    }

    /// Takes away the snapshot after the first `computed` tokens.
    pub(crate) fn take_snapshot(&self, computed: usize) -> Option<StateSlot> {
        let block = self.ending_at(computed)?;
        self.pool.0.borrow_mut().snapshots.remove(block)
    }

    /// A recurrent state, at the cost of a snapshot if need be.
    pub(crate) fn take_state(&self) -> Option<StateSlot> {
        self.pool.take_state()
    }

    /// The block in the tree whose last token is the `computed`-th.
    fn ending_at(&self, computed: usize) -> Option<u32> {
        let block_tokens = self.pool.block_tokens();
        let index = (computed / block_tokens).checked_sub(1)?;
        (computed.is_multiple_of(block_tokens) && index < self.shared).then(|| self.blocks[index])
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
                        let computed = table.reuse(&tokens, 0, salt).computed;
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
        let reused = table.reuse(tokens, 0, 0).computed;
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
