//! Which rows the next step computes.
//!
//! Continuous batching: each step takes one row of every sequence that decodes, then fills up with chunks of prompts,
//! shared evenly among those still in prefill, then admits from the queue, first come first served. KV blocks are taken
//! as a sequence grows. When none is free the youngest running sequence loses its blocks and goes back to the head of
//! the queue, to be computed again with what it has generated; the oldest always proceeds, and no sequence is longer
//! than the pool, so this ends. Recomputing changes no text, as a row's result does not depend on its batch.
//!
//! Plain data in, plain data out: no clock, no randomness, no model.

use std::collections::VecDeque;

use crate::blocks::{Pool, Table};
use crate::speculate::{Guess, Speculation};

/// What the scheduler needs to know of a sequence.
pub(crate) trait Length {
    /// Tokens it has, prompt and answer so far.
    fn len(&self) -> usize;
    /// It was running and lost its blocks.
    fn preempted(&mut self);
}

/// A sequence with blocks.
pub(crate) struct Running<S> {
    pub(crate) sequence: S,
    pub(crate) table: Table,
    /// Tokens whose keys and values are in its blocks.
    pub(crate) computed: usize,
    /// Rows of it in the current step, proposed tokens included.
    pub(crate) rows: usize,
    /// Tokens that may come next.
    pub(crate) guess: Guess,
}

/// How much fits in a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) max_running: usize,
    /// Most prefill rows in a step without decode rows.
    pub(crate) prefill_chunk: usize,
    /// Most prefill rows in a step with decode rows.
    pub(crate) prefill_beside_decode: usize,
    pub(crate) speculation: Speculation,
}

impl Bounds {
    /// Most rows a step can have.
    pub(crate) fn max_rows(&self) -> usize {
        // Nothing is proposed beside a prompt.
        let beside = self.prefill_chunk.max(self.prefill_beside_decode).max(self.speculation.max_rows());
        beside + self.max_running
    }

    /// Most rows of a step whose logits are wanted.
    pub(crate) fn max_logit_rows(&self) -> usize {
        self.max_running + self.speculation.max_rows()
    }
}

/// The queue, and those that run.
pub(crate) struct Scheduler<S> {
    pub(crate) waiting: VecDeque<S>,
    /// In order of admission, the oldest first.
    pub(crate) running: Vec<Running<S>>,
    pool: Pool,
    bounds: Bounds,
}

/// What a plan holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Rows in all; 0 only if there is nothing to do.
    pub(crate) rows: usize,
    /// Rows that each decode one token; as many as `rows` if there is no prompt among them.
    pub(crate) decoding: usize,
    /// Sequences that lost their blocks and went back to the queue.
    pub(crate) preempted: usize,
}

impl<S: Length> Running<S> {
    /// Tokens not yet computed: 1 when it decodes.
    fn left(&self) -> usize {
        self.sequence.len() - self.computed
    }

    /// Whether this step computes the row whose logits choose the next token.
    pub(crate) fn reaches_end(&self) -> bool {
        self.rows > 0 && self.rows == self.left() + self.guess.proposal.len()
    }
}

impl<S: Length> Scheduler<S> {
    pub(crate) fn new(pool: Pool, bounds: Bounds) -> Scheduler<S> {
        let running = Vec::with_capacity(bounds.max_running);
        Scheduler { waiting: VecDeque::new(), running, pool, bounds }
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Sets `rows` of every running sequence for the next step, with blocks for them.
    pub(crate) fn plan(&mut self) -> Plan {
        for running in &mut self.running {
            running.rows = 0;
        }
        let before = self.running.len();
        let decoding = self.plan_decode();
        let mut budget =
            if decoding > 0 { self.bounds.prefill_beside_decode } else { self.bounds.prefill_chunk };
        budget -= self.plan_prefill(budget);
        let preempted = before - self.running.len();
        self.admit(budget);
        Plan { rows: self.rows(), decoding, preempted }
    }

    /// Rows of the planned step.
    pub(crate) fn rows(&self) -> usize {
        self.running.iter().map(|r| r.rows).sum()
    }

    /// One row of each that decodes, the oldest first; preempts from the youngest end for blocks.
    fn plan_decode(&mut self) -> usize {
        let (mut i, mut decoding) = (0, 0);
        while i < self.running.len() {
            if self.running[i].left() == 1 && self.make_room(i, 1) {
                self.running[i].rows = 1;
                decoding += 1;
            }
            i += 1;
        }
        decoding
    }

    /// Shares the budget evenly among those in prefill; what one does not need goes to those after it.
    fn plan_prefill(&mut self, budget: usize) -> usize {
        let mut sharing = self.running.iter().filter(|r| r.left() > 1).count();
        let mut left = budget;
        let mut i = 0;
        while i < self.running.len() && left > 0 {
            let want = self.running[i].left();
            if want > 1 {
                let share = left.div_ceil(sharing.max(1)).min(want);
                sharing = sharing.saturating_sub(1);
                if self.make_room(i, share) {
                    self.running[i].rows = share;
                    left -= share;
                }
            }
            i += 1;
        }
        budget - left
    }

    /// Blocks for `rows` more rows of the i-th, at the cost of younger ones. False if it was the youngest itself and
    /// there is no room: then it waits, with its blocks, for an older one to end.
    fn make_room(&mut self, i: usize, rows: usize) -> bool {
        loop {
            let running = &mut self.running[i];
            if running.table.grow_to(running.computed + rows).is_ok() {
                return true;
            }
            if self.running.len() - 1 == i {
                return false;
            }
            self.preempt_youngest();
        }
    }

    fn preempt_youngest(&mut self) {
        if let Some(Running { mut sequence, table, .. }) = self.running.pop() {
            drop(table);
            sequence.preempted();
            self.waiting.push_front(sequence);
        }
    }

    /// Starts waiting sequences while there are rows, places and blocks for all of their tokens and, so that they do
    /// not take the last ones from those that run, one more block for each of these.
    fn admit(&mut self, mut budget: usize) {
        while budget > 0 && self.running.len() < self.bounds.max_running {
            let Some(next) = self.waiting.front() else { return };
            let needed = self.pool.needed(next.len() + 1);
            let reserve = self.running.len();
            if !self.running.is_empty() && needed + reserve > self.pool.free() {
                return;
            }
            let rows = next.len().min(budget);
            let mut table = self.pool.table();
            if table.grow_to(next.len()).is_err() {
                return;
            }
            let Some(sequence) = self.waiting.pop_front() else { return };
            self.running.push(Running { sequence, table, computed: 0, rows, guess: Guess::default() });
            budget -= rows;
        }
    }
}
