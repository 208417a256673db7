//! Chunks, their logits, and what is summed over them.

use std::ops::Range;

use kernels::{BLOCK_TOKENS, Compute, KvDtype, KvPool, SeqRows};
use model::{Batch, Model, Scratch, Spec};
use text::{Special, Tokenizer};

use crate::{Failure, term};

/// Rows computed at once: enough to be fast, few enough that the logits of a large vocabulary stay small.
const PIECE: usize = 64;

/// A text cut into chunks that do not overlap.
pub(super) struct Chunks {
    tokens: Vec<u32>,
    bos: Option<u32>,
    context: usize,
    count: usize,
}

impl Chunks {
    /// # Errors
    /// A text shorter than two chunks: a figure from less would mean little (llama-perplexity's own rule).
    pub(super) fn new(
        tokenizer: &Tokenizer,
        text: &str,
        context: usize,
        most: Option<u64>,
    ) -> Result<Chunks, Failure> {
        let mut tokens = Vec::new();
        let bos = if tokenizer.adds_bos() { tokenizer.bos() } else { None };
        tokens.extend(bos);
        tokens.extend(tokenizer.encode(text, Special::Plain, false)?);
        Chunks::of(tokens, bos, context, most)
    }

    fn of(tokens: Vec<u32>, bos: Option<u32>, context: usize, most: Option<u64>) -> Result<Chunks, Failure> {
        if tokens.len() < 2 * context {
            return Err(Failure::new(format!(
                "the text has {}; with --context {context} at least {} are needed",
                term::number(tokens.len(), "token"),
                2 * context
            )));
        }
        let all = tokens.len() / context;
        let count = most.map_or(all, |most| all.min(usize::try_from(most).unwrap_or(usize::MAX)));
        Ok(Chunks { tokens, bos, context, count })
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Tokens of the whole text.
    pub(super) fn tokens(&self) -> usize {
        self.tokens.len()
    }

    /// Each chunk, its first token replaced by the beginning-of-text one if the model wants that.
    pub(super) fn iter(&self) -> impl Iterator<Item = Vec<u32>> {
        self.tokens.chunks_exact(self.context).take(self.count).map(|chunk| {
            let mut chunk = chunk.to_vec();
            if let Some(bos) = self.bos {
                chunk[0] = bos;
            }
            chunk
        })
    }

    /// Positions of a chunk in the order they are computed. The first half comes unscored; the logits of the second half
    /// but the last position predict what is scored.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Range<usize>> {
        let starts = (0..self.context).step_by(PIECE);
        let context = self.context;
        starts.map(move |start| start..context.min(start + PIECE))
    }
}

/// Positions of `piece` whose logits are scored, in a chunk of `context` tokens.
fn scored(piece: &Range<usize>, context: usize) -> Range<usize> {
    let start = piece.start.max(context / 2);
    start..piece.end.min(context - 1).max(start)
}

/// A model with room for one chunk.
pub(super) struct Runner {
    model: Model,
    kv: KvPool,
    scratch: Scratch,
    blocks: Vec<u32>,
}

impl Runner {
    pub(super) fn new(model: Model, context: usize, kv: KvDtype) -> Result<Runner, Failure> {
        let spec = &model.spec;
        let blocks = context.div_ceil(BLOCK_TOKENS);
        let (kv, scratch) = (spec.kv_pool(blocks, kv, 1)?, Scratch::new(spec, PIECE, PIECE));
        Ok(Runner { kv, scratch, blocks: (0..blocks as u32).collect(), model })
    }

    /// Memory it will take, in bytes.
    pub(super) fn bytes(spec: &Spec, weight_bytes: u64, context: usize, kv: KvDtype) -> u64 {
        spec.memory(weight_bytes, context, kv, PIECE, PIECE).total()
    }

    /// Computes the rows of `piece` after those before it; returns what its scored positions say.
    pub(super) fn run<'a>(
        &'a mut self,
        compute: &Compute,
        chunk: &[u32],
        piece: Range<usize>,
    ) -> Result<Vec<Row<'a>>, Failure> {
        let scored = scored(&piece, chunk.len());
        let want: Vec<usize> = scored.map(|position| position - piece.start).collect();
        if piece.start == 0 && self.model.spec.has_states() {
            self.kv.states_mut().clear(0);
        }
        let sequence = SeqRows::last(0..piece.len(), piece.start, &self.blocks).with_state(0);
        // The text is a prompt: nothing of it was generated.
        let (tokens, decode_rows) = (&chunk[piece.clone()], 0);
        let batch = Batch { tokens, sequences: &[sequence], want: &want, decode_rows };
        let logits = self.model.forward(compute, &batch, &mut self.kv, &mut self.scratch)?;
        rows(logits, self.model.spec.vocab, chunk, &piece)
    }
}

/// One scored position.
pub(super) struct Row<'a> {
    logits: &'a [f32],
    /// Logarithm of the softmax's denominator.
    log_total: f64,
    /// Negative log-likelihood of the token that did follow.
    nll: f64,
}

/// The scored positions of a piece, from their logits `[scored, vocab]`.
fn rows<'a>(
    logits: &'a [f32],
    vocab: usize,
    chunk: &[u32],
    piece: &Range<usize>,
) -> Result<Vec<Row<'a>>, Failure> {
    let positions = scored(piece, chunk.len());
    let one = |(position, logits): (usize, &'a [f32])| {
        let max = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let log_total = max + logits.iter().map(|l| (f64::from(*l) - max).exp()).sum::<f64>().ln();
        if !log_total.is_finite() {
            return Err(Failure::new(format!(
                "the logits of position {position} are not numbers: damaged weights?"
            )));
        }
        let next = chunk[position + 1] as usize;
        Ok(Row { logits, log_total, nll: log_total - f64::from(logits[next]) })
    };
    positions.zip(logits.chunks_exact(vocab)).map(one).collect()
}

impl Row<'_> {
    fn log_p(&self, id: usize) -> f64 {
        f64::from(self.logits[id]) - self.log_total
    }

    fn top(&self) -> usize {
        let best = |best: usize, id: usize| if self.logits[id] > self.logits[best] { id } else { best };
        (0..self.logits.len()).fold(0, best)
    }
}

/// Sums of negative log-likelihoods.
#[derive(Debug, Default)]
pub(super) struct Surprise {
    pub(super) count: usize,
    sum: f64,
    squares: f64,
}

impl Surprise {
    pub(super) fn add(&mut self, rows: &[Row<'_>]) {
        for row in rows {
            self.count += 1;
            self.sum += row.nll;
            self.squares += row.nll * row.nll;
        }
    }

    pub(super) fn mean(&self) -> f64 {
        self.sum / self.count as f64
    }

    pub(super) fn perplexity(&self) -> f64 {
        self.mean().exp()
    }

    /// Standard error of the perplexity, by the delta method as llama-perplexity has it.
    pub(super) fn error(&self) -> f64 {
        let variance = self.squares / self.count as f64 - self.mean() * self.mean();
        (variance.max(0.0) / (self.count as f64 - 1.0).max(1.0)).sqrt() * self.perplexity()
    }
}

/// How far one distribution is from the true one.
#[derive(Debug, Default)]
pub(super) struct Divergence {
    count: usize,
    sum: f64,
    /// The largest of one position.
    pub(super) largest: f64,
    same: usize,
}

impl Divergence {
    /// Kullback–Leibler divergence of `ours` from `truth`, Σ p ln(p / q), in nats.
    pub(super) fn add(&mut self, truth: &[Row<'_>], ours: &[Row<'_>]) {
        for (p, q) in truth.iter().zip(ours) {
            let one = |id: usize| p.log_p(id).exp() * (p.log_p(id) - q.log_p(id));
            let kl = (0..p.logits.len()).map(one).sum::<f64>();
            self.count += 1;
            self.sum += kl;
            self.largest = self.largest.max(kl);
            self.same += usize::from(p.top() == q.top());
        }
    }

    pub(super) fn mean(&self) -> f64 {
        self.sum / self.count as f64
    }

    /// Share of positions where both find the same token likeliest.
    pub(super) fn same_top(&self) -> f64 {
        self.same as f64 / self.count as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_half_but_its_last_position_is_scored() {
        // llama-perplexity scores n_ctx - n_ctx / 2 - 1 tokens of a chunk.
        for context in [8, 9, 100, 512, 513] {
            let chunks = Chunks::of(vec![1; 2 * context + 3], None, context, None).unwrap();
            assert_eq!(chunks.count(), 2);
            let positions: Vec<usize> = chunks.pieces().flat_map(|piece| scored(&piece, context)).collect();
            assert_eq!(positions, (context / 2..context - 1).collect::<Vec<_>>());
            let computed: Vec<usize> = chunks.pieces().flatten().collect();
            assert_eq!(computed, (0..context).collect::<Vec<_>>());
        }
    }

    #[test]
    fn each_chunk_begins_with_the_first_token_of_a_text() {
        let tokens: Vec<u32> = (10..40).collect();
        let chunks = Chunks::of(tokens, Some(1), 10, Some(2)).unwrap();
        let all: Vec<Vec<u32>> = chunks.iter().collect();
        assert_eq!(all.len(), 2);
        assert_eq!((all[0][..2].to_vec(), all[1][..2].to_vec()), (vec![1, 11], vec![1, 21]));
        assert!(Chunks::of(vec![1; 19], None, 10, None).is_err());
    }

    #[test]
    fn an_even_guess_among_four_has_perplexity_four() {
        let logits = vec![0.5; 4 * 3];
        let chunk = [0u32, 1, 2, 3, 0, 1, 2, 3];
        let rows = rows(&logits, 4, &chunk, &(0..8)).unwrap();
        assert_eq!(rows.len(), 3);
        let mut surprise = Surprise::default();
        surprise.add(&rows);
        assert!((surprise.perplexity() - 4.0).abs() < 1e-9 && surprise.error() < 1e-6);
        let mut divergence = Divergence::default();
        divergence.add(&rows, &rows);
        assert_eq!((divergence.mean(), divergence.same_top()), (0.0, 1.0));
    }

    #[test]
    fn divergence_of_two_known_distributions() {
        fn row(p: &[f32]) -> Row<'_> {
            Row { logits: p, log_total: 0.0, nll: 0.0 }
        }
        let (half, skew) = ([0.5f32.ln(); 2], [0.75f32.ln(), 0.25f32.ln()]);
        let mut divergence = Divergence::default();
        divergence.add(&[row(&skew)], &[row(&half)]);
        let expected = 0.75 * 1.5f64.ln() + 0.25 * 0.5f64.ln();
        assert!((divergence.mean() - expected).abs() < 1e-6);
    }

    #[test]
    fn what_is_no_number_is_an_error() {
        let logits = [0.0, f32::NAN, 0.0, 0.0];
        assert!(rows(&logits, 4, &[0; 4], &(2..3)).is_err());
    }
}
