//! `samplers`: which of them act, as llama.cpp's clients list them.

use serde_json::Value;

use crate::error::Fault;
use crate::fields::{self, Fields};
use crate::limits;

const NAME: &str = "samplers";

/// What a list may leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sampler {
    Penalties,
    Dry,
    TopNSigma,
    TopK,
    Typical,
    TopP,
    MinP,
    Xtc,
    Temperature,
}

/// A sampler, its name and its letter.
type Entry = (Sampler, &'static str, char);

/// The samplers in the order in which they act, which is llama.cpp's default.
const ORDER: [Entry; 9] = [
    (Sampler::Penalties, "penalties", 'e'),
    (Sampler::Dry, "dry", 'd'),
    (Sampler::TopNSigma, "top_n_sigma", 's'),
    (Sampler::TopK, "top_k", 'k'),
    (Sampler::Typical, "typ_p", 'y'),
    (Sampler::TopP, "top_p", 'p'),
    (Sampler::MinP, "min_p", 'm'),
    (Sampler::Xtc, "xtc", 'x'),
    (Sampler::Temperature, "temperature", 't'),
];

/// What a list leaves out; nothing without a list. One in another order is refused: the order is fixed.
pub(crate) fn left_out(body: &Fields<'_>) -> Result<Vec<Sampler>, Fault> {
    let places = match body.get(NAME) {
        None => return Ok(Vec::new()),
        Some(Value::String(letters)) if letters.is_empty() => return Ok(Vec::new()),
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
        return Ok(Vec::new());
    }
    if !places.is_sorted_by(|a, b| a < b) {
        return Err(Fault::unsupported(
            NAME,
            format!("{NAME} has another order than {}: it is fixed", names()),
        ));
    }
    let left_out = ORDER.iter().enumerate().filter(|(i, _)| !places.contains(i));
    Ok(left_out.map(|(_, (sampler, ..))| *sampler).collect())
}

fn place(name: &str, at: &str) -> Result<usize, Fault> {
    let known = |(_, known, letter): &Entry| {
        *known == name || letter.to_string() == name || (*known == "typ_p" && name == "typical_p")
    };
    ORDER.iter().position(known).ok_or_else(|| {
        let shown = fields::show(&Value::from(name));
        Fault::unsupported(at, format!("{at} is {shown}; the samplers here are {}", names()))
    })
}

fn names() -> String {
    ORDER.map(|(_, name, _)| name).join(", ")
}
