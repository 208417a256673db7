//! Scheduling options of a request: the fields that all generating endpoints share.

use serde_json::Value;

use crate::error::Fault;
use crate::fields::{Fields, wrong};
use crate::limits;

/// Scheduling class of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Served before the others: a person is waiting.
    Interactive,
    /// The class without `priority`.
    Default,
    /// Served with the capacity that the other classes leave.
    Batch,
}

/// Scheduling options of a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Handling {
    /// `priority`, by name or as vLLM's number (below 0 is more urgent, above 0 less), or OpenAI's `service_tier`.
    pub priority: Option<Priority>,
    /// Seconds after which an unfinished request fails (`timeout`).
    pub timeout_s: Option<f32>,
    /// Salt of the prefix cache: entries are shared only between requests with the same salt.
    pub cache_salt: Option<String>,
    /// Whether `usage` includes the request's cost.
    pub include_cost: bool,
}

impl Handling {
    pub(crate) fn read(body: &Fields<'_>) -> Result<Handling, Fault> {
        Ok(Handling {
            priority: priority(body)?,
            timeout_s: body.float("timeout", 0.001..=limits::TIMEOUT_S)?,
            cache_salt: body.text("cache_salt", limits::NAME_BYTES)?.map(str::to_owned),
            include_cost: body.boolean("include_cost")?.unwrap_or(false),
        })
    }
}

fn priority(body: &Fields<'_>) -> Result<Option<Priority>, Fault> {
    let name = "priority";
    match body.get(name) {
        None => service_tier(body),
        Some(Value::String(word)) => match word.as_str() {
            "interactive" => Ok(Some(Priority::Interactive)),
            "default" => Ok(Some(Priority::Default)),
            "batch" => Ok(Some(Priority::Batch)),
            _ => Err(wrong(name, &body.get(name).cloned().unwrap_or_default(), PRIORITIES)),
        },
        Some(value) => match value.as_i64() {
            Some(..0) => Ok(Some(Priority::Interactive)),
            Some(0) => Ok(Some(Priority::Default)),
            Some(1..) => Ok(Some(Priority::Batch)),
            None => Err(wrong(name, value, PRIORITIES)),
        },
    }
}

const PRIORITIES: &str = "\"interactive\", \"default\", \"batch\" or a whole number";

/// OpenAI's `service_tier`: `priority` and `flex` map to a priority, others have no effect.
fn service_tier(body: &Fields<'_>) -> Result<Option<Priority>, Fault> {
    let tier = body.text("service_tier", limits::NAME_BYTES)?;
    Ok(tier.and_then(|tier| match tier {
        "priority" => Some(Priority::Interactive),
        "flex" => Some(Priority::Batch),
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Handling, Fault> {
        let value: Value = serde_json::from_str(json).unwrap();
        Handling::read(&Fields::body(&value)?)
    }

    #[test]
    fn all_spellings_of_a_priority() {
        let priority = |json| read(json).unwrap().priority;
        assert_eq!(priority("{}"), None);
        assert_eq!(priority(r#"{"priority": "batch"}"#), Some(Priority::Batch));
        assert_eq!(priority(r#"{"priority": -3}"#), Some(Priority::Interactive));
        assert_eq!(priority(r#"{"priority": 0, "service_tier": "flex"}"#), Some(Priority::Default));
        assert_eq!(priority(r#"{"service_tier": "flex"}"#), Some(Priority::Batch));
        assert_eq!(priority(r#"{"service_tier": "auto"}"#), None);
        for bad in [r#"{"priority": "asap"}"#, r#"{"priority": 1.5}"#, r#"{"priority": []}"#] {
            assert_eq!(read(bad).unwrap_err().param.as_deref(), Some("priority"), "{bad}");
        }
    }

    #[test]
    fn a_timeout_is_a_time_ahead() {
        assert_eq!(read(r#"{"timeout": 2.5}"#).unwrap().timeout_s, Some(2.5));
        for bad in [r#"{"timeout": 0}"#, r#"{"timeout": -1}"#, r#"{"timeout": 1e9}"#, r#"{"timeout": "1"}"#] {
            assert_eq!(read(bad).unwrap_err().param.as_deref(), Some("timeout"), "{bad}");
        }
    }
}
