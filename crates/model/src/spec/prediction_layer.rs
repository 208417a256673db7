//! The block that predicts the token after the next, as the last layer of the spec.

use super::{Prediction, Spec};
use crate::error::{Error, require};
use crate::mixer::Mixer;
use crate::weight_role::{LayerWeight, WeightDecl, WeightRole, decl};

/// The families whose block is built: a layer of attention like the model's own, behind a projection of an embedding
/// and a hidden state.
const FAMILIES: [&str; 3] = ["qwen35", "qwen35moe", "qwen3next"];

impl Spec {
    /// Keeps the block that predicts the token after the next, for [`Model::predict`](crate::Model::predict). Without it
    /// a file's block is left unread. Call this before loading: it adds a layer, with keys and values of its own.
    ///
    /// # Errors
    /// A family whose block is not built, or a file that does not have one such block.
    pub fn keep_prediction(&mut self) -> Result<(), Error> {
        let (known, count) = (FAMILIES.contains(&self.family), self.prediction.left_out());
        let families = format!("one of {}", FAMILIES.join(", "));
        require(known, "family of a model that predicts further tokens", self.family, &families)?;
        require(count == 1, "layers that predict further tokens", count, "1")?;
        let attention = self.layers.iter().rfind(|layer| layer.mixer == Mixer::Attention);
        // A spec without such a layer has been refused.
        self.layers.extend(attention.cloned());
        self.prediction = Prediction::Kept;
        Ok(())
    }

    /// Whether the block that predicts the token after the next is kept.
    #[must_use]
    pub fn predicts(&self) -> bool {
        self.prediction == Prediction::Kept
    }

    /// The index of the layer that predicts the token after the next, if it is kept.
    #[must_use]
    pub fn prediction_layer(&self) -> Option<usize> {
        self.layers.len().checked_sub(1).filter(|_| self.predicts())
    }

    /// Appends the weights around that layer.
    pub(super) fn prediction_weights(&self, all: &mut Vec<WeightDecl>) {
        let Some(layer) = self.prediction_layer() else { return };
        let width = self.width;
        for (part, shape) in [
            (LayerWeight::PredictionEmbeddingNorm, &[width][..]),
            (LayerWeight::PredictionHiddenNorm, &[width]),
            (LayerWeight::PredictionInput, &[width, 2 * width]),
            (LayerWeight::PredictionNorm, &[width]),
        ] {
            all.push(decl(WeightRole::Layer(layer, part), shape));
        }
    }
}
