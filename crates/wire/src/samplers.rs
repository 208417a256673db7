//! `samplers`: which of them act, as llama.cpp's clients list them.

use serde_json::Value;

use crate::Sampling;
use crate::error::Fault;
use crate::fields::{self, Fields};
use crate::limits;

const NAME: &str = "samplers";

/// A sampler: its name, its letter, and how it is left out.
type Entry = (&'static str, char, fn(&mut Sampling));

/// The samplers in the order in which they act, which is llama.cpp's default.
const ORDER: [Entry; 9] = [
    ("penalties", 'e', |s| {
        s.repetition_penalty = Some(1.0);
        s.frequency_penalty = Some(0.0);
        s.presence_penalty = Some(0.0);
    }),
    ("dry", 'd', |s| s.dry_multiplier = Some(0.0)),
    ("top_n_sigma", 's', |s| s.top_n_sigma = Some(0.0)),
    ("top_k", 'k', |s| s.top_k = Some(0)),
    ("typ_p", 'y', |s| s.typical_p = Some(1.0)),
    ("top_p", 'p', |s| s.top_p = Some(1.0)),
    ("min_p", 'm', |s| s.min_p = Some(0.0)),
    ("xtc", 'x', |s| s.xtc_probability = Some(0.0)),
    ("temperature", 't', |s| {
        s.temperature = Some(1.0);
        s.dynatemp_range = Some(0.0);
    }),
];

/// Turns off what a list leaves out. A list in another order is refused: the order is fixed.
pub(crate) fn apply(body: &Fields<'_>, sampling: &mut Sampling) -> Result<(), Fault> {
    let places = match body.get(NAME) {
        None => return Ok(()),
        Some(Value::String(letters)) if letters.is_empty() => return Ok(()),
        Some(Value::String(letters)) => {
            let letters =
                fields::text(NAME, &Value::from(letters.as_str()), limits::SAMPLERS).map(|_| letters)?;
            letters.chars().map(|letter| place(&letter.to_string(), NAME)).collect::<Result<Vec<_>, _>>()?
        }
        Some(value) => {
            let names = fields::list(NAME, value, limits::SAMPLERS)?;
            let named = |(i, name): (usize, &Value)| {
                let at = format!("{NAME}[{i}]");
                place(fields::text(&at, name, limits::NAME_BYTES)?, &at)
            };
            names.iter().enumerate().map(named).collect::<Result<Vec<_>, _>>()?
        }
    };
    if places.is_empty() {
        return Ok(());
    }
    if !places.is_sorted_by(|a, b| a < b) {
        return Err(Fault::unsupported(
            NAME,
            format!("{NAME} has another order than {}: it is fixed", names()),
        ));
    }
    for (i, (_, _, leave_out)) in ORDER.iter().enumerate() {
        if !places.contains(&i) {
            leave_out(sampling);
        }
    }
    Ok(())
}

fn place(name: &str, at: &str) -> Result<usize, Fault> {
    let known = |(known, letter, _): &Entry| {
        *known == name || letter.to_string() == name || (*known == "typ_p" && name == "typical_p")
    };
    ORDER.iter().position(known).ok_or_else(|| {
        let shown = fields::show(&Value::from(name));
        Fault::unsupported(at, format!("{at} is {shown}; the samplers here are {}", names()))
    })
}

fn names() -> String {
    ORDER.map(|(name, ..)| name).join(", ")
}
