//! The block that predicts the token after the next (multi-token prediction, "nextn").
//!
//! It is `layer(input([norm(embedding of the next token), norm(last hidden state)]))`, followed by a norm and the model's
//! own head. The hidden state is the model's after its last norm; for another token further it is the block's own. The
//! layer is one of attention, with its keys and values beside the model's: those at a position are of its hidden state and
//! of the token after it.

use crate::batch::Batch;
use crate::blocks::{NormWeights, PredictionWeights};
use crate::error::Error;
use crate::load::Model;
use crate::residual::norm;
use crate::scratch::Scratch;
use kernels::{Compute, KvPool};

impl Model {
    /// Computes rows of the block, of which each has a position's next token: writes its keys and values for every row, and
    /// returns logits `[want.len(), vocab]` of the token after that. `from` says of each row in which place the hidden
    /// state of its position is: places are the rows of the last [`Model::forward`] with this scratch. The block leaves the
    /// hidden states of wanted rows in their places, from where the next position goes on.
    ///
    /// # Errors
    /// A model whose block was not kept ([`Spec::keep_prediction`](crate::Spec::keep_prediction)), or a batch or place out
    /// of range.
    pub fn predict<'s>(
        &self,
        compute: &Compute,
        batch: &Batch,
        from: &[usize],
        kv: &mut KvPool,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [f32], Error> {
        let Some((layer, weights)) = self.spec.prediction_layer().zip(self.prediction.as_ref()) else {
            return Err(Error::Batch {
                what: "rows that predict further tokens",
                value: from.len(),
                limit: 0,
            });
        };
        batch.check(&self.spec, kv, scratch)?;
        check_places(batch, from, scratch)?;
        self.assign_slots(batch, scratch);
        self.join(compute, weights, batch, from, scratch);
        if !self.last_layers(compute, layer, batch, kv, scratch) {
            return Ok(&[]);
        }
        self.last_norm(compute, Some(&weights.norm), batch.want.len(), scratch);
        let (width, Scratch { h, hidden, .. }) = (self.spec.width, &mut *scratch);
        for (state, &row) in h.chunks_exact(width).zip(batch.want) {
            hidden[from[row] * width..][..width].copy_from_slice(state);
        }
        Ok(self.head(compute, batch.want.len(), scratch))
    }

    /// The logits of the wanted rows, and the last hidden states of all rows, which the block that predicts starts from.
    pub(crate) fn logits_beside_hidden<'s>(
        &self,
        compute: &Compute,
        batch: &Batch,
        scratch: &'s mut Scratch,
    ) -> &'s [f32] {
        let (width, rows) = (self.spec.width, batch.tokens.len());
        self.last_norm(compute, self.final_norm.as_ref(), rows, scratch);
        let Scratch { h, hidden, .. } = &mut *scratch;
        hidden[..rows * width].copy_from_slice(&h[..rows * width]);
        for (to, &from) in batch.want.iter().enumerate() {
            h.copy_within(from * width..(from + 1) * width, to * width);
        }
        self.head(compute, batch.want.len(), scratch)
    }

    /// Makes the layer's input of the tokens' embeddings and of the hidden states in their places.
    fn join(
        &self,
        compute: &Compute,
        weights: &PredictionWeights,
        batch: &Batch,
        from: &[usize],
        scratch: &mut Scratch,
    ) {
        let (rows, width) = (batch.tokens.len(), self.spec.width);
        let Scratch { x, h, hidden, joined, activations, .. } = scratch;
        let (x, h, joined) =
            (&mut x[..rows * width], &mut h[..rows * width], &mut joined[..2 * rows * width]);
        let mut put = |norm_weights: &NormWeights, part: usize, x: &[f32]| {
            norm(&self.spec, norm_weights).rows(compute, x, h);
            for (row, half) in h.chunks_exact(width).zip(joined.chunks_exact_mut(width).skip(part).step_by(2))
            {
                half.copy_from_slice(row);
            }
        };
        self.embedding.rows_into(compute, batch.tokens, x);
        put(&weights.embedding_norm, 0, x);
        for (row, &place) in x.chunks_exact_mut(width).zip(from) {
            row.copy_from_slice(&hidden[place * width..][..width]);
        }
        put(&weights.hidden_norm, 1, x);
        activations.set(compute, joined, 2 * width, weights.input.activations(), batch.decode_rows);
        kernels::matmul(compute, &weights.input, activations, x);
    }
}

/// Refuses places of hidden states that there are not, or not one for each row.
fn check_places(batch: &Batch, from: &[usize], scratch: &Scratch) -> Result<(), Error> {
    let rows = batch.tokens.len();
    if from.len() != rows {
        return Err(Error::Batch { what: "places of hidden states", value: from.len(), limit: rows });
    }
    let limit = scratch.max_rows;
    match from.iter().max().filter(|place| **place >= limit) {
        Some(place) => Err(Error::Batch { what: "place of a hidden state", value: *place + 1, limit }),
        None => Ok(()),
    }
}
