//! Multi-head latent attention (DeepSeek-V2), as data: keys and values of all heads are projections of one latent.
//!
//! The projections are absorbed: each head's query is brought to the latent and meets it there, and what attention makes of
//! the latents is brought to the head's values. So the KV cache has one head, of what rotates and the latent.

use crate::error::{Error, require};
use crate::weight_role::LayerWeight;
use kernels::KvHeads;

/// The dimensions of latent attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatentAttention {
    /// Query heads.
    pub heads: usize,
    /// Width of the latent from which the queries of all heads are projected; `None` where they are projected directly.
    pub query_rank: Option<usize>,
    /// Width of the latent from which keys and values of all heads are projected.
    pub rank: usize,
    /// Width of the part of a query, and of the key that all heads share, which rotates.
    pub rotary: usize,
    /// Width of the part of a head's query or key that does not rotate.
    pub plain: usize,
    /// Width of a head's value.
    pub value_dim: usize,
}

impl LatentAttention {
    /// Width of a head's query.
    #[must_use]
    pub fn query_dim(&self) -> usize {
        self.plain + self.rotary
    }

    /// The head of the KV cache: what rotates, and the latent after it. Its values are latents too.
    #[must_use]
    pub fn cached(&self) -> KvHeads {
        KvHeads { kv_heads: 1, head_dim: self.rotary + self.rank }
    }

    /// Width of the queries of all heads, before they are brought to the latent.
    pub(crate) fn queries_width(&self) -> usize {
        self.heads * self.query_dim()
    }

    /// Width of the queries of all heads in the latent.
    pub(crate) fn absorbed_width(&self) -> usize {
        self.heads * self.cached().head_dim
    }

    /// Width of the values of all heads, which the output projection reads.
    pub(crate) fn values_width(&self) -> usize {
        self.heads * self.value_dim
    }

    /// Columns of the projection that gives queries, in a model of `width`.
    pub(crate) fn query_cols(&self, width: usize) -> usize {
        self.query_rank.unwrap_or(width)
    }

    /// The widest rows that the projections of a head read or give.
    pub(crate) fn widest_of_head(&self) -> usize {
        self.plain.max(self.rank).max(self.value_dim)
    }

    /// The weights before the output projection, in a model of `width`.
    pub(crate) fn weights(&self, width: usize, put: &mut dyn FnMut(LayerWeight, &[usize])) {
        if let Some(rank) = self.query_rank {
            put(LayerWeight::QueryLatent, &[rank, width]);
            put(LayerWeight::QueryLatentNorm, &[rank]);
        }
        put(LayerWeight::Query, &[self.queries_width(), self.query_cols(width)]);
        put(LayerWeight::KvLatent, &[self.cached().head_dim, width]);
        put(LayerWeight::KvLatentNorm, &[self.rank]);
        for head in 0..self.heads {
            put(LayerWeight::HeadKey(head), &[self.rank, self.plain]);
        }
        for head in 0..self.heads {
            put(LayerWeight::HeadValue(head), &[self.value_dim, self.rank]);
        }
    }

    /// Multiply-adds of the projections of one row, but for that of the output.
    pub(crate) fn multiply_adds(&self, width: usize) -> usize {
        let queries = self.query_rank.unwrap_or(0) * width + self.queries_width() * self.query_cols(width);
        queries + self.cached().head_dim * width + self.heads * self.rank * (self.plain + self.value_dim)
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let most = 1 << 16;
        for (what, value, limit) in [
            ("width of the queries' latent", self.query_rank.unwrap_or(1), most),
            ("width of the latent", self.rank, kernels::MAX_HEAD_DIM),
            ("width of what rotates of a head", self.rotary, kernels::MAX_HEAD_DIM),
            ("width of what does not rotate of a head", self.plain, most),
            ("width of a value", self.value_dim, most),
        ] {
            require((1..=limit).contains(&value), what, value, &format!("1 to {limit}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_multiplies_by_each_weight_once() {
        let net =
            LatentAttention { heads: 3, query_rank: Some(24), rank: 16, rotary: 8, plain: 12, value_dim: 10 };
        let direct = LatentAttention { query_rank: None, ..net };
        for net in [net, direct] {
            let mut matrices = 0;
            net.weights(32, &mut |_, shape| {
                matrices += if shape.len() == 2 { shape[0] * shape[1] } else { 0 }
            });
            assert_eq!(net.multiply_adds(32), matrices);
        }
        assert_eq!((net.cached(), net.query_dim()), (KvHeads { kv_heads: 1, head_dim: 24 }, 20));
    }

    #[test]
    fn abuse_widths_out_of_range_are_refused_by_name_value_and_limit() {
        let net =
            LatentAttention { heads: 1, query_rank: None, rank: 512, rotary: 64, plain: 128, value_dim: 128 };
        assert!(net.check().is_ok());
        for (wrong, words) in [
            (LatentAttention { rank: 577, ..net }, ["width of the latent", "577", "1 to 576"]),
            (LatentAttention { value_dim: 0, ..net }, ["width of a value", "0", "1 to 65536"]),
            (LatentAttention { query_rank: Some(0), ..net }, ["queries' latent", "0", "1 to 65536"]),
        ] {
            let said = wrong.check().unwrap_err().to_string();
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
        }
    }
}
