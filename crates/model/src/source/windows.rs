//! Reads which layers have a sliding window, and which have no rope.

use super::{Key, Source};
use crate::error::Error;
use serde_json::Value;
use weights::gguf;

const LAYER_TYPES: Key = Key("attention.sliding_window_pattern", &["layer_types"]);
const PATTERN: Key =
    Key("attention.sliding_window_pattern", &["sliding_window_pattern", "_sliding_window_pattern"]);

impl Source<'_> {
    /// Whether each layer has a sliding window, by the list of `config.json` or of a GGUF. `None` if the file has no such
    /// list.
    pub(crate) fn sliding_layers(&self, layers: usize) -> Result<Option<Vec<bool>>, Error> {
        let sized = |key, list: Vec<bool>| match list.len() == layers {
            true => Ok(Some(list)),
            false => Err(self.bad(key, list.len(), format!("one for each of the {layers} layers"))),
        };
        if self.is_gguf() {
            return match self.gguf_list(PATTERN)? {
                Some(list) => sized(PATTERN, list),
                None => Ok(None),
            };
        }
        match self.layers_of_kind("sliding_attention")? {
            Some(list) => sized(LAYER_TYPES, list),
            None => Ok(None),
        }
    }

    /// Whether each layer of `layer_types` in `config.json` is of this kind, and not full attention. `None` if the file
    /// has no such list.
    pub(super) fn layers_of_kind(&self, kind: &str) -> Result<Option<Vec<bool>>, Error> {
        let Some(value) = self.value(LAYER_TYPES.1) else { return Ok(None) };
        let list = value.as_array().ok_or_else(|| self.bad(LAYER_TYPES, value, "a list".into()))?;
        let known = |v: &Value| match v.as_str() {
            Some("full_attention") => Ok(false),
            Some(listed) if listed == kind => Ok(true),
            _ => Err(self.bad(LAYER_TYPES, v, format!("{kind} or full_attention"))),
        };
        list.iter().map(known).collect::<Result<_, _>>().map(Some)
    }

    /// Whether each layer has a sliding window, by [`Source::sliding_layers`]; without such a list every layer but each
    /// `period`-th. The file may have another period, or one as letters: `LLLG` for three local layers and a global one.
    pub(crate) fn sliding_pattern(&self, layers: usize, period: usize) -> Result<Vec<bool>, Error> {
        if let Some(listed) = self.sliding_layers(layers)? {
            return Ok(listed);
        }
        if let Some(letters) = self.value(PATTERN.1).and_then(Value::as_str) {
            let local = |letter| match letter {
                b'L' => Ok(true),
                b'G' => Ok(false),
                _ => Err(self.bad(PATTERN, letters, "the letters L and G".into())),
            };
            let pattern = letters.bytes().map(local).collect::<Result<Vec<_>, _>>()?;
            let empty = || self.bad(PATTERN, letters, "at least one letter".into());
            let repeated = pattern.iter().copied().cycle().take(layers).collect::<Vec<_>>();
            return if pattern.is_empty() { Err(empty()) } else { Ok(repeated) };
        }
        let period = self.size(PATTERN)?.unwrap_or(period).max(1);
        Ok((1..=layers).map(|layer| !layer.is_multiple_of(period)).collect())
    }

    /// Turns off rope in some layers: those that are 0 in the list `no_rope_layers`, or else each `period`-th.
    pub(crate) fn layers_without_rope(&self, layers: usize, period: usize) -> Result<Vec<bool>, Error> {
        const LIST: Key = Key("", &["no_rope_layers"]);
        const PERIOD: Key = Key("", &["no_rope_layer_interval"]);
        if self.value(LIST.1).is_some() {
            let list = self.sizes(LIST)?;
            if list.len() < layers {
                return Err(self.bad(LIST, list.len(), format!("one for each of the {layers} layers")));
            }
            return Ok(list[..layers].iter().map(|with_rope| *with_rope == 0).collect());
        }
        let period = self.size(PERIOD)?.unwrap_or(period);
        if period == 0 {
            return Err(self.bad(PERIOD, period, "at least 1".into()));
        }
        Ok((1..=layers).map(|layer| layer.is_multiple_of(period)).collect())
    }

    /// A list of booleans of a GGUF, which may be stored as integers; `None` if the key is absent or no list.
    fn gguf_list(&self, key: Key) -> Result<Option<Vec<bool>>, Error> {
        let Some(keys) = self.opened().metadata().gguf() else { return Ok(None) };
        let Some(gguf::Value::Array(array)) = keys.get(&self.spelled(key)) else { return Ok(None) };
        match array {
            gguf::Array::Bool(list) => Ok(Some(list.clone())),
            gguf::Array::I32(list) => Ok(Some(list.iter().map(|n| *n != 0).collect())),
            gguf::Array::U32(list) => Ok(Some(list.iter().map(|n| *n != 0).collect())),
            _ => Err(self.bad(key, "a list of another type", "a list of true and false".into())),
        }
    }
}
