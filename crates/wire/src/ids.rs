//! What a request says of tokens rather than of text: vLLM's fields.

use serde::Serialize;

use crate::error::Fault;
use crate::fields::Fields;
use crate::limits;

/// Token ids in requests and answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ids {
    /// The answer has the ids of prompt and answer (`return_token_ids`).
    pub returned: bool,
    /// Log-probabilities name tokens as `token_id:N` (`return_tokens_as_token_ids`).
    pub as_names: bool,
    /// Only the end of a long prompt counts (`truncate_prompt_tokens`).
    pub truncate: Option<Truncate>,
}

/// How much of a prompt counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncate {
    /// What the context has room for beside the answer.
    Context,
    /// So many last tokens.
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

/// `stop_reason` of a choice: the request's stop that was met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum StopReason {
    /// One of `stop_token_ids`.
    Id(u32),
    /// One of `stop`.
    Text(String),
}
