//! Objects of JSON schemas.

use serde_json::Value;

use super::build::Builder;
use super::node::{Field, Node, Object};
use super::rules::{Rules, counts};
use super::scalars::searched;
use super::strings::{any_key, in_quotes};
use super::term::Term;

/// The most classes into which `patternProperties` divide the keys.
const MOST_CELLS: usize = 64;

/// The assertions of one schema about an object's fields.
struct Keys {
    id: usize,
    properties: Vec<String>,
    /// Each pattern with the set of keys that it matches.
    patterns: Vec<(String, Term)>,
    others: Option<usize>,
    names: Option<Term>,
}

/// The objects that satisfy all assertions.
pub(super) fn object(builder: &mut Builder, rules: &[(usize, Rules)]) -> Result<Node, String> {
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
        // As in draft 3 and some OpenAPI documents: `required` in the property itself.
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
    let others =
        rules.get("additionalProperties").map(|_| builder.source.child(id, &["additionalProperties"]));
    let names = match rules.get("propertyNames") {
        None => None,
        Some(_) => {
            let schema = builder.source.child(id, &["propertyNames"]);
            builder.names(schema)?
        }
    };
    Ok(Keys { id, properties, patterns, others, names })
}

/// Applies `unevaluatedProperties` to the fields that neither the schema nor its subschemas evaluate.
fn unevaluated(builder: &mut Builder, rules: &[(usize, Rules)], keys: &mut Vec<Keys>) -> Result<(), String> {
    let mut more = Vec::new();
    for (id, rule) in rules.iter().filter(|(_, rules)| rules.contains_key("unevaluatedProperties")) {
        let within = builder.consists_of(*id)?;
        let parts = keys.iter().filter(|keys| within.contains(&keys.id));
        if parts.clone().any(|keys| keys.others.is_some()) {
            // `additionalProperties` has evaluated all other fields.
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
            return builder
                .add(Node::Never(format!("propertyNames does not let a property be called {name:?}")));
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
        return builder.add(Node::Never(format!(
            "with strict, no property {name:?} may be that properties do not name"
        )));
    }
    builder.all(schemas)
}

/// Fields that no schema names: classes of keys, and the nodes of their values.
fn others(
    builder: &mut Builder,
    keys: &[Keys],
    names: &[String],
    closed: bool,
) -> Result<Vec<(Term, usize)>, String> {
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
                let none = builder.empty(&all);
                if !none.map_err(|problem| format!("patternProperties cannot be held: {problem}"))? {
                    next.push((terms, met));
                }
            }
        }
        if next.len() > MOST_CELLS {
            return Err(format!("patternProperties part keys into more than {MOST_CELLS} kinds"));
        }
        cells = next;
    }
    let named: Vec<Term> =
        names.iter().map(|name| Term::Text(Value::from(name.as_str()).to_string())).collect();
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
        if key != any_key() && builder.empty(&key).unwrap_or(false) {
            continue;
        }
        all.push((key, builder.all(schemas)?));
    }
    Ok(all)
}

impl Builder {
    /// All schemas that are applied in place by this one (references, `allOf`, …), itself included.
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
