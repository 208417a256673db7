//! Arrays of JSON schemas.

use serde_json::Value;

use super::build::Builder;
use super::node::{Array, Node};
use super::rules::{Rules, Scalar, count, counts, scalar};

/// The most item texts for which `uniqueItems` is enforced by enumeration.
const MOST_DISTINCT: usize = 8;

/// The arrays that satisfy all assertions.
pub(super) fn array(builder: &mut Builder, rules: &[(usize, Rules)]) -> Result<Node, String> {
    let (mut least, most) = counts(builder, rules, "minItems", "maxItems")?;
    // For each schema: the schemas of the first items, and of the others.
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
                return Err(format!(
                    "unevaluatedItems beside other schemas at {} cannot be held",
                    builder.source.at(*id)
                ));
            }
            rest = Some(builder.source.child(*id, &["unevaluatedItems"]));
        }
        firsts.push((first, rest));
        if let Some(value) = rules.get("uniqueItems") {
            unique |=
                value.as_bool().ok_or_else(|| builder.wrong(*id, "uniqueItems", value, "true or false"))?;
        }
        if rules.contains_key("contains") {
            let wanted = count_of_contained(builder, *id, rules)?;
            if wanted > 0 && contains.replace((builder.source.child(*id, &["contains"]), wanted)).is_some() {
                return Err(format!(
                    "two schemas with contains at {} cannot be held together",
                    builder.source.at(*id)
                ));
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
                return Err(format!(
                    "contains at {at} cannot be held beside prefixItems, minItems or maxItems"
                ));
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

/// The texts of the items, if they are few.
fn values(
    builder: &mut Builder,
    rules: &[(usize, Rules)],
    items: &[usize],
) -> Result<Option<Vec<String>>, String> {
    let _ = rules;
    let Some((first, _)) = items.split_first() else { return Ok(None) };
    let mut id = *first;
    for _ in 0..8 {
        let value = builder.source.entry(id).value.clone();
        let list = value.get("enum").and_then(Value::as_array).cloned();
        let list =
            list.or_else(|| (value.get("type")? == "boolean").then(|| vec![true.into(), false.into()]));
        if let Some(list) = list.filter(|list| list.len() <= MOST_DISTINCT && items.len() == 1) {
            let mut texts: Vec<String> = Vec::new();
            let simple = value.as_object().is_some_and(|map| {
                map.keys()
                    .all(|key| matches!(key.as_str(), "enum" | "type" | "title" | "description" | "default"))
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
