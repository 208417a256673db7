//! One-at-a-time sensitivity analysis: how far a result moves when one input does.

use serde::Serialize;

use crate::error::Error;

/// The relative change of an input, in both directions.
pub const RELATIVE_CHANGE: f64 = 0.2;

/// The results for one input, changed in both directions: a bar of a tornado chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Swing {
    /// The input's name in the plan.
    pub input: String,
    /// The input's value in the plan.
    pub value: f64,
    /// The result with the input reduced by a fifth.
    pub low: f64,
    /// The result with the input increased by a fifth.
    pub high: f64,
}

impl Swing {
    /// The distance between the two results.
    #[must_use]
    pub fn width(&self) -> f64 {
        (self.high - self.low).abs()
    }
}

/// Changes each non-zero input by a fifth in both directions, one at a time. Returns the widest swing first. Where
/// `answer` fails for a changed input (a utilization above 1), the result of the plan is taken.
///
/// # Errors
/// The error of `answer` for the unchanged inputs.
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
        let (low, high) = (moved(1.0 - RELATIVE_CHANGE), moved(1.0 + RELATIVE_CHANGE));
        all.push(Swing { input: (*name).to_owned(), value: *value, low, high });
    }
    all.sort_by(|a, b| b.width().total_cmp(&a.width()));
    Ok(all)
}
