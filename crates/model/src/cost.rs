//! The cost of a forward pass in bytes read and multiply-adds, from which rooflines are computed.

use crate::blocks::{FeedWeights, Mlp};
use crate::load::Model;
use crate::mixture::Mixture;
use crate::spec::{Direction, FeedForward, KvSource, Layer, Spec};
use kernels::{BLOCK_TOKENS, KvDtype};

impl Spec {
    /// Multiply-adds of `rows` rows of one sequence, the first at position `first`, of which the last `wanted` get
    /// logits. Of the last layer that writes keys, all but their projections is computed for those only, and of later
    /// layers all; so it is of a kept block that predicts further tokens. Norms, rope and activation functions are not
    /// counted.
    #[must_use]
    pub fn multiply_adds(&self, first: usize, rows: usize, wanted: usize) -> u64 {
        let (width, last) = (self.width as u64, self.last_kept_layer());
        let own = self.per_layer_width as u64;
        let inputs = rows as u64 * width * own * self.layers.len() as u64;
        let streams = self.alt_up.map_or(0, |alt_up| alt_up.streams as u64);
        // Streams are projected from the embedding, and to the last hidden state.
        let around = streams.saturating_sub(1) * width * width * (rows + wanted) as u64;
        let joined = if self.predicts() { 2 * width * width * rows as u64 } else { 0 };
        let mut sum = wanted as u64 * width * self.vocab as u64 + inputs + around + joined;
        for (index, layer) in self.layers.iter().enumerate() {
            let full = if index >= last { wanted } else { rows };
            let projected = if index > last { wanted } else { rows } as u64;
            let seen = |row: usize| {
                layer.window.map_or(first + row + 1, |window| window.min(first + row + 1)) as u64
            };
            let scores: u64 = (rows - full..rows).map(seen).sum();
            let q = self.query_width_of(layer);
            let out = layer.mixer.out_width(q) as u64;
            sum += full as u64 * (out * width + self.feed_multiply_adds(layer) + 2 * own * width);
            if let Some(alt_up) = &self.alt_up {
                // A router before and after; each stream in the prediction of each, and the correction of each.
                sum += projected * (streams + streams * streams) * width;
                sum += full as u64 * 2 * (streams + alt_up.laurel_rank as u64) * width;
            }
            if layer.mixer.is_attention() {
                sum += projected * width * self.projected_rows(layer) as u64 + 2 * q as u64 * scores;
            }
            sum += projected * layer.mixer.multiply_adds(self.width);
        }
        sum
    }

    /// Rows of a layer's projections to queries, keys and values.
    fn projected_rows(&self, layer: &Layer) -> usize {
        if !layer.mixer.projects_keys() {
            return 0;
        }
        let kv = self.heads_of(layer).width();
        self.query_rows_of(layer)
            + match layer.kv {
                KvSource::Own => 2 * kv,
                KvSource::OneProjection => kv,
                KvSource::Layer(_) => 0,
            }
    }

    /// Multiply-adds of the hidden states of one text of `tokens` tokens in an encoder's pass. Norms, rope, activation
    /// functions and heads are not counted.
    #[must_use]
    pub fn encode_multiply_adds(&self, tokens: usize) -> u64 {
        let (width, q, kv) = (self.width as u64, self.query_width() as u64, self.kv_width() as u64);
        let rows = tokens as u64;
        let attended = |row: usize, window: Option<usize>| match self.direction {
            Direction::Causal => window.map_or(row + 1, |window| window.min(row + 1)),
            Direction::Bidirectional => {
                let reach = window.unwrap_or(tokens);
                row.min(reach) + 1 + (tokens - 1 - row).min(reach)
            }
        };
        let of_layer = |layer: &Layer| {
            let scores: u64 = (0..tokens).map(|row| attended(row, layer.window) as u64).sum();
            rows * (width * (2 * q + 2 * kv) + self.feed_multiply_adds(layer)) + 2 * q * scores
        };
        self.layers.iter().map(of_layer).sum()
    }

    /// Multiply-adds of a row in the feed-forward of a layer.
    fn feed_multiply_adds(&self, layer: &Layer) -> u64 {
        match layer.feed {
            FeedForward::None => 0,
            FeedForward::Dense { width } => self.feed_maps() * (self.width * width) as u64,
            FeedForward::Experts(mixture) => self.mixture_multiply_adds(&mixture),
        }
    }

    /// Multiply-adds of a row in a mixture of experts.
    fn mixture_multiply_adds(&self, mixture: &Mixture) -> u64 {
        let weighed = mixture.shared.is_some_and(|shared| shared.gated);
        let routers = mixture.count + usize::from(weighed);
        self.width as u64 * (routers as u64 + self.feed_maps() * mixture.active_width() as u64)
    }

    /// The number of feed-forward matrices: up, down, and gate if gated.
    fn feed_maps(&self) -> u64 {
        if self.gated { 3 } else { 2 }
    }

    /// Bytes of the KV cache that a step reads whose last row is at position `last`, each byte counted once for each
    /// layer that reads it. Layers with a sliding window read only the window.
    #[must_use]
    pub fn kv_read_bytes(&self, last: usize, dtype: KvDtype) -> u64 {
        let shape = self.kv_shape(1, dtype);
        let one = |index| (shape.layer_bytes(self.kv_layer(index)) / BLOCK_TOKENS) as u64;
        let seen = |window: Option<usize>| window.map_or(last + 1, |window| window.min(last + 1)) as u64;
        let attention = self.layers.iter().enumerate().filter(|(_, layer)| layer.mixer.is_attention());
        attention.map(|(index, layer)| one(index) * seen(layer.window)).sum()
    }
}

impl Model {
    /// Bytes of weights that a step of `rows` rows reads: all weights once, except that of an untied embedding only the
    /// rows' entries are read, and of experts as many as the rows are expected to use ([`Mixture::expected_experts`]).
    #[must_use]
    pub fn weight_read_bytes(&self, rows: usize) -> u64 {
        let mut bytes = self.bytes() as u64;
        if self.head.is_some() {
            let a_row = (self.embedding.bytes() / self.embedding.rows().max(1)) as u64;
            bytes -= self.embedding.bytes() as u64 - a_row * rows.min(self.embedding.rows()) as u64;
        }
        for block in &self.blocks {
            if let FeedWeights::Experts(weights) = &block.feed {
                let all: usize = weights.experts.iter().map(Mlp::bytes).sum();
                let used = weights.mixture.expected_experts(rows) / weights.mixture.count as f64;
                bytes -= ((1.0 - used) * all as f64) as u64;
            }
        }
        bytes
    }
}

impl Mlp {
    fn bytes(&self) -> usize {
        let gate = self.gate.as_ref().map_or(0, |gate| gate.matrix.bytes());
        gate + self.up.matrix.bytes() + self.down.matrix.bytes()
    }
}

#[cfg(test)]
mod tests {
    use crate::shapes::parse;
    use crate::spec::Direction;
    use cpu::{Pool, Tier};
    use kernels::{Compute, KvDtype, Precision};

    fn model(name: &str) -> crate::Model {
        let pool = Pool::new(1, None).unwrap();
        let (shape, recipe) = parse(name).unwrap();
        let opened = shape.open(recipe, 1, &pool).unwrap();
        crate::Model::load(&opened, &Compute::new(Tier::Scalar, pool), Precision::Fast, &mut |_| ()).unwrap()
    }

    #[test]
    fn a_row_multiplies_by_each_weight_once() {
        let spec = model("tiny:f16").spec;
        let norms = (2 * (2 * 256 + 2 * 64) + 256) as u64;
        let scores = 2 * 2 * 256;
        assert_eq!(spec.multiply_adds(0, 1, 1), spec.parameters() - norms + scores);
        // Positions 4 to 6 see 5, 6 and 7; the last layer's are wanted for the last row alone.
        let a_score = 2 * 256;
        let first_layer = (spec.multiply_adds(0, 1, 1) - 512 * 256 - scores) / 2;
        let keys = 256 * (256 + 2 * 128);
        let want = 3 * first_layer + a_score * 18 + 3 * keys + (first_layer - keys) + a_score * 7 + 512 * 256;
        assert_eq!(spec.multiply_adds(4, 3, 1), want);
    }

    #[test]
    fn an_encoder_multiplies_all_rows_in_all_layers() {
        let mut spec = model("tiny:f16").spec;
        let head = 512 * 256;
        let rows = |tokens: u64| tokens * (spec.multiply_adds(0, 1, 1) - head - 2 * 2 * 256);
        // Both layers have scores of 2 * 256 multiply-adds a pair.
        let (one, four) = (rows(1), rows(4));
        assert_eq!(spec.encode_multiply_adds(4), four + 2 * 512 * (1 + 2 + 3 + 4));
        spec.direction = Direction::Bidirectional;
        assert_eq!(spec.encode_multiply_adds(1), one + 2 * 512);
        assert_eq!(spec.encode_multiply_adds(4), four + 2 * 512 * 16);
        spec.layers[0].window = Some(1);
        assert_eq!(spec.encode_multiply_adds(4), four + 512 * (16 + 2 + 3 + 3 + 2));
    }

    #[test]
    fn bytes_read_count_a_window_and_leave_out_an_untied_embedding() {
        let mut model = model("tiny:f16");
        assert_eq!(model.weight_read_bytes(1), model.bytes() as u64, "tied: the embedding is the head");
        let full = model.spec.kv_read_bytes(99, KvDtype::F16);
        assert_eq!(full, 100 * model.spec.kv_bytes_per_token(KvDtype::F16) as u64);
        model.spec.layers[0].window = Some(10);
        assert_eq!(model.spec.kv_read_bytes(99, KvDtype::F16), full / 2 + full / 20);
    }
}
