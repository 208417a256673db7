//! Assertions that hold together, and what values they leave.

use serde_json::{Map, Value};

use super::build::{Builder, Node, brief};
use super::language::{self, Script};
use super::negate::{FRACTION, NOT_IN, NOT_PATTERN};
use super::number::Decimal;
use super::scalars::{numbers, texts};
use super::source::EXACT;
use super::term::Term;
use super::{array::array, object::object};

/// Keywords that are assertions of their own.
pub(super) const ASSERTIONS: &[&str] = &[
    "type",
    "const",
    "enum",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "properties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "required",
    "minProperties",
    "maxProperties",
    "unevaluatedProperties",
    "items",
    "prefixItems",
    "additionalItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "unevaluatedItems",
    NOT_IN,
    NOT_PATTERN,
    FRACTION,
];

/// Any string, with every escape that JSON has.
pub(super) fn any_text() -> Term {
    let pair = r"[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}";
    let unit = format!(r"\\u(?:[0-9a-ce-fA-CE-F][0-9a-fA-F]{{3}}|[dD][0-7][0-9a-fA-F]{{2}}|{pair})");
    Term::regex(format!(r#""(?:[^"\\\x00-\x1F]|\\["\\bfnrt/]|{unit})*""#))
}

/// Any key, each written in one way.
pub(super) fn any_key() -> Term {
    in_quotes(language::anything(Script::Json))
}

pub(super) fn in_quotes(term: Term) -> Term {
    let quote = || Term::Text("\"".into());
    quote().then(term.then(quote()))
}

/// Which types are left.
#[derive(Clone, Copy)]
struct Types {
    null: bool,
    boolean: bool,
    string: bool,
    array: bool,
    object: bool,
    /// 0 none, 1 integers, 2 all.
    number: u8,
}

const ALL: Types = Types { null: true, boolean: true, string: true, array: true, object: true, number: 2 };

pub(super) type Rules = Map<String, Value>;

/// The node of assertions by the numbers of their schemas.
pub(super) fn expand(builder: &mut Builder, owns: &[usize]) -> Result<Node, String> {
    if owns.is_empty() && !builder.closed {
        return Ok(Node::Any);
    }
    let rules: Vec<(usize, Rules)> = owns
        .iter()
        .map(|id| (*id, builder.source.entry(*id).value.as_object().cloned().unwrap_or_default()))
        .collect();
    if owns.is_empty() {
        return Ok(Node::Any);
    }
    let mut types = ALL;
    for (id, rules) in &rules {
        if let Some(value) = rules.get("type") {
            narrow(&mut types, value).map_err(|_| {
                builder.wrong(
                    *id,
                    "type",
                    value,
                    "one or more of null, boolean, integer, number, string, array, object",
                )
            })?;
        }
    }
    let listed = listed(builder, &rules)?;
    if let Some(values) = &listed {
        let term = scalars(builder, &rules, types, Some(values))?;
        return Ok(match term {
            Term::Either(none) if none.is_empty() => Node::Never(format!(
                "{} lists no value that meets the rest of the schema",
                builder.source.at(owns[0])
            )),
            term => Node::Scalar(term),
        });
    }
    let mut nodes = Vec::new();
    let mut reasons = Vec::new();
    match scalars(builder, &rules, types, None) {
        Ok(Term::Either(none)) if none.is_empty() => {}
        Ok(term) => nodes.push(Node::Scalar(term)),
        Err(problem) => match problem.strip_prefix(NEVER) {
            Some(reason) => reasons.push(reason.to_owned()),
            None => return Err(problem),
        },
    }
    if types.array {
        nodes.push(array(builder, &rules)?);
    }
    if types.object {
        nodes.push(object(builder, &rules)?);
    }
    if nodes.len() == 1 {
        return Ok(nodes.remove(0));
    }
    if nodes.is_empty() {
        let at = builder.source.at(owns[0]);
        return Ok(Node::Never(reasons.pop().unwrap_or_else(|| format!("no type is left at {at}"))));
    }
    let ids: Result<Vec<usize>, String> = nodes.into_iter().map(|node| builder.add(node)).collect();
    Ok(Node::Either(ids?))
}

/// Starts the reason for which nothing meets a schema.
pub(super) const NEVER: &str = "\u{f8ff}never:";

pub(super) fn never<T>(reason: String) -> Result<T, String> {
    Err(format!("{NEVER}{reason}"))
}

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

/// A value that is neither a list nor an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Null,
    Boolean(bool),
    Number(String, Decimal),
    Text(String),
}

pub(super) fn scalar(value: &Value) -> Result<Option<Scalar>, String> {
    Ok(match value {
        Value::Null => Some(Scalar::Null),
        Value::Bool(value) => Some(Scalar::Boolean(*value)),
        Value::String(text) if !text.starts_with(EXACT) => Some(Scalar::Text(text.clone())),
        Value::String(_) | Value::Number(_) => {
            let text = value.as_str().map_or_else(|| value.to_string(), |text| text.replace(EXACT, ""));
            let value = Decimal::read(&text).ok_or_else(|| {
                format!("the number {} has too many digits", brief(&Value::from(text.as_str())))
            })?;
            Some(Scalar::Number(text, value))
        }
        Value::Array(_) | Value::Object(_) => None,
    })
}

fn same(a: &Scalar, b: &Scalar) -> bool {
    match (a, b) {
        (Scalar::Number(_, a), Scalar::Number(_, b)) => a == b,
        _ => a == b,
    }
}

/// The values that `const` and `enum` leave together.
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

/// The texts of scalars; of those in `listed`, if it is given.
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
                        // An integer may be any of its size.
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

pub(super) fn count(builder: &Builder, id: usize, rules: &Rules, key: &str) -> Result<Option<u64>, String> {
    let Some(value) = rules.get(key) else { return Ok(None) };
    let count = value
        .as_u64()
        .or_else(|| value.as_f64().filter(|n| n.fract() == 0.0 && (0.0..1e15).contains(n)).map(|n| n as u64));
    count.map(Some).ok_or_else(|| builder.wrong(id, key, value, "a whole number from 0 on"))
}

/// Two counts of all schemas: the larger of the least, the smaller of the most.
pub(super) fn counts(
    builder: &Builder,
    rules: &[(usize, Rules)],
    least: &str,
    most: &str,
) -> Result<(u64, Option<u64>), String> {
    let (mut low, mut high) = (0, None);
    for (id, rules) in rules {
        low = low.max(count(builder, *id, rules, least)?.unwrap_or(0));
        if let Some(most) = count(builder, *id, rules, most)? {
            high = Some(high.map_or(most, |old: u64| old.min(most)));
        }
    }
    Ok((low, high))
}
