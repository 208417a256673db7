//! The engine's interface to a model and a tokenizer, as traits, so that tests can use fakes.

use std::sync::Arc;

pub use kernels::SeqRows as SequenceRows;

/// Rows of several sequences, computed together.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// One token a row.
    pub tokens: &'a [u32],
    /// The rows of each sequence, which cover `tokens` in order.
    pub sequences: &'a [SequenceRows<'a>],
    /// Rows whose logits are needed, ascending.
    pub want: &'a [usize],
    /// Rows of generated tokens, from the first. Those after them are of prompts.
    pub decode_rows: usize,
}

/// A model with its KV cache, and with its recurrent states if it has recurrent layers.
pub trait Forward: Send {
    /// Number of logits a row.
    fn vocab(&self) -> usize;
    /// Tokens that one sequence may have.
    fn context(&self) -> usize;
    /// Number of KV blocks; they are numbered from 0.
    fn blocks(&self) -> usize;
    /// Tokens a block holds.
    fn block_tokens(&self) -> usize;
    /// Whether a token's KV cache differs between prompt and answer: then what was generated is computed once more
    /// where it comes back as a prompt.
    fn prefill_numerics_differ(&self) -> bool {
        false
    }
    /// Number of recurrent states; they are numbered from 0. 0 for a model without recurrent layers.
    fn states(&self) -> usize {
        0
    }
    /// Sets a recurrent state to that of a sequence without tokens.
    fn clear_state(&mut self, _state: u32) {}
    /// Copies a recurrent state onto another.
    fn copy_state(&mut self, _from: u32, _to: u32) {}
    /// Computes the rows, writes their KV cache, returns logits `[want.len(), vocab]`. A row's result depends on its
    /// own sequence and on which of its tokens were generated, never on the rows around it. Changes the recurrent state
    /// of each sequence to that after its last row.
    fn forward(&mut self, rows: &Rows<'_>) -> Result<&[f32], String>;
    /// Whether the model has a block that predicts the token after the next, see [`Forward::predict`].
    fn predicts(&self) -> bool {
        false
    }
    /// Computes rows of that block: each has a position's next token, and `from` says which row of the last
    /// [`Forward::forward`] left the hidden state of that position. Writes the block's part of the KV cache, returns logits
    /// `[want.len(), vocab]` of the token after the next. The hidden state of a wanted row is replaced by the block's own,
    /// from which the next position may go on. Recurrent states stay as they are.
    fn predict(&mut self, _rows: &Rows<'_>, _from: &[usize]) -> Result<&[f32], String> {
        Err("the model has no block that predicts further tokens".into())
    }
    /// As [`Forward::forward`], unless `stop` becomes true meanwhile: then it may return none, having written any part of
    /// the rows' KV cache. Only for models without recurrent states.
    fn forward_unless(&mut self, rows: &Rows<'_>, stop: &dyn Fn() -> bool) -> Result<Option<&[f32]>, String> {
        let _ = stop;
        self.forward(rows).map(Some)
    }
}

/// Tokens as text.
pub trait Vocabulary: Send + Sync {
    /// Whether the token ends an answer.
    fn is_end(&self, id: u32) -> bool;
    /// All tokens that end an answer.
    fn ends(&self) -> Vec<u32>;
    /// The bytes of a token in text.
    fn bytes(&self, id: u32) -> Vec<u8>;
    /// A detokenizer for one answer. Control tokens among `shown` are part of its text.
    fn detokenizer(self: Arc<Self>, shown: &[u32]) -> Box<dyn Detokenizer>;
}

/// Converts tokens to text one by one, emitting whole characters only.
pub trait Detokenizer: Send {
    /// Appends the characters that `id` completes.
    fn push(&mut self, id: u32, out: &mut String);
    /// Appends what was held back.
    fn finish(&mut self, out: &mut String);
}
