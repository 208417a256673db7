//! Reads lists of `config.json`.

use super::{Key, Source};
use crate::error::Error;
use serde_json::Value;

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

    /// A list of strings of `config.json`; empty if absent.
    pub(crate) fn texts(&self, key: Key) -> Result<Vec<String>, Error> {
        let Some(value) = self.value(key.1) else { return Ok(Vec::new()) };
        let text = |v: &Value| v.as_str().map(str::to_owned);
        let list = value.as_array().and_then(|list| list.iter().map(text).collect());
        list.ok_or_else(|| self.bad(key, value, "a list of texts".into()))
    }
}
