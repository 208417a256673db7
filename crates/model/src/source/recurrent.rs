//! Which layers of a hybrid are recurrent.

use super::{Format, Key, Source};
use crate::error::Error;
use serde_json::Value;
use weights::{Metadata, gguf};

const LAYERS: Key = Key("attention.recurrent_layers", &["layer_types"]);
const INTERVAL: Key = Key("full_attention_interval", &["full_attention_interval"]);

impl Source<'_> {
    /// Whether each layer is recurrent: by the list of the file, or every layer but each `full_attention_interval`-th.
    pub(crate) fn recurrent_layers(&self, layers: usize) -> Result<Vec<bool>, Error> {
        let listed = match (&self.form, self.opened.metadata()) {
            (Format::Gguf { .. }, Metadata::Gguf(keys)) => {
                keys.get(&self.spelled(LAYERS)).map(|value| match value {
                    gguf::Value::Array(gguf::Array::Bool(list)) => Some(list.clone()),
                    _ => None,
                })
            }
            _ => self.value(LAYERS.1).map(|value| {
                let list = value.as_array()?;
                let kind = |v: &Value| match v.as_str() {
                    Some("linear_attention") => Some(true),
                    Some("full_attention") => Some(false),
                    _ => None,
                };
                list.iter().map(kind).collect::<Option<Vec<bool>>>()
            }),
        };
        let Some(listed) = listed else {
            let every = self.need(INTERVAL, Some(4))?;
            if every == 0 {
                return Err(self.bad(INTERVAL, every, "at least 1".into()));
            }
            return Ok((0..layers).map(|layer| !(layer + 1).is_multiple_of(every)).collect());
        };
        let listed: Vec<bool> = listed.ok_or_else(|| {
            let expected = if self.is_gguf() {
                "a list of true and false"
            } else {
                "linear_attention or full_attention"
            };
            self.bad(LAYERS, "something else", expected.into())
        })?;
        // A GGUF lists the layers that predict further tokens too.
        if listed.len() < layers || (!self.is_gguf() && listed.len() > layers) {
            return Err(self.bad(LAYERS, listed.len(), format!("one for each of the {layers} layers")));
        }
        Ok(listed[..layers].to_vec())
    }
}
