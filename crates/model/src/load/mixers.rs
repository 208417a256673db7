//! Assembles the weights of the mixers from those that were loaded.

use super::WeightLoader;
use crate::blocks::{DeltaNetWeights, LatentWeights, Mamba2Weights, MixerWeights, ShortConvWeights};
use crate::latent::LatentAttention;
use crate::mixer::{DeltaNet, Mamba2, Mixer};
use crate::spec::Layer;
use crate::weight_role::{LayerWeight, WeightRole};

impl WeightLoader<'_> {
    /// The weights of the layer's mixer before its output projection.
    pub(super) fn mixer(&mut self, layer: usize) -> MixerWeights {
        let before = &self.spec.layers[..layer];
        let state = before.iter().map(Layer::state_floats).sum();
        match self.spec.layers[layer].mixer {
            Mixer::None => MixerWeights::None,
            Mixer::Attention => MixerWeights::Attention(Box::new(self.attention(layer))),
            Mixer::Latent(net) => MixerWeights::Latent(Box::new(self.latent(layer, net))),
            Mixer::DeltaNet(net) => MixerWeights::DeltaNet(Box::new(self.delta_net(layer, net, state))),
            Mixer::ShortConv(shape) => {
                let role = |part| WeightRole::Layer(layer, part);
                let input = self.matrix(role(LayerWeight::MixerInput));
                let conv = by_input(&self.vector(role(LayerWeight::Conv)), shape.kernel);
                MixerWeights::ShortConv(Box::new(ShortConvWeights { shape, input, conv, state }))
            }
            Mixer::Mamba2(net) => MixerWeights::Mamba2(Box::new(self.mamba2(layer, net, state))),
            Mixer::AttentionAndMamba2(net) => {
                let both = (self.attention(layer), self.mamba2(layer, net, state));
                MixerWeights::AttentionAndMamba2(Box::new(both))
            }
        }
    }

    fn latent(&mut self, layer: usize, shape: LatentAttention) -> LatentWeights {
        let role = |part| WeightRole::Layer(layer, part);
        let query_latent = shape.query_rank.map(|_| {
            (self.matrix(role(LayerWeight::QueryLatent)), self.vector(role(LayerWeight::QueryLatentNorm)))
        });
        let (query, latent) =
            (self.matrix(role(LayerWeight::Query)), self.matrix(role(LayerWeight::KvLatent)));
        let of_input = query_latent.as_ref().map_or(&query, |(matrix, _)| matrix);
        let formats = of_input.activations() | latent.activations();
        let latent_norm = self.vector(role(LayerWeight::KvLatentNorm));
        let mut of_heads = |part: fn(usize) -> LayerWeight| {
            (0..shape.heads).map(|head| self.matrix(role(part(head)))).collect::<Vec<_>>()
        };
        let (keys, values) = (of_heads(LayerWeight::HeadKey), of_heads(LayerWeight::HeadValue));
        let kv_layer = self.spec.kv_layer(layer);
        LatentWeights { shape, query_latent, query, latent, latent_norm, keys, values, formats, kv_layer }
    }

    fn delta_net(&mut self, layer: usize, shape: DeltaNet, state: usize) -> DeltaNetWeights {
        let [input, gate, beta, alpha] =
            [LayerWeight::MixerInput, LayerWeight::MixerGate, LayerWeight::Beta, LayerWeight::Alpha]
                .map(|part| self.matrix(WeightRole::Layer(layer, part)));
        let formats = input.activations() | gate.activations() | beta.activations() | alpha.activations();
        let mut vector = |part| self.vector(WeightRole::Layer(layer, part));
        let conv = by_input(&vector(LayerWeight::Conv), shape.kernel);
        let rates = negative_rates(vector(LayerWeight::DecayRate), shape.log_rates);
        let (time_bias, norm) = (vector(LayerWeight::TimeBias), vector(LayerWeight::MixerNorm));
        DeltaNetWeights { shape, input, gate, beta, alpha, formats, conv, rates, time_bias, norm, state }
    }

    fn mamba2(&mut self, layer: usize, shape: Mamba2, state: usize) -> Mamba2Weights {
        let role = |part| WeightRole::Layer(layer, part);
        let [gate, input, step] = [LayerWeight::MixerGate, LayerWeight::MixerInput, LayerWeight::TimeStep]
            .map(|part| self.matrix(role(part)));
        Mamba2Weights {
            shape,
            formats: gate.activations() | input.activations() | step.activations(),
            gate,
            input,
            step,
            conv: scaled(by_input(&self.vector(role(LayerWeight::Conv)), shape.kernel), &shape),
            conv_bias: self.vectors.remove(&role(LayerWeight::ConvBias)),
            rates: negative_rates(self.vector(role(LayerWeight::DecayRate)), shape.log_rates),
            time_bias: self.vector(role(LayerWeight::TimeBias)),
            skip: self.vector(role(LayerWeight::Skip)),
            norm: self.vectors.remove(&role(LayerWeight::MixerNorm)),
            out: self.matrices.remove(&role(LayerWeight::MixerOut)),
            state,
        }
    }
}

/// A convolution's weights `[kernel, channels]` with the factors on its inputs.
fn scaled(mut conv: Vec<f32>, net: &Mamba2) -> Vec<f32> {
    let (inner, keys, factors) = (net.inner_width(), net.keys_width(), &net.factors);
    for row in conv.chunks_exact_mut(net.channels()) {
        let (inputs, rest) = row.split_at_mut(inner);
        let (write, read) = rest.split_at_mut(keys);
        for (part, factor) in [(inputs, factors.input), (write, factors.write), (read, factors.read)] {
            part.iter_mut().for_each(|weight| *weight *= factor);
        }
    }
    conv
}

/// A convolution's weights `[channels, kernel]` as `[kernel, channels]`.
fn by_input(weights: &[f32], kernel: usize) -> Vec<f32> {
    (0..kernel).flat_map(|input| weights.iter().skip(input).step_by(kernel).copied()).collect()
}

/// The negative decay rates of what a file stores: those, or the logarithms of the rates.
fn negative_rates(mut stored: Vec<f32>, logarithms: bool) -> Vec<f32> {
    if logarithms {
        stored.iter_mut().for_each(|rate| *rate = -rate.exp());
    }
    stored
}
