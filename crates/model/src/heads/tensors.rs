//! Adds the matrices and norms of stacks, by their names in a file.

use super::{HeadLinear, HeadNorm, Heads, Step};
use crate::source::Source;

impl Heads {
    /// Adds the matrix `stem.weight` and its bias if the file has one; returns the step. A stem may end in a separator.
    pub(crate) fn linear(&mut self, source: &Source, stem: &str, rows: usize, cols: usize) -> Step {
        let dot = if stem.ends_with(['.', '/']) { "" } else { "." };
        let bias = format!("{stem}{dot}bias");
        let bias = source.has(&bias).then_some(bias);
        self.linears.push(HeadLinear { weight: format!("{stem}{dot}weight"), bias, rows, cols });
        Step::Linear(self.linears.len() - 1)
    }

    /// Adds the layer norm `stem`; returns the step.
    pub(crate) fn layer_norm(&mut self, source: &Source, stem: &str, width: usize, eps: f32) -> Step {
        let old = source.has(&format!("{stem}.gamma"));
        let (weight, bias) = if old { ("gamma", "beta") } else { ("weight", "bias") };
        let bias = format!("{stem}.{bias}");
        let bias = source.has(&bias).then_some(bias);
        self.norms.push(HeadNorm { weight: format!("{stem}.{weight}"), bias, width, eps });
        Step::Norm(self.norms.len() - 1)
    }
}
