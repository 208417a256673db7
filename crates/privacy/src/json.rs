//! Bodies of requests: every string of their JSON is scanned and redacted, wherever it stands.

use crate::label::Label;
use crate::redaction::{DEPTH, RedactError, Redaction};
use crate::rules::{Finding, Rules, Scan};
use crate::verdicts::Verdicts;
use serde_json::Value;

/// Fields that upstreams made and want back unchanged: signatures, encrypted reasoning, ids.
const KEPT: [&str; 8] = [
    "signature",
    "encrypted_content",
    "thought_signature",
    "thoughtSignature",
    "tool_call_id",
    "call_id",
    "tool_use_id",
    "previous_response_id",
];

/// Fields that name a file which is elsewhere.
const ELSEWHERE: [&str; 4] = ["file_id", "fileUri", "file_uri", "file_url"];

/// Findings of a body that are listed; further ones count for the label.
const LISTED: usize = 10_000;

/// A finding in a body, and the string that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonFinding {
    /// The string's JSON pointer (RFC 6901); of the field, where the finding is in a field's name.
    pub pointer: String,
    /// The finding; its range is one of the string's bytes.
    pub finding: Finding,
}

/// What is in a request's body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonScan {
    /// The findings, at most 10,000.
    pub findings: Vec<JsonFinding>,
    /// The highest label of a finding.
    pub label: Label,
    /// Parts that rules cannot read: images, sound and files in base64, and files that are named. What may be in them is for
    /// the configuration to say.
    pub opaque: usize,
    /// Whether everything else was read. A body that was not is to be treated as [`Label::Secret`].
    pub complete: bool,
}

impl Rules {
    /// What is in a request's body: all strings, numbers and names of fields. With verdicts, strings that were scanned before are
    /// not scanned again.
    #[must_use]
    pub fn scan_json(&self, body: &Value, verdicts: Option<&Verdicts>) -> JsonScan {
        let mut walk = Walk {
            rules: self,
            verdicts,
            path: Vec::new(),
            scan: JsonScan { complete: true, ..Default::default() },
        };
        walk.value(None, body);
        walk.scan
    }
}

struct Walk<'a> {
    rules: &'a Rules,
    verdicts: Option<&'a Verdicts>,
    path: Vec<Step<'a>>,
    scan: JsonScan,
}

enum Step<'a> {
    Field(&'a str),
    Item(usize),
}

impl<'a> Walk<'a> {
    fn value(&mut self, key: Option<&str>, value: &'a Value) {
        if self.path.len() >= DEPTH {
            self.scan.complete = false;
            return;
        }
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => self.text(key, &number.to_string()),
            Value::String(text) => match read(key, text) {
                Read::Text => self.text(key, text),
                Read::Opaque => self.scan.opaque += 1,
                Read::Kept => {}
            },
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    self.path.push(Step::Item(at));
                    self.value(key, item);
                    self.path.pop();
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    self.path.push(Step::Field(name));
                    self.text(None, name);
                    self.value(Some(name), field);
                    self.path.pop();
                }
            }
        }
    }

    fn text(&mut self, key: Option<&str>, text: &str) {
        if text.len() < SHORTEST {
            return;
        }
        let hint = key.map_or(0, |key| self.rules.hint(key));
        let scan = match self.verdicts {
            Some(verdicts) => verdicts.scan(self.rules, text, hint),
            None => self.rules.scan_under(text, hint),
        };
        self.scan.complete &= scan.complete;
        self.scan.label = self.scan.label.max(self.rules.label(&scan.findings));
        let room = LISTED.saturating_sub(self.scan.findings.len());
        for finding in scan.findings.into_iter().take(room) {
            self.scan.findings.push(JsonFinding { pointer: self.pointer(), finding });
        }
    }

    fn pointer(&self) -> String {
        let step = |step: &Step| match step {
            Step::Field(name) => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
            Step::Item(at) => format!("/{at}"),
        };
        self.path.iter().map(step).collect()
    }
}

/// Bytes of the shortest string with a finding of a built-in kind: "a@b.cd"; own rules may find shorter ones.
const SHORTEST: usize = 2;

/// How a string is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    Text,
    Opaque,
    Kept,
}

fn read(key: Option<&str>, text: &str) -> Read {
    let key = key.unwrap_or("");
    if KEPT.contains(&key) {
        return Read::Kept;
    }
    let data_url = text.starts_with("data:") && text[..text.floor_char_boundary(128)].contains(";base64,");
    let image = matches!(key, "data" | "b64_json" | "file_data") && text.len() >= 64 && is_base64(text);
    if data_url || image || ELSEWHERE.contains(&key) { Read::Opaque } else { Read::Text }
}

fn is_base64(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_'))
}

impl Redaction {
    /// Replaces the findings in all strings of a request's body, except `model` at its top. A number with a finding becomes a
    /// string. Opaque parts stay: [`JsonScan::opaque`] counts them.
    ///
    /// # Errors
    ///
    /// [`RedactError`] where not every finding could be replaced. The body is then half done and must not be sent.
    pub fn redact_json(&mut self, body: &mut Value) -> Result<(), RedactError> {
        if let Value::Object(fields) = body {
            for (name, field) in fields.iter_mut().filter(|(name, _)| *name != "model") {
                self.name_is_clean(name)?;
                self.value(Some(name), field, 1)?;
            }
            return Ok(());
        }
        self.value(None, body, 0)
    }

    fn value(&mut self, key: Option<&str>, value: &mut Value, depth: usize) -> Result<(), RedactError> {
        if depth >= DEPTH {
            return Err(RedactError::Depth);
        }
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                let text = number.to_string();
                let redacted = self.under(key, &text)?;
                if redacted != text {
                    *value = Value::String(redacted);
                }
            }
            Value::String(text) => {
                if read(key, text) == Read::Text {
                    *text = self.under(key, text)?;
                }
            }
            Value::Array(items) => {
                for item in items {
                    self.value(key, item, depth + 1)?;
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields.iter_mut() {
                    self.name_is_clean(name)?;
                    self.value(Some(name), field, depth + 1)?;
                }
            }
        }
        Ok(())
    }

    fn under(&mut self, key: Option<&str>, text: &str) -> Result<String, RedactError> {
        let rules = self.rules();
        let Scan { findings, complete } = rules.scan_under(text, key.map_or(0, |key| rules.hint(key)));
        if !complete {
            return Err(RedactError::Findings);
        }
        self.redact_found(text, &findings)
    }

    fn name_is_clean(&self, name: &str) -> Result<(), RedactError> {
        if self.rules().find(name).is_empty() { Ok(()) } else { Err(RedactError::FieldName) }
    }

    /// Puts values back into all strings of an answer.
    pub fn restore_json(&self, answer: &mut Value) {
        if self.is_empty() {
            return;
        }
        match answer {
            Value::String(text) => *text = self.restore(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.restore_json(item)),
            Value::Object(fields) => fields.iter_mut().for_each(|(_, field)| self.restore_json(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}
