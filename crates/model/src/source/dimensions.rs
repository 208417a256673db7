//! Dimensions that files tell in more than one way.

use super::{Defaults, FEED, Key, Source};
use crate::error::Error;
use crate::spec::{Norm, NormKind};

pub(super) const KV_HEADS: Key = Key("attention.head_count_kv", &["num_key_value_heads"]);
const RMS_EPS: Key = Key("attention.layer_norm_rms_epsilon", &["rms_norm_eps", "norm_eps"]);
const LAYER_EPS: Key = Key("attention.layer_norm_epsilon", &["layer_norm_eps", "layer_norm_epsilon"]);

impl Source<'_> {
    /// Key and value heads: of a GGUF that lists them for each layer, the most of any.
    pub(super) fn kv_heads(&self, heads: usize, defaults: &Defaults) -> Result<usize, Error> {
        let listed = if defaults.listed { self.listed_sizes(KV_HEADS) } else { None };
        Ok(match listed {
            Some(list) => list.into_iter().max().unwrap_or(0),
            None => self.size(KV_HEADS)?.or(defaults.kv_heads).unwrap_or(heads),
        })
    }

    /// Rows of gate and up: of a GGUF that lists them for each layer, the most of any.
    pub(super) fn feed_width(&self, defaults: &Defaults) -> Result<usize, Error> {
        match self.listed_sizes(FEED).filter(|_| defaults.listed) {
            Some(list) => Ok(list.into_iter().max().unwrap_or(0)),
            None => self.need(FEED, defaults.feed),
        }
    }

    /// The kind of every norm, by the family, and its epsilon.
    pub(super) fn norm(&self, defaults: &Defaults) -> Result<Norm, Error> {
        let kind = defaults.norm;
        let (key, default) = match kind {
            NormKind::Rms => (RMS_EPS, defaults.eps.unwrap_or(1e-6)),
            NormKind::Layer => (LAYER_EPS, defaults.eps.unwrap_or(1e-5)),
        };
        let eps = self.float(key)?.unwrap_or(default);
        Ok(Norm { kind, eps, bias: kind == NormKind::Layer, plus_one: false })
    }
}
