//! Running sequences with recurrent states, against a naive model of what is in each state.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use proptest::prelude::*;

use crate::blocks::BlockPool;
use crate::queue::QueueRank;
use crate::recurrent::{LiveState, SnapshotRules, SnapshotSpacing};
use crate::running::{Running, SchedulerSequence, StepBudget};
use crate::speculate::guess::SpeculationState;
use crate::{Caller, Forward, Rows};

/// A text that is computed; its first `prompt` tokens are a prompt.
struct Text {
    /// Which of the texts it is.
    number: usize,
    tokens: Vec<u32>,
    prompt: usize,
    salt: u64,
    differs: bool,
}

impl SchedulerSequence for Text {
    fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    fn caller(&self) -> Caller {
        Caller::default()
    }

    fn rank(&self) -> QueueRank {
        let (caller, tokens) = (Caller::default(), self.tokens.len());
        QueueRank { caller, resumes: false, tokens, answer: 0, since: Duration::ZERO }
    }

    fn salt(&self) -> u64 {
        self.salt
    }

    fn preempted(&mut self) {}

    fn prompt_len(&self) -> usize {
        self.prompt
    }

    fn shareable_tokens(&self) -> &[u32] {
        if self.differs { &self.tokens[..self.prompt] } else { &self.tokens }
    }

    fn reused(&mut self, _tokens: usize) {}

    fn unscored_positions(&self) -> Range<usize> {
        0..0
    }
}

/// What each state is after: a salt and tokens. None is nothing in particular.
struct Memory(Vec<Option<(u64, Vec<u32>)>>);

impl Forward for Memory {
    fn vocab(&self) -> usize {
        1
    }

    fn context(&self) -> usize {
        1
    }

    fn blocks(&self) -> usize {
        1
    }

    fn block_tokens(&self) -> usize {
        1
    }

    fn clear_state(&mut self, state: u32) {
        self.0[state as usize] = Some((0, Vec::new()));
    }

    fn copy_state(&mut self, from: u32, to: u32) {
        self.0[to as usize] = self.0[from as usize].clone();
    }

    fn forward(&mut self, _rows: &Rows<'_>) -> Result<&[f32], String> {
        Err("nothing is computed".into())
    }
}

#[derive(Debug, Clone)]
enum Act {
    /// A sequence that begins with so many tokens of one of four texts.
    Open(usize, usize),
    /// A step with at most so many rows of a prompt, or one row of an answer.
    Step(usize, usize),
    /// A step with so many proposed tokens, of which so many are right.
    Guess(usize, usize, usize),
    /// The sequence ends or is preempted.
    Leave(usize),
    /// The sequence fails.
    Fail(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        3 => (0usize..4, 1usize..40).prop_map(|(text, n)| Act::Open(text, n)),
        8 => (0usize..6, 1usize..20).prop_map(|(i, n)| Act::Step(i, n)),
        4 => (0usize..6, 1usize..6, 0usize..6).prop_map(|(i, n, right)| Act::Guess(i, n, right)),
        2 => (0usize..6).prop_map(Act::Leave),
        1 => (0usize..6).prop_map(Act::Fail),
    ];
    prop::collection::vec(act, 0..150)
}

/// Texts that begin alike: 0 and 1 for 9 tokens, 0 and 3 for 17; 2 is 0 under another salt.
fn token(text: usize, position: usize) -> u32 {
    let parts = [usize::MAX, 9, usize::MAX, 17][text];
    if position >= parts { (1000 * text + position) as u32 } else { position as u32 }
}

/// A pool, what is in its states, and the sequences that run.
struct World {
    pool: BlockPool,
    memory: Memory,
    rules: Option<SnapshotRules>,
    differs: bool,
    running: Vec<Running<Text>>,
}

impl World {
    fn new(
        states: usize,
        block_tokens: usize,
        spacing: SnapshotSpacing,
        caches: bool,
        differs: bool,
    ) -> World {
        let new = if caches { BlockPool::with_prefix_cache } else { BlockPool::new };
        World {
            pool: new(60, block_tokens).with_states(states),
            memory: Memory(vec![None; states]),
            rules: caches.then_some(SnapshotRules { spacing, block_tokens }),
            differs,
            running: Vec::new(),
        }
    }

    fn open(&mut self, text: usize, len: usize) {
        let tokens: Vec<u32> = (0..len).map(|position| token(text, position)).collect();
        let prompt = len.div_ceil(2).max(1);
        let salt = u64::from(text == 2);
        let text = Text { number: text, tokens, prompt, salt, differs: self.differs };
        let mut table = self.pool.table();
        let found = table.reuse(text.reusable(), 0, text.salt);
        let computed = found.computed;
        assert!(computed < len && found.matched >= computed && found.matched < len);
        assert_eq!(found.state.is_some(), computed > 0, "what is reused has a state");
        let Some(slot) = self.pool.take_state() else { return };
        if table.grow_to(len).is_err() {
            return;
        }
        let mut state = LiveState::new(slot, self.rules);
        state.continue_from(found, 0);
        let (speculation, state) = (SpeculationState::default(), Some(state));
        let mut opened = Running { sequence: text, table, computed, rows: 0, speculation, state };
        for other in &mut self.running {
            opened.part_from(&other.sequence, self.pool.block_tokens());
            other.part_from(&opened.sequence, self.pool.block_tokens());
        }
        self.running.push(opened);
    }

    /// One step with rows of the i-th; `proposed` tokens follow them, of which `right` are accepted.
    fn step(&mut self, i: usize, rows: usize, proposed: usize, right: usize) {
        let Some(running) = self.running.get_mut(i) else { return };
        if running.is_prefill() {
            running.reuse_cached_blocks();
        }
        if running.uncomputed() == 0 {
            return;
        }
        if running.is_prefill() {
            running.plan_rows(&mut StepBudget { rows, logits: 8 });
        } else {
            running.rows = running.uncomputed();
        }
        let known = running.sequence.tokens.len();
        let room = if running.is_prefill() || !running.is_generated() { 0 } else { running.proposal_room() };
        let mut proposed = proposed.min(room);
        if running.table.grow_to(running.computed + running.rows + proposed).is_err() {
            return;
        }
        if proposed > 0 && !running.find_state_to_save_in() {
            proposed = 0;
        }
        running.rows += proposed;
        running.prepare_state(&mut self.memory);
        self.compute(i, proposed, right.min(proposed), known);
    }

    /// Computes the planned rows and takes their outcome.
    fn compute(&mut self, i: usize, proposed: usize, right: usize, known: usize) {
        let running = &mut self.running[i];
        let (before, rows) = (running.computed, std::mem::take(&mut running.rows));
        let Text { tokens, salt, number, .. } = &mut running.sequence;
        let text = *number;
        let state = running.state.as_mut().expect("made with one");
        let content = self.memory.0[state.number() as usize].as_mut().expect("a state that was prepared");
        if content.1.is_empty() {
            content.0 = *salt;
        }
        assert_eq!(content, &(*salt, tokens[..before].to_vec()), "a state of other tokens");
        let mut after = tokens[..(before + rows - proposed)].to_vec();
        let ends = after.len() == known;
        let tail = (0..proposed).map(|at| if at < right { token(text, known + at) } else { 77_777 });
        after.extend(tail);
        content.1 = after;
        if ends {
            // What was right, and one more that the sampler chose.
            (0..=right).for_each(|at| tokens.push(token(text, known + at)));
            running.computed = state.settle(before, rows, tokens.len() - 1);
        } else {
            running.computed += rows;
        }
        running.table.shrink_to(running.computed.max(tokens.len() - 1));
        running.share_blocks();
        running.take_snapshot(&mut self.memory);
    }

    fn check(&self) {
        let live = self.running.len();
        let pending =
            self.running.iter().filter(|r| r.state.as_ref().is_some_and(LiveState::is_pending)).count();
        let (used, snapshots) = (self.pool.states_used(), self.pool.snapshots());
        assert!(used >= live + snapshots, "{used} states of {live} and {snapshots}");
        assert!(
            used <= live + snapshots + pending,
            "{used} states of {live}, {snapshots} and {pending} pending"
        );
        assert!(used <= self.memory.0.len());
    }
}

proptest! {
    /// Against the naive model: a state is only ever gone on from after the very tokens that it has taken; none is lost;
    /// there are never more than there are.
    #[test]
    fn no_state_is_used_for_other_tokens_and_none_leaks(
        acts in acts(), states in 1usize..9, block_tokens in 1usize..5, every in 1usize..12, least in 0usize..8,
        caches in prop::bool::weighted(0.8), differs: bool,
    ) {
        let mut world = World::new(states, block_tokens, SnapshotSpacing { every, least }, caches, differs);
        for act in acts {
            match act {
                Act::Open(text, len) => world.open(text, len),
                Act::Step(i, rows) => world.step(i, rows, 0, 0),
                Act::Guess(i, proposed, right) => world.step(i, 4, proposed, right),
                Act::Leave(i) if i < world.running.len() => world.running.swap_remove(i).leave_state(),
                Act::Fail(i) if i < world.running.len() => drop(world.running.swap_remove(i)),
                Act::Leave(_) | Act::Fail(_) => {}
            }
            world.check();
        }
        world.running.clear();
        prop_assert_eq!(world.pool.states_used(), world.pool.snapshots());
        prop_assert!(caches || world.pool.snapshots() == 0);
        // All of them can be had again, and a snapshot goes with its block.
        let all: Vec<_> = (0..states).map_while(|_| world.pool.take_state()).collect();
        prop_assert_eq!((all.len(), world.pool.snapshots()), (states, 0));
        drop(all);
        prop_assert_eq!(world.pool.states_used(), 0);
    }
}

const SPACING: SnapshotSpacing = SnapshotSpacing { every: 64, least: 0 };

fn read(world: &mut World, text: usize, len: usize) -> usize {
    world.open(text, len);
    let at = world.running.len() - 1;
    let reused = world.running[at].computed;
    while world.running[at].uncomputed() > 1 {
        world.step(at, 64, 0, 0);
    }
    world.running.pop().expect("it was opened").leave_state();
    reused
}

#[test]
fn texts_that_part_are_computed_once_up_to_there_from_the_third_on() {
    let mut world = World::new(8, 4, SPACING, true, false);
    assert_eq!(read(&mut world, 0, 60), 0);
    assert_eq!(read(&mut world, 3, 60), 0, "the blocks match up to token 16, where no state is known");
    assert_eq!(read(&mut world, 3, 24), 16, "the state was kept where they part");
}

#[test]
fn a_snapshot_goes_with_its_block() {
    let mut world = World::new(8, 4, SPACING, true, false);
    read(&mut world, 0, 40);
    assert!(world.pool.snapshots() > 0);
    let mut table = world.pool.table();
    table.grow_to(world.pool.free() * 4).expect("all blocks");
    assert_eq!((world.pool.snapshots(), world.pool.states_used()), (0, 0));
}

#[test]
fn intervals_are_where_they_are_for_every_text() {
    let spacing = SnapshotSpacing { every: 10, least: 100 };
    let mut world = World::new(8, 4, spacing, true, false);
    world.open(0, 80);
    while world.running[0].is_prefill() && world.running[0].computed < 36 {
        let before = world.running[0].computed;
        world.step(0, 64, 0, 0);
        assert_eq!(world.running[0].computed, (before / 12 + 1) * 12, "whole blocks");
    }
    let found: BTreeMap<usize, bool> =
        (1..10).map(|block| (block * 4, world.running[0].table.take_snapshot(block * 4).is_some())).collect();
    assert!(found.iter().all(|(at, has)| *has == at.is_multiple_of(12)), "{found:?}");
}
