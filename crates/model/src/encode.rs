//! An encoder's pass: the hidden states of every token of a ragged batch of texts, and the outputs of its heads.
//!
//! No row is padded, and no buffer grows with the square of a text's length. The batch is computed layer by layer:
//! queries, keys and values of all rows, then attention and feed-forward, in chunks of rows. So a text may be longer
//! than a chunk or than a step of the scheduler, and the caller can let others compute between two chunks. A row's
//! numbers depend on its own text only, whatever the batch, the chunks and the number of threads.

use crate::blocks::{Block, FeedWeights};
use crate::encode_scratch::{ChunkBuffers, EncodePass, Progress, RelativeScores, TextRows};
use crate::error::Error;
use crate::load::Model;
use crate::mlp::{MlpBuffers, feed_forward_without_bias};
use crate::qkv::qkv;
use crate::relative;
use crate::residual::{add_residual, norm, post_norm};
use crate::spec::{Direction, NormPlace, Spec};
use kernels::{AttentionParams, BLOCK_TOKENS, Compute, Mask, NO_STATE, ScoreBias, SeqRows};
use std::ops::Range;

mod output;
mod pooling;

pub use output::Want;

/// A text of a batch.
#[derive(Clone, Copy, Debug)]
pub struct EncodeText<'a> {
    /// Token ids, special tokens included.
    pub tokens: &'a [u32],
    /// The token type of each token; empty if all are 0.
    pub types: &'a [u8],
    /// The number of first tokens that are not pooled.
    pub skip: usize,
}

impl Model {
    /// Begins a batch of texts in `pass`. What was there before is gone.
    ///
    /// # Errors
    /// A text without tokens or longer than the context, a token outside the vocabulary, a token type that the model does
    /// not have, or no memory for a large batch.
    pub fn begin(&self, pass: &mut EncodePass, texts: &[EncodeText<'_>]) -> Result<(), Error> {
        texts.iter().try_for_each(|text| check(&self.spec, text))?;
        let rows = texts.iter().map(|text| text.tokens.len()).sum();
        let blocks = texts.iter().map(|text| text.tokens.len().div_ceil(BLOCK_TOKENS)).sum();
        pass.progress = Progress::Done;
        pass.fit(&self.spec, rows, blocks)
            .map_err(|source| Error::Pack { name: format!("buffers of {rows} tokens"), source })?;
        for list in [&mut pass.tokens, &mut pass.positions] {
            list.clear();
        }
        pass.types.clear();
        pass.slots.clear();
        pass.texts.clear();
        let mut block = 0;
        for text in texts {
            let first = pass.tokens.len();
            pass.tokens.extend_from_slice(text.tokens);
            match text.types {
                [] => pass.types.resize(pass.tokens.len(), 0),
                types => pass.types.extend_from_slice(types),
            }
            for position in 0..text.tokens.len() {
                pass.positions.push(position as u32);
                pass.slots.push(((block + position / BLOCK_TOKENS) as u32, (position % BLOCK_TOKENS) as u32));
            }
            pass.texts.push(TextRows { rows: first..pass.tokens.len(), first_block: block, skip: text.skip });
            block += text.tokens.len().div_ceil(BLOCK_TOKENS);
        }
        pass.progress = Progress::Embed { row: 0 };
        Ok(())
    }

    /// Computes the next chunk of the pass; returns whether there is more.
    pub fn advance(&self, compute: &Compute, pass: &mut EncodePass) -> bool {
        let (rows, chunk_rows) = (pass.rows(), pass.chunk_rows);
        let chunk = |row: usize| row..rows.min(row + chunk_rows);
        let last_layer = self.blocks.len() - 1;
        pass.progress = match pass.progress {
            Progress::Embed { row } => {
                self.embed_chunk(compute, pass, chunk(row));
                match row + chunk_rows {
                    next if next < rows => Progress::Embed { row: next },
                    _ => Progress::Project { layer: 0, row: 0 },
                }
            }
            Progress::Project { layer, row } => {
                self.project_chunk(compute, pass, layer, chunk(row));
                match row + chunk_rows {
                    next if next < rows => Progress::Project { layer, row: next },
                    _ => Progress::Attend { layer, row: 0 },
                }
            }
            Progress::Attend { layer, row } => {
                self.attend_chunk(compute, pass, layer, chunk(row));
                match row + chunk_rows {
                    next if next < rows => Progress::Attend { layer, row: next },
                    _ if layer < last_layer => Progress::Project { layer: layer + 1, row: 0 },
                    _ if self.final_norm.is_some() => Progress::Finish { row: 0 },
                    _ => Progress::Done,
                }
            }
            Progress::Finish { row } => {
                self.finish_chunk(compute, pass, chunk(row));
                match row + chunk_rows {
                    next if next < rows => Progress::Finish { row: next },
                    _ => Progress::Done,
                }
            }
            Progress::Done => Progress::Done,
        };
        pass.progress != Progress::Done
    }

    /// The sum of token, position and type embeddings, normalised if the model does so.
    fn embed_chunk(&self, compute: &Compute, pass: &mut EncodePass, chunk: Range<usize>) {
        let spec = &self.spec;
        let width = spec.width;
        let x = &mut pass.x[chunk.start * width..chunk.end * width];
        self.embedding.rows_into(compute, &pass.tokens[chunk.clone()], x);
        if spec.embedding_scale != 1.0 {
            kernels::scale(compute, x, spec.embedding_scale);
        }
        let first = spec.positions.learned().map_or(0, |(_, first)| first);
        let row_of = |table: &Option<Vec<f32>>, row: usize, x: &mut [f32]| {
            if let Some(table) = table {
                x.iter_mut().zip(&table[row * width..][..width]).for_each(|(x, t)| *x += t);
            }
        };
        for (x, row) in x.chunks_exact_mut(width).zip(chunk) {
            row_of(&self.encoder.position, first + pass.positions[row] as usize, x);
            row_of(&self.encoder.token_type, usize::from(pass.types[row]), x);
        }
        if let Some(weights) = &self.encoder.embedding_norm {
            let h = &mut pass.chunk.h[..x.len()];
            h.copy_from_slice(x);
            norm(spec, weights).rows(compute, h, x);
        }
    }

    /// Queries, keys and values of a chunk; keys and values go to the pool.
    fn project_chunk(&self, compute: &Compute, pass: &mut EncodePass, layer: usize, chunk: Range<usize>) {
        let (spec, block) = (&self.spec, &self.blocks[layer]);
        let attention = block.mixer.attention();
        let (width, q_width, kv_width) = (spec.width, spec.query_width(), spec.kv_width());
        let (rows, capacity) = (chunk.len(), pass.capacity());
        let x = &pass.x[chunk.start * width..chunk.end * width];
        let q = &mut pass.q[chunk.start * q_width..chunk.end * q_width];
        let ChunkBuffers { h, k, v, ropes, activations, .. } = &mut pass.chunk;
        let (k, v) = (&mut k[..rows * kv_width], &mut v[..rows * kv_width]);
        match &block.attention_norm {
            Some(weights) => {
                let h = &mut h[..x.len()];
                activations.set_normed(compute, norm(spec, weights), x, h, attention.formats, 0);
            }
            None => activations.set(compute, x, width, attention.formats, 0),
        }
        let turned = spec.layers[layer].rope.map(|index| {
            let (inv_freq, mscale) = &self.ropes[index];
            let table = &mut ropes[index];
            for (at, position) in pass.positions[chunk.clone()].iter().enumerate() {
                table.set_row(at, *position as usize, inv_freq, *mscale);
            }
            &*table
        });
        qkv(compute, spec, attention, activations, turned, (&mut *q, &mut *k, &mut *v));
        if let (Some(scores), Some(projections)) = (&mut pass.relative, &block.relative) {
            let RelativeScores { c2p, p2c, buffers, .. } = scores;
            let (at, scale) = ((chunk.start, capacity), spec.attention_scale);
            for (projections, x, out) in [(&projections.keys, &*q, c2p), (&projections.queries, &*k, p2c)] {
                if !out.is_empty() {
                    relative::products(compute, projections, x, at, scale, buffers, out);
                }
            }
        }
        pass.kv.write(compute, 0, k, v, &pass.slots[chunk]);
    }

    /// Attention and feed-forward of a chunk, added to the residual stream.
    fn attend_chunk(&self, compute: &Compute, pass: &mut EncodePass, layer: usize, chunk: Range<usize>) {
        let (spec, block) = (&self.spec, &self.blocks[layer]);
        let q_width = spec.query_width();
        let capacity = pass.capacity();
        if let Some(scores) = &mut pass.relative {
            scores.set_first_rows(&pass.texts, &chunk);
        }
        let sequences = sequences(&pass.texts, &pass.blocks, &chunk);
        let disentangled = match (&pass.relative, &self.encoder.relative_index) {
            (Some(scores), Some(index)) => Some(scores.bias(index, chunk.start, capacity)),
            _ => None,
        };
        let score_bias = match (&disentangled, &self.encoder.bias) {
            (Some(bias), _) => Some(bias as &dyn ScoreBias),
            (None, Some(bias)) => Some(bias as &dyn ScoreBias),
            (None, None) => None,
        };
        let window = spec.layers[layer].window;
        let params = AttentionParams {
            layer: 0,
            heads: spec.heads,
            mask: match spec.direction {
                Direction::Causal => Mask::Causal { window },
                Direction::Bidirectional => Mask::Bidirectional { reach: window },
            },
            scale: spec.attention_scale,
            soft_cap: spec.attention_soft_cap,
            bias: score_bias,
            sinks: None,
        };
        let q = &pass.q[chunk.start * q_width..chunk.end * q_width];
        let out = &mut pass.chunk.attention_out[..q.len()];
        kernels::attention(compute, &pass.kv, params, q, &sequences, out);
        let x = &mut pass.x[chunk.start * spec.width..chunk.end * spec.width];
        self.feed_chunk(compute, block, x, &mut pass.chunk);
    }

    /// The output projection of attention and the feed-forward of the rows `x`, each added to them.
    fn feed_chunk(&self, compute: &Compute, block: &Block, x: &mut [f32], chunk: &mut ChunkBuffers) {
        let spec = &self.spec;
        let (width, q_width) = (spec.width, spec.query_width());
        let rows = x.len() / width;
        let ChunkBuffers { h, out, attention_out, gate, up, activations, .. } = chunk;
        let (h, out) = (&mut h[..x.len()], &mut out[..x.len()]);
        let projection = block.out.as_ref().expect("encoders have attention in each layer");
        let formats = projection.matrix.activations();
        activations.set(compute, &attention_out[..rows * q_width], q_width, formats, 0);
        kernels::matmul(compute, &projection.matrix, activations, out);
        let (out_bias, post) = (projection.bias.as_deref(), block.attention_post_norm.as_ref());
        add(compute, spec, x, out, out_bias, post);
        let down_bias = match &block.feed {
            FeedWeights::Dense(mlp) => {
                match &block.feed_norm {
                    Some(weights) => {
                        activations.set_normed(compute, norm(spec, weights), x, h, mlp.formats, 0);
                    }
                    None => activations.set(compute, x, width, mlp.formats, 0),
                }
                let buffers = &mut MlpBuffers { gate, up, activations };
                feed_forward_without_bias(compute, spec, mlp, 0, buffers, out);
                mlp.down.bias.as_deref()
            }
            // `heads::read` refuses encoders with experts; none lacks a feed-forward.
            FeedWeights::None | FeedWeights::Experts(_) => {
                out.fill(0.0);
                None
            }
        };
        add(compute, spec, x, out, down_bias, block.feed_post_norm.as_ref());
    }

    fn finish_chunk(&self, compute: &Compute, pass: &mut EncodePass, chunk: Range<usize>) {
        let Some(weights) = &self.final_norm else { return };
        let x = &mut pass.x[chunk.start * self.spec.width..chunk.end * self.spec.width];
        let h = &mut pass.chunk.h[..x.len()];
        h.copy_from_slice(x);
        norm(&self.spec, weights).rows(compute, h, x);
    }
}

/// Adds `out` to the residual stream `x`, with the norm before or after as the model has it.
fn add(
    compute: &Compute,
    spec: &Spec,
    x: &mut [f32],
    out: &mut [f32],
    bias: Option<&[f32]>,
    weights: Option<&crate::blocks::NormWeights>,
) {
    match (spec.norm_place, weights) {
        (NormPlace::Post, Some(weights)) => norm(spec, weights).add_rows(compute, x, out, bias),
        _ => {
            if let Some(bias) = bias {
                kernels::add_bias(compute, out, bias);
            }
            post_norm(compute, spec, weights, out);
            add_residual(compute, spec, x, out);
        }
    }
}

/// The parts of texts in a chunk, with rows counted from the chunk's first.
fn sequences<'p>(texts: &[TextRows], blocks: &'p [u32], chunk: &Range<usize>) -> Vec<SeqRows<'p>> {
    let inside = texts.iter().filter(|text| text.rows.start < chunk.end && text.rows.end > chunk.start);
    inside
        .map(|text| {
            let (start, end) = (text.rows.start.max(chunk.start), text.rows.end.min(chunk.end));
            let count = text.rows.len().div_ceil(BLOCK_TOKENS);
            SeqRows {
                rows: start - chunk.start..end - chunk.start,
                first_position: start - text.rows.start,
                keys: text.rows.len(),
                blocks: &blocks[text.first_block..text.first_block + count],
                state: NO_STATE,
            }
        })
        .collect()
}

/// Refuses a text that would index out of range anywhere below.
fn check(spec: &Spec, text: &EncodeText<'_>) -> Result<(), Error> {
    let within = |what, value: usize, limit: usize| {
        if value <= limit { Ok(()) } else { Err(Error::Batch { what, value, limit }) }
    };
    within("tokens of a text, at least", 1, text.tokens.len())?;
    within("tokens of a text", text.tokens.len(), spec.context)?;
    for &token in text.tokens {
        within("token", token as usize, spec.vocab - 1)?;
    }
    if !text.types.is_empty() {
        within("token types of a text", text.types.len(), text.tokens.len())?;
        within("token types of a text, at least", text.tokens.len(), text.types.len())?;
        for &kind in text.types {
            within("token type", usize::from(kind), spec.token_types.max(1) - 1)?;
        }
    }
    Ok(())
}
