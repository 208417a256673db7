//! Dimensions that files tell in more than one way.

use super::{Defaults, FEED, Key, Source};
use crate::error::Error;
use crate::spec::{FeedForward, Norm, NormKind};
use serde_json::Value;

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

    /// The feed-forward of each layer: as wide as the file lists, or all alike.
    pub(super) fn feeds(&self, layers: usize, defaults: &Defaults) -> Result<Vec<FeedForward>, Error> {
        let in_config = || self.value(FEED.1).filter(|value| value.is_array()).map(|_| self.sizes(FEED));
        let listed = self.listed_sizes(FEED).map(Ok).or_else(in_config).transpose()?;
        let widths = match listed {
            Some(list) => self.one_for_each(FEED, list, layers)?,
            None => vec![self.need(FEED, defaults.feed)?; layers],
        };
        Ok(widths.into_iter().map(|width| FeedForward::Dense { width }).collect())
    }

    /// The value that `per_layer_config` of `config.json` has for one layer only.
    pub(crate) fn layer_size(&self, layer: usize, name: &'static str) -> Result<Option<usize>, Error> {
        let own = self.value(&["per_layer_config"]).and_then(|all| all.get(layer.to_string())?.get(name));
        let Some(value) = own.filter(|value| !value.is_null()) else { return Ok(None) };
        let whole = Value::as_u64(value).and_then(|n| usize::try_from(n).ok());
        let key = Key("", &["per_layer_config"]);
        let told = || format!("{name} of layer {layer}: {value}");
        whole.map(Some).ok_or_else(|| self.bad(key, told(), "a whole number".into()))
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
