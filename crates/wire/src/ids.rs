//! vLLM's request fields about token ids.

use serde::Serialize;

use crate::error::Fault;
use crate::fields::Fields;
use crate::{limits, sampling};

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

/// `resume`: an answer that another node of the same weights began, and that goes on here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resume {
    /// The answer's first tokens (`resume.token_ids`), at most [`limits::RESUMED_TOKENS`]. With none the answer has begun
    /// too: a stream does not begin it again.
    pub token_ids: Vec<u32>,
}

/// What the rest of a request says of an answer that is to be resumed.
pub(crate) struct Resumed {
    /// Answers in all, with the field that asks for them.
    pub(crate) answers: (&'static str, usize),
    pub(crate) max_tokens: Option<usize>,
    /// Log-probabilities are asked for, and the answer is not streamed.
    pub(crate) whole_logprobs: bool,
    /// The field that asks for something of the prompt, if there is one.
    pub(crate) of_prompt: Option<&'static str>,
}

impl Resume {
    pub(crate) fn read(body: &Fields<'_>) -> Result<Option<Resume>, Fault> {
        let Some(value) = body.get("resume") else { return Ok(None) };
        let fields = Fields::at(value, "resume".into())?;
        let name = "token_ids";
        let ids =
            fields.list(name, limits::RESUMED_TOKENS)?.ok_or_else(|| Fault::missing(fields.param(name)))?;
        Ok(Some(Resume { token_ids: sampling::token_ids(&fields.param(name), ids)? }))
    }

    pub(crate) fn check(&self, other: &Resumed) -> Result<(), Fault> {
        let (name, answers) = other.answers;
        if answers > 1 {
            let message =
                format!("resume is given and {name} asks for {answers} answers: one can be resumed");
            return Err(Fault::field("resume", message));
        }
        let count = self.token_ids.len();
        if let Some(most) = other.max_tokens.filter(|most| *most < count) {
            let message =
                format!("resume.token_ids has {count} tokens; max_tokens is {most}, of the whole answer");
            return Err(Fault::field("resume.token_ids", message));
        }
        if other.whole_logprobs {
            let message =
                "resume is given with logprobs: those of resumed tokens are not known; stream must be true";
            return Err(Fault::field("resume", message));
        }
        match other.of_prompt {
            Some(name) => {
                Err(Fault::field("resume", format!("resume is given with {name}; one of both is possible")))
            }
            None => Ok(()),
        }
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
