//! Writes the node graph of a schema as a grammar for llguidance.

use std::collections::HashMap;
use std::fmt::Write;

use super::node::{Array, Node, Object, leaves};
use super::strings::{any_key, any_text};
use super::term::{Term, quoted};

/// The most rules of a grammar.
const MOST_RULES: usize = 60_000;

/// The white space between the tokens of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum JsonSpacing {
    /// An optional space after commas and colons, and none elsewhere.
    One,
    /// No white space.
    Compact,
    /// White space that matches this regular expression, wherever JSON allows it.
    Pattern(String),
}

/// Writes the grammar of a node graph.
pub(super) struct Emitter<'n> {
    nodes: &'n [Node],
    ends: &'n [bool],
    prefix: String,
    rules: String,
    count: usize,
    /// Nodes that need a rule; those after the first `done` are not written yet.
    met: Vec<usize>,
    known: HashMap<usize, ()>,
    terminals: HashMap<Term, usize>,
    space: JsonSpacing,
    any: bool,
}

impl<'n> Emitter<'n> {
    /// `prefix` (lower-case letters and digits) makes rule names unique among several schemas of one grammar.
    pub(super) fn new(nodes: &'n [Node], ends: &'n [bool], prefix: &str, space: JsonSpacing) -> Emitter<'n> {
        Emitter {
            nodes,
            ends,
            prefix: prefix.to_owned(),
            rules: String::new(),
            count: 0,
            met: Vec::new(),
            known: HashMap::new(),
            terminals: HashMap::new(),
            space,
            any: false,
        }
    }

    /// Writes the rules that `root` needs; returns the name of its rule, and the grammar.
    pub(super) fn write(mut self, root: usize) -> Result<(String, String), String> {
        let start = self.value(root);
        let mut done = 0;
        while let Some(id) = self.met.get(done).copied() {
            done += 1;
            let name = format!("{}n{id}", self.prefix);
            match &self.nodes[id] {
                Node::Object(object) => self.object(&name, object)?,
                Node::Array(array) => self.array(&name, array)?,
                Node::Scalar(term) => {
                    let term = self.terminal(term);
                    self.rule(&name, &term)?;
                }
                Node::Either(_) => {
                    // Alternatives are flattened, so that no rule is only an alias of itself.
                    let options = leaves(self.nodes, id).into_iter().filter(|id| self.ends[*id]);
                    let options: Vec<usize> = options.collect();
                    let options: Vec<String> = options.into_iter().map(|id| self.value(id)).collect();
                    self.rule(&name, &options.join(" | "))?;
                }
                Node::Any => {
                    self.any = true;
                    let any = format!("{}any", self.prefix);
                    self.rule(&name, &any)?;
                }
                Node::Never(_) | Node::Pending => self.rule(&name, "\"\"")?,
            }
        }
        if self.any {
            self.anything()?;
        }
        let mut terminals: Vec<(&Term, &usize)> = self.terminals.iter().collect();
        terminals.sort_by_key(|(_, id)| **id);
        let upper = self.prefix.to_uppercase();
        for (term, id) in terminals {
            let _ = writeln!(self.rules, "{upper}T{id}: {}", term.lark());
        }
        let signs = signs(&self.space);
        for (name, text) in ["OPEN", "CLOSE", "FIRST", "LAST", "COMMA"].into_iter().zip(signs) {
            let _ = writeln!(self.rules, "{upper}{name}: {text}");
        }
        Ok((start, self.rules))
    }

    fn rule(&mut self, name: &str, body: &str) -> Result<(), String> {
        self.count += 1;
        if self.count > MOST_RULES {
            return Err(format!("it comes to more than {MOST_RULES} rules of grammar"));
        }
        let body = if body.is_empty() { "\"\"" } else { body };
        let _ = writeln!(self.rules, "{name}: {body}");
        Ok(())
    }

    fn value(&mut self, id: usize) -> String {
        if self.known.insert(id, ()).is_none() {
            self.met.push(id);
        }
        format!("{}n{id}", self.prefix)
    }

    fn terminal(&mut self, term: &Term) -> String {
        let next = self.terminals.len();
        let id = *self.terminals.entry(term.clone()).or_insert(next);
        format!("{}T{id}", self.prefix.to_uppercase())
    }

    fn sign(&self, name: &str) -> String {
        format!("{}{name}", self.prefix.to_uppercase())
    }

    /// A property name with its colon.
    fn key(&mut self, key: &Term) -> String {
        let colon = match &self.space {
            JsonSpacing::One => Term::Regex(": ?".into(), false),
            JsonSpacing::Compact => Term::Text(":".into()),
            JsonSpacing::Pattern(space) => Term::Regex(format!("(?:{space})?:(?:{space})?"), false),
        };
        // An explicit sequence, because `then` would merge parts of the key.
        self.terminal(&Term::Sequence(vec![key.clone(), colon]))
    }

    /// Writes an object. Rule `q{i}_{c}`: at least one more field, from field `i` on, after `c` counted ones. Rule
    /// `r{i}_{c}`: the end, or a comma and more.
    fn object(&mut self, name: &str, object: &Object) -> Result<(), String> {
        let (open, close) = (self.sign("OPEN"), self.sign("CLOSE"));
        let fields: Vec<(String, usize, bool)> = object
            .fields
            .iter()
            .filter(|field| self.ends[field.value])
            .map(|field| {
                (serde_json::Value::from(field.name.as_str()).to_string(), field.value, field.required)
            })
            .collect();
        let others: Vec<(Term, usize)> =
            object.others.iter().filter(|(_, value)| self.ends[*value]).cloned().collect();
        // Fields are counted only if the bounds are stricter than the fields themselves.
        let required = fields.iter().filter(|(_, _, required)| *required).count() as u64;
        let most = object.most.filter(|most| !others.is_empty() || *most < fields.len() as u64);
        let least = if object.least > required { object.least } else { 0 };
        let mut writer = Fields {
            fields,
            others,
            least,
            most,
            name: name.to_owned(),
            rules: HashMap::new(),
            todo: Vec::new(),
        };
        let more = writer.more(0, 0);
        let empty = writer.may_end(0, 0);
        let body = match (more, empty) {
            (Some(more), true) => format!("{open} ({more})? {close}"),
            (Some(more), false) => format!("{open} {more} {close}"),
            (None, _) => format!("{open} {close}"),
        };
        self.rule(name, &body)?;
        while let Some((rule, i, c, rest)) = writer.todo.pop() {
            let body = if rest { writer.rest_body(self, i, c) } else { writer.more_body(self, i, c) };
            self.rule(&rule, &body)?;
        }
        Ok(())
    }

    fn array(&mut self, name: &str, array: &Array) -> Result<(), String> {
        let (open, close, comma) = (self.sign("FIRST"), self.sign("LAST"), self.sign("COMMA"));
        if let Some(texts) = &array.distinct {
            return self.distinct(name, array, texts);
        }
        if let Some((item, wanted)) = array.contains.filter(|(_, wanted)| *wanted > 0) {
            let found = self.value(item);
            let (before, after) = if self.ends[array.items] {
                let any = self.value(array.items);
                (format!("({any} {comma})*"), format!("({comma} {any})*"))
            } else {
                (String::new(), String::new())
            };
            let each = vec![format!("{before} {found}"); wanted as usize];
            return self.rule(name, &format!("{open} {} {after} {close}", each.join(&format!(" {comma} "))));
        }
        let first: Vec<usize> = array.first.iter().copied().take_while(|id| self.ends[*id]).collect();
        let whole = first.len() == array.first.len();
        // Built from the end: what may follow the first `i` items.
        let limit = |count: u64| count.min(i32::MAX as u64);
        let most = array.most.map(limit);
        let left = most.map(|most| most.saturating_sub(first.len() as u64));
        let need = limit(array.least).saturating_sub(first.len() as u64);
        let mut tail = String::new();
        if whole && self.ends[array.items] && left != Some(0) {
            let item = self.value(array.items);
            let times = |least: u64, most: Option<u64>| match most {
                Some(most) => format!("{{{least},{most}}}"),
                None if least == 0 => "*".into(),
                None => format!("{{{least},}}"),
            };
            // After other items, each item is preceded by a comma.
            tail = if first.is_empty() {
                let more = match left {
                    Some(1) => String::new(),
                    _ => format!(
                        "({comma} {item}){}",
                        times(need.saturating_sub(1), left.map(|left| left - 1))
                    ),
                };
                let items = format!("{item} {more}");
                if need == 0 { format!("({items})?") } else { items }
            } else {
                format!("({comma} {item}){}", times(need, left))
            };
        }
        for (i, id) in first.iter().enumerate().rev() {
            if most.is_some_and(|most| i as u64 >= most) {
                tail = String::new();
                continue;
            }
            let item = self.value(*id);
            let comma = if i == 0 { "" } else { comma.as_str() };
            let rule = format!("{name}i{i}");
            self.rule(&rule, &format!("{comma} {item} {tail}"))?;
            tail = if i as u64 >= array.least { format!("({rule})?") } else { rule };
        }
        self.rule(name, &format!("{open} {tail} {close}"))
    }

    /// Arrays of distinct texts: one rule for each set of used texts.
    fn distinct(&mut self, name: &str, array: &Array, texts: &[String]) -> Result<(), String> {
        let (open, close, comma) = (self.sign("FIRST"), self.sign("LAST"), self.sign("COMMA"));
        let least = array.least as u32;
        let most = array.most.unwrap_or(u64::MAX).min(texts.len() as u64) as u32;
        if most == 0 {
            return self.rule(name, &format!("{open} {close}"));
        }
        let start = format!("{name}s0");
        let body =
            if least == 0 { format!("{open} ({start})? {close}") } else { format!("{open} {start} {close}") };
        self.rule(name, &body)?;
        for used in 0..1usize << texts.len() {
            let count = used.count_ones();
            if count >= most {
                continue;
            }
            let mut options = Vec::new();
            for (i, text) in texts.iter().enumerate().filter(|(i, _)| used >> i & 1 == 0) {
                let text = self.terminal(&Term::Text(text.clone()));
                let next = format!("{comma} {name}s{}", used | 1 << i);
                options.push(match (count + 1 >= most, count + 1 >= least) {
                    (true, _) => text,
                    (false, true) => format!("{text} ({next})?"),
                    (false, false) => format!("{text} {next}"),
                });
            }
            self.rule(&format!("{name}s{used}"), &options.join(" | "))?;
        }
        Ok(())
    }

    /// The rules of any JSON value.
    fn anything(&mut self) -> Result<(), String> {
        let name = format!("{}any", self.prefix);
        let scalar = Term::either(vec![
            Term::Text("null".into()),
            Term::Text("true".into()),
            Term::Text("false".into()),
            super::number::between(false, None, None, false),
            any_text(),
        ]);
        let scalar = self.terminal(&scalar);
        let key = self.key(&any_key());
        let [open, close, first, last, comma] =
            ["OPEN", "CLOSE", "FIRST", "LAST", "COMMA"].map(|name| self.sign(name));
        let object = format!("{open} ({key} {name} ({comma} {key} {name})*)? {close}");
        let array = format!("{first} ({name} ({comma} {name})*)? {last}");
        self.rule(&name, &format!("{scalar} | {object} | {array}"))
    }
}

/// Generates the rules of an object's fields.
struct Fields {
    fields: Vec<(String, usize, bool)>,
    others: Vec<(Term, usize)>,
    /// The least number of fields; 0 if they need not be counted.
    least: u64,
    most: Option<u64>,
    name: String,
    /// Names of the rules that were generated.
    rules: HashMap<(usize, u64, bool), String>,
    todo: Vec<(String, usize, u64, bool)>,
}

impl Fields {
    /// The counter's value: 0 if no bound needs counting, and capped at the bounds.
    fn counted(&self, count: u64) -> u64 {
        match self.most {
            None => count.min(self.least),
            Some(_) => count,
        }
    }

    fn required_from(&self, i: usize) -> u64 {
        self.fields[i..].iter().filter(|(_, _, required)| *required).count() as u64
    }

    /// Whether an object may end before field `i`, after `c` fields.
    fn may_end(&self, i: usize, c: u64) -> bool {
        self.required_from(i) == 0 && c >= self.least
    }

    /// Whether the object can end after at least one more field.
    fn possible(&self, i: usize, c: u64) -> bool {
        let left = (self.fields.len() - i) as u64;
        let room = self.most.is_none_or(|most| c + self.required_from(i).max(1) <= most);
        let enough = !self.others.is_empty() || c + left >= self.least;
        room && enough && (left > 0 || !self.others.is_empty())
    }

    fn rule(&mut self, i: usize, c: u64, rest: bool) -> String {
        if let Some(name) = self.rules.get(&(i, c, rest)) {
            return name.clone();
        }
        let name = format!("{}{}{i}c{c}", self.name, if rest { "r" } else { "q" });
        self.rules.insert((i, c, rest), name.clone());
        self.todo.push((name.clone(), i, c, rest));
        name
    }

    fn more(&mut self, i: usize, c: u64) -> Option<String> {
        self.possible(i, c).then(|| self.rule(i, c, false))
    }

    /// The rule for a field and the rest of the object.
    fn rest(&mut self, i: usize, c: u64) -> Option<String> {
        let c = self.counted(c);
        (self.may_end(i, c) || self.possible(i, c)).then(|| self.rule(i, c, true))
    }

    fn rest_body(&mut self, out: &Emitter<'_>, i: usize, c: u64) -> String {
        let comma = out.sign("COMMA");
        match (self.more(i, c), self.may_end(i, c)) {
            (Some(more), true) => format!("({comma} {more})?"),
            (Some(more), false) => format!("{comma} {more}"),
            (None, _) => String::new(),
        }
    }

    fn more_body(&mut self, out: &mut Emitter<'_>, i: usize, c: u64) -> String {
        let mut options = Vec::new();
        if let Some((key, value, required)) = self.fields.get(i).cloned() {
            if let Some(rest) = self.rest(i + 1, c + 1) {
                let key = out.key(&Term::Text(key));
                let value = out.value(value);
                options.push(format!("{key} {value} {rest}"));
            }
            if !required {
                options.extend(self.more(i + 1, c));
            }
        } else {
            let rest = self.rest(i, c + 1);
            for (key, value) in self.others.clone() {
                let key = out.key(&key);
                let value = out.value(value);
                options.extend(rest.as_ref().map(|rest| format!("{key} {value} {rest}")));
            }
        }
        options.join(" | ")
    }
}

/// The terminals `{`, `}`, `[`, `]`, `,` with the white space around them.
fn signs(space: &JsonSpacing) -> [String; 5] {
    match space {
        JsonSpacing::One => ["\"{\"", "\"}\"", "\"[\"", "\"]\"", "/, ?/"].map(str::to_owned),
        JsonSpacing::Compact => ["{", "}", "[", "]", ","].map(quoted),
        JsonSpacing::Pattern(space) => {
            let regex = |text: String| Term::Regex(text, false).lark();
            [
                regex(format!(r"\{{(?:{space})?")),
                regex(format!(r"(?:{space})?\}}")),
                regex(format!(r"\[(?:{space})?")),
                regex(format!(r"(?:{space})?\]")),
                regex(format!("(?:{space})?,(?:{space})?")),
            ]
        }
    }
}
