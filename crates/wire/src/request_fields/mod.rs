//! What becomes of each field of a request: one table for this server's own names and for those of vLLM, llama.cpp,
//! Ollama, text-generation-inference, OpenAI and Anthropic.
//!
//! An option that changes the answer is honoured, or refused with a 400; it is never dropped. What changes no answer is
//! ignored, and a wish that is left out is told in a warning. `docs/request-fields.md` is made from the table, and
//! `tests/request_fields.rs` holds the parsers to it.

mod encoders;
mod kinds;
mod table;

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::error::{Fault, quote};
use crate::fields::{Fields, show};
pub use kinds::{Decision, Group, Route};

/// The table.
pub fn groups() -> impl Iterator<Item = &'static Group> {
    table::GROUPS.iter().chain(encoders::GROUPS).copied().flatten()
}

static BY_NAME: LazyLock<HashMap<(Route, &'static str), &'static Group>> = LazyLock::new(|| {
    let entries = |group: &'static Group| {
        group.routes.iter().flat_map(move |route| group.names().map(move |name| ((*route, name), group)))
    };
    groups().flat_map(entries).collect()
});

/// Fields that mean the same in every endpoint that generates: how tokens are chosen, and what an answer must be like.
pub(crate) fn shared() -> impl Iterator<Item = &'static str> {
    table::SAMPLING.split_whitespace().chain(table::FORMS.split_whitespace())
}

/// What becomes of a field of this name in this place; none if the table does not have it.
pub fn decision(route: Route, name: &str) -> Option<&'static Group> {
    let key = table_name(name)?;
    BY_NAME.get(&(route, key)).copied()
}

/// The table's own copy of a name that some place has.
fn table_name(name: &str) -> Option<&'static str> {
    static NAMES: LazyLock<HashMap<&'static str, Vec<Route>>> = LazyLock::new(names_with_routes);
    NAMES.get_key_value(name).map(|(name, _)| *name)
}

fn names_with_routes() -> HashMap<&'static str, Vec<Route>> {
    let mut names: HashMap<&'static str, Vec<Route>> = HashMap::new();
    for group in groups() {
        group.names().for_each(|name| names.entry(name).or_default().extend(group.routes));
    }
    names
}

/// Most unknown names that are compared with known ones.
const COMPARED: usize = 32;
/// Bytes of the longest name that is compared.
const COMPARED_BYTES: usize = 40;

/// Refuses what is refused, and tells what is left out or likely misspelled.
///
/// # Errors
/// When a field asks for what is not built here, or belongs to another endpoint.
pub(crate) fn check(body: &Fields<'_>, route: Route) -> Result<Vec<String>, Fault> {
    let mut warnings = Vec::new();
    let mut compared = 0;
    for (name, value) in body.entries().filter(|(_, value)| !value.is_null()) {
        match decision(route, name) {
            Some(group) => decide(body, group, name, value, &mut warnings)?,
            None if route.generates() && elsewhere(name).is_some() && !asks_for_nothing(name, value) => {
                return Err(misplaced(body, route, name));
            }
            None if elsewhere(name).is_some() => {}
            None if compared < COMPARED && name.len() <= COMPARED_BYTES => {
                compared += 1;
                if let Some(meant) = meant(route, name) {
                    let name = quote(name);
                    warnings.push(format!("the field {name} is not known and is ignored; is {meant} meant?"));
                }
            }
            None => {}
        }
    }
    Ok(warnings)
}

fn decide(
    body: &Fields<'_>,
    group: &Group,
    name: &str,
    value: &Value,
    warnings: &mut Vec<String>,
) -> Result<(), Fault> {
    let param = body.param(name);
    match group.decision {
        Decision::Honoured | Decision::Ignored => Ok(()),
        Decision::Refused(off) | Decision::LeftOut(off) if off(value) => Ok(()),
        Decision::Refused(_) => {
            let message = format!("{param} is {}: {}", show(value), group.reason);
            Err(Fault::unsupported(param, message))
        }
        Decision::LeftOut(_) => {
            warnings.push(format!("{param} is left out: {}", group.reason));
            Ok(())
        }
    }
}

/// A place where a field of this name is honoured or refused.
fn elsewhere(name: &str) -> Option<Route> {
    let known = |route: &Route| {
        decision(*route, name)
            .is_some_and(|group| matches!(group.decision, Decision::Honoured | Decision::Refused(_)))
    };
    Route::ALL.into_iter().filter(|route| route.generates()).find(known)
}

/// Whether a field that belongs elsewhere asks for nothing.
fn asks_for_nothing(name: &str, value: &Value) -> bool {
    let off = Route::ALL.into_iter().find_map(|route| match decision(route, name)?.decision {
        Decision::Refused(off) | Decision::LeftOut(off) => Some(off),
        Decision::Honoured | Decision::Ignored => None,
    });
    table::nothing(value) || off.is_some_and(|off| off(value)) || (name == "n" && *value == 1)
}

fn misplaced(body: &Fields<'_>, route: Route, name: &str) -> Fault {
    let param = body.param(name);
    let at = |route: &Route| {
        decision(*route, name).is_some_and(|group| matches!(group.decision, Decision::Honoured))
    };
    let place = Route::ALL.into_iter().find(at);
    let message = match place {
        Some(place) => {
            format!("{param} is no field of {}; it is one of {}", route.path(), place.path())
        }
        None => {
            let reason = elsewhere(name).and_then(|route| decision(route, name)).map_or("", |g| g.reason);
            format!("{param} is no field of {}: {reason}", route.path())
        }
    };
    Fault::unsupported(param, message)
}

/// The field that is honoured in this place and one letter away from `name`.
fn meant(route: Route, name: &str) -> Option<&'static str> {
    // Short names are close to too many others.
    if name.chars().count() < 4 {
        return None;
    }
    let honoured = groups()
        .filter(|group| matches!(group.decision, Decision::Honoured) && group.routes.contains(&route))
        .flat_map(Group::names);
    honoured.into_iter().find(|known| one_letter_away(name, known))
}

/// Whether one letter more, less, other, or two exchanged make one word of the other.
fn one_letter_away(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let (short, long) = if a.len() <= b.len() { (&a, &b) } else { (&b, &a) };
    if long.len() - short.len() > 1 {
        return false;
    }
    let same = short.iter().zip(long).take_while(|(x, y)| x == y).count();
    let (x, y) = (&short[same..], &long[same..]);
    if x.len() < y.len() {
        return x == &y[1..];
    }
    let Some((_, x_rest)) = x.split_first() else { return true };
    let exchanged = x.len() >= 2 && x[0] == y[1] && x[1] == y[0] && x[2..] == y[2..];
    x_rest == &y[1..] || exchanged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_is_decided_twice() {
        let mut seen = std::collections::HashSet::new();
        for group in groups() {
            assert!(!group.routes.is_empty() && !group.names.is_empty());
            assert!(
                matches!(group.decision, Decision::Honoured) || !group.reason.is_empty(),
                "{}",
                group.names
            );
            for name in group.names() {
                for route in group.routes {
                    assert!(seen.insert((name, route)), "{name} is decided twice for {}", route.name());
                }
            }
        }
    }

    #[test]
    fn letters_apart() {
        for (a, b) in
            [("temperture", "temperature"), ("max_token", "max_tokens"), ("tpo_p", "top_p"), ("seet", "seed")]
        {
            assert!(one_letter_away(a, b) && one_letter_away(b, a), "{a} {b}");
        }
        for (a, b) in [("temprture", "temperature"), ("stop", "top_p"), ("seed", "need_"), ("abcd", "badc")] {
            assert!(!one_letter_away(a, b) && !one_letter_away(b, a), "{a} {b}");
        }
    }
}
