//! Constraints on answers (structured output), and their translation to llguidance's Lark grammars.

use serde_json::Value;

use super::calls::{RequiredToolCalls, literal, spell};
use super::gbnf;
use super::schema::{self, Schema};
use crate::parts::Channels;

/// A constraint that an answer must satisfy.
#[derive(Debug, Clone, PartialEq)]
pub enum AnswerConstraint {
    /// JSON that is valid under a schema.
    Json(Schema),
    /// Text that a regular expression matches completely.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// Text of a grammar, in llguidance's variant of Lark.
    Lark(String),
    /// Text of a grammar, in llama.cpp's GBNF.
    Gbnf(String),
    /// Tool calls only.
    ToolCalls(RequiredToolCalls),
    /// Tool calls, or an answer that satisfies the other constraint, which is JSON, a regular expression or a choice.
    ToolCallsOr(RequiredToolCalls, Box<AnswerConstraint>),
}

impl AnswerConstraint {
    /// A grammar in GBNF or Lark; the language is detected.
    pub fn grammar(text: String) -> AnswerConstraint {
        if gbnf::is_gbnf(&text) { AnswerConstraint::Gbnf(text) } else { AnswerConstraint::Lark(text) }
    }

    /// JSON under a schema, with additional properties where the schema allows them.
    pub fn json(schema: Value) -> AnswerConstraint {
        AnswerConstraint::Json(schema.into())
    }

    /// The Lark grammar of an answer in a model's format of messages, as [`lark`](AnswerConstraint::lark).
    pub(super) fn lark_in(
        &self,
        channels: Option<Channels>,
        control: &dyn Fn(&str) -> Option<u32>,
    ) -> Result<(String, Vec<String>), String> {
        let (lark, warnings) = self.lark(control)?;
        let Some(channels) = channels.filter(|_| !matches!(self, AnswerConstraint::ToolCalls(_))) else {
            return Ok((lark, warnings));
        };
        let head = spell(channels.answer_head(), control);
        // An answer in words has a head; calls have their own.
        let name = if matches!(self, AnswerConstraint::ToolCallsOr(..)) { "said: " } else { "start: " };
        match lark.split_once(name) {
            Some((before, rest)) if before.is_empty() || before.ends_with('\n') => {
                Ok((format!("{before}{name}{head} body_of_message\nbody_of_message: {rest}"), warnings))
            }
            _ => Err("this model answers in messages on channels, around which a grammar without `start:` cannot be put".into()),
        }
    }

    /// The Lark grammar, and warnings about parts of the constraint that are not enforced. `control` maps marks to
    /// control tokens.
    fn lark(&self, control: &dyn Fn(&str) -> Option<u32>) -> Result<(String, Vec<String>), String> {
        let plain = |lark: String| Ok((lark, Vec::new()));
        match self {
            AnswerConstraint::Json(schema) => {
                let written = schema::write(schema, "j")?;
                Ok((format!("start: {}\n{}", written.start, written.rules), written.warnings))
            }
            AnswerConstraint::Regex(regex) => schema::regex(regex),
            AnswerConstraint::Choice(texts) if texts.is_empty() => {
                Err("there is nothing to choose from".into())
            }
            AnswerConstraint::Choice(texts) => {
                let quoted: Vec<String> = texts.iter().map(|text| literal(text)).collect();
                plain(format!("start: {}", quoted.join(" | ")))
            }
            AnswerConstraint::Lark(grammar) => plain(grammar.clone()),
            AnswerConstraint::Gbnf(grammar) => plain(gbnf::to_lark(grammar)?),
            AnswerConstraint::ToolCalls(calls) => {
                let (body, warnings) = calls.lark(control)?;
                Ok((format!("start: {body}"), warnings))
            }
            AnswerConstraint::ToolCallsOr(calls, form) => {
                if !matches!(
                    form.as_ref(),
                    AnswerConstraint::Json(_) | AnswerConstraint::Regex(_) | AnswerConstraint::Choice(_)
                ) {
                    return Err("a grammar and calls of tools cannot both be".into());
                }
                let (said, mut warnings) = form.lark(control)?;
                let said = said.strip_prefix("start: ").ok_or("the form has no start")?;
                let (body, more) = calls.lark(control)?;
                warnings.extend(more);
                Ok((format!("start: calls | said\nsaid: {said}\ncalls: {body}"), warnings))
            }
        }
    }
}
