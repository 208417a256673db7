//! JSON schemas (draft 2020-12, and what older drafts have beside it) as grammars.
//!
//! A schema is read as schemas that hold together ([`build`]): references, `allOf`, options and negations are taken
//! apart until only assertions are left, of which [`leaf`] says what texts, objects and arrays meet them. What can
//! never be met, or never ends, is left out, and refused if nothing else is left. [`emit`] writes the rest as rules.
//!
//! Nothing is dropped without a word: an assertion that has no form here is refused, or named in a warning.

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

/// A schema, and how its JSON is to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    /// The schema: an object, `true` or `false`.
    pub value: Value,
    /// Numbers in it that a double does not hold: where they are (a JSON pointer) and their digits.
    pub exact: Vec<(String, String)>,
    /// Objects have no properties but those that the schema names, as with `strict`.
    pub closed: bool,
    /// Space between the parts of JSON.
    pub space: JsonSpacing,
}

impl From<Value> for Schema {
    fn from(value: Value) -> Schema {
        Schema { value, exact: Vec::new(), closed: false, space: JsonSpacing::One }
    }
}

/// A schema as rules of a grammar.
#[derive(Debug)]
pub(super) struct SchemaGrammar {
    /// The rule to start with.
    pub(super) start: String,
    /// Rules and terminals, a line each.
    pub(super) rules: String,
    /// What of the schema is not held to, as sentences.
    pub(super) warnings: Vec<String>,
}

/// Writes a schema as rules whose names begin with `prefix` (lower-case letters).
///
/// # Errors
/// What in the schema cannot be held, or why nothing meets it.
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

/// A regular expression as one rule of a grammar, and what of it is not held to.
///
/// # Errors
/// What is wrong with the expression.
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

/// Whether an expression for space matches nothing but space.
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
