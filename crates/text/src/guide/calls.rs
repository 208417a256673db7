//! The grammar of required tool calls, in the syntax of their style.

use serde_json::{Map, Value};

use super::schema::{self, Schema};
use crate::tools::{CallForm, FramePart, Tags, ToolCallStyle, text_lengths};

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

/// A line break between tags, which some templates write and others do not.
const LINE: &str = "\"\\n\"?";

/// Maps marks to control tokens.
type Control<'a> = dyn Fn(&str) -> Option<u32> + 'a;

impl RequiredToolCalls {
    /// The body of a rule with the rules that it needs, and warnings.
    pub(super) fn lark(&self, control: &Control<'_>) -> Result<(String, Vec<String>), String> {
        let frame = self.style.frame();
        let between = frame.between.filter(|_| self.several);
        let more = between.map_or_else(String::new, |_| format!("(between call){{0,{}}}", MOST_CALLS - 1));
        let calls: Vec<String> = (0..self.tools.len()).map(|at| format!("call{at}")).collect();
        let mut out = format!("{} call {more} {}\n", spell(frame.first, control), spell(frame.last, control));
        if let Some(between) = between {
            out.push_str(&format!("between: {}\n", spell(between, control)));
        }
        out.push_str(&format!("call: {}\n", calls.join(" | ")));
        let mut warnings = Vec::new();
        for (at, (name, schema)) in self.tools.iter().enumerate() {
            let call = match &frame.form {
                CallForm::Tagged(tags) => tagged(tags, at, name, schema, control),
                form => with_json(form, at, name, schema, control),
            };
            let (rules, told) =
                call.map_err(|problem| format!("the parameters of tool {name}: {problem}"))?;
            warnings.extend(told.into_iter().map(|text| format!("tool {name}: {text}")));
            out.push_str(&rules);
        }
        Ok((out, warnings))
    }
}

/// The rules of a call with its arguments in JSON.
fn with_json(
    form: &CallForm,
    at: usize,
    name: &str,
    schema: &Schema,
    control: &Control<'_>,
) -> Result<(String, Vec<String>), String> {
    let quoted = Value::from(name);
    let (head, tail) = match form {
        CallForm::Object(name_key, key) => {
            (literal(&format!("{{\"{name_key}\": {quoted}, \"{key}\": ")), literal("}"))
        }
        CallForm::NameIsKey => (literal(&format!("{{{quoted}: ")), literal("}")),
        CallForm::NameFirst { before, after, last } => {
            let head = literal(&format!("{before}{name}"));
            (format!("{head} {}", spell(after, control)), spell(last, control))
        }
        CallForm::Tagged(_) => return Err("has a style without JSON".into()),
    };
    let arguments = schema::write(schema, &format!("a{at}x"))?;
    Ok((format!("call{at}: {head} {} {tail}\n{}", arguments.start, arguments.rules), arguments.warnings))
}

/// The rules of a call with its parameters in tags.
fn tagged(
    tags: &Tags,
    at: usize,
    name: &str,
    schema: &Schema,
    control: &Control<'_>,
) -> Result<(String, Vec<String>), String> {
    let none = Map::new();
    let properties = schema.value.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let required = |key: &str| {
        let list = schema.value.get("required").and_then(Value::as_array);
        list.is_some_and(|list| list.iter().any(|name| name == key))
    };
    let mut warnings = Vec::new();
    let (mut body, mut rules) = (String::new(), String::new());
    for (number, (key, property)) in properties.iter().enumerate() {
        let rule = format!("p{at}x{number}");
        let parameter = parameter(tags, &rule, key, property, schema, control)?;
        rules.push_str(&parameter.0);
        warnings.extend(parameter.1);
        body.push_str(&if required(key) { format!(" {rule}") } else { format!(" {rule}?") });
    }
    let tag = |text: &str| if text.is_empty() { String::new() } else { marked(text, control) };
    let head = format!("{} {}", literal(&format!("{}{name}", tags.name_open)), tag(tags.name_close));
    let end = marked(tags.end, control);
    Ok((format!("call{at}: {head} {LINE}{body} {end}\n{rules}"), warnings))
}

/// The rules of a parameter, and warnings.
fn parameter(
    tags: &Tags,
    rule: &str,
    key: &str,
    property: &Value,
    tool: &Schema,
    control: &Control<'_>,
) -> Result<(String, Vec<String>), String> {
    let line = if tags.on_lines { "\n" } else { "" };
    let tag = |text: &str| if text.is_empty() { String::new() } else { marked(text, control) };
    let inner =
        if tags.value_open.is_empty() { String::new() } else { format!("{LINE} {}", tag(tags.value_open)) };
    let begin = if line.is_empty() { String::new() } else { literal(line) };
    let head = format!("{} {} {} {inner} {begin}", tag(tags.key_open), literal(key), tag(tags.key_close));
    let close = format!("{line}{}", tags.value_close);
    let end = if line.is_empty() { tag(tags.value_close) } else { literal(&close) };
    // A text has no quotes in tags, and readers take it as it is.
    if let Some((least, most)) = text_lengths(property) {
        let text = match (least, most) {
            (0, None) => "/(?s:.*)/".to_owned(),
            (least, most) => {
                format!("/(?s:.{{{least},{}}})/", most.map_or_else(String::new, |most| most.to_string()))
            }
        };
        let value = match control(tags.value_close) {
            // No text can be read as a control token.
            Some(id) => format!("{rule}: {head} {text} <[{id}]> {LINE}\n"),
            None => {
                format!("{rule}: {head} {rule}v {LINE}\n{rule}v[suffix={}]: {text}\n", literal(&close))
            }
        };
        return Ok((value, Vec::new()));
    }
    let texts = property.get("enum").and_then(Value::as_array);
    let texts = texts.map(|list| list.iter().filter_map(Value::as_str).map(literal).collect::<Vec<_>>());
    if let Some(texts) = texts.filter(|texts| !texts.is_empty()) {
        return Ok((format!("{rule}: {head} ({}) {end} {LINE}\n", texts.join(" | ")), Vec::new()));
    }
    let mut warnings = Vec::new();
    let mut value = property.clone();
    if value.to_string().contains("\"$ref\"") {
        warnings.push(format!("the schema of {key} refers to others and is not held to"));
        value = Value::Bool(true);
    }
    let schema = Schema { value, exact: Vec::new(), closed: tool.closed, space: tool.space.clone() };
    let json = schema::write(&schema, &format!("{rule}x"))?;
    warnings.extend(json.warnings);
    Ok((format!("{rule}: {head} {} {end} {LINE}\n{}", json.start, json.rules), warnings))
}

/// Parts of a frame in Lark.
pub(super) fn spell(parts: &[FramePart], control: &Control<'_>) -> String {
    let spelt = parts.iter().map(|part| match part {
        FramePart::Mark(mark) => marked(mark, control),
        FramePart::Text(text) => literal(text),
        FramePart::Maybe(parts) => format!("({})?", spell(parts, control)),
    });
    spelt.collect::<Vec<_>>().join(" ")
}

/// A mark: its control token if there is one.
fn marked(mark: &str, control: &Control<'_>) -> String {
    control(mark).map_or_else(|| literal(mark), |id| format!("<[{id}]>"))
}

/// A text as a literal of Lark.
pub(super) fn literal(text: &str) -> String {
    Value::from(text).to_string()
}
