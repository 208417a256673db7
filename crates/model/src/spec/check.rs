//! Checks a spec, so that broken files and models beyond the kernels' limits are refused.

use super::{FeedForward, KvSource, Layer, Positions, QueryTemperature, Spec};
use crate::error::{Error, require};
use kernels::KvHeads;

impl Spec {
    /// Checks the ranges of all dimensions.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let limits = [
            ("vocabulary", self.vocab, 1 << 24),
            ("width", self.width, 1 << 20),
            ("context", self.context, 1 << 28),
            ("heads", self.heads, 4096),
            ("key and value heads", self.kv_heads, self.heads),
            ("head size", self.head_dim, kernels::MAX_HEAD_DIM),
            ("layers", self.layers.len(), 4096),
            ("layers of attention", self.kv_layers(), self.layers.len()),
            ("feed-forward width", self.feed_width(), 1 << 22),
        ];
        for (what, value, limit) in limits {
            require((1..=limit).contains(&value), what, value, &format!("1 to {limit}"))?;
        }
        for layer in &self.layers {
            self.check_heads(layer)?;
        }
        for rope in &self.ropes {
            let finite = rope.base > 0.0 && rope.base.is_finite() && rope.mscale().is_finite();
            require(finite, "rope base", rope.base, "a positive number")?;
        }
        self.check_positions()?;
        require(self.token_types <= 256, "token types", self.token_types, "at most 256")?;
        require(
            self.positions.relative_rows() <= 1 << 16,
            "relative positions",
            self.positions.relative_rows(),
            "at most 65536",
        )?;
        self.factors.check()?;
        require(self.norm.eps.is_finite(), "norm epsilon", self.norm.eps, "a finite number")?;
        if let Some(QueryTemperature { scale, step }) = self.query_temperature {
            require(scale.is_finite(), "query temperature", scale, "a finite number")?;
            require(step > 0, "step of the query temperature", step, "at least 1")?;
        }
        require(
            self.per_layer_width <= 1 << 16,
            "width of per-layer embeddings",
            self.per_layer_width,
            "at most 65536",
        )?;
        if let Some(alt_up) = &self.alt_up {
            alt_up.check()?;
        }
        for (index, layer) in self.layers.iter().enumerate() {
            self.check_source(index)?;
            let cutoff = layer.gate_cutoff.unwrap_or(0.0);
            require(cutoff.is_finite(), "cutoff of gates", cutoff, "a finite number")?;
            require(layer.window != Some(0), "sliding window", 0, "at least 1")?;
            layer.mixer.check()?;
            require(layer.feed != FeedForward::Dense { width: 0 }, "feed-forward width", 0, "at least 1")?;
            if let FeedForward::Experts(mixture) = layer.feed
                && let Some((what, value, expected)) = mixture.problem()
            {
                require(false, what, value, &expected)?;
            }
        }
        Ok(())
    }

    /// Checks the heads of a layer, and how much of them rotates.
    fn check_heads(&self, layer: &Layer) -> Result<(), Error> {
        let KvHeads { kv_heads, head_dim } = self.heads_of(layer);
        let most = kernels::MAX_HEAD_DIM;
        require((1..=most).contains(&head_dim), "head size", head_dim, &format!("1 to {most}"))?;
        let divides = kv_heads > 0 && self.heads.is_multiple_of(kv_heads);
        require(divides, "heads", self.heads, &format!("a multiple of the {kv_heads} key and value heads"))?;
        let Some(rope) = layer.rope.and_then(|index| self.ropes.get(index)) else { return Ok(()) };
        let dim = rope.rotary_dim;
        let fits = dim >= 2 && dim.is_multiple_of(2) && dim <= head_dim;
        require(fits, "rotary dimensions", dim, &format!("even, at most the head's {head_dim}"))
    }

    /// Checks that a layer which reads the keys of another one can.
    fn check_source(&self, index: usize) -> Result<(), Error> {
        let layer = &self.layers[index];
        let KvSource::Layer(from) = layer.kv else { return Ok(()) };
        let earlier = self.layers[..index].get(from).filter(|earlier| earlier.has_own_keys());
        let fits = earlier.is_some_and(|earlier| self.heads_of(earlier) == self.heads_of(layer));
        let expected = format!("an earlier one with keys of its own and the heads of layer {index}");
        require(fits, "layer of shared keys and values", from, &expected)
    }

    /// Checks the ranges of what positions are computed from.
    fn check_positions(&self) -> Result<(), Error> {
        if let Some((rows, first)) = self.positions.learned() {
            let most = rows.saturating_sub(first);
            require(
                self.context <= most,
                "context",
                self.context,
                &format!("at most {most}, the learned positions"),
            )?;
        }
        if let Positions::Buckets { buckets, max_distance, .. } = self.positions {
            let ok = (4..=4096).contains(&buckets) && buckets.is_multiple_of(4) && max_distance > buckets / 4;
            require(ok, "buckets of distance", buckets, "4 to 4096, a multiple of 4")?;
        }
        if let Positions::Disentangled { buckets, max_distance, .. } = self.positions {
            let ok =
                buckets == 0 || (buckets >= 4 && buckets.is_multiple_of(2) && max_distance > buckets / 2 + 1);
            require(ok, "position buckets", buckets, "0, or even and at least 4")?;
            require((1..=1 << 16).contains(&max_distance), "relative positions", max_distance, "1 to 65536")?;
        }
        Ok(())
    }
}
