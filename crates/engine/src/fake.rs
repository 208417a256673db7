//! A tiny model and vocabulary with predictable answers, for tests of this crate and of those that depend on it.
//!
//! The model keeps the tokens it is given in its KV slots and takes its logits from a hash of all tokens of the
//! sequence as it finds them through the block table. So a block that is lost, shared or overwritten changes the text.
//! With recurrent states, each is a chain of hashes over the tokens that it has taken, and a state that is not that of the
//! tokens in the blocks is an error.
//!
//! If it predicts further tokens, the hidden state of a row is such a chain too, and a prediction from that of another
//! position or text is an error.

use std::sync::Arc;

use crate::{Detokenizer, Forward, Rows, Vocabulary};

/// The fake model.
#[derive(Debug, Clone)]
pub struct FakeModel {
    /// Logits a row.
    pub vocab: usize,
    /// Tokens a sequence may have.
    pub context: usize,
    /// KV blocks.
    pub blocks: usize,
    /// Tokens a block.
    pub block_tokens: usize,
    /// From 0 to 1: how much the last two tokens alone decide what comes next. Such a model says again what it said
    /// after the same two, mostly, so that guesses come true now and then.
    pub habit: f32,
    /// Whether a token in a prompt counts as another than the same one in an answer: as [`FakeModel::in_prompt`] of it.
    pub prefill_numerics_differ: bool,
    /// Whether it has a block that predicts the token after the next, by the habit alone.
    pub predicts: bool,
    /// Whether a prediction is an error where the block has not seen every position before; so it is where no blocks are
    /// shared.
    pub follows_all: bool,
    states: Vec<FakeState>,
    slots: Vec<u32>,
    /// The token after that of each slot, as the block has seen it.
    followed: Vec<u32>,
    hidden: Vec<FakeHidden>,
    logits: Vec<f32>,
}

/// A recurrent state: how many tokens it has taken, and a hash of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct FakeState {
    tokens: usize,
    hash: u64,
}

/// The hidden state that a row of a step leaves.
#[derive(Debug, Clone, Copy)]
struct FakeHidden {
    state: FakeState,
    last: u32,
    /// Whether it is of a token that the sequence does not have yet.
    drafted: bool,
}

impl FakeState {
    /// The state after one more token.
    fn after(self, token: u32) -> FakeState {
        let hash = (self.hash ^ u64::from(token)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        FakeState { tokens: self.tokens + 1, hash: hash.wrapping_add(0x9e37_79b9) }
    }
}

/// Moves a sequence's recurrent state on by the token at `position`.
fn recur(states: &mut [FakeState], state: u32, position: usize, token: u32) -> Result<(), String> {
    let known = states.len();
    if known == 0 {
        return Ok(());
    }
    let state = states.get_mut(state as usize).ok_or_else(|| format!("state {state} of {known}"))?;
    if state.tokens != position {
        return Err(format!("a state after {} tokens at position {position}", state.tokens));
    }
    *state = state.after(token);
    Ok(())
}

impl FakeModel {
    /// A model with `blocks` blocks of `block_tokens` tokens.
    pub fn new(vocab: usize, context: usize, blocks: usize, block_tokens: usize) -> FakeModel {
        let slots = vec![u32::MAX; blocks * block_tokens];
        FakeModel {
            vocab,
            context,
            blocks,
            block_tokens,
            habit: 0.0,
            prefill_numerics_differ: false,
            predicts: false,
            follows_all: false,
            states: Vec::new(),
            followed: slots.clone(),
            slots,
            hidden: Vec::new(),
            logits: Vec::new(),
        }
    }

    /// The same model with `states` recurrent states.
    #[must_use]
    pub fn with_states(mut self, states: usize) -> FakeModel {
        // Of no sequence, until it is cleared or copied onto.
        self.states = vec![FakeState { tokens: usize::MAX, hash: 0 }; states];
        self
    }

    /// The slot of a sequence's position.
    fn slot(&self, blocks: &[u32], position: usize) -> Result<usize, String> {
        let block = blocks.get(position / self.block_tokens).copied();
        let block = block.ok_or_else(|| format!("no block for position {position}"))?;
        Ok(block as usize * self.block_tokens + position % self.block_tokens)
    }

    /// The slots of a sequence's first `count` positions.
    fn slots_of(&self, blocks: &[u32], count: usize) -> Result<Vec<usize>, String> {
        (0..count).map(|position| self.slot(blocks, position)).collect()
    }

    /// The hidden state from which position `position` of a sequence is predicted, if it is of that sequence.
    fn hidden_of(&self, from: usize, blocks: &[u32], position: usize) -> Result<FakeHidden, String> {
        let hidden = *self.hidden.get(from).ok_or_else(|| format!("no hidden state of row {from}"))?;
        let slots = self.slots_of(blocks, position + 1)?;
        let seen = slots.iter().map(|at| self.slots[*at]);
        let chain = seen.fold(FakeState::default(), |state, token| state.after(token));
        if hidden.state.tokens != position + 1 || (!hidden.drafted && hidden.state != chain) {
            return Err(format!("a hidden state after {} tokens at {position}", hidden.state.tokens));
        }
        let missed = slots.windows(2).any(|pair| self.followed[pair[0]] != self.slots[pair[1]]);
        if self.follows_all && !hidden.drafted && missed {
            return Err(format!("the block has not seen every position before {position}"));
        }
        Ok(hidden)
    }

    /// The value that stands for `token` in a prompt, in models that distinguish prompts from answers.
    pub fn in_prompt(token: u32) -> u32 {
        token | 1 << 31
    }

    /// The logits it gives after `tokens`, in -4..4, if `habit` is so large.
    pub fn logits_by_habit(tokens: &[u32], vocab: usize, habit: f32, out: &mut Vec<f32>) {
        let from = out.len();
        FakeModel::logits_after(tokens.iter().copied(), vocab, out);
        let mut usual = Vec::new();
        let last = tokens[tokens.len().saturating_sub(2)..].iter().copied();
        FakeModel::logits_after(last, vocab, &mut usual);
        for (logit, usual) in out[from..].iter_mut().zip(usual) {
            *logit += habit * (usual - *logit);
        }
    }

    /// The logits it gives after `tokens` without a habit: one of each sequence of tokens, in -4..4.
    pub fn logits_after(tokens: impl IntoIterator<Item = u32>, vocab: usize, out: &mut Vec<f32>) {
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for token in tokens {
            hash = (hash ^ u64::from(token)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        }
        out.extend((0..vocab as u64).map(|id| {
            let mut z = hash ^ id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            z = (z ^ (z >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
            z ^= z >> 32;
            (z >> 40) as f32 / (1u64 << 21) as f32 - 4.0
        }));
    }
}

impl Forward for FakeModel {
    fn vocab(&self) -> usize {
        self.vocab
    }

    fn context(&self) -> usize {
        self.context
    }

    fn blocks(&self) -> usize {
        self.blocks
    }

    fn block_tokens(&self) -> usize {
        self.block_tokens
    }

    fn prefill_numerics_differ(&self) -> bool {
        self.prefill_numerics_differ
    }

    fn states(&self) -> usize {
        self.states.len()
    }

    fn clear_state(&mut self, state: u32) {
        self.states[state as usize] = FakeState::default();
    }

    fn copy_state(&mut self, from: u32, to: u32) {
        self.states[to as usize] = self.states[from as usize];
    }

    fn predicts(&self) -> bool {
        self.predicts
    }

    fn predict(&mut self, rows: &Rows<'_>, from: &[usize]) -> Result<&[f32], String> {
        self.logits.clear();
        let mut wanted = rows.want.iter().copied().peekable();
        for sequence in rows.sequences {
            for (row, position) in sequence.rows.clone().zip(sequence.first_position..) {
                let token = rows.tokens[row];
                let hidden = self.hidden_of(from[row], sequence.blocks, position)?;
                let at = self.slot(sequence.blocks, position)?;
                self.followed[at] = token;
                if wanted.next_if_eq(&row).is_some() {
                    FakeModel::logits_by_habit(&[hidden.last, token], self.vocab, 1.0, &mut self.logits);
                    let state = hidden.state.after(token);
                    self.hidden[from[row]] = FakeHidden { state, last: token, drafted: true };
                }
            }
        }
        if from.len() != rows.tokens.len() || wanted.next().is_some() {
            return Err("rows that no sequence covers".into());
        }
        Ok(&self.logits)
    }

    fn forward(&mut self, rows: &Rows<'_>) -> Result<&[f32], String> {
        self.logits.clear();
        self.hidden.clear();
        let mut covered = 0;
        let mut wanted = rows.want.iter().copied().peekable();
        for sequence in rows.sequences {
            if sequence.rows.start != covered || sequence.rows.is_empty() {
                return Err(format!("rows {:?} do not follow row {covered}", sequence.rows));
            }
            covered = sequence.rows.end;
            for row in sequence.rows.clone() {
                let position = sequence.first_position + row - sequence.rows.start;
                let at = self.slot(sequence.blocks, position)?;
                let prompt = self.prefill_numerics_differ && row >= rows.decode_rows;
                let token = if prompt { FakeModel::in_prompt(rows.tokens[row]) } else { rows.tokens[row] };
                self.slots[at] = token;
                recur(&mut self.states, sequence.state, position, token)?;
                let wanted = wanted.next_if_eq(&row).is_some();
                if !wanted && !self.predicts {
                    continue;
                }
                let slots = self.slots_of(sequence.blocks, position + 1)?;
                let seen: Vec<u32> = slots.into_iter().map(|at| self.slots[at]).collect();
                let chain = seen.iter().fold(FakeState::default(), |state, token| state.after(*token));
                self.hidden.push(FakeHidden { state: chain, last: rows.tokens[row], drafted: false });
                if wanted {
                    if self.states.get(sequence.state as usize).is_some_and(|state| *state != chain) {
                        return Err(format!("the state at position {position} is of other tokens"));
                    }
                    FakeModel::logits_by_habit(&seen, self.vocab, self.habit, &mut self.logits);
                }
            }
        }
        if covered != rows.tokens.len() || wanted.next().is_some() {
            return Err("rows that no sequence covers".into());
        }
        Ok(&self.logits)
    }

    /// Writes all of the KV cache and changes all states, stopped or not.
    fn forward_unless(&mut self, rows: &Rows<'_>, stop: &dyn Fn() -> bool) -> Result<Option<&[f32]>, String> {
        let logits = self.forward(rows)?;
        Ok((!stop()).then_some(logits))
    }
}

/// The fake model with something done around each step: a delay, a check, an accident.
pub struct Around<F> {
    model: FakeModel,
    step: F,
    logits: Vec<f32>,
}

impl<F> Around<F>
where
    F: FnMut(&mut FakeModel, &Rows<'_>) -> Result<Vec<f32>, String> + Send,
{
    /// `step` computes in the model's place, mostly by asking it.
    pub fn new(model: FakeModel, step: F) -> Around<F> {
        Around { model, step, logits: Vec::new() }
    }
}

impl<F> Forward for Around<F>
where
    F: FnMut(&mut FakeModel, &Rows<'_>) -> Result<Vec<f32>, String> + Send,
{
    fn vocab(&self) -> usize {
        self.model.vocab
    }

    fn context(&self) -> usize {
        self.model.context
    }

    fn blocks(&self) -> usize {
        self.model.blocks
    }

    fn block_tokens(&self) -> usize {
        self.model.block_tokens
    }

    fn prefill_numerics_differ(&self) -> bool {
        self.model.prefill_numerics_differ
    }

    fn states(&self) -> usize {
        self.model.states()
    }

    fn clear_state(&mut self, state: u32) {
        self.model.clear_state(state);
    }

    fn copy_state(&mut self, from: u32, to: u32) {
        self.model.copy_state(from, to);
    }

    fn predicts(&self) -> bool {
        self.model.predicts
    }

    fn predict(&mut self, rows: &Rows<'_>, from: &[usize]) -> Result<&[f32], String> {
        self.model.predict(rows, from)
    }

    fn forward(&mut self, rows: &Rows<'_>) -> Result<&[f32], String> {
        self.logits = (self.step)(&mut self.model, rows)?;
        Ok(&self.logits)
    }

    /// As the model: stopped or not, the step is computed.
    fn forward_unless(&mut self, rows: &Rows<'_>, stop: &dyn Fn() -> bool) -> Result<Option<&[f32]>, String> {
        let logits = self.forward(rows)?;
        Ok((!stop()).then_some(logits))
    }
}

/// The fake vocabulary: token 0 ends an answer, the others are `a`, `b`, … `z`, `a`, ….
#[derive(Debug, Clone, Copy, Default)]
pub struct FakeVocabulary;

impl Vocabulary for FakeVocabulary {
    fn is_end(&self, id: u32) -> bool {
        id == 0
    }

    fn ends(&self) -> Vec<u32> {
        vec![0]
    }

    fn bytes(&self, id: u32) -> Vec<u8> {
        if id == 0 { Vec::new() } else { vec![b'a' + ((id - 1) % 26) as u8] }
    }

    fn detokenizer(self: Arc<Self>, _shown: &[u32]) -> Box<dyn Detokenizer> {
        Box::new(FakeVocabulary)
    }
}

impl Detokenizer for FakeVocabulary {
    fn push(&mut self, id: u32, out: &mut String) {
        out.extend(self.bytes(id).into_iter().map(char::from));
    }

    fn finish(&mut self, _out: &mut String) {}
}
