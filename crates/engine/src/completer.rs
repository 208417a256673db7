//! From a step's logits to tokens: scores prompts, samples what comes next, verifies proposals, and ends sequences.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::meter::Meter;
use crate::running::Running;
use crate::sample::SamplerScratch;
use crate::sequence::{Next, Sequence};
use crate::speculate::Speculator;
use crate::stats::{Counters, Watch};
use crate::{Error, FinishReason, Vocabulary};

/// Chooses the next tokens of sequences from logits, with the shared state for it: vocabulary, meter and scratch.
pub(crate) struct Completer {
    vocabulary: Arc<dyn Vocabulary>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) watch: Box<dyn Watch>,
    pub(crate) meter: Meter,
    scratch: SamplerScratch,
}

/// Logits `[rows, vocab]` of a step, consumed from the first row on.
pub(crate) struct LogitRows<'a> {
    left: &'a [f32],
    vocab: usize,
}

/// The result of a step for a sequence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Completed {
    /// Tokens added to the sequence.
    pub(crate) tokens: usize,
    pub(crate) next: Next,
}

impl<'a> LogitRows<'a> {
    pub(crate) fn new(left: &'a [f32], vocab: usize) -> LogitRows<'a> {
        LogitRows { left, vocab }
    }

    /// The first `rows` rows of a step's logits, and the others.
    pub(crate) fn split(all: &'a [f32], rows: usize, vocab: usize) -> (LogitRows<'a>, LogitRows<'a>) {
        let (first, others) = all.split_at(all.len().min(rows * vocab));
        (LogitRows::new(first, vocab), LogitRows::new(others, vocab))
    }

    /// The next `rows` rows, or as many as there are.
    fn take(&mut self, rows: usize) -> std::slice::ChunksExact<'a, f32> {
        let (own, left) = self.left.split_at((rows * self.vocab).min(self.left.len()));
        self.left = left;
        own.chunks_exact(self.vocab)
    }
}

impl Completer {
    pub(crate) fn new(
        vocabulary: Arc<dyn Vocabulary>,
        counters: Arc<Counters>,
        watch: Box<dyn Watch>,
        scratch: SamplerScratch,
    ) -> Completer {
        Completer { vocabulary, counters, watch, meter: Meter::default(), scratch }
    }

    pub(crate) fn vocabulary(&self) -> &Arc<dyn Vocabulary> {
        &self.vocabulary
    }

    /// Takes the sequence's rows of `logits`, whether they are needed or not: scores its prompt with the first ones,
    /// and samples with those of its last row and of its proposed tokens. `now` is when they were computed.
    pub(crate) fn complete(
        &mut self,
        running: &mut Running<Sequence>,
        logits: &mut LogitRows<'_>,
        speculator: &mut Speculator,
        now: Duration,
        clock: &dyn Fn() -> Duration,
    ) -> Result<Completed, Error> {
        let (scored, reaches_end) = (running.scored_rows().len(), running.reaches_end());
        let sampled = if reaches_end { 1 + running.speculation.proposal.len() } else { 0 };
        let (scored_rows, sampled_rows) = (logits.take(scored), logits.take(sampled));
        let rows = std::mem::take(&mut running.rows);
        if scored > 0 {
            let outcome = running.sequence.score(scored_rows);
            self.meter.charge(&mut running.sequence, clock(), &self.counters.times);
            outcome?;
        }
        if !reaches_end {
            running.computed += rows;
            return Ok(Completed { tokens: 0, next: Next::Continue });
        }
        let outcome = self.sample(running, rows, sampled_rows, speculator, now);
        self.meter.charge(&mut running.sequence, clock(), &self.counters.times);
        outcome
    }

    /// Samples a token from each of `logits` until one is not what was proposed there, or ends the answer. `rows` of the
    /// sequence were computed.
    fn sample<'a>(
        &mut self,
        running: &mut Running<Sequence>,
        rows: usize,
        mut logits: impl Iterator<Item = &'a [f32]>,
        speculator: &mut Speculator,
        now: Duration,
    ) -> Result<Completed, Error> {
        let Running { sequence, table, computed, speculation, state, .. } = running;
        let proposal = std::mem::take(&mut speculation.proposal);
        let (mut tokens, mut accepted) = (0, 0);
        let mut next = if !sequence.is_prompt_done() { self.end_prompt(sequence) } else { Next::Continue };
        while next == Next::Continue {
            let logits = logits.next().ok_or_else(|| Error::Model("fewer logits than rows".into()))?;
            next = sequence.advance(logits, self.vocabulary.as_ref(), &mut self.scratch, now)?;
            self.counters.generated_tokens.fetch_add(1, Relaxed);
            tokens += 1;
            if proposal.tokens().get(accepted) != sequence.tokens.last() {
                break;
            }
            accepted += 1;
        }
        let known = sequence.tokens.len() - 1;
        *computed = match state {
            Some(state) => state.settle(*computed, rows, known),
            None => known,
        };
        speculator.verified(speculation, &proposal, accepted, sequence.tokens.len());
        if !proposal.is_empty() {
            table.shrink_to(*computed);
            self.counters.proposed_tokens.fetch_add(proposal.len() as u64, Relaxed);
            self.counters.accepted_tokens.fetch_add(accepted as u64, Relaxed);
            self.counters.replayed_tokens.fetch_add((known - *computed) as u64, Relaxed);
            self.watch.verified(proposal.len(), accepted);
        }
        Ok(Completed { tokens, next })
    }

    /// The prompt is computed.
    fn end_prompt(&mut self, sequence: &mut Sequence) -> Next {
        if !sequence.warms {
            self.counters.prompt_tokens.fetch_add(sequence.prompt_len as u64, Relaxed);
            self.counters.cached_tokens.fetch_add(sequence.usage().cached_tokens as u64, Relaxed);
        }
        sequence.end_prompt()
    }

    /// Ends a sequence in any state: counts it, and sends the last event to its outbox. One that warms the prefix cache
    /// has neither.
    pub(crate) fn end(&self, sequence: &mut Sequence, outcome: Result<FinishReason, Error>, now: Duration) {
        if sequence.warms {
            return;
        }
        if sequence.is_new() {
            self.counters.leaves_queue(sequence.queued_tokens());
        }
        self.counters.count(outcome.as_ref().ok().copied());
        match outcome {
            Ok(reason) => sequence.finish(reason, now),
            Err(error) => sequence.fail(error, now),
        }
    }
}
