//! Translates a regular expression to a regular set of texts; lookahead becomes intersection.

use std::fmt::Write;

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

use super::pattern::{self, Dialect, Part};
use super::term::Term;

/// The most parts of the resulting set: each lookahead duplicates what follows it.
const MOST_PARTS: usize = 4_000;
/// The most repetitions that are unrolled if the repeated part has lookaround.
const WRITTEN_OUT: u32 = 4;

/// The set of texts that an expression matches, and the assertions that were dropped.
#[derive(Debug, Clone)]
pub(super) struct Language {
    /// The set, without quotation marks; with JSON escapes for [`Script::Json`].
    pub(super) term: Term,
    /// Assertions that are not enforced, so that the set has more texts than the expression matches.
    pub(super) dropped: Vec<String>,
}

/// How characters are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Script {
    Plain,
    /// As in a JSON string, with one canonical escape for each character.
    Json,
}

/// The texts in which a schema's `pattern` has a match.
///
/// # Errors
/// What is wrong with the expression.
pub(super) fn search(text: &str, script: Script) -> Result<Language, String> {
    build(&pattern::read(text, Dialect::Schema)?, script, true)
}

/// The texts that an expression matches completely.
///
/// # Errors
/// What is wrong with the expression.
pub(super) fn whole(text: &str, dialect: Dialect, script: Script) -> Result<Language, String> {
    build(&pattern::read(text, dialect)?, script, false)
}

/// Any text.
pub(super) fn anything(script: Script) -> Term {
    Term::Regex(format!("{}*", any_one(script)), true)
}

/// All texts with a number of characters in a range.
pub(super) fn length(least: u64, most: Option<u64>, script: Script) -> Term {
    let most = most.map_or_else(String::new, |most| most.to_string());
    Term::Regex(format!("{}{{{least},{most}}}", any_one(script)), least == 0)
}

fn any_one(script: Script) -> String {
    let mut all = ClassUnicode::empty();
    all.negate();
    set(&all, script)
}

fn build(part: &Part, script: Script, search: bool) -> Result<Language, String> {
    let mut builder = Builder { script, dropped: Vec::new() };
    let tail = if search { anything(script) } else { Term::empty() };
    let mut options = vec![builder.after(part, tail.clone(), true)?];
    if search && may_start_late(part) {
        let mut late = Builder { script, dropped: Vec::new() };
        let found = late.after(part, tail, false)?;
        let before = Term::Regex(format!("{}+", any_one(script)), false);
        options.push(before.then(found));
    }
    options.retain(|option| *option != Term::nothing());
    let term = Term::either(options);
    if term.size() > MOST_PARTS {
        return Err("it looks ahead in too many places".into());
    }
    Ok(Language { term, dropped: builder.dropped })
}

/// Whether the expression could match after the start of a text.
fn may_start_late(part: &Part) -> bool {
    match part {
        Part::Start => false,
        Part::Sequence(parts) => {
            for part in parts {
                if !may_start_late(part) {
                    return false;
                }
                if !part.takes_nothing() {
                    return true;
                }
            }
            true
        }
        Part::Either(parts) => parts.iter().any(may_start_late),
        _ => true,
    }
}

struct Builder {
    script: Script,
    dropped: Vec<String>,
}

impl Builder {
    /// The texts of `part` followed by one of `rest`. `start`: whether it is at the start of the text.
    fn after(&mut self, part: &Part, rest: Term, start: bool) -> Result<Term, String> {
        if rest.size() > MOST_PARTS {
            return Err("it looks ahead in too many places".into());
        }
        if !part.looks() {
            return Ok(Term::Regex(plain(part, self.script), part.nullable()).then(rest));
        }
        match part {
            Part::Start => Ok(if start { rest } else { Term::nothing() }),
            Part::End => Ok(if rest.nullable() { Term::empty() } else { Term::nothing() }),
            Part::Ahead { negative, inner, text } => self.ahead(*negative, inner, text, rest, start),
            Part::Beyond(text) => {
                self.drop(text);
                // A back reference consumes text, an assertion does not.
                let taken = if part.takes_nothing() { Term::empty() } else { anything(self.script) };
                Ok(taken.then(rest))
            }
            Part::Sequence(parts) => self.sequence(parts, rest, start),
            Part::Either(parts) => {
                let options: Result<Vec<Term>, String> =
                    parts.iter().map(|part| self.after(part, rest.clone(), start)).collect();
                Ok(Term::either(options?.into_iter().filter(|term| *term != Term::nothing()).collect()))
            }
            Part::Repeat(inner, least, most) => self.repeat(inner, *least, *most, rest, start),
            Part::Nothing | Part::Set(_) => Ok(rest),
        }
    }

    fn sequence(&mut self, parts: &[Part], mut rest: Term, start: bool) -> Result<Term, String> {
        // Whether each part is at the start of the text.
        let mut starts = Vec::with_capacity(parts.len());
        let mut at_start = start;
        for part in parts {
            starts.push(at_start);
            at_start &= part.takes_nothing();
        }
        for (part, start) in parts.iter().zip(starts).rev() {
            rest = self.after(part, rest, start)?;
        }
        Ok(rest)
    }

    fn ahead(
        &mut self,
        negative: bool,
        inner: &Part,
        text: &str,
        rest: Term,
        start: bool,
    ) -> Result<Term, String> {
        let mut looking = Builder { script: self.script, dropped: Vec::new() };
        let found = looking.after(inner, anything(self.script), start)?;
        if negative && !looking.dropped.is_empty() {
            // `found` has more texts than the lookahead matches, so its complement would forbid too much.
            self.drop(text);
            return Ok(rest);
        }
        self.dropped.extend(looking.dropped);
        Ok(Term::both(vec![rest, if negative { found.not() } else { found }]))
    }

    fn repeat(
        &mut self,
        inner: &Part,
        least: u32,
        most: Option<u32>,
        rest: Term,
        start: bool,
    ) -> Result<Term, String> {
        if let Some(most) = most.filter(|most| *most <= WRITTEN_OUT) {
            let mut options = Vec::new();
            for times in least..=most {
                let parts = vec![inner.clone(); times as usize];
                options.push(self.sequence(&parts, rest.clone(), start)?);
            }
            return Ok(Term::either(options));
        }
        self.drop_within(inner);
        let inner = without(inner);
        let part = Part::Repeat(Box::new(inner), least, most);
        Ok(Term::Regex(plain(&part, self.script), part.nullable()).then(rest))
    }

    fn drop(&mut self, text: &str) {
        let text: String = text.chars().take(60).collect();
        if !self.dropped.contains(&text) {
            self.dropped.push(text);
        }
    }

    fn drop_within(&mut self, part: &Part) {
        match part {
            Part::Start => self.drop("^"),
            Part::End => self.drop("$"),
            Part::Ahead { text, .. } | Part::Beyond(text) => self.drop(text),
            Part::Sequence(parts) | Part::Either(parts) => {
                parts.iter().for_each(|part| self.drop_within(part))
            }
            Part::Repeat(part, ..) => self.drop_within(part),
            Part::Nothing | Part::Set(_) => {}
        }
    }
}

/// A part without lookaround.
fn without(part: &Part) -> Part {
    match part {
        Part::Nothing | Part::Set(_) => part.clone(),
        Part::Beyond(_) if !part.takes_nothing() => {
            let mut all = ClassUnicode::empty();
            all.negate();
            Part::Repeat(Box::new(Part::Set(all)), 0, None)
        }
        Part::Start | Part::End | Part::Ahead { .. } | Part::Beyond(_) => Part::Nothing,
        Part::Sequence(parts) => Part::Sequence(parts.iter().map(without).collect()),
        Part::Either(parts) => Part::Either(parts.iter().map(without).collect()),
        Part::Repeat(part, least, most) => Part::Repeat(Box::new(without(part)), *least, *most),
    }
}

/// A part without lookaround, in the syntax of Rust's regex crate.
fn plain(part: &Part, script: Script) -> String {
    match part {
        Part::Set(ranges) => set(ranges, script),
        Part::Sequence(parts) => parts.iter().map(|part| plain(part, script)).collect(),
        Part::Either(parts) => {
            let options: Vec<String> = parts.iter().map(|part| plain(part, script)).collect();
            format!("(?:{})", options.join("|"))
        }
        Part::Repeat(part, least, most) => {
            let inner = plain(part, script);
            let inner = if inner.is_empty() { "(?:)".to_owned() } else { format!("(?:{inner})") };
            match (least, most) {
                (0, None) => format!("{inner}*"),
                (1, None) => format!("{inner}+"),
                (0, Some(1)) => format!("{inner}?"),
                (least, None) => format!("{inner}{{{least},}}"),
                (least, Some(most)) => format!("{inner}{{{least},{most}}}"),
            }
        }
        _ => String::new(),
    }
}

/// A character set in the given encoding, as a group, so that it can be repeated.
fn set(ranges: &ClassUnicode, script: Script) -> String {
    if script == Script::Plain {
        return if ranges.ranges().is_empty() { r"[^\x00-\x{10FFFF}]".into() } else { brackets(ranges) };
    }
    let mut special = ClassUnicode::new([
        ClassUnicodeRange::new('\0', '\u{1f}'),
        ClassUnicodeRange::new('"', '"'),
        ClassUnicodeRange::new('\\', '\\'),
    ]);
    let mut simple = ranges.clone();
    simple.difference(&special);
    special.intersect(ranges);
    let mut options: Vec<String> = Vec::new();
    if !simple.ranges().is_empty() {
        options.push(brackets(&simple));
    }
    for c in special.ranges().iter().flat_map(|range| range.start()..=range.end()) {
        options.push(escape(c));
    }
    match options.len() {
        0 => r"[^\x00-\x{10FFFF}]".into(),
        1 if !simple.ranges().is_empty() => options.remove(0),
        _ => format!("(?:{})", options.join("|")),
    }
}

/// The JSON escape of a character, as an expression.
fn escape(c: char) -> String {
    match c {
        '"' => r#"\\""#.into(),
        '\\' => r"\\\\".into(),
        '\n' => r"\\n".into(),
        '\r' => r"\\r".into(),
        '\t' => r"\\t".into(),
        '\u{8}' => r"\\b".into(),
        '\u{c}' => r"\\f".into(),
        c => format!(r"\\u{:04x}", c as u32),
    }
}

fn brackets(ranges: &ClassUnicode) -> String {
    let mut out = String::from("[");
    for range in ranges.ranges() {
        let _ = write!(out, r"\x{{{:x}}}", range.start() as u32);
        if range.start() != range.end() {
            let _ = write!(out, r"-\x{{{:x}}}", range.end() as u32);
        }
    }
    out.push(']');
    out
}
