//! Mixtral: Mistral with experts in all layers. A GGUF calls it Llama, with experts.

use super::llama;
use crate::error::Error;
use crate::source::Source;
use crate::spec::Spec;

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let mut spec = llama::read(source)?;
    spec.family = "mixtral";
    llama::experts(source, &mut spec)?;
    Ok(spec)
}
