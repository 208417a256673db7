//! Which layers of a hybrid are recurrent or predict further tokens, and the limits of a step in time.

use super::dimensions::KV_HEADS;
use super::{Format, Key, Source};
use crate::error::Error;
use crate::spec::{Prediction, Spec};
use serde_json::Value;
use weights::{Metadata, gguf};

const LAYERS: Key = Key("attention.recurrent_layers", &["layer_types"]);
const INTERVAL: Key = Key("full_attention_interval", &["full_attention_interval"]);
const ATTENTION: Key = Key("", &["full_attn_idxs"]);
const PREDICTION: Key = Key("nextn_predict_layers", &[]);
const STEP_LIMITS: Key = Key("", &["time_step_limit", "mamba_dt_limit"]);

impl Source<'_> {
    /// A list of integers of a GGUF; `None` if the key is absent or no such list.
    pub(crate) fn listed_sizes(&self, key: Key) -> Option<Vec<usize>> {
        let (Format::Gguf { .. }, Metadata::Gguf(keys)) = (&self.form, self.opened.metadata()) else {
            return None;
        };
        match keys.get(&self.spelled(key))? {
            gguf::Value::Array(gguf::Array::U32(list)) => Some(list.iter().map(|&n| n as usize).collect()),
            gguf::Value::Array(gguf::Array::I32(list)) => {
                list.iter().map(|&n| usize::try_from(n).ok()).collect()
            }
            _ => None,
        }
    }

    /// Whether each layer is a convolution: in a GGUF those without KV heads.
    pub(crate) fn convolved_layers(&self, layers: usize) -> Result<Vec<bool>, Error> {
        if let Some(listed) = self.layers_without_kv_heads(layers)? {
            return Ok(listed);
        }
        let (key, listed): (_, Vec<bool>) = match self.layers_of_kind("conv")? {
            Some(listed) => (LAYERS, listed),
            None => {
                let attention = self.sizes(ATTENTION)?;
                (ATTENTION, (0..layers).map(|layer| !attention.contains(&layer)).collect())
            }
        };
        self.one_for_each(key, listed, layers)
    }

    /// Whether each layer has no KV heads, by the list of a GGUF; `None` if the file has no such list.
    pub(crate) fn layers_without_kv_heads(&self, layers: usize) -> Result<Option<Vec<bool>>, Error> {
        let Some(heads) = self.listed_sizes(KV_HEADS) else { return Ok(None) };
        self.one_for_each(KV_HEADS, heads.into_iter().map(|heads| heads == 0).collect(), layers).map(Some)
    }

    /// Leaves out the layers that predict further tokens: in a GGUF the last ones, in a Hugging Face directory what has
    /// names of its own.
    pub(crate) fn leave_out_prediction(&self, spec: &mut Spec) -> Result<(), Error> {
        if !self.is_gguf() {
            spec.prediction = Prediction::LeftOut(usize::from(self.has("mtp.fc.weight")));
            return Ok(());
        }
        let (count, layers) = (self.size(PREDICTION)?.unwrap_or(0), spec.layers.len());
        if count >= layers {
            return Err(self.bad(PREDICTION, count, format!("fewer than the {layers} layers")));
        }
        spec.prediction = Prediction::LeftOut(count);
        spec.layers.truncate(layers - count);
        Ok(())
    }

    /// The list, if it has a value for each layer.
    pub(crate) fn one_for_each<T>(&self, key: Key, listed: Vec<T>, layers: usize) -> Result<Vec<T>, Error> {
        if listed.len() != layers {
            return Err(self.bad(key, listed.len(), format!("one for each of the {layers} layers")));
        }
        Ok(listed)
    }

    /// The least and the largest step in time, 0 and infinity where the file does not limit it. A GGUF does not tell.
    pub(crate) fn step_limits(&self) -> Result<(f32, f32), Error> {
        let unlimited = (0.0, f32::INFINITY);
        let Some(value) = self.value(STEP_LIMITS.1) else { return Ok(unlimited) };
        // JSON has no infinity: transformers writes an object with its name.
        let number = |value: &Value| match value.get("__float__").unwrap_or(value) {
            Value::String(text) => text.parse::<f32>().ok(),
            value => value.as_f64().map(|number| number as f32),
        };
        match value.as_array().map(|list| list.iter().map(number).collect::<Vec<_>>()).as_deref() {
            Some([Some(least), Some(most)]) => Ok((*least, *most)),
            _ => Err(self.bad(STEP_LIMITS, value, "a list of the least and the largest step".into())),
        }
    }

    /// Whether each layer is recurrent: by the list of the file, or every layer but each `full_attention_interval`-th.
    pub(crate) fn recurrent_layers(&self, layers: usize) -> Result<Vec<bool>, Error> {
        let listed = match (&self.form, self.opened.metadata()) {
            (Format::Gguf { .. }, Metadata::Gguf(keys)) => match keys.get(&self.spelled(LAYERS)) {
                None => None,
                Some(gguf::Value::Array(gguf::Array::Bool(list))) => Some(list.clone()),
                Some(other) => {
                    return Err(self.bad(LAYERS, other.type_name(), "a list of true and false".into()));
                }
            },
            _ => self.layers_of_kind("linear_attention")?,
        };
        let Some(listed) = listed else {
            let every = self.need(INTERVAL, Some(4))?;
            if every == 0 {
                return Err(self.bad(INTERVAL, every, "at least 1".into()));
            }
            return Ok((0..layers).map(|layer| !(layer + 1).is_multiple_of(every)).collect());
        };
        // A GGUF lists the layers that predict further tokens too.
        if listed.len() < layers || (!self.is_gguf() && listed.len() > layers) {
            return Err(self.bad(LAYERS, listed.len(), format!("one for each of the {layers} layers")));
        }
        Ok(listed[..layers].to_vec())
    }
}
