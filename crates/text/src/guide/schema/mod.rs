//! Compiles JSON schemas (draft 2020-12, and keywords of older drafts) to grammars.
//!
//! [`build`] treats a schema as a conjunction: references, `allOf`, alternatives and negations are resolved until only
//! assertions are left, from which [`leaf`] computes the allowed texts, objects and arrays. Unsatisfiable and infinite
//! alternatives are removed; if none is left, the schema is refused. [`emit`] writes the rest as rules.
//!
//! No assertion is dropped silently: one that cannot be enforced is an error or a warning.

mod array;
mod build;
mod emit;
mod formats;
mod inhabited;
mod keywords;
mod language;
mod leaf;
mod negate;
mod node;
mod number;
mod object;
mod one_of;
mod pattern;
mod rules;
mod scalars;
mod source;
mod strings;
mod term;

pub use emit::JsonSpacing;

use serde_json::Value;

use build::Builder;
use emit::Emitter;
use source::Source;

/// A JSON schema, with options for the JSON that is generated.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    /// The schema: an object, `true` or `false`.
    pub value: Value,
    /// Numbers of the schema that an f64 cannot represent: JSON pointer and digits.
    pub exact: Vec<(String, String)>,
    /// Whether objects have only the properties that the schema names (OpenAI's `strict`).
    pub closed: bool,
    /// White space between the tokens of JSON.
    pub space: JsonSpacing,
}

impl From<Value> for Schema {
    fn from(value: Value) -> Schema {
        Schema { value, exact: Vec::new(), closed: false, space: JsonSpacing::One }
    }
}

/// The grammar rules of a schema.
#[derive(Debug)]
pub(super) struct SchemaGrammar {
    /// The rule to start with.
    pub(super) start: String,
    /// Rules and terminals, a line each.
    pub(super) rules: String,
    /// Warnings about parts of the schema that are not enforced, one sentence each.
    pub(super) warnings: Vec<String>,
}

/// Writes a schema as rules whose names begin with `prefix` (lower-case letters).
///
/// # Errors
/// The part of the schema that cannot be enforced, or why no value satisfies it.
pub(super) fn write(schema: &Schema, prefix: &str) -> Result<SchemaGrammar, String> {
    if !schema.value.is_object() && !schema.value.is_boolean() {
        return Err(format!("a schema must be an object; it is {}", build::brief(&schema.value)));
    }
    if let JsonSpacing::Pattern(pattern) = &schema.space {
        check_space(pattern)?;
    }
    let value = source::with_exact(schema.value.clone(), &schema.exact)?;
    let mut builder = Builder::new(Source::new(value), schema.closed);
    let root = builder.run()?;
    let ends = inhabited::inhabited(&builder.nodes);
    if !ends[root] {
        return Err(format!("no value meets it: {}", inhabited::reason(&builder.nodes, &ends, root, 0)));
    }
    let (start, rules) = Emitter::new(&builder.nodes, &ends, prefix, schema.space.clone()).write(root)?;
    Ok(SchemaGrammar { start, rules, warnings: builder.warnings })
}

/// A regular expression as one rule of a grammar, and warnings about parts that are not enforced.
///
/// # Errors
/// Why the expression is invalid.
pub(super) fn regex(text: &str) -> Result<(String, Vec<String>), String> {
    let language = language::whole(text, pattern::Dialect::Whole, language::Script::Plain)?;
    if language.term.is_empty()? {
        return Err("no text matches it".into());
    }
    let warnings = language
        .dropped
        .iter()
        .map(|part| format!("the expression is held to without {part}, which has no form here"));
    Ok((format!("start: WHOLE\nWHOLE: {}", language.term.lark()), warnings.collect()))
}

/// Checks that a white-space expression matches only white space.
fn check_space(pattern: &str) -> Result<(), String> {
    let language = language::whole(pattern, pattern::Dialect::Whole, language::Script::Plain)
        .map_err(|why| format!("the pattern for space, {pattern:?}: {why}"))?;
    let other = term::Term::both(vec![language.term, term::Term::Regex(r"[ \t\n\r]*".into(), true).not()]);
    if other.is_empty()? {
        Ok(())
    } else {
        Err(format!(
            "the pattern for space, {pattern:?}, matches what is not space: only spaces, tabs and line ends may stand between the parts of JSON"
        ))
    }
}

#[cfg(test)]
mod tests;
