//! Which layers of a hybrid are recurrent.

use super::dimensions::KV_HEADS;
use super::{Format, Key, Source};
use crate::error::Error;
use weights::{Metadata, gguf};

const LAYERS: Key = Key("attention.recurrent_layers", &["layer_types"]);
const INTERVAL: Key = Key("full_attention_interval", &["full_attention_interval"]);
const ATTENTION: Key = Key("", &["full_attn_idxs"]);

impl Source<'_> {
    /// A list of integers of a GGUF; `None` if the key is absent or no such list.
    pub(super) fn listed_sizes(&self, key: Key) -> Option<Vec<usize>> {
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
        let heads = self.listed_sizes(KV_HEADS);
        let (key, listed): (_, Vec<bool>) = match (heads, self.layers_of_kind("conv")?) {
            (Some(heads), _) => (KV_HEADS, heads.into_iter().map(|heads| heads == 0).collect()),
            (None, Some(listed)) => (LAYERS, listed),
            (None, None) => {
                let attention = self.sizes(ATTENTION)?;
                (ATTENTION, (0..layers).map(|layer| !attention.contains(&layer)).collect())
            }
        };
        if listed.len() != layers {
            return Err(self.bad(key, listed.len(), format!("one for each of the {layers} layers")));
        }
        Ok(listed)
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
