//! Reads the heads of an encoder from its files.

use super::{Heads, classes, gguf, sentence};
use crate::error::Error;
use crate::source::Source;
use crate::spec::{FeedForward, Spec};

/// Reads the heads of an encoder; `None` if the file is a model that only generates.
///
/// # Errors
/// A module, pooling, activation or label map that is not understood, by name.
pub(crate) fn read(source: &Source, spec: &Spec) -> Result<Option<Box<Heads>>, Error> {
    let mut heads = Heads { pools_prompt: true, ..Heads::default() };
    if source.is_gguf() {
        gguf::read(source, spec, &mut heads)?;
    } else {
        classes::read(source, spec, &mut heads)?;
        sentence::read(source, spec, &mut heads)?;
    }
    if !heads.any() {
        return Ok(None);
    }
    if spec.layers.iter().any(|layer| matches!(layer.feed, FeedForward::Experts(_))) {
        let what = format!("an encoder of the family {}", spec.family);
        return Err(Error::Head { what, problem: "encoders with experts are not built".into() });
    }
    if spec.layers.iter().any(|layer| layer.heads.is_some()) {
        let what = format!("an encoder of the family {}", spec.family);
        return Err(Error::Head {
            what,
            problem: "encoders with heads of their own in a layer are not built".into(),
        });
    }
    if spec.parallel {
        let what = format!("an encoder of the family {}", spec.family);
        return Err(Error::Head { what, problem: "encoders with parallel blocks are not built".into() });
    }
    Ok(Some(Box::new(heads)))
}
