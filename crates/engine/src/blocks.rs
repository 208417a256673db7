//! Who holds which KV block.
//!
//! A pool hands out numbered blocks; a [`Table`] is one sequence's list of them in order of position and gives them
//! back when dropped. Taking and giving back are O(1) a block. The last freed is the first handed out again, as it may
//! still be in a cache. The pool lives on the engine's thread: `Rc`, no lock.

use std::cell::RefCell;
use std::rc::Rc;

/// All blocks of one engine.
#[derive(Debug, Clone)]
pub(crate) struct Pool(Rc<RefCell<Free>>);

#[derive(Debug)]
struct Free {
    /// Blocks nobody holds; the next one handed out is the last.
    stack: Vec<u32>,
    total: usize,
    block_tokens: usize,
}

/// The blocks of one sequence.
#[derive(Debug)]
pub(crate) struct Table {
    blocks: Vec<u32>,
    pool: Pool,
}

/// The pool has fewer free blocks than were asked for; nothing was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Short;

impl Pool {
    pub(crate) fn new(total: usize, block_tokens: usize) -> Pool {
        let stack = (0..total as u32).rev().collect();
        Pool(Rc::new(RefCell::new(Free { stack, total, block_tokens })))
    }

    pub(crate) fn free(&self) -> usize {
        self.0.borrow().stack.len()
    }

    pub(crate) fn used(&self) -> usize {
        let free = self.0.borrow();
        free.total - free.stack.len()
    }

    /// Blocks that `tokens` tokens fill.
    pub(crate) fn needed(&self, tokens: usize) -> usize {
        tokens.div_ceil(self.0.borrow().block_tokens)
    }

    /// A table without blocks.
    pub(crate) fn table(&self) -> Table {
        Table { blocks: Vec::new(), pool: self.clone() }
    }
}

impl Table {
    /// Makes room for `tokens` tokens in all, or takes nothing.
    pub(crate) fn grow_to(&mut self, tokens: usize) -> Result<(), Short> {
        let more = self.pool.needed(tokens).saturating_sub(self.blocks.len());
        let mut free = self.pool.0.borrow_mut();
        let left = free.stack.len().checked_sub(more).ok_or(Short)?;
        self.blocks.extend(free.stack.drain(left..).rev());
        Ok(())
    }

    /// Gives back the blocks that the first `tokens` tokens do not need.
    pub(crate) fn shrink_to(&mut self, tokens: usize) {
        let keep = self.pool.needed(tokens).min(self.blocks.len());
        self.pool.0.borrow_mut().stack.extend(self.blocks.drain(keep..).rev());
    }

    pub(crate) fn blocks(&self) -> &[u32] {
        &self.blocks
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.pool.0.borrow_mut().stack.extend(self.blocks.drain(..).rev());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Act {
        Open,
        Grow(usize, usize),
        Shrink(usize, usize),
        Drop(usize),
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            2 => Just(Act::Open),
            5 => (0usize..8, 0usize..40).prop_map(|(i, n)| Act::Grow(i, n)),
            2 => (0usize..8, 0usize..40).prop_map(|(i, n)| Act::Shrink(i, n)),
            2 => (0usize..8).prop_map(Act::Drop),
        ];
        prop::collection::vec(act, 0..200)
    }

    proptest! {
        /// Against the naive model: each block is free or in exactly one table, and the counts say so.
        #[test]
        fn no_block_is_lost_or_shared(acts in acts(), total in 0usize..20, block_tokens in 1usize..5) {
            let pool = Pool::new(total, block_tokens);
            let mut tables: Vec<Table> = Vec::new();
            for act in acts {
                match act {
                    Act::Open => tables.push(pool.table()),
                    Act::Grow(i, tokens) if i < tables.len() => {
                        let before = tables[i].blocks().to_vec();
                        let more = tokens.div_ceil(block_tokens).saturating_sub(before.len());
                        let fits = more <= pool.free();
                        prop_assert_eq!(tables[i].grow_to(tokens).is_ok(), fits);
                        let grown = if fits { more } else { 0 };
                        prop_assert_eq!(tables[i].blocks().len(), before.len() + grown);
                        prop_assert!(tables[i].blocks().starts_with(&before), "growing moves no block");
                    }
                    Act::Shrink(i, tokens) if i < tables.len() => {
                        let before = tables[i].blocks().to_vec();
                        tables[i].shrink_to(tokens);
                        let kept = before.len().min(tokens.div_ceil(block_tokens));
                        prop_assert_eq!(tables[i].blocks(), &before[..kept]);
                    }
                    Act::Drop(i) if i < tables.len() => drop(tables.swap_remove(i)),
                    Act::Grow(..) | Act::Shrink(..) | Act::Drop(_) => {}
                }
                let held: Vec<u32> = tables.iter().flat_map(|t| t.blocks()).copied().collect();
                let distinct: BTreeSet<u32> = held.iter().copied().collect();
                prop_assert_eq!(distinct.len(), held.len(), "no block is in two tables");
                prop_assert!(held.iter().all(|b| (*b as usize) < total));
                prop_assert_eq!(pool.used(), held.len());
                prop_assert_eq!(pool.free() + pool.used(), total);
            }
            drop(tables);
            prop_assert_eq!(pool.free(), total);
        }
    }
}
