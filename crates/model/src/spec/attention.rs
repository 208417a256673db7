//! What attention does to queries and keys beside rope.

/// Which values of queries and keys an RMS norm takes together, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNorm {
    /// There is no such norm.
    None,
    /// Each head, before rope (Qwen3, Gemma 3, EXAONE 4).
    Head,
    /// All heads together, before rope (OLMo 2).
    Full,
    /// Each head, after rope (Hunyuan).
    HeadAfterRope,
}

impl QkNorm {
    /// Values of the norm's weight, for `heads` heads of `head_dim` values; `None` if there is no norm.
    pub(crate) fn width(self, heads: usize, head_dim: usize) -> Option<usize> {
        match self {
            QkNorm::None => None,
            QkNorm::Head | QkNorm::HeadAfterRope => Some(head_dim),
            QkNorm::Full => Some(heads * head_dim),
        }
    }
}

/// Where the keys and values of an attention layer are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvSource {
    /// Two projections of its own.
    Own,
    /// One projection of its own: a value is its key before norm and rope.
    OneProjection,
    /// The cache of an earlier layer, by its index; the layer projects queries only.
    Layer(usize),
}

/// A factor on queries that grows with their position: `1 + scale · ln(1 + ⌊position / step⌋)` (Ministral 3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueryTemperature {
    /// The factor on the logarithm.
    pub scale: f32,
    /// Positions from one value of the factor to the next; the first `step` positions have the factor 1.
    pub step: usize,
}

impl QueryTemperature {
    /// The factor on the queries of a position.
    #[must_use]
    pub fn at(self, position: usize) -> f32 {
        1.0 + self.scale * ((position / self.step.max(1)) as f32).ln_1p()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_scaled_from_the_first_step_on() {
        let temperature = QueryTemperature { scale: 0.1, step: 16_384 };
        assert_eq!(temperature.at(0), 1.0);
        assert_eq!(temperature.at(16_383), 1.0);
        assert!((temperature.at(16_384) - 1.069_314_7).abs() < 1e-6);
        assert!((temperature.at(5 * 16_384 + 7) - (1.0 + 0.1 * 6f32.ln())).abs() < 1e-6);
    }
}
