//! Regular sets of texts, for strings, numbers and keys.

use std::fmt::Write;

use llguidance::derivre::{RegexAst, RegexBuilder};

/// The work limit of an emptiness test, in the library's units (some microseconds each).
const FUEL: u64 = 20_000;

/// A regular set of texts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Term {
    /// This text.
    Text(String),
    /// The texts that a regular expression (Rust syntax) matches completely, and whether the empty text is among them.
    Regex(String, bool),
    Sequence(Vec<Term>),
    /// A union; without members, the empty set.
    Either(Vec<Term>),
    Both(Vec<Term>),
    Not(Box<Term>),
}

impl Term {
    pub(super) fn empty() -> Term {
        Term::Text(String::new())
    }

    pub(super) fn nothing() -> Term {
        Term::Either(Vec::new())
    }

    pub(super) fn regex(text: impl Into<String>) -> Term {
        Term::Regex(text.into(), false)
    }

    pub(super) fn not(self) -> Term {
        Term::Not(Box::new(self))
    }

    /// The concatenation with `next`.
    pub(super) fn then(self, next: Term) -> Term {
        match (self, next) {
            (Term::Either(none), _) | (_, Term::Either(none)) if none.is_empty() => Term::nothing(),
            (Term::Text(text), next) if text.is_empty() => next,
            (first, Term::Text(text)) if text.is_empty() => first,
            (first, Term::Sequence(mut rest)) => {
                rest.insert(0, first);
                Term::Sequence(rest)
            }
            (first, next) => Term::Sequence(vec![first, next]),
        }
    }

    pub(super) fn either(options: Vec<Term>) -> Term {
        let mut all = Vec::new();
        for option in options {
            match option {
                Term::Either(inner) => all.extend(inner),
                other => all.push(other),
            }
        }
        if all.len() == 1 { all.remove(0) } else { Term::Either(all) }
    }

    pub(super) fn both(terms: Vec<Term>) -> Term {
        let mut all = Vec::new();
        for term in terms {
            match term {
                Term::Both(inner) => all.extend(inner),
                Term::Either(none) if none.is_empty() => return Term::nothing(),
                other => all.push(other),
            }
        }
        if all.len() == 1 { all.remove(0) } else { Term::Both(all) }
    }

    /// Whether the empty text is in the set.
    pub(super) fn nullable(&self) -> bool {
        match self {
            Term::Text(text) => text.is_empty(),
            Term::Regex(_, nullable) => *nullable,
            Term::Sequence(terms) | Term::Both(terms) => terms.iter().all(Term::nullable),
            Term::Either(terms) => terms.iter().any(Term::nullable),
            Term::Not(term) => !term.nullable(),
        }
    }

    /// The number of parts of this term.
    pub(super) fn size(&self) -> usize {
        match self {
            Term::Text(_) | Term::Regex(..) => 1,
            Term::Sequence(terms) | Term::Both(terms) | Term::Either(terms) => {
                1 + terms.iter().map(Term::size).sum::<usize>()
            }
            Term::Not(term) => 1 + term.size(),
        }
    }

    /// The set as a Lark terminal. The empty set cannot be written; callers skip it.
    pub(super) fn lark(&self) -> String {
        let list = |terms: &[Term], between: &str| {
            let parts: Vec<String> = terms.iter().map(Term::lark).collect();
            format!("({})", parts.join(between))
        };
        match self {
            Term::Text(text) => quoted(text),
            Term::Regex(text, _) => format!("/{}/", slashes(text)),
            Term::Sequence(terms) => list(terms, " "),
            Term::Either(terms) if terms.is_empty() => "(\"a\" & \"b\")".into(),
            Term::Either(terms) => list(terms, " | "),
            Term::Both(terms) => list(terms, " & "),
            Term::Not(term) => format!("~({})", term.lark()),
        }
    }

    fn ast(&self) -> RegexAst {
        let all = |terms: &[Term]| terms.iter().map(Term::ast).collect();
        match self {
            Term::Text(text) => RegexAst::Literal(text.clone()),
            Term::Regex(text, _) => RegexAst::Regex(text.clone()),
            Term::Sequence(terms) => RegexAst::Concat(all(terms)),
            Term::Either(terms) if terms.is_empty() => RegexAst::NoMatch,
            Term::Either(terms) => RegexAst::Or(all(terms)),
            Term::Both(terms) => RegexAst::And(all(terms)),
            Term::Not(term) => RegexAst::Not(Box::new(term.ast())),
        }
    }

    /// Whether the set is empty.
    ///
    /// # Errors
    /// The library's message for an expression, or that the test takes too much work.
    pub(super) fn is_empty(&self) -> Result<bool, String> {
        match self {
            Term::Text(_) | Term::Regex(..) => return Ok(false),
            Term::Either(terms) if terms.is_empty() => return Ok(true),
            _ => {}
        }
        let mut builder = RegexBuilder::new();
        let expression = builder.mk(&self.ast()).map_err(|e| e.to_string())?;
        if builder.exprset().is_positive(expression) {
            return Ok(false);
        }
        match builder.to_regex_limited(expression, FUEL) {
            Ok(mut regex) => Ok(regex.always_empty()),
            Err(_) => Err("its patterns together are too complex".into()),
        }
    }

    /// Whether `text` is in the set.
    pub(super) fn has(&self, text: &str) -> Result<bool, String> {
        let mut builder = RegexBuilder::new();
        let expression = builder.mk(&self.ast()).map_err(|e| e.to_string())?;
        let mut regex = builder.to_regex(expression);
        Ok(regex.is_match(text))
    }
}

/// A text as a Lark literal: JSON's escaping, and DEL escaped too.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// A regular expression between slashes.
fn slashes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut escaped = false;
    for c in text.chars() {
        match c {
            '/' if !escaped => out.push_str("\\/"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\0'..' ' => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            _ => out.push(c),
        }
        escaped = c == '\\' && !escaped;
    }
    out
}
