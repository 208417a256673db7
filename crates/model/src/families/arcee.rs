//! Arcee (AFM): Llama with a feed-forward of two matrices and the square of ReLU between them.

use super::llama;
use crate::error::Error;
use crate::source::{Defaults, HIDDEN_ACT, Source};
use crate::spec::Spec;
use kernels::Activation;

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let defaults = Defaults { eps: Some(1e-5), context: Some(4096), ..Defaults::default() };
    let mut spec = llama::body(source, "arcee", &defaults)?;
    spec.gated = false;
    spec.activation = source.activation(HIDDEN_ACT)?.unwrap_or(Activation::Relu2);
    Ok(spec)
}
