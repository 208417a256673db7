//! Redaction of a request: findings become placeholders, which the answer's restoring turns back.

use crate::kind::Kind;
use crate::placeholder::{Dictionary, End, Look, Next, next};
use crate::restore::{Escape, Restorer, Table};
use crate::rules::{Finding, Rules};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Levels of JSON's nesting that are read.
pub(crate) const DEPTH: usize = 128;

/// Values of one request.
const VALUES: usize = 4_096;

/// The name of placeholders for text that looks like one.
const LITERAL: &str = "LITERAL";

/// Why a text was not redacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedactError {
    /// More findings in one text than the rules keep.
    #[error("a text has more findings than `max_findings`: it cannot be redacted whole")]
    Findings,
    /// More values in a request than are kept.
    #[error("the request has more than {VALUES} values to redact")]
    Values,
    /// A finding in the name of a JSON object's field.
    #[error("a finding is in the name of a field, which cannot be redacted")]
    FieldName,
    /// JSON deeper than it is read.
    #[error("the request's JSON is nested deeper than {} levels", DEPTH)]
    Depth,
}

/// The placeholders of one request and the values that they stand for.
///
/// The same value gets the same placeholder in all texts of the request. Text that already looks like a placeholder gets one
/// itself, so restoring gives back every text as it was.
///
/// # Examples
///
/// ```
/// use privacy::{Redaction, Rules};
/// let mut redaction = Redaction::new(std::sync::Arc::new(Rules::default()));
/// let sent = redaction.redact("Write to bob@example.com about <EMAIL_1>.").unwrap();
/// assert_eq!(sent, "Write to <EMAIL_1> about <LITERAL_1>.");
/// assert_eq!(redaction.restore("Dear <EMAIL_1>,"), "Dear bob@example.com,");
/// ```
pub struct Redaction {
    rules: Arc<Rules>,
    names: Names,
    values: Vec<(String, String)>,
    /// Indices of `values`, by kind (none for literals) and value.
    known: HashMap<(Option<Kind>, String), usize>,
    counts: HashMap<Option<Kind>, usize>,
}

impl fmt::Debug for Redaction {
    /// The placeholders' names; never the values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redaction").field("values", &self.values.len()).finish_non_exhaustive()
    }
}

impl Redaction {
    /// What a system prompt may say of placeholders, so that models keep them as they are.
    pub const NOTE: &'static str = "Words in angle brackets such as <EMAIL_1> stand for values that were left out. \
        Repeat them exactly as they are where the value is meant.";

    /// A request without placeholders yet.
    #[must_use]
    pub fn new(rules: Arc<Rules>) -> Self {
        let names = Names::of(&rules);
        Redaction { rules, names, values: Vec::new(), known: HashMap::new(), counts: HashMap::new() }
    }

    /// How many values were replaced.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether nothing was replaced, so that answers need no restoring.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// A text with placeholders in place of its findings.
    ///
    /// # Errors
    ///
    /// [`RedactError`] where not every finding could be replaced. The request must then not be sent.
    pub fn redact(&mut self, text: &str) -> Result<String, RedactError> {
        let scan = self.rules.scan(text);
        if !scan.complete {
            return Err(RedactError::Findings);
        }
        self.redact_found(text, &scan.findings)
    }

    /// A text with placeholders in place of findings that are known, in the order of the text and without overlaps.
    ///
    /// # Errors
    ///
    /// [`RedactError::Values`].
    pub fn redact_found(&mut self, text: &str, findings: &[Finding]) -> Result<String, RedactError> {
        let mut out = String::with_capacity(text.len() + 16 * findings.len());
        let mut at = 0;
        for finding in findings {
            self.literals(&text[at..finding.range.start], &mut out)?;
            let name = self.name_for(Some(finding.kind), &text[finding.range.clone()])?;
            out.extend(["<", name, ">"]);
            at = finding.range.end;
        }
        self.literals(&text[at..], &mut out)?;
        Ok(out)
    }

    /// Copies a text, with placeholders in place of what looks like one.
    fn literals(&mut self, text: &str, out: &mut String) -> Result<(), RedactError> {
        let (mut rest, mut before) = (text, 0);
        while let Next::Found(at, length, _) = next(rest.as_bytes(), before, End::Final, &self.names) {
            out.push_str(&rest[..at]);
            let name = self.name_for(None, &rest[at..at + length])?;
            out.extend(["<", name, ">"]);
            (rest, before) = (&rest[at + length..], b'>');
        }
        out.push_str(rest);
        Ok(())
    }

    fn name_for(&mut self, kind: Option<Kind>, value: &str) -> Result<&str, RedactError> {
        let key = (kind, value.to_owned());
        if let Some(&at) = self.known.get(&key) {
            return Ok(&self.values[at].0);
        }
        if self.values.len() == VALUES {
            return Err(RedactError::Values);
        }
        let count = self.counts.entry(kind).or_insert(0);
        *count += 1;
        let name = kind.map_or(LITERAL, |kind| self.rules.name(kind)).to_ascii_uppercase();
        let at = self.values.len();
        self.values.push((format!("{name}_{count}"), value.to_owned()));
        self.known.insert(key, at);
        Ok(&self.values[at].0)
    }

    /// A whole answer with its values. What is restored, and what is not: see [`Restorer`].
    #[must_use]
    pub fn restore(&self, text: &str) -> String {
        let mut restorer = self.restorer(Escape::None);
        let mut out = restorer.push(text);
        out.push_str(&restorer.finish());
        out
    }

    /// What restores a stream. Texts that are redacted later are unknown to it.
    #[must_use]
    pub fn restorer(&self, escape: Escape) -> Restorer {
        Restorer::new(Arc::new(Table::new(&self.values)), escape)
    }

    pub(crate) fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }
}

/// Every name that a placeholder of the rules can have.
struct Names {
    names: Vec<String>,
    longest: usize,
}

impl Names {
    fn of(rules: &Rules) -> Self {
        let mut names: Vec<String> = rules.names().map(str::to_ascii_uppercase).collect();
        names.push(LITERAL.to_owned());
        let longest = names.iter().map(String::len).max().unwrap_or(0) + 1 + COUNT;
        Names { names, longest }
    }
}

/// Digits of a placeholder's number: those of [`VALUES`].
const COUNT: usize = 4;

impl Dictionary for Names {
    fn look(&self, name: &[u8]) -> Look {
        let Some(at) = name.iter().rposition(|byte| *byte == b'_') else { return Look::Prefix };
        let number = &name[at + 1..];
        let numbered = !number.is_empty()
            && number[0] != b'0'
            && number.len() <= COUNT
            && number.iter().all(u8::is_ascii_digit);
        let known = self.names.iter().any(|known| known.as_bytes() == &name[..at]);
        if numbered && known { Look::Whole } else { Look::Prefix }
    }

    fn longest(&self) -> usize {
        self.longest
    }
}
