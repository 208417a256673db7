//! Structured output: `response_format`, `structured_outputs` and their older names.

use serde_json::Value;

use crate::error::Fault;
use crate::fields::{self, Fields};
use crate::limits;
use crate::numbers::{self, Exact};

/// A constraint on the answer, with the request field that sets it.
#[derive(Debug, Clone, PartialEq)]
pub struct Guided {
    /// Path of the request field, for errors about the form.
    pub field: String,
    /// The form of the answer.
    pub form: Form,
    /// Whitespace in JSON answers.
    pub space: Space,
}

/// Whitespace between the tokens of JSON.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Space {
    /// At most one space, after a comma or a colon.
    #[default]
    One,
    /// No whitespace.
    Compact,
    /// Text matched by this regular expression, wherever JSON allows whitespace.
    Pattern(String),
}

/// A JSON schema of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    /// The schema: an object.
    pub value: Value,
    /// Numbers of the schema that a double cannot represent exactly, with JSON pointers relative to the schema.
    pub exact: Vec<Exact>,
    /// Whether objects have no other properties than those of the schema (`strict`).
    pub closed: bool,
}

/// The form of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Form {
    /// Any JSON object.
    Object,
    /// JSON that is valid under a schema.
    Schema(Schema),
    /// Text that a regular expression matches as a whole.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// Text that a grammar accepts.
    Grammar(String),
}

/// Reads the constraint, from at most one of many fields. `exact` has the body's numbers that are not exact doubles.
pub(crate) fn read(body: &Fields<'_>, exact: &[Exact]) -> Result<Option<Guided>, Fault> {
    let space = space(body)?;
    let mut found: Vec<Guided> = Vec::new();
    let mut add = |field: String, form: Option<Form>| {
        found.extend(form.map(|form| Guided { field, form, space: space.clone() }));
    };
    let (field, form) = response_format(body)?;
    add(field, form);
    if let Some(value) = body.get("structured_outputs") {
        let inner = Fields::at(value, "structured_outputs".into())?;
        if let Some(value) = inner.get("structural_tag") {
            let message = format!(
                "structured_outputs.structural_tag is {}: not built into this server",
                fields::show(value)
            );
            return Err(Fault::unsupported("structured_outputs.structural_tag", message));
        }
        for (name, form) in named(&inner, ["json", "regex", "choice", "grammar"])? {
            add(inner.param(name), form);
        }
        if inner.boolean("json_object")?.unwrap_or(false) {
            add(inner.param("json_object"), Some(Form::Object));
        }
    }
    let closed = match body.get("structured_outputs") {
        Some(value) => {
            let inner = Fields::at(value, "structured_outputs".into())?;
            inner.boolean("disable_additional_properties")?.unwrap_or(false)
        }
        None => false,
    };
    for (name, form) in named(body, ["guided_json", "guided_regex", "guided_choice", "guided_grammar"])? {
        add(name.to_owned(), form);
    }
    // llama.cpp's names.
    add("json_schema".into(), schema(body, "json_schema")?);
    let grammar = body.text("grammar", limits::GRAMMAR_BYTES)?.filter(|grammar| !grammar.is_empty());
    add("grammar".into(), grammar.map(|grammar| Form::Grammar(grammar.to_owned())));
    if let [Guided { field, form: Form::Schema(schema), .. }] = found.as_mut_slice() {
        schema.closed |= closed;
        // The exact numbers of a schema given as text were collected by `schema`.
        let at = if field == "response_format" { "response_format.schema" } else { field.as_str() };
        schema.exact.extend(numbers_within(exact, &format!("/{}", at.replace('.', "/"))));
    }
    match found.as_slice() {
        [] | [_] => Ok(found.pop()),
        [first, second, ..] => {
            let message = format!("{} and {} are given; an answer has one form", first.field, second.field);
            Err(Fault::field(second.field.clone(), message))
        }
    }
}

/// The numbers within the value at `pointer`, with pointers relative to that value.
#[must_use]
pub fn numbers_within(exact: &[Exact], pointer: &str) -> Vec<Exact> {
    let inside = |(at, digits): &Exact| {
        let rest = at.strip_prefix(pointer).filter(|rest| rest.starts_with('/'))?;
        Some((rest.to_owned(), digits.clone()))
    };
    exact.iter().filter_map(inside).collect()
}

/// vLLM's two fields for a regular expression of JSON whitespace, and its switch for none.
fn space(body: &Fields<'_>) -> Result<Space, Fault> {
    let mut space = Space::One;
    let mut add = |pattern: Option<&str>| {
        if let Some(pattern) = pattern {
            space = if pattern.is_empty() { Space::Compact } else { Space::Pattern(pattern.to_owned()) };
        }
    };
    add(body.text("guided_whitespace_pattern", limits::REGEX_BYTES)?);
    let Some(value) = body.get("structured_outputs") else { return Ok(space) };
    let inner = Fields::at(value, "structured_outputs".into())?;
    add(inner.text("whitespace_pattern", limits::REGEX_BYTES)?);
    if inner.boolean("disable_any_whitespace")?.unwrap_or(false) {
        space = Space::Compact;
    }
    Ok(space)
}

/// OpenAI's `response_format`, with llama.cpp's `schema` of `json_object`.
fn response_format(body: &Fields<'_>) -> Result<(String, Option<Form>), Fault> {
    let name = "response_format";
    let Some(value) = body.get(name) else { return Ok((String::new(), None)) };
    let format = Fields::at(value, name.into())?;
    let kind =
        format.text("type", limits::NAME_BYTES)?.ok_or_else(|| Fault::missing(format.param("type")))?;
    match kind {
        "text" => Ok((name.into(), None)),
        "json_object" => {
            let form = schema(&format, "schema")?.unwrap_or(Form::Object);
            Ok((name.into(), Some(form)))
        }
        "json_schema" => {
            let at = format.param("json_schema");
            let given = format.get("json_schema").ok_or_else(|| Fault::missing(at.clone()))?;
            let inner = Fields::at(given, at)?;
            let field = inner.param("schema");
            let strict = inner.boolean("strict")?.unwrap_or(false);
            match schema(&inner, "schema")? {
                Some(Form::Schema(schema)) => {
                    Ok((field, Some(Form::Schema(Schema { closed: strict, ..schema }))))
                }
                other => other.map(|form| (field.clone(), Some(form))).ok_or_else(|| Fault::missing(field)),
            }
        }
        other => {
            let shown = fields::show(&Value::from(other));
            let message =
                format!("response_format.type is {shown}; it must be text, json_object or json_schema");
            Err(Fault::field("response_format.type", message))
        }
    }
}

/// vLLM's four fields: a schema, a regular expression, texts to choose from, a grammar.
fn named<'n>(body: &Fields<'_>, names: [&'n str; 4]) -> Result<[(&'n str, Option<Form>); 4], Fault> {
    let [json, regex, choice, grammar] = names;
    let text = |name: &str, max| body.text(name, max).map(|text| text.map(str::to_owned));
    Ok([
        (json, schema(body, json)?),
        (regex, text(regex, limits::REGEX_BYTES)?.map(Form::Regex)),
        (choice, choices(body, choice)?),
        (grammar, text(grammar, limits::GRAMMAR_BYTES)?.map(Form::Grammar)),
    ])
}

/// A schema, given as an object or, as in vLLM, as JSON text.
pub(crate) fn schema(body: &Fields<'_>, name: &str) -> Result<Option<Form>, Fault> {
    let param = body.param(name);
    let parsed;
    let mut exact = Vec::new();
    let value = match body.get(name) {
        None => return Ok(None),
        Some(Value::String(text)) => {
            fields::text(&param, &Value::from(text.as_str()), limits::SCHEMA_BYTES)?;
            parsed = serde_json::from_str::<Value>(text)
                .map_err(|e| Fault::field(param.clone(), format!("{param} is not valid JSON: {e}")))?;
            exact = numbers::exact(text.as_bytes());
            &parsed
        }
        Some(value) => value,
    };
    if !value.is_object() {
        return Err(fields::wrong(&param, value, "a JSON schema: an object"));
    }
    let bytes = value.to_string().len();
    if bytes > limits::SCHEMA_BYTES {
        let limit = limits::SCHEMA_BYTES;
        return Err(Fault::field(
            param.clone(),
            format!("{param} has {bytes} bytes as JSON; at most {limit} are allowed"),
        ));
    }
    Ok(Some(Form::Schema(Schema { value: value.clone(), exact, closed: false })))
}

fn choices(body: &Fields<'_>, name: &str) -> Result<Option<Form>, Fault> {
    let Some(list) = body.list(name, limits::GUIDED_CHOICES)? else { return Ok(None) };
    let param = body.param(name);
    if list.is_empty() {
        return Err(Fault::field(param.clone(), format!("{param} is empty; it must have at least 1 text")));
    }
    let text = |(i, entry): (usize, &Value)| {
        let at = format!("{param}[{i}]");
        let text = fields::text(&at, entry, limits::GUIDED_CHOICE_BYTES)?;
        if text.is_empty() {
            return Err(Fault::field(at.clone(), format!("{at} is empty; it must have at least 1 byte")));
        }
        Ok(text.to_owned())
    };
    list.iter().enumerate().map(text).collect::<Result<_, _>>().map(|texts| Some(Form::Choice(texts)))
}
