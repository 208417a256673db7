//! Assembles the weights of attention, and those that few models have: of the embeddings that each layer has of a token,
//! of experts beside a feed-forward, and of a prediction of further tokens.

use crate::blocks::{
    AttentionWeights, BesideWeights, KeyWeights, NormWeights, PerLayerWeights, PredictionWeights,
};
use crate::error::Error;
use crate::load::WeightLoader;
use crate::locate::LocatedWeight;
use crate::per_layer::PerLayerInputs;
use crate::row_table::RowTable;
use crate::weight_role::{LayerWeight, WeightRole};
use weights::Opened;

impl WeightLoader<'_> {
    pub(crate) fn attention(&mut self, layer: usize) -> AttentionWeights {
        let role = |part| WeightRole::Layer(layer, part);
        let spec = self.spec;
        let heads = spec.heads_of(&spec.layers[layer]);
        let query = self.linear(role(LayerWeight::Query), role(LayerWeight::QueryBias));
        let query_norm = self.vectors.remove(&role(LayerWeight::QueryNorm));
        let mut formats = query.matrix.activations();
        let key = self.optional_linear(role(LayerWeight::Key), role(LayerWeight::KeyBias));
        let keys = key.map(|key| {
            let value = self.optional_linear(role(LayerWeight::Value), role(LayerWeight::ValueBias));
            formats = formats | key.matrix.activations();
            formats = value.iter().fold(formats, |formats, value| formats | value.matrix.activations());
            let key_norm = self.vectors.remove(&role(LayerWeight::KeyNorm));
            // A norm without a weight is one whose weight is 1.
            let value_norm = spec.value_norm.then(|| vec![1.0; heads.head_dim]);
            KeyWeights { key, key_norm, value, value_norm }
        });
        let sinks = self.vectors.remove(&role(LayerWeight::Sinks));
        AttentionWeights { heads, query, query_norm, keys, formats, sinks, kv_layer: spec.kv_layer(layer) }
    }

    /// The vectors of a mixture beside the layer's own feed-forward.
    pub(crate) fn beside(&mut self, layer: usize) -> BesideWeights {
        let root = (self.spec.width as f32).sqrt();
        let mut vector = |part| self.vector(WeightRole::Layer(layer, part));
        let mut router_norm = vector(LayerWeight::RouterNorm);
        // The router's input is divided by the root of the width, too.
        router_norm.iter_mut().for_each(|weight| *weight /= root);
        let scales = vector(LayerWeight::ExpertScales);
        let mut norm = |part| NormWeights { weight: vector(part), bias: None };
        BesideWeights {
            experts_norm: norm(LayerWeight::ExpertsNorm),
            experts_post_norm: norm(LayerWeight::ExpertsPostNorm),
            shared_post_norm: norm(LayerWeight::SharedPostNorm),
            router_norm: NormWeights { weight: router_norm, bias: None },
            scales,
        }
    }

    /// The weights around the layer that predicts the token after the next, if it is kept.
    pub(crate) fn prediction(&mut self) -> Option<PredictionWeights> {
        let layer = self.spec.prediction_layer()?;
        let role = |part| WeightRole::Layer(layer, part);
        let mut norm = |part| NormWeights { weight: self.vector(role(part)), bias: None };
        Some(PredictionWeights {
            embedding_norm: norm(LayerWeight::PredictionEmbeddingNorm),
            hidden_norm: norm(LayerWeight::PredictionHiddenNorm),
            norm: norm(LayerWeight::PredictionNorm),
            input: self.matrix(role(LayerWeight::PredictionInput)),
        })
    }

    /// The weights that add a layer's own embedding of a token, if the model has such embeddings.
    pub(crate) fn per_layer(&mut self, layer: usize) -> Option<PerLayerWeights> {
        let role = |part| WeightRole::Layer(layer, part);
        let norm = self.vectors.remove(&role(LayerWeight::PerLayerPostNorm))?;
        Some(PerLayerWeights {
            gate: self.matrix(role(LayerWeight::PerLayerGate)),
            out: self.matrix(role(LayerWeight::PerLayerOut)),
            norm: NormWeights { weight: norm, bias: None },
        })
    }

    /// What all layers get of a token beside its embedding; its table stays in the file.
    pub(crate) fn per_layer_inputs(
        &mut self,
        opened: &Opened,
        found: &[LocatedWeight<'_>],
    ) -> Result<Option<PerLayerInputs>, Error> {
        let table = found.iter().find(|weight| weight.role.stays_in_file());
        let Some((table, bytes)) = table.and_then(|table| Some((table, opened.kept(&table.name)?))) else {
            return Ok(None);
        };
        Ok(Some(PerLayerInputs {
            table: RowTable::new(&table.name, bytes, table.dtype, table.cols)?,
            projection: self.matrix(WeightRole::PerLayerProjection),
            norm: self.vector(WeightRole::PerLayerNorm),
        }))
    }
}
