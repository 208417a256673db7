//! Builds the node graph of a schema: conjunctions of schemas are simplified until only assertions are left.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Value, json};

use super::keywords::{ANNOTATIONS, ASSERTIONS};
use super::negate;
use super::node::{Node, Part, leaves};
use super::source::{Source, object};
use super::strings::any_text;
use super::term::Term;

/// The most conjunctions of schemas; a request with more is refused.
const MOST_NODES: usize = 20_000;
/// The longest chain of references.
const MOST_REFERENCES: usize = 64;
/// The most emptiness tests of regular sets; the worst take some milliseconds.
const MOST_ASKED: usize = 2_000;

pub(super) struct Builder {
    pub(super) source: Source,
    pub(super) nodes: Vec<Node>,
    known: HashMap<Vec<Part>, usize>,
    pub(super) waiting: VecDeque<(usize, Vec<Part>)>,
    /// Warnings for the client, one sentence each.
    pub(super) warnings: Vec<String>,
    /// Whether objects have only the properties that the schema names.
    pub(super) closed: bool,
    /// Results of emptiness tests.
    asked: RefCell<HashMap<Term, bool>>,
    /// Nesting depth of `oneOf` comparisons.
    pub(super) depth: usize,
}

impl Builder {
    pub(super) fn new(source: Source, closed: bool) -> Builder {
        Builder {
            source,
            nodes: Vec::new(),
            known: HashMap::new(),
            waiting: VecDeque::new(),
            warnings: Vec::new(),
            closed,
            asked: RefCell::default(),
            depth: 0,
        }
    }

    /// Builds the whole graph; returns the root node.
    ///
    /// # Errors
    /// The part of the schema that cannot be enforced.
    pub(super) fn run(&mut self) -> Result<usize, String> {
        let root = self.source.root();
        let node = self.node(vec![Part::All(root)])?;
        self.drain()?;
        Ok(node)
    }

    pub(super) fn warn(&mut self, text: String) {
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    /// Whether a set of texts is empty.
    ///
    /// # Errors
    /// The test took too much work, or there were too many tests.
    pub(super) fn empty(&self, term: &Term) -> Result<bool, String> {
        if let Some(known) = self.asked.borrow().get(term) {
            return Ok(*known);
        }
        if self.asked.borrow().len() >= MOST_ASKED {
            return Err(format!("it has more than {MOST_ASKED} different patterns and bounds"));
        }
        let empty = term.is_empty()?;
        self.asked.borrow_mut().insert(term.clone(), empty);
        Ok(empty)
    }

    /// Builds the node of a conjunction completely; on failure all its nodes are removed.
    pub(super) fn attempt(&mut self, parts: Vec<Part>) -> Result<usize, String> {
        let (nodes, waiting) = (self.nodes.len(), self.waiting.len());
        self.depth += 1;
        let outcome = self.node(parts).and_then(|node| self.drain_from(waiting).map(|()| node));
        self.depth -= 1;
        if outcome.is_err() {
            self.nodes.truncate(nodes);
            self.waiting.truncate(waiting);
            self.known.retain(|_, id| *id < nodes);
        }
        outcome
    }

    /// The node of a conjunction of parts.
    pub(super) fn node(&mut self, parts: Vec<Part>) -> Result<usize, String> {
        if let Some(id) = self.known.get(&parts) {
            return Ok(*id);
        }
        let id = self.add(Node::Pending)?;
        self.known.insert(parts.clone(), id);
        self.waiting.push_back((id, parts));
        Ok(id)
    }

    /// The node of a conjunction of schemas, by their ids.
    pub(super) fn all(&mut self, schemas: impl IntoIterator<Item = usize>) -> Result<usize, String> {
        let mut parts: Vec<Part> = Vec::new();
        for id in schemas {
            let part = Part::All(id);
            if self.source.entry(id).value != Value::Bool(true) && !parts.contains(&part) {
                parts.push(part);
            }
        }
        self.node(parts)
    }

    pub(super) fn add(&mut self, node: Node) -> Result<usize, String> {
        if self.nodes.len() >= MOST_NODES {
            return Err(format!("its parts combine in more than {MOST_NODES} ways"));
        }
        self.nodes.push(node);
        Ok(self.nodes.len() - 1)
    }

    fn drain(&mut self) -> Result<(), String> {
        while let Some((id, parts)) = self.waiting.pop_front() {
            self.nodes[id] = self.expand(parts)?;
        }
        Ok(())
    }

    fn expand(&mut self, parts: Vec<Part>) -> Result<Node, String> {
        let mut flat = Flat::default();
        for part in parts {
            match part {
                Part::All(id) => {
                    if let Some(reason) = self.flatten(id, &mut flat)? {
                        return Ok(Node::Never(reason));
                    }
                }
                Part::Own(id) => flat.own(id),
                Part::Any(options) => flat.choices.push(Part::Any(options)),
                Part::One(id) => flat.choices.push(Part::One(id)),
            }
        }
        if flat.choices.is_empty() {
            return self.assertions(&flat.owns);
        }
        let choice = flat.choices.remove(0);
        let mut rest: Vec<Part> = flat.owns.iter().map(|id| Part::Own(*id)).collect();
        rest.append(&mut flat.choices);
        let options = match choice {
            Part::One(id) => self.exactly_one(id, &rest)?,
            Part::Any(options) => options.into_iter().map(|id| vec![id]).collect(),
            Part::All(_) | Part::Own(_) => Vec::new(),
        };
        if options.is_empty() {
            return Ok(Node::Never("there are no options".into()));
        }
        let mut nodes = Vec::with_capacity(options.len());
        for option in options {
            let mut parts = rest.clone();
            parts.extend(option.into_iter().map(Part::All));
            let node = self.node(parts)?;
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        Ok(Node::Either(nodes))
    }

    /// Splits a schema into assertions and combinators. Returns the reason if it is obviously unsatisfiable.
    fn flatten(&mut self, id: usize, flat: &mut Flat) -> Result<Option<String>, String> {
        if flat.inside.contains(&id) {
            return Err(format!("{} leads back to itself and says nothing else", self.source.at(id)));
        }
        if !flat.seen.insert(id) {
            return Ok(None);
        }
        let map = match &self.source.entry(id).value {
            Value::Bool(true) => return Ok(None),
            Value::Bool(false) => return Ok(Some(format!("{} is false", self.source.at(id)))),
            Value::Object(map) => map.clone(),
            other => {
                let at = self.source.at(id);
                return Err(format!(
                    "{at} must be a schema: an object, or true or false; it is {}",
                    brief(other)
                ));
            }
        };
        flat.inside.push(id);
        for (key, value) in &map {
            if let Some(reason) = self.keyword(id, key, value, flat)? {
                return Ok(Some(reason));
            }
        }
        flat.inside.pop();
        Ok(None)
    }

    fn keyword(
        &mut self,
        id: usize,
        key: &str,
        value: &Value,
        flat: &mut Flat,
    ) -> Result<Option<String>, String> {
        match key {
            "$ref" | "$dynamicRef" | "$recursiveRef" => {
                let reference = value.as_str().ok_or_else(|| self.wrong(id, key, value, "a text"))?;
                if key == "$dynamicRef" && self.source.depends(reference) {
                    let at = self.source.at(id);
                    return Err(format!(
                        "$dynamicRef {reference:?} at {at} cannot be held: more than one $dynamicAnchor has its name"
                    ));
                }
                let target = self.source.refer(id, reference)?;
                return self.flatten(target, flat);
            }
            "allOf" => {
                for i in 0..self.list(id, key, value)? {
                    let child = self.source.child(id, &[key, &i.to_string()]);
                    if let Some(reason) = self.flatten(child, flat)? {
                        return Ok(Some(reason));
                    }
                }
            }
            "anyOf" => {
                let options =
                    (0..self.list(id, key, value)?).map(|i| self.source.child(id, &[key, &i.to_string()]));
                flat.choices.push(Part::Any(options.collect()));
            }
            "oneOf" => {
                self.list(id, key, value)?;
                flat.choices.push(Part::One(id));
            }
            "not" => {
                let child = self.source.child(id, &["not"]);
                let made = self.not(child)?;
                return self.flatten(made, flat);
            }
            "if" => self.condition(id, flat)?,
            "then" | "else" => {}
            "dependentRequired" | "dependentSchemas" | "dependencies" => {
                for made in self.dependencies(id, key, value)? {
                    flat.choices.push(Part::Any(made));
                }
            }
            "const" if value.is_array() || value.is_object() => {
                let made = self.source.made(id, constant(value));
                return self.flatten(made, flat);
            }
            "enum"
                if value.as_array().is_some_and(|all| all.iter().any(|v| v.is_array() || v.is_object())) =>
            {
                let all = value.as_array().into_iter().flatten();
                let options = all.map(|value| self.source.made(id, json!({ "const": value }))).collect();
                flat.choices.push(Part::Any(options));
            }
            _ if ASSERTIONS.contains(&key) => flat.own(id),
            _ => {
                if !ANNOTATIONS.contains(&key) && !key.starts_with("x-") {
                    let at = self.source.at(id);
                    self.warn(format!(
                        "{key} at {at} is no keyword of JSON Schema and is taken as an annotation"
                    ));
                }
            }
        }
        Ok(None)
    }

    /// The negation of a schema.
    pub(super) fn not(&mut self, id: usize) -> Result<usize, String> {
        let unable = |at: String, why: String| format!("not at {at}: {why} cannot be held");
        let mut id = id;
        for _ in 0..MOST_REFERENCES {
            let value = self.source.entry(id).value.clone();
            let Some(reference) = value.get("$ref").and_then(Value::as_str) else {
                let opposite = negate::opposite(&value).map_err(|why| unable(self.source.at(id), why))?;
                return Ok(self.source.made(id, opposite));
            };
            let mut keys = value.as_object().into_iter().flat_map(|map| map.keys());
            if !keys.all(|key| key == "$ref" || ANNOTATIONS.contains(&key.as_str())) {
                return Err(unable(self.source.at(id), "$ref beside other keywords".into()));
            }
            id = self.source.refer(id, reference)?;
        }
        Err(unable(self.source.at(id), "a reference that leads back to itself".into()))
    }

    /// Translates `if`, `then`, `else` to two alternatives.
    fn condition(&mut self, id: usize, flat: &mut Flat) -> Result<(), String> {
        let map = self.source.entry(id).value.clone();
        let part = |name: &str| map.get(name).cloned().unwrap_or(Value::Bool(true));
        if map.get("then").is_none() && map.get("else").is_none() {
            return Ok(());
        }
        let condition = self.source.child(id, &["if"]);
        let otherwise = self.not(condition)?;
        let otherwise = self.source.entry(otherwise).value.clone();
        let cases =
            [json!({"allOf": [part("if"), part("then")]}), json!({"allOf": [otherwise, part("else")]})];
        let cases = cases.map(|case| self.source.made(id, case));
        flat.choices.push(Part::Any(cases.to_vec()));
        Ok(())
    }

    /// Translates `dependentRequired` and `dependentSchemas`: a conjunction of alternatives.
    fn dependencies(&mut self, id: usize, key: &str, value: &Value) -> Result<Vec<Vec<usize>>, String> {
        let map = value.as_object().ok_or_else(|| self.wrong(id, key, value, "an object"))?;
        let mut all = Vec::new();
        for (name, wanted) in map {
            let mut without = json!({"type": ["null", "boolean", "number", "string", "array"]});
            let absent = json!({"type": "object", "properties": {name: false}});
            without = json!({"anyOf": [without, absent]});
            let then = match wanted {
                Value::Array(names) => {
                    let names: Vec<Value> =
                        std::iter::once(Value::from(name.as_str())).chain(names.iter().cloned()).collect();
                    json!({"type": "object", "required": names})
                }
                schema => json!({"type": "object", "required": [name], "allOf": [schema]}),
            };
            all.push(vec![self.source.made(id, without), self.source.made(id, then)]);
        }
        Ok(all)
    }

    fn list(&self, id: usize, key: &str, value: &Value) -> Result<usize, String> {
        value.as_array().map(Vec::len).ok_or_else(|| self.wrong(id, key, value, "a list of schemas"))
    }

    pub(super) fn wrong(&self, id: usize, key: &str, value: &Value, wanted: &str) -> String {
        format!("{key} at {} must be {wanted}; it is {}", self.source.at(id), brief(value))
    }

    /// Expands the pending nodes after the first `kept`.
    pub(super) fn drain_from(&mut self, kept: usize) -> Result<(), String> {
        while self.waiting.len() > kept {
            if let Some((id, parts)) = self.waiting.pop_back() {
                self.nodes[id] = self.expand(parts)?;
            }
        }
        Ok(())
    }

    /// The keys (with quotation marks) that a schema of property names allows; `None` for all.
    pub(super) fn names(&mut self, id: usize) -> Result<Option<Term>, String> {
        let waiting = self.waiting.len();
        let text = self.source.made(id, object([("type", Value::from("string"))]));
        let node = self.all([id, text])?;
        self.drain_from(waiting)?;
        // The node may already be pending.
        if let Some(at) = self.waiting.iter().position(|(waiting, _)| *waiting == node)
            && let Some((id, parts)) = self.waiting.remove(at)
        {
            self.nodes[id] = self.expand(parts)?;
            self.drain_from(waiting.saturating_sub(1))?;
        }
        let mut terms = Vec::new();
        self.collect(node, &mut terms)?;
        let term = Term::either(terms);
        Ok((term != any_text()).then_some(term))
    }

    fn collect(&self, node: usize, terms: &mut Vec<Term>) -> Result<(), String> {
        for end in leaves(&self.nodes, node) {
            match &self.nodes[end] {
                Node::Scalar(term) => terms.push(term.clone()),
                Node::Never(_) => {}
                Node::Pending => return Err("propertyNames that refer to themselves".into()),
                Node::Any | Node::Object(_) | Node::Array(_) | Node::Either(_) => terms.push(any_text()),
            }
        }
        Ok(())
    }
}

/// A conjunction of schemas, split into assertions and combinators.
#[derive(Default)]
struct Flat {
    owns: Vec<usize>,
    choices: Vec<Part>,
    seen: HashSet<usize>,
    inside: Vec<usize>,
}

impl Flat {
    fn own(&mut self, id: usize) {
        if !self.owns.contains(&id) {
            self.owns.push(id);
        }
    }
}

/// The schema that only this value satisfies.
fn constant(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let items: Vec<Value> = items.iter().map(|item| json!({ "const": item })).collect();
            let count = items.len();
            json!({"type": "array", "prefixItems": items, "minItems": count, "maxItems": count})
        }
        Value::Object(fields) => {
            let names: Vec<&String> = fields.keys().collect();
            let properties: serde_json::Map<String, Value> =
                fields.iter().map(|(name, value)| (name.clone(), json!({ "const": value }))).collect();
            json!({"type": "object", "properties": properties, "required": names, "additionalProperties": false})
        }
        scalar => json!({ "const": scalar }),
    }
}

pub(super) fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
