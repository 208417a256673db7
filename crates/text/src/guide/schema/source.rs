//! The schema document: subschemas by id, and the resolution of references.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// The prefix of a number that an f64 cannot represent, stored as a string.
pub(super) const EXACT: &str = "\u{f8ff}number:";

/// A subschema of the document, or one derived from it.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) value: Value,
    /// JSON pointer of the schema, for errors.
    pub(super) at: String,
    /// JSON pointer of the resource to which its references are relative.
    base: String,
}

/// All schemas that were visited.
pub(super) struct Source {
    root: Value,
    entries: Vec<Entry>,
    known: HashMap<(String, String), usize>,
    /// JSON pointers of schemas by their `$id`.
    ids: HashMap<String, String>,
    /// JSON pointers of schemas by resource and `$anchor`.
    anchors: HashMap<(String, String), String>,
    /// The number of schemas with each `$dynamicAnchor`.
    dynamic: HashMap<String, usize>,
}

impl Source {
    pub(super) fn new(root: Value) -> Source {
        let mut source = Source {
            entries: Vec::new(),
            known: HashMap::new(),
            ids: HashMap::new(),
            anchors: HashMap::new(),
            dynamic: HashMap::new(),
            root: Value::Null,
        };
        source.survey(&root, "", "", "");
        source.root = root;
        source
    }

    /// Collects `$id`, `$anchor` and `$dynamicAnchor` of all subschemas.
    fn survey(&mut self, value: &Value, at: &str, base: &str, address: &str) {
        match value {
            Value::Object(map) => {
                let (mut base, mut address) = (base.to_owned(), address.to_owned());
                match map.get("$id").or_else(|| map.get("id")).and_then(Value::as_str) {
                    Some(name) if name.starts_with('#') => {
                        self.anchors.insert((base.clone(), name[1..].to_owned()), at.to_owned());
                    }
                    Some(id) => {
                        base = at.to_owned();
                        address = join(&address, id.trim_end_matches('#'));
                        self.ids.insert(address.clone(), at.to_owned());
                    }
                    None => {}
                }
                if let Some(name) = map.get("$dynamicAnchor").and_then(Value::as_str) {
                    *self.dynamic.entry(name.to_owned()).or_default() += 1;
                }
                for name in ["$anchor", "$dynamicAnchor"] {
                    if let Some(name) = map.get(name).and_then(Value::as_str) {
                        self.anchors.insert((base.clone(), name.to_owned()), at.to_owned());
                    }
                }
                for (key, value) in map
                    .iter()
                    .filter(|(key, _)| !matches!(key.as_str(), "const" | "enum" | "default" | "examples"))
                {
                    self.survey(value, &format!("{at}/{}", escape(key)), &base, &address);
                }
            }
            Value::Array(list) => {
                for (i, value) in list.iter().enumerate() {
                    self.survey(value, &format!("{at}/{i}"), base, address);
                }
            }
            _ => {}
        }
    }

    pub(super) fn root(&mut self) -> usize {
        let root = self.root.clone();
        self.add(&root, String::new(), String::new())
    }

    pub(super) fn entry(&self, id: usize) -> &Entry {
        &self.entries[id]
    }

    /// The JSON pointer of a schema, for errors.
    pub(super) fn at(&self, id: usize) -> String {
        format!("#{}", self.entries[id].at)
    }

    fn add(&mut self, value: &Value, at: String, base: String) -> usize {
        let key = (base, value.to_string());
        if let Some(id) = self.known.get(&key) {
            return *id;
        }
        let id = self.entries.len();
        self.entries.push(Entry { value: value.clone(), at, base: key.0.clone() });
        self.known.insert(key, id);
        id
    }

    /// The subschema at a path within another schema.
    pub(super) fn child(&mut self, of: usize, path: &[&str]) -> usize {
        let entry = &self.entries[of];
        let mut value = &entry.value;
        let mut at = entry.at.clone();
        for step in path {
            value = match value {
                Value::Object(map) => map.get(*step).unwrap_or(&Value::Null),
                Value::Array(list) => {
                    step.parse().ok().and_then(|i: usize| list.get(i)).unwrap_or(&Value::Null)
                }
                _ => &Value::Null,
            };
            at = format!("{at}/{}", escape(step));
        }
        let value = value.clone();
        // A schema with an `$id` is the base of its references.
        let own = value.get("$id").and_then(Value::as_str).is_some_and(|id| !id.starts_with('#'));
        let base =
            if own && self.root.pointer(&at) == Some(&value) { at.clone() } else { entry.base.clone() };
        self.add(&value, at, base)
    }

    /// A schema derived from another, with the same base for references.
    pub(super) fn made(&mut self, of: usize, value: Value) -> usize {
        let (at, base) = (self.entries[of].at.clone(), self.entries[of].base.clone());
        self.add(&value, at, base)
    }

    /// Resolves a reference.
    ///
    /// # Errors
    /// The target does not exist, or is in another document.
    pub(super) fn refer(&mut self, from: usize, reference: &str) -> Result<usize, String> {
        let (address, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let base = self.entries[from].base.clone();
        let resource = if address.is_empty() {
            base
        } else {
            let own = self.ids.iter().find(|(_, at)| **at == base).map_or("", |(address, _)| address);
            let full = join(own, address);
            let found = self.ids.get(&full).or_else(|| self.ids.get(address)).cloned();
            found.ok_or_else(|| {
                format!("$ref {reference:?} at {} leads to another document, and none but the schema itself is read", self.at(from))
            })?
        };
        let fragment = percent_decoded(fragment);
        let at = if fragment.is_empty() {
            resource.clone()
        } else if fragment.starts_with('/') {
            format!("{resource}{fragment}")
        } else {
            let found = self.anchors.get(&(resource.clone(), fragment.clone())).cloned();
            found.ok_or_else(|| format!("$ref {reference:?} at {}: nothing has this name", self.at(from)))?
        };
        let value = if at == "/" { Some(&self.root) } else { self.root.pointer(&at) };
        let value = value
            .ok_or_else(|| format!("$ref {reference:?} at {}: there is nothing there", self.at(from)))?;
        let value = value.clone();
        let base = self.enclosing(&at);
        Ok(self.add(&value, if at == "/" { String::new() } else { at }, base))
    }

    /// Whether the target of a `$dynamicRef` depends on the evaluation path.
    pub(super) fn depends(&self, reference: &str) -> bool {
        let name = reference.split_once('#').map_or("", |(_, name)| name);
        self.dynamic.get(name).is_some_and(|count| *count > 1)
    }

    /// The innermost resource that contains a JSON pointer.
    fn enclosing(&self, at: &str) -> String {
        let inside = |resource: &&String| at == resource.as_str() || at.starts_with(&format!("{resource}/"));
        self.ids.values().filter(inside).max_by_key(|resource| resource.len()).cloned().unwrap_or_default()
    }
}

/// Restores the exact digits of numbers that parsing rounded.
///
/// # Errors
/// A pointer does not lead to a number.
pub(super) fn with_exact(mut schema: Value, exact: &[(String, String)]) -> Result<Value, String> {
    for (at, digits) in exact {
        match schema.pointer_mut(at) {
            Some(number @ Value::Number(_)) => *number = Value::from(format!("{EXACT}{digits}")),
            _ => return Err(format!("the number {digits} cannot be held exactly")),
        }
    }
    Ok(schema)
}

pub(super) fn object(fields: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    Value::Object(Map::from_iter(fields.into_iter().map(|(name, value)| (name.to_owned(), value))))
}

fn escape(step: &str) -> String {
    step.replace('~', "~0").replace('/', "~1")
}

fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok()))
            .flatten();
        out.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Resolves a URI reference against a base: the part of RFC 3986 that schemas use.
fn join(base: &str, address: &str) -> String {
    let scheme = address.split(['/', '?', '#']).next().is_some_and(|start| start.contains(':'));
    if scheme || base.is_empty() {
        return address.to_owned();
    }
    let authority_end =
        base.find("://").map_or(0, |at| base[at + 3..].find('/').map_or(base.len(), |n| at + 3 + n));
    if address.starts_with('/') {
        return format!("{}{address}", &base[..authority_end]);
    }
    let folder = base.rfind('/').filter(|at| *at >= authority_end).map_or(authority_end, |at| at + 1);
    format!("{}{address}", &base[..folder])
}
