//! Assembles the weights of AltUp's streams and of LAuReL, for models that have them.

use crate::alt_up::StreamProjections;
use crate::blocks::{AltUpWeights, LaurelWeights, NormWeights};
use crate::load::WeightLoader;
use crate::weight_role::{LayerWeight, WeightRole};

impl WeightLoader<'_> {
    /// The weights of a layer that predict and correct the streams.
    pub(crate) fn alt_up(&mut self, layer: usize) -> Option<AltUpWeights> {
        let alt_up = self.spec.alt_up?;
        let role = |part| WeightRole::Layer(layer, part);
        let [router, left, right] =
            [LayerWeight::StreamRouter, LayerWeight::LaurelLeft, LayerWeight::LaurelRight]
                .map(|part| self.matrix(role(part)));
        let mut vector = |part| self.vector(role(part));
        let laurel_norm = NormWeights { weight: vector(LayerWeight::LaurelNorm), bias: None };
        let scale = vector(LayerWeight::StreamScale);
        Some(AltUpWeights {
            router_norm: NormWeights { weight: vector(LayerWeight::StreamRouterNorm), bias: None },
            router,
            prediction: vector(LayerWeight::StreamPrediction),
            correction: vector(LayerWeight::StreamCorrection),
            scale: alt_up.scaled.then_some(scale),
            laurel: LaurelWeights { left, right, norm: laurel_norm },
        })
    }

    /// The projections from the embedding to the other streams, and from those to the last hidden state.
    pub(crate) fn stream_projections(&mut self) -> Option<StreamProjections> {
        let streams = 1..self.spec.alt_up?.streams;
        Some(StreamProjections {
            widen: streams.clone().map(|stream| self.matrix(WeightRole::StreamProjection(stream))).collect(),
            merge: streams.map(|stream| self.matrix(WeightRole::StreamMerge(stream))).collect(),
        })
    }
}
