//! Makes the alternatives of `oneOf` mutually exclusive.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::build::Builder;
use super::inhabited::inhabited;
use super::node::Part;

/// The most alternatives that are compared pairwise.
const MOST_COMPARED: usize = 32;
/// The deepest nesting of comparisons.
const MAX_DEPTH: usize = 6;

impl Builder {
    /// The alternatives of a `oneOf`, made mutually exclusive if possible.
    pub(super) fn exactly_one(&mut self, id: usize, rest: &[Part]) -> Result<Vec<Vec<usize>>, String> {
        let count = self.source.entry(id).value.get("oneOf").and_then(Value::as_array).map_or(0, Vec::len);
        let options: Vec<usize> =
            (0..count).map(|i| self.source.child(id, &["oneOf", &i.to_string()])).collect();
        if options.len() < 2 {
            return Ok(options.into_iter().map(|id| vec![id]).collect());
        }
        if let Some(tag) = self.tag(&options)? {
            let tagged = self.source.made(id, json!({"type": "object", "required": [tag]}));
            return Ok(options.into_iter().map(|id| vec![id, tagged]).collect());
        }
        let mut overlapping: Vec<Vec<usize>> = vec![Vec::new(); options.len()];
        for a in 0..options.len() {
            for b in 0..a {
                if options.len() > MOST_COMPARED || self.may_meet(rest, options[a], options[b])? {
                    overlapping[a].push(b);
                    overlapping[b].push(a);
                }
            }
        }
        match self.apart(&options, &overlapping) {
            Ok(apart) => Ok(apart),
            Err(why) => {
                let at = self.source.at(id);
                self.warn(format!(
                    "oneOf at {at} is taken as anyOf, an answer may fit several of its options: {why}"
                ));
                Ok(options.into_iter().map(|id| vec![id]).collect())
            }
        }
    }

    /// Each alternative minus those that overlap it.
    fn apart(&mut self, options: &[usize], overlapping: &[Vec<usize>]) -> Result<Vec<Vec<usize>>, String> {
        if options.len() > MOST_COMPARED {
            return Err(format!("it has more than {MOST_COMPARED} options and no field tells them apart"));
        }
        let mut all = Vec::new();
        for (option, others) in options.iter().zip(overlapping) {
            let mut parts = vec![*option];
            for other in others {
                parts.push(self.not(options[*other])?);
            }
            all.push(parts);
        }
        // Whether the negations can be enforced must be known before they are used.
        if self.depth >= MAX_DEPTH {
            return Err("it is too deep in others".into());
        }
        for parts in &all {
            self.attempt(parts.iter().map(|id| Part::All(*id)).collect())?;
        }
        Ok(all)
    }

    /// A field whose values distinguish the alternatives (a tag).
    fn tag(&mut self, options: &[usize]) -> Result<Option<String>, String> {
        let mut tags: Vec<HashMap<String, HashSet<String>>> = Vec::new();
        for option in options {
            let mut found = HashMap::new();
            self.tags_of(*option, &mut found, 0)?;
            if found.is_empty() {
                return Ok(None);
            }
            tags.push(found);
        }
        let mut names: Vec<&String> = tags[0].keys().collect();
        names.sort();
        let apart = |name: &&String| {
            let mut seen = HashSet::new();
            tags.iter().all(|tags| {
                tags.get(*name).is_some_and(|values| values.iter().all(|v| seen.insert(v.clone())))
            })
        };
        Ok(names.into_iter().find(apart).cloned())
    }

    fn tags_of(
        &mut self,
        id: usize,
        found: &mut HashMap<String, HashSet<String>>,
        depth: usize,
    ) -> Result<(), String> {
        let Value::Object(map) = self.source.entry(id).value.clone() else { return Ok(()) };
        if depth > 8 {
            return Ok(());
        }
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            let target = self.source.refer(id, reference)?;
            self.tags_of(target, found, depth + 1)?;
        }
        for i in 0..map.get("allOf").and_then(Value::as_array).map_or(0, Vec::len) {
            let child = self.source.child(id, &["allOf", &i.to_string()]);
            self.tags_of(child, found, depth + 1)?;
        }
        for name in map.get("properties").and_then(Value::as_object).into_iter().flat_map(|map| map.keys()) {
            let child = self.source.child(id, &["properties", name]);
            if let Some(values) = self.values_of(child, depth)? {
                found.insert(name.clone(), values);
            }
        }
        Ok(())
    }

    /// The values that a schema lists by `const` or `enum`.
    fn values_of(&mut self, mut id: usize, depth: usize) -> Result<Option<HashSet<String>>, String> {
        for _ in depth..8 {
            let value = self.source.entry(id).value.clone();
            // Only strings: a number may be written in two ways.
            let text = |value: &Value| value.is_string().then(|| value.to_string());
            if let Some(value) = value.get("const") {
                return Ok(text(value).map(|text| HashSet::from([text])));
            }
            if let Some(values) = value.get("enum").and_then(Value::as_array) {
                return Ok(values.iter().map(text).collect());
            }
            let Some(reference) = value.get("$ref").and_then(Value::as_str) else { break };
            id = self.source.refer(id, reference)?;
        }
        Ok(None)
    }

    /// Whether a value may satisfy both schemas, together with the rest.
    fn may_meet(&mut self, rest: &[Part], a: usize, b: usize) -> Result<bool, String> {
        if self.depth >= MAX_DEPTH {
            return Ok(true);
        }
        let mut parts = rest.to_vec();
        parts.extend([Part::All(a), Part::All(b)]);
        // If it cannot be decided, they may overlap.
        let Ok(node) = self.attempt(parts) else { return Ok(true) };
        Ok(inhabited(&self.nodes)[node])
    }
}
