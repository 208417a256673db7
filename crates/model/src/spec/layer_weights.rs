//! The weights of one layer, in the order of the forward pass.

use super::{AltUp, FeedForward, KvSource, Layer, Positions, Spec};
use crate::mixer::Mixer;
use crate::weight_role::LayerWeight;

impl Spec {
    /// Names every weight of a layer with its shape.
    pub(super) fn layer_weights(&self, layer: &Layer, put: &mut dyn FnMut(LayerWeight, &[usize])) {
        let (width, q) = (self.width, self.query_width_of(layer));
        let norm_bias = self.norm.bias;
        let (pre, post) = (self.norm_place.before(), self.norm_place.after());
        let own_positions = matches!(self.positions, Positions::Disentangled { shared: false, .. });
        let mut optional = |there: bool, part: LayerWeight, shape: &[usize]| {
            if there {
                put(part, shape);
            }
        };
        let (mixes, feeds) = (layer.mixer != Mixer::None, layer.feed != FeedForward::None);
        let mixer_norm = pre && mixes && layer.attention_norm;
        optional(mixer_norm, LayerWeight::AttentionNorm, &[width]);
        optional(mixer_norm && norm_bias, LayerWeight::AttentionNormBias, &[width]);
        if layer.mixer.projects_keys() {
            self.attention_weights(layer, &mut |part, shape| optional(true, part, shape));
        }
        layer.mixer.weights(width, &mut |part, shape| optional(true, part, shape));
        optional(mixes, LayerWeight::Out, &[width, layer.mixer.out_width(q)]);
        optional(layer.mixer.is_attention() && self.biases.out, LayerWeight::OutBias, &[width]);
        for (weight, bias) in [
            (LayerWeight::PositionKey, LayerWeight::PositionKeyBias),
            (LayerWeight::PositionQuery, LayerWeight::PositionQueryBias),
        ] {
            optional(own_positions, weight, &[q, width]);
            optional(own_positions, bias, &[q]);
        }
        optional(post && mixes, LayerWeight::AttentionPostNorm, &[width]);
        optional(post && mixes && norm_bias, LayerWeight::AttentionPostNormBias, &[width]);
        let feed_norm = pre && feeds && !self.parallel;
        optional(feed_norm, LayerWeight::FeedNorm, &[width]);
        optional(feed_norm && norm_bias, LayerWeight::FeedNormBias, &[width]);
        self.feed_weights(layer, &mut |part, shape| optional(true, part, shape));
        optional(post && feeds, LayerWeight::FeedPostNorm, &[width]);
        optional(post && feeds && norm_bias, LayerWeight::FeedPostNormBias, &[width]);
        let own = self.per_layer_width;
        optional(own > 0, LayerWeight::PerLayerGate, &[own, width]);
        optional(own > 0, LayerWeight::PerLayerOut, &[width, own]);
        optional(own > 0, LayerWeight::PerLayerPostNorm, &[width]);
        if let Some(AltUp { streams, laurel_rank, .. }) = self.alt_up {
            for (part, shape) in [
                (LayerWeight::StreamRouterNorm, &[width][..]),
                (LayerWeight::StreamRouter, &[streams, width]),
                (LayerWeight::StreamPrediction, &[streams * streams, streams]),
                (LayerWeight::StreamCorrection, &[streams, streams]),
                (LayerWeight::StreamScale, &[width]),
                (LayerWeight::LaurelLeft, &[laurel_rank, width]),
                (LayerWeight::LaurelRight, &[width, laurel_rank]),
                (LayerWeight::LaurelNorm, &[width]),
            ] {
                optional(true, part, shape);
            }
        }
        optional(self.layer_scale, LayerWeight::Scale, &[1]);
    }

    /// The weights of attention before its output projection.
    fn attention_weights(&self, layer: &Layer, put: &mut dyn FnMut(LayerWeight, &[usize])) {
        let (width, heads) = (self.width, self.heads_of(layer));
        let (keys, values) = (layer.has_own_keys(), layer.kv == KvSource::Own);
        for (there, weight, bias, rows) in [
            (true, LayerWeight::Query, LayerWeight::QueryBias, self.query_rows_of(layer)),
            (keys, LayerWeight::Key, LayerWeight::KeyBias, heads.width()),
            (values, LayerWeight::Value, LayerWeight::ValueBias, heads.width()),
        ] {
            if there {
                put(weight, &[rows, width]);
            }
            if there && self.biases.qkv {
                put(bias, &[rows]);
            }
        }
        let norms =
            [(true, LayerWeight::QueryNorm, self.heads), (keys, LayerWeight::KeyNorm, heads.kv_heads)];
        for (_, norm, heads_of_it) in norms.into_iter().filter(|(there, ..)| *there) {
            if let Some(width) = self.qk_norm.width(heads_of_it, heads.head_dim) {
                put(norm, &[width]);
            }
        }
        if self.sinks {
            put(LayerWeight::Sinks, &[self.heads]);
        }
    }

    fn feed_weights(&self, layer: &Layer, put: &mut dyn FnMut(LayerWeight, &[usize])) {
        let width = self.width;
        let mut optional = |there: bool, part: LayerWeight, shape: &[usize]| {
            if there {
                put(part, shape);
            }
        };
        match layer.feed {
            FeedForward::None => {}
            FeedForward::Dense { width: ff } => {
                optional(self.gated, LayerWeight::Gate, &[ff, width]);
                optional(self.gated && self.biases.feed, LayerWeight::GateBias, &[ff]);
                optional(true, LayerWeight::Up, &[ff, width]);
                optional(self.biases.feed, LayerWeight::UpBias, &[ff]);
                optional(true, LayerWeight::Down, &[width, ff]);
                optional(self.biases.feed || self.biases.down, LayerWeight::DownBias, &[width]);
            }
            FeedForward::Experts(mixture) => {
                mixture.weights(width, self.gated, &mut |part, shape| optional(true, part, shape));
            }
        }
    }
}
