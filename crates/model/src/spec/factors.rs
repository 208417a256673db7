//! Factors on parts of layers.

use crate::error::{Error, require};

/// Factors on parts of all layers (Falcon-H1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerFactors {
    /// The factor on the output of attention beside Mamba-2.
    pub attention: f32,
    /// The factor on the gates of dense feed-forwards, before the activation function.
    pub gate: f32,
    /// The factor on the outputs of feed-forwards.
    pub feed: f32,
}

impl LayerFactors {
    /// None of them changes anything.
    pub const ONE: LayerFactors = LayerFactors { attention: 1.0, gate: 1.0, feed: 1.0 };

    /// Checks that all are numbers.
    pub(super) fn check(self) -> Result<(), Error> {
        for (what, factor) in [
            ("factor on attention", self.attention),
            ("factor on gates", self.gate),
            ("factor on feed-forwards", self.feed),
        ] {
            require(factor.is_finite(), what, factor, "a finite number")?;
        }
        Ok(())
    }
}
