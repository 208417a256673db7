//! Numbers and strings of JSON schemas.

use serde_json::Value;

use super::build::{Builder, brief};
use super::formats::{self, Format};
use super::language::{self, Script};
use super::negate::{FRACTION, NOT_PATTERN};
use super::number::{self, Bound, Decimal};
use super::pattern::Dialect;
use super::rules::{Rules, Scalar, counts, never, scalar};
use super::source::EXACT;
use super::strings::{any_text, in_quotes};
use super::term::Term;

fn decimal(builder: &Builder, id: usize, key: &str, value: &Value) -> Result<Decimal, String> {
    match scalar(value)? {
        Some(Scalar::Number(_, value)) => Ok(value),
        _ => Err(builder.wrong(id, key, value, "a number")),
    }
}

/// A bound, and its text in the schema, for messages.
type StatedBound = Option<(Bound, String)>;

pub(super) fn numbers(
    builder: &Builder,
    rules: &[(usize, Rules)],
    whole: bool,
    excluded: &[Scalar],
) -> Result<Term, String> {
    let (mut least, mut most): (StatedBound, StatedBound) = (None, None);
    let mut terms = Vec::new();
    for (id, rules) in rules {
        let outside = |name: &str| rules.get(name).and_then(Value::as_bool) == Some(true);
        for (key, lower) in
            [("minimum", true), ("exclusiveMinimum", true), ("maximum", false), ("exclusiveMaximum", false)]
        {
            let Some(value) = rules.get(key).filter(|value| !(value.is_boolean() && key.starts_with('e')))
            else {
                continue;
            };
            let beyond = key.starts_with('e')
                || (key == "minimum" && outside("exclusiveMinimum"))
                || (key == "maximum" && outside("exclusiveMaximum"));
            let bound = Bound { value: decimal(builder, *id, key, value)?, beyond };
            let told = format!("{key} {}", brief(value).replace(EXACT, ""));
            let slot = if lower { &mut least } else { &mut most };
            let tighter = slot.as_ref().is_none_or(|(old, _)| {
                let order = bound.value.cmp(&old.value);
                (if lower { order.is_gt() } else { order.is_lt() }) || (order.is_eq() && beyond)
            });
            if tighter {
                *slot = Some((bound, told));
            }
        }
        if let Some(value) = rules.get("multipleOf") {
            let step = decimal(builder, *id, "multipleOf", value)?;
            if step.is_zero() || step.is_negative() {
                return Err(builder.wrong(*id, "multipleOf", value, "a number above 0"));
            }
            terms.push(multiples(builder, *id, &step)?);
        }
        if rules.contains_key(FRACTION) {
            terms.push(Term::regex(r"-?[0-9]+\.[0-9]*[1-9][0-9]*"));
        }
    }
    if let (Some((low, low_told)), Some((high, high_told))) = (&least, &most)
        && (low.value > high.value || (low.value == high.value && (low.beyond || high.beyond)))
    {
        let at = builder.source.at(rules[0].0);
        return never(format!("no number at {at} is within {low_told} and {high_told}"));
    }
    let exact = !terms.is_empty() || excluded.iter().any(|value| matches!(value, Scalar::Number(..)));
    let (low, high) = (least.as_ref().map(|(b, _)| b), most.as_ref().map(|(b, _)| b));
    terms.insert(0, number::between(whole, low, high, exact));
    for value in excluded {
        if let Scalar::Number(_, value) = value {
            // Without an exponent, because `between` would allow one.
            terms.push(Term::regex(r"-?[0-9]+(?:\.[0-9]+)?"));
            terms.push(number::equal(value).not());
        }
    }
    let bounded = terms.len() > 1 || least.is_some() || most.is_some();
    let term = Term::both(terms);
    if bounded && builder.empty(&term)? {
        let what = if whole { "integer" } else { "number" };
        return never(format!("no {what} meets the bounds at {}", builder.source.at(rules[0].0)));
    }
    Ok(term)
}

/// The multiples of a step: decided by the last digits, or by an automaton over remainders.
fn multiples(builder: &Builder, id: usize, step: &Decimal) -> Result<Term, String> {
    if let Some(term) = number::multiple(step) {
        return Ok(term);
    }
    number::remainders(step).ok_or_else(|| {
        let at = builder.source.at(id);
        format!("multipleOf {step} at {at} cannot be held: small whole numbers can, and those whose multiples their last 4 digits tell")
    })
}

/// The strings that satisfy all assertions, with quotation marks.
pub(super) fn texts(
    builder: &mut Builder,
    rules: &[(usize, Rules)],
    excluded: &[Scalar],
) -> Result<Term, String> {
    let (least, most) = counts(builder, rules, "minLength", "maxLength")?;
    let at = builder.source.at(rules[0].0);
    if most.is_some_and(|most| most < least) {
        return never(format!(
            "no string at {at} has minLength {least} and maxLength {}",
            most.unwrap_or_default()
        ));
    }
    let mut terms = Vec::new();
    let mut formats = Vec::new();
    for (id, rules) in rules {
        if let Some(value) = rules.get("pattern") {
            let pattern = value.as_str().ok_or_else(|| builder.wrong(*id, "pattern", value, "a text"))?;
            terms.push(searched(builder, *id, "pattern", pattern)?);
        }
        if let Some(pattern) = rules.get(NOT_PATTERN).and_then(Value::as_str) {
            let at = builder.source.at(*id);
            let found = language::search(pattern, Script::Json)
                .map_err(|why| format!("pattern {pattern:?} at {at}: {why}"))?;
            if !found.dropped.is_empty() {
                return Err(format!(
                    "not at {at}: pattern {pattern:?} cannot be held, {} has no form here",
                    found.dropped[0]
                ));
            }
            terms.push(found.term.not());
        }
        if let Some(value) = rules.get("format") {
            let name = value.as_str().ok_or_else(|| builder.wrong(*id, "format", value, "a text"))?;
            match formats::look_up(name) {
                Format::Held(regex) => {
                    let held = language::whole(&regex, Dialect::Schema, Script::Json)?;
                    formats.push((name.to_owned(), held.term));
                }
                Format::Standard => builder
                    .warn(format!("format {name:?} at {} is taken as an annotation", builder.source.at(*id))),
                Format::Annotation => {}
            }
        }
    }
    for value in excluded {
        if let Scalar::Text(text) = value {
            let written = Value::from(text.as_str()).to_string();
            terms.push(Term::Text(written[1..written.len() - 1].to_owned()).not());
        }
    }
    if terms.is_empty() && formats.is_empty() && least == 0 && most.is_none() {
        return Ok(any_text());
    }
    if least > 0 || most.is_some() || terms.iter().any(|term| matches!(term, Term::Not(_))) {
        let limit = u64::from(u32::MAX) - 1;
        if least > limit {
            return Err(format!("minLength {least} at {at} is past {limit}"));
        }
        terms.push(language::length(least, most.filter(|most| *most < limit), Script::Json));
    }
    let none = format!("no string at {at} meets its pattern, its format and its length");
    let without = terms.clone();
    terms.extend(formats.iter().map(|(_, term)| term.clone()));
    let term = Term::both(terms);
    match builder.empty(&term) {
        Ok(true) => never(none),
        Ok(false) => Ok(in_quotes(term)),
        Err(problem) if formats.is_empty() || without.is_empty() => {
            Err(format!("the string at {at} cannot be held: {problem}"))
        }
        Err(_) => {
            builder.warn(format!(
                "format {:?} at {at} is taken as an annotation: with the pattern beside it it is too complex",
                formats[0].0
            ));
            let term = Term::both(without);
            match builder.empty(&term) {
                Ok(true) => never(none),
                Ok(false) => Ok(in_quotes(term)),
                Err(problem) => Err(format!("the string at {at} cannot be held: {problem}")),
            }
        }
    }
}

/// The contents of strings in which a pattern has a match.
pub(super) fn searched(builder: &mut Builder, id: usize, key: &str, pattern: &str) -> Result<Term, String> {
    let at = builder.source.at(id);
    let found = language::search(pattern, Script::Json).map_err(|why| {
        format!("{key} {:?} at {at} is no regular expression that can be held: {why}", shortened(pattern))
    })?;
    for dropped in &found.dropped {
        builder.warn(format!("{key} at {at} is held to without {dropped}, which has no form here"));
    }
    Ok(found.term)
}

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}
