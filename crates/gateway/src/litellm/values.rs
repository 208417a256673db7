//! Values of LiteLLM's file, and remarks about those that are not carried over.

use serde_json::{Map, Value};

/// Most remarks.
const MOST: usize = 1_024;
/// Longest time of a setting, in milliseconds.
const LONGEST_MS: u64 = 24 * 3600 * 1000;

/// What was not carried over.
#[derive(Default)]
pub(super) struct Remarks(pub(super) Vec<String>);

impl Remarks {
    pub(super) fn add(&mut self, remark: impl Into<String>) {
        let remark = remark.into();
        // Of many deployments with the same setting one is told.
        if self.0.len() < MOST && !self.0.contains(&remark) {
            self.0.push(remark);
        }
    }

    /// A remark for each setting of `map` that is not among `known`.
    pub(super) fn rest(&mut self, place: &str, map: &Map<String, Value>, known: &[&str]) {
        for name in map.keys().filter(|name| !known.contains(&name.as_str())) {
            self.add(format!("{place}.{name} is not carried over"));
        }
    }
}

/// What deployments have unless they say otherwise, in milliseconds.
#[derive(Default)]
pub(super) struct Defaults {
    pub(super) total_ms: Option<u64>,
    pub(super) first_byte_ms: Option<u64>,
}

/// A time in seconds, as milliseconds.
pub(super) fn seconds(value: &Value) -> Option<u64> {
    let seconds = value.as_f64().filter(|seconds| *seconds > 0.0 && seconds.is_finite())?;
    Some(((seconds * 1e3).ceil() as u64).clamp(1, LONGEST_MS))
}

/// A text that is not empty.
pub(super) fn text(map: &Map<String, Value>, name: &str) -> Option<String> {
    map.get(name)?.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The variable of `os.environ/NAME`.
pub(super) fn variable(text: &str) -> Option<&str> {
    text.strip_prefix("os.environ/").filter(|name| !name.is_empty())
}
