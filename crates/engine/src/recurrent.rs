//! The recurrent state of a running sequence: where it comes from, what it is saved for, and where snapshots of it are
//! taken.
//!
//! A state is changed in place by each row, so it can be copied only between two steps. A step's rows of a sequence
//! therefore end where a snapshot is wanted ([`LiveState::next_boundary`]); the model copies it after the step.

use crate::Forward;
use crate::blocks::{BlockTable, Reuse};
use crate::snapshots::Worth;
use crate::states::StateSlot;

/// Most places remembered where a sequence's text parts from others; there may be a snapshot at each.
const MAX_BRANCHES: usize = 8;

/// Distances between snapshots of one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SnapshotSpacing {
    /// A snapshot is taken every so many tokens of a prompt.
    pub(crate) every: usize,
    /// None is taken that spares fewer tokens, unless it costs no step of its own.
    pub(crate) least: usize,
}

/// Where snapshots are wanted: a spacing over blocks of a size; none without a prefix cache to keep them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SnapshotRules {
    pub(crate) spacing: SnapshotSpacing,
    pub(crate) block_tokens: usize,
}

/// The recurrent state of a running sequence.
#[derive(Debug)]
pub(crate) struct LiveState {
    slot: StateSlot,
    source: Source,
    /// For the state before proposed tokens, while a step computes some.
    saved: Option<StateSlot>,
    /// Tokens that were computed and have to be computed again, as the state was taken back.
    replays: usize,
    /// Tokens that the last snapshot found or taken is after, or 0.
    start: usize,
    /// Tokens that the snapshot spared, until it is copied.
    spared: usize,
    /// Ends of full blocks where other texts part from this one, in no order.
    branches: Vec<usize>,
    /// The block after which the last rolling snapshot was taken.
    rolling: Option<u32>,
    /// Whether a snapshot of the state as it is now is wanted.
    due: Option<Worth>,
    rules: Option<SnapshotRules>,
}

/// What a state has to become before its next row.
#[derive(Debug)]
enum Source {
    /// The state is as it should be.
    Ready,
    /// That of a sequence without tokens.
    Clear,
    /// A copy of this one.
    Snapshot(StateSlot),
}

impl LiveState {
    /// The state of a sequence without tokens.
    pub(crate) fn new(slot: StateSlot, rules: Option<SnapshotRules>) -> LiveState {
        LiveState {
            slot,
            source: Source::Clear,
            saved: None,
            replays: 0,
            start: 0,
            spared: 0,
            branches: Vec::new(),
            rolling: None,
            due: None,
            rules,
        }
    }

    /// A state that was a snapshot after `start` tokens and is not needed as one any more.
    pub(crate) fn taken_over(slot: StateSlot, start: usize, rules: Option<SnapshotRules>) -> LiveState {
        LiveState { source: Source::Ready, start, ..LiveState::new(slot, rules) }
    }

    /// The state's number in the model.
    pub(crate) fn number(&self) -> u32 {
        self.slot.number()
    }

    /// Whether a snapshot is still to be copied onto it.
    #[cfg(test)]
    pub(crate) fn is_pending(&self) -> bool {
        matches!(self.source, Source::Snapshot(_))
    }

    /// Tokens that have to be computed again.
    pub(crate) fn replays(&self) -> usize {
        self.replays
    }

    /// Takes what the prefix cache has of a sequence of which `computed` tokens were computed before.
    pub(crate) fn continue_from(&mut self, found: Reuse, computed: usize) {
        if let Some(snapshot) = found.state {
            self.source = Source::Snapshot(snapshot);
            self.start = found.computed;
            self.spared += found.computed - computed;
        }
        if found.matched > found.computed {
            self.parts_at(found.matched);
        }
    }

    /// Wants a snapshot after `tokens` tokens, where another text parts from this one.
    pub(crate) fn parts_at(&mut self, tokens: usize) {
        let room = self.branches.len() < MAX_BRANCHES && !self.branches.contains(&tokens);
        if room && self.spares_enough(tokens) {
            self.branches.push(tokens);
        }
    }

    /// Places past `computed` where other texts part from this one and a snapshot will be taken.
    pub(crate) fn branches_after(&self, computed: usize) -> impl Iterator<Item = usize> {
        self.branches.iter().copied().filter(move |at| *at > computed && self.spares_enough(*at))
    }

    /// The next place past `computed` where a snapshot is wanted, of a sequence with `prompt` tokens of prompt whose
    /// first `shareable` tokens the prefix cache takes.
    pub(crate) fn next_boundary(&self, computed: usize, prompt: usize, shareable: usize) -> usize {
        let Some(rules) = self.rules else { return usize::MAX };
        let interval = rules.every();
        let end = Some(rules.prompt_end(prompt)).filter(|at| *at > computed && self.spares_enough(*at));
        let next = (computed / interval + 1) * interval;
        let nearest = self.branches_after(computed).chain(end).chain([next]).min();
        nearest.filter(|at| *at <= shareable).unwrap_or(usize::MAX)
    }

    /// Most rows from `computed` on that do not pass the end of a block, where a rolling snapshot is wanted.
    pub(crate) fn rows_to_block_end(&self, computed: usize) -> usize {
        self.rules.map_or(usize::MAX, |rules| rules.block_tokens - computed % rules.block_tokens)
    }

    /// Notes that `computed` tokens of a sequence with `prompt` tokens of prompt are computed.
    pub(crate) fn reached(&mut self, computed: usize, prompt: usize) {
        let Some(rules) = self.rules.filter(|rules| computed.is_multiple_of(rules.block_tokens)) else {
            return;
        };
        self.due = if self.spares_enough(computed)
            && (computed == rules.prompt_end(prompt) || self.branches.contains(&computed))
        {
            Some(Worth::Kept)
        } else if computed > prompt {
            Some(Worth::Rolling)
        } else {
            computed.is_multiple_of(rules.every()).then_some(Worth::Interval)
        };
        self.branches.retain(|at| *at > computed);
    }

    /// Makes the state what it has to be before its next row, and saves it if proposed tokens follow. Returns the tokens
    /// that a snapshot spared, if one was copied.
    pub(crate) fn prepare<F: Forward + ?Sized>(&mut self, forward: &mut F) -> Option<usize> {
        let spared = match std::mem::replace(&mut self.source, Source::Ready) {
            Source::Ready => None,
            Source::Clear => {
                forward.clear_state(self.number());
                None
            }
            Source::Snapshot(snapshot) => {
                forward.copy_state(snapshot.number(), self.number());
                Some(std::mem::take(&mut self.spared))
            }
        };
        if let Some(saved) = &self.saved {
            forward.copy_state(self.number(), saved.number());
        }
        spared
    }

    /// Takes a snapshot into `table`'s blocks, of which `computed` tokens are computed, if one is wanted and a state can
    /// be had for it.
    pub(crate) fn take_snapshot<F: Forward + ?Sized>(
        &mut self,
        table: &BlockTable,
        computed: usize,
        forward: &mut F,
    ) {
        let Some(worth) = self.due.take() else { return };
        let rolling = self.rolling.filter(|_| worth == Worth::Rolling);
        let Some(slot) = table.snapshot_slot(computed, worth, rolling) else { return };
        forward.copy_state(self.number(), slot.number());
        let block = table.keep_state(computed, slot, worth);
        self.start = computed;
        if worth == Worth::Rolling {
            self.rolling = block;
        }
    }

    /// Uses `slot` to save the state in before the next step's rows.
    pub(crate) fn save_in(&mut self, slot: StateSlot) {
        self.saved = Some(slot);
    }

    /// Ends a step that computed `rows` rows after `before` tokens. Of all tokens that are computed now `known` are the
    /// sequence's own; if there are fewer than rows, the state becomes that before the step again. Returns how many
    /// tokens the state is after.
    pub(crate) fn settle(&mut self, before: usize, rows: usize, known: usize) -> usize {
        let saved = self.saved.take();
        self.replays = 0;
        if before + rows == known {
            return known;
        }
        match saved {
            Some(saved) => {
                self.slot = saved;
                self.replays = known.saturating_sub(before);
                before
            }
            None => {
                // The sequence ends, and its state is past its end.
                self.source = Source::Clear;
                known
            }
        }
    }

    /// The state, if it is that of the sequence's computed tokens.
    pub(crate) fn into_slot(self) -> Option<StateSlot> {
        matches!(self.source, Source::Ready).then_some(self.slot)
    }

    fn spares_enough(&self, at: usize) -> bool {
        self.rules.is_some_and(|rules| at >= self.start + rules.spacing.least)
    }
}

impl SnapshotRules {
    /// The interval in tokens: whole blocks.
    fn every(&self) -> usize {
        self.spacing.every.max(1).next_multiple_of(self.block_tokens)
    }

    /// The end of the last full block before the last token of a prompt of `prompt` tokens.
    fn prompt_end(&self, prompt: usize) -> usize {
        prompt.saturating_sub(1) / self.block_tokens * self.block_tokens
    }
}
