//! Constraints on answers (structured output), and their translation to llguidance's Lark grammars.

use serde_json::Value;

use super::gbnf;
use super::schema::{self, Schema};
use crate::tools::{FramePart, ToolCallStyle};

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

/// The tool calls of which an answer must consist.
#[derive(Debug, Clone, PartialEq)]
pub struct RequiredToolCalls {
    /// The syntax of the calls.
    pub style: ToolCallStyle,
    /// The allowed tools (at least one): name, and schema of the arguments.
    pub tools: Vec<(String, Schema)>,
    /// Whether more than one call is allowed.
    pub several: bool,
}

/// The most calls in an answer of required calls, so that it ends.
const MOST_CALLS: usize = 16;

impl AnswerConstraint {
    /// A grammar in GBNF or Lark; the language is detected.
    pub fn grammar(text: String) -> AnswerConstraint {
        if gbnf::is_gbnf(&text) { AnswerConstraint::Gbnf(text) } else { AnswerConstraint::Lark(text) }
    }

    /// JSON under a schema, with additional properties where the schema allows them.
    pub fn json(schema: Value) -> AnswerConstraint {
        AnswerConstraint::Json(schema.into())
    }

    /// The Lark grammar, and warnings about parts of the constraint that are not enforced. `control` maps marks to
    /// control tokens.
    pub(super) fn lark(
        &self,
        control: &dyn Fn(&str) -> Option<u32>,
    ) -> Result<(String, Vec<String>), String> {
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

impl RequiredToolCalls {
    /// The body of a rule with the rules that it needs, and warnings.
    fn lark(&self, control: &dyn Fn(&str) -> Option<u32>) -> Result<(String, Vec<String>), String> {
        let frame = self.style.frame();
        let spell = |bits: &[FramePart]| -> String {
            let spelt = bits.iter().map(|bit| match bit {
                FramePart::Mark(mark) => {
                    control(mark).map_or_else(|| literal(mark), |id| format!("<[{id}]>"))
                }
                FramePart::Text(text) => literal(text),
            });
            spelt.collect::<Vec<_>>().join(" ")
        };
        let more =
            if self.several { format!("(between call){{0,{}}}", MOST_CALLS - 1) } else { String::new() };
        let calls: Vec<String> = (0..self.tools.len()).map(|at| format!("call{at}")).collect();
        let mut out = format!("{} call {more} {}\n", spell(frame.first), spell(frame.last));
        if self.several {
            out.push_str(&format!("between: {}\n", spell(frame.between)));
        }
        out.push_str(&format!("call: {}\n", calls.join(" | ")));
        let mut warnings = Vec::new();
        for (at, (name, schema)) in self.tools.iter().enumerate() {
            let name = Value::from(name.as_str());
            let head = literal(&format!("{{\"name\": {name}, \"{}\": ", frame.key));
            let arguments = schema::write(schema, &format!("a{at}x"))
                .map_err(|problem| format!("the parameters of tool {name}: {problem}"))?;
            warnings.extend(arguments.warnings.into_iter().map(|text| format!("tool {name}: {text}")));
            out.push_str(&format!("call{at}: {head} {} \"}}\"\n{}", arguments.start, arguments.rules));
        }
        Ok((out, warnings))
    }
}

fn literal(text: &str) -> String {
    Value::from(text).to_string()
}
