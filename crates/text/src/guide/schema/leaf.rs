//! Assertions that hold together, and what values they leave.

use serde_json::{Map, Value};

use super::build::{Array, Builder, Field, Node, Object, brief};
use super::formats::{self, Format};
use super::language::{self, Script};
use super::negate::{FRACTION, NOT_IN, NOT_PATTERN};
use super::number::{self, Bound, Decimal};
use super::pattern::Dialect;
use super::source::EXACT;
use super::term::Term;

/// Keywords that are assertions of their own.
pub(super) const ASSERTIONS: &[&str] = &[
    "type", "const", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength",
    "maxLength", "pattern", "format", "properties", "patternProperties", "additionalProperties", "propertyNames",
    "required", "minProperties", "maxProperties", "unevaluatedProperties", "items", "prefixItems", "additionalItems",
    "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains", "unevaluatedItems", NOT_IN,
    NOT_PATTERN, FRACTION,
];
/// Most sets that patterns for keys part the keys into.
const MOST_CELLS: usize = 64;
/// Most texts of which lists without repetition are told apart.
const MOST_DISTINCT: usize = 8;

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

fn in_quotes(term: Term) -> Term {
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

type Rules = Map<String, Value>;

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
                builder.wrong(*id, "type", value, "one or more of null, boolean, integer, number, string, array, object")
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
const NEVER: &str = "\u{f8ff}never:";

fn never<T>(reason: String) -> Result<T, String> {
    Err(format!("{NEVER}{reason}"))
}

fn narrow(types: &mut Types, value: &Value) -> Result<(), ()> {
    let names: Vec<&str> = match value {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().map(|name| name.as_str().ok_or(())).collect::<Result<_, _>>()?,
        _ => return Err(()),
    };
    let mut named = Types { null: false, boolean: false, string: false, array: false, object: false, number: 0 };
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
enum Scalar {
    Null,
    Boolean(bool),
    Number(String, Decimal),
    Text(String),
}

fn scalar(value: &Value) -> Result<Option<Scalar>, String> {
    Ok(match value {
        Value::Null => Some(Scalar::Null),
        Value::Bool(value) => Some(Scalar::Boolean(*value)),
        Value::String(text) if !text.starts_with(EXACT) => Some(Scalar::Text(text.clone())),
        Value::String(_) | Value::Number(_) => {
            let text = value.as_str().map_or_else(|| value.to_string(), |text| text.replace(EXACT, ""));
            let value = Decimal::read(&text).ok_or_else(|| format!("the number {} has too many digits", brief(&Value::from(text.as_str()))))?;
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
                        if !number.has(&value.to_string())? && !(value.to_string().len() > 300) {
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

fn decimal(builder: &Builder, id: usize, key: &str, value: &Value) -> Result<Decimal, String> {
    match scalar(value)? {
        Some(Scalar::Number(_, value)) => Ok(value),
        _ => Err(builder.wrong(id, key, value, "a number")),
    }
}

fn numbers(builder: &Builder, rules: &[(usize, Rules)], whole: bool, excluded: &[Scalar]) -> Result<Term, String> {
    let (mut least, mut most): (Option<(Bound, String)>, Option<(Bound, String)>) = (None, None);
    let mut terms = Vec::new();
    for (id, rules) in rules {
        let outside = |name: &str| rules.get(name).and_then(Value::as_bool) == Some(true);
        for (key, lower) in
            [("minimum", true), ("exclusiveMinimum", true), ("maximum", false), ("exclusiveMaximum", false)]
        {
            let Some(value) = rules.get(key).filter(|value| !(value.is_boolean() && key.starts_with('e'))) else { continue };
            let beyond = key.starts_with('e')
                || (key == "minimum" && outside("exclusiveMinimum"))
                || (key == "maximum" && outside("exclusiveMaximum"));
            let bound = Bound { value: decimal(builder, *id, key, value)?, beyond };
            let told = format!("{key} {}", brief(value).replace(EXACT, ""));
            let slot = if lower { &mut least } else { &mut most };
            let tighter = slot.as_ref().is_none_or(|(old, _)| {
                let order = bound.value.cmp(&old.value);
                (if lower { order.is_gt() } else { order.is_lt() }) || (order.is_eq() && beyond)
            });
            if tighter {
                *slot = Some((bound, told));
            }
        }
        if let Some(value) = rules.get("multipleOf") {
            let step = decimal(builder, *id, "multipleOf", value)?;
            if step.is_zero() || step.is_negative() {
                return Err(builder.wrong(*id, "multipleOf", value, "a number above 0"));
            }
            terms.push(multiples(builder, *id, &step)?);
        }
        if rules.contains_key(FRACTION) {
            terms.push(Term::regex(r"-?[0-9]+\.[0-9]*[1-9][0-9]*"));
        }
    }
    if let (Some((low, low_told)), Some((high, high_told))) = (&least, &most)
        && (low.value > high.value || (low.value == high.value && (low.beyond || high.beyond)))
    {
        let at = builder.source.at(rules[0].0);
        return never(format!("no number at {at} is within {low_told} and {high_told}"));
    }
    terms.insert(0, number::between(whole, least.as_ref().map(|(b, _)| b), most.as_ref().map(|(b, _)| b)));
    for value in excluded {
        if let Scalar::Number(_, value) = value {
            // Written without an exponent, as `between` would not otherwise be.
            terms.push(Term::regex(r"-?[0-9]+(?:\.[0-9]+)?"));
            terms.push(number::equal(value).not());
        }
    }
    let bounded = terms.len() > 1 || least.is_some() || most.is_some();
    let term = Term::both(terms);
    if bounded && term.is_empty()? {
        let what = if whole { "integer" } else { "number" };
        return never(format!("no {what} meets the bounds at {}", builder.source.at(rules[0].0)));
    }
    Ok(term)
}

/// The multiples of a step: by their last digits, or by a remainder that is carried along the digits.
fn multiples(builder: &Builder, id: usize, step: &Decimal) -> Result<Term, String> {
    if let Some(term) = number::multiple(step) {
        return Ok(term);
    }
    number::remainders(step).ok_or_else(|| {
        let at = builder.source.at(id);
        format!("multipleOf {step} at {at} cannot be held: steps of up to 64, and those whose multiples their last 4 digits tell, can")
    })
}

fn count(builder: &Builder, id: usize, rules: &Rules, key: &str) -> Result<Option<u64>, String> {
    let Some(value) = rules.get(key) else { return Ok(None) };
    let count = value.as_u64().or_else(|| value.as_f64().filter(|n| n.fract() == 0.0 && (0.0..1e15).contains(n)).map(|n| n as u64));
    count.map(Some).ok_or_else(|| builder.wrong(id, key, value, "a whole number from 0 on"))
}

/// Two counts of all schemas: the larger of the least, the smaller of the most.
fn counts(
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

/// Strings, with their quotation marks.
fn texts(builder: &mut Builder, rules: &[(usize, Rules)], excluded: &[Scalar]) -> Result<Term, String> {
    let (least, most) = counts(builder, rules, "minLength", "maxLength")?;
    let at = builder.source.at(rules[0].0);
    if most.is_some_and(|most| most < least) {
        return never(format!("no string at {at} has minLength {least} and maxLength {}", most.unwrap_or_default()));
    }
    let mut terms = Vec::new();
    let mut formats = Vec::new();
    for (id, rules) in rules {
        if let Some(value) = rules.get("pattern") {
            let pattern = value.as_str().ok_or_else(|| builder.wrong(*id, "pattern", value, "a text"))?;
            terms.push(searched(builder, *id, "pattern", pattern)?);
        }
        if let Some(pattern) = rules.get(NOT_PATTERN).and_then(Value::as_str) {
            let at = builder.source.at(*id);
            let found = language::search(pattern, Script::Json).map_err(|why| format!("pattern {pattern:?} at {at}: {why}"))?;
            if !found.dropped.is_empty() {
                return Err(format!("not at {at}: pattern {pattern:?} cannot be held, {} has no form here", found.dropped[0]));
            }
            terms.push(found.term.not());
        }
        if let Some(value) = rules.get("format") {
            let name = value.as_str().ok_or_else(|| builder.wrong(*id, "format", value, "a text"))?;
            match formats::look_up(name) {
                Format::Held(regex) => {
                    let held = language::whole(&regex, Dialect::Schema, Script::Json)?;
                    formats.push((name.to_owned(), held.term));
                }
                Format::Standard => builder.warn(format!("format {name:?} at {} is taken as an annotation", builder.source.at(*id))),
                Format::Annotation => {}
            }
        }
    }
    for value in excluded {
        if let Scalar::Text(text) = value {
            let written = Value::from(text.as_str()).to_string();
            terms.push(Term::Text(written[1..written.len() - 1].to_owned()).not());
        }
    }
    if terms.is_empty() && formats.is_empty() && least == 0 && most.is_none() {
        return Ok(any_text());
    }
    if least > 0 || most.is_some() || terms.iter().any(|term| matches!(term, Term::Not(_))) {
        let limit = u64::from(u32::MAX) - 1;
        if least > limit {
            return Err(format!("minLength {least} at {at} is past {limit}"));
        }
        terms.push(language::length(least, most.filter(|most| *most < limit), Script::Json));
    }
    let none = format!("no string at {at} meets its pattern, its format and its length");
    let without = terms.clone();
    terms.extend(formats.iter().map(|(_, term)| term.clone()));
    let term = Term::both(terms);
    match term.is_empty() {
        Ok(true) => never(none),
        Ok(false) => Ok(in_quotes(term)),
        Err(problem) if formats.is_empty() || without.is_empty() => Err(format!("the string at {at} cannot be held: {problem}")),
        Err(_) => {
            builder.warn(format!("format {:?} at {at} is taken as an annotation: with the pattern beside it it is too complex", formats[0].0));
            let term = Term::both(without);
            match term.is_empty() {
                Ok(true) => never(none),
                Ok(false) => Ok(in_quotes(term)),
                Err(problem) => Err(format!("the string at {at} cannot be held: {problem}")),
            }
        }
    }
}

/// The content of strings in which a pattern finds something.
fn searched(builder: &mut Builder, id: usize, key: &str, pattern: &str) -> Result<Term, String> {
    let at = builder.source.at(id);
    let found = language::search(pattern, Script::Json)
        .map_err(|why| format!("{key} {:?} at {at} is no regular expression that can be held: {why}", shortened(pattern)))?;
    for dropped in &found.dropped {
        builder.warn(format!("{key} at {at} is held to without {dropped}, which has no form here"));
    }
    Ok(found.term)
}

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

fn array(builder: &mut Builder, rules: &[(usize, Rules)]) -> Result<Node, String> {
    let (mut least, most) = counts(builder, rules, "minItems", "maxItems")?;
    // Of each schema: the items at the start, and the others.
    let mut firsts: Vec<(Vec<usize>, Option<usize>)> = Vec::new();
    let mut contains = None;
    let mut unique = false;
    for (id, rules) in rules {
        let (key, rest) = match (rules.get("prefixItems"), rules.get("items")) {
            (Some(Value::Array(_)), _) => ("prefixItems", "items"),
            (Some(other), _) => return Err(builder.wrong(*id, "prefixItems", other, "a list of schemas")),
            (None, Some(Value::Array(_))) => ("items", "additionalItems"),
            (None, _) => ("", "items"),
        };
        let count = rules.get(key).and_then(Value::as_array).map_or(0, Vec::len);
        let first = (0..count).map(|i| builder.source.child(*id, &[key, &i.to_string()])).collect();
        let mut rest = rules.get(rest).map(|_| builder.source.child(*id, &[rest]));
        if rest.is_none() && rules.contains_key("unevaluatedItems") {
            if ["allOf", "anyOf", "oneOf", "$ref", "if", "not"].iter().any(|key| rules.contains_key(*key)) {
                return Err(format!("unevaluatedItems beside other schemas at {} cannot be held", builder.source.at(*id)));
            }
            rest = Some(builder.source.child(*id, &["unevaluatedItems"]));
        }
        firsts.push((first, rest));
        if let Some(value) = rules.get("uniqueItems") {
            unique |= value.as_bool().ok_or_else(|| builder.wrong(*id, "uniqueItems", value, "true or false"))?;
        }
        if rules.contains_key("contains") {
            let wanted = count_of_contained(builder, *id, rules)?;
            if wanted > 0 && contains.replace((builder.source.child(*id, &["contains"]), wanted)).is_some() {
                return Err(format!("two schemas with contains at {} cannot be held together", builder.source.at(*id)));
            }
        }
    }
    let len = firsts.iter().map(|(first, _)| first.len()).max().unwrap_or(0);
    let at_place = |i: usize| firsts.iter().filter_map(move |(first, rest)| first.get(i).copied().or(*rest));
    let mut first = Vec::with_capacity(len);
    for i in 0..len {
        first.push(builder.all(at_place(i).collect::<Vec<_>>())?);
    }
    let rest: Vec<usize> = at_place(usize::MAX).collect();
    let items = builder.all(rest.clone())?;
    let contains = match contains {
        None => None,
        Some((schema, wanted)) => {
            if len > 0 || most.is_some() || least > wanted {
                let at = builder.source.at(rules[0].0);
                return Err(format!("contains at {at} cannot be held beside prefixItems, minItems or maxItems"));
            }
            least = 0;
            Some((builder.all(rest.iter().copied().chain([schema]))?, wanted))
        }
    };
    let mut distinct = None;
    if unique && most.is_none_or(|most| most > 1) {
        distinct = if len == 0 && contains.is_none() { values(builder, rules, &rest)? } else { None };
        if distinct.is_none() {
            let at = builder.source.at(rules[0].0);
            builder.warn(format!("uniqueItems at {at} is not held to: the items of an answer may repeat"));
        }
    }
    Ok(Node::Array(Array { first, items, least, most, contains, distinct }))
}

fn count_of_contained(builder: &Builder, id: usize, rules: &Rules) -> Result<u64, String> {
    let wanted = count(builder, id, rules, "minContains")?.unwrap_or(1);
    if rules.contains_key("maxContains") {
        return Err(format!("maxContains at {} cannot be held", builder.source.at(id)));
    }
    if wanted > 64 {
        return Err(format!("minContains {wanted} at {} is past 64", builder.source.at(id)));
    }
    Ok(wanted)
}

/// The few texts that items are, if they are that.
fn values(builder: &mut Builder, rules: &[(usize, Rules)], items: &[usize]) -> Result<Option<Vec<String>>, String> {
    let _ = rules;
    let Some((first, _)) = items.split_first() else { return Ok(None) };
    let mut id = *first;
    for _ in 0..8 {
        let value = builder.source.entry(id).value.clone();
        let list = value.get("enum").and_then(Value::as_array).cloned();
        let list = list.or_else(|| (value.get("type")? == "boolean").then(|| vec![true.into(), false.into()]));
        if let Some(list) = list.filter(|list| list.len() <= MOST_DISTINCT && items.len() == 1) {
            let mut texts: Vec<String> = Vec::new();
            let simple = value.as_object().is_some_and(|map| {
                map.keys().all(|key| matches!(key.as_str(), "enum" | "type" | "title" | "description" | "default"))
            });
            for value in &list {
                match scalar(value)? {
                    Some(Scalar::Text(text)) => texts.push(Value::from(text).to_string()),
                    Some(Scalar::Boolean(value)) => texts.push(value.to_string()),
                    _ => return Ok(None),
                }
            }
            texts.dedup();
            return Ok(simple.then_some(texts));
        }
        let Some(reference) = value.get("$ref").and_then(Value::as_str) else { return Ok(None) };
        id = builder.source.refer(id, reference)?;
    }
    Ok(None)
}

/// What one schema says of an object's fields.
struct Keys {
    id: usize,
    properties: Vec<String>,
    /// Pattern and its strings.
    patterns: Vec<(String, Term)>,
    others: Option<usize>,
    names: Option<Term>,
}

fn object(builder: &mut Builder, rules: &[(usize, Rules)]) -> Result<Node, String> {
    let (least, most) = counts(builder, rules, "minProperties", "maxProperties")?;
    let mut keys = Vec::with_capacity(rules.len());
    let mut required: Vec<String> = Vec::new();
    for (id, rules) in rules {
        keys.push(keys_of(builder, *id, rules)?);
        for name in required_by(builder, *id, rules)? {
            if !required.contains(&name) {
                required.push(name);
            }
        }
    }
    unevaluated(builder, rules, &mut keys)?;
    let mut names: Vec<String> = Vec::new();
    for name in keys.iter().flat_map(|keys| keys.properties.iter()).chain(&required) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    let closed = builder.closed && keys.iter().all(|keys| keys.others.is_none());
    let mut fields = Vec::with_capacity(names.len());
    for name in &names {
        let value = field(builder, &keys, name, closed)?;
        fields.push(Field { name: name.clone(), value, required: required.contains(name) });
    }
    let others = others(builder, &keys, &names, closed)?;
    let free = others.len();
    if least > 1 && free > 0 && least > required.len() as u64 + 1 {
        let at = builder.source.at(rules[0].0);
        builder.warn(format!("minProperties at {at} counts a key that an answer repeats as two"));
    }
    Ok(Node::Object(Object { fields, others, least, most }))
}

fn required_by(builder: &Builder, id: usize, rules: &Rules) -> Result<Vec<String>, String> {
    let wrong = |value: &Value| builder.wrong(id, "required", value, "a list of names");
    match rules.get("required") {
        None => Ok(Vec::new()),
        // Draft 3 and OpenAPI's habit: said of the property itself.
        Some(Value::Array(names)) => {
            names.iter().map(|name| name.as_str().map(str::to_owned).ok_or_else(|| wrong(name))).collect()
        }
        Some(other) => Err(wrong(other)),
    }
}

fn keys_of(builder: &mut Builder, id: usize, rules: &Rules) -> Result<Keys, String> {
    let map = |builder: &Builder, key: &str| match rules.get(key) {
        None => Ok(Vec::new()),
        Some(Value::Object(map)) => Ok(map.keys().cloned().collect::<Vec<String>>()),
        Some(other) => Err(builder.wrong(id, key, other, "an object of schemas")),
    };
    let properties = map(builder, "properties")?;
    let mut patterns = Vec::new();
    for pattern in map(builder, "patternProperties")? {
        let term = in_quotes(searched(builder, id, "patternProperties", &pattern)?);
        patterns.push((pattern, term));
    }
    let others = rules.get("additionalProperties").map(|_| builder.source.child(id, &["additionalProperties"]));
    let names = match rules.get("propertyNames") {
        None => None,
        Some(_) => {
            let schema = builder.source.child(id, &["propertyNames"]);
            builder.names(schema)?
        }
    };
    Ok(Keys { id, properties, patterns, others, names })
}

/// `unevaluatedProperties`: the other fields of a schema and of all that it consists of.
fn unevaluated(builder: &mut Builder, rules: &[(usize, Rules)], keys: &mut Vec<Keys>) -> Result<(), String> {
    let mut more = Vec::new();
    for (id, rule) in rules.iter().filter(|(_, rules)| rules.contains_key("unevaluatedProperties")) {
        let within = builder.consists_of(*id)?;
        let parts = keys.iter().filter(|keys| within.contains(&keys.id));
        if parts.clone().any(|keys| keys.others.is_some()) {
            // Those have seen all the others.
            continue;
        }
        let _ = rule;
        let properties = parts.clone().flat_map(|keys| keys.properties.clone()).collect();
        let patterns = parts.flat_map(|keys| keys.patterns.clone()).collect();
        let others = Some(builder.source.child(*id, &["unevaluatedProperties"]));
        more.push(Keys { id: usize::MAX, properties, patterns, others, names: None });
    }
    keys.extend(more);
    Ok(())
}

/// The node of a field by its name.
fn field(builder: &mut Builder, keys: &[Keys], name: &str, closed: bool) -> Result<usize, String> {
    let written = Value::from(name).to_string();
    let mut schemas = Vec::new();
    let mut known = !closed;
    for keys in keys {
        if keys.names.as_ref().is_some_and(|names| !names.has(&written).unwrap_or(false)) {
            return builder.add(Node::Never(format!("propertyNames does not let a property be called {name:?}")));
        }
        let own = keys.id != usize::MAX;
        let mut met = false;
        if keys.properties.iter().any(|known| known == name) {
            met = true;
            if own {
                schemas.push(builder.source.child(keys.id, &["properties", name]));
            }
        }
        for (pattern, term) in &keys.patterns {
            if term.has(&written)? {
                met = true;
                if own {
                    schemas.push(builder.source.child(keys.id, &["patternProperties", pattern]));
                }
            }
        }
        known |= met;
        if !met {
            schemas.extend(keys.others);
        }
    }
    if !known {
        return builder.add(Node::Never(format!("with strict, no property {name:?} may be that properties do not name")));
    }
    builder.all(schemas)
}

/// Fields that no schema names: sets of keys, and what their values may be.
fn others(builder: &mut Builder, keys: &[Keys], names: &[String], closed: bool) -> Result<Vec<(Term, usize)>, String> {
    let mut cells: Vec<(Vec<Term>, Vec<bool>)> = vec![(Vec::new(), Vec::new())];
    for (_, pattern) in keys.iter().flat_map(|keys| &keys.patterns) {
        let mut next = Vec::new();
        for (terms, met) in cells {
            for (term, is) in [(pattern.clone(), true), (pattern.clone().not(), false)] {
                let mut terms = terms.clone();
                terms.push(term);
                let mut met = met.clone();
                met.push(is);
                let all = Term::both([&[any_key()], terms.as_slice()].concat());
                if !all.is_empty().map_err(|problem| format!("patternProperties cannot be held: {problem}"))? {
                    next.push((terms, met));
                }
            }
        }
        if next.len() > MOST_CELLS {
            return Err(format!("patternProperties part keys into more than {MOST_CELLS} kinds"));
        }
        cells = next;
    }
    let named: Vec<Term> = names.iter().map(|name| Term::Text(Value::from(name.as_str()).to_string())).collect();
    let limits: Vec<Term> = keys.iter().filter_map(|keys| keys.names.clone()).collect();
    let mut all = Vec::new();
    for (mut terms, met) in cells {
        let mut schemas = Vec::new();
        let mut at = 0;
        for keys in keys {
            let own = &met[at..at + keys.patterns.len()];
            at += keys.patterns.len();
            let mut any = false;
            for ((pattern, _), _) in keys.patterns.iter().zip(own).filter(|(_, met)| **met) {
                any = true;
                if keys.id != usize::MAX {
                    schemas.push(builder.source.child(keys.id, &["patternProperties", pattern]));
                }
            }
            if !any {
                schemas.extend(keys.others);
            }
        }
        let unnamed = closed && !met.contains(&true);
        if unnamed || schemas.iter().any(|id| builder.source.entry(*id).value == Value::Bool(false)) {
            continue;
        }
        terms.insert(0, any_key());
        terms.extend(limits.iter().cloned());
        if !named.is_empty() {
            terms.push(Term::either(named.clone()).not());
        }
        let key = Term::both(terms);
        if key != any_key() && key.is_empty().unwrap_or(false) {
            continue;
        }
        all.push((key, builder.all(schemas)?));
    }
    Ok(all)
}

impl Builder {
    /// All schemas that one consists of, itself among them.
    fn consists_of(&mut self, id: usize) -> Result<Vec<usize>, String> {
        let mut found = vec![id];
        let mut at = 0;
        while let Some(id) = found.get(at).copied() {
            at += 1;
            let Value::Object(map) = self.source.entry(id).value.clone() else { continue };
            let mut more = Vec::new();
            for key in ["$ref", "$dynamicRef", "$recursiveRef"] {
                if let Some(reference) = map.get(key).and_then(Value::as_str) {
                    more.push(self.source.refer(id, reference)?);
                }
            }
            for key in ["allOf", "anyOf", "oneOf"] {
                for i in 0..map.get(key).and_then(Value::as_array).map_or(0, Vec::len) {
                    more.push(self.source.child(id, &[key, &i.to_string()]));
                }
            }
            for key in ["if", "then", "else"] {
                if map.contains_key(key) {
                    more.push(self.source.child(id, &[key]));
                }
            }
            more.retain(|id| !found.contains(id));
            found.extend(more);
        }
        Ok(found)
    }

}
