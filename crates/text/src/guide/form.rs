//! What an answer may have to be like, and the grammar of it in llguidance's words.

use serde_json::{Map, Value};

use super::gbnf;
use crate::tools::{Bit, Style};

/// The form that an answer must have.
#[derive(Debug, Clone, PartialEq)]
pub enum Form {
    /// JSON that a schema describes.
    Json(Value),
    /// Text that a regular expression (of Rust's syntax, without look-around) matches as a whole.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// Text of a grammar in llguidance's variant of Lark.
    Lark(String),
    /// Text of a grammar in llama.cpp's GBNF.
    Gbnf(String),
    /// Calls of tools, and nothing else.
    Calls(Calls),
}

/// Calls that an answer must consist of.
#[derive(Debug, Clone, PartialEq)]
pub struct Calls {
    /// How they are written.
    pub style: Style,
    /// Names of the tools, at least one, and schemas of their arguments.
    pub tools: Vec<(String, Value)>,
    /// Whether there may be more than one.
    pub several: bool,
}

/// Most calls in an answer that must consist of them: it has to end.
const MOST_CALLS: usize = 16;
/// Space between the parts of JSON: enough for any indentation, and an end to a model that writes nothing else.
const SPACE: &str = r"[\x20\x0A\x0D\x09]{1,32}";

impl Form {
    /// A grammar in either language, told by its text.
    pub fn grammar(text: String) -> Form {
        if gbnf::is_gbnf(&text) { Form::Gbnf(text) } else { Form::Lark(text) }
    }

    /// In llguidance's words. `control` tells which marks are control tokens.
    pub(super) fn lark(&self, control: impl Fn(&str) -> Option<u32>) -> Result<String, String> {
        match self {
            Form::Json(schema) => Ok(format!("start: %json {}", json(schema)?)),
            Form::Regex(regex) => Ok(format!("start: /{}/", llguidance::regex_to_lark(regex, ""))),
            Form::Choice(texts) if texts.is_empty() => Err("there is nothing to choose from".into()),
            Form::Choice(texts) => {
                let quoted: Vec<String> = texts.iter().map(|text| literal(text)).collect();
                Ok(format!("start: {}", quoted.join(" | ")))
            }
            Form::Lark(grammar) => Ok(grammar.clone()),
            Form::Gbnf(grammar) => gbnf::to_lark(grammar),
            Form::Calls(calls) => calls.lark(control),
        }
    }
}

impl Calls {
    fn lark(&self, control: impl Fn(&str) -> Option<u32>) -> Result<String, String> {
        let frame = self.style.frame();
        let spell = |bits: &[Bit]| -> String {
            let spelt = bits.iter().map(|bit| match bit {
                Bit::Mark(mark) => control(mark).map_or_else(|| literal(mark), |id| format!("<[{id}]>")),
                Bit::Text(text) => literal(text),
            });
            spelt.collect::<Vec<_>>().join(" ")
        };
        let more =
            if self.several { format!("(between call){{0,{}}}", MOST_CALLS - 1) } else { String::new() };
        let calls: Vec<String> = (0..self.tools.len()).map(|at| format!("call{at}")).collect();
        let mut out = format!("start: {} call {more} {}\n", spell(frame.first), spell(frame.last));
        if self.several {
            out.push_str(&format!("between: {}\n", spell(frame.between)));
        }
        out.push_str(&format!("call: {}\n", calls.join(" | ")));
        for (at, (name, schema)) in self.tools.iter().enumerate() {
            let name = Value::from(name.as_str());
            let head = literal(&format!("{{\"name\": {name}, \"{}\": ", frame.key));
            let schema =
                json(schema).map_err(|problem| format!("the parameters of tool {name}: {problem}"))?;
            out.push_str(&format!("call{at}: {head} arguments{at} \"}}\"\narguments{at}: %json {schema}\n"));
        }
        Ok(out)
    }
}

fn literal(text: &str) -> String {
    Value::from(text).to_string()
}

/// A schema with our space rule. Its own options for the library (`x-guidance`) could weaken what is promised: they go.
fn json(schema: &Value) -> Result<Value, String> {
    let mut schema = match schema {
        Value::Object(schema) => schema.clone(),
        Value::Bool(true) => Map::new(),
        other => return Err(format!("a schema must be an object; it is {other}")),
    };
    let options = Map::from_iter([("whitespace_pattern".to_owned(), Value::from(SPACE))]);
    schema.insert("x-guidance".into(), options.into());
    Ok(schema.into())
}
