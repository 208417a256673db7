//! Simplifies a conjunction of assertions to the values that satisfy all of them.

use serde_json::Value;

use super::build::Builder;
use super::negate::NOT_IN;
use super::node::Node;
use super::rules::{NEVER, Rules, Scalar, scalar};
use super::scalars::{numbers, texts};
use super::strings::any_text;
use super::term::Term;
use super::{array::array, object::object};

/// The JSON types that are still allowed.
#[derive(Clone, Copy)]
struct Types {
    null: bool,
    boolean: bool,
    string: bool,
    array: bool,
    object: bool,
    /// Numbers: 0 none, 1 integers, 2 all.
    number: u8,
}

const ALL: Types = Types { null: true, boolean: true, string: true, array: true, object: true, number: 2 };

fn narrow(types: &mut Types, value: &Value) -> Result<(), ()> {
    let names: Vec<&str> = match value {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().map(|name| name.as_str().ok_or(())).collect::<Result<_, _>>()?,
        _ => return Err(()),
    };
    let mut named =
        Types { null: false, boolean: false, string: false, array: false, object: false, number: 0 };
    for name in names {
        match name {
            "null" => named.null = true,
            "boolean" => named.boolean = true,
            "string" => named.string = true,
            "array" => named.array = true,
            "object" => named.object = true,
            "integer" => named.number = named.number.max(1),
            "number" => named.number = 2,
            _ => return Err(()),
        }
    }
    types.null &= named.null;
    types.boolean &= named.boolean;
    types.string &= named.string;
    types.array &= named.array;
    types.object &= named.object;
    types.number = types.number.min(named.number);
    Ok(())
}

fn same(a: &Scalar, b: &Scalar) -> bool {
    match (a, b) {
        (Scalar::Number(_, a), Scalar::Number(_, b)) => a == b,
        _ => a == b,
    }
}

/// The values that all `const` and `enum` allow.
fn listed(builder: &Builder, rules: &[(usize, Rules)]) -> Result<Option<Vec<Scalar>>, String> {
    let mut left: Option<Vec<Scalar>> = None;
    for (id, rules) in rules {
        let constant = rules.get("const").map(std::slice::from_ref);
        let list = match rules.get("enum") {
            Some(Value::Array(list)) => Some(list.as_slice()),
            Some(other) => return Err(builder.wrong(*id, "enum", other, "a list of values")),
            None => None,
        };
        for values in [constant, list].into_iter().flatten() {
            if values.iter().any(|value| value.is_array() || value.is_object()) {
                continue;
            }
            let mut now = Vec::new();
            for value in values {
                now.extend(scalar(value)?);
            }
            if let Some(before) = left {
                now.retain(|value| before.iter().any(|other| same(value, other)));
            }
            left = Some(now);
        }
    }
    Ok(left)
}

/// The texts of the allowed scalars; only those of `listed`, if given.
fn scalars(
    builder: &mut Builder,
    rules: &[(usize, Rules)],
    types: Types,
    listed: Option<&[Scalar]>,
) -> Result<Term, String> {
    let mut excluded = Vec::new();
    for value in rules.iter().filter_map(|(_, rules)| rules.get(NOT_IN)?.as_array()).flatten() {
        excluded.extend(scalar(value)?);
    }
    let out = |value: &Scalar| excluded.iter().any(|other| same(value, other));
    let wants = |kind: fn(&Scalar) -> bool| listed.is_none_or(|all| all.iter().any(kind));
    let mut options = Vec::new();
    let mut reason = None;
    let mut keep = |term: Result<Term, String>| match term {
        Ok(term) => Ok(Some(term)),
        Err(problem) if problem.starts_with(NEVER) => {
            reason = Some(problem);
            Ok(None)
        }
        Err(problem) => Err(problem),
    };
    let number = if types.number > 0 && wants(|value| matches!(value, Scalar::Number(..))) {
        keep(numbers(builder, rules, types.number == 1, &excluded))?
    } else {
        None
    };
    let text = if types.string && wants(|value| matches!(value, Scalar::Text(_))) {
        keep(texts(builder, rules, &excluded))?
    } else {
        None
    };
    match listed {
        Some(listed) => {
            for value in listed.iter().filter(|value| !out(value)) {
                let written = match value {
                    Scalar::Null if types.null => "null".to_owned(),
                    Scalar::Boolean(value) if types.boolean => value.to_string(),
                    Scalar::Number(text, value) => {
                        let Some(number) = &number else { continue };
                        // Integers of more than 300 digits are not tested against the set.
                        if !number.has(&value.to_string())? && value.to_string().len() <= 300 {
                            continue;
                        }
                        text.clone()
                    }
                    Scalar::Text(value) => {
                        let written = Value::from(value.as_str()).to_string();
                        let Some(text) = &text else { continue };
                        if *text != any_text() && !text.has(&written)? {
                            continue;
                        }
                        written
                    }
                    _ => continue,
                };
                options.push(Term::Text(written));
            }
        }
        None => {
            let literal = |text: &str| Term::Text(text.to_owned());
            if types.null && !out(&Scalar::Null) {
                options.push(literal("null"));
            }
            for value in [true, false] {
                if types.boolean && !out(&Scalar::Boolean(value)) {
                    options.push(literal(if value { "true" } else { "false" }));
                }
            }
            options.extend(number);
            options.extend(text);
        }
    }
    match reason {
        Some(reason) if options.is_empty() => Err(reason),
        _ => Ok(Term::either(options)),
    }
}

impl Builder {
    /// The node of the assertions of some schemas, by their ids.
    pub(super) fn assertions(&mut self, owns: &[usize]) -> Result<Node, String> {
        if owns.is_empty() && !self.closed {
            return Ok(Node::Any);
        }
        let rules: Vec<(usize, Rules)> = owns
            .iter()
            .map(|id| (*id, self.source.entry(*id).value.as_object().cloned().unwrap_or_default()))
            .collect();
        if owns.is_empty() {
            return Ok(Node::Any);
        }
        let mut types = ALL;
        for (id, rules) in &rules {
            if let Some(value) = rules.get("type") {
                narrow(&mut types, value).map_err(|_| {
                    self.wrong(
                        *id,
                        "type",
                        value,
                        "one or more of null, boolean, integer, number, string, array, object",
                    )
                })?;
            }
        }
        let listed = listed(self, &rules)?;
        if let Some(values) = &listed {
            let term = scalars(self, &rules, types, Some(values))?;
            return Ok(match term {
                Term::Either(none) if none.is_empty() => Node::Never(format!(
                    "{} lists no value that meets the rest of the schema",
                    self.source.at(owns[0])
                )),
                term => Node::Scalar(term),
            });
        }
        let mut nodes = Vec::new();
        let mut reasons = Vec::new();
        match scalars(self, &rules, types, None) {
            Ok(Term::Either(none)) if none.is_empty() => {}
            Ok(term) => nodes.push(Node::Scalar(term)),
            Err(problem) => match problem.strip_prefix(NEVER) {
                Some(reason) => reasons.push(reason.to_owned()),
                None => return Err(problem),
            },
        }
        if types.array {
            nodes.push(array(self, &rules)?);
        }
        if types.object {
            nodes.push(object(self, &rules)?);
        }
        if nodes.len() == 1 {
            return Ok(nodes.remove(0));
        }
        if nodes.is_empty() {
            let at = self.source.at(owns[0]);
            return Ok(Node::Never(reasons.pop().unwrap_or_else(|| format!("no type is left at {at}"))));
        }
        let ids: Result<Vec<usize>, String> = nodes.into_iter().map(|node| self.add(node)).collect();
        Ok(Node::Either(ids?))
    }
}
