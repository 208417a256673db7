//! Reads lists of `config.json`.

use super::{Key, Source};
use crate::error::Error;
use serde_json::Value;
use weights::gguf;

impl Source<'_> {
    /// A list of integers of `config.json`; empty if absent.
    pub(crate) fn sizes(&self, key: Key) -> Result<Vec<usize>, Error> {
        let Some(value) = self.value(key.1) else { return Ok(Vec::new()) };
        let number = |v: &Value| v.as_u64().and_then(|n| usize::try_from(n).ok());
        let list = value.as_array().and_then(|list| list.iter().map(number).collect());
        list.ok_or_else(|| self.bad(key, value, "a list of whole numbers".into()))
    }

    /// A list of `N` floats of `config.json`; `None` if absent.
    pub(crate) fn floats<const N: usize>(&self, key: Key) -> Result<Option<[f32; N]>, Error> {
        let Some(value) = self.value(key.1) else { return Ok(None) };
        let number = |v: &Value| v.as_f64().map(|n| n as f32);
        let list = value.as_array().and_then(|list| list.iter().map(number).collect::<Option<Vec<_>>>());
        let floats = list.and_then(|list| list.try_into().ok());
        floats.map(Some).ok_or_else(|| self.bad(key, value, format!("a list of {N} numbers")))
    }

    /// A list of floats, one for each layer; `None` if absent.
    pub(crate) fn layer_floats(&self, key: Key, layers: usize) -> Result<Option<Vec<f32>>, Error> {
        let not_numbers = |told: &dyn ToString| self.bad(key, told.to_string(), "a list of numbers".into());
        let list = match self.opened().metadata().gguf() {
            Some(keys) => match keys.get(&self.spelled(key)) {
                None => return Ok(None),
                Some(gguf::Value::Array(gguf::Array::F32(list))) => list.clone(),
                Some(other) => return Err(not_numbers(&other.type_name())),
            },
            None => {
                let Some(value) = self.value(key.1) else { return Ok(None) };
                let number = |v: &Value| v.as_f64().map(|n| n as f32);
                let list = value.as_array().and_then(|list| list.iter().map(number).collect());
                list.ok_or_else(|| not_numbers(value))?
            }
        };
        self.one_for_each(key, list, layers).map(Some)
    }

    /// A list of strings of `config.json`; empty if absent.
    pub(crate) fn texts(&self, key: Key) -> Result<Vec<String>, Error> {
        let Some(value) = self.value(key.1) else { return Ok(Vec::new()) };
        let text = |v: &Value| v.as_str().map(str::to_owned);
        let list = value.as_array().and_then(|list| list.iter().map(text).collect());
        list.ok_or_else(|| self.bad(key, value, "a list of texts".into()))
    }
}
