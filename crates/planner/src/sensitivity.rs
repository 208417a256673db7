//! How much an answer moves when one input does.

use serde::Serialize;

use crate::error::Error;

/// What an input is moved by, of itself, either way.
pub const STEP: f64 = 0.2;

/// An input's weight.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Swing {
    /// As the plan names it.
    pub input: String,
    /// What it is.
    pub value: f64,
    /// The answer with a fifth less of it.
    pub low: f64,
    /// The answer with a fifth more.
    pub high: f64,
}

impl Swing {
    /// How far apart the two answers are.
    #[must_use]
    pub fn width(&self) -> f64 {
        (self.high - self.low).abs()
    }
}

/// Moves each input that is not zero by a fifth either way, the others as they are; the widest swing first. Where `answer` fails
/// for a moved input (a utilization above 1), the input stays where it was.
///
/// # Errors
/// What `answer` says of the inputs as they are.
pub fn swings(
    inputs: &[(&str, f64)],
    answer: impl Fn(&[f64]) -> Result<f64, Error>,
) -> Result<Vec<Swing>, Error> {
    let values: Vec<f64> = inputs.iter().map(|(_, value)| *value).collect();
    let base = answer(&values)?;
    let mut all = Vec::new();
    for (index, (name, value)) in inputs.iter().enumerate().filter(|(_, (_, value))| *value != 0.0) {
        let moved = |factor: f64| {
            let mut values = values.clone();
            values[index] = value * factor;
            answer(&values).unwrap_or(base)
        };
        let (low, high) = (moved(1.0 - STEP), moved(1.0 + STEP));
        all.push(Swing { input: (*name).to_owned(), value: *value, low, high });
    }
    all.sort_by(|a, b| b.width().total_cmp(&a.width()));
    Ok(all)
}
