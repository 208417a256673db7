//! vLLM's request fields about token ids.

use serde::Serialize;

use crate::error::Fault;
use crate::fields::Fields;
use crate::limits;

/// Options about token ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ids {
    /// Whether the response has the token ids of prompt and answer (`return_token_ids`).
    pub returned: bool,
    /// Whether log-probabilities name tokens as `token_id:N` (`return_tokens_as_token_ids`).
    pub as_names: bool,
    /// Truncation of the prompt to its last tokens (`truncate_prompt_tokens`).
    pub truncate: Option<Truncate>,
}

/// The length that a prompt is truncated to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncate {
    /// As many last tokens as fit into the context together with the answer.
    Context,
    /// This many last tokens.
    Last(usize),
}

impl Ids {
    pub(crate) fn read(body: &Fields<'_>) -> Result<Ids, Fault> {
        let name = "truncate_prompt_tokens";
        let truncate = match body.integer(name, -1..=limits::TOKENS)? {
            None => None,
            Some(-1) => Some(Truncate::Context),
            Some(0) => {
                return Err(Fault::field(
                    name,
                    format!("{name} is 0; it must be -1 (the context) or at least 1"),
                ));
            }
            Some(most) => Some(Truncate::Last(usize::try_from(most).unwrap_or(usize::MAX))),
        };
        Ok(Ids {
            returned: body.boolean("return_token_ids")?.unwrap_or(false),
            as_names: body.boolean("return_tokens_as_token_ids")?.unwrap_or(false),
            truncate,
        })
    }
}

/// `stop_reason` of a choice: the stop string or token that matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum StopReason {
    /// A token of `stop_token_ids`.
    Id(u32),
    /// A string of `stop`.
    Text(String),
}
