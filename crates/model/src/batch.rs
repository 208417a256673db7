//! The rows of a forward pass, and what is refused before it.

use kernels::{BLOCK_TOKENS, KvHeads, KvPool, SeqRows};

use crate::error::Error;
use crate::scratch::Scratch;
use crate::spec::Spec;

/// Rows to compute together.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    /// The token id of each row, `[rows]`.
    pub tokens: &'a [u32],
    /// Consecutive runs of rows, one for each sequence; together they cover all rows in order.
    pub sequences: &'a [SeqRows<'a>],
    /// Rows whose logits are wanted, strictly ascending.
    pub want: &'a [usize],
    /// The first `decode_rows` rows are decode rows, the others prefill rows. The two kinds compute differently only if
    /// [`Model::prefill_numerics_differ`](crate::Model::prefill_numerics_differ).
    pub decode_rows: usize,
}

impl Batch<'_> {
    /// Refuses a batch that would index out of range anywhere below.
    pub(crate) fn check(&self, spec: &Spec, kv: &KvPool, scratch: &Scratch) -> Result<(), Error> {
        let within = |what, value: usize, limit: usize| {
            if value <= limit { Ok(()) } else { Err(Error::Batch { what, value, limit }) }
        };
        let equal = |what, value: usize, limit: usize| {
            if value == limit { Ok(()) } else { Err(Error::Batch { what, value, limit }) }
        };
        let shape = kv.shape();
        equal("layers of the KV pool", shape.layers.len(), spec.kv_layers())?;
        let own = spec.layers.iter().filter(|layer| layer.has_own_keys());
        for (have, layer) in shape.layers.iter().zip(own) {
            let KvHeads { kv_heads, head_dim } = spec.heads_of(layer);
            equal("KV heads of the KV pool", have.kv_heads, kv_heads)?;
            equal("head size of the KV pool", have.head_dim, head_dim)?;
        }
        let states = kv.states().shape();
        let has_states = spec.has_states();
        if has_states {
            equal("values of a recurrent state", states.floats, spec.state_shape(1).floats)?;
        }
        let rows = self.tokens.len();
        within("rows", rows, scratch.max_rows)?;
        within("wanted rows", self.want.len(), scratch.max_logit_rows)?;
        for &token in self.tokens {
            within("token", token as usize, spec.vocab - 1)?;
        }
        let mut next = 0;
        for &row in self.want {
            within("wanted row, ascending from", next, row)?;
            within("wanted row", row + 1, rows)?;
            next = row + 1;
        }
        let mut covered = 0;
        for sequence in self.sequences {
            equal("first row of a sequence", sequence.rows.start, covered)?;
            within("first row of a sequence", sequence.rows.start, sequence.rows.end)?;
            covered = sequence.rows.end;
            let end = sequence.first_position.saturating_add(sequence.rows.len());
            within("position", end, sequence.blocks.len().saturating_mul(BLOCK_TOKENS))?;
            within("position", end, u32::MAX as usize)?;
            equal("keys of a sequence", sequence.keys, end)?;
            if has_states {
                within("recurrent state", (sequence.state as usize).saturating_add(1), states.states)?;
            }
            for &block in sequence.blocks {
                within("KV block", block as usize + 1, shape.blocks)?;
            }
        }
        within("decode rows", self.decode_rows, rows)?;
        equal("rows covered by sequences", covered, rows)
    }
}
